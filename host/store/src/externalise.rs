//! Moves large payloads of a write into blobs.
//!
//! Every backend calls this on the submitting thread: hashing a large payload takes long and must
//! not delay the writer thread.

use windlass_model::limits::INLINE_PAYLOAD_BYTES;
use windlass_model::{BlobRef, Body, Digest, Payload};

use crate::letters::{LetterBody, NewDeadLetter};
use crate::lives::LifeOp;
use crate::rows::{NewBlob, NewRun};
use crate::stimuli::NewStimulus;
use crate::transfer::Import;
use crate::write::Write;

/// Turns each inline body over [`INLINE_PAYLOAD_BYTES`] into a reference and a blob of the same
/// write. Readers return the reference; a caller that needs the bytes reads the blob.
pub(crate) fn externalise(write: &mut Write) {
    match write {
        Write::Create(new) => run(new),
        Write::Life(LifeOp::Reopen(new)) => {
            if let Some(input) = &mut new.input {
                move_out(input, &mut new.blobs);
            }
        }
        Write::Import(import) => whole(import),
        Write::Plan(plan) => plan.create.iter_mut().for_each(|new| run(new)),
        Write::StartSchedule(start) => run(&mut start.create),
        Write::Send(send) => {
            stimulus(&mut send.stimulus);
            send.starts.iter_mut().for_each(|(_, new)| run(new));
        }
        Write::Resume(resume) => move_out(&mut resume.input, &mut resume.blobs),
        Write::Enqueue(new) => stimulus(new),
        Write::AddLetter(new) => letter(new),
        Write::Commit(commit) => {
            commit.children.iter_mut().for_each(run);
            commit.sends.iter_mut().for_each(stimulus);
            commit.dead.iter_mut().for_each(letter);
            let blobs = &mut commit.blobs;
            let outputs = commit
                .executions
                .iter_mut()
                .filter_map(|execution| execution.output.as_mut());
            outputs.for_each(|output| move_out(output, blobs));
            let vars = commit.vars.iter_mut().map(|(_, _, value)| value);
            let items = commit.items.iter_mut().map(|item| &mut item.output);
            vars.chain(items).for_each(|value| move_out(value, blobs));
            let finish = commit
                .finish
                .as_mut()
                .and_then(|finish| finish.output.as_mut());
            finish
                .into_iter()
                .for_each(|output| move_out(output, blobs));
        }
        _ => {}
    }
}

fn run(new: &mut NewRun) {
    let blobs = &mut new.blobs;
    move_out(&mut new.input, blobs);
    new.vars
        .iter_mut()
        .for_each(|(_, value)| move_out(value, blobs));
}

fn whole(import: &mut Import) {
    run(&mut import.new);
    let blobs = &mut import.new.blobs;
    let outputs = import
        .executions
        .iter_mut()
        .filter_map(|execution| execution.output.as_mut());
    let vars = import.vars.iter_mut().map(|(_, _, value)| value);
    let items = import.items.iter_mut().map(|item| &mut item.output);
    let values = outputs.chain(vars).chain(items).chain(&mut import.output);
    values.for_each(|value| move_out(value, blobs));
}

fn stimulus(new: &mut NewStimulus) {
    move_out(&mut new.input, &mut new.blobs);
}

fn letter(new: &mut NewDeadLetter) {
    if let LetterBody::Stimulus(dead) = &mut new.body {
        stimulus(dead);
    }
}

fn move_out(payload: &mut Payload, blobs: &mut Vec<NewBlob>) {
    let Body::Inline(bytes) = &payload.body else {
        return;
    };
    if bytes.len() <= INLINE_PAYLOAD_BYTES {
        return;
    }
    let digest = Digest::of(bytes);
    let size = bytes.len() as u64;
    if !blobs.iter().any(|blob| blob.digest == digest) {
        blobs.push(NewBlob {
            digest,
            bytes: bytes.clone(),
        });
    }
    payload.body = Body::Blob(BlobRef { digest, size });
}
