//! Plans the schedules of one process, in place of the planner's thread.

use std::sync::Arc;

use windlass_store::{MemoryStore, Store as _};

use crate::parts::Parts;
use crate::scheduler::core::Event;
use crate::schedules::{Planner, Ready};

/// The interval between two turns of the planner, in milliseconds.
const SCAN_MS: u64 = 5_000;

/// The delay of the next turn if there is more to do, or after an error, in milliseconds.
const BREATH_MS: u64 = 20;
const TROUBLE_MS: u64 = 1_000;

/// The planner of one process.
pub(super) struct Planning {
    planner: Planner,
    maker: Ready,
    /// The planner's own handle: a planner waits for its writes.
    store: Arc<MemoryStore>,
    /// The monotonic time of the next turn.
    pub(super) next_ms: u64,
}

impl Planning {
    pub(super) fn new(parts: &Parts, store: Arc<MemoryStore>, now_ms: u64) -> Self {
        Self {
            planner: Planner::default(),
            maker: Ready::new(&parts.shared, &parts.membership),
            store,
            next_ms: now_ms,
        }
    }

    /// Plans due occurrences.
    pub(super) fn look(&mut self, parts: &Parts, now_ms: u64) {
        let now = parts.shared.base.now();
        let pause_ms = match self.planner.turn(&*self.store, &self.maker, now) {
            Ok(turn) => {
                if turn.made > 0 {
                    parts.shared.intake.scheduler.send(Event::Woken);
                    self.store.notify();
                }
                let next_ms = turn.next_ms.unwrap_or(i64::MAX);
                let soonest = next_ms.saturating_sub(now.wall_ms);
                let soonest_ms = u64::try_from(soonest).unwrap_or(0).clamp(1, SCAN_MS);
                if turn.more { BREATH_MS } else { soonest_ms }
            }
            Err(_) => TROUBLE_MS,
        };
        self.next_ms = now_ms + pause_ms;
    }

    /// Ends with its process.
    pub(super) fn end(&self) {
        self.store.close();
    }
}
