//! Delays the calls of a workflow whose calls of a plugin keep crashing.
//!
//! Crashes are counted by plugin and workflow: a workflow whose data crashes a plugin delays only
//! itself. Crashes in a row put the pair in quarantine for a second; each time its calls crash
//! again afterwards, for twice as long, up to five minutes. One call that succeeds clears the pair.
//!
//! A quarantine is an interval, and the next one of the same pair begins at the earliest [`OPEN`]
//! after the end of the last. So all calls that were delayed to its end are made then, however
//! many, and no call is delayed repeatedly because others crash before it.
//!
//! Bounded by [`MAX_WORKFLOWS`] for each plugin. A state machine without a clock: the caller passes
//! the time, and delays the call.
#![cfg_attr(
    not(feature = "doubles"),
    expect(
        unreachable_pub,
        reason = "the simulation of the runtime keeps one, too"
    )
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// The first quarantine of a pair.
const FIRST: Duration = Duration::from_secs(1);
/// The longest quarantine.
const LONGEST: Duration = Duration::from_secs(300);
/// The shortest time between two quarantines.
const OPEN: Duration = Duration::from_secs(1);
/// Crashes that are further apart do not count as successive.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// The most workflows whose crashes one plugin remembers. The one with the oldest crash is dropped.
const MAX_WORKFLOWS: usize = 1_024;

/// The recent crashes of one plugin, by workflow.
pub struct Quarantine {
    after: Option<u32>,
    /// The number of remembered workflows: calls of a plugin that does not crash read only this.
    remembered: AtomicUsize,
    workflows: Mutex<FxHashMap<Arc<str>, Crashes>>,
}

/// The crashes of the plugin in one workflow.
#[derive(Clone, Copy, Default)]
struct Crashes {
    in_a_row: u32,
    last: Duration,
    /// The length of the current or the last quarantine.
    length: Duration,
    /// The start and the end of the current or the last quarantine.
    begins: Duration,
    ends: Duration,
}

impl Quarantine {
    /// A quarantine begins at the crash number `after` in a row. None: never.
    pub fn new(after: Option<u32>) -> Self {
        Self {
            after,
            remembered: AtomicUsize::new(0),
            workflows: Mutex::default(),
        }
    }

    /// The delay of a call in this workflow, if it is in quarantine.
    pub fn delay(&self, workflow: &str, now: Duration) -> Option<Duration> {
        if self.remembered.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let workflows = self.workflows.lock();
        let crashes = workflows.get(workflow)?;
        (crashes.begins <= now && now < crashes.ends).then(|| crashes.ends - now)
    }

    /// Records a call in this workflow that did not crash.
    pub fn well(&self, workflow: &str) {
        if self.remembered.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut workflows = self.workflows.lock();
        workflows.remove(workflow);
        self.remembered.store(workflows.len(), Ordering::Relaxed);
    }

    /// Records a crash in this workflow. Returns the length of the quarantine if one begins.
    pub fn crashed(&self, workflow: &Arc<str>, now: Duration) -> Option<Duration> {
        let after = self.after?;
        let mut workflows = self.workflows.lock();
        if !workflows.contains_key(workflow) && workflows.len() >= MAX_WORKFLOWS {
            make_room(&mut workflows);
        }
        let crashes = workflows.entry(Arc::clone(workflow)).or_default();
        let begun = crashes.crash(after, now);
        self.remembered.store(workflows.len(), Ordering::Relaxed);
        begun
    }
}

impl Crashes {
    fn crash(&mut self, after: u32, now: Duration) -> Option<Duration> {
        if now.saturating_sub(self.last.max(self.ends)) > FORGOTTEN {
            *self = Self::default();
        }
        self.last = now;
        self.in_a_row = self.in_a_row.saturating_add(1);
        // Calls that were in progress when the quarantine began do not extend it, and at most one
        // further quarantine is pending.
        if self.in_a_row < after || now < self.ends {
            return None;
        }
        self.begins = now;
        if self.length.is_zero() {
            self.length = FIRST;
        } else {
            self.length = (self.length * 2).min(LONGEST);
            self.begins = now.max(self.ends + OPEN);
        }
        self.ends = self.begins + self.length;
        Some(self.length)
    }
}

