//! Power cuts during groups and checkpoints, over random histories.
//!
//! Each mixture of sectors that a cut leaves is opened. It must hold exactly the rows of the memory
//! model after some of the change's transactions: all transactions acknowledged before the change,
//! and no partial one. The histories of the runtime's simulation are tested in the same way in
//! `host/runtime/src/sim/replay`.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use windlass_model::{Payload, RunNo, ScopeNo};
use windlass_test_seeds::Seeds;

use super::{OnDisk, on_disk};
use crate::conformance::TestClock;
use crate::conformance::power::{Picture, cut};
use crate::conformance::world::{DONE, Held, Member, batch};
use crate::rows::Created;
use crate::sqlite::{SqliteOptions, SqliteStore};
use crate::write::Unpark;
use crate::{MemoryStore, Store, Write, Writer as _, Wrote};

/// The histories, the number of changes in each, and of power cuts in each change.
const HISTORIES: Seeds = Seeds::new(6, 20);
const CHANGES: u32 = 12;
const CUTS: u32 = 3;

/// Pseudo-random numbers from a seed: splitmix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % most as u64) as usize
    }
}

/// A history on a store, and on the model.
struct History {
    path: PathBuf,
    store: Arc<SqliteStore>,
    model: Arc<MemoryStore>,
    member: Member,
    held: Vec<Held>,
    runs: Vec<RunNo>,
    dice: Dice,
}

impl History {
    /// All rows of every run, as text.
    fn told(&self, store: &dyn Store) -> String {
        let told = self.runs.iter().map(|no| {
            let vars = store.vars(*no, ScopeNo::ROOT).unwrap();
            let runs = store.executions(*no, None, u32::MAX).unwrap();
            let outputs = runs
                .iter()
                .filter_map(|run| match &run.output.as_ref()?.body {
                    windlass_model::Body::Blob(blob) => Some(store.blob(*blob).unwrap().is_some()),
                    windlass_model::Body::Inline(_) => None,
                });
            let outputs: Vec<bool> = outputs.collect();
            let (row, triggers) = (store.run_by_no(*no), store.triggers(*no));
            let (row, triggers) = (row.unwrap(), triggers.unwrap());
            format!("{row:?} {triggers:?} {vars:?} {runs:?} {outputs:?}\n")
        });
        told.collect()
    }

    /// A group of steps and creations, each a transaction of its own.
    fn writes(&mut self) -> Vec<Write> {
        let mut writes = Vec::new();
        if self.held.len() < 3 || self.dice.below(4) == 0 {
            let mut new = self.member.draft(1);
            new.owner = Some(self.member.incarnation);
            new.triggers[0].claimed = true;
            self.runs.push(new.no);
            self.held.push(Held::born(&new));
            writes.push(new.into());
        }
        for at in (0..self.held.len()).rev() {
            let held = self.held[at];
            let mut step = match self.dice.below(8) {
                0 => continue,
                1 => {
                    self.held.swap_remove(at);
                    self.member.last(&held)
                }
                _ => {
                    self.held[at] = held.next();
                    self.member.chained(&held, 2)
                }
            };
            // From a few bytes to a size that is stored as a blob.
            let size = [10, 400, 5_000, 300_000][self.dice.below(4)];
            let payload = Payload::json(Bytes::from(vec![b'7'; size]));
            step.vars = vec![(
                ScopeNo::ROOT,
                format!("v{}", held.fence.version),
                payload.clone(),
            )];
            step.executions[0].output = Some(payload);
            writes.push(step.into());
        }
        writes
    }

    /// Changes the store. Returns the states that a power cut during the change may leave.
    fn change(&mut self) -> Vec<String> {
        if self.dice.below(4) == 0 {
            // As SQLite does when the log has grown.
            let connection = rusqlite::Connection::open(&self.path).unwrap();
            let mode = ["PASSIVE", "FULL", "RESTART"][self.dice.below(3)];
            let pragma = format!("PRAGMA wal_checkpoint({mode})");
            connection.query_row(&pragma, [], |_| Ok(())).unwrap();
            return vec![self.told(&*self.model)];
        }
        let writes = self.writes();
        let mut may_be = vec![self.told(&*self.model)];
        for write in writes.clone() {
            let answer = &batch(&*self.model, vec![write])[0];
            assert!(matches!(
                answer,
                Ok(Wrote::Commit(DONE) | Wrote::Create(Ok(Created::New)))
            ));
            may_be.push(self.told(&*self.model));
        }
        let answers = batch(&*self.store, writes);
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        may_be
    }

    /// Opens the remains of a power cut, and returns the rows of every run.
    fn open(&self, left: &Picture) -> String {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("windlass.db");
        left.hang(&path);
        let options = SqliteOptions::new(Arc::<TestClock>::default());
        let store = SqliteStore::open(&path, options).unwrap();
        let found = self.told(&*store);
        store.write(Unpark).unwrap();
        store.close();
        let connection = rusqlite::Connection::open(&path).unwrap();
        let sound: String = connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(sound, "ok");
        found
    }
}

/// A history without changes.
fn history(disk: &OnDisk, seed: u64) -> History {
    let store = disk.store();
    let clock = Arc::new(TestClock::default()) as Arc<dyn windlass_model::Clock>;
    let model = MemoryStore::new(clock);
    let modelled = Member::of(Arc::clone(&model) as Arc<dyn Store>);
    let member = Member::of(Arc::clone(&store) as Arc<dyn Store>);
    assert_eq!(modelled.incarnation, member.incarnation);
    History {
        path: disk.path(),
        store,
        model,
        member,
        held: Vec::new(),
        runs: Vec::new(),
        dice: Dice(seed),
    }
}

/// A disk, by the picture of what it has flushed before a change.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Disk {
    Honest,
    /// It reports the flushes of a change, and does them with the next one.
    Forgets,
}

/// Cuts the power in every change of a history. Returns how often the remains were torn.
fn cut_off(seed: u64, how: Disk) -> Result<u32, String> {
    let disk = on_disk();
    let mut history = history(&disk, seed);
    let mut before = Picture::take(&disk.path());
    let mut flushed = before.clone();
    let mut torn = 0;
    for change in 0..CHANGES {
        let may_be = history.change();
        let after = Picture::take(&disk.path());
        for _ in 0..CUTS {
            // A disk that forgets can be behind in both files, which no change of an honest disk is.
            let left = match how == Disk::Forgets && flushed.is_behind(&after) {
                true => flushed.clone(),
                false => cut(&flushed, &after, &mut |most| history.dice.below(most)),
            };
            torn += u32::from(left != flushed && left != after);
            let found = history.open(&left);
            if !may_be.contains(&found) {
                let wrong = format!("change {change}: {found}\nis none of {may_be:#?}");
                return Err(format!("WINDLASS_SEED={seed}, {wrong}"));
            }
        }
        flushed = match how {
            Disk::Honest => after.clone(),
            Disk::Forgets => before,
        };
        before = after;
    }
    Ok(torn)
}

#[test]
fn a_power_cut_leaves_whole_transactions_and_all_that_were_acknowledged() {
    let mut torn = 0;
    for seed in HISTORIES.range() {
        torn += cut_off(seed, Disk::Honest).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    assert!(torn > 0, "nothing was torn");
}

#[test]
fn a_disk_that_forgets_flushed_data_is_noticed() {
    HISTORIES.find(Disk::Forgets, |seed| cut_off(seed, Disk::Forgets).is_err());
}
