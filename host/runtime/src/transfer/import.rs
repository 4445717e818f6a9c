//! From a document to the rows to be written. The whole document is checked before any row is
//! written.

use std::collections::BTreeMap;

use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::de::IgnoredAny;
use windlass_engine::{Carrier, Inputs, Recorded, Recording};
use windlass_keys::export::ExportKeys;
use windlass_model::limits::WORKFLOW_BYTES;
use windlass_model::{
    Body, Digest, Epoch, ExecutionNo, Numbers, Payload, RunId, RunNo, ScopeNo, ShortBytes,
    TraceContext, TriggerNo, Version, valid,
};
use windlass_store::rows::{DefinitionRow, ExecutionRow, JournalRow, NewBlob, NewRun, PinsRow};
use windlass_store::transfer::Import;
use windlass_store::write::NewItem;

use super::document::{Base64, Document, Record, Value};
use super::envelope::{self, Seal};
use super::renumber::{renumbered, state};
use super::{BOUNDS, IMPORTED, origin, other_digest};
use crate::catalog::Prepared;
use crate::error::Error;
use crate::reserving;

mod plausible;
mod rows;

/// The limit of epochs and versions, so that they can be incremented.
const COUNTED: i64 = 1 << 53;

/// The limit of sequence numbers, so that they can be incremented.
const SEQS: u64 = 1 << 62;

/// The limit of the kind of a journal entry, in bytes.
const KIND_BYTES: usize = 64;

/// The id of an imported run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImportTarget {
    /// The run's own id, which must be free.
    #[default]
    Free,
    /// The run's own id; an existing run with that id is replaced.
    Replace,
    /// Another id, beside the original run. The names of its triggers and its start request stay
    /// with the original.
    As(RunId),
}

/// The runs that may be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// Only runs that a known key has signed.
    Signed,
    /// All runs. A run without the signature of a known key is marked for good.
    Unsigned,
}

/// A readable document, with the definition and the components that it needs.
pub(crate) struct Incoming {
    document: Document,
    /// The digest of the whole file.
    digest: Digest,
    seal: Seal,
    pub(crate) definition: DefinitionRow,
    pub(crate) pins: PinsRow,
}

/// New numbers for the parts of a document, and the parts that may be referred to.
struct Desk<'a> {
    numbers: &'a Numbers,
    run: RunNo,
    id: RunId,
    rows: FxHashMap<TriggerNo, TriggerNo>,
    executions: FxHashMap<ExecutionNo, ExecutionNo>,
    blobs: BTreeMap<Digest, u64>,
}

impl Incoming {
    /// Reads a document, and checks its signature and the digests of its content.
    pub(crate) fn read(bytes: &[u8], keys: &ExportKeys, accept: Accept) -> Result<Self, Error> {
        let opened = envelope::open(bytes, keys)?;
        if accept == Accept::Signed {
            opened.seal.check()?;
        }
        let document: Document =
            serde_json::from_slice(opened.document).map_err(Error::bad_export)?;
        document.check_lengths()?;
        let named = |what: &str, of: &super::document::Named| {
            let json = Bytes::from(of.json.clone());
            if json.len() > WORKFLOW_BYTES || Digest::of(&json) != of.digest {
                return Err(other_digest(what, of.digest));
            }
            Ok((of.digest, json))
        };
        let (digest, json) = named("definition", &document.definition)?;
        let name = document.run.workflow.clone();
        let definition = DefinitionRow { digest, name, json };
        let (digest, json) = named("list of components", &document.pins)?;
        Ok(Self {
            pins: PinsRow { digest, json },
            definition,
            digest: Digest::of(bytes),
            seal: opened.seal,
            document,
        })
    }

    /// The result of verifying the document.
    pub(crate) fn seal(&self) -> Seal {
        self.seal
    }

