//! Bookmarks and stimuli in memory, and the resumption of parents by their children.

use std::collections::BTreeMap;

use windlass_model::resumption::About;
use windlass_model::{
    BookmarkNo, Delivery, Digest, Failure, JsonText, Payload, Resumption, RunNo, Seq, Status,
    StimulusNo, Token, TriggerNo, TriggerState, TriggerType,
};

use super::data::Data;
use crate::children::{Unborn, ended, refused};
use crate::error::Result;
use crate::letters::{LetterBody, NewDeadLetter};
use crate::rows::{Created, NewRun, NewTrigger, Parent, SenderTree};
use crate::stimuli::{
    BookmarkRow, ClaimFor, Cursor, Expire, NewBookmark, NewStimulus, QueueOp, Resume, Send,
    SendOutcome, Sent,
};
use crate::write::{Commit, Fenced, Finish, OrFenced};

/// The holder of a stimulus's blobs until the runs that refer to them are known.
const IN_HAND: RunNo = RunNo(i64::MIN);

/// The number that stands for a waiting stimulus among the runs that hold blobs.
fn holder(no: StimulusNo) -> RunNo {
    RunNo(-2 * no.0)
}

/// A waiting stimulus.
#[derive(Clone)]
pub(super) struct KeptStimulus {
    pub(super) stimulus: NewStimulus,
    pub(super) expires_ms: Option<i64>,
    pub(super) ready_ms: Option<i64>,
    pub(super) source: Option<RunNo>,
    pub(super) cursor: Option<Cursor>,
    pub(super) attempts: u32,
    pub(super) last_error: Option<Failure>,
}

/// The bookmarks and stimuli of a store.
#[derive(Default)]
pub(super) struct Stimuli {
    last_bookmark: i64,
    pub(super) bookmarks: BTreeMap<BookmarkNo, BookmarkRow>,
    last_kept: i64,
    pub(super) kept: BTreeMap<StimulusNo, KeptStimulus>,
    last_own: i64,
}

impl Data {
    /// Writes the bookmarks of a step, and matches them with buffered stimuli.
    pub(super) fn put_bookmarks(&mut self, commit: &Commit) -> bool {
        let run = commit.fence.run;
        for first in &commit.burned {
            self.burn(run, *first);
        }
        if commit.finish.is_some() {
            return false;
        }
        self.add_bookmarks(run, &commit.bookmarks, commit.at_ms)
    }

    /// Writes bookmarks, and matches them with buffered stimuli.
    pub(super) fn add_bookmarks(
        &mut self,
        run: RunNo,
        bookmarks: &[NewBookmark],
        at_ms: i64,
    ) -> bool {
        let made = bookmarks.iter();
        let made: Vec<_> = made.map(|new| self.insert_bookmark(run, new)).collect();
        let mut resumed = false;
        for (no, new) in made.into_iter().zip(bookmarks) {
            resumed |= !new.private && self.meet_buffered(no, at_ms);
        }
        resumed
    }

    fn insert_bookmark(&mut self, run: RunNo, new: &NewBookmark) -> BookmarkNo {
        self.stimuli.last_bookmark += 1;
        let no = BookmarkNo(self.stimuli.last_bookmark);
        if let Some(of) = self.runs.get(&run) {
            let row = BookmarkRow {
                no,
                run,
                run_id: of.row.id,
                bookmark: new.clone(),
                // Read from the trigger, which may be rescheduled.
                ends_ms: None,
            };
            self.edition += u64::from(row.bookmark.name == windlass_model::http::STIMULUS);
            self.stimuli.bookmarks.insert(no, row);
        }
        no
    }

    fn meet_buffered(&mut self, no: BookmarkNo, at_ms: i64) -> bool {
        let mut resumed = false;
        for _ in 0..Send::LIMIT {
            let met = self.stimuli.bookmarks.get(&no).cloned();
            let Some(met) = met.filter(|met| lasts(met, at_ms)) else {
                break;
            };
            let buffered = self.stimuli.kept.iter().find(|(_, kept)| {
                kept.expires_ms.is_some_and(|expires_ms| expires_ms > at_ms)
                    && matches(&met, &kept.stimulus)
            });
            let Some((stimulus, kept)) = buffered.map(|(no, kept)| (*no, kept.clone())) else {
                break;
            };
            resumed |= self.go_on(&met, &kept.stimulus.input, at_ms);
            self.remove_stimulus(stimulus, at_ms);
        }
        resumed
    }

