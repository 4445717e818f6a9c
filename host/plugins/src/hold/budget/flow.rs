//! The calls of one plugin under one workflow: a flow. It has a share of the memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::core::PluginNo;

/// The flows of a plugin that are remembered. Beyond it, those without calls are forgotten.
const FLOWS: usize = 1_024;

/// The calls of one plugin under one workflow and its sub-workflows.
#[derive(Debug)]
pub(crate) struct Flow {
    /// The plugin.
    pub(super) no: PluginNo,
    /// The most memory that its recent calls have used.
    peak: Peak,
    /// The bytes that its calls hold. The budget counts them, and idle instances count for no flow.
    running: AtomicU64,
    /// The memory that its calls have held, times how long they did: in KiB and milliseconds.
    used: AtomicU64,
}

impl Flow {
    /// `initial` is the expected memory of a first call.
    pub(crate) fn new(no: PluginNo, initial: u64) -> Arc<Self> {
        Arc::new(Self {
            no,
            peak: Peak::new(initial),
            running: AtomicU64::new(0),
            used: AtomicU64::new(0),
        })
    }

    /// The memory that a call is expected to use.
    pub(crate) fn expected(&self) -> u64 {
        self.peak.expected()
    }

    /// Records the memory that a call has used. An instance that was large before the call, and did
    /// not grow, says nothing about this flow.
    pub(crate) fn note(&self, used: u64, grew: bool) {
        let used = if grew {
            used
        } else {
            used.min(self.expected())
        };
        self.peak.note(used);
    }

    pub(super) fn running(&self) -> u64 {
        self.running.load(Ordering::Relaxed)
    }

    pub(super) fn more(&self, bytes: u64) {
        self.running.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn less(&self, bytes: u64) {
        self.running.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn set_used(&self, used: u64) {
        self.used.store(used, Ordering::Relaxed);
    }
}

/// The flows of one plugin.
#[derive(Debug)]
pub(crate) struct Flows {
    no: PluginNo,
    initial: u64,
    flows: Mutex<FxHashMap<Arc<str>, Arc<Flow>>>,
}

impl Flows {
    /// `initial` is the expected memory of the first call of each flow.
    pub(crate) fn new(no: PluginNo, initial: u64) -> Self {
        Self {
            no,
            initial,
            flows: Mutex::default(),
        }
    }

    /// The flow of this name.
    pub(crate) fn of(&self, name: &Arc<str>) -> Arc<Flow> {
        let mut flows = self.flows.lock();
        if let Some(flow) = flows.get(name) {
            return Arc::clone(flow);
        }
        if flows.len() >= FLOWS {
            flows.retain(|_, flow| Arc::strong_count(flow) > 1);
        }
        let flow = Flow::new(self.no, self.initial);
        flows.insert(Arc::clone(name), Arc::clone(&flow));
        flow
    }

    /// Starts a new period, and forgets the flows that had no call in the last one.
    pub(crate) fn pass(&self) {
        self.flows.lock().retain(|_, flow| {
            flow.peak.pass();
            flow.expected() > 0 || Arc::strong_count(flow) > 1
        });
    }
}

/// The most memory that recent calls have used.
#[derive(Debug)]
struct Peak {
    now: AtomicU64,
    before: AtomicU64,
}

impl Peak {
    fn new(initial: u64) -> Self {
        Self {
            now: AtomicU64::new(initial),
            before: AtomicU64::new(initial),
        }
    }

    fn expected(&self) -> u64 {
        let before = self.before.load(Ordering::Relaxed);
        before.max(self.now.load(Ordering::Relaxed))
    }

    fn note(&self, used: u64) {
        if used > self.now.load(Ordering::Relaxed) {
            self.now.fetch_max(used, Ordering::Relaxed);
        }
    }

    /// Starts a new period, and forgets the period before the last.
    fn pass(&self) {
        let now = self.now.swap(0, Ordering::Relaxed);
        self.before.store(now, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_forgotten_after_a_while() {
        let flow = Flow::new(0, 5);
        flow.note(9, true);
        flow.note(3, true);
        assert_eq!(flow.expected(), 9);
        flow.peak.pass();
        flow.note(4, true);
        assert_eq!(flow.expected(), 9);
        flow.peak.pass();
        assert_eq!(flow.expected(), 4);
    }

    #[test]
    fn an_instance_that_others_have_made_large_says_nothing_about_a_flow() {
        let flow = Flow::new(0, 5);
        flow.note(900, false);
        assert_eq!(flow.expected(), 5);
        flow.note(900, true);
        assert_eq!(flow.expected(), 900);
    }

    #[test]
    fn flows_without_calls_are_forgotten() {
        let flows = Flows::new(0, 1);
        let name = |number: usize| Arc::from(number.to_string());
        let held = flows.of(&name(0));
        for number in 0..FLOWS + 1 {
            flows.of(&name(number));
        }
        assert_eq!(flows.flows.lock().len(), 2);
        assert!(Arc::ptr_eq(&held, &flows.of(&name(0))));
        for _ in 0..2 {
            flows.pass();
        }
        assert_eq!(flows.flows.lock().len(), 1, "one is in use");
    }
}
