//! Instances, triggers and execution records in tables: the columns to select, and how to read
//! them. Claims use these too, so each function is generic over the backend's rows.

use windlass_model::{
    Epoch, ExecutionNo, ExecutionStatus, Incarnation, RunId, RunNo, Seq, Status, Token, TriggerNo,
    TriggerState, TriggerType, Version,
};

use super::Row;
use super::row::{
    bytes, bytes_if_any, digest, flag, int, int_if_any, json_if_any, short, short_bytes, small,
    small_if_any, summed, text, text_if_any, trace_if_any, unsigned, uuid, variant,
};
use crate::error::{Error, Result};
use crate::rows::{ExecutionRow, Parent, RunRow, Suspicion, TriggerRow};
use crate::sums::{Of, of_state};

/// The columns that [`run`] reads.
macro_rules! run_columns {
    () => {
        "i.no, i.id, d.digest, p.digest, o.correlation, o.request, i.status, \
         i.owner, i.epoch, i.version, i.state, i.last_execution, o.created_ms, i.finished_ms, \
         i.failure, o.parent, o.parent_id, o.parent_trigger, o.parent_seq, o.depth, \
         o.root, o.flow, i.extras, o.tags, o.trace{, i.state_sum|} "
    };
}
pub(crate) use run_columns;

/// The documents of the runs `i`, each by its key.
macro_rules! documents_of_runs {
    () => {
        "CROSS JOIN definition d ON d.no = {i.definition|ANY (ARRAY[i.definition])} \
         CROSS JOIN pins p ON p.no = {i.pins|ANY (ARRAY[i.pins])} "
    };
}
pub(crate) use documents_of_runs;

/// Selects the columns that [`run`] reads; `WHERE` follows. The joins are in the order of
/// execution, each by a key.
macro_rules! select_run {
    ($rest:literal) => {
        $crate::sql::sql!(concat!(
            "SELECT ",
            $crate::sql::rows::run_columns!(),
            "FROM run i CROSS JOIN origin o ON o.run = {i.no|ANY (ARRAY[i.no])} ",
            $crate::sql::rows::documents_of_runs!(),
            $rest
        ))
    };
}
pub(crate) use select_run;

/// The column of [`select_run`] with the extras of the run.
#[cfg_attr(
    not(feature = "postgres"),
    expect(dead_code, reason = "of the other backend")
)]
pub(crate) const EXTRAS: usize = 22;

/// The column of [`select_run`] with the checksum of the state.
const STATE_SUM: usize = 25;

/// The columns that [`trigger`] reads.
macro_rules! trigger_columns {
    () => {
        "no, run, seq, kind, node, due_ms, state, token, attempt, deliveries, suspicion, \
         detail, payload, priority"
    };
}
pub(crate) use trigger_columns;

/// Selects the columns that [`trigger`] reads; `WHERE` follows.
macro_rules! select_trigger {
    ($rest:literal) => {
        $crate::sql::sql!(concat!(
            "SELECT ",
            $crate::sql::rows::trigger_columns!(),
            " FROM trigger ",
            $rest
        ))
    };
}
pub(crate) use select_trigger;

/// The bytes of the triggers and scopes of a run, as a sum that [`crate::write::ClaimedRun::bytes`]
/// has for a run that was claimed.
macro_rules! weight_of {
    ($run:literal) => {
        concat!(
            "(SELECT coalesce(sum(768 + octet_length(detail) ",
            "+ coalesce(octet_length(payload), 0)), 0) FROM trigger WHERE run = ",
            $run,
            ") + (SELECT coalesce(sum(768 + octet_length(state)), 0) FROM scope WHERE run = ",
            $run,
            ")"
        )
    };
}
pub(crate) use weight_of;

/// Selects the columns that [`execution`] reads, of the records `r`; the rest follows.
macro_rules! select_execution {
    ($before:literal, $rest:literal) => {
        $crate::sql::sql!(concat!(
            $before,
            "SELECT r.no, r.run, r.previous, r.seq, r.first, r.node, r.kind, r.attempt, ",
            "r.status, r.started_ms, r.took_us, r.failure, r.logs, r.skipped, r.output, ",
            "r.output_meta{, r.sum|, NULL}, r.inputs, r.event ",
            $rest
        ))
    };
}
pub(crate) use select_execution;

