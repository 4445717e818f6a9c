//! Bookmarks: what suspended node runs wait for, and how they go on.
//!
//! A bookmark and the stimulus that it waits for may be written at the same moment over two
//! connections. Both hold the advisory lock of their hash by then, which was taken before
//! anything was read, so one of them sees what the other has written.

use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio_postgres::Row;
use windlass_model::resumption::About;
use windlass_model::{InstanceId, InstanceNo, Payload, Resumption, Seq};

use super::{Done, Session, extras, get};
use crate::postgres::values::{bytes, some_payload, uuid};
use crate::stimuli::{NewBookmark, Resume, Sent};
use crate::write::{Commit, Wrote};

/// Of these hashes, those of which a stimulus waits for its bookmark.
pub(super) const BUFFERED: &str =
    "SELECT DISTINCT hash FROM stimulus WHERE hash = ANY($1) AND expires_ms IS NOT NULL";

/// Ends the bookmarks of node runs, each named by its instance and its first trigger.
pub(super) const BURN: &str = "DELETE FROM bookmark b \
    USING unnest($1::bigint[], $2::bigint[]) AS g (instance, first) \
    WHERE b.instance = g.instance AND b.first = g.first";

/// Ends all bookmarks of instances.
pub(super) const BURN_ALL: &str = "DELETE FROM bookmark WHERE instance = ANY($1)";

/// A bookmark that was met.
pub(super) struct Met {
    pub(super) no: i64,
    pub(super) instance: i64,
    pub(super) instance_id: InstanceId,
    first: i64,
    trigger: i64,
    name: String,
    auto_burn: bool,
    metadata: Option<Bytes>,
}

impl Met {
    /// Its wait group.
    pub(super) fn group(&self) -> (i64, i64) {
        (self.instance, self.first)
    }

    /// What whoever waits is given.
    fn document(&self, input: &Payload) -> Bytes {
        let metadata = self.metadata.as_ref();
        let document = Resumption::Resumed {
            bookmark: self.name.clone(),
            input: input.clone(),
            // What was stored as JSON is JSON.
            metadata: metadata.and_then(|json| serde_json::from_slice(json).ok()),
        };
        document.encode()
    }
}

/// Selects what [`met`] reads; to be followed by a condition.
macro_rules! select_met {
    (from $from:expr, $rest:expr) => {
        concat!(
            "SELECT b.no, b.instance, i.id, b.first, b.trigger, b.name, b.auto_burn, b.metadata ",
            "FROM ",
            $from,
            " JOIN instance i ON i.no = b.instance",
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
        instance: get(row, 1)?,
        instance_id: InstanceId(uuid(row, 2)?),
        first: get(row, 3)?,
        trigger: get(row, 4)?,
        name: get(row, 5)?,
        auto_burn: get(row, 6)?,
        metadata: bytes(row, 7)?,
    })
}

