//! Bookmarks of suspended executions, and their resumption.

use bytes::Bytes;
use rusqlite::{OptionalExtension as _, Row};
use windlass_model::resumption::About;
use windlass_model::{Payload, RunId, RunNo, Seq, TriggerNo};

use super::{Done, Session};
use crate::error::Result;
use crate::sql::hot;
use crate::sql::queueing;
use crate::sql::row::{bytes_if_any, flag, int, payload, text, uuid};
use crate::sql::transaction::{extras, now};
use crate::stimuli::{NewBookmark, Resume, Sent, resumption};
use crate::write::Commit;

/// A bookmark that a stimulus or token matches.
pub(super) struct Met {
    pub(super) no: i64,
    pub(super) run: i64,
    pub(super) run_id: RunId,
    pub(super) first: i64,
    trigger: i64,
    name: String,
    auto_burn: bool,
    metadata: Option<Bytes>,
}

/// Selects the columns that [`met`] reads; the rest of a condition follows.
macro_rules! select_met {
    ($index:literal, $rest:literal) => {
        concat!(
            "SELECT b.no, b.run, i.id, b.first, b.trigger, b.name, b.auto_burn, b.metadata ",
            "FROM bookmark b INDEXED BY ",
            $index,
            " CROSS JOIN run i ON i.no = b.run WHERE ",
            $rest
        )
    };
}
pub(super) use select_met;

pub(super) fn met(row: &Row<'_>) -> Result<Met> {
    Ok(Met {
        no: int(row, 0)?,
        run: int(row, 1)?,
        run_id: RunId(uuid(row, 2)?),
        first: int(row, 3)?,
        trigger: int(row, 4)?,
        name: text(row, 5)?,
        auto_burn: flag(row, 6)?,
        metadata: bytes_if_any(row, 7)?,
    })
}

