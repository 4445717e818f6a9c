//! From the snapshot of a run to its document.

use std::collections::BTreeSet;

use bytes::Bytes;
use windlass_engine::{Graph, Inputs};
use windlass_keys::export::ExportKeys;
use windlass_model::{ExecutionNo, ShortBytes, TriggerType};
use windlass_store::rows::{ExecutionRow, NewBlob, TriggerRow};
use windlass_store::stimuli::NewBookmark;
use windlass_store::transfer::Snapshot;

use super::document::{
    Base64, Blob, Bookmark, Document, Entry, Head, Item, Name, Named, Record, Row, Scope, Trigger,
    Value, Var,
};
use super::renumber::{open, state};
use super::{BOUNDS, VERSION, envelope};
use crate::error::Error;

/// The execution records that a run needs to continue, even if the rest of its history is left out.
pub(crate) fn needed(graph: &Graph, taken: &Snapshot) -> Result<BTreeSet<ExecutionNo>, Error> {
    let mut needed = BTreeSet::new();
    let mut note = |run| {
        needed.insert(run);
        Some(run)
    };
    let scopes = taken.scopes.iter().map(|(no, bytes)| (*no, &**bytes));
    let mut state = state(graph, &taken.row.state, scopes).map_err(Error::bad_export)?;
    state.renumber(&mut note).map_err(Error::bad_export)?;
    for row in &taken.triggers {
        let of = (row.seq, row.node, row.kind, row.attempt, row.due_ms);
        if let Some(mut open) = open(graph, of, &row.detail).map_err(Error::bad_export)? {
            open.renumber(&mut note).map_err(Error::bad_export)?;
        }
    }
    Ok(needed)
}

/// The document, with its signature. `records` are the records to be included, oldest first.
pub(crate) fn written(
    taken: &Snapshot,
    records: &[ExecutionRow],
    blobs: &[NewBlob],
    keys: &ExportKeys,
    now_ms: i64,
) -> Result<Bytes, Error> {
    let row = &taken.row;
    let head = Head {
        id: row.id,
        workflow: taken.definition.name.clone(),
        correlation: row.correlation.clone(),
        tags: row.tags.clone(),
        trace: row.trace.as_ref().map(ToString::to_string),
        trace_state: row
            .trace
            .as_ref()
            .and_then(|trace| trace.state.as_ref())
            .map(|state| state.as_str().to_owned()),
        status: row.status,
        request: row.request,
        epoch: row.epoch.0,
        version: row.version.0,
        created_ms: row.created_ms,
        finished_ms: row.finished_ms,
        keep_ms: taken.keep_ms,
        input: Value::of(&taken.input),
        output: taken.output.as_ref().map(Value::of),
        failure: row.failure.clone(),
        parent: row.parent.as_ref().map(|parent| parent.id),
    };
    let named = |digest, json: &Bytes| {
        let json = text(json)?;
        Ok::<_, Error>(Named { digest, json })
    };
    let vars = taken.vars.iter().map(|(scope, name, value)| Var {
        scope: *scope,
        name: name.clone(),
        value: Value::of(value),
    });
    let items = taken.items.iter().map(|item| Item {
        list: item.list,
        place: item.index,
        output: Value::of(&item.output),
    });
    let scopes = taken.scopes.iter().map(|(scope, state)| Scope {
        scope: *scope,
        state: Base64(state.clone()),
    });
    let blobs = blobs.iter().map(|blob| Blob {
        digest: blob.digest,
        content: Base64(blob.bytes.clone()),
    });
    let is_whole = is_whole(taken);
    let document = Document {
        version: VERSION,
        exported_ms: now_ms,
        run: head,
        definition: named(row.definition, &taken.definition.json)?,
        pins: named(row.pins, &taken.pins.json)?,
        state: Base64(row.state.clone()),
        scopes: scopes.collect(),
        vars: vars.collect(),
        items: items.collect(),
        triggers: triggers(taken),
        bookmarks: taken
            .bookmarks
            .iter()
            .map(bookmark)
            .collect::<Result<_, _>>()?,
        journal: journal(taken)?,
        events: is_whole.then(|| {
            let events = taken.events.iter();
            events.map(|entry| Base64(entry.detail.clone())).collect()
        }),
        records: records.iter().map(|of| record(of, is_whole)).collect(),
        blobs: blobs.collect(),
    };
    envelope::sealed(&document, row.id, keys)
}