    pub(super) fn burn(&mut self, run: RunNo, first: Seq) {
        self.stimuli
            .bookmarks
            .retain(|_, row| row.run != run || row.bookmark.first != first);
    }

    pub(super) fn burn_all(&mut self, run: RunNo) {
        self.stimuli.bookmarks.retain(|_, row| row.run != run);
    }

    fn go_on(&mut self, met: &BookmarkRow, input: &Payload, at_ms: i64) -> bool {
        let bookmark = &met.bookmark;
        let metadata = bookmark.metadata.as_ref();
        let document = Resumption::Resumed {
            bookmark: bookmark.name.clone(),
            input: input.clone(),
            metadata: metadata.and_then(|json| JsonText::stored(json).ok()),
        };
        let document = document.encode();
        self.refer(met.run, input);
        let row = self.triggers.get(&bookmark.trigger);
        let row = row.filter(|row| row.run == met.run).cloned();
        if bookmark.auto_burn {
            self.burn(met.run, bookmark.first);
        }
        let Some(row) = row else {
            self.burn(met.run, bookmark.first);
            return false;
        };
        let waits = row.state == TriggerState::Pending
            && row.kind == TriggerType::Resume
            && row.payload.is_none();
        if bookmark.auto_burn && waits {
            self.made_pending += 1;
            self.change(row.no, |row| {
                row.due_ms = at_ms;
                row.token = Token(row.token.0 + 1);
                row.payload = Some(document);
            });
            return true;
        }
        let no = self.own_number();
        let first = bookmark.first;
        let beside = NewTrigger {
            no,
            seq: Seq::external(no),
            kind: TriggerType::Resume,
            node: row.node,
            due_ms: at_ms,
            claimed: false,
            attempt: 1,
            detail: About::Resume { first }.encode(),
            payload: Some(document),
            priority: row.priority,
        };
        self.insert_trigger(met.run, &beside, false);
        true
    }

    pub(super) fn resume(&mut self, resume: &Resume) -> Sent {
        let mut bookmarks = self.stimuli.bookmarks.values();
        let met = bookmarks
            .find(|met| met.bookmark.token == resume.token && lasts(met, resume.at_ms))
            .cloned();
        let (mut sent, mut due) = (Sent::default(), Vec::new());
        if let Some(met) = met {
            self.put_blobs(met.run, &resume.blobs, resume.at_ms);
            if self.go_on(&met, &resume.input, resume.at_ms) {
                sent.resumed.push(met.run_id);
                due.push(met.run);
            }
        }
        sent.dropped = sent.resumed.is_empty();
        self.take_due(resume.claim_for, resume.at_ms, &due, &mut sent);
        sent
    }

    pub(super) fn send(&mut self, send: &Send) -> Result<SendOutcome> {
        let stimulus = &send.stimulus;
        let mut cursor = None;
        if let Some(no) = send.queued {
            match self.stimuli.kept.get(&no) {
                Some(kept) if kept.ready_ms.is_some() => cursor = kept.cursor,
                _ => return Ok(SendOutcome::Gone),
            }
        }
        let starts = stimulus.delivery.starts() && stimulus.run.is_none() && cursor.is_none();
        if starts && !self.bound_as(stimulus.hash, send) {
            return Ok(SendOutcome::Moved);
        }
        if starts {
            for (_, new) in &send.starts {
                self.check_run(new)?;
            }
        }
        self.put_blobs(IN_HAND, &stimulus.blobs, send.at_ms);
        let (mut sent, mut due) = (Sent::default(), Vec::new());
        if starts {
            self.start(send, &mut sent, &mut due)?;
        }
        let next = if stimulus.delivery.resumes() {
            self.resume_matching(send, cursor, &mut sent, &mut due)
        } else {
            None
        };
        sent.more = next.is_some();
        match (send.queued, next) {
            (None, None) => {}
            (Some(no), None) => self.remove_stimulus(no, send.at_ms),
            (Some(no), next) => self.note_cursor(no, next),
            (None, next) => {
                let no = self.add_to_queue(stimulus, None, send.at_ms);
                self.note_cursor(no, next);
            }
        }
        if cursor.is_none() && sent == Sent::default() {
            sent.buffered = self.buffer(stimulus, send.at_ms);
            sent.dropped = !sent.buffered;
        }
        if !stimulus.blobs.is_empty() {
            self.loosen_blobs(IN_HAND, send.at_ms);
        }
        self.take_due(send.claim_for, send.at_ms, &due, &mut sent);
        Ok(SendOutcome::Sent(sent))
    }

