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

/// How a guest crashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// It ended itself: a panic, an `abort`, an exception that nothing caught, an exit.
    Abort,
    /// It did what the engine forbids: an access outside of its memory, a division by zero, a call
    /// of the wrong function.
    Fault,
    /// It used up its stack.
    Stack,
}

/// Successive crashes of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How often the guest ended itself.
    pub aborts: u32,
    /// How often the engine ended it.
    pub faults: u32,
    /// How often its stack was used up.
    pub stacks: u32,
}

impl Counts {
    fn add(&mut self, crash: Crash) {
        let count = match crash {
            Crash::Abort => &mut self.aborts,
            Crash::Fault => &mut self.faults,
            Crash::Stack => &mut self.stacks,
        };
        *count = count.saturating_add(1);
    }

    fn sum(self) -> u32 {
        self.aborts
            .saturating_add(self.faults)
            .saturating_add(self.stacks)
    }
}

/// A quarantine that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// How long it lasts.
    pub length: Duration,
    /// The crashes in a row before it.
    pub crashes: Counts,
}

/// The crashes of the plugin in one workflow.
#[derive(Clone, Copy, Default)]
struct Crashes {
    in_a_row: Counts,
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
        self.workflows.lock().get(workflow)?.rest(now)
    }

    /// The workflows that are in quarantine, by name, each with the rest of it.
    pub fn held(&self, now: Duration) -> Vec<(Arc<str>, Duration)> {
        let workflows = self.workflows.lock();
        let held = workflows.iter().filter_map(|(workflow, crashes)| {
            let rest = crashes.rest(now)?;
            Some((Arc::clone(workflow), rest))
        });
        let mut held: Vec<_> = held.collect();
        held.sort_unstable();
        held
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

    /// Records a crash in this workflow. Returns the quarantine if one begins.
    pub fn crashed(&self, workflow: &Arc<str>, crash: Crash, now: Duration) -> Option<Begun> {
        let after = self.after?;
        let mut workflows = self.workflows.lock();
        if !workflows.contains_key(workflow) && workflows.len() >= MAX_WORKFLOWS {
            make_room(&mut workflows);
        }
        let crashes = workflows.entry(Arc::clone(workflow)).or_default();
        let begun = crashes.crash(after, crash, now);
        self.remembered.store(workflows.len(), Ordering::Relaxed);
        begun
    }
}

impl Crashes {
    /// The rest of the quarantine, if there is one now.
    fn rest(&self, now: Duration) -> Option<Duration> {
        (self.begins <= now && now < self.ends).then(|| self.ends - now)
    }

    fn crash(&mut self, after: u32, crash: Crash, now: Duration) -> Option<Begun> {
        if now.saturating_sub(self.last.max(self.ends)) > FORGOTTEN {
            *self = Self::default();
        }
        self.last = now;
        self.in_a_row.add(crash);
        // Calls that were in progress when the quarantine began do not extend it, and at most one
        // further quarantine is pending.
        if self.in_a_row.sum() < after || now < self.ends {
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
        Some(Begun {
            length: self.length,
            crashes: self.in_a_row,
        })
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

    fn crashed(quarantine: &Quarantine, workflow: &Arc<str>, now: Duration) -> Option<Duration> {
        let begun = quarantine.crashed(workflow, Crash::Abort, now);
        begun.map(|begun| begun.length)
    }

    #[test]
    fn crashes_are_counted_by_their_kind() {
        let quarantine = Quarantine::new(Some(4));
        let bad = named("bad");
        for crash in [Crash::Abort, Crash::Fault, Crash::Abort] {
            assert_eq!(quarantine.crashed(&bad, crash, at(1)), None);
        }
        let begun = quarantine.crashed(&bad, Crash::Stack, at(1)).unwrap();
        assert_eq!(begun.length, FIRST);
        let counts = Counts {
            aborts: 2,
            faults: 1,
            stacks: 1,
        };
        assert_eq!(begun.crashes, counts);
        quarantine.well("bad");
        assert_eq!(quarantine.crashed(&bad, Crash::Fault, at(1)), None);
    }

    #[test]
    fn quarantines_grow_until_a_call_ends_well() {
        let quarantine = Quarantine::new(Some(2));
        let bad = named("bad");
        assert_eq!(crashed(&quarantine, &bad, at(10)), None);
        assert_eq!(crashed(&quarantine, &bad, at(10)), Some(at(1)));
        assert_eq!(quarantine.delay("bad", at(10)), Some(at(1)));
        assert_eq!(quarantine.delay("bad", at(11)), None);
        assert_eq!(crashed(&quarantine, &bad, at(12)), Some(at(2)));
        assert_eq!(crashed(&quarantine, &bad, at(13)), None);
        assert_eq!(quarantine.delay("bad", at(13)), Some(at(1)));
        assert_eq!(crashed(&quarantine, &bad, at(15)), Some(at(4)));
        quarantine.well("bad");
        assert_eq!(quarantine.delay("bad", at(15)), None);
        assert_eq!(crashed(&quarantine, &bad, at(20)), None);
    }

    #[test]
    fn crashes_of_one_workflow_delay_no_other() {
        let quarantine = Quarantine::new(Some(1));
        assert_eq!(crashed(&quarantine, &named("bad"), at(1)), Some(at(1)));
        assert_eq!(quarantine.delay("good", at(1)), None);
        assert_eq!(quarantine.held(at(1)), [(named("bad"), FIRST)]);
        assert_eq!(quarantine.held(at(1) + FIRST), []);
        // A successful call of another workflow does not clear it.
        quarantine.well("good");
        assert_eq!(quarantine.delay("bad", at(1)), Some(at(1)));
    }

    #[test]
    fn a_delayed_call_gets_through_although_others_crash_before_it() {
        let quarantine = Quarantine::new(Some(1));
        let bad = named("bad");
        assert_eq!(crashed(&quarantine, &bad, at(1)), Some(FIRST));
        let mut now = at(1) + FIRST;
        for _ in 0..12 {
            // The first delayed call crashes at once, and the next one is made all the same.
            let length = crashed(&quarantine, &bad, now).unwrap();
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
        assert_eq!(crashed(&quarantine, &bad, at(1)), None);
        assert_eq!(crashed(&quarantine, &bad, at(602)), None);
        assert_eq!(crashed(&quarantine, &bad, at(603)), Some(at(1)));
    }

    #[test]
    fn the_workflows_that_are_remembered_are_bounded() {
        let quarantine = Quarantine::new(Some(1));
        for second in 0..2 * MAX_WORKFLOWS as u64 {
            crashed(&quarantine, &named(&second.to_string()), at(second));
        }
        assert_eq!(quarantine.workflows.lock().len(), MAX_WORKFLOWS);
        let last = 2 * MAX_WORKFLOWS as u64 - 1;
        assert!(quarantine.delay(&last.to_string(), at(last)).is_some());
    }

    #[test]
    fn the_quarantine_can_be_switched_off() {
        let quarantine = Quarantine::new(None);
        for _ in 0..100 {
            assert_eq!(crashed(&quarantine, &named("bad"), at(1)), None);
        }
        assert_eq!(quarantine.delay("bad", at(1)), None);
    }
}
