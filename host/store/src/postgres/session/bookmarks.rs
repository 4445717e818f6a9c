//! Bookmarks of suspended executions, and their resumption.
//!
//! A bookmark and its stimulus may be written at the same moment over two connections. Both
//! transactions take the advisory lock of the hash before they read, so the later one sees the
//! writes of the earlier one.

use bytes::Bytes;
use rustc_hash::FxHashSet;
use tokio_postgres::Row;
use windlass_model::resumption::About;
use windlass_model::{Payload, RunId, Seq};

use super::heads::{Params, Standing, hold, standing};
use super::{Done, Session, extras, get};
use crate::sql::hot;
use crate::sql::queueing::holder;
use crate::sql::row::{bytes_if_any, payload, uuid};
use crate::stimuli::{NewBookmark, Resume, Sent, resumption};
use crate::write::Commit;

/// Those of the given hashes that have a buffered stimulus.
pub(super) const BUFFERED: &str = "SELECT DISTINCT u.hash FROM unnest($1::bytea[]) AS u (hash) \
    WHERE EXISTS (SELECT 1 FROM stimulus s WHERE s.hash = u.hash AND s.expires_ms IS NOT NULL \
        OFFSET 0)";

/// Ends the bookmarks of executions, each named by its run and its first trigger.
pub(super) const BURN: &str = "DELETE FROM bookmark b \
    USING unnest($1::bigint[], $2::bigint[]) AS g (run, first) \
    WHERE b.run = ANY (ARRAY[g.run]) AND b.first = g.first";

/// Ends all bookmarks of runs.
pub(super) const BURN_ALL: &str = "DELETE FROM bookmark WHERE run = ANY($1)";

/// A bookmark that a stimulus or token matches.
pub(super) struct Met {
    pub(super) no: i64,
    pub(super) run: i64,
    pub(super) run_id: RunId,
    first: i64,
    trigger: i64,
    name: String,
    auto_burn: bool,
    metadata: Option<Bytes>,
    /// Whether its row waits; none if the row is gone. A transaction ends a wait only while it
    /// holds the head of the run.
    waits: Option<bool>,
}

impl Met {
    /// The run and the execution, whose bookmarks end together.
    pub(super) fn group(&self) -> (i64, i64) {
        (self.run, self.first)
    }

    /// The resumption for the execution.
    fn document(&self, input: &Payload) -> Bytes {
        resumption(&self.name, input, self.metadata.as_ref())
    }
}

/// Selects the columns that [`met`] reads; a condition follows. Rows are found by their numbers,
/// because a run may have many.
macro_rules! select_met {
    (from $from:expr, $rest:expr) => {
        concat!(
            "SELECT b.no, b.run, i.id, b.first, b.trigger, b.name, b.auto_burn, b.metadata, ",
            "t.state = 0 AND t.kind = 8 AND t.payload IS NULL FROM ",
            $from,
            " JOIN run i ON i.no = ANY (ARRAY[b.run]) ",
            "LEFT JOIN trigger t ON t.no = ANY (ARRAY[b.trigger]) AND t.run + 0 = b.run",
            $rest
        )
    };
    ($rest:literal) => {
        select_met!(from "bookmark b", concat!(" WHERE ", $rest))
    };
}

pub(super) use select_met;

pub(super) fn met(row: &Row) -> Done<Met> {
    Ok(Met {
        no: get(row, 0)?,
        run: get(row, 1)?,
        run_id: RunId(uuid(row, 2)?),
        first: get(row, 3)?,
        trigger: get(row, 4)?,
        name: get(row, 5)?,
        auto_burn: get(row, 6)?,
        metadata: bytes_if_any(row, 7)?,
        waits: get(row, 8)?,
    })
}

