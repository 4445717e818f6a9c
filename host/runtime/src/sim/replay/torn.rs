//! Histories on a disk with occasional power cuts.
//!
//! A cut resets the files and leaves the processes alone, so that the history continues as
//! recorded: the processes repeat writes that were not acknowledged and are lost.

use std::cell::RefCell;
use std::ffi::OsString;
use std::sync::Arc;

use windlass_store::conformance::power::{Picture, cut};
use windlass_store::conformance::{batch, told};
use windlass_store::{Durability, SqliteStore, Store as _, Write};

use super::pace::{Pace, SCALE};
use super::places::OnDisk;
use super::{Replay, ReplayStores, difference, first_difference};
use crate::sim::history::Written;

/// One in this many groups has a power cut.
const CUTS: u64 = 40;

/// A disk whose content can be replaced by the remains of a power cut.
pub(super) struct Torn {
    disk: RefCell<OnDisk>,
    /// If set, the disk reports flushes that it has not done: the content that is really flushed.
    pub(super) lies: Option<RefCell<Option<Picture>>>,
}

impl Torn {
    pub(super) fn new() -> Self {
        Self {
            disk: RefCell::new(OnDisk::new(Durability::Full)),
            lies: None,
        }
    }

    /// The flushed content.
    fn picture(&self) -> Picture {
        let now = Picture::take(&self.disk.borrow().path());
        match &self.lies {
            Some(before) => before.replace(Some(now.clone())).unwrap_or(now),
            None => now,
        }
    }

    /// Continues with the remains, and with the lock files that existed before the change.
    fn exchange(&self, left: &Picture, locks: &[OsString]) -> OnDisk {
        let new = OnDisk::new(Durability::Full);
        left.hang(&new.path());
        new.leave_locks(locks);
        self.disk.replace(new)
    }
}

impl ReplayStores for Torn {
    type Handle = SqliteStore;

    fn open(&self, pace: &Arc<Pace>) -> Arc<SqliteStore> {
        self.disk.borrow().open(pace)
    }
}

impl Replay<'_, Torn> {
    /// Carries out a group, with a possible power cut in the middle.
    pub(super) fn change_or_fail(&mut self, group: &[&Written]) -> Result<(), String> {
        // Only the store of a process knows how far its walk through due triggers has come.
        let still = self.members.values().all(|member| !member.walking);
        // The holder of a duty cannot be read, so its presence cannot be checked.
        let duty = |written: &&Written| matches!(written.write, Write::Duty(_));
        if !self.dice.once_in(CUTS) || !still || group.iter().any(duty) {
            return self.change(group);
        }
        self.set_clocks(group);
        for written in group {
            self.learn_named(written);
        }
        // The possible remains: the acknowledged writes, and none, one, two or more writes of the
        // group.
        let mut may_be = vec![told(&*self.root, &self.named)];
        let (before, locks) = (self.place.picture(), self.place.disk.borrow().locks());
        let (mut kept, mut answers) = (group, Vec::new());
        if self.dice.once_in(4) {
            kept = &[];
            // A checkpoint, as SQLite makes by itself when the log has grown.
            self.handle(0).checkpoint().unwrap();
        } else {
            for written in group {
                self.on_model(written)?;
                may_be.push(told(&*self.root, &self.named));
            }
            let life = group.first().map_or(0, |written| written.life);
            let handle = self.handle(life);
            let writes = group.iter().map(|written| super::scaled(&written.write));
            answers = batch(&*handle, writes.collect());
        }
        let after = self.place.picture();
        let dice = &mut self.dice;
        // A disk that lies can be behind in both files, which no change of an honest disk is.
        let left = match self.place.lies.is_some() && before.is_behind(&after) {
            true => before.clone(),
            false => cut(&before, &after, &mut |most| dice.place(most)),
        };
        self.report.cuts += 1;
        self.report.torn += u64::from(left != before && left != after);
        let there = self.take_up(&left, &locks, kept, &may_be)?;
        if kept.is_empty() {
            return self.change(group);
        }
        for (written, answer) in group[..there].iter().zip(&answers) {
            let (write, wrote) = (&written.write, written.wrote.as_ref());
            if let Some(what) = difference(write, wrote, answer, SCALE) {
                return Err(what);
            }
        }
        let lost = &group[there..];
        self.report.redone += lost.len() as u64;
        self.on_place(lost)
    }

    /// Continues with the remains of a power cut. Returns how many writes of the group are present.
    fn take_up(
        &mut self,
        left: &Picture,
        locks: &[OsString],
        group: &[&Written],
        may_be: &[Vec<String>],
    ) -> Result<usize, String> {
        let lives: Vec<_> = self.handles.keys().copied().collect();
        let old = self.place.exchange(left, locks);
        for handle in std::mem::take(&mut self.handles).into_values() {
            handle.close();
        }
        drop(old);
        for life in lives {
            self.handle(life);
        }
        let found = told(&*self.handle(0), &self.named);
        let there = may_be.iter().position(|expected| *expected == found);
        let Some(there) = there else {
            let what: Vec<_> = may_be
                .iter()
                .filter_map(|expected| first_difference(&found, expected))
                .collect();
            return Err(format!("a power cut left something else: {what:#?}"));
        };
        for written in &group[..there] {
            self.learn(written);
        }
        for (incarnation, member) in &self.members {
            if let Some(handle) = self.handles.get(&member.life) {
                handle.adopt(*incarnation).unwrap();
            }
        }
        Ok(there)
    }
}