pub(crate) fn run(row: &(impl Row + ?Sized)) -> Result<RunRow> {
    let (no, version) = (int(row, 0)?, int(row, 9)?);
    let state = bytes(row, 10)?;
    let parent = parent(row, 15)?;
    let root = int_if_any(row, 20)?.map(RunNo);
    Ok(RunRow {
        sound: row.has_sum(STATE_SUM, &|| Ok(Some(of_state(no, version, &state))))?,
        no: RunNo(no),
        id: RunId(uuid(row, 1)?),
        definition: digest(row, 2)?,
        pins: digest(row, 3)?,
        correlation: text_if_any(row, 4)?,
        request: digest(row, 5)?,
        status: variant(row, 6, Status::from_stored)?,
        owner: int_if_any(row, 7)?.map(Incarnation),
        epoch: Epoch(int(row, 8)?),
        version: Version(version),
        state,
        last_execution: int_if_any(row, 11)?.map(ExecutionNo),
        created_ms: int(row, 12)?,
        finished_ms: int_if_any(row, 13)?,
        failure: json_if_any(row, 14)?,
        tags: json_if_any(row, 23)?.unwrap_or_default(),
        trace: trace_if_any(row, 24)?,
        tree: root.filter(|_| parent.is_none()),
        parent,
    })
}

/// Reads the parent in the columns from `column` on.
pub(crate) fn parent(row: &(impl Row + ?Sized), column: usize) -> Result<Option<Parent>> {
    let Some(run) = int_if_any(row, column)? else {
        return Ok(None);
    };
    // Negative if the child undoes a node: `Parent::stored_depth`.
    let depth = int(row, column + 4)?;
    Ok(Some(Parent {
        run: RunNo(run),
        id: RunId(uuid(row, column + 1)?),
        trigger: TriggerNo(int(row, column + 2)?),
        seq: Seq(unsigned(row, column + 3)?),
        depth: u32::try_from(depth.unsigned_abs()).map_err(|_| Error::corrupt("a depth"))?,
        root: RunNo(int(row, column + 5)?),
        flow: text(row, column + 6)?.into(),
        undoes: depth < 0,
    }))
}

pub(crate) fn trigger(row: &(impl Row + ?Sized)) -> Result<TriggerRow> {
    Ok(TriggerRow {
        no: TriggerNo(int(row, 0)?),
        run: RunNo(int(row, 1)?),
        seq: Seq(unsigned(row, 2)?),
        kind: variant(row, 3, TriggerType::from_stored)?,
        node: small_if_any(row, 4)?,
        due_ms: int(row, 5)?,
        state: variant(row, 6, TriggerState::from_stored)?,
        token: Token(int(row, 7)?),
        attempt: small(row, 8)?,
        deliveries: small(row, 9)?,
        suspicion: suspicion(int(row, 10)?)?,
        detail: bytes(row, 11)?,
        payload: bytes_if_any(row, 12)?,
        priority: short(row, 13)?,
    })
}

pub(crate) fn execution(row: &(impl Row + ?Sized)) -> Result<ExecutionRow> {
    let no = int(row, 0)?;
    Ok(ExecutionRow {
        no: ExecutionNo(no),
        run: RunNo(int(row, 1)?),
        previous: int_if_any(row, 2)?.map(ExecutionNo),
        seq: Seq(unsigned(row, 3)?),
        first: Seq(unsigned(row, 4)?),
        node: small(row, 5)?,
        kind: variant(row, 6, TriggerType::from_stored)?,
        attempt: small(row, 7)?,
        status: variant(row, 8, ExecutionStatus::from_stored)?,
        started_ms: int(row, 9)?,
        took_us: unsigned(row, 10)?,
        failure: json_if_any(row, 11)?,
        logs: json_if_any(row, 12)?.unwrap_or_default(),
        skipped: json_if_any(row, 13)?.unwrap_or_default(),
        output: summed(row, 14, Of::Execution, [no, 0, 0], "")?,
        inputs: short_bytes(row, 17)?,
        event: short_bytes(row, 18)?,
    })
}

fn suspicion(number: i64) -> Result<Suspicion> {
    Suspicion::from_stored(number).ok_or_else(|| Error::corrupt("a suspicion that means nothing"))
}

/// Reads [`super::hot::FORGETTABLE`]: whether the deletion of a run has begun or the run
/// is a tombstone, and its newest record. None: its retention time has not ended.
pub(crate) fn forgettable(
    row: &(impl Row + ?Sized),
    before_ms: i64,
    at_ms: i64,
) -> Result<Option<(bool, Option<i64>)>> {
    let over = match (int_if_any(row, 4)?, int_if_any(row, 1)?) {
        (Some(until_ms), _) => until_ms < at_ms,
        (None, ended_ms) => ended_ms.is_some_and(|ended_ms| ended_ms < before_ms),
    };
    let over = over && variant(row, 0, Status::from_stored)?.is_final();
    let begun = !flag(row, 3)?;
    let last_execution = int_if_any(row, 2)?;
    Ok((over || begun).then_some((begun, last_execution)))
}
