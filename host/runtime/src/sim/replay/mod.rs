//! Replays the histories of the simulation on durable stores.
//!
//! The simulation runs on the store in memory, which does nothing by itself, and its history
//! contains every write with its time and its true result. Here each process of a history opens its
//! own store on the same file or database, and submits the same writes at the same times, alone or
//! in groups. Every write has to have the same result as in memory. At the end, and sometimes
//! before, all readable data has to be the same.

mod pace;
mod places;
mod tests;
mod torn;

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_model::{Clock, Incarnation, TriggerId};
use windlass_store::conformance::{batch, told};
use windlass_store::retention::{Forget, Sweep};
use windlass_store::write::{ClaimScope, Claims};
use windlass_store::{MemoryStore, Store, Write, Wrote};

use self::pace::{Pace, SCALE};
use super::checker::Life;
use super::clock::SimClock;
use super::dice::Dice;
use super::history::{Event, History, Written};

/// The limit of writes in a group.
const GROUP: u64 = 12;

/// The number of rows that one write deletes: all.
const SLICE: u32 = 1_000_000;

/// One in this many groups is followed by a comparison of all readable data.
const LOOKS: u64 = 60;

/// The place of the stores of a history.
trait ReplayStores {
    /// A handle on the store, which stands for a process.
    type Handle: Store;

    /// Opens the store for one more process.
    fn open(&self, pace: &Arc<Pace>) -> Arc<Self::Handle>;
}

/// The results of replays.
#[derive(Debug, Default)]
struct Report {
    writes: u64,
    groups: u64,
    /// The number of opened handles.
    handles: u64,
    /// The number of full comparisons.
    looks: u64,
    cuts: u64,
    /// The number of power cuts that left neither the state before nor the state after.
    torn: u64,
    /// The number of writes that a cut has removed, all of them unacknowledged: they were repeated.
    redone: u64,
}

impl Report {
    fn add(&mut self, other: &Self) {
        self.writes += other.writes;
        self.groups += other.groups;
        self.handles += other.handles;
        self.looks += other.looks;
        self.cuts += other.cuts;
        self.torn += other.torn;
        self.redone += other.redone;
    }
}

/// A history that is being replayed, on a durable store and on a model of it.
struct Replay<'p, P: ReplayStores> {
    place: &'p P,
    pace: Arc<Pace>,
    handles: BTreeMap<Life, Arc<P::Handle>>,
    clock: Arc<SimClock>,
    root: Arc<MemoryStore>,
    models: BTreeMap<Life, Arc<MemoryStore>>,
    members: BTreeMap<Incarnation, Member>,
    /// Triggers with names from people.
    named: Vec<TriggerId>,
    dice: Dice,
    report: Report,
}

/// A member that has joined and not left.
struct Member {
    life: Life,
    /// Whether its last claim stopped before it had seen all due triggers.
    walking: bool,
}

