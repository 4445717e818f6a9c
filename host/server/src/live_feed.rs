//! The live feed: tells watchers of a run which executions begin in this process.
//!
//! An update is a hint and may be lost. The runtime's threads call the feed for every step, so it
//! costs one load while there is no watcher. Results of steps come from the store.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::broadcast;
use windlass_model::RunId;
use windlass_runtime::{Observed, Observer};

/// Updates that a slow watcher may lag behind; then it misses some, and no other watcher does.
const BEATS: usize = 64;

/// A node is handed to its plugin.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    /// The node.
    pub(crate) node: Arc<str>,
    /// From 1.
    pub(crate) attempt: u32,
}

/// Notifies the watchers of a run of the executions that begin.
#[derive(Default)]
pub struct LiveFeed {
    /// The number of watchers.
    watchers: AtomicUsize,
    runs: Mutex<HashMap<RunId, broadcast::Sender<Begun>>>,
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
}

impl Observer for LiveFeed {
    fn observe(&self, event: &Observed<'_>) {
        if self.watchers.load(Ordering::Acquire) == 0 {
            return;
        }
        let Observed::Started { run, node, attempt } = event else {
            return;
        };
        if let Some(sender) = self.runs.lock().get(run) {
            let (node, attempt) = (Arc::from(*node), *attempt);
            // An error means that the run has no watcher left.
            let _ = sender.send(Begun { node, attempt });
        }
    }
}

/// A watcher of a run.
pub(crate) struct Watching {
    beats: Option<broadcast::Receiver<Begun>>,
    run: RunId,
    live_feed: Arc<LiveFeed>,
}

impl Watching {
    /// The next execution that begins; none if some were missed.
    pub(crate) async fn next(&mut self) -> Option<Begun> {
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