    /// Creates the runs that a stimulus starts, after counting them in the tree of its sender.
    fn start(&mut self, send: &Send, sent: &mut Sent, due: &mut Vec<RunNo>) -> Result<()> {
        let new = u32::try_from(send.starts.len()).unwrap_or(u32::MAX);
        let mut tree = None;
        if let Some(SenderTree { root, workflow }) = send.stimulus.tree.filter(|_| new > 0) {
            let (born, bound) = self.trees.get(&root).copied().unwrap_or((0, workflow));
            if born.saturating_add(new) > bound.min(send.descendants) {
                self.add_letter(&send.refused(born.into()));
                sent.refused = true;
                return Ok(());
            }
            tree = Some((root, born, bound));
        }
        let before = due.len();
        for (_, new) in &send.starts {
            let created = self.create(new)?;
            due.extend(sent.note(new, &created).then_some(new.no));
        }
        if let Some((root, born, bound)) = tree {
            let new = u32::try_from(due.len() - before).unwrap_or(u32::MAX);
            self.trees.insert(root, (born + new, bound));
        }
        Ok(())
    }

    /// Claims the due work of those runs that have no owner and are not paused.
    fn take_due(
        &mut self,
        claim_for: Option<ClaimFor>,
        at_ms: i64,
        due: &[RunNo],
        sent: &mut Sent,
    ) {
        let Some(claim_for) = claim_for else { return };
        let rows = due.iter().filter_map(|no| self.runs.get(no));
        let rows = rows.map(|run| &run.row);
        let free = rows.filter(|row| row.owner.is_none() && row.status != Status::Paused);
        let free = free.map(|row| row.no).collect();
        sent.taken = self.claim(&claim_for.claim(at_ms, free)).runs;
    }

    pub(super) fn is_heard(&self, hash: Digest, now_ms: i64) -> bool {
        let mut waits = self.stimuli.bookmarks.values();
        waits.any(|met| met.bookmark.hash == hash && lasts(met, now_ms))
            || !self
                .bindings_where(|row| row.binding.hash == hash)
                .is_empty()
    }

    fn bound_as(&self, hash: Digest, send: &Send) -> bool {
        let bound = self
            .bindings
            .iter()
            .filter(|(_, (_, binding))| binding.hash == hash);
        let mut count = 0;
        for (no, (workflow, _)) in bound {
            count += 1;
            let definition = self
                .publications
                .values()
                .find(|row| row.name == *workflow && row.retracted_ms.is_none())
                .map(|row| row.definition);
            let prepared = send
                .starts
                .iter()
                .any(|(binding, new)| binding == no && Some(new.definition.digest) == definition);
            if !prepared {
                return false;
            }
        }
        count == send.starts.len()
    }

    fn resume_matching(
        &mut self,
        send: &Send,
        cursor: Option<Cursor>,
        sent: &mut Sent,
        due: &mut Vec<RunNo>,
    ) -> Option<Cursor> {
        let limit = send.limit.max(1) as usize;
        let found: Vec<BookmarkRow> = self
            .stimuli
            .bookmarks
            .values()
            .filter(|met| {
                cursor.is_none_or(|cursor| met.no > cursor.after && met.no <= cursor.until)
                    && lasts(met, send.at_ms)
                    && matches(met, &send.stimulus)
            })
            .take(limit + 1)
            .cloned()
            .collect();
        let more = found.len() > limit;
        let until = match cursor {
            Some(cursor) => cursor.until,
            None => BookmarkNo(self.stimuli.last_bookmark),
        };
        let mut before = None;
        let mut after = None;
        for met in found.iter().take(limit) {
            let group = Some((met.run, met.bookmark.first));
            if before != group && self.go_on(met, &send.stimulus.input, send.at_ms) {
                sent.resumed.push(met.run_id);
                due.push(met.run);
            }
            before = group;
            after = Some(met.no);
        }
        let after = after.filter(|_| more)?;
        Some(Cursor { after, until })
    }

    fn note_cursor(&mut self, no: StimulusNo, cursor: Option<Cursor>) {
        if let Some(kept) = self.stimuli.kept.get_mut(&no) {
            kept.cursor = cursor;
        }
    }

