//! Stimuli: delivering them, and keeping those that wait.

use rusqlite::{OptionalExtension as _, params};
use windlass_model::{
    BookmarkNo, Delivery, Digest, Failure, InstanceId, InstanceNo, Status, StimulusNo,
};

use super::bookmarks::{Met, met, select_met};
use super::cache::Head;
use super::{Done, Session};
use crate::letters::{LetterBody, NewDeadLetter};
use crate::sql::row::int;
use crate::sql::stimuli::{select_stimulus, stimulus};
use crate::sqlite::values::{json, payload};
use crate::stimuli::{Cursor, NewStimulus, QueueOp, Send, Sent, Taker};
use crate::write::Wrote;

/// Holds the blobs of a stimulus until it is known who else does.
const IN_HAND: i64 = i64::MIN;

/// What holds the blobs of a waiting stimulus, where instances have their numbers.
fn holder(no: i64) -> i64 {
    -2 * no
}

impl Session<'_> {
    pub(super) fn send(&mut self, send: &Send) -> Done<Wrote> {
        let stimulus = &send.stimulus;
        let cursor = match send.queued {
            None => None,
            Some(no) => match self.cursor(no)? {
                None => return Ok(Wrote::Fenced),
                Some(cursor) => cursor,
            },
        };
        let starts = stimulus.delivery.starts() && stimulus.instance.is_none() && cursor.is_none();
        if starts && !self.bound_as(stimulus.hash, send)? {
            return Ok(Wrote::Moved);
        }
        self.put_blobs(IN_HAND, &stimulus.blobs, send.at_ms)?;
        let (mut sent, mut due) = (Sent::default(), Vec::new());
        if starts {
            self.start_bound(send, &mut sent, &mut due)?;
        }
        let next = if stimulus.delivery.resumes() {
            self.resume_matching(send, cursor, &mut sent, &mut due)?
        } else {
            None
        };
        sent.more = next.is_some();
        match (send.queued, next) {
            (None, None) => {}
            (Some(no), None) => self.remove_stimulus(no.0, send.at_ms)?,
            (Some(no), Some(next)) => self.note_cursor(no.0, next)?,
            (None, Some(next)) => {
                let no = self.enqueue(stimulus, None, send.at_ms)?;
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
        self.take_due(send.taker, send.at_ms, due, &mut sent)?;
        Ok(Wrote::Sent(sent))
    }

    /// Takes what is due of these instances where that is nobody's and goes on.
    pub(super) fn take_due(
        &mut self,
        taker: Option<Taker>,
        at_ms: i64,
        due: Vec<InstanceNo>,
        sent: &mut Sent,
    ) -> Done<()> {
        let Some(taker) = taker else { return Ok(()) };
        let mut free = Vec::with_capacity(due.len());
        for no in due {
            let head = self.head(no.0)?;
            let is_free = |head: &mut Head| head.owner.is_none() && head.status != Status::Paused;
            free.extend(head.is_some_and(is_free).then_some(no));
        }
        sent.taken = self.claim_for(&taker.claim(at_ms, free))?.instances;
        Ok(())
    }

    /// Whether what is to be started is exactly what is bound to the hash.
    fn bound_as(&mut self, hash: Digest, send: &Send) -> Done<bool> {
        let sql = "SELECT b.no, d.digest FROM binding b \
            JOIN publication p ON p.name = b.workflow AND p.retracted_ms IS NULL \
            JOIN definition d ON d.no = p.definition WHERE b.hash = ?1";
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

    fn start_bound(&mut self, send: &Send, sent: &mut Sent, due: &mut Vec<InstanceNo>) -> Done<()> {
        for (_, new) in &send.starts {
            match self.create(new)? {
                Wrote::Created => {
                    sent.started.push(new.id);
                    due.push(new.no);
                }
                Wrote::Exists(_) => sent.started.push(new.id),
                Wrote::Reserved { by } => sent.reserved.push(by),
                _ => {}
            }
        }
        Ok(())
    }

    /// Resumes what matches, at most as many as the bound says; gives where to go on.
    fn resume_matching(
        &mut self,
        send: &Send,
        cursor: Option<Cursor>,
        sent: &mut Sent,
        due: &mut Vec<InstanceNo>,
    ) -> Done<Option<Cursor>> {
        let limit = send.limit.max(1) as usize;
        let mut found = self.matching(send, cursor, limit + 1)?;
        let more = found.len() > limit;
        found.truncate(limit);
        let after = found.last().map(|met| BookmarkNo(met.no));
        let mut before = None;
        for met in &found {
            // A group's bookmarks lie side by side, and a group is resumed once.
            if before.replace((met.instance, met.first)) != Some((met.instance, met.first))
                && self.go_on(met, &send.stimulus.input, send.at_ms)?
            {
                sent.resumed.push(met.instance_id);
                due.push(InstanceNo(met.instance));
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
        let sql = if stimulus.instance.is_some() {
            select_met!(
                "bookmark_instance",
                "b.instance = (SELECT no FROM instance WHERE id = ?6) AND b.hash = ?1 \
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
            stimulus.instance.as_ref().map(id),
            &stimulus.correlation,
        );
        let mut statement = self.connection.prepare_cached(sql)?;
        let found = statement.query_map(key, met)?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// The last number that was given to a bookmark, be it there or burned.
    fn last_bookmark(&self) -> Done<BookmarkNo> {
        let sql = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'bookmark'";
        let mut statement = self.connection.prepare_cached(sql)?;
        Ok(BookmarkNo(statement.query_row([], |row| row.get(0))?))
    }

    /// How far a stimulus of the queue has come; none if it is not there.
    #[expect(clippy::option_option, reason = "it is not there, or it has not begun")]
    fn cursor(&self, no: StimulusNo) -> Done<Option<Option<Cursor>>> {
        let sql = "SELECT after_no, until_no FROM stimulus WHERE no = ?1 AND ready_ms IS NOT NULL";
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
        let sql = "UPDATE stimulus SET after_no = ?2, until_no = ?3 WHERE no = ?1";
        self.connection
            .prepare_cached(sql)?
            .execute((no, to.after.0, to.until.0))?;
        Ok(())
    }

    /// Keeps a stimulus for who comes later, if it says so and somebody can come.
    fn buffer(&mut self, new: &NewStimulus, at_ms: i64) -> Done<bool> {
        if new.delivery != Delivery::Buffer {
            return Ok(false);
        }
        if let Some(instance) = new.instance
            && let Some(no) = self.instance_no(instance)?
            && self.head(no)?.is_none_or(|head| head.status.is_final())
        {
            return Ok(false);
        }
        let ttl_ms = i64::try_from(new.ttl_ms).unwrap_or(i64::MAX);
        let no = self.insert_stimulus(new)?;
        let sql = "UPDATE stimulus SET expires_ms = ?2 WHERE no = ?1";
        let key = (no, at_ms.saturating_add(ttl_ms));
        self.connection.prepare_cached(sql)?.execute(key)?;
        Ok(true)
    }

    /// Puts a stimulus into the queue.
    pub(super) fn enqueue(
        &mut self,
        new: &NewStimulus,
        source: Option<InstanceNo>,
        ready_ms: i64,
    ) -> Done<i64> {
        let no = self.insert_stimulus(new)?;
        let sql = "UPDATE stimulus SET ready_ms = ?2, source = ?3 WHERE no = ?1";
        let key = (no, ready_ms, source.map(|no| no.0));
        self.connection.prepare_cached(sql)?.execute(key)?;
        Ok(no)
    }

    fn insert_stimulus(&mut self, new: &NewStimulus) -> Done<i64> {
        let (input, meta) = payload(Some(&new.input));
        let sql = "INSERT INTO stimulus (id, name, matches, hash, correlation, instance, \
            delivery, ttl_ms, at_ms, input, input_meta) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        self.connection.prepare_cached(sql)?.execute(params![
            &new.id.0.as_bytes()[..],
            new.name,
            &new.matches[..],
            &new.hash.0[..],
            new.correlation,
            new.instance.as_ref().map(id),
            new.delivery as u8,
            new.ttl_ms.cast_signed(),
            new.at_ms,
            input,
            meta,
        ])?;
        let no = self.connection.last_insert_rowid();
        self.put_blobs(holder(no), &new.blobs, new.at_ms)?;
        self.refer(holder(no), &new.input)?;
        Ok(no)
    }

    /// Takes a waiting stimulus away.
    pub(super) fn remove_stimulus(&mut self, no: i64, at_ms: i64) -> Done<()> {
        let sql = "DELETE FROM stimulus WHERE no = ?1 RETURNING input_meta";
        let meta: Option<Option<String>> = self
            .connection
            .prepare_cached(sql)?
            .query_row([no], |row| row.get(0))
            .optional()?;
        if meta.flatten().is_some() {
            self.loosen_blobs(holder(no), u64::from(u32::MAX), at_ms)?;
        }
        Ok(())
    }

    pub(super) fn queue(&mut self, op: &QueueOp) -> Done<Wrote> {
        let done = match op {
            QueueOp::Add(new) => {
                self.enqueue(new, None, new.at_ms)?;
                true
            }
            QueueOp::Delay {
                no,
                ready_ms,
                error,
            } => self.delay(no.0, *ready_ms, error)?,
            QueueOp::Fail { no, error, at_ms } => {
                let sql = select_stimulus!("WHERE no = ?1 AND ready_ms IS NOT NULL").sqlite;
                self.kill_stimuli(sql, [no.0], "failed", Some(error), *at_ms)? == 1
            }
            QueueOp::Delete { no } => self.delete_waiting(no.0, "ready_ms")?,
            QueueOp::Unbuffer { no } => self.delete_waiting(no.0, "expires_ms")?,
            QueueOp::Expire {
                queued_before_ms,
                now_ms,
                limit,
            } => {
                let sql = select_stimulus!(
                    "INDEXED BY stimulus_at WHERE ready_ms IS NOT NULL AND at_ms < ?1 \
                     ORDER BY at_ms, no LIMIT ?2"
                )
                .sqlite;
                let key = (queued_before_ms, limit);
                let mut count = self.kill_stimuli(sql, key, "expired", None, *now_ms)?;
                let sql = select_stimulus!(
                    "INDEXED BY stimulus_expires WHERE expires_ms <= ?1 \
                     ORDER BY expires_ms, no LIMIT ?2"
                )
                .sqlite;
                count += self.kill_stimuli(sql, (now_ms, limit), "expired", None, *now_ms)?;
                return Ok(Wrote::Freed(count));
            }
        };
        Ok(if done { Wrote::Done } else { Wrote::Fenced })
    }

    fn delay(&mut self, no: i64, ready_ms: i64, error: &Failure) -> Done<bool> {
        let sql = "UPDATE stimulus SET ready_ms = ?2, attempts = attempts + 1, last_error = ?3 \
            WHERE no = ?1 AND ready_ms IS NOT NULL";
        let key = (no, ready_ms, json(error));
        Ok(self.connection.prepare_cached(sql)?.execute(key)? == 1)
    }

    fn delete_waiting(&mut self, no: i64, which: &str) -> Done<bool> {
        let sql = format!("SELECT at_ms FROM stimulus WHERE no = ?1 AND {which} IS NOT NULL");
        let at_ms: Option<i64> = self
            .connection
            .prepare_cached(&sql)?
            .query_row([no], |row| row.get(0))
            .optional()?;
        let Some(at_ms) = at_ms else { return Ok(false) };
        self.remove_stimulus(no, at_ms)?;
        Ok(true)
    }

    /// Makes dead letters of waiting stimuli.
    fn kill_stimuli(
        &mut self,
        sql: &str,
        key: impl rusqlite::Params,
        reason: &str,
        error: Option<&Failure>,
        at_ms: i64,
    ) -> Done<u32> {
        let mut found: Vec<(i64, NewStimulus)> = Vec::new();
        {
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query(key)?;
            while let Some(row) = rows.next()? {
                found.push((int(row, 0)?, stimulus(row, 1)?));
            }
        }
        let count = u32::try_from(found.len()).unwrap_or(u32::MAX);
        for (no, dead) in found {
            self.bury_letter(&NewDeadLetter {
                reason: reason.to_owned(),
                body: LetterBody::Stimulus(Box::new(dead)),
                failure: error.cloned(),
                at_ms,
            })?;
            self.remove_stimulus(no, at_ms)?;
        }
        Ok(count)
    }

    /// The number of an instance.
    pub(super) fn instance_no(&self, instance: InstanceId) -> Done<Option<i64>> {
        let sql = "SELECT no FROM instance WHERE id = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let no = statement.query_row([id(&instance)], |row| row.get(0));
        Ok(no.optional()?)
    }
}

pub(super) fn id(instance: &InstanceId) -> &[u8] {
    instance.0.as_bytes()
}
