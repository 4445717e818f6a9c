//! Occurrences that wait for a run to end, and the notification that it has ended.
//!
//! The notification is a hint: a run that ends in another process does not notify this one, so a
//! waiting occurrence is also tried again after a while. Bounded by [`WAITING`]; a dropped entry is
//! added again by the next attempt.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use windlass_model::{RunId, ScheduleNo};

/// The limit of runs that are waited for.
const WAITING: usize = 1_000;

/// The schedules whose occurrences wait for runs.
#[derive(Default)]
pub(crate) struct Standby {
    /// Whether there are entries: checked for every run that ends.
    awaited: AtomicBool,
    inner: Mutex<StandbyInner>,
}

#[derive(Default)]
struct StandbyInner {
    behind: FxHashMap<RunId, ScheduleNo>,
    /// Schedules whose run has ended.
    ready: Vec<ScheduleNo>,
    wake: Option<Box<dyn Fn() + Send>>,
}

impl Standby {
    /// Sets the function to be called when an awaited run has ended.
    pub(super) fn wakes(&self, wake: impl Fn() + Send + 'static) {
        self.inner.lock().wake = Some(Box::new(wake));
    }

    /// Adds a schedule that is about to wait for a run. Called before the store is asked, so that
    /// an end in between is not missed.
    pub(super) fn join(&self, run: RunId, schedule: ScheduleNo) {
        let mut inner = self.inner.lock();
        if inner.behind.len() >= WAITING {
            inner.behind.clear();
        }
        inner.behind.insert(run, schedule);
        self.awaited.store(true, Ordering::SeqCst);
    }

    /// Removes the entry of a run.
    pub(super) fn leave(&self, run: RunId) {
        let mut inner = self.inner.lock();
        inner.behind.remove(&run);
        self.awaited
            .store(!inner.behind.is_empty(), Ordering::SeqCst);
    }

    /// The schedules whose run has ended since the last call.
    pub(super) fn ready(&self) -> Vec<ScheduleNo> {
        std::mem::take(&mut self.inner.lock().ready)
    }

    /// Reports the durable end of a run.
    pub(crate) fn ended(&self, run: RunId) {
        if !self.awaited.load(Ordering::SeqCst) {
            return;
        }
        let mut inner = self.inner.lock();
        if let Some(schedule) = inner.behind.remove(&run) {
            inner.ready.push(schedule);
            if let Some(wake) = &inner.wake {
                wake();
            }
        }
    }
}