fn make_room(workflows: &mut FxHashMap<Arc<str>, Crashes>) {
    let oldest = workflows
        .iter()
        .min_by_key(|(_, crashes)| crashes.last)
        .map(|(workflow, _)| Arc::clone(workflow));
    if let Some(oldest) = oldest {
        workflows.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn named(name: &str) -> Arc<str> {
        name.into()
    }

    #[test]
    fn quarantines_grow_until_a_call_ends_well() {
        let quarantine = Quarantine::new(Some(2));
        let bad = named("bad");
        assert_eq!(quarantine.crashed(&bad, at(10)), None);
        assert_eq!(quarantine.crashed(&bad, at(10)), Some(at(1)));
        assert_eq!(quarantine.delay("bad", at(10)), Some(at(1)));
        assert_eq!(quarantine.delay("bad", at(11)), None);
        assert_eq!(quarantine.crashed(&bad, at(12)), Some(at(2)));
        assert_eq!(quarantine.crashed(&bad, at(13)), None);
        assert_eq!(quarantine.delay("bad", at(13)), Some(at(1)));
        assert_eq!(quarantine.crashed(&bad, at(15)), Some(at(4)));
        quarantine.well("bad");
        assert_eq!(quarantine.delay("bad", at(15)), None);
        assert_eq!(quarantine.crashed(&bad, at(20)), None);
    }

    #[test]
    fn crashes_of_one_workflow_delay_no_other() {
        let quarantine = Quarantine::new(Some(1));
        assert_eq!(quarantine.crashed(&named("bad"), at(1)), Some(at(1)));
        assert_eq!(quarantine.delay("good", at(1)), None);
        // A successful call of another workflow does not clear it.
        quarantine.well("good");
        assert_eq!(quarantine.delay("bad", at(1)), Some(at(1)));
    }

    #[test]
    fn a_delayed_call_gets_through_although_others_crash_before_it() {
        let quarantine = Quarantine::new(Some(1));
        let bad = named("bad");
        assert_eq!(quarantine.crashed(&bad, at(1)), Some(FIRST));
        let mut now = at(1) + FIRST;
        for _ in 0..12 {
            // The first delayed call crashes at once, and the next one is made all the same.
            let length = quarantine.crashed(&bad, now).unwrap();
            assert!(length <= LONGEST);
            assert_eq!(quarantine.delay("bad", now + OPEN / 2), None);
            now += OPEN;
            assert_eq!(quarantine.delay("bad", now), Some(length));
            now += length;
        }
    }

    #[test]
    fn long_ago_is_not_in_a_row() {
        let quarantine = Quarantine::new(Some(2));
        let bad = named("bad");
        assert_eq!(quarantine.crashed(&bad, at(1)), None);
        assert_eq!(quarantine.crashed(&bad, at(602)), None);
        assert_eq!(quarantine.crashed(&bad, at(603)), Some(at(1)));
    }

    #[test]
    fn the_workflows_that_are_remembered_are_bounded() {
        let quarantine = Quarantine::new(Some(1));
        for second in 0..2 * MAX_WORKFLOWS as u64 {
            quarantine.crashed(&named(&second.to_string()), at(second));
        }
        assert_eq!(quarantine.workflows.lock().len(), MAX_WORKFLOWS);
        let last = 2 * MAX_WORKFLOWS as u64 - 1;
        assert!(quarantine.delay(&last.to_string(), at(last)).is_some());
    }

    #[test]
    fn the_quarantine_can_be_switched_off() {
        let quarantine = Quarantine::new(None);
        for _ in 0..100 {
            assert_eq!(quarantine.crashed(&named("bad"), at(1)), None);
        }
        assert_eq!(quarantine.delay("bad", at(1)), None);
    }
}