    /// The rows to be written, given the prepared definition.
    pub(crate) fn import(
        self,
        prepared: &Prepared,
        numbers: &Numbers,
        place: ImportTarget,
        now_ms: i64,
    ) -> Result<Import, Error> {
        let head = &self.document.run;
        if *head.workflow != *prepared.name {
            return Err(Error::bad_export("its workflow has another name"));
        }
        self.document.check_times(now_ms)?;
        plausible::check_id(head.id, place, self.seal)?;
        let (from, signer) = (head.id, self.seal.signer());
        let id = match place {
            ImportTarget::As(id) => id,
            ImportTarget::Free | ImportTarget::Replace => from,
        };
        let keeps_its_name = plausible::keeps_its_name(from, id, self.seal);
        let mut desk = Desk {
            numbers,
            run: numbers.run().ok_or_else(Error::no_numbers)?,
            id,
            rows: FxHashMap::default(),
            executions: FxHashMap::default(),
            blobs: BTreeMap::new(),
        };
        let mut import = desk.import(self.document, prepared, now_ms)?;
        if !keeps_its_name {
            import.names.clear();
            import.new.request = unasked(self.digest);
        }
        import.replace = place == ImportTarget::Replace;
        import.mark.detail = origin::mark(self.digest, from, signer);
        Ok(import)
    }
}

impl Document {
    fn check_lengths(&self) -> Result<(), Error> {
        let most = BOUNDS.rows as usize;
        for (what, length) in [
            ("scopes", self.scopes.len()),
            ("variables", self.vars.len()),
            ("items", self.items.len()),
            ("triggers", self.triggers.len()),
            ("bookmarks", self.bookmarks.len()),
            ("entries in its journal", self.journal.len()),
            ("events", self.events.as_ref().map_or(0, Vec::len)),
            ("records", self.records.len()),
            ("blobs", self.blobs.len()),
        ] {
            if length > most {
                return Err(Error::bad_export(format!("it has more than {most} {what}")));
            }
        }
        let head = &self.run;
        let counted = 0..COUNTED;
        if !counted.contains(&head.epoch) || !counted.contains(&head.version) {
            return Err(Error::bad_export("its epoch or version is out of range"));
        }
        let (rows, ended) = (self.triggers.iter(), head.status.is_final());
        let mut rows = rows.filter_map(|trigger| trigger.row.as_ref());
        if ended != head.finished_ms.is_some() {
            return Err(Error::bad_export("it has an end, and goes on"));
        }
        if ended && (rows.next().is_some() || !self.bookmarks.is_empty()) {
            return Err(Error::bad_export("it has ended, and something of it waits"));
        }
        if !ended && !rows.any(|row| !row.seq.is_external()) {
            return Err(Error::bad_export(
                "it has not ended, and nothing of it can go on",
            ));
        }
        if !ended && (head.output.is_some() || head.failure.is_some() || head.parent.is_some()) {
            return Err(Error::bad_export(
                "it has not ended, and has an output, a failure or a parent",
            ));
        }
        Ok(())
    }
}

