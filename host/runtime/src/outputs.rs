//! The output of a node, for the client that gets it as its answer.
//!
//! The waiter is a part of the run from the request that starts it: the commit that makes the first
//! completed execution of the node durable tells its output, and nothing is read. A step of a run
//! without a waiter looks at one field. A run that leaves this process, or ends without the node, drops
//! its waiter, and the client reads the store.

use tokio::sync::oneshot;
use windlass_model::{ExecutionStatus, Payload};
use windlass_store::rows::ExecutionRow;

/// The output of a completed execution: none if it has no value.
pub(crate) type Output = Option<Payload>;

/// The node of a run whose output a client waits for, and the client.
#[derive(Debug)]
pub(crate) struct Awaited {
    node: u32,
    waiter: oneshot::Sender<Output>,
}

/// An awaited output, with its waiter.
#[derive(Debug)]
pub(crate) struct Given {
    output: Output,
    waiter: oneshot::Sender<Output>,
}

impl Awaited {
    /// The first output of a node, in a run that does not exist yet.
    pub(crate) fn new(node: u32) -> (Self, oneshot::Receiver<Output>) {
        let (waiter, output) = oneshot::channel();
        (Self { node, waiter }, output)
    }

    /// The awaited output, if these executions of a step complete the node. It is told once the step is
    /// durable.
    pub(crate) fn of_step(
        awaited: &mut Option<Self>,
        executions: &[ExecutionRow],
    ) -> Option<Given> {
        let node = awaited.as_ref()?.node;
        let completed = executions.iter().find(|execution| {
            execution.node == node && execution.status == ExecutionStatus::Completed
        })?;
        let waiter = awaited.take()?.waiter;
        let output = completed.output.clone();
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
