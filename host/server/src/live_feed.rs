//! Live runs, as those who watch them hear of them.
//!
//! What is sent here is a hint: it may be missing, and what counts is read from the store. The
//! runtime's threads call it for every step, so where nobody watches it costs one load.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::broadcast;
use windlass_model::InstanceId;
use windlass_runtime::{Observed, Observer};

/// Beats that a slow watcher may lag behind; then it misses some, and nobody else does.
const BEATS: usize = 64;

/// Something has happened to a run.
#[derive(Clone, Debug)]
pub(crate) enum Update {
    /// A node is handed to its plugin.
    Started {
        /// The node.
        node: Arc<str>,
        /// From 1.
        attempt: u32,
    },
    /// Something will be in the store in a moment.
    Moved,
}

/// Tells those who watch runs what happens to them.
#[derive(Default)]
pub struct LiveFeed {
    /// How many watch.
    watchers: AtomicUsize,
    runs: Mutex<HashMap<InstanceId, broadcast::Sender<Update>>>,
}

impl LiveFeed {
    /// Nobody watches anything yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Watches a run until what this answers is dropped.
    pub(crate) fn watch(self: &Arc<Self>, instance: InstanceId) -> Watching {
        let beats = {
            let mut runs = self.runs.lock();
            let sender = runs
                .entry(instance)
                .or_insert_with(|| broadcast::channel(BEATS).0);
            sender.subscribe()
        };
        self.watchers.fetch_add(1, Ordering::AcqRel);
        Watching {
            beats: Some(beats),
            instance,
            live_feed: Arc::clone(self),
        }
    }

    /// Something may have happened to any run: another process says so.
    pub(crate) fn stir(&self) {
        if self.watchers.load(Ordering::Acquire) == 0 {
            return;
        }
        for sender in self.runs.lock().values() {
            // Nobody there is nobody to tell.
            let _ = sender.send(Update::Moved);
        }
    }
}

impl Observer for LiveFeed {
    fn observe(&self, event: &Observed<'_>) {
        if self.watchers.load(Ordering::Acquire) == 0 {
            return;
        }
        let (instance, beat) = match event {
            Observed::Started {
                instance,
                node,
                attempt,
            } => {
                let (node, attempt) = (Arc::from(*node), *attempt);
                (instance, Update::Started { node, attempt })
            }
            Observed::Executed { instance, .. } | Observed::Ended { instance, .. } => {
                (instance, Update::Moved)
            }
        };
        if let Some(sender) = self.runs.lock().get(instance) {
            let _ = sender.send(beat);
        }
    }
}

/// Somebody watches a run.
pub(crate) struct Watching {
    beats: Option<broadcast::Receiver<Update>>,
    instance: InstanceId,
    live_feed: Arc<LiveFeed>,
}

impl Watching {
    /// The next beat; none if some were missed, which only means to look.
    pub(crate) async fn next(&mut self) -> Option<Update> {
        match &mut self.beats {
            Some(beats) => beats.recv().await.ok(),
            None => std::future::pending().await,
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.live_feed.watchers.fetch_sub(1, Ordering::AcqRel);
        let mut runs = self.live_feed.runs.lock();
        self.beats = None;
        let unwatched = runs
            .get(&self.instance)
            .is_some_and(|sender| sender.receiver_count() == 0);
        if unwatched {
            runs.remove(&self.instance);
        }
    }
}
