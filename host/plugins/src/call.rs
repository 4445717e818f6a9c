//! The arguments and the result of a call of a plugin.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use windlass_model::secrets::Reference;
use windlass_model::stimulus::WaitId;
use windlass_model::{Digest, Failure, LogLine, Payload, RunId, ScopeNo, Seq, TriggerType};

use crate::budget::Hold;
use crate::secrets::Secrets;

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

/// The context of a call that a guest can query. Nothing of it is formatted before a query.
#[derive(Clone)]
pub struct CallContext {
    /// The run.
    pub run: RunId,
    /// The name of the workflow.
    pub workflow: Arc<str>,
    /// The name of the workflow with which the run shares places: that of the root of its tree.
    pub flow: Arc<str>,
    /// The node that runs.
    pub node: Option<Arc<str>>,
    /// The priority of the trigger, which counts where calls wait for their turn.
    pub priority: i32,
    /// The trigger of this call.
    pub seq: Seq,
    /// The first trigger of this node run: the idempotency key is made of it.
    pub first: Seq,
    /// How often the node was called again after it suspended or asked for another call. 0 at
    /// first.
    pub phase: u32,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The correlation id of the instance.
    pub correlation: Option<Arc<str>>,
    /// W3C trace context.
    pub trace_parent: Option<Arc<str>>,
    /// Why the node is called again; none for the first call.
    pub resumption: Option<Arc<Resumption>>,
    /// The data of the workflow. None: the guest cannot read any.
    pub memory: Option<Arc<dyn Memory>>,
    /// The store of large payloads. None: there is none.
    pub blobs: Option<Arc<dyn Blobs>>,
    /// Makes the tokens of bookmarks. None: this host has no bookmarks.
    pub tokens: Option<Arc<dyn ResumeTokens>>,
    /// The secrets that the node's definition refers to.
    pub secrets: Arc<[Reference]>,
    /// The scope of the node and the number of its visit, if links of the node are made before it
    /// waits.
    pub visit: Option<(ScopeNo, u32)>,
    /// Cancels the call.
    pub cancel: Cancel,
}

impl CallContext {
    /// The context of a first call, without anything that a guest could read.
    pub fn new(run: RunId, workflow: Arc<str>, seq: Seq) -> Self {
        Self {
            run,
            flow: Arc::clone(&workflow),
            workflow,
            node: None,
            priority: 0,
            seq,
            first: seq,
            phase: 0,
            attempt: 1,
            correlation: None,
            trace_parent: None,
            resumption: None,
            memory: None,
            blobs: None,
            tokens: None,
            visit: None,
            secrets: Arc::default(),
            cancel: Cancel::default(),
        }
    }

    /// The wait that begins if the call suspends the node.
    pub fn wait(&self) -> WaitId {
        match (self.visit, &self.node) {
            (Some((scope, visit)), Some(node)) => {
                WaitId::of_visit(self.run, scope, node, visit, self.phase)
            }
            _ => WaitId::of_run(self.run, self.first, self.phase),
        }
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("run", &self.run)
            .field("workflow", &self.workflow)
            .field("node", &self.node)
            .field("seq", &self.seq)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// Why a node is called again, and the state that it left.
#[derive(Clone, Debug)]
pub struct Resumption {
    /// Why.
    pub reason: Reason,
    /// The state that the node returned last.
    pub state: Option<Payload>,
}

/// Why a node is called again.
#[derive(Clone, Debug)]
pub enum Reason {
    /// It asked to be called again.
    Again,
    /// A bookmark was resumed.
    Resumed {
        /// Its name.
        bookmark: String,
        /// The input of the resumption.
        input: Payload,
        /// The metadata of the bookmark.
        metadata: Option<Payload>,
    },
    /// The bookmark of this name expired.
    Expired(String),
    /// The node was cancelled and may clean up.
    Cancelled,
}

/// Reads the data of the workflow. May block.
pub trait Memory: Send + Sync {
    /// The value at a path like `vars.total` or `nodes.sum.output.0`.
    ///
    /// # Errors
    ///
    /// [`MemoryError`], which the guest gets.
    fn get(&self, path: &str) -> Result<Option<Payload>, MemoryError>;
}

/// Why the data could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The path does not begin with `input`, `vars` or `nodes`.
    #[error("{0}")]
    InvalidPath(String),
    /// Any other reason.
    #[error("{0}")]
    Other(String),
}

/// Reads large payloads. May block.
pub trait Blobs: Send + Sync {
    /// The length of a blob in bytes, or none if there is no such blob.
    ///
    /// # Errors
    ///
    /// The store fails.
    fn size(&self, digest: &Digest) -> Result<Option<u64>, BlobError>;

