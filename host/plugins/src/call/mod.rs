//! Calls of plugins: their arguments, the warm instances that serve them, and their results.

pub(crate) mod alone;
mod answers;
pub(crate) mod check;
mod classify;
pub(crate) mod plugin;
pub(crate) mod question;
pub(crate) mod run;
pub(crate) mod shared;
pub(crate) mod slot;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use windlass_model::{Digest, Failure, LogLine, Payload, TriggerType};

use crate::hold::budget::Hold;
use crate::offer::context::CallContext;
use crate::offer::effects::Effects;

/// Memory of the data of a call, which the caller counts while the call waits.
pub trait Queued: std::fmt::Debug + Send + Sync {
    /// The call begins: from now on the budget of plugins counts the data.
    fn begins(&self);

    /// The call waits again, because it found no memory to grow.
    fn waits(&self);
}

/// One execution of one node.
#[derive(Debug)]
pub struct Call {
    /// The node type, as `package/name`.
    pub node_type: Arc<str>,
    /// The rendered `with` of the node.
    pub config: Payload,
    /// The input.
    pub input: Payload,
    /// The context that the guest can query.
    pub cx: CallContext,
    /// Under [`crate::Isolation::Run`], the call shares instances with calls of the same key.
    pub slot_key: i64,
    /// The time limit. The plugin's limit bounds it, and is used if there is none.
    pub timeout: Option<Duration>,
    /// The memory of the configuration and the input, if the caller counts it. It is dropped when
    /// the call has ended.
    pub queued: Option<Arc<dyn Queued>>,
}

/// One decision about one trigger.
#[derive(Debug)]
pub struct Accept {
    /// The type of the trigger.
    pub kind: TriggerType,
    /// The node of the trigger; none for one that starts the workflow.
    pub node: Option<Arc<str>>,
    /// The payload of the trigger: a JSON object.
    pub payload: Option<Payload>,
    /// The context that the guest can query.
    pub cx: CallContext,
    /// Under [`crate::Isolation::Run`], the call shares instances with calls of the same key.
    pub slot_key: i64,
    /// The time limit. The plugin's limit bounds it, and is used if there is none.
    pub timeout: Option<Duration>,
}

/// The result of a call.
#[derive(Debug)]
pub struct Returned<T> {
    /// The outcome or the failure.
    pub result: Result<T, Failure>,
    /// The log lines of the guest, also of a failed call. The last line says how many were dropped.
    pub logs: Vec<LogLine>,
    /// The blobs that the result refers to; empty if it failed.
    pub blobs: Vec<(Digest, Bytes)>,
    /// The effects that the guest requested, in its order; empty if the call failed.
    pub effects: Effects,
    /// The last progress that the guest reported.
    pub progress: Option<(f64, String)>,
    /// The duration by the clock, without the wait for an instance.
    pub took: Duration,
    /// The linear memory of the instance after the call.
    pub memory_bytes: u64,
    /// Set if the guest was not called: the call has to be repeated after this time, and does not
    /// count as an attempt. The result says why.
    pub put_off: Option<Duration>,
    /// The memory of a large result in the budget, as long as this lives.
    pub hold: Option<Hold>,
}

impl<T> Returned<T> {
    /// The result of a call that did not reach its guest.
    pub(crate) fn refused(failure: Failure) -> Self {
        Self {
            result: Err(failure),
            logs: Vec::new(),
            blobs: Vec::new(),
            effects: Effects::default(),
            progress: None,
            took: Duration::ZERO,
            memory_bytes: 0,
            put_off: None,
            hold: None,
        }
    }

    /// The result of a call that has to be repeated after this time.
    pub(crate) fn put_off(failure: Failure, after: Duration) -> Self {
        Self {
            put_off: Some(after),
            ..Self::refused(failure)
        }
    }
}

/// A consumer's decision about a trigger.
#[derive(Clone, Debug, PartialEq)]
pub enum Disposition {
    /// Execute the node.
    Execute {
        /// A JSON object whose members are assigned to `vars` first.
        vars: Option<Payload>,
    },
    /// The trigger is finished.
    Handled,
    /// Offer it again later.
    Later {
        /// The delay from now.
        after_ms: u64,
    },
    /// Dead-letter it, with this reason.
    Reject(Failure),
}
