//! Stimuli: their delivery, and those that wait.

use rustc_hash::FxHashMap;
use windlass_model::{BookmarkNo, Delivery, Digest, RunId, StimulusNo};

use super::bookmarks::{self, Met, select_met};
use super::heads::{Params, Standing, hold, id, standing};
use super::{Done, Failed, MEMBER, Session, get};
use crate::sql::hot;
use crate::sql::{queueing, trees};
use crate::stimuli::{ClaimFor, Cursor, NewStimulus, Send, SendOutcome, Sent};

/// The holder of a stimulus's blobs until the runs that refer to them are known.
const IN_HAND: i64 = i64::MIN;

/// Two statements that match bookmarks in a range of numbers: the first locks the heads of their
/// runs, so that no wait ends in between; the second reads the bookmarks. No bookmark is added
/// in between, because the hash is locked.
///
/// If most bookmarks in the statistics have the same hash, the planner would read all bookmarks in
/// the order of their numbers. So the range is written with the columns of the index to be used.
macro_rules! meeting {
    ($from:expr, $place:literal, $after:literal, $until:literal, $which:literal) => {
        (
            hold!(concat!(
                "no = ANY (ARRAY(SELECT b.run FROM ",
                $from,
                meeting!(@ $place, $after, $until, $which),
                "))"
            )),
            select_met!(from $from, meeting!(@ $place, $after, $until, $which)),
        )
    };
    (@ $place:literal, $after:literal, $until:literal, $which:literal) => {
        concat!(
            " WHERE (", $place, ") > (", $after, ") AND (", $place, ") <= (", $until, ")",
            " AND (b.expires_ms IS NULL OR b.expires_ms > $4)",
            $which,
            " ORDER BY ", $place, " LIMIT $5"
        )
    };
}

/// The bookmarks of one run: few, even if many runs wait for the same hash.
macro_rules! of_run {
    () => {
        "(SELECT * FROM bookmark WHERE run = (SELECT no FROM run WHERE id = $6) \
            OFFSET 0) b"
    };
}

