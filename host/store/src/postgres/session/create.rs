//! Writes runs one by one, with their definitions and pins. Plain runs whose documents
//! exist go with a batch (`batch.rs`).

use windlass_model::{Digest, RunId, ScopeNo, Status};

use super::{Done, Failed, Session, extras, get};
use crate::columns::{json_tags, payload};
use crate::rows::{BORN_EPOCH, BORN_VERSION, Created, DefinitionRow, NewRun, Parent, PinsRow};
use crate::sql::hot;
use crate::sql::row::uuid;
use crate::sql::rows::{self, select_run};
use crate::write::{Fenced, OrFenced};

impl Session<'_> {
    pub(super) async fn create(&mut self, new: &NewRun) -> Done<OrFenced<Created>> {
        self.lock_reservations(&new.exclusive, &new.reserves)
            .await?;
        if let Some(owner) = new.owner
            && !self.is_member(owner.0).await?
        {
            return Ok(Err(Fenced));
        }
        if let Some(key) = &new.exclusive
            && let Some(by) = self.reserved_by(key).await?
        {
            // A repeated request gets that answer even if the run excludes itself.
            let exists = self.existing(new).await?;
            return Ok(Ok(exists.unwrap_or(Created::Reserved { by })));
        }
        if let Some(exists) = self.existing(new).await? {
            return Ok(Ok(exists));
        }
        let definition = self.definition_of(&new.definition).await?;
        let pins = self.pins_of(&new.pins).await?;
        let sql = "INSERT INTO run (no, id, definition, pins, status, owner, epoch, \
            version, state, extras) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) \
            ON CONFLICT (id) DO NOTHING";
        let id: &[u8] = new.id.0.as_bytes();
        let inserted = self
            .execute(
                sql,
                &[
                    &new.no.0,
                    &id,
                    &definition,
                    &pins,
                    &i16::from(Status::Pending as u8),
                    &new.owner.map(|owner| owner.0),
                    &BORN_EPOCH.0,
                    &BORN_VERSION.0,
                    &&*new.state,
                    &born_with(new),
                ],
            )
            .await?;
        if inserted == 0 {
            // Another transaction created the id a moment earlier; the documents are shared in any
            // case.
            let exists = self.existing(new).await?;
            let exists = exists.ok_or_else(|| crate::Error::corrupt("an id without a row"))?;
            return Ok(Ok(exists));
        }
        self.insert_rest(new).await?;
        Ok(Ok(Created::New))
    }

    /// Writes the rows of a run after its head.
    async fn insert_rest(&mut self, new: &NewRun) -> Done<()> {
        let no = new.no.0;
        let (input, meta) = payload(Some(&new.input));
        let request: &[u8] = &new.request.0;
        let parent = new.parent.as_ref();
        let sql = "INSERT INTO origin (run, request, correlation, created_ms, input, \
            input_meta, parent, parent_id, parent_trigger, parent_seq, depth, root, flow, \
            keep_ms, tags, trace) \
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
        self.later(
            sql,
            &[
                &no,
                &request,
                &new.correlation,
                &new.created_ms,
                &input,
                &meta,
                &parent.map(|parent| parent.run.0),
                &parent.map(|parent| &parent.id.0.as_bytes()[..]),
                &parent.map(|parent| parent.trigger.0),
                &parent.map(|parent| parent.seq.0.cast_signed()),
                &parent.map(Parent::stored_depth),
                &new.root().map(|root| root.0),
                &parent.map(|parent| &*parent.flow),
                &new.keep_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX)),
                &json_tags(&new.tags),
                &new.trace.as_ref().map(|trace| trace.to_stored()),
            ],
        )
        .await?;
        for (name, value) in &new.tags {
            let sql = "INSERT INTO run_tag (name, value, created_ms, run) VALUES ($1, $2, $3, $4)";
            self.later(sql, &[name, value, &new.created_ms, &no])
                .await?;
        }
        for (name, value) in &new.vars {
            self.put_var(no, ScopeNo::ROOT, name, value).await?;
        }
        self.reserve(no, &new.reserves).await?;
        self.put_blobs(no, &new.blobs, new.created_ms).await?;
        for payload in new.payloads() {
            self.refer(no, payload).await?;
        }
        for trigger in &new.triggers {
            self.insert_trigger(no, trigger, new.owner.is_some())
                .await?;
        }
        self.put_journal((no, BORN_VERSION.0), &new.journal).await?;
        if born_with(new) != 0 {
            self.aftermath.carrying.push((no, born_with(new)));
        }
        Ok(())
    }

    /// A transaction that checks or makes reservations waits for others that do.
    pub(super) async fn lock_reservations(
        &mut self,
        exclusive: &Option<String>,
        reserves: &[String],
    ) -> Done<()> {
        let keys = exclusive.iter().chain(reserves);
        let mut keys: Vec<&str> = keys.map(|key| &**key).collect();
        if keys.is_empty() {
            return Ok(());
        }
        keys.sort_unstable();
        keys.dedup();
        let sql = "SELECT pg_advisory_xact_lock(hashtext('reservation'), hashtext(key)) \
            FROM unnest($1::text[]) AS keys (key)";
        self.later(sql, &[&keys]).await?;
        Ok(())
    }

    pub(super) async fn reserve(&mut self, run: i64, keys: &[String]) -> Done<()> {
        for key in keys {
            let sql = "INSERT INTO reservation (key, run) VALUES ($1, $2) \
                ON CONFLICT DO NOTHING";
            self.later(sql, &[key, &run]).await?;
        }
        Ok(())
    }

    pub(super) async fn reserved_by(&mut self, key: &str) -> Done<Option<RunId>> {
        let sql = "SELECT i.id FROM reservation r JOIN run i ON i.no = ANY (ARRAY[r.run]) \
            WHERE r.key = $1 ORDER BY r.run LIMIT 1";
        let row = self.one(sql, &[&key]).await?;
        let id = row.map(|row| uuid(&row, 0));
        Ok(id.transpose()?.map(RunId))
    }

    /// The answer if the id of the new run exists, or did before it was deleted.
    async fn existing(&mut self, new: &NewRun) -> Done<Option<Created>> {
        let id: &[u8] = new.id.0.as_bytes();
        if self.one(hot::RUN_NO.postgres, &[&id]).await?.is_none() {
            return Ok(None);
        }
        let row = self
            .one(select_run!("WHERE i.id = ?1").postgres, &[&id])
            .await?;
        let row = row.map(|row| rows::run(&row)).transpose()?;
        // Only a tombstone has an id but no origin.
        Ok(Some(row.map_or(Created::Deleted, |row| {
            Created::Exists(Box::new(row))
        })))
    }

    /// The number of a definition, which is written if it is missing.
    pub(super) async fn definition_of(&mut self, row: &DefinitionRow) -> Done<i64> {
        let digest: &[u8] = &row.digest.0;
        let insert = "INSERT INTO definition (digest, name, json) VALUES ($1, $2, $3) \
            ON CONFLICT (digest) DO NOTHING";
        let find = hot::DEFINITION_NO.postgres;
        let no = match self.find(find, row.digest).await? {
            Some(no) => no,
            None => {
                self.later(insert, &[&digest, &row.name, &&*row.json])
                    .await?;
                self.written(find, row.digest).await?
            }
        };
        self.aftermath.definitions.push((row.digest, no));
        Ok(no)
    }

    pub(super) async fn pins_of(&mut self, row: &PinsRow) -> Done<i64> {
        let digest: &[u8] = &row.digest.0;
        let insert = "INSERT INTO pins (digest, json) VALUES ($1, $2) \
            ON CONFLICT (digest) DO NOTHING";
        let find = hot::PINS_NO.postgres;
        let no = match self.find(find, row.digest).await? {
            Some(no) => no,
            None => {
                self.later(insert, &[&digest, &&*row.json]).await?;
                self.written(find, row.digest).await?
            }
        };
        self.aftermath.pins.push((row.digest, no));
        Ok(no)
    }

    async fn find(&mut self, sql: &'static str, digest: Digest) -> Done<Option<i64>> {
        let digest: &[u8] = &digest.0;
        let row = self.one(sql, &[&digest]).await?;
        Ok(row.map(|row| get(&row, 0)).transpose()?)
    }

    async fn written(&mut self, sql: &'static str, digest: Digest) -> Done<i64> {
        let no = self.find(sql, digest).await?;
        // A concurrent sweep may have deleted the document.
        no.ok_or(Failed::Again)
    }
}

/// The kinds of rare rows that a new run has.
fn born_with(new: &NewRun) -> i16 {
    let parent = new.parent.as_ref().map_or(0, |_| extras::PARENT);
    parent | new.keep_ms.map_or(0, |_| extras::KEPT)
}
