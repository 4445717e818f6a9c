//! Occurrences that stand in line behind a run, and the word that the run is over.
//!
//! A hint: a run that ends in another process tells nobody here, and who waits for it finds
//! out by looking again. Bounded by [`WAITING`]; what is forgotten is noted anew by that look.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use windlass_model::{InstanceId, ScheduleNo};

/// Runs that are waited for at most.
const WAITING: usize = 1_000;

/// Who waits for which run.
#[derive(Default)]
pub(crate) struct Standby {
    /// Whether anybody waits: every run that ends asks.
    awaited: AtomicBool,
    inner: Mutex<StandbyInner>,
}

#[derive(Default)]
struct StandbyInner {
    behind: FxHashMap<InstanceId, ScheduleNo>,
    /// Schedules whose turn it is.
    ready: Vec<ScheduleNo>,
    wake: Option<Box<dyn Fn() + Send>>,
}

impl Standby {
    /// Somebody is to be woken when a run is over that is waited for.
    pub(super) fn wakes(&self, wake: impl Fn() + Send + 'static) {
        self.inner.lock().wake = Some(Box::new(wake));
    }

    /// An occurrence of a schedule is about to wait for a run. Said before the store is asked,
    /// so that an end in between is not missed.
    pub(super) fn join(&self, instance: InstanceId, schedule: ScheduleNo) {
        let mut inner = self.inner.lock();
        if inner.behind.len() >= WAITING {
            inner.behind.clear();
        }
        inner.behind.insert(instance, schedule);
        self.awaited.store(true, Ordering::SeqCst);
    }

    /// Nobody waits for a run any more.
    pub(super) fn leave(&self, instance: InstanceId) {
        let mut inner = self.inner.lock();
        inner.behind.remove(&instance);
        self.awaited
            .store(!inner.behind.is_empty(), Ordering::SeqCst);
    }

    /// The schedules whose turn it has become since this was last asked.
    pub(super) fn ready(&self) -> Vec<ScheduleNo> {
        std::mem::take(&mut self.inner.lock().ready)
    }

    /// A run is over, durably.
    pub(crate) fn ended(&self, instance: InstanceId) {
        if !self.awaited.load(Ordering::SeqCst) {
            return;
        }
        let mut inner = self.inner.lock();
        if let Some(schedule) = inner.behind.remove(&instance) {
            inner.ready.push(schedule);
            if let Some(wake) = &inner.wake {
                wake();
            }
        }
    }
}