    fn buffer(&mut self, new: &NewStimulus, at_ms: i64) -> bool {
        let over = new.run.is_some_and(|id| {
            let known = self.ids.get(&id).and_then(|no| self.runs.get(no));
            let ended = known.is_some_and(|run| run.row.status.is_final());
            ended || self.tombstones.contains_key(&id)
        });
        if new.delivery != Delivery::Buffer || over {
            return false;
        }
        let ttl_ms = i64::try_from(new.ttl_ms).unwrap_or(i64::MAX);
        let no = self.insert_stimulus(new);
        if let Some(kept) = self.stimuli.kept.get_mut(&no) {
            kept.expires_ms = Some(at_ms.saturating_add(ttl_ms));
        }
        true
    }

    pub(super) fn enqueue(&mut self, new: &NewStimulus) {
        self.add_to_queue(new, None, new.at_ms);
    }

    pub(super) fn add_to_queue(
        &mut self,
        new: &NewStimulus,
        source: Option<RunNo>,
        ready_ms: i64,
    ) -> StimulusNo {
        let no = self.insert_stimulus(new);
        if let Some(kept) = self.stimuli.kept.get_mut(&no) {
            kept.ready_ms = Some(ready_ms);
            kept.source = source;
        }
        no
    }

    fn insert_stimulus(&mut self, new: &NewStimulus) -> StimulusNo {
        self.stimuli.last_kept += 1;
        let no = StimulusNo(self.stimuli.last_kept);
        self.put_blobs(holder(no), &new.blobs, new.at_ms);
        self.refer(holder(no), &new.input);
        let stimulus = NewStimulus {
            blobs: Vec::new(),
            ..new.clone()
        };
        let kept = KeptStimulus {
            stimulus,
            expires_ms: None,
            ready_ms: None,
            source: None,
            cursor: None,
            attempts: 0,
            last_error: None,
        };
        self.stimuli.kept.insert(no, kept);
        no
    }

    fn remove_stimulus(&mut self, no: StimulusNo, at_ms: i64) {
        if self.stimuli.kept.remove(&no).is_some() {
            self.loosen_blobs(holder(no), at_ms);
        }
    }

    pub(super) fn queue(&mut self, op: &QueueOp) -> OrFenced<()> {
        let queued = |kept: &KeptStimulus| kept.ready_ms.is_some();
        let done = match op {
            QueueOp::Delay {
                no,
                ready_ms,
                error,
            } => match self.stimuli.kept.get_mut(no).filter(|kept| queued(kept)) {
                None => false,
                Some(kept) => {
                    kept.ready_ms = Some(*ready_ms);
                    kept.attempts += 1;
                    kept.last_error = Some(error.clone());
                    true
                }
            },
            QueueOp::Fail { no, error, at_ms } => {
                let found = self.stimuli.kept.get(no).is_some_and(queued);
                if found {
                    self.kill_stimulus(*no, "failed", Some(error), *at_ms);
                }
                found
            }
            QueueOp::Delete { no } => self.delete_waiting(*no, queued),
            QueueOp::Unbuffer { no } => self.delete_waiting(*no, |kept| kept.expires_ms.is_some()),
        };
        if done { Ok(()) } else { Err(Fenced) }
    }

    fn delete_waiting(&mut self, no: StimulusNo, is: impl Fn(&KeptStimulus) -> bool) -> bool {
        let at_ms = match self.stimuli.kept.get(&no) {
            Some(kept) if is(kept) => kept.stimulus.at_ms,
            _ => return false,
        };
        self.remove_stimulus(no, at_ms);
        true
    }

    pub(super) fn expire(&mut self, expire: &Expire) -> u32 {
        let kept = || self.stimuli.kept.iter();
        let mut queued: Vec<_> = kept()
            .filter(|(_, kept)| kept.ready_ms.is_some())
            .map(|(no, kept)| (kept.stimulus.at_ms, *no))
            .filter(|(at_ms, _)| *at_ms < expire.queued_before_ms)
            .collect();
        let mut buffered: Vec<_> = kept()
            .filter_map(|(no, kept)| Some((kept.expires_ms?, *no)))
            .filter(|(expires_ms, _)| *expires_ms <= expire.now_ms)
            .collect();
        let mut count = 0;
        for old in [&mut queued, &mut buffered] {
            old.sort_unstable();
            old.truncate(expire.limit as usize);
            for (_, no) in old {
                self.kill_stimulus(*no, "expired", None, expire.now_ms);
                count += 1;
            }
        }
        count
    }

