//! The live feed: notifies watchers of a run that the run has changed.
//!
//! An update is a hint and may be lost; watchers read the state from the store. The runtime's
//! threads call it for every step, so it costs one load while there is no watcher.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::broadcast;
use windlass_model::RunId;
use windlass_runtime::{Observed, Observer};

/// Updates that a slow watcher may lag behind; then it misses some, and no other watcher does.
const BEATS: usize = 64;

/// A change of a run.
#[derive(Clone, Debug)]
pub(crate) enum Update {
    /// A node is handed to its plugin.
    Started {
        /// The node.
        node: Arc<str>,
        /// From 1.
        attempt: u32,
    },
    /// A change is about to be committed to the store.
    Moved,
}

/// Notifies the watchers of a run of its changes.
#[derive(Default)]
pub struct LiveFeed {
    /// The number of watchers.
    watchers: AtomicUsize,
    runs: Mutex<HashMap<RunId, broadcast::Sender<Update>>>,
}

impl LiveFeed {
    /// A feed without watchers.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Watches a run until the result is dropped.
    pub(crate) fn watch(self: &Arc<Self>, run: RunId) -> Watching {
        let beats = {
            let mut runs = self.runs.lock();
            let sender = runs
                .entry(run)
                .or_insert_with(|| broadcast::channel(BEATS).0);
            sender.subscribe()
        };
        self.watchers.fetch_add(1, Ordering::AcqRel);
        Watching {
            beats: Some(beats),
            run,
            live_feed: Arc::clone(self),
        }
    }

    /// Notifies all watchers, because another process reports a change of some run.
    pub(crate) fn stir(&self) {
        if self.watchers.load(Ordering::Acquire) == 0 {
            return;
        }
        for sender in self.runs.lock().values() {
            // An error means that the run has no watcher left.
            let _ = sender.send(Update::Moved);
        }
    }
}

impl Observer for LiveFeed {
    fn observe(&self, event: &Observed<'_>) {
        if self.watchers.load(Ordering::Acquire) == 0 {
            return;
        }
        let (run, beat) = match event {
            Observed::Started { run, node, attempt } => {
                let (node, attempt) = (Arc::from(*node), *attempt);
                (run, Update::Started { node, attempt })
            }
            Observed::Executed { run, .. } | Observed::Ended { run, .. } => (run, Update::Moved),
        };
        if let Some(sender) = self.runs.lock().get(run) {
            let _ = sender.send(beat);
        }
    }
}

/// A watcher of a run.
pub(crate) struct Watching {
    beats: Option<broadcast::Receiver<Update>>,
    run: RunId,
    live_feed: Arc<LiveFeed>,
}

impl Watching {
    /// The next update; none if some were missed, after which the watcher looks at the store as
    /// well.
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
            .get(&self.run)
            .is_some_and(|sender| sender.receiver_count() == 0);
        if unwatched {
            runs.remove(&self.run);
        }
    }
}