impl Session<'_> {
    /// Writes what a step waits for, and lets it meet what has been buffered. True if something
    /// was resumed.
    pub(super) async fn put_bookmarks(&mut self, commit: &Commit) -> Done<bool> {
        let instance = commit.fence.instance.0;
        for first in &commit.burned {
            self.burn(&[(instance, first.0.cast_signed())]).await?;
        }
        if commit.finish.is_some() {
            return Ok(false);
        }
        self.add_bookmarks(instance, &commit.bookmarks, commit.at_ms)
            .await
    }

    /// Writes bookmarks, and lets them meet what has been buffered. True if something was
    /// resumed. Their hashes are locked already.
    pub(super) async fn add_bookmarks(
        &mut self,
        instance: i64,
        bookmarks: &[NewBookmark],
        at_ms: i64,
    ) -> Done<bool> {
        if bookmarks.is_empty() {
            return Ok(false);
        }
        self.note_extra(instance, extras::BOOKMARKS).await?;
        let mut made = Vec::with_capacity(bookmarks.len());
        for new in bookmarks {
            made.push((self.insert_bookmark(instance, new).await?, new));
        }
        let mut resumed = false;
        for (no, new) in made.into_iter().filter(|(_, new)| !new.private) {
            resumed |= self.meet_buffered(no, new, at_ms).await?;
        }
        Ok(resumed)
    }

    async fn insert_bookmark(&mut self, instance: i64, new: &NewBookmark) -> Done<i64> {
        let sql = "INSERT INTO bookmark (instance, first, trigger, phase, name, hash, matches, \
            correlation, private, auto_burn, metadata, token, expires_ms, created_ms) \
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) RETURNING no";
        let row = self
            .row(
                sql,
                &[
                    &instance,
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

    /// Resumes by what has come before the bookmark was made.
    async fn meet_buffered(&mut self, no: i64, new: &NewBookmark, at_ms: i64) -> Done<bool> {
        if new.expires_ms.is_some_and(|expires_ms| expires_ms <= at_ms) {
            return Ok(false);
        }
        let mut resumed = false;
        for _ in 0..crate::stimuli::Send::LIMIT {
            // One of the same group may have burned it meanwhile.
            let Some(row) = self.one(select_met!("b.no = $1"), &[&no]).await? else {
                break;
            };
            let met = met(&row)?;
            let Some((stimulus, input)) = self.take_buffered(&met, new, at_ms).await? else {
                break;
            };
            resumed |= !self.go_on(&[met], &input, at_ms).await?.is_empty();
            self.let_go_of_stimulus(stimulus, at_ms).await?;
        }
        Ok(resumed)
    }

    /// Takes the oldest buffered stimulus that a bookmark meets, unless somebody else is about
    /// to throw it away.
    async fn take_buffered(
        &mut self,
        met: &Met,
        new: &NewBookmark,
        at_ms: i64,
    ) -> Done<Option<(i64, Payload)>> {
        let sql = "DELETE FROM stimulus WHERE no = (SELECT no FROM stimulus \
            WHERE hash = $1 AND (instance IS NULL OR instance = $2) \
            AND (correlation IS NULL OR correlation = $3) AND expires_ms > $4 \
            ORDER BY no LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING no, input, input_meta";
        let key = (&new.hash.0[..], &met.instance_id.0.as_bytes()[..]);
        let row = self
            .one(sql, &[&key.0, &key.1, &new.correlation, &at_ms])
            .await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some((get(&row, 0)?, some_payload(&row, 1)?)))
    }

    /// Ends the bookmarks of node runs, each named by its instance and its first trigger.
    pub(super) async fn burn(&mut self, groups: &[(i64, i64)]) -> Done<()> {
        let (instances, firsts): (Vec<i64>, Vec<i64>) = groups.iter().copied().unzip();
        self.later(BURN, &[&instances, &firsts]).await
    }

    /// The bookmarks of these numbers that are still there, with the heads of their instances
    /// held, so that nothing becomes of them meanwhile.
    pub(super) async fn hold_met(&mut self, nos: &[i64], instances: &[i64]) -> Done<Vec<Met>> {
        self.hold_heads(instances).await?;
        let sql = select_met!("b.no = ANY($1) ORDER BY b.no");
        let rows = self.rows(sql, &[&nos]).await?;
        rows.iter().map(met).collect()
    }

    /// Lets node runs go on, each once, and gives those of which something was left, in the same
    /// order. The heads of their instances are held.
    pub(super) async fn go_on<'m>(
        &mut self,
        met: &'m [Met],
        input: &Payload,
        at_ms: i64,
    ) -> Done<Vec<&'m Met>> {
        for instance in met.iter().map(|met| met.instance).collect::<FxHashSet<_>>() {
            self.refer(instance, input).await?;
        }
        let resumed = self.resume_in_place(met, input, at_ms).await?;
        let beside: Vec<&Met> = met
            .iter()
            .zip(&resumed)
            .filter(|(_, resumed)| !**resumed)
            .map(|(met, _)| met)
            .collect();
        let mut told = FxHashMap::default();
        for met in beside {
            told.insert(met.no, self.resume_beside(met, input, at_ms).await?);
        }
        let went_on = |(met, resumed): (&'m Met, &bool)| {
            let resumed = *resumed || told.get(&met.no).is_some_and(|told| *told);
            resumed.then_some(met)
        };
        Ok(met.iter().zip(&resumed).filter_map(went_on).collect())
    }

    /// Resumes those that wait and are used up by that, all at once. Says of each whether it
    /// was.
    async fn resume_in_place(
        &mut self,
        met: &[Met],
        input: &Payload,
        at_ms: i64,
    ) -> Done<Vec<bool>> {
        let mut rows = FxHashSet::default();
        let burning: Vec<&Met> = met.iter().filter(|met| met.auto_burn).collect();
        // A row is resumed once, by the first that meets it.
        let first: Vec<&&Met> = burning
            .iter()
            .filter(|met| rows.insert((met.trigger, met.instance)))
            .collect();
        if first.is_empty() {
            return Ok(vec![false; met.len()]);
        }
        let nos: Vec<i64> = first.iter().map(|met| met.trigger).collect();
        let instances: Vec<i64> = first.iter().map(|met| met.instance).collect();
        let documents: Vec<Bytes> = first.iter().map(|met| met.document(input)).collect();
        let documents: Vec<&[u8]> = documents.iter().map(|document| &document[..]).collect();
        // By their numbers, not through all that an instance has.
        let sql = "UPDATE trigger t SET due_ms = $4, token = t.token + 1, payload = u.payload \
            FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS u (no, instance, payload) \
            WHERE t.no = u.no AND t.instance + 0 = u.instance AND t.state = 0 AND t.kind = 8 \
            AND t.payload IS NULL RETURNING t.no";
        let changed = self
            .rows(sql, &[&nos, &instances, &documents, &at_ms])
            .await?;
        self.aftermath.made_pending += changed.len() as u64;
        let changed: FxHashSet<i64> = changed
            .iter()
            .map(|row| get(row, 0))
            .collect::<Result<_, _>>()?;
        let groups: Vec<(i64, i64)> = burning.iter().map(|met| met.group()).collect();
        self.burn(&groups).await?;
        let resumed =
            |of: &Met| changed.contains(&of.trigger) && first.iter().any(|met| met.no == of.no);
        Ok(met.iter().map(resumed).collect())
    }

    /// The node run does not wait right now, or goes on waiting: what resumes it becomes a
    /// trigger of its own. False if there is nothing left of it.
    async fn resume_beside(&mut self, met: &Met, input: &Payload, at_ms: i64) -> Done<bool> {
        let sql = "SELECT 1 FROM trigger WHERE no = $1 AND instance = $2";
        if self
            .one(sql, &[&met.trigger, &met.instance])
            .await?
            .is_none()
        {
            // The bookmark has outlived its row.
            self.burn(&[met.group()]).await?;
            return Ok(false);
        }
        let no = self.own_number().await?;
        let first = Seq(met.first.cast_unsigned());
        let sql = "INSERT INTO trigger (no, instance, seq, kind, node, due_ms, state, token, \
            attempt, deliveries, suspicion, detail, payload, priority) \
            SELECT $3, instance, $4, 8, node, $5, 0, 0, 1, 0, 0, $6, $7, priority \
            FROM trigger WHERE no = $1 AND instance = $2";
        let inserted = self
            .execute(
                sql,
                &[
                    &met.trigger,
                    &met.instance,
                    &no.0,
                    &Seq::outside(no).0.cast_signed(),
                    &at_ms,
                    &&About::Resume { first }.encode()[..],
                    &&met.document(input)[..],
                ],
            )
            .await?;
        self.aftermath.made_pending += inserted;
        Ok(inserted == 1)
    }

    /// Resumes by a token.
    pub(super) async fn resume(&mut self, resume: &Resume) -> Done<Wrote> {
        self.hold_member(resume.taker).await?;
        let sql = "SELECT no, instance FROM bookmark WHERE token = $1 \
            AND (expires_ms IS NULL OR expires_ms > $2) ORDER BY no LIMIT 1";
        let found = self
            .one(sql, &[&&resume.token.0[..], &resume.at_ms])
            .await?;
        let (mut sent, mut due) = (Sent::default(), Vec::new());
        if let Some(row) = found {
            let (no, instance): (i64, i64) = (get(&row, 0)?, get(&row, 1)?);
            let met = self.hold_met(&[no], &[instance]).await?;
            if !met.is_empty() {
                self.put_blobs(instance, &resume.blobs, resume.at_ms)
                    .await?;
                let went_on = self.go_on(&met, &resume.input, resume.at_ms).await?;
                sent.resumed = went_on.iter().map(|met| met.instance_id).collect();
                due = went_on.iter().map(|met| InstanceNo(met.instance)).collect();
            }
        }
        sent.dropped = sent.resumed.is_empty();
        self.take_due(resume.taker, resume.at_ms, due, &mut sent)
            .await?;
        Ok(Wrote::Sent(sent))
    }
}