impl Session<'_> {
    /// Writes the bookmarks of a step, and matches them with buffered stimuli. True if an execution
    /// was resumed.
    pub(super) async fn put_bookmarks(&mut self, commit: &Commit) -> Done<bool> {
        let run = commit.fence.run.0;
        for first in &commit.burned {
            self.burn(&[(run, first.0.cast_signed())]).await?;
        }
        if commit.finish.is_some() {
            return Ok(false);
        }
        self.add_bookmarks(run, &commit.bookmarks, commit.at_ms)
            .await
    }

    /// Writes bookmarks, and matches them with buffered stimuli. True if an execution was resumed.
    /// The hashes are locked already.
    pub(super) async fn add_bookmarks(
        &mut self,
        run: i64,
        bookmarks: &[NewBookmark],
        at_ms: i64,
    ) -> Done<bool> {
        if bookmarks.is_empty() {
            return Ok(false);
        }
        self.note_extra(run, extras::BOOKMARKS).await?;
        let mut made = Vec::with_capacity(bookmarks.len());
        for new in bookmarks {
            made.push((self.insert_bookmark(run, new).await?, new));
        }
        let mut resumed = false;
        for (no, new) in made.into_iter().filter(|(_, new)| !new.private) {
            resumed |= self.meet_buffered(no, new, at_ms).await?;
        }
        Ok(resumed)
    }

    async fn insert_bookmark(&mut self, run: i64, new: &NewBookmark) -> Done<i64> {
        let sql = "INSERT INTO bookmark (run, first, trigger, phase, name, hash, matches, \
            correlation, private, auto_burn, metadata, token, expires_ms, created_ms) \
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) RETURNING no";
        let row = self
            .row(
                sql,
                &[
                    &run,
                    &new.first.0.cast_signed(),
                    &new.trigger.0,
                    &i64::from(new.phase),
                    &new.name,
                    &&new.hash.0[..],
                    &&new.matches[..],
                    &new.correlation,
                    &new.private,
                    &new.auto_burn,
                    &new.metadata.as_deref(),
                    &&new.token.0[..],
                    &new.expires_ms,
                    &new.created_ms,
                ],
            )
            .await?;
        Ok(get(&row, 0)?)
    }

    /// Resumes by a stimulus that arrived before the bookmark.
    async fn meet_buffered(&mut self, no: i64, new: &NewBookmark, at_ms: i64) -> Done<bool> {
        if new.expires_ms.is_some_and(|expires_ms| expires_ms <= at_ms) {
            return Ok(false);
        }
        let mut resumed = false;
        for _ in 0..crate::stimuli::Send::LIMIT {
            // Another bookmark of the same execution may have burned it.
            let Some(row) = self.one(select_met!("b.no = $1"), &[&no]).await? else {
                break;
            };
            let met = met(&row)?;
            let Some((stimulus, input)) = self.take_buffered(&met, new, at_ms).await? else {
                break;
            };
            resumed |= !self.go_on(&[met], &input, at_ms).await?.is_empty();
            let all = i64::from(u32::MAX);
            self.loosen_blobs(holder(stimulus), all, at_ms).await?;
        }
        Ok(resumed)
    }

    /// Takes the oldest buffered stimulus that matches a bookmark, unless another transaction is
    /// about to delete that stimulus.
    async fn take_buffered(
        &mut self,
        met: &Met,
        new: &NewBookmark,
        at_ms: i64,
    ) -> Done<Option<(i64, Payload)>> {
        let sql = "DELETE FROM stimulus WHERE no = (SELECT no FROM stimulus \
            WHERE hash = $1 AND (run IS NULL OR run = $2) \
            AND (correlation IS NULL OR correlation = $3) AND expires_ms > $4 \
            ORDER BY no LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING no, input, input_meta";
        let key = (&new.hash.0[..], &met.run_id.0.as_bytes()[..]);
        let row = self
            .one(sql, &[&key.0, &key.1, &new.correlation, &at_ms])
            .await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some((get(&row, 0)?, payload(&row, 1)?)))
    }

    /// Ends the bookmarks of executions, each named by its run and its first trigger.
    pub(super) async fn burn(&mut self, groups: &[(i64, i64)]) -> Done<()> {
        let (runs, firsts): (Vec<i64>, Vec<i64>) = groups.iter().copied().unzip();
        self.later(BURN, &[&runs, &firsts]).await
    }

    /// The bookmark of this number, if it still exists, with the head of its run held so that
    /// the wait cannot end, and the state of that head.
    async fn hold_met(&mut self, no: i64, run: i64) -> Done<Option<(Met, Standing)>> {
        let [held, found] = self
            .all([
                (hold!("no = $1"), &[&run]),
                (select_met!("b.no = $1"), &[&no]),
            ])
            .await?;
        let (Some(held), Some(found)) = (held.first(), found.first()) else {
            return Ok(None);
        };
        Ok(Some((met(found)?, standing(held, 1)?)))
    }

    /// Resumes executions, each once. Returns those that still had a wait, in the same order. The
    /// heads of their runs were held before the bookmarks were matched.
    pub(super) async fn go_on<'m>(
        &mut self,
        met: &'m [Met],
        input: &Payload,
        at_ms: i64,
    ) -> Done<Vec<&'m Met>> {
        for run in met.iter().map(|met| met.run).collect::<FxHashSet<_>>() {
            self.refer(run, input).await?;
        }
        // The first matching bookmark resumes a row; a row is resumed once.
        let mut rows = FxHashSet::default();
        let (in_place, beside): (Vec<&Met>, Vec<&Met>) = met.iter().partition(|met| {
            met.auto_burn && met.waits == Some(true) && rows.insert((met.trigger, met.run))
        });
        self.resume_in_place(&in_place, input, at_ms).await?;
        let burning = met
            .iter()
            .filter(|met| met.auto_burn || met.waits.is_none());
        let burning: Vec<(i64, i64)> = burning.map(Met::group).collect();
        if !burning.is_empty() {
            self.burn(&burning).await?;
        }
        for met in beside.iter().filter(|met| met.waits.is_some()) {
            self.resume_beside(met, input, at_ms).await?;
        }
        Ok(met.iter().filter(|met| met.waits.is_some()).collect())
    }

    /// Resumes the waiting rows whose bookmarks are used up, in one statement.
    async fn resume_in_place(&mut self, met: &[&Met], input: &Payload, at_ms: i64) -> Done<()> {
        if met.is_empty() {
            return Ok(());
        }
        let nos: Vec<i64> = met.iter().map(|met| met.trigger).collect();
        let runs: Vec<i64> = met.iter().map(|met| met.run).collect();
        let documents: Vec<Bytes> = met.iter().map(|met| met.document(input)).collect();
        let documents: Vec<&[u8]> = documents.iter().map(|document| &document[..]).collect();
        let sql = "UPDATE trigger t SET due_ms = $4, token = t.token + 1, payload = u.payload \
            FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS u (no, run, payload) \
            WHERE t.no = ANY (ARRAY[u.no]) AND t.run + 0 = u.run AND t.state = 0 \
            AND t.kind = 8 AND t.payload IS NULL";
        self.aftermath.made_pending += met.len() as u64;
        let params: Params<'_> = &[&nos, &runs, &documents, &at_ms];
        self.later_all(sql, params, met.len()).await
    }

    /// The execution does not wait now, or keeps waiting: the resumption becomes a trigger of its
    /// own.
    async fn resume_beside(&mut self, met: &Met, input: &Payload, at_ms: i64) -> Done<()> {
        let no = self.own_number().await?;
        let first = Seq(met.first.cast_unsigned());
        let sql = hot::ADD_RESUMPTION.postgres;
        let params: Params<'_> = &[
            &met.trigger,
            &met.run,
            &no.0,
            &Seq::external(no).0.cast_signed(),
            &at_ms,
            &&About::Resume { first }.encode()[..],
            &&met.document(input)[..],
        ];
        self.aftermath.made_pending += 1;
        self.later_all(sql, params, 1).await
    }

    /// Resumes by a token.
    pub(super) async fn resume(&mut self, resume: &Resume) -> Done<Sent> {
        self.hold_member(resume.claim_for).await?;
        let sql = "SELECT no, run FROM bookmark WHERE token = $1 \
            AND (expires_ms IS NULL OR expires_ms > $2) ORDER BY no LIMIT 1";
        let found = self
            .one(sql, &[&&resume.token.0[..], &resume.at_ms])
            .await?;
        let mut met = None;
        if let Some(row) = found {
            met = self.hold_met(get(&row, 0)?, get(&row, 1)?).await?;
        }
        let (mut sent, mut free) = (Sent::default(), Vec::new());
        if let Some((met, standing)) = met {
            self.put_blobs(met.run, &resume.blobs, resume.at_ms).await?;
            let met = [met];
            let went_on = self.go_on(&met, &resume.input, resume.at_ms).await?;
            sent.resumed = went_on.iter().map(|met| met.run_id).collect();
            let went_on = went_on.iter().filter(|_| standing.is_free());
            free = went_on.map(|met| met.run).collect();
        }
        sent.dropped = sent.resumed.is_empty();
        self.take_due(resume.claim_for, resume.at_ms, free, &mut sent)
            .await?;
        Ok(sent)
    }
}