impl Session<'_> {
    /// Writes the bookmarks of a step, and matches them with buffered stimuli. True if an execution
    /// was resumed.
    pub(super) fn put_bookmarks(&mut self, commit: &Commit) -> Done<bool> {
        let run = commit.fence.run.0;
        for first in &commit.burned {
            self.burn(run, first.0.cast_signed())?;
        }
        if commit.finish.is_some() {
            return Ok(false);
        }
        self.add_bookmarks(run, &commit.bookmarks, commit.at_ms)
    }

    /// Writes bookmarks, and matches them with buffered stimuli. True if an execution was resumed.
    pub(super) fn add_bookmarks(
        &mut self,
        run: i64,
        bookmarks: &[NewBookmark],
        at_ms: i64,
    ) -> Done<bool> {
        if bookmarks.is_empty() {
            return Ok(false);
        }
        self.note_extra(run, extras::BOOKMARKS)?;
        let mut made = Vec::with_capacity(bookmarks.len());
        for new in bookmarks {
            made.push((self.insert_bookmark(run, new)?, new));
        }
        let mut resumed = false;
        for (no, new) in made.into_iter().filter(|(_, new)| !new.private) {
            resumed |= self.meet_buffered(no, new, at_ms)?;
        }
        Ok(resumed)
    }

    fn insert_bookmark(&mut self, run: i64, new: &NewBookmark) -> Done<i64> {
        self.republishes |= new.name == windlass_model::http::STIMULUS;
        let sql = "INSERT INTO bookmark (run, first, trigger, phase, name, hash, matches, \
            correlation, private, auto_burn, metadata, token, expires_ms, created_ms) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
        self.connection.prepare_cached(sql)?.execute((
            run,
            new.first.0.cast_signed(),
            new.trigger.0,
            new.phase,
            &new.name,
            &new.hash.0[..],
            &new.matches[..],
            &new.correlation,
            new.private,
            new.auto_burn,
            new.metadata.as_deref(),
            &new.token.0[..],
            new.expires_ms,
            new.created_ms,
        ))?;
        Ok(self.connection.last_insert_rowid())
    }

    /// Resumes by a stimulus that arrived before the bookmark.
    fn meet_buffered(&mut self, no: i64, new: &NewBookmark, at_ms: i64) -> Done<bool> {
        let mut resumed = false;
        for _ in 0..crate::stimuli::Send::LIMIT {
            // Another bookmark of the same execution may have burned it.
            let sql = select_met!("bookmark_hash", "b.hash = ?2 AND b.no = ?1");
            let met = self
                .connection
                .prepare_cached(sql)?
                .query_row((no, &new.hash.0[..]), |row| Ok(met(row)))
                .optional()?
                .transpose()?;
            let Some(met) = met else { break };
            if new.expires_ms.is_some_and(|expires_ms| expires_ms <= at_ms) {
                break;
            }
            let Some((stimulus, input)) = self.buffered_for(&met, new, at_ms)? else {
                break;
            };
            resumed |= self.go_on(&met, &input, at_ms)?;
            now(queueing::remove(self, stimulus, at_ms))?;
        }
        Ok(resumed)
    }

    /// The oldest buffered stimulus that matches a bookmark.
    fn buffered_for(
        &self,
        met: &Met,
        new: &NewBookmark,
        at_ms: i64,
    ) -> Done<Option<(i64, Payload)>> {
        let sql = "SELECT no, input, input_meta FROM stimulus INDEXED BY stimulus_buffered \
            WHERE hash = ?1 AND run IS ?2 AND correlation IS ?3 AND expires_ms > ?4 \
            ORDER BY no LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut oldest: Option<(i64, Payload)> = None;
        for run in [None, Some(&met.run_id.0.as_bytes()[..])] {
            for correlation in [None, new.correlation.as_deref()] {
                let key = (&new.hash.0[..], run, correlation, at_ms);
                let read =
                    |row: &Row<'_>| Ok(int(row, 0).and_then(|no| Ok((no, payload(row, 1)?))));
                let found = statement.query_row(key, read).optional()?.transpose()?;
                oldest = oldest.into_iter().chain(found).min_by_key(|(no, _)| *no);
                if new.correlation.is_none() {
                    break;
                }
            }
        }
        Ok(oldest)
    }

    /// Ends the bookmarks of an execution.
    pub(super) fn burn(&mut self, run: i64, first: i64) -> Done<()> {
        self.connection
            .prepare_cached("DELETE FROM bookmark WHERE run = ?1 AND first = ?2")?
            .execute((run, first))?;
        Ok(())
    }

    /// Ends all bookmarks of a run.
    pub(super) fn burn_all(&mut self, run: i64) -> Done<()> {
        self.connection
            .prepare_cached("DELETE FROM bookmark WHERE run = ?1")?
            .execute([run])?;
        Ok(())
    }

    /// Resumes an execution. False if its wait is gone.
    pub(super) fn go_on(&mut self, met: &Met, input: &Payload, at_ms: i64) -> Done<bool> {
        let document = resumption(&met.name, input, met.metadata.as_ref());
        self.refer(met.run, input)?;
        if met.auto_burn {
            let sql = "UPDATE trigger SET due_ms = ?3, token = token + 1, payload = ?4 \
                WHERE no = ?1 AND run = ?2 AND state = 0 AND kind = 8 AND payload IS NULL";
            let key = (met.trigger, met.run, at_ms, &document[..]);
            let changed = self.connection.prepare_cached(sql)?.execute(key)?;
            self.burn(met.run, met.first)?;
            if changed == 1 {
                self.made_pending += 1;
                return Ok(true);
            }
        }
        self.resume_beside(met, &document, at_ms)
    }

    /// The execution does not wait now, or keeps waiting: the resumption becomes a trigger of its
    /// own.
    fn resume_beside(&mut self, met: &Met, document: &[u8], at_ms: i64) -> Done<bool> {
        let sql = hot::TRIGGER_OF.sqlite;
        let mut row = self.connection.prepare_cached(sql)?;
        if !row.exists((met.trigger, met.run))? {
            // The row of the bookmark is gone.
            self.burn(met.run, met.first)?;
            return Ok(false);
        }
        drop(row);
        let no = self.own_number()?;
        let first = Seq(met.first.cast_unsigned());
        let sql = hot::ADD_RESUMPTION.sqlite;
        let inserted = self.connection.prepare_cached(sql)?.execute((
            met.trigger,
            met.run,
            no.0,
            Seq::external(no).0.cast_signed(),
            at_ms,
            &About::Resume { first }.encode()[..],
            document,
        ))?;
        self.made_pending += inserted as u64;
        Ok(inserted == 1)
    }

    /// Resumes by a token.
    pub(super) fn resume(&mut self, resume: &Resume) -> Done<Sent> {
        let sql = select_met!(
            "bookmark_token",
            "b.token = ?1 AND (b.expires_ms IS NULL OR b.expires_ms > ?2) ORDER BY b.no LIMIT 1"
        );
        let key = (&resume.token.0[..], resume.at_ms);
        let met = self
            .connection
            .prepare_cached(sql)?
            .query_row(key, |row| Ok(met(row)))
            .optional()?
            .transpose()?;
        let (mut sent, mut due) = (Sent::default(), Vec::new());
        if let Some(met) = met {
            self.put_blobs(met.run, &resume.blobs, resume.at_ms)?;
            if self.go_on(&met, &resume.input, resume.at_ms)? {
                sent.resumed.push(met.run_id);
                due.push(RunNo(met.run));
            }
        }
        sent.dropped = sent.resumed.is_empty();
        self.take_due(resume.claim_for, resume.at_ms, due, &mut sent)?;
        Ok(sent)
    }

    /// The next trigger number that the store assigns itself.
    pub(super) fn own_number(&mut self) -> Done<TriggerNo> {
        let sql = "UPDATE own SET trigger = trigger + 1 WHERE no = 1 RETURNING trigger";
        let mut statement = self.connection.prepare_cached(sql)?;
        Ok(TriggerNo(statement.query_row([], |row| row.get(0))?))
    }

    /// Notes that a run has a kind of rare row that its end must handle.
    pub(super) fn note_extra(&mut self, run: i64, extra: i16) -> Done<()> {
        let Some(head) = self.head(run)? else {
            return Ok(());
        };
        if head.extras & extra == 0 {
            head.extras |= extra;
            self.connection
                .prepare_cached("UPDATE run SET extras = extras | ?2 WHERE no = ?1")?
                .execute((run, extra))?;
        }
        Ok(())
    }
}
