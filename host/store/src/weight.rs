//! The memory that a waiting write uses, so that a queue can be bounded by it.
//!
//! Only parts that can be large are counted: values, blobs, states and documents, and the rows of a
//! step, which may be thousands. The rest of a write is small, and bounded by the number of writes.

use bytes::Bytes;
use windlass_model::{Body, Failure, Payload};

use crate::letters::{LetterBody, NewDeadLetter};
use crate::rows::{ExecutionRow, NewBlob, NewRun, NewTrigger};
use crate::stimuli::{NewBookmark, NewStimulus};
use crate::transfer::Import;
use crate::write::{Commit, Write};

impl Write {
    /// The approximate memory of the write, in bytes. The text of a definition is not counted.
    pub fn weight(&self) -> usize {
        match self {
            Write::Commit(commit) => of_commit(commit),
            Write::Create(new) => of_run(new),
            Write::Import(import) => of_import(import),
            Write::AddBatch(new) => new.what.len() + new.progress.len(),
            Write::MoveBatch(change) => change.progress.len(),
            Write::StartSchedule(start) => of_run(&start.create),
            Write::Plan(plan) => plan.create.as_deref().map_or(0, of_run),
            Write::Publish(new) => new.definition.json.len(),
            Write::SaveDraft(new) => new.content.len(),
            Write::Send(send) => {
                let starts = send.starts.iter().map(|(_, new)| of_run(new));
                of_stimulus(&send.stimulus) + starts.sum::<usize>()
            }
            Write::Resume(resume) => of_payload(&resume.input) + of_blobs(&resume.blobs),
            Write::Enqueue(new) => of_stimulus(new),
            Write::AddLetter(new) => of_letter(new),
            Write::Schedule(new) => {
                new.detail.len() + new.payload.as_ref().map_or(0, |it| it.len())
            }
            Write::KeepComponent(new) => new.bytes.len(),
            Write::Setting(new) => new.value.as_ref().map_or(0, |value| value.len()),
            _ => 0,
        }
    }
}

fn of_commit(commit: &Commit) -> usize {
    let finish = commit.finish.as_ref();
    let last = finish.and_then(|finish| finish.output.as_ref());
    let failure = finish.and_then(|finish| finish.failure.as_ref());
    let vars = commit.vars.iter().map(|(_, _, value)| value);
    let items = commit.items.iter().map(|item| &item.output);
    let payloads = last.into_iter().chain(vars).chain(items);
    let scopes = commit.scopes.iter().filter_map(|(_, state)| state.as_ref());
    commit.state.len()
        + of_rows(commit)
        + scopes.map(Bytes::len).sum::<usize>()
        + commit.executions.iter().map(of_execution).sum::<usize>()
        + failure.map_or(0, of_failure)
        + payloads.map(of_payload).sum::<usize>()
        + commit.triggers.iter().map(of_trigger).sum::<usize>()
        + of_blobs(&commit.blobs)
        + commit.bookmarks.iter().map(of_bookmark).sum::<usize>()
        + commit.sends.iter().map(of_stimulus).sum::<usize>()
        + commit.children.iter().map(of_run).sum::<usize>()
        + commit.dead.iter().map(of_letter).sum::<usize>()
}

/// The rows of a step without their contents. No row is walked.
fn of_rows(commit: &Commit) -> usize {
    size_of_val(&*commit.executions)
        + size_of_val(&*commit.triggers)
        + size_of_val(&*commit.removed)
        + size_of_val(&*commit.vars)
        + size_of_val(&*commit.scopes)
        + size_of_val(&*commit.items)
        + size_of_val(&*commit.cancels)
        + size_of_val(&*commit.children)
        + size_of_val(&*commit.dead)
        + size_of_val(&*commit.journal)
}

fn of_execution(row: &ExecutionRow) -> usize {
    let lines = row.logs.iter().map(|line| {
        let fields = line.fields.iter();
        let fields = fields.map(|(name, value)| name.len() + value.len());
        line.message.len() + fields.sum::<usize>()
    });
    row.output.as_ref().map_or(0, of_payload)
        + row.inputs.len()
        + row.event.len()
        + row.failure.as_ref().map_or(0, of_failure)
        + lines.sum::<usize>()
}

fn of_failure(failure: &Failure) -> usize {
    let details = failure.details.as_ref();
    let stack = failure.origin.as_ref().and_then(|it| it.stack.as_ref());
    failure.message.len()
        + details.map_or(0, |details| details.as_str().len())
        + stack.map_or(0, String::len)
}

/// Documents are not counted: all runs of a definition share them.
fn of_run(new: &NewRun) -> usize {
    let vars = new
        .vars
        .iter()
        .map(|(name, value)| name.len() + of_payload(value));
    new.state.len()
        + size_of_val(&*new.vars)
        + size_of_val(&*new.triggers)
        + size_of_val(&*new.journal)
        + of_payload(&new.input)
        + vars.sum::<usize>()
        + new.triggers.iter().map(of_trigger).sum::<usize>()
        + of_blobs(&new.blobs)
}

fn of_import(import: &Import) -> usize {
    let scopes = import.scopes.iter().map(|(_, state)| state.len());
    let journal = import.journal.iter().map(|entry| entry.detail.len());
    of_run(&import.new)
        + import.payloads().map(of_payload).sum::<usize>()
        + scopes.sum::<usize>()
        + journal.sum::<usize>()
        + import.bookmarks.iter().map(of_bookmark).sum::<usize>()
}

fn of_trigger(new: &NewTrigger) -> usize {
    new.detail.len() + new.payload.as_ref().map_or(0, |payload| payload.len())
}

fn of_bookmark(new: &NewBookmark) -> usize {
    new.matches.len() + new.metadata.as_ref().map_or(0, |metadata| metadata.len())
}

fn of_stimulus(new: &NewStimulus) -> usize {
    new.matches.len() + of_payload(&new.input) + of_blobs(&new.blobs)
}

fn of_letter(new: &NewDeadLetter) -> usize {
    match &new.body {
        LetterBody::Trigger(dead) => {
            dead.detail.len() + dead.payload.as_ref().map_or(0, |payload| payload.len())
        }
        LetterBody::Stimulus(dead) => of_stimulus(dead),
    }
}

fn of_payload(payload: &Payload) -> usize {
    match &payload.body {
        Body::Inline(bytes) => bytes.len(),
        Body::Blob(_) => 0,
    }
}

fn of_blobs(blobs: &[NewBlob]) -> usize {
    blobs.iter().map(|blob| blob.bytes.len()).sum()
}
