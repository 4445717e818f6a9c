//! What goes into a call of a plugin, and what comes back.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use windlass_model::secrets::Reference;
use windlass_model::stimulus::WaitId;
use windlass_model::{Digest, Failure, InstanceId, LogLine, Payload, ScopeNo, Seq, TriggerType};

use crate::budget::Hold;
use crate::secrets::Secrets;

/// One execution of one node.
#[derive(Debug)]
pub struct Call {
    /// Which node type, as `package/name`.
    pub node_type: Arc<str>,
    /// The rendered `with` of the node.
    pub config: Payload,
    /// What it works on.
    pub input: Payload,
    /// What the guest can ask about.
    pub cx: CallContext,
    /// Whose instances it may share under [`crate::Isolation::Run`].
    pub slot_key: i64,
    /// How long it may take. The plugin's limit bounds it, and is used if there is none.
    pub timeout: Option<Duration>,
}

/// One decision about one trigger.
#[derive(Debug)]
pub struct Accept {
    /// What brought the trigger about.
    pub kind: TriggerType,
    /// The node that it is aimed at; none starts the workflow.
    pub node: Option<Arc<str>>,
    /// The data that came with it: a JSON object.
    pub payload: Option<Payload>,
    /// What the guest can ask about.
    pub cx: CallContext,
    /// Whose instances it may share under [`crate::Isolation::Run`].
    pub slot_key: i64,
    /// How long it may take. The plugin's limit bounds it, and is used if there is none.
    pub timeout: Option<Duration>,
}

/// What a guest can ask about the call. Nothing of it is formatted before it is asked for.
#[derive(Clone)]
pub struct CallContext {
    /// The workflow instance.
    pub instance: InstanceId,
    /// The name of the workflow.
    pub workflow: Arc<str>,
    /// The node that runs.
    pub node: Option<Arc<str>>,
    /// The trigger that led here.
    pub seq: Seq,
    /// The first trigger of this node run: the idempotency key is made of it.
    pub first: Seq,
    /// How often the node was called again after it suspended or asked for it. 0 at first.
    pub phase: u32,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// What the instance is about.
    pub correlation: Option<Arc<str>>,
    /// W3C trace context.
    pub trace_parent: Option<Arc<str>>,
    /// Why a node is called again.
    pub resumption: Option<Arc<Resumption>>,
    /// What the workflow knows. None: nothing can be read.
    pub memory: Option<Arc<dyn Memory>>,
    /// Where large payloads are. None: there are none.
    pub blobs: Option<Arc<dyn Blobs>>,
    /// Makes the tokens of bookmarks. None: whoever hosts this has no bookmarks.
    pub tokens: Option<Arc<dyn ResumeTokens>>,
    /// The secrets that the node's definition refers to.
    pub secrets: Arc<[Reference]>,
    /// The scope of the node and which visit of it this is, where links of the node are made
    /// before it waits.
    pub visit: Option<(ScopeNo, u32)>,
    /// Ends the call from outside.
    pub cancel: Cancel,
}

