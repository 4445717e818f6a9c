//! How rows lie in the tables: the columns to select, and what they make.

use tokio_postgres::Row;
use windlass_model::{
    Epoch, Incarnation, InstanceId, InstanceNo, RunNo, RunStatus, Seq, Status, Token, TriggerNo,
    TriggerState, TriggerType, Version,
};

use super::values::{
    bytes, digest, get, read_json, read_payload, small, some_bytes, unsigned, uuid, variant,
};
use crate::error::Result;
use crate::rows::{InstanceRow, Parent, RunRow, Suspicion, TriggerRow};

/// Selects what [`instance`] reads; to be followed by `WHERE`.
macro_rules! select_instance {
    ($rest:literal) => {
        concat!(
            "SELECT i.no, i.id, d.digest, p.digest, o.correlation, o.request, i.status, ",
            "i.owner, i.epoch, i.version, i.state, i.last_run, o.created_ms, i.finished_ms, ",
            "i.failure, o.parent, o.parent_id, o.parent_trigger, o.parent_seq, o.depth, ",
            "i.extras FROM instance i JOIN origin o ON o.instance = ANY (ARRAY[i.no]) ",
            "JOIN definition d ON d.no = ANY (ARRAY[i.definition]) ",
            "JOIN pins p ON p.no = ANY (ARRAY[i.pins]) ",
            $rest
        )
    };
}
pub(super) use select_instance;

/// The columns that [`trigger`] reads.
macro_rules! trigger_columns {
    () => {
        "no, instance, seq, kind, node, due_ms, state, token, attempt, deliveries, suspicion, \
         detail, payload, priority"
    };
}
pub(super) use trigger_columns;

/// Selects what [`trigger`] reads; to be followed by `WHERE`.
macro_rules! select_trigger {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            $crate::postgres::rows::trigger_columns!(),
            " FROM trigger ",
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
            "started_ms, took_us, failure, logs, skipped, output, output_meta FROM run ",
            $rest
        )
    };
}
pub(super) use select_run;

/// The column of [`select_instance`] with what hangs on the instance.
pub(super) const EXTRAS: usize = 20;

pub(super) fn instance(row: &Row) -> Result<InstanceRow> {
    Ok(InstanceRow {
        sound: true,
        no: InstanceNo(get(row, 0)?),
        id: InstanceId(uuid(row, 1)?),
        definition: digest(row, 2)?,
        pins: digest(row, 3)?,
        correlation: get(row, 4)?,
        request: digest(row, 5)?,
        status: variant(row, 6, Status::from_stored)?,
        owner: get::<Option<i64>>(row, 7)?.map(Incarnation),
        epoch: Epoch(get(row, 8)?),
        version: Version(get(row, 9)?),
        state: some_bytes(row, 10)?,
        last_run: get::<Option<i64>>(row, 11)?.map(RunNo),
        created_ms: get(row, 12)?,
        finished_ms: get(row, 13)?,
        failure: read_json(row, 14)?,
        parent: parent(row, 15)?,
    })
}

/// The parent in the columns from `column` on.
pub(super) fn parent(row: &Row, column: usize) -> Result<Option<Parent>> {
    let Some(instance) = get(row, column)? else {
        return Ok(None);
    };
    Ok(Some(Parent {
        instance: InstanceNo(instance),
        id: InstanceId(uuid(row, column + 1)?),
        trigger: TriggerNo(get(row, column + 2)?),
        seq: Seq(unsigned(row, column + 3)?),
        depth: small(row, column + 4)?,
    }))
}

pub(super) fn trigger(row: &Row) -> Result<TriggerRow> {
    Ok(TriggerRow {
        no: TriggerNo(get(row, 0)?),
        instance: InstanceNo(get(row, 1)?),
        seq: Seq(unsigned(row, 2)?),
        kind: variant(row, 3, TriggerType::from_stored)?,
        node: optional_small(row, 4)?,
        due_ms: get(row, 5)?,
        state: variant(row, 6, TriggerState::from_stored)?,
        token: Token(get(row, 7)?),
        attempt: small(row, 8)?,
        deliveries: small(row, 9)?,
        suspicion: variant(row, 10, suspicion)?,
        detail: some_bytes(row, 11)?,
        payload: bytes(row, 12)?,
        priority: get(row, 13)?,
    })
}

pub(super) fn run(row: &Row) -> Result<RunRow> {
    Ok(RunRow {
        no: RunNo(get(row, 0)?),
        instance: InstanceNo(get(row, 1)?),
        previous: get::<Option<i64>>(row, 2)?.map(RunNo),
        seq: Seq(unsigned(row, 3)?),
        first: Seq(unsigned(row, 4)?),
        node: small(row, 5)?,
        kind: variant(row, 6, TriggerType::from_stored)?,
        attempt: small(row, 7)?,
        status: variant(row, 8, RunStatus::from_stored)?,
        started_ms: get(row, 9)?,
        took_us: unsigned(row, 10)?,
        failure: read_json(row, 11)?,
        logs: read_json(row, 12)?.unwrap_or_default(),
        skipped: read_json(row, 13)?.unwrap_or_default(),
        output: read_payload(row, 14)?,
    })
}

/// A number of a node, or of anything else that is small and may be absent.
pub(super) fn optional_small(row: &Row, column: usize) -> Result<Option<u32>> {
    get::<Option<i64>>(row, column)?
        .map(|number| {
            u32::try_from(number).map_err(|_| crate::Error::corrupt("a number that is too large"))
        })
        .transpose()
}

fn suspicion(number: u8) -> Option<Suspicion> {
    [Suspicion::None, Suspicion::Suspect, Suspicion::Marked]
        .get(usize::from(number))
        .copied()
}
