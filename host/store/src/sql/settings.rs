//! What operators have decided about the system as a whole.

use super::transaction::{Done, Transaction};
use super::{params, sql};
use crate::settings::check;
use crate::write::Wrote;

/// Keeps a decision, or forgets it.
pub(crate) async fn set<X: Transaction>(
    tx: &mut X,
    name: &str,
    value: Option<&[u8]>,
) -> Done<X, Wrote> {
    check(name, value)?;
    match value {
        Some(value) => {
            let sql = sql!(
                "INSERT INTO setting (name, value) VALUES (?1, ?2) \
                ON CONFLICT (name) DO UPDATE SET value = excluded.value"
            );
            tx.later(sql, params![name, value]).await?;
        }
        None => {
            let sql = sql!("DELETE FROM setting WHERE name = ?1");
            tx.later(sql, params![name]).await?;
        }
    }
    tx.turn().await?;
    Ok(Wrote::Done)
}