impl CallContext {
    /// The wait that the call comes to, if it comes to one.
    pub fn wait(&self) -> WaitId {
        match (self.visit, &self.node) {
            (Some((scope, visit)), Some(node)) => {
                WaitId::of_visit(self.instance, scope, node, visit, self.phase)
            }
            _ => WaitId::of_run(self.instance, self.first, self.phase),
        }
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("instance", &self.instance)
            .field("workflow", &self.workflow)
            .field("node", &self.node)
            .field("seq", &self.seq)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// Why a node is called again, and what it left.
#[derive(Clone, Debug)]
pub struct Resumption {
    /// Why.
    pub reason: Reason,
    /// What it left when it returned last.
    pub state: Option<Payload>,
}

/// Why a node is called again.
#[derive(Clone, Debug)]
pub enum Reason {
    /// It asked to be.
    Again,
    /// A bookmark was resumed.
    Resumed {
        /// Its name.
        bookmark: String,
        /// What came with the resumption.
        input: Payload,
        /// What the node attached to it.
        metadata: Option<Payload>,
    },
    /// The bookmark of this name expired.
    Expired(String),
    /// It was cancelled and may clean up.
    Cancelled,
}

/// Reads what the workflow knows. Called where blocking is allowed.
pub trait Memory: Send + Sync {
    /// The value at a path like `vars.total` or `nodes.sum.output.0`.
    ///
    /// # Errors
    ///
    /// [`MemoryError`], as the guest is told.
    fn get(&self, path: &str) -> Result<Option<Payload>, MemoryError>;
}

/// Why nothing could be read from memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The path does not begin with `input`, `vars` or `nodes`.
    #[error("{0}")]
    InvalidPath(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// Reads large payloads. Called where blocking is allowed.
pub trait Blobs: Send + Sync {
    /// The length of a blob in bytes, or none if there is no such blob.
    ///
    /// # Errors
    ///
    /// If the store cannot say.
    fn size(&self, digest: &Digest) -> Result<Option<u64>, BlobError>;

    /// At most `length` bytes from `offset`; none if there is no such blob.
    ///
    /// # Errors
    ///
    /// If the store cannot say.
    fn read(&self, digest: &Digest, offset: u64, length: u32) -> Result<Option<Bytes>, BlobError>;
}

/// Makes the tokens by which bookmarks are resumed. Called on the guest's thread: it may read a
/// small file once, and must not block otherwise.
pub trait ResumeTokens: Send + Sync {
    /// The token of a bookmark of a wait: the same whenever it is asked for, and not to be
    /// guessed. None: none can be made.
    fn token(&self, wait: WaitId, bookmark: &str) -> Option<String>;
}

/// The store of blobs failed; the text is shown to the guest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BlobError(pub String);

/// Ends calls from outside. Clones end together.
#[derive(Clone, Default)]
pub struct Cancel(Arc<CancelState>);

#[derive(Default)]
struct CancelState {
    flag: AtomicBool,
    notify: tokio::sync::Notify,
}

impl Cancel {
    /// Ends every call that holds a clone, those that wait included. It takes a tick, 10 ms,
    /// until a guest that computes notices.
    pub fn cancel(&self) {
        self.0.flag.store(true, Ordering::Release);
        self.0.notify.notify_waiters();
    }

    /// Whether it has been called.
    pub fn is_cancelled(&self) -> bool {
        self.0.flag.load(Ordering::Acquire)
    }

    pub(crate) async fn cancelled(&self) {
        let notified = self.0.notify.notified();
        tokio::pin!(notified);
        // Registered before the flag is read, so that a cancel in between is not missed.
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

/// What a call came to.
#[derive(Debug)]
pub struct Returned<T> {
    /// How it ended.
    pub result: Result<T, Failure>,
    /// What the guest logged, whatever the result. The last line says how many were dropped.
    pub logs: Vec<LogLine>,
    /// The blobs that the result refers to; empty if it failed.
    pub blobs: Vec<(Digest, Bytes)>,
    /// What the guest asked the host to do, in its order; empty if the call failed.
    pub effects: Effects,
    /// How far the guest said it is, the last time it said so.
    pub progress: Option<(f64, String)>,
    /// How long it took by the clock, waiting for a free instance not included.
    pub took: Duration,
    /// The linear memory of the instance after the call.
    pub memory_bytes: u64,
    /// Set if the guest was not called, and can be after this time: the call is to be made
    /// again then, and is no attempt. The result says why.
    pub put_off: Option<Duration>,
    /// What a large result counts in the budget of memory, as long as this lives.
    pub hold: Option<Hold>,
}

impl<T> Returned<T> {
    /// A call that never reached its guest.
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

    /// A call that is to be made again after this time.
    pub(crate) fn put_off(failure: Failure, after: Duration) -> Self {
        Self {
            put_off: Some(after),
            ..Self::refused(failure)
        }
    }
}

/// What a guest asks the host to do: part of the commit of its call, or nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// Stimuli to send.
    pub sent: Vec<SentStimulus>,
    /// Triggers for its own instance.
    pub scheduled: Vec<ScheduledTrigger>,
}

impl Effects {
    /// Takes secrets out.
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

    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.scheduled.is_empty()
    }
}

/// A stimulus, as a guest sends it. Its payload is JSON, or was given to the guest.
#[derive(Clone, Debug, PartialEq)]
pub struct SentStimulus {
    /// What happened; of the kind [`windlass_model::valid::EVENT`].
    pub name: String,
    /// What it is about, to be matched as canonical JSON.
    pub matches: serde_json::Value,
    /// Narrows it.
    pub correlation: Option<String>,
    /// Narrows it to one instance.
    pub instance: Option<InstanceId>,
    /// The data that comes with it.
    pub input: Payload,
}

/// A trigger for the own instance, as a guest schedules it.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledTrigger {
    /// The node to run, by name. Whether the workflow has it is for the caller to say.
    pub node: String,
    /// When, in epoch milliseconds.
    pub at_ms: i64,
    /// A JSON object whose members are assigned to `vars` first.
    pub vars: Option<Payload>,
}

/// What becomes of a trigger.
#[derive(Clone, Debug, PartialEq)]
pub enum Disposition {
    /// Go on.
    Execute {
        /// A JSON object whose members are assigned to `vars` first.
        vars: Option<Payload>,
    },
    /// Nothing is left to do.
    Handled,
    /// Offer it again later.
    Later {
        /// How long from now.
        after_ms: u64,
    },
    /// Make it a dead letter.
    Reject {
        /// Why.
        reason: String,
    },
}
