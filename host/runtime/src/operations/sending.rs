//! Sends stimuli: the runs that a stimulus starts are prepared here, and the runs that it resumes
//! are found by the store.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use windlass_keys::link::Target;
use windlass_model::limits::MATCH_BYTES;
use windlass_model::stimulus::{self, BookmarkTag, Stimulus};
use windlass_model::{Body, Digest, Numbers, Payload, StimulusId, StimulusNo, valid};
use windlass_store::published::BindingRow;
use windlass_store::rows::NewRun;
use windlass_store::stimuli::{BookmarkRow, ClaimFor, NewStimulus, Send, SendOutcome, Sent};
use windlass_store::write::Fenced;
use windlass_store::{Store, Writer as _};

use crate::catalog::Prepared;
use crate::codes;
use crate::error::Error;
use crate::shared::RuntimeShared;
use crate::starting::{Cause, Start};

/// How often a send is tried again because a workflow was published in between. A process that
/// publishes without pause comes in between every other time.
const TRIES: usize = 64;

/// A new id for a stimulus.
pub fn new_stimulus_id() -> StimulusId {
    StimulusId(crate::clock::new_run_id().0)
}

/// Sends a stimulus in a process that runs workflows. The process claims the runs that the stimulus
/// starts and resumes, if it has room.
pub(crate) fn send_here(
    shared: &RuntimeShared,
    store: &dyn Store,
    numbers: &Numbers,
    id: StimulusId,
    stimulus: &Stimulus,
) -> Result<Sent, Error> {
    let now_ms = shared.base.clock.wall_ms();
    let stimulus = written(id, stimulus, now_ms)?;
    let prepare = |definition| shared.base.stored(definition);
    shared.delivered(numbers, |claim_for| {
        let sent = send(
            store,
            &prepare,
            numbers,
            (&stimulus, None),
            claim_for,
            now_ms,
        )?;
        Ok(sent.ok_or(Fenced)?)
    })
}

/// The bookmark of a token, if it exists.
///
/// # Errors
///
/// The store fails.
pub(super) fn bookmark_of(
    store: &dyn Store,
    target: &Target,
) -> Result<Option<BookmarkRow>, Error> {
    let (wait, tag) = match target {
        Target::Row(digest) => return Ok(store.bookmark_by_token(*digest)?),
        Target::Wait(wait, tag) => (wait, *tag),
    };
    if let Some(row) = store.bookmark_by_token(wait.digest(tag))? {
        return Ok(Some(row));
    }
    // The first bookmark of a wait. Its links may be older than its name.
    let first = store.bookmark_by_token(wait.digest(BookmarkTag::ANY))?;
    Ok(first.filter(|row| BookmarkTag::of(&row.bookmark.name) == tag))
}

/// The hash by which the store finds the bindings and bookmarks of a stimulus.
///
/// # Errors
///
/// The name or the match is out of bounds.
pub fn stimulus_hash(name: &str, matches: &Value) -> Result<Digest, Error> {
    matched_by(name, matches).map(|(hash, _)| hash)
}

fn matched_by(name: &str, matches: &Value) -> Result<(Digest, Bytes), Error> {
    valid::EVENT
        .check(name)
        .map_err(|wrong| refused(wrong.to_string()))?;
    let matches = Bytes::from(stimulus::canonical(matches));
    if matches.len() > MATCH_BYTES {
        let message = format!("the `match` of an event has at most {MATCH_BYTES} bytes");
        return Err(refused(message));
    }
    Ok((stimulus::hash(name, &matches, None), matches))
}

fn refused(message: String) -> Error {
    Error::Refused {
        code: codes::BAD_STIMULUS,
        message,
        help: None,
    }
}

/// A stimulus in the form that the store takes.
pub(super) fn written(
    id: StimulusId,
    stimulus: &Stimulus,
    now_ms: i64,
) -> Result<NewStimulus, Error> {
    let (hash, matches) = matched_by(&stimulus.name, &stimulus.matches)?;
    valid::CORRELATION
        .check_optional(stimulus.correlation.as_deref())
        .map_err(|wrong| refused(wrong.to_string()))?;
    Ok(NewStimulus {
        id,
        hash,
        name: stimulus.name.clone(),
        matches,
        correlation: stimulus.correlation.clone(),
        run: stimulus.run,
        input: stimulus.input.clone(),
        blobs: Vec::new(),
        delivery: stimulus.delivery,
        ttl_ms: stimulus.ttl_ms,
        at_ms: now_ms,
        tree: None,
        trace: stimulus.trace.clone(),
    })
}