impl<'p, P: ReplayStores> Replay<'p, P> {
    fn new(seed: u64, place: &'p P) -> Self {
        let clock = SimClock::new();
        Self {
            place,
            pace: Pace::new(clock.now_ms()),
            handles: BTreeMap::new(),
            root: MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>),
            clock,
            models: BTreeMap::new(),
            members: BTreeMap::new(),
            named: Vec::new(),
            dice: Dice(seed),
            report: Report::default(),
        }
    }

    /// Replays a history; `change` carries out each group.
    fn run(
        mut self,
        history: &History,
        mut change: impl FnMut(&mut Self, &[&Written]) -> Result<(), String>,
    ) -> Result<Report, String> {
        // The reading handle exists from the beginning to the end.
        self.handle(0);
        let mut rest = history.as_slice();
        while let Some((event, behind)) = rest.split_first() {
            match event {
                Event::Ended(life) => {
                    self.end(*life);
                    rest = behind;
                }
                Event::Wrote(_) => {
                    let group = self.group(rest);
                    rest = &rest[group.len()..];
                    change(&mut self, &group)?;
                    self.report.groups += 1;
                    self.report.writes += group.len() as u64;
                    if self.dice.once_in(LOOKS) {
                        self.look()?;
                    }
                }
            }
        }
        self.look()?;
        Ok(self.report)
    }

    fn handle(&mut self, life: Life) -> Arc<P::Handle> {
        if let Some(handle) = self.handles.get(&life) {
            return Arc::clone(handle);
        }
        self.report.handles += 1;
        let handle = self.place.open(&self.pace);
        self.handles.insert(life, Arc::clone(&handle));
        handle
    }

    fn model(&mut self, life: Life) -> Arc<MemoryStore> {
        let model = self.models.entry(life);
        Arc::clone(model.or_insert_with(|| self.root.another()))
    }

    fn end(&mut self, life: Life) {
        if let Some(handle) = self.handles.remove(&life) {
            handle.close();
        }
        if let Some(model) = self.models.remove(&life) {
            model.close();
        }
        self.members.retain(|_, member| member.life != life);
    }

    /// Writes that are submitted together: writes of one process at one time.
    fn group<'h>(&mut self, rest: &'h [Event]) -> Vec<&'h Written> {
        let most = usize::try_from(self.dice.between(1, GROUP)).unwrap();
        let mut group: Vec<&Written> = Vec::new();
        for event in rest.iter().take(most) {
            let Event::Wrote(written) = event else { break };
            let first = group.first().copied().unwrap_or(written);
            let together = (first.life, first.at_ms) == (written.life, written.at_ms);
            let alone = is_timed(&written.write) || is_timed(&first.write);
            if !together || (alone && !group.is_empty()) {
                break;
            }
            group.push(written);
        }
        group
    }

    /// Sets the clocks to the time of a group.
    fn set_clocks(&mut self, group: &[&Written]) {
        let Some(first) = group.first() else { return };
        let passed_ms = first.at_ms.saturating_sub(self.clock.now_ms());
        self.clock.advance(passed_ms);
        let late = matches!(first.write, Write::Reap(_));
        self.pace.set(first.at_ms, late);
    }

    /// Carries out one write on the model, which has to give the result of the simulation.
    fn on_model(&mut self, written: &Written) -> Result<(), String> {
        let model = self.model(written.life);
        let again = model.carry_out(written.write.clone());
        match difference(&written.write, written.wrote.as_ref(), &again, 1) {
            Some(what) => Err(format!("the model does not do as it did: {what}")),
            None => Ok(()),
        }
    }

    /// Carries out a group on the durable store, and compares the results.
    fn on_place(&mut self, group: &[&Written]) -> Result<(), String> {
        let Some(first) = group.first() else {
            return Ok(());
        };
        let handle = self.handle(first.life);
        let writes = group.iter().map(|written| scaled(&written.write));
        let answers = batch(&*handle, writes.collect());
        for (written, answer) in group.iter().zip(&answers) {
            let (write, wrote) = (&written.write, written.wrote.as_ref());
            if let Some(what) = difference(write, wrote, answer, SCALE) {
                return Err(what);
            }
            self.learn(written);
        }
        Ok(())
    }

    /// Carries out a group without a fault.
    fn change(&mut self, group: &[&Written]) -> Result<(), String> {
        self.change_but(group, group)
    }

    /// Carries out a group of which the durable store gets only `given`.
    fn change_but(&mut self, group: &[&Written], given: &[&Written]) -> Result<(), String> {
        self.set_clocks(group);
        for written in group {
            self.on_model(written)?;
        }
        self.on_place(given)
    }

    fn learn(&mut self, written: &Written) {
        match (&written.write, &written.wrote) {
            (Write::Join(_), Some(Wrote::Join(incarnation))) => {
                let (life, walking) = (written.life, false);
                self.members.insert(*incarnation, Member { life, walking });
            }
            (Write::Leave(leave), Some(_)) => drop(self.members.remove(&leave.incarnation)),
            (Write::Claim(claim), Some(Wrote::Claim(claims))) => {
                // A claim of control triggers is no part of the walk.
                if claim.scope != ClaimScope::Control
                    && let Some(member) = self.members.get_mut(&claim.incarnation)
                {
                    member.walking = claims.more;
                }
            }
            _ => self.learn_named(written),
        }
    }

    fn learn_named(&mut self, written: &Written) {
        if let Write::Schedule(new) = &written.write
            && !self.named.contains(&new.id)
        {
            self.named.push(new.id);
        }
    }

    /// Compares all readable data.
    fn look(&mut self) -> Result<(), String> {
        self.report.looks += 1;
        let found = told(&*self.handle(0), &self.named);
        let expected = told(&*self.root, &self.named);
        match first_difference(&found, &expected) {
            Some(what) => Err(format!("it does not have what the model has: {what}")),
            None => Ok(()),
        }
    }
}

/// Whether the result of a write depends on its time.
fn is_timed(write: &Write) -> bool {
    matches!(write, Write::Join(_) | Write::Renew(_) | Write::Reap(_))
}

/// The same write for a faster clock, and for a store that does as much as it can at once.
fn scaled(write: &Write) -> Write {
    let mut write = write.clone();
    match &mut write {
        Write::Join(new) => new.lease_ms *= SCALE,
        // All rows at once, as in memory.
        Write::Forget(Forget { rows, .. }) | Write::Sweep(Sweep { rows, .. }) => *rows = SLICE,
        _ => {}
    }
    write
}

/// The difference between two answers, if there is one.
fn difference(
    write: &Write,
    expected: Option<&Wrote>,
    answer: &windlass_store::Result<Wrote>,
    scale: u64,
) -> Option<String> {
    let same = match (expected, answer) {
        (Some(Wrote::Claim(expected)), Ok(Wrote::Claim(claims))) => agree(expected, claims),
        (Some(Wrote::Renew(Ok(expected))), Ok(Wrote::Renew(Ok(_)))) if scale > 1 => {
            // The exact count of the faster clock does not matter; the end of the lease does.
            expected.until_monotonic_ms > 0
        }
        // Each store removes the rows behind a tombstone, and the data that they refer to, at its
        // own pace.
        (Some(Wrote::Sweep(_)), Ok(Wrote::Sweep(_)))
        | (Some(Wrote::SweepComponents(_)), Ok(Wrote::SweepComponents(_))) => true,
        (Some(expected), Ok(wrote)) => format!("{expected:?}") == format!("{wrote:?}"),
        (None, Err(_)) => true,
        _ => false,
    };
    (!same).then(|| format!("{write:?}\ncame to {answer:?}\nand has to {expected:?}"))
}

/// Whether two claims gave the same. Their `more` is only a hint: a process is notified when
/// another process makes triggers pending.
fn agree(expected: &Claims, claims: &Claims) -> bool {
    let runs = format!("{:?}", expected.runs) == format!("{:?}", claims.runs);
    let hints = expected.more || claims.more || expected.next_due_ms == claims.next_due_ms;
    runs && hints
}

fn first_difference(found: &[String], expected: &[String]) -> Option<String> {
    let pairs = found.iter().zip(expected);
    let mut different = pairs.filter(|(found, expected)| found != expected);
    let lengths = (found.len(), expected.len());
    match different.next() {
        Some((found, expected)) => Some(format!("{found}\nand not\n{expected}")),
        None if lengths.0 != lengths.1 => Some(format!("{lengths:?} lines")),
        None => None,
    }
}
