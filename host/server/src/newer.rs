//! The executions of a run after a known one, which streams and answers ask for repeatedly.

use std::ops::ControlFlow;

use windlass_model::{ExecutionNo, RunNo};
use windlass_store::rows::ExecutionRow;
use windlass_store::{fewer, passing};

use crate::app::AppInner;
use crate::problem::Problem;

/// Executions per read.
const READ: u32 = 50;

/// The bytes of executions per read, unless it is one.
const READ_BYTES: u64 = 256 * 1024;

/// Passes the executions of a run that are newer than `last` to `take`, the newest first, until
/// `take` breaks. The caller reads the head of the run before: then its executions are in the
/// store.
///
/// # Errors
///
/// The store fails.
pub(crate) fn newer(
    app: &AppInner,
    run: RunNo,
    last: Option<ExecutionNo>,
    mut take: impl FnMut(ExecutionRow) -> ControlFlow<()>,
) -> Result<(), Box<Problem>> {
    let mut before = None;
    loop {
        // Each page is dropped before the next one is read.
        let (page, cut) = passing(u64::MAX, || {
            fewer(READ_BYTES, READ, |limit| {
                app.store().executions(run, before, limit)
            })
        })?;
        let more = cut || page.len() >= READ as usize;
        before = page.last().map(|execution| execution.no);
        for execution in page {
            // Compare for equality, not order: each process numbers its executions by itself.
            if last == Some(execution.no) || take(execution).is_break() {
                return Ok(());
            }
        }
        if !more {
            return Ok(());
        }
    }
}
