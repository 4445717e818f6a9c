//! Combines many plain writes into one: the hot path.
//!
//! The batch computes in memory the changes that all its writes make to the tables: several steps
//! of one run become one change of its head, and several steps of one trigger become one
//! change of its row. The session then writes each table by one statement whose conditions are the
//! fences, without reading first. All statements are sent together. If each changed the expected
//! number of rows, every fence held. If not, the transaction is rolled back and repeated with
//! [`Facts`] that are read and locked first, so that fenced writes are left out and the other
//! writes succeed.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashSet;
use windlass_model::{Body, Digest, Payload, ScopeNo, Status};

use super::extras;
use super::facts::Facts;
use crate::postgres::shared::Known;
use crate::rows::{
    BORN_EPOCH, BORN_VERSION, Created, ExecutionRow, JournalRow, NewBlob, NewRun, NewTrigger,
};
use crate::stimuli::NewBookmark;
use crate::write::{Commit, Committed, Fenced, Finish, OrFenced, Write, Wrote};

/// The changes to the tables.
#[derive(Default)]
pub(super) struct Batch<'w> {
    pub(super) members: BTreeSet<i64>,
    pub(super) heads: BTreeMap<i64, Head<'w>>,
    pub(super) rows: BTreeMap<i64, Row<'w>>,
    pub(super) executions: Vec<&'w ExecutionRow>,
    /// With run, version and place.
    pub(super) journal: Vec<(i64, i64, i64, &'w JournalRow)>,
    /// By run, scope and name.
    pub(super) vars: BTreeMap<(i64, i64, &'w str), &'w Payload>,
    /// By run and scope; none: the scope is closed, and its variables are deleted.
    pub(super) scopes: BTreeMap<(i64, i64), Option<&'w [u8]>>,
    /// By run, list and place.
    pub(super) items: BTreeMap<(i64, i64, i64), &'w Payload>,
    /// For-eaches whose items are deleted.
    pub(super) lists: BTreeSet<(i64, i64)>,
    /// With the time of the last reference.
    pub(super) blobs: BTreeMap<[u8; 32], (&'w [u8], i64)>,
    /// By run.
    pub(super) refs: BTreeSet<(i64, [u8; 32])>,
    /// Burned bookmarks, by run and first trigger. They precede those in `bookmarks`.
    pub(super) burned: Vec<(i64, i64)>,
    /// By run.
    pub(super) bookmarks: Vec<(i64, &'w NewBookmark)>,
    pub(super) finished: Vec<i64>,
    /// Ended runs that may have bookmarks, with the time of the end.
    pub(super) silenced: Vec<(i64, i64)>,
    pub(super) released: Vec<i64>,
    /// The definitions and pins of the created runs.
    pub(super) documents: (BTreeSet<i64>, BTreeSet<i64>),
    /// One answer for each write in the batch, in order.
    pub(super) answers: Vec<Wrote>,
    ids: FxHashSet<&'w [u8]>,
}

/// The head of a run, before and after the batch.
pub(super) struct Head<'w> {
    /// Set if this batch creates the run, with the numbers of its definition and its pins.
    pub(super) created: Option<(&'w NewRun, i64, i64)>,
    pub(super) was_owner: i64,
    pub(super) epoch: i64,
    pub(super) was_version: i64,
    pub(super) owner: Option<i64>,
    pub(super) version: i64,
    pub(super) status: Status,
    pub(super) last_execution: Option<i64>,
    pub(super) state: &'w [u8],
    /// With the time of the end.
    pub(super) finish: Option<(&'w Finish, i64)>,
    /// The kinds of rare rows that the batch handles when the run ends.
    pub(super) carries: i16,
    /// The triggers of the run that the batch changes.
    rows: Vec<i64>,
}

/// A trigger, before and after the batch.
pub(super) struct Row<'w> {
    pub(super) run: i64,
    /// The token of the claimed row; none if the batch creates the row.
    pub(super) was_token: Option<i64>,
    /// None: the row is deleted.
    pub(super) now: Option<Now<'w>>,
}

/// A trigger after the batch.
#[derive(Clone, Copy)]
pub(super) struct Now<'w> {
    pub(super) new: &'w NewTrigger,
    pub(super) token: i64,
    pub(super) claimed: bool,
}

/// Whether a write was added to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    Yes,
    /// The write cannot be part of this batch.
    No,
}

/// Whether a write may be part of a batch, judged by the write alone.
pub(in crate::postgres) fn is_plain(write: &Write, known: &Known) -> bool {
    match write {
        Write::Commit(commit) => {
            commit.removed.is_empty()
                && commit.sends.is_empty()
                && commit.children.is_empty()
                && commit.cancels.is_empty()
                && commit.dead.is_empty()
                && commit.status != Status::Paused
                && (commit.finish.is_none() || known.carried_by(commit) & !extras::BOOKMARKS == 0)
        }
        Write::Create(new) => {
            new.parent.is_none()
                && new.keep_ms.is_none()
                && new.reserves.is_empty()
                && new.exclusive.is_none()
                && known.definitions.contains_key(&new.definition.digest)
                && known.pins.contains_key(&new.pins.digest)
        }
        Write::Flush(_) => true,
        _ => false,
    }
}

impl<'w> Batch<'w> {
    /// Adds a write, or answers that the batch must end before it.
    pub(super) fn add(&mut self, write: &'w Write, known: &Known, facts: Option<&Facts>) -> Added {
        if !is_plain(write, known) {
            return Added::No;
        }
        let answer = match write {
            Write::Commit(commit) => self.commit_step(commit, known, facts).map(Wrote::Commit),
            Write::Create(new) => self.create(new, known, facts).map(Wrote::Create),
            _ => Some(Wrote::Flush(())),
        };
        match answer {
            Some(answer) => {
                self.answers.push(answer);
                Added::Yes
            }
            None => Added::No,
        }
    }

    fn create(
        &mut self,
        new: &'w NewRun,
        known: &Known,
        facts: Option<&Facts>,
    ) -> Option<OrFenced<Created>> {
        let id: &[u8] = new.id.0.as_bytes();
        let definition = *known.definitions.get(&new.definition.digest)?;
        let pins = *known.pins.get(&new.pins.digest)?;
        let taken = self.ids.contains(id)
            || self.heads.contains_key(&new.no.0)
            || facts.is_some_and(|facts| facts.ids.contains(id));
        if taken || !self.are_new(&new.triggers) {
            return None;
        }
        let owner = new.owner.map(|owner| owner.0);
        if let Some(owner) = owner {
            if facts.is_some_and(|facts| !facts.members.contains(&owner)) {
                return Some(Err(Fenced));
            }
            self.members.insert(owner);
        }
        let no = new.no.0;
        self.ids.insert(id);
        self.documents.0.insert(definition);
        self.documents.1.insert(pins);
        let mut rows = Vec::with_capacity(new.triggers.len());
        for trigger in &new.triggers {
            rows.push(trigger.no.0);
            self.insert_row(no, trigger, trigger.claimed && owner.is_some());
        }
        for (name, value) in &new.vars {
            self.vars
                .insert((no, ScopeNo::ROOT.0.cast_signed(), name), value);
        }
        for (place, entry) in (0_i64..).zip(&new.journal) {
            self.journal.push((no, BORN_VERSION.0, place, entry));
        }
        self.put_blobs(no, &new.blobs, new.created_ms);
        new.payloads().for_each(|payload| self.refer(no, payload));
        let head = Head {
            created: Some((new, definition, pins)),
            was_owner: 0,
            epoch: BORN_EPOCH.0,
            was_version: BORN_VERSION.0,
            owner,
            version: BORN_VERSION.0,
            status: Status::Pending,
            last_execution: None,
            state: &new.state,
            finish: None,
            carries: 0,
            rows,
        };
        self.heads.insert(no, head);
        Some(Ok(Created::New))
    }

    fn commit_step(
        &mut self,
        commit: &'w Commit,
        known: &Known,
        facts: Option<&Facts>,
    ) -> Option<OrFenced<Committed>> {
        match self.holds(commit, facts) {
            Some(true) => {}
            Some(false) => return Some(Err(Fenced)),
            None => return None,
        }
        let no = commit.fence.run.0;
        let used = match commit.finish {
            Some(_) => &[],
            None => &commit.triggers[..],
        };
        let (first, others) = match used.split_first() {
            Some((first, others)) => (Some(first), others),
            None => (None, used),
        };
        if !self.are_new(others) || facts.is_some_and(|facts| facts.are_met(&commit.bookmarks)) {
            return None;
        }
        if self.puts_what_is_burned(commit) || self.leaves_unheard(commit) {
            return None;
        }
        self.members.insert(commit.fence.incarnation.0);
        let head = self.heads.entry(no).or_insert_with(|| Head::of(commit));
        head.move_on(commit);
        head.rows.push(commit.trigger.no.0);
        head.rows.extend(others.iter().map(|trigger| trigger.no.0));
        let version = head.version;
        self.use_up(commit, first);
        for trigger in others {
            self.insert_row(no, trigger, trigger.claimed);
        }
        self.executions.extend(&commit.executions);
        for (place, entry) in (0_i64..).zip(&commit.journal) {
            self.journal.push((no, version, place, entry));
        }
        self.put_blobs(no, &commit.blobs, commit.at_ms);
        commit
            .payloads()
            .for_each(|payload| self.refer(no, payload));
        self.put_scoped(no, commit);
        self.put_bookmarks(no, commit, known);
        self.end(no, commit);
        Some(Ok(Committed { due: false }))
    }

    /// Whether the fences of a step hold, compared with the changes of this batch and with the
    /// facts, if there are any. None: the step cannot be part of a batch.
    fn holds(&self, commit: &Commit, facts: Option<&Facts>) -> Option<bool> {
        let (fence, trigger) = (&commit.fence, &commit.trigger);
        if facts.is_some_and(|facts| !facts.members.contains(&fence.incarnation.0)) {
            return Some(false);
        }
        let wanted = (Some(fence.incarnation.0), fence.epoch.0, fence.version.0);
        match (self.heads.get(&fence.run.0), facts) {
            (Some(head), _) => {
                if (head.owner, head.epoch, head.version) != wanted {
                    return Some(false);
                }
            }
            (None, Some(facts)) => match facts.heads.get(&fence.run.0) {
                Some((owner, epoch, version, extras, paused)) => {
                    if (*owner, *epoch, *version) != wanted {
                        return Some(false);
                    }
                    if *paused || *extras & !extras::BOOKMARKS != 0 && commit.finish.is_some() {
                        return None;
                    }
                }
                None => return Some(false),
            },
            (None, None) => {}
        }
        let wanted = (fence.run.0, trigger.token.0);
        Some(match (self.rows.get(&trigger.no.0), facts) {
            (Some(row), _) => row
                .now
                .is_some_and(|now| now.claimed && (row.run, now.token) == wanted),
            (None, Some(facts)) => facts.claimed.get(&trigger.no.0) == Some(&wanted),
            (None, None) => true,
        })
    }

    /// Whether the batch contains none of these trigger numbers.
    fn are_new(&self, triggers: &[NewTrigger]) -> bool {
        let mut seen = FxHashSet::default();
        triggers
            .iter()
            .all(|new| !self.rows.contains_key(&new.no.0) && seen.insert(new.no.0))
    }

    fn insert_row(&mut self, run: i64, new: &'w NewTrigger, claimed: bool) {
        let now = Now {
            new,
            token: i64::from(claimed),
            claimed,
        };
        self.rows.insert(
            new.no.0,
            Row {
                run,
                was_token: None,
                now: Some(now),
            },
        );
    }

    fn use_up(&mut self, commit: &'w Commit, first: Option<&'w NewTrigger>) {
        let token = commit.trigger.token.0;
        let row = self.rows.entry(commit.trigger.no.0).or_insert_with(|| Row {
            run: commit.fence.run.0,
            was_token: Some(token),
            now: None,
        });
        row.now = first.map(|new| Now {
            new,
            token: token + i64::from(new.claimed),
            claimed: new.claimed,
        });
    }

    fn put_scoped(&mut self, no: i64, commit: &'w Commit) {
        for (scope, name, value) in &commit.vars {
            self.vars.insert((no, scope.0.cast_signed(), name), value);
        }
        for (scope, state) in &commit.scopes {
            let scope = scope.0.cast_signed();
            self.scopes.insert((no, scope), state.as_deref());
            if state.is_none() {
                self.vars.retain(|(of, at, _), _| (*of, *at) != (no, scope));
            }
        }
        for item in &commit.items {
            let list = item.list.0.cast_signed();
            self.items
                .insert((no, list, i64::from(item.index)), &item.output);
        }
        for list in &commit.lists_done {
            let list = list.0.cast_signed();
            self.items.retain(|(of, at, _), _| (*of, *at) != (no, list));
            self.lists.insert((no, list));
        }
    }

    /// Whether a step burns a bookmark that an earlier step of this batch writes. The bookmark must
    /// be written first, because it may meet a buffered stimulus.
    fn puts_what_is_burned(&self, commit: &Commit) -> bool {
        let mut put = self.bookmarks.iter();
        put.any(|(of, bookmark)| {
            let burned = commit.finish.is_some() || commit.burned.contains(&bookmark.first);
            *of == commit.fence.run.0 && burned
        })
    }

    /// Whether a step ends a run in which an earlier step of this batch has written a
    /// resumption. The row must be written first, so that it becomes a dead letter.
    fn leaves_unheard(&self, commit: &Commit) -> bool {
        let head = self.heads.get(&commit.fence.run.0);
        let Some(head) = head.filter(|_| commit.finish.is_some()) else {
            return false;
        };
        let others = head.rows.iter().filter(|row| **row != commit.trigger.no.0);
        let rows = others.filter_map(|row| self.rows.get(row));
        let mut now = rows.filter_map(|row| row.now.as_ref());
        now.any(|now| now.new.resumes())
    }

    fn put_bookmarks(&mut self, no: i64, commit: &'w Commit, known: &Known) {
        let burned = commit.burned.iter().map(|first| first.0.cast_signed());
        self.burned.extend(burned.map(|first| (no, first)));
        if commit.finish.is_none() {
            let bookmarks = commit.bookmarks.iter();
            self.bookmarks.extend(bookmarks.map(|new| (no, new)));
            return;
        }
        if known.carried_by(commit) != 0 {
            self.silenced.push((no, commit.at_ms));
            if let Some(head) = self.heads.get_mut(&no) {
                head.carries = extras::BOOKMARKS;
            }
        }
    }

    /// Changes the triggers of a run that ends or is released.
    fn end(&mut self, no: i64, commit: &Commit) {
        if commit.finish.is_none() && !commit.release {
            return;
        }
        let touched = self.heads.get(&no).map(|head| head.rows.clone());
        for row in touched.into_iter().flatten() {
            if let Some(row) = self.rows.get_mut(&row) {
                row.now = row.now.filter(|_| commit.finish.is_none());
                if let Some(now) = &mut row.now {
                    now.claimed = false;
                }
            }
        }
        if commit.finish.is_some() {
            self.finished.push(no);
        } else {
            self.released.push(no);
        }
    }

    fn put_blobs(&mut self, run: i64, blobs: &'w [NewBlob], at_ms: i64) {
        for blob in blobs {
            let known = self
                .blobs
                .entry(blob.digest.0)
                .or_insert((&blob.bytes, at_ms));
            known.1 = known.1.max(at_ms);
            self.refs.insert((run, blob.digest.0));
        }
    }

    fn refer(&mut self, run: i64, payload: &Payload) {
        if let Body::Blob(blob) = &payload.body {
            let Digest(digest) = blob.digest;
            self.refs.insert((run, digest));
        }
    }
}

impl<'w> Head<'w> {
    /// An existing run, as the first step of the batch expects it.
    fn of(commit: &'w Commit) -> Self {
        let fence = &commit.fence;
        Self {
            created: None,
            was_owner: fence.incarnation.0,
            epoch: fence.epoch.0,
            was_version: fence.version.0,
            owner: Some(fence.incarnation.0),
            version: fence.version.0,
            status: commit.status,
            last_execution: None,
            state: &commit.state,
            finish: None,
            carries: 0,
            rows: Vec::new(),
        }
    }

    fn move_on(&mut self, commit: &'w Commit) {
        self.version += 1;
        self.status = commit.status;
        self.state = &commit.state;
        if let Some(last) = commit.executions.last() {
            self.last_execution = Some(last.no.0);
        }
        if let Some(finish) = &commit.finish {
            self.finish = Some((finish, commit.at_ms));
        }
        if commit.finish.is_some() || commit.release {
            self.owner = None;
        }
    }
}
