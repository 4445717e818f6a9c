//! The waiters for the output of a node, for clients that get it as their answer.
//!
//! A waiter is added before its run is written, so the first completed execution of the node is told by
//! the commit that makes it durable, and nothing is read. A run that leaves this process tells its end
//! or departure to a [`Waiter`](crate::wait::Waiter) of the same client, which then reads the store.
//!
//! A waiter takes about 150 bytes until it is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;
use windlass_model::{ExecutionStatus, Payload, RunId};
use windlass_store::rows::ExecutionRow;

/// The output of a completed execution: none if it has no value.
pub(crate) type Output = Option<Payload>;

/// An awaited output, with its waiter.
#[derive(Debug)]
pub(crate) struct Given {
    output: Output,
    waiter: oneshot::Sender<Output>,
}

/// All waiters of a process.
#[derive(Default)]
pub(crate) struct OutputWaiters(Arc<Waiting>);

#[derive(Default)]
struct Waiting {
    /// The number of waiters, so that a step costs one load while there are none.
    count: AtomicUsize,
    /// The node of each run, and its waiter. A run has one waiter: the request that starts it.
    by_run: Mutex<FxHashMap<RunId, (u32, oneshot::Sender<Output>)>>,
}

/// A waiter, until it is dropped.
pub(crate) struct OutputWaiter {
    run: RunId,
    pub(crate) output: oneshot::Receiver<Output>,
    waiting: Arc<Waiting>,
}

impl OutputWaiters {
    /// Adds a waiter for the first completed execution of a node, in a run that does not exist yet.
    pub(crate) fn add(&self, run: RunId, node: u32) -> OutputWaiter {
        let (sender, output) = oneshot::channel();
        let mut by_run = self.0.by_run.lock();
        by_run.insert(run, (node, sender));
        self.0.count.store(by_run.len(), Ordering::SeqCst);
        OutputWaiter {
            run,
            output,
            waiting: Arc::clone(&self.0),
        }
    }

    /// Takes the waiter of a run whose step has this execution, to be told once the step is durable.
    pub(crate) fn take(&self, run: RunId, executions: &[ExecutionRow]) -> Option<Given> {
        if self.0.count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut by_run = self.0.by_run.lock();
        let (node, _) = by_run.get(&run)?;
        let completed = executions.iter().find(|execution| {
            execution.node == *node && execution.status == ExecutionStatus::Completed
        })?;
        let output = completed.output.clone();
        let (_, waiter) = by_run.remove(&run)?;
        self.0.count.store(by_run.len(), Ordering::SeqCst);
        Some(Given { output, waiter })
    }
}

impl Given {
    /// Tells the output, which is durable.
    pub(crate) fn tell(self) {
        // The client may be gone.
        let _ = self.waiter.send(self.output);
    }
}

impl Drop for OutputWaiter {
    fn drop(&mut self) {
        let mut by_run = self.waiting.by_run.lock();
        self.output.close();
        // Another request may have started the run anew.
        if by_run
            .get(&self.run)
            .is_some_and(|(_, waiter)| waiter.is_closed())
        {
            by_run.remove(&self.run);
        }
        self.waiting.count.store(by_run.len(), Ordering::SeqCst);
    }
}