impl Desk<'_> {
    fn import(
        &mut self,
        document: Document,
        prepared: &Prepared,
        now_ms: i64,
    ) -> Result<Import, Error> {
        let graph = &prepared.graph;
        let blobs = self.blobs(document.blobs)?;
        let mut records = self.records(document.records, prepared)?;
        let scopes = document.scopes.iter().map(|of| (of.scope, &*of.state.0));
        let mut state = state(graph, &document.state.0, scopes).map_err(Error::bad_export)?;
        let head = document.run;
        let version = Version(head.version);
        let mut journal = journal(document.journal)?;
        journal.extend(self.events(document.events, version, &mut records, now_ms));
        if state.status != head.status || state.next_seq.0 >= SEQS {
            return Err(Error::bad_export("its state is of another run"));
        }
        let next_seq = state.next_seq;
        let scopes: Vec<ScopeNo> = document.scopes.iter().map(|of| of.scope).collect();
        let mut to = |no| self.executions.get(&no).copied();
        let (bytes, scopes) =
            renumbered(&mut state, &scopes, &mut to).map_err(Error::bad_export)?;
        let known: FxHashSet<ScopeNo> = scopes.iter().map(|(no, _)| *no).collect();
        let (triggers, names) = self.triggers(document.triggers, prepared, next_seq)?;
        let bookmarks = self.bookmarks(document.bookmarks, graph, &state)?;
        let (mut root, mut vars) = (Vec::new(), Vec::new());
        valid::CORRELATION
            .check_optional(head.correlation.as_deref())
            .map_err(Error::bad_export)?;
        valid::check_tags(&head.tags).map_err(Error::bad_export)?;
        let assigned = document.vars.iter().map(|var| &var.name);
        valid::VARIABLE
            .check_all(assigned)
            .map_err(Error::bad_export)?;
        for var in document.vars {
            let value = self.value(var.value)?;
            if var.scope == ScopeNo::ROOT {
                root.push((var.name, value));
            } else if known.contains(&var.scope) {
                vars.push((var.scope, var.name, value));
            } else {
                return Err(Error::bad_export("a variable belongs to no scope"));
            }
        }
        let items = document.items.into_iter().map(|item| {
            Ok(NewItem {
                list: item.list,
                index: item.place,
                output: self.value(item.output)?,
            })
        });
        let items = items.collect::<Result<_, Error>>()?;
        let activation = graph.options().activation;
        let (reserves, exclusive) = if head.status.is_final() {
            (Vec::new(), None)
        } else {
            reserving::of(activation, &prepared.name, head.correlation.as_deref())
        };
        let new = NewRun {
            no: self.run,
            id: self.id,
            definition: prepared.definition.clone(),
            pins: prepared.pins.clone(),
            correlation: head.correlation,
            tags: head.tags,
            request: head.request,
            owner: None,
            state: bytes,
            input: self.value(head.input)?,
            vars: root,
            triggers,
            parent: None,
            tree: None,
            keep_ms: head.keep_ms.filter(|ms| i64::try_from(*ms).is_ok()),
            journal: Vec::new(),
            reserves,
            exclusive,
            blobs,
            as_of: None,
            created_ms: head.created_ms,
            trace: head
                .trace
                .as_deref()
                .and_then(TraceContext::read)
                .map(|trace| trace.with_state(head.trace_state.as_deref())),
        };
        Ok(Import {
            new,
            status: head.status,
            epoch: Epoch(head.epoch),
            version,
            finished_ms: head.finished_ms,
            failure: head.failure,
            output: head.output.map(|value| self.value(value)).transpose()?,
            vars,
            scopes,
            items,
            executions: records,
            journal,
            mark: JournalRow {
                at_ms: now_ms,
                kind: IMPORTED.to_owned(),
                detail: Bytes::new(),
            },
            bookmarks,
            names,
            replace: false,
            at_ms: now_ms,
        })
    }

    fn blobs(&mut self, blobs: Vec<super::document::Blob>) -> Result<Vec<NewBlob>, Error> {
        let mut new = Vec::with_capacity(blobs.len());
        for blob in blobs {
            let (digest, bytes) = (blob.digest, blob.content.0);
            if Digest::of(&bytes) != digest {
                return Err(other_digest("large value", digest));
            }
            self.blobs.insert(digest, bytes.len() as u64);
            new.push(NewBlob { digest, bytes });
        }
        Ok(new)
    }

    /// A value. It is JSON unless it has another type, and the document contains its blob.
    fn value(&self, value: Value) -> Result<Payload, Error> {
        let payload = value.payload().ok_or_else(|| {
            Error::bad_export("a value is text, bytes or a blob, and one of them")
        })?;
        self.check_payload(&payload)?;
        Ok(payload)
    }

    fn check_payload(&self, payload: &Payload) -> Result<(), Error> {
        match &payload.body {
            Body::Blob(blob) if self.blobs.get(&blob.digest) != Some(&blob.size) => Err(
                Error::bad_export(format!("it does not have the large value {}", blob.digest)),
            ),
            Body::Inline(bytes) if payload.content_type.is_none() => check_json("a value", bytes),
            Body::Blob(_) | Body::Inline(_) => Ok(()),
        }
    }

    fn records(
        &mut self,
        records: Vec<Record>,
        prepared: &Prepared,
    ) -> Result<Vec<ExecutionRow>, Error> {
        let (mut new, mut previous) = (Vec::with_capacity(records.len()), None);
        for record in records {
            if record.node as usize >= prepared.graph.node_count() {
                return Err(Error::bad_export(
                    "a record names a node that does not exist",
                ));
            }
            let no = self.numbers.execution().ok_or_else(Error::no_numbers)?;
            if self.executions.insert(record.no, no).is_some() {
                return Err(Error::bad_export("two records have the same number"));
            }
            let output = record.output.map(|value| self.value(value)).transpose()?;
            let inputs = record.inputs.map(|inputs| inputs.0).unwrap_or_default();
            new.push(ExecutionRow {
                inputs: self.inputs(&inputs, record.no, (no, previous)),
                no,
                run: self.run,
                previous,
                seq: record.seq,
                first: record.first,
                node: record.node,
                kind: record.kind,
                attempt: record.attempt,
                status: record.status,
                started_ms: record.started_ms,
                took_us: record.took_us,
                output,
                failure: record.failure,
                logs: record.logs,
                skipped: record.skipped,
                event: (record.event.as_ref())
                    .map_or_else(ShortBytes::new, |it| ShortBytes::from_slice(&it.0)),
            });
            previous = Some(no);
        }
        Ok(new)
    }

    /// The entries with events, with the numbers of this store. If the document lacks an event, or
    /// one cannot be read, no event of the run is kept.
    fn events(
        &self,
        events: Option<Vec<Base64>>,
        version: Version,
        records: &mut [ExecutionRow],
        now_ms: i64,
    ) -> Vec<JournalRow> {
        let entry = |event: ShortBytes| JournalRow::event(now_ms, &event);
        let renumbered = |event: &[u8], of: Option<Carrier<'_>>| {
            let mut to = |run| self.executions.get(&run).copied();
            Recorded::renumbered(event, of, &mut to).ok()
        };
        let are_read = records.iter().all(|row| {
            let of = Carrier {
                seq: row.seq,
                run: row.no,
                started_ms: row.started_ms,
                failure: row.failure.as_ref(),
            };
            row.event.is_empty() || renumbered(&row.event, Some(of)).is_some()
        });
        let all = events.filter(|_| are_read).and_then(|events| {
            let events = events.iter().map(|event| renumbered(&event.0, None));
            events.collect::<Option<Vec<_>>>()
        });
        if let Some(all) = all {
            return all.into_iter().map(entry).collect();
        }
        records
            .iter_mut()
            .for_each(|row| row.event = ShortBytes::new());
        vec![entry(Recording::lost().encode(version, 0))]
    }

    /// What the input of an execution was made of, with the numbers of this store. Unknown, if the
    /// document lacks a part of it.
    fn inputs(
        &self,
        bytes: &[u8],
        was: ExecutionNo,
        (no, previous): (ExecutionNo, Option<ExecutionNo>),
    ) -> ShortBytes {
        let renumbered = || {
            let mut inputs = Inputs::decode(bytes, was, None).ok()??;
            let mut to = |run| self.executions.get(&run).copied();
            inputs.renumber(&mut to).ok()?;
            let whole = inputs.input.as_ref().map(|it| self.check_payload(it));
            let with = inputs.with.as_ref().map(|it| check_json("a `with`", it));
            whole
                .into_iter()
                .chain(with)
                .collect::<Result<(), _>>()
                .ok()?;
            Some(inputs.encode(no, previous))
        };
        renumbered().unwrap_or_default()
    }
}

/// A digest in place of the run's start request. No request has this digest, so no start request
/// finds the run.
fn unasked(document: Digest) -> Digest {
    Digest::of(&[&b"windlass imported run "[..], &document.0].concat())
}

fn journal(entries: Vec<super::document::Entry>) -> Result<Vec<JournalRow>, Error> {
    let entry = |of: super::document::Entry| {
        let kind = valid::Kind::new("the kind of an entry of its journal", 0, KIND_BYTES);
        kind.check(&of.kind).map_err(Error::bad_export)?;
        if of.kind == JournalRow::EVENT {
            return Err(Error::bad_export(
                "an entry of its journal has the kind of events",
            ));
        }
        check_json("an entry of its journal", of.detail.as_bytes())?;
        Ok(JournalRow {
            at_ms: of.at_ms,
            detail: origin::carried(&of.kind, of.detail)?,
            kind: of.kind,
        })
    };
    entries.into_iter().map(entry).collect()
}

fn check_json(what: &str, bytes: &[u8]) -> Result<(), Error> {
    match serde_json::from_slice::<IgnoredAny>(bytes) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::bad_export(format!("{what} is not JSON ({error})"))),
    }
}