fn triggers(taken: &Snapshot) -> Vec<Trigger> {
    let name = |no| {
        let name = taken.names.iter().find(|name| name.trigger == no)?;
        Some(Name {
            id: name.id,
            request: name.request,
            closed: name.closed,
        })
    };
    let rows = taken.triggers.iter().map(|row| Trigger {
        no: row.no,
        row: Some(written_row(row)),
        name: row.seq.is_external().then(|| name(row.no)).flatten(),
    });
    let has_row = |no| taken.triggers.iter().any(|row| row.no == no);
    let over = taken.names.iter().filter(|name| !has_row(name.trigger));
    let over = over.map(|of| Trigger {
        no: of.trigger,
        row: None,
        name: name(of.trigger),
    });
    rows.chain(over).collect()
}

fn written_row(row: &TriggerRow) -> Row {
    Row {
        seq: row.seq,
        kind: row.kind,
        node: row.node,
        due_ms: row.due_ms,
        attempt: row.attempt,
        priority: row.priority,
        detail: Base64(row.detail.clone()),
        payload: row.payload.clone().map(Base64),
    }
}

fn bookmark(of: &NewBookmark) -> Result<Bookmark, Error> {
    Ok(Bookmark {
        name: of.name.clone(),
        matches: text(&of.matches)?,
        trigger: of.trigger,
        first: of.first,
        phase: of.phase,
        correlation: of.correlation.clone(),
        private: of.private,
        auto_burn: of.auto_burn,
        metadata: of.metadata.as_ref().map(text).transpose()?,
        expires_ms: of.expires_ms,
        created_ms: of.created_ms,
    })
}

fn journal(taken: &Snapshot) -> Result<Vec<Entry>, Error> {
    let entry = |of: &windlass_store::rows::JournalRow| {
        Ok(Entry {
            at_ms: of.at_ms,
            kind: of.kind.clone(),
            detail: text(&of.detail)?,
        })
    };
    taken.journal.iter().map(entry).collect()
}

/// Whether the snapshot has all events of its run.
fn is_whole(taken: &Snapshot) -> bool {
    let oldest = taken.executions.last();
    let has_all = match taken.row.last_execution {
        Some(_) => oldest.is_some_and(|oldest| oldest.previous.is_none()),
        None => true,
    };
    has_all && taken.events.len() <= BOUNDS.rows as usize
}

fn record(of: &ExecutionRow, with_event: bool) -> Record {
    let event = Some(&of.event).filter(|event| with_event && !event.is_empty());
    Record {
        no: of.no,
        seq: of.seq,
        first: of.first,
        node: of.node,
        kind: of.kind,
        attempt: of.attempt,
        status: of.status,
        started_ms: of.started_ms,
        took_us: of.took_us,
        output: of.output.as_ref().map(Value::of),
        failure: of.failure.clone(),
        logs: of.logs.clone(),
        skipped: of.skipped.clone(),
        inputs: inputs(of).map(|inputs| base64(&inputs)),
        event: event.map(|event| base64(event)),
    }
}

fn base64(bytes: &[u8]) -> Base64 {
    Base64(Bytes::copy_from_slice(bytes))
}

/// What the input of an execution was made of. The record before may not be in the document, so
/// nothing refers to it by its place.
fn inputs(of: &ExecutionRow) -> Option<ShortBytes> {
    let inputs = Inputs::decode(&of.inputs, of.no, of.previous).ok()??;
    Some(inputs.encode(of.no, None))
}

/// Whether a row waits for a child that has not ended.
pub(super) fn waits_for_child(kind: TriggerType, payload: Option<&Bytes>) -> bool {
    kind == TriggerType::Child && payload.is_none()
}

fn text(json: &Bytes) -> Result<String, Error> {
    let text = std::str::from_utf8(json).map_err(|error| unreadable(&error))?;
    Ok(text.to_owned())
}

fn unreadable(error: &dyn std::fmt::Display) -> Error {
    Error::Unreadable(format!("a run cannot be written down: {error}"))
}
