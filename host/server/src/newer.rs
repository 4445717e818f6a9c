//! The executions of a run that came after one that was seen: what a stream or an answer looks
//! for again and again.

use std::ops::ControlFlow;

use windlass_model::{ExecutionNo, InstanceNo};
use windlass_store::rows::ExecutionRow;

use crate::app::AppInner;
use crate::problem::Problem;

/// Executions that are read at once.
const READ: u32 = 200;

/// Hands on the executions of a run that are newer than `last`, the newest first, until `take`
/// breaks. The caller reads the head of the run before: its executions are in the store then.
///
/// # Errors
///
/// The store is in trouble.
pub(crate) fn newer(
    app: &AppInner,
    instance: InstanceNo,
    last: Option<ExecutionNo>,
    mut take: impl FnMut(ExecutionRow) -> ControlFlow<()>,
) -> Result<(), Box<Problem>> {
    let mut before = None;
    loop {
        let page = app.store().executions(instance, before, READ)?;
        let more = page.len() >= READ as usize;
        before = page.last().map(|run| run.no);
        for run in page {
            // Not by comparing: each process counts for itself.
            if last == Some(run.no) || take(run).is_break() {
                return Ok(());
            }
        }
        if !more {
            return Ok(());
        }
    }
}
