//! Writes runs, with their definitions and pins.

use rusqlite::OptionalExtension as _;
use windlass_model::{Digest, ScopeNo, Status};

use super::cache::{Head, Unwritten};
use super::{Done, Session};
use crate::columns::{json_tags, payload};
use crate::rows::{BORN_EPOCH, BORN_VERSION, Created, DefinitionRow, NewRun, Parent, PinsRow};
use crate::sql::hot;
use crate::sql::rows;
use crate::sql::transaction::extras;
use crate::sums::{self, Of};
use crate::write::{Fenced, OrFenced};

impl Session<'_> {
    pub(super) fn create(&mut self, new: &NewRun) -> Done<OrFenced<Created>> {
        if let Some(owner) = new.owner
            && !self.is_member(owner.0)?
        {
            return Ok(Err(Fenced));
        }
        if new.as_of.is_some_and(|edition| !self.is_edition(edition)) {
            return Ok(Ok(Created::Moved));
        }
        if let Some(key) = &new.exclusive
            && let Some(by) = self.reserved_by(key)?
        {
            // A repeated request gets that answer even if the run excludes itself.
            let exists = self.existing(new)?;
            return Ok(Ok(exists.unwrap_or(Created::Reserved { by })));
        }
        let documents = (
            self.definition(new.definition.digest)?,
            self.pins(new.pins.digest)?,
        );
        let (definition, pins) = match documents {
            (Some(definition), Some(pins)) => (definition, pins),
            (definition, pins) => {
                // A document is missing and would be written, which a refused create must not do.
                if let Some(exists) = self.existing(new)? {
                    return Ok(Ok(exists));
                }
                let definition = match definition {
                    Some(no) => no,
                    None => self.insert_definition(&new.definition)?,
                };
                let pins = match pins {
                    Some(no) => no,
                    None => self.insert_pins(&new.pins)?,
                };
                (definition, pins)
            }
        };
        let inserted = self.statements.insert_run.execute((
            new.no.0,
            &new.id.0.as_bytes()[..],
            definition,
            pins,
            Status::Pending as u8,
            new.owner.map(|owner| owner.0),
            BORN_EPOCH.0,
            BORN_VERSION.0,
            &*new.state,
            born_with(new),
            sums::of_state(new.no.0, BORN_VERSION.0, &new.state),
        ))?;
        if inserted == 0 {
            let contradiction = rusqlite::Error::StatementChangedRows(0);
            return Ok(Ok(self.existing(new)?.ok_or(contradiction)?));
        }
        self.insert_rest(new)?;
        Ok(Ok(Created::New))
    }

    /// Writes the rows of a run after its head.
    fn insert_rest(&mut self, new: &NewRun) -> Done<()> {
        let no = new.no.0;
        let (input, meta) = payload(Some(&new.input));
        let sum = sums::of_payload(Of::Input, [no, 0, 0], "", (input, meta.as_deref()));
        let request = &new.request.0[..];
        let parent = new.parent.as_ref();
        let insert = &mut self.statements.insert_origin;
        // A tuple of parameters has at most sixteen.
        insert.execute(rusqlite::params![
            no,
            request,
            &new.correlation,
            new.created_ms,
            input,
            &meta,
            parent.map(|parent| parent.run.0),
            parent.map(|parent| *parent.id.0.as_bytes()),
            parent.map(|parent| parent.trigger.0),
            parent.map(|parent| parent.seq.0.cast_signed()),
            parent.map(Parent::stored_depth),
            new.root().map(|root| root.0),
            parent.map(|parent| &*parent.flow),
            new.keep_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX)),
            sum,
            json_tags(&new.tags),
            new.trace.as_ref().map(|trace| trace.to_stored()),
        ])?;
        for (name, value) in &new.tags {
            let sql = "INSERT INTO run_tag (name, value, created_ms, run) VALUES (?1, ?2, ?3, ?4)";
            let mut insert = self.connection.prepare_cached(sql)?;
            insert.execute((name, value, new.created_ms, no))?;
        }
        self.witnessed_by(no, BORN_VERSION.0);
        for (name, value) in &new.vars {
            self.put_var(no, ScopeNo::ROOT, name, value)?;
        }
        self.reserve(new.no.0, &new.reserves)?;
        self.put_blobs(no, &new.blobs, new.created_ms)?;
        for payload in new.payloads() {
            self.refer(no, payload)?;
        }
        for trigger in &new.triggers {
            self.insert_trigger(no, trigger, new.owner.is_some())?;
        }
        for (place, entry) in (0_i64..).zip(&new.journal) {
            self.insert_journal(no, BORN_VERSION.0, place, entry)?;
        }
        if let Some(owner) = new.owner {
            let head = Head {
                status: Status::Pending,
                owner: Some(owner.0),
                epoch: BORN_EPOCH.0,
                version: BORN_VERSION.0,
                last_execution: None,
                extras: born_with(new),
                unwritten: Unwritten::Nothing,
                state: bytes::Bytes::new(),
                finish: None,
            };
            self.cache.heads.insert(no, head);
        }
        Ok(())
    }

    /// The answer if the id of the new run exists, or did before it was deleted.
    fn existing(&mut self, new: &NewRun) -> Done<Option<Created>> {
        let id = &new.id.0.as_bytes()[..];
        let no = self
            .connection
            .prepare_cached(hot::RUN_NO.sqlite)?
            .query_row([id], |row| row.get(0))
            .optional()?;
        let Some(no) = no else { return Ok(None) };
        self.write_head(no)?;
        let row = self
            .statements
            .run_by_no
            .query_row([no], |row| Ok(rows::run(row)))
            .optional()?
            .transpose()?;
        // Only a tombstone has an id but no origin.
        Ok(Some(row.map_or(Created::Deleted, |row| {
            Created::Exists(Box::new(row))
        })))
    }

    fn definition(&mut self, digest: Digest) -> Done<Option<i64>> {
        if let Some(no) = self.cache.definitions.get(&digest) {
            return Ok(Some(*no));
        }
        let sql = hot::DEFINITION_NO.sqlite;
        let no = self.find(sql, digest)?;
        if let Some(no) = no {
            self.cache.definitions.insert(digest, no);
        }
        Ok(no)
    }

    fn pins(&mut self, digest: Digest) -> Done<Option<i64>> {
        if let Some(no) = self.cache.pins.get(&digest) {
            return Ok(Some(*no));
        }
        let no = self.find(hot::PINS_NO.sqlite, digest)?;
        if let Some(no) = no {
            self.cache.pins.insert(digest, no);
        }
        Ok(no)
    }

    fn find(&self, sql: &str, digest: Digest) -> Done<Option<i64>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        Ok(statement
            .query_row([&digest.0[..]], |row| row.get(0))
            .optional()?)
    }

    /// The number of a definition, which is written if it is missing.
    pub(super) fn definition_of(&mut self, row: &DefinitionRow) -> Done<i64> {
        match self.definition(row.digest)? {
            Some(no) => Ok(no),
            None => self.insert_definition(row),
        }
    }

    fn insert_definition(&mut self, row: &DefinitionRow) -> Done<i64> {
        self.connection
            .prepare_cached("INSERT INTO definition (digest, name, json) VALUES (?1, ?2, ?3)")?
            .execute((&row.digest.0[..], &row.name, &row.json[..]))?;
        let no = self.connection.last_insert_rowid();
        self.cache.definitions.insert(row.digest, no);
        Ok(no)
    }

    /// The number of pins, which are written if they are missing.
    pub(super) fn pins_of(&mut self, row: &PinsRow) -> Done<i64> {
        match self.pins(row.digest)? {
            Some(no) => Ok(no),
            None => self.insert_pins(row),
        }
    }

    fn insert_pins(&mut self, row: &PinsRow) -> Done<i64> {
        self.connection
            .prepare_cached("INSERT INTO pins (digest, json) VALUES (?1, ?2)")?
            .execute((&row.digest.0[..], &row.json[..]))?;
        let no = self.connection.last_insert_rowid();
        self.cache.pins.insert(row.digest, no);
        Ok(no)
    }
}

/// The kinds of rare rows that a new run has.
fn born_with(new: &NewRun) -> i16 {
    let parent = if new.parent.is_some() {
        extras::PARENT
    } else {
        0
    };
    let kept = if new.keep_ms.is_some() {
        extras::KEPT
    } else {
        0
    };
    parent | kept
}