impl Session<'_> {
    pub(super) async fn send(&mut self, send: &Send) -> Done<SendOutcome> {
        let stimulus = &send.stimulus;
        self.lock_hashes(&[stimulus.hash]).await?;
        self.hold_member(send.claim_for).await?;
        let cursor = match send.queued {
            None => None,
            Some(no) => match self.cursor(no).await? {
                None => return Ok(SendOutcome::Gone),
                Some(cursor) => cursor,
            },
        };
        let starts = stimulus.delivery.starts() && stimulus.run.is_none() && cursor.is_none();
        if starts && !self.bound_as(stimulus.hash, send).await? {
            return Ok(SendOutcome::Moved);
        }
        self.put_blobs(IN_HAND, &stimulus.blobs, send.at_ms).await?;
        let (mut sent, mut free) = (Sent::default(), Vec::new());
        if starts {
            for new in trees::start(self, send, &mut sent).await? {
                let due = new.triggers.iter().any(|new| new.due_ms <= send.at_ms);
                free.extend((due && new.owner.is_none()).then_some(new.no.0));
            }
        }
        let next = if stimulus.delivery.resumes() {
            self.resume_matching(send, cursor, &mut sent, &mut free)
                .await?
        } else {
            None
        };
        sent.more = next.is_some();
        match (send.queued, next) {
            (None, None) => {}
            (Some(no), None) => queueing::remove(self, no.0, send.at_ms).await?,
            (Some(no), Some(next)) => self.note_cursor(no.0, next).await?,
            (None, Some(next)) => {
                let no = queueing::add(self, stimulus, None, send.at_ms).await?;
                self.note_cursor(no, next).await?;
            }
        }
        if cursor.is_none() && sent == Sent::default() {
            sent.buffered = self.buffer(stimulus, send.at_ms).await?;
            sent.dropped = !sent.buffered;
        }
        if !stimulus.blobs.is_empty() {
            self.loosen_blobs(IN_HAND, i64::from(u32::MAX), send.at_ms)
                .await?;
        }
        self.take_due(send.claim_for, send.at_ms, free, &mut sent)
            .await?;
        Ok(SendOutcome::Sent(sent))
    }

    /// Locks the row of the member that claims, so that it remains a member until the transaction
    /// ends.
    pub(super) async fn hold_member(&mut self, claim_for: Option<ClaimFor>) -> Done<()> {
        match claim_for {
            Some(claim_for) => self.later(MEMBER, &[&claim_for.incarnation.0]).await,
            None => Ok(()),
        }
    }

    /// Whether the prepared starts are exactly the current bindings of the hash.
    async fn bound_as(&mut self, hash: Digest, send: &Send) -> Done<bool> {
        let sql = hot::STARTED_BY.postgres;
        let rows = self.rows(sql, &[&&hash.0[..]]).await?;
        for row in &rows {
            let (no, digest): (i64, &[u8]) = (get(row, 0)?, get(row, 1)?);
            let prepared = send
                .starts
                .iter()
                .any(|(binding, new)| binding.0 == no && new.definition.digest.0 == *digest);
            if !prepared {
                return Ok(false);
            }
        }
        Ok(rows.len() == send.starts.len())
    }

    /// Resumes matching bookmarks, up to the limit. Returns the cursor for the rest. Adds the
    /// runs that can be claimed now to `free`.
    async fn resume_matching(
        &mut self,
        send: &Send,
        cursor: Option<Cursor>,
        sent: &mut Sent,
        free: &mut Vec<i64>,
    ) -> Done<Option<Cursor>> {
        let limit = send.limit.max(1) as usize;
        let (mut met, heads) = self.meet(send, cursor, limit + 1).await?;
        let more = met.len() > limit;
        met.truncate(limit);
        let after = met.last().map(|met| BookmarkNo(met.no));
        // The bookmarks of one execution are adjacent, and an execution is resumed once.
        met.dedup_by_key(|met| met.group());
        let went_on = self.go_on(&met, &send.stimulus.input, send.at_ms).await?;
        sent.resumed = went_on.iter().map(|met| met.run_id).collect();
        let went_on = went_on.iter().map(|met| met.run);
        free.extend(went_on.filter(|no| heads.get(no).is_some_and(Standing::is_free)));
        let Some(after) = after.filter(|_| more) else {
            return Ok(None);
        };
        let until = match cursor {
            Some(cursor) => cursor.until,
            None => self.last_bookmark().await?,
        };
        Ok(Some(Cursor { after, until }))
    }

    /// The bookmarks that a stimulus matches, oldest first, and the locked heads of their
    /// runs.
    async fn meet(
        &mut self,
        send: &Send,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Done<(Vec<Met>, FxHashMap<i64, Standing>)> {
        let stimulus = &send.stimulus;
        let (after, until) = match cursor {
            Some(cursor) => (cursor.after.0, cursor.until.0),
            None => (0, i64::MAX),
        };
        let hash = &stimulus.hash.0[..];
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let run = stimulus.run.as_ref().map(id);
        let correlation = &stimulus.correlation;
        let [held, met] = match (&run, correlation) {
            (Some(run), _) => {
                let params: Params<'_> =
                    &[&hash, &after, &until, &send.at_ms, &limit, run, correlation];
                let (hold, meet) = meeting!(
                    of_run!(),
                    "b.hash, b.no",
                    "$1, $2",
                    "$1, $3",
                    " AND ($7::text IS NULL OR b.correlation = $7)"
                );
                self.all([(hold, params), (meet, params)]).await?
            }
            (None, Some(correlation)) => {
                let params: Params<'_> = &[&hash, &after, &until, &send.at_ms, &limit, correlation];
                let (hold, meet) = meeting!(
                    "bookmark b",
                    "b.correlation, b.hash, b.no",
                    "$6, $1, $2",
                    "$6, $1, $3",
                    " AND b.correlation IS NOT NULL"
                );
                self.all([(hold, params), (meet, params)]).await?
            }
            (None, None) => {
                let params: Params<'_> = &[&hash, &after, &until, &send.at_ms, &limit];
                let (hold, meet) = meeting!("bookmark b", "b.hash, b.no", "$1, $2", "$1, $3", "");
                self.all([(hold, params), (meet, params)]).await?
            }
        };
        let heads = held.iter().map(|row| Ok((get(row, 0)?, standing(row, 1)?)));
        let heads: FxHashMap<i64, Standing> = heads.collect::<Done<_>>()?;
        let met: Vec<Met> = met.iter().map(bookmarks::met).collect::<Result<_, _>>()?;
        if met.iter().any(|met| !heads.contains_key(&met.run)) {
            // A bookmark was removed between the statements, so another one came within the limit.
            return Err(Failed::Again);
        }
        Ok((met, heads))
    }

    /// The highest bookmark number that was assigned, whether the bookmark exists or not. While the
    /// lock of its hash is held, the hash gets no later bookmark.
    async fn last_bookmark(&mut self) -> Done<BookmarkNo> {
        let sql = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM bookmark_no_seq";
        Ok(BookmarkNo(self.row(sql, &[]).await?.try_get(0)?))
    }

    /// The delivery cursor of a queued stimulus, whose row is locked. None if the row is gone.
    async fn cursor(&mut self, no: StimulusNo) -> Done<Option<Option<Cursor>>> {
        let sql = hot::CURSOR.postgres;
        let Some(row) = self.one(sql, &[&no.0]).await? else {
            return Ok(None);
        };
        let (after, until): (Option<i64>, Option<i64>) = (get(&row, 0)?, get(&row, 1)?);
        Ok(Some(after.zip(until).map(|(after, until)| Cursor {
            after: BookmarkNo(after),
            until: BookmarkNo(until),
        })))
    }

    async fn note_cursor(&mut self, no: i64, to: Cursor) -> Done<()> {
        let sql = hot::SET_CURSOR.postgres;
        self.later(sql, &[&no, &to.after.0, &to.until.0]).await?;
        Ok(())
    }

    /// Buffers a stimulus for a later bookmark, if its delivery says so and its run has not
    /// ended.
    async fn buffer(&mut self, new: &NewStimulus, at_ms: i64) -> Done<bool> {
        if new.delivery != Delivery::Buffer {
            return Ok(false);
        }
        if let Some(run) = new.run
            && self.is_named_over(run).await?
        {
            return Ok(false);
        }
        let ttl_ms = i64::try_from(new.ttl_ms).unwrap_or(i64::MAX);
        let expires_ms = at_ms.saturating_add(ttl_ms);
        queueing::keep(self, new, expires_ms).await?;
        Ok(true)
    }

    /// Whether the run exists and has ended.
    async fn is_named_over(&mut self, run: RunId) -> Done<bool> {
        let sql = "SELECT 1 FROM run WHERE id = $1 AND finished_ms IS NOT NULL";
        Ok(self.one(sql, &[&id(&run)]).await?.is_some())
    }
}
