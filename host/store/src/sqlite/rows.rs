//! How rows lie in the file: the columns to select, and what they make.

use rusqlite::{Error as Fault, Row};
use uuid::Uuid;
use windlass_model::{
    Epoch, Incarnation, InstanceId, InstanceNo, RunNo, RunStatus, Seq, Status, Token, TriggerNo,
    TriggerState, TriggerType, Version,
};

use super::sums::{Of, of_state};
use super::values::{bytes, digest, read_json, read_summed, some_bytes, unsigned, variant};
use crate::rows::{InstanceRow, Parent, RunRow, Suspicion, TriggerRow};

/// Selects what [`instance`] reads; to be followed by `WHERE`.
/// The joins are in the order in which they are to be done.
macro_rules! select_instance {
    ($rest:literal) => {
        concat!(
            "SELECT i.no, i.id, d.digest, p.digest, o.correlation, o.request, i.status, ",
            "i.owner, i.epoch, i.version, i.state, i.last_run, o.created_ms, i.finished_ms, ",
            "i.failure, o.parent, o.parent_id, o.parent_trigger, o.parent_seq, o.depth, i.state_sum FROM instance i CROSS JOIN origin o ON o.instance = i.no ",
            "CROSS JOIN definition d ON d.no = i.definition ",
            "CROSS JOIN pins p ON p.no = i.pins ",
            $rest
        )
    };
}
pub(super) use select_instance;

/// Selects what [`trigger`] reads; to be followed by `WHERE`.
macro_rules! select_trigger {
    ($rest:literal) => {
        concat!(
            "SELECT no, instance, seq, kind, node, due_ms, state, token, attempt, deliveries, ",
            "suspicion, detail, payload, priority FROM trigger ",
            $rest
        )
    };
}
pub(super) use select_trigger;

/// Selects what [`run`] reads; to be followed by `WHERE`.
macro_rules! select_run {
    ($rest:literal) => {
        concat!(
            "SELECT no, instance, previous, seq, first, node, kind, attempt, status, ",
            "started_ms, took_us, failure, logs, skipped, output, output_meta, sum FROM run ",
            $rest
        )
    };
}
pub(super) use select_run;

pub(super) fn instance(row: &Row<'_>) -> Result<InstanceRow, Fault> {
    let (no, version) = (row.get(0)?, row.get(9)?);
    let state = some_bytes(row, 10)?;
    let sum: Option<u32> = row.get(20)?;
    Ok(InstanceRow {
        sound: sum.is_none_or(|sum| sum == of_state(no, version, &state)),
        no: InstanceNo(no),
        id: InstanceId(Uuid::from_bytes(row.get(1)?)),
        definition: digest(row, 2)?,
        pins: digest(row, 3)?,
        correlation: row.get(4)?,
        request: digest(row, 5)?,
        status: variant(row, 6, Status::from_stored)?,
        owner: row.get::<_, Option<i64>>(7)?.map(Incarnation),
        epoch: Epoch(row.get(8)?),
        version: Version(version),
        state,
        last_run: row.get::<_, Option<i64>>(11)?.map(RunNo),
        created_ms: row.get(12)?,
        finished_ms: row.get(13)?,
        failure: read_json(row, 14)?,
        parent: parent(row, 15)?,
    })
}

/// The parent in the columns from `column` on.
pub(super) fn parent(row: &Row<'_>, column: usize) -> Result<Option<Parent>, Fault> {
    let Some(instance) = row.get(column)? else {
        return Ok(None);
    };
    Ok(Some(Parent {
        instance: InstanceNo(instance),
        id: InstanceId(Uuid::from_bytes(row.get(column + 1)?)),
        trigger: TriggerNo(row.get(column + 2)?),
        seq: Seq(unsigned(row, column + 3)?),
        depth: row.get(column + 4)?,
    }))
}

pub(super) fn trigger(row: &Row<'_>) -> Result<TriggerRow, Fault> {
    Ok(TriggerRow {
        no: TriggerNo(row.get(0)?),
        instance: InstanceNo(row.get(1)?),
        seq: Seq(unsigned(row, 2)?),
        kind: variant(row, 3, TriggerType::from_stored)?,
        node: row.get(4)?,
        due_ms: row.get(5)?,
        state: variant(row, 6, TriggerState::from_stored)?,
        token: Token(row.get(7)?),
        attempt: row.get(8)?,
        deliveries: row.get(9)?,
        suspicion: variant(row, 10, suspicion)?,
        detail: some_bytes(row, 11)?,
        payload: bytes(row, 12)?,
        priority: row.get(13)?,
    })
}

pub(super) fn run(row: &Row<'_>) -> Result<RunRow, Fault> {
    let no = row.get(0)?;
    Ok(RunRow {
        no: RunNo(no),
        instance: InstanceNo(row.get(1)?),
        previous: row.get::<_, Option<i64>>(2)?.map(RunNo),
        seq: Seq(unsigned(row, 3)?),
        first: Seq(unsigned(row, 4)?),
        node: row.get(5)?,
        kind: variant(row, 6, TriggerType::from_stored)?,
        attempt: row.get(7)?,
        status: variant(row, 8, RunStatus::from_stored)?,
        started_ms: row.get(9)?,
        took_us: unsigned(row, 10)?,
        failure: read_json(row, 11)?,
        logs: read_json(row, 12)?.unwrap_or_default(),
        skipped: read_json(row, 13)?.unwrap_or_default(),
        output: read_summed(row, 14, Of::Run, [no, 0, 0], "")?,
    })
}

fn suspicion(number: u8) -> Option<Suspicion> {
    [Suspicion::None, Suspicion::Suspect, Suspicion::Marked]
        .get(usize::from(number))
        .copied()
}
