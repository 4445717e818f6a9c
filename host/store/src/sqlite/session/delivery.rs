//! Stimuli: their delivery, and those that wait.

use rusqlite::OptionalExtension as _;
use windlass_model::{BookmarkNo, Delivery, Digest, RunId, RunNo, Status, StimulusNo};

use super::bookmarks::{Met, met, select_met};
use super::cache::Head;
use super::{Done, Session};
use crate::sql::hot;
use crate::sql::transaction::now;
use crate::sql::{queueing, trees};
use crate::stimuli::{ClaimFor, Cursor, NewStimulus, Send, SendOutcome, Sent};

/// The holder of a stimulus's blobs until the runs that refer to them are known.
const IN_HAND: i64 = i64::MIN;

impl Session<'_> {
    pub(super) fn send(&mut self, send: &Send) -> Done<SendOutcome> {
        let stimulus = &send.stimulus;
        let cursor = match send.queued {
            None => None,
            Some(no) => match self.cursor(no)? {
                None => return Ok(SendOutcome::Gone),
                Some(cursor) => cursor,
            },
        };
        let starts = stimulus.delivery.starts() && stimulus.run.is_none() && cursor.is_none();
        if starts && !self.bound_as(stimulus.hash, send)? {
            return Ok(SendOutcome::Moved);
        }
        self.put_blobs(IN_HAND, &stimulus.blobs, send.at_ms)?;
        let (mut sent, mut due) = (Sent::default(), Vec::new());
        if starts {
            let new = now(trees::start(self, send, &mut sent))?;
            due.extend(new.iter().map(|new| new.no));
        }
        let next = if stimulus.delivery.resumes() {
            self.resume_matching(send, cursor, &mut sent, &mut due)?
        } else {
            None
        };
        sent.more = next.is_some();
        match (send.queued, next) {
            (None, None) => {}
            (Some(no), None) => now(queueing::remove(self, no.0, send.at_ms))?,
            (Some(no), Some(next)) => self.note_cursor(no.0, next)?,
            (None, Some(next)) => {
                let no = now(queueing::add(self, stimulus, None, send.at_ms))?;
                self.note_cursor(no, next)?;
            }
        }
        if cursor.is_none() && sent == Sent::default() {
            sent.buffered = self.buffer(stimulus, send.at_ms)?;
            sent.dropped = !sent.buffered;
        }
        if !stimulus.blobs.is_empty() {
            self.loosen_blobs(IN_HAND, u64::from(u32::MAX), send.at_ms)?;
        }
        self.take_due(send.claim_for, send.at_ms, due, &mut sent)?;
        Ok(SendOutcome::Sent(sent))
    }

    /// Claims the due work of those runs that have no owner and are not paused.
    pub(super) fn take_due(
        &mut self,
        claim_for: Option<ClaimFor>,
        at_ms: i64,
        due: Vec<RunNo>,
        sent: &mut Sent,
    ) -> Done<()> {
        let Some(claim_for) = claim_for else {
            return Ok(());
        };
        let mut free = Vec::with_capacity(due.len());
        for no in due {
            let head = self.head(no.0)?;
            let is_free = |head: &mut Head| head.owner.is_none() && head.status != Status::Paused;
            free.extend(head.is_some_and(is_free).then_some(no));
        }
        sent.taken = self.claim(&claim_for.claim(at_ms, free))?.runs;
        Ok(())
    }

    /// Whether the prepared starts are exactly the current bindings of the hash.
    fn bound_as(&mut self, hash: Digest, send: &Send) -> Done<bool> {
        let sql = hot::STARTED_BY.sqlite;
        let mut statement = self.connection.prepare_cached(sql)?;
        let bound: Vec<(i64, [u8; 32])> = statement
            .query_map([&hash.0[..]], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        let prepared = |(no, digest): &(i64, [u8; 32])| {
            send.starts
                .iter()
                .any(|(binding, new)| binding.0 == *no && new.definition.digest.0 == *digest)
        };
        Ok(bound.len() == send.starts.len() && bound.iter().all(prepared))
    }

    /// Resumes matching bookmarks, up to the limit. Returns the cursor for the rest.
    fn resume_matching(
        &mut self,
        send: &Send,
        cursor: Option<Cursor>,
        sent: &mut Sent,
        due: &mut Vec<RunNo>,
    ) -> Done<Option<Cursor>> {
        let limit = send.limit.max(1) as usize;
        let mut found = self.matching(send, cursor, limit + 1)?;
        let more = found.len() > limit;
        found.truncate(limit);
        let after = found.last().map(|met| BookmarkNo(met.no));
        let mut before = None;
        for met in &found {
            // The bookmarks of one execution are adjacent, and an execution is resumed once.
            if before.replace((met.run, met.first)) != Some((met.run, met.first))
                && self.go_on(met, &send.stimulus.input, send.at_ms)?
            {
                sent.resumed.push(met.run_id);
                due.push(RunNo(met.run));
            }
        }
        let Some(after) = after.filter(|_| more) else {
            return Ok(None);
        };
        let until = match cursor {
            Some(cursor) => cursor.until,
            None => self.last_bookmark()?,
        };
        Ok(Some(Cursor { after, until }))
    }

    fn matching(&self, send: &Send, cursor: Option<Cursor>, limit: usize) -> Done<Vec<Met>> {
        let stimulus = &send.stimulus;
        let (after, until) = match cursor {
            Some(cursor) => (cursor.after.0, cursor.until.0),
            None => (0, i64::MAX),
        };
        let sql = if stimulus.run.is_some() {
            select_met!(
                "bookmark_run",
                "b.run = (SELECT no FROM run WHERE id = ?6) AND b.hash = ?1 \
                 AND b.no > ?2 AND b.no <= ?3 AND coalesce(b.expires_ms > ?4, true) \
                 AND (?7 IS NULL OR b.correlation = ?7) ORDER BY b.no LIMIT ?5"
            )
        } else if stimulus.correlation.is_some() {
            select_met!(
                "bookmark_correlation",
                "b.correlation = ?7 AND b.hash = ?1 AND ?6 IS NULL \
                 AND b.no > ?2 AND b.no <= ?3 AND coalesce(b.expires_ms > ?4, true) \
                 ORDER BY b.no LIMIT ?5"
            )
        } else {
            select_met!(
                "bookmark_hash",
                "b.hash = ?1 AND ?6 IS NULL AND ?7 IS NULL \
                 AND b.no > ?2 AND b.no <= ?3 AND coalesce(b.expires_ms > ?4, true) \
                 ORDER BY b.no LIMIT ?5"
            )
        };
        let key = (
            &stimulus.hash.0[..],
            after,
            until,
            send.at_ms,
            limit as i64,
            stimulus.run.as_ref().map(id),
            &stimulus.correlation,
        );
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = Vec::new();
        for row in statement.query_map(key, |row| Ok(met(row)))? {
            found.push(row??);
        }
        Ok(found)
    }

    /// The highest bookmark number that was assigned, whether the bookmark exists or not.
    fn last_bookmark(&self) -> Done<BookmarkNo> {
        let sql = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'bookmark'";
        let mut statement = self.connection.prepare_cached(sql)?;
        Ok(BookmarkNo(statement.query_row([], |row| row.get(0))?))
    }

    /// The delivery cursor of a queued stimulus; none if the stimulus is gone.
    #[expect(clippy::option_option, reason = "it is not there, or it has not begun")]
    fn cursor(&self, no: StimulusNo) -> Done<Option<Option<Cursor>>> {
        let sql = hot::CURSOR.sqlite;
        let mut statement = self.connection.prepare_cached(sql)?;
        let cursor = statement.query_row([no.0], |row| {
            let (after, until): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
            Ok(after.zip(until).map(|(after, until)| Cursor {
                after: BookmarkNo(after),
                until: BookmarkNo(until),
            }))
        });
        Ok(cursor.optional()?)
    }

    fn note_cursor(&mut self, no: i64, to: Cursor) -> Done<()> {
        let sql = hot::SET_CURSOR.sqlite;
        self.connection
            .prepare_cached(sql)?
            .execute((no, to.after.0, to.until.0))?;
        Ok(())
    }

    /// Buffers a stimulus for a later bookmark, if its delivery says so and its run has not
    /// ended.
    fn buffer(&mut self, new: &NewStimulus, at_ms: i64) -> Done<bool> {
        if new.delivery != Delivery::Buffer {
            return Ok(false);
        }
        if let Some(run) = new.run
            && let Some(no) = self.run_no(run)?
            && self.head(no)?.is_none_or(|head| head.status.is_final())
        {
            return Ok(false);
        }
        let ttl_ms = i64::try_from(new.ttl_ms).unwrap_or(i64::MAX);
        now(queueing::keep(self, new, at_ms.saturating_add(ttl_ms)))?;
        Ok(true)
    }

    /// The number of a run.
    pub(super) fn run_no(&self, run: RunId) -> Done<Option<i64>> {
        let sql = hot::RUN_NO.sqlite;
        let mut statement = self.connection.prepare_cached(sql)?;
        let no = statement.query_row([id(&run)], |row| row.get(0));
        Ok(no.optional()?)
    }
}

pub(super) fn id(run: &RunId) -> &[u8] {
    run.0.as_bytes()
}
