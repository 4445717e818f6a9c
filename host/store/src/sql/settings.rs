//! Settings of the whole system by operators.

use bytes::Bytes;

use super::row::bytes;
use super::transaction::{Done, Transaction};
use super::{Source, params, sql};
use crate::error::Result;
use crate::settings::Setting;

/// Stores or deletes a setting.
pub(crate) async fn keep_setting<X: Transaction>(tx: &mut X, setting: &Setting) -> Done<X, ()> {
    setting.check()?;
    let name = &setting.name;
    match &setting.value {
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
    tx.turn().await
}

pub(crate) fn setting(tables: &impl Source, name: &str) -> Result<Option<Bytes>> {
    let sql = sql!("SELECT value FROM setting WHERE name = ?1");
    tables.one(sql, params![name], |row| bytes(row, 0))
}
