//! What every handler can reach.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use subtle::ConstantTimeEq as _;
use tokio::sync::{Semaphore, watch};
use windlass_model::{Definition, Digest};
use windlass_runtime::Runtime;
use windlass_runtime::client::{Turns, WorkflowClient};
use windlass_store::Store;

use crate::hub::Hub;
use crate::options::{Bounds, Options};
use crate::problem::Problem;

/// What every handler can reach. A clone is the same.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

/// What the clones share.
pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) client: WorkflowClient,
    /// Requests that are worked on.
    pub(crate) requests: Arc<Semaphore>,
    /// Requests that wait for runs.
    pub(crate) streams: Arc<Semaphore>,
    /// Threads that may be in the store: for the client's as well as for what is done here.
    blocking: Turns,
    token: Option<Digest>,
    draining: AtomicBool,
    /// Raised when streams are to end.
    closing: watch::Sender<bool>,
}

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl App {
    pub(crate) fn new(options: Options) -> Self {
        let bounds = options.bounds;
        let token = options.token.as_deref();
        let blocking = Turns::new(bounds.blocking);
        Self(Arc::new(Inner {
            client: WorkflowClient::local(&options.runtime).with_turns(blocking.clone()),
            requests: Arc::new(Semaphore::new(bounds.requests)),
            streams: Arc::new(Semaphore::new(bounds.streams)),
            blocking,
            // Digests are of one length, so that comparing tells nothing of the token's.
            token: token.map(|token| Digest::of(token.as_bytes())),
            draining: AtomicBool::new(false),
            closing: watch::channel(false).0,
            options,
        }))
    }

    /// Does something with the store, on a thread that may block. It goes on if whoever asked
    /// goes away, and holds its turn until it is through.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Inner) -> Result<T, Box<Problem>> + Send + 'static,
    ) -> Result<T, Box<Problem>> {
        let patience = Duration::from_millis(self.bounds().timeout_ms);
        let Ok(turn) = tokio::time::timeout(patience, self.blocking.next()).await else {
            return Err(Problem::busy("the store is busy with other requests"));
        };
        let app = self.clone();
        let asked = turn.spend(move || ask(&app)).await;
        asked.unwrap_or_else(|error| Err(Problem::bug(&error)))
    }
}

impl Inner {
    pub(crate) fn bounds(&self) -> &Bounds {
        &self.options.bounds
    }

    pub(crate) fn store(&self) -> &dyn Store {
        self.options.store.as_ref()
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.options.runtime
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.options.hub
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.options.clock.wall_ms()
    }

    /// Whether this is what requests have to bring.
    pub(crate) fn admits(&self, token: Option<&str>) -> bool {
        let Some(wanted) = &self.token else {
            return true;
        };
        let given = token.map(|token| Digest::of(token.as_bytes()));
        given.is_some_and(|given| bool::from(given.0.ct_eq(&wanted.0)))
    }

    /// Takes in nothing more.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire) || self.runtime().is_draining()
    }

    /// Ends what would not end by itself.
    pub(crate) fn close(&self) {
        // Nobody listening is nothing to end.
        let _ = self.closing.send(true);
    }

    /// Becomes true when streams are to end.
    pub(crate) fn closing(&self) -> watch::Receiver<bool> {
        self.closing.subscribe()
    }

    /// A definition that the store has, as it can be read.
    pub(crate) fn definition(&self, digest: Digest) -> Result<Option<Definition>, Box<Problem>> {
        let row = self.store().definition(digest)?;
        Ok(row.and_then(|row| windlass_model::file::read_canonical(&row.json).ok()))
    }
}