    /// At most `length` bytes from `offset`; none if there is no such blob.
    ///
    /// # Errors
    ///
    /// The store fails.
    fn read(&self, digest: &Digest, offset: u64, length: u32) -> Result<Option<Bytes>, BlobError>;
}

/// Makes the tokens that resume bookmarks. Called on the guest's thread: it may read a small file
/// once, and must not block otherwise.
pub trait ResumeTokens: Send + Sync {
    /// The token of a bookmark of a wait: always the same, and impossible to guess. None: no token
    /// can be made.
    fn token(&self, wait: WaitId, bookmark: &str) -> Option<String>;
}

/// The store of blobs failed; the guest gets the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BlobError(pub String);

/// Cancels calls. Clones share the flag.
#[derive(Clone, Default)]
pub struct Cancel(Arc<CancelState>);

#[derive(Default)]
struct CancelState {
    flag: AtomicBool,
    notify: tokio::sync::Notify,
}

impl Cancel {
    /// Cancels every call that holds a clone, waiting ones included. A computing guest notices it
    /// after at most one tick, 10 ms.
    pub fn cancel(&self) {
        self.0.flag.store(true, Ordering::Release);
        self.0.notify.notify_waiters();
    }

    /// Whether `cancel` was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.flag.load(Ordering::Acquire)
    }

    pub(crate) async fn cancelled(&self) {
        let notified = self.0.notify.notified();
        tokio::pin!(notified);
        // Register before reading the flag, so that a cancel in between is not missed.
        notified.as_mut().enable();
        if !self.is_cancelled() {
            notified.await;
        }
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancel").field(&self.is_cancelled()).finish()
    }
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

/// Effects that a guest requests: they are part of the commit of its call, or dropped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// Stimuli to send.
    pub sent: Vec<SentStimulus>,
    /// Triggers for its own run.
    pub scheduled: Vec<ScheduledTrigger>,
}

impl Effects {
    /// Removes secrets.
    pub(crate) fn clean(&mut self, secrets: &Secrets) {
        if secrets.is_empty() {
            return;
        }
        for sent in &mut self.sent {
            secrets.clean_payload(&mut sent.input);
            secrets.clean_value(&mut sent.matches);
        }
        for scheduled in &mut self.scheduled {
            if let Some(vars) = &mut scheduled.vars {
                secrets.clean_payload(vars);
            }
        }
    }

    /// Whether there are no effects.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.scheduled.is_empty()
    }
}

/// A stimulus that a guest sends. Its payload is JSON, or a blob that the guest was given.
#[derive(Clone, Debug, PartialEq)]
pub struct SentStimulus {
    /// The name of the event; of the kind [`windlass_model::valid::EVENT`].
    pub name: String,
    /// The match, which is compared as canonical JSON.
    pub matches: serde_json::Value,
    /// Only for runs that wait with this correlation.
    pub correlation: Option<String>,
    /// Only for this run.
    pub run: Option<RunId>,
    /// The input.
    pub input: Payload,
}

/// A trigger that a guest schedules for its own run.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledTrigger {
    /// The node to run, by name. The caller checks whether the workflow has it.
    pub node: String,
    /// The due time, in epoch milliseconds.
    pub at_ms: i64,
    /// A JSON object whose members are assigned to `vars` first.
    pub vars: Option<Payload>,
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
