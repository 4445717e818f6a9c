//! Renumbers the engine's state of a run for another store.

use bytes::Bytes;
use windlass_engine::{Corrupt, Graph, Open, OpenRow, RunState};
use windlass_model::{ExecutionNo, ScopeNo, Seq, TriggerType};

/// The columns of an engine trigger's row: sequence number, node, type, attempt and due time.
pub(super) type Columns = (Seq, Option<u32>, TriggerType, u32, i64);

/// The state of a run, without open executions.
pub(super) fn state<'a>(
    graph: &Graph,
    head: &[u8],
    scopes: impl IntoIterator<Item = (ScopeNo, &'a [u8])>,
) -> Result<RunState, Corrupt> {
    RunState::decode(graph, head, scopes)
}

/// The open execution of a trigger row, if the engine made the row and it runs a node.
pub(super) fn open(
    graph: &Graph,
    (seq, node, kind, attempt, due_ms): Columns,
    detail: &[u8],
) -> Result<Option<Open>, Corrupt> {
    let Some(node) = node.filter(|_| !seq.is_external()) else {
        return Ok(None);
    };
    let row = OpenRow {
        seq,
        node,
        kind,
        attempt,
        due_ms,
    };
    Open::decode_detail(graph, row, detail).map(Some)
}

/// The stored state and scopes of a run, with the record numbers of the new store.
pub(super) fn renumbered(
    state: &mut RunState,
    scopes: &[ScopeNo],
    to: &mut dyn FnMut(ExecutionNo) -> Option<ExecutionNo>,
) -> Result<(Bytes, Vec<(ScopeNo, Bytes)>), Corrupt> {
    state.renumber(to)?;
    let stored = scopes.iter().map(|no| {
        let bytes = state.stored_scope(*no).ok_or(Corrupt {
            what: "state",
            reason: "a scope belongs to nothing",
        })?;
        Ok((*no, Bytes::from(bytes)))
    });
    let stored = stored.collect::<Result<_, _>>()?;
    Ok((Bytes::from(state.encode()), stored))
}