/// A stimulus in the queue of the store.
#[derive(Clone, Copy)]
pub(crate) struct Queued {
    pub(crate) no: StimulusNo,
    /// How many descendants a root may have, as this host is configured.
    pub(crate) descendants: u32,
}

/// Finds a definition, which the store has, for a run that begins now.
type Prepare<'a> = dyn Fn(Digest) -> Result<Arc<Prepared>, Error> + 'a;

/// Prepares the runs that a stimulus starts, and sends the stimulus. If a workflow is published in
/// between, the store reports that, and the runs are prepared again. None: the stimulus was in the
/// queue, and another process has sent it.
pub(crate) fn send(
    store: &dyn Store,
    prepare: &Prepare<'_>,
    numbers: &Numbers,
    (stimulus, queued): (&NewStimulus, Option<Queued>),
    claim_for: Option<ClaimFor>,
    now_ms: i64,
) -> Result<Option<Sent>, Error> {
    for _ in 0..TRIES {
        let send = prepared(
            store,
            prepare,
            numbers,
            (stimulus, queued),
            claim_for,
            now_ms,
        )?;
        match store.write(send)? {
            SendOutcome::Sent(sent) => return Ok(Some(sent)),
            SendOutcome::Gone => return Ok(None),
            SendOutcome::Moved => {}
        }
    }
    Err(Error::Refused {
        code: codes::STIMULUS_BUSY,
        message:
            "the workflows that the event starts were published anew at each attempt to send it"
                .to_owned(),
        help: Some("send it again".to_owned()),
    })
}

/// Prepares the runs that a stimulus starts.
pub(super) fn prepared(
    store: &dyn Store,
    prepare: &Prepare<'_>,
    numbers: &Numbers,
    (stimulus, queued): (&NewStimulus, Option<Queued>),
    claim_for: Option<ClaimFor>,
    now_ms: i64,
) -> Result<Send, Error> {
    let bindings = if stimulus.delivery.starts() && stimulus.run.is_none() {
        store.bindings(stimulus.hash)?
    } else {
        Vec::new()
    };
    let mut starts = Vec::with_capacity(bindings.len());
    for binding in &bindings {
        let new = started(store, prepare, numbers, stimulus, binding, now_ms)?;
        starts.push((binding.no, new));
    }
    Ok(Send {
        stimulus: stimulus.clone(),
        starts,
        queued: queued.map(|of| of.no),
        limit: Send::LIMIT,
        claim_for,
        // Only stimuli in the queue have a sender.
        descendants: queued.map_or(u32::MAX, |of| of.descendants),
        at_ms: now_ms,
    })
}

/// The run that a stimulus starts by one trigger of a workflow.
fn started(
    store: &dyn Store,
    prepare: &Prepare<'_>,
    numbers: &Numbers,
    stimulus: &NewStimulus,
    binding: &BindingRow,
    now_ms: i64,
) -> Result<NewRun, Error> {
    let prepared = prepare(binding.definition)?;
    let input = match &stimulus.input.body {
        Body::Inline(bytes) => bytes.clone(),
        // A large input of a stimulus that was queued.
        Body::Blob(blob) => store.blob(*blob)?.ok_or_else(|| {
            Error::Unreadable(format!(
                "the store has no blob {}, though a stimulus refers to it",
                blob.digest
            ))
        })?,
    };
    let input = match prepared.entries.get(&binding.binding.key) {
        Some(entry) => entry.of_event(stimulus, &input)?,
        None => Payload::json(input),
    };
    let start = Start {
        prepared,
        input,
        cause: Cause::Event {
            correlation: stimulus.correlation.clone(),
            trace: stimulus.trace.clone(),
        },
    };
    let mut new = start.accepted()?.left(numbers, now_ms)?;
    new.tree = stimulus.tree.map(|tree| tree.root);
    Ok(new)
}
