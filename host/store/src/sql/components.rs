//! Components of plugins.

use windlass_model::Digest;

use super::row::{bytes, digest, int, text, text_if_any};
use super::transaction::{Done, Transaction};
use super::{Row, Source, params, sql};
use crate::components::{
    ComponentRow, LOOKS, NewComponent, Stored, SweepComponents, check, check_room,
};
use crate::error::Result;
use crate::retention::{SLICE_BYTES, Swept};

/// One process at a time adds and deletes components: generations must be assigned in the order in
/// which components become visible, and the components are counted.
const LOCK: &str = "LOCK TABLE component IN SHARE ROW EXCLUSIVE MODE";

/// Stores a component, unless it exists, and its signature.
pub(crate) async fn keep_component<X: Transaction>(tx: &mut X, new: &NewComponent) -> Done<X, ()> {
    check(new)?;
    tx.lock(LOCK, params![]).await?;
    let there = sql!("SELECT 1 FROM component WHERE digest = ?1");
    let there = tx.one(there, params![new.digest], |_| Ok(())).await?;
    if there.is_some() {
        if let Some(signature) = &new.signature {
            let sql = sql!(
                "UPDATE component SET signature = ?2 WHERE digest = ?1 \
                AND (signature IS NULL OR {?3|?3::boolean} AND signature IS DISTINCT FROM ?2)"
            );
            tx.later(sql, params![new.digest, signature, new.vouched])
                .await?;
        }
        return Ok(());
    }
    let others = sql!("SELECT count(*), coalesce(sum(octet_length(bytes)), 0) FROM component");
    let (count, bytes) = tx
        .row(others, params![], |row| Ok((int(row, 0)?, int(row, 1)?)))
        .await?;
    check_room(new, count.cast_unsigned(), bytes.cast_unsigned())?;
    let sql = sql!(
        "INSERT INTO component (generation, digest, name, version, bytes, signature) \
        SELECT coalesce(max(generation), 0) + 1, ?1, ?2, ?3, ?4, ?5 FROM component"
    );
    let row = params![
        new.digest,
        &new.name,
        &new.version,
        &new.bytes,
        new.signature.as_deref()
    ];
    tx.later(sql, row).await
}

/// Records the used components, and deletes some of the unused ones.
pub(crate) async fn sweep_components<X: Transaction>(
    tx: &mut X,
    sweep: &SweepComponents,
) -> Done<X, Swept> {
    let at_ms = sweep.at_ms;
    tx.lock(LOCK, params![]).await?;
    let note = sql!("UPDATE component SET used_ms = ?2 WHERE digest = ?1");
    for digest in &sweep.used {
        tx.later(note, params![*digest, at_ms]).await?;
    }
    let new = sql!("UPDATE component SET used_ms = ?1 WHERE used_ms IS NULL");
    tx.later(new, params![at_ms]).await?;
    let due = sql!(
        "SELECT digest, octet_length(bytes) FROM component WHERE used_ms < ?1 \
        AND generation < (SELECT max(generation) FROM component) ORDER BY generation LIMIT ?2"
    );
    let due = tx
        .all(due, params![sweep.before_ms, LOOKS], |row| {
            Ok((digest(row, 0)?, int(row, 1)?))
        })
        .await?;
    let (mut count, mut bytes) = (0, 0);
    for (digest, length) in &due {
        // In the format of the pins.
        let text = digest.hex();
        let pinned = sql!(
            "SELECT 1 FROM pins WHERE {instr(json, ?1)|position(?1::bytea IN json)} > 0 LIMIT 1"
        );
        let pinned = tx.one(pinned, params![text.as_bytes()], |_| Ok(())).await?;
        if pinned.is_some() {
            tx.later(note, params![*digest, at_ms]).await?;
            continue;
        }
        let delete = sql!("DELETE FROM component WHERE digest = ?1");
        tx.later(delete, params![*digest]).await?;
        count += 1;
        bytes += length;
        if bytes > SLICE_BYTES {
            break;
        }
    }
    let more = bytes > SLICE_BYTES || due.len() >= LOOKS as usize;
    Ok(Swept { count, more })
}

pub(crate) fn component(tables: &impl Source, digest: Digest) -> Result<Option<Stored>> {
    let sql = sql!("SELECT bytes, signature FROM component WHERE digest = ?1");
    tables.one(sql, params![digest], |row| {
        Ok(Stored {
            bytes: bytes(row, 0)?,
            signature: text_if_any(row, 1)?,
        })
    })
}

/// Selects the columns that [`component_of`] reads; `WHERE` follows.
macro_rules! select_component {
    ($rest:literal) => {
        sql!(concat!(
            "SELECT digest, name, version, generation, signature FROM component ",
            $rest
        ))
    };
}

fn component_of(row: &dyn Row) -> Result<ComponentRow> {
    Ok(ComponentRow {
        digest: digest(row, 0)?,
        name: text(row, 1)?,
        version: text(row, 2)?,
        generation: int(row, 3)?,
        signature: text_if_any(row, 4)?.map(|text| Digest::of(text.as_bytes())),
    })
}

pub(crate) fn component_row(tables: &impl Source, digest: Digest) -> Result<Option<ComponentRow>> {
    let sql = select_component!("WHERE digest = ?1");
    tables.one(sql, params![digest], component_of)
}

pub(crate) fn components(
    tables: &impl Source,
    after: i64,
    limit: u32,
) -> Result<Vec<ComponentRow>> {
    let sql = select_component!("WHERE generation > ?1 ORDER BY generation LIMIT ?2");
    tables.all(sql, params![after, limit], component_of)
}
