//! The context of a call, which its guest can query.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use windlass_fair::Caller;
use windlass_model::secrets::Reference;
use windlass_model::stimulus::WaitId;
use windlass_model::{Digest, Payload, RunId, ScopeNo, Seq, TraceContext};

use crate::hold::budget::core::PluginNo;
use crate::hold::places::TurnCaller;

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
    /// The trace in which the node runs.
    pub trace: Option<TraceContext>,
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
            trace: None,
            resumption: None,
            memory: None,
            blobs: None,
            tokens: None,
            visit: None,
            secrets: Arc::default(),
            cancel: Cancel::default(),
        }
    }

    /// The call as one that asks for a fiber.
    pub(crate) fn for_fiber(&self, plugin: PluginNo) -> Caller<Arc<str>, PluginNo> {
        Caller {
            priority: self.priority,
            flow: Arc::clone(&self.flow),
            lane: plugin,
        }
    }

    /// The call as one that asks for a turn.
    pub(crate) fn for_turn(&self, plugin: PluginNo) -> TurnCaller {
        Caller {
            priority: self.priority,
            flow: (plugin, Arc::clone(&self.flow)),
            lane: plugin,
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
