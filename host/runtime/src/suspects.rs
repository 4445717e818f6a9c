//! The groups in which suspects run.
//!
//! A suspect is a trigger that may have killed hosts ([`windlass_store::rows::Suspicion`]). Each
//! suspect is marked in the store before it runs, so if the host dies, one of the marked triggers
//! is the cause. At most as many are marked at a time as the suspicion of each allows. All other
//! work runs beside them.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use windlass_model::{Epoch, RunNo, Seq};
use windlass_store::write::TriggerFence;

use crate::shard::Message;
use crate::shared::RuntimeShared;

/// A suspect that this process has claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Suspect {
    pub(crate) run: RunNo,
    pub(crate) seq: Seq,
    /// The burst of its run.
    pub(crate) epoch: Epoch,
    pub(crate) trigger: TriggerFence,
}

/// The suspects that this process has claimed.
#[derive(Default)]
pub(crate) struct Suspects {
    groups: Mutex<Groups>,
}

#[derive(Default)]
struct Groups {
    /// Those that wait, by the size that their group may have.
    waiting: BTreeMap<u16, VecDeque<Suspect>>,
    /// The size that the present group may have.
    most: u16,
    /// Those of the present group, with their bursts: they are marked or about to be.
    group: FxHashMap<(RunNo, Seq), Epoch>,
    /// Those of the group that are about to be marked.
    marking: Vec<Suspect>,
    /// Whether the store is asked to mark them.
    asked: bool,
}

impl Suspects {
    /// Adds a suspect whose group may have this size.
    pub(crate) fn enter(&self, suspect: Suspect, most: u16) {
        let mut groups = self.groups.lock();
        groups.waiting.entry(most).or_default().push_back(suspect);
    }

    /// Removes a suspect, wherever it is.
    pub(crate) fn leave(&self, run: RunNo, seq: Seq) {
        let mut groups = self.groups.lock();
        if groups.group.remove(&(run, seq)).is_none() {
            groups.waiting.retain(|_, waiting| {
                waiting.retain(|suspect| (suspect.run, suspect.seq) != (run, seq));
                !waiting.is_empty()
            });
        }
    }

    /// The suspects to be marked now, if there are any. The caller marks them, and reports that by
    /// [`Self::marked`].
    pub(crate) fn next(&self) -> Option<Vec<TriggerFence>> {
        let groups = &mut *self.groups.lock();
        if groups.asked {
            return None;
        }
        // Small groups go first: they are closest to the cause.
        if let Some(mut first) = groups.waiting.first_entry()
            && (groups.group.is_empty() || groups.most == *first.key())
        {
            groups.most = *first.key();
            let room = usize::from(groups.most).saturating_sub(groups.group.len());
            let waiting = first.get_mut();
            for suspect in waiting.drain(..room.min(waiting.len())) {
                let key = (suspect.run, suspect.seq);
                groups.group.insert(key, suspect.epoch);
                groups.marking.push(suspect);
            }
            if waiting.is_empty() {
                first.remove();
            }
        }
        let group = &groups.group;
        groups
            .marking
            .retain(|one| group.get(&(one.run, one.seq)) == Some(&one.epoch));
        groups.asked = !groups.marking.is_empty();
        groups
            .asked
            .then(|| groups.marking.iter().map(|one| one.trigger).collect())
    }

    /// Takes the answer to the mark. Returns the suspects that may run; none of them if they could
    /// not be marked, and then [`Self::next`] gives them out again.
    pub(crate) fn marked(&self, done: bool) -> Vec<Suspect> {
        let groups = &mut *self.groups.lock();
        groups.asked = false;
        if !done {
            return Vec::new();
        }
        let mut marked = std::mem::take(&mut groups.marking);
        marked.retain(|one| groups.group.get(&(one.run, one.seq)) == Some(&one.epoch));
        marked
    }
}

impl RuntimeShared {
    /// Requests the mark of the suspects that may run next, if there are any.
    pub(crate) fn mark_suspects(&self) {
        if let Some(triggers) = self.bursts.suspects.next() {
            self.intake.scheduler.mark(triggers);
        }
    }

    /// Lets the marked suspects run.
    pub(crate) fn suspects_marked(&self, done: bool) {
        for suspect in self.bursts.suspects.marked(done) {
            let Suspect {
                run, seq, epoch, ..
            } = suspect;
            match self.shard(run) {
                Some(shard) => shard.send(Message::SuspectsTurn(run, seq, epoch)),
                None => self.bursts.suspects.leave(run, seq),
            }
        }
        if done {
            self.mark_suspects();
        }
    }

    /// Removes a suspect, so that others may run.
    pub(crate) fn suspect_left(&self, run: RunNo, seq: Seq) {
        self.bursts.suspects.leave(run, seq);
        self.mark_suspects();
    }
}

#[cfg(test)]
mod tests {
    use windlass_model::{Token, TriggerNo};

    use super::*;

    fn suspect(no: i64) -> Suspect {
        Suspect {
            run: RunNo(no),
            seq: Seq(1),
            epoch: Epoch(1),
            trigger: TriggerFence {
                no: TriggerNo(no),
                token: Token(1),
            },
        }
    }

    fn numbers(group: Option<Vec<TriggerFence>>) -> Vec<i64> {
        let group = group.into_iter().flatten();
        group.map(|trigger| trigger.no.0).collect()
    }

    #[test]
    fn a_group_is_never_larger_than_each_suspect_allows() {
        let suspects = Suspects::default();
        for no in 1..=5 {
            suspects.enter(suspect(no), 3);
        }
        assert_eq!(numbers(suspects.next()), [1, 2, 3]);
        assert_eq!(suspects.next(), None, "one mark at a time");
        assert_eq!(suspects.marked(true).len(), 3);
        assert_eq!(suspects.next(), None);
        // A smaller group waits until the present one has ended, and then goes first.
        suspects.enter(suspect(6), 1);
        suspects.enter(suspect(7), 1);
        suspects.leave(RunNo(2), Seq(1));
        assert_eq!(suspects.next(), None);
        suspects.leave(RunNo(1), Seq(1));
        suspects.leave(RunNo(3), Seq(1));
        assert_eq!(numbers(suspects.next()), [6]);
        assert_eq!(suspects.marked(true).len(), 1);
        assert_eq!(suspects.next(), None);
        suspects.leave(RunNo(6), Seq(1));
        assert_eq!(numbers(suspects.next()), [7]);
        suspects.marked(true);
        suspects.leave(RunNo(7), Seq(1));
        // Those that become free are followed by others of the same size.
        assert_eq!(numbers(suspects.next()), [4, 5]);
        suspects.marked(true);
        suspects.enter(suspect(8), 3);
        assert_eq!(numbers(suspects.next()), [8]);
    }

    #[test]
    fn a_mark_that_failed_is_requested_again_without_those_that_have_left() {
        let suspects = Suspects::default();
        suspects.enter(suspect(1), 2);
        suspects.enter(suspect(2), 2);
        suspects.enter(suspect(3), 2);
        assert_eq!(numbers(suspects.next()), [1, 2]);
        suspects.leave(RunNo(2), Seq(1));
        assert_eq!(suspects.marked(false), []);
        assert_eq!(numbers(suspects.next()), [1, 3]);
        let marked = suspects.marked(true);
        assert_eq!(marked, [suspect(1), suspect(3)]);
    }
}