    fn kill_stimulus(&mut self, no: StimulusNo, reason: &str, error: Option<&Failure>, at_ms: i64) {
        let Some(kept) = self.stimuli.kept.get(&no).cloned() else {
            return;
        };
        self.add_letter(&NewDeadLetter {
            reason: reason.to_owned(),
            body: LetterBody::Stimulus(Box::new(kept.stimulus)),
            failure: error.cloned(),
            at_ms,
        });
        self.remove_stimulus(no, at_ms);
    }

    /// The next trigger number that the store assigns itself.
    pub(super) fn own_number(&mut self) -> TriggerNo {
        self.stimuli.last_own += 1;
        TriggerNo(self.stimuli.last_own)
    }

    /// Creates the children of a step. The parent of a child that cannot be created is resumed with
    /// a failure.
    pub(super) fn begin_children(&mut self, commit: &Commit) -> Result<()> {
        for child in &commit.children {
            let unborn = self.create_child(commit, child)?;
            if let (Some(why), Some(parent)) = (unborn, &child.parent) {
                self.tell(parent, refused(child, why), commit.at_ms);
            }
        }
        Ok(())
    }

    /// Creates a child of a step, after counting it in the tree of its root. Returns the reason if it
    /// cannot be created.
    fn create_child(&mut self, commit: &Commit, child: &NewRun) -> Result<Option<Unborn>> {
        let Some(parent) = &child.parent else {
            let created = self.create(child)?;
            return Ok((!matches!(created, Ok(Created::New))).then_some(Unborn::Taken));
        };
        if !parent.undoes && self.is_ending(parent.run) {
            return Ok(Some(Unborn::Ending));
        }
        let tree = self.trees.get(&parent.root).copied();
        let (born, bound) = tree.unwrap_or((0, commit.tree.workflow));
        if born >= bound.min(commit.tree.host) {
            let born = born.into();
            return Ok(Some(Unborn::Bound { born }));
        }
        if !matches!(self.create(child)?, Ok(Created::New)) {
            // The bound of the tree is fixed by the first attempt.
            self.trees.insert(parent.root, (born, bound));
            return Ok(Some(Unborn::Taken));
        }
        self.trees.insert(parent.root, (born + 1, bound));
        Ok(None)
    }

    /// Whether a run, or a run above it up to the first that undoes a node, was asked to end.
    fn is_ending(&self, run: RunNo) -> bool {
        let above = |no: &RunNo| {
            let parent = self.runs.get(no)?.row.parent.as_ref();
            parent.filter(|of| !of.undoes).map(|of| of.run)
        };
        let mut up = std::iter::successors(Some(run), above);
        up.any(|no| self.ending.contains(&no))
    }

    /// Resumes the parent of a run that has ended.
    pub(super) fn tell_parent(&mut self, commit: &Commit, finish: &Finish) -> bool {
        let child = self.runs.get(&commit.fence.run);
        let Some((id, parent)) = child.and_then(|of| Some((of.row.id, of.row.parent.clone()?)))
        else {
            return false;
        };
        if let Some(output) = &finish.output {
            self.refer(parent.run, output);
        }
        self.tell(&parent, ended(id, commit.status, finish), commit.at_ms)
    }

    fn tell(&mut self, parent: &Parent, document: bytes::Bytes, at_ms: i64) -> bool {
        let waits = self.triggers.get(&parent.trigger).is_some_and(|row| {
            row.run == parent.run
                && row.seq == parent.seq
                && row.kind == TriggerType::Child
                && row.payload.is_none()
        });
        if waits {
            self.made_pending += 1;
            self.change(parent.trigger, |row| {
                row.payload = Some(document);
                if row.state != TriggerState::Claimed {
                    row.due_ms = at_ms;
                    row.token = Token(row.token.0 + 1);
                }
            });
        }
        waits
    }
}

/// Whether a bookmark has not expired.
fn lasts(met: &BookmarkRow, at_ms: i64) -> bool {
    let expires_ms = met.bookmark.expires_ms;
    expires_ms.is_none_or(|expires_ms| expires_ms > at_ms)
}

fn matches(met: &BookmarkRow, stimulus: &NewStimulus) -> bool {
    let bookmark = &met.bookmark;
    let correlation = stimulus.correlation.as_ref();
    bookmark.hash == stimulus.hash
        && correlation.is_none_or(|wanted| bookmark.correlation.as_ref() == Some(wanted))
        && stimulus.run.is_none_or(|wanted| wanted == met.run_id)
}
