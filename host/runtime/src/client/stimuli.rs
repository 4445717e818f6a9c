//! Sending: what a stimulus starts is prepared here, and what it resumes is found by the store.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use windlass_keys::link::Target;
use windlass_model::limits::MATCH_BYTES;
use windlass_model::stimulus::{self, BookmarkTag, Stimulus};
use windlass_model::{
    BookmarkNo, Digest, Numbers, Payload, StimulusId, StimulusNo, TriggerType, valid,
};
use windlass_plugins::Host;
use windlass_store::published::BindingRow;
use windlass_store::rows::{DefinitionRow, NewInstance};
use windlass_store::stimuli::{BookmarkRow, NewStimulus, Resume, Send, Sent, Taker};
use windlass_store::{Store, Write, Wrote};

use super::{as_member, question, unexpected};
use crate::catalog::{Catalog, Prepared};
use crate::codes;
use crate::error::Error;
use crate::request::StartRequest;
use crate::shared::Shared;

/// How often what a stimulus starts is looked up again because somebody has published
/// something in between. Whoever publishes without a pause comes in between every other time.
const TRIES: usize = 64;

/// A new name for a stimulus.
pub fn new_stimulus_id() -> StimulusId {
    StimulusId(crate::clock::new_instance_id().0)
}

/// Sends a stimulus: starts what is bound to it and resumes who waits for it, in one
/// transaction.
///
/// # Errors
///
/// The stimulus is out of bounds, its input does not fit a workflow that it starts, such a
/// workflow cannot be prepared on the plugins that there are, or the store is in trouble. Then
/// nothing has happened.
pub fn send(
    store: &dyn Store,
    plugins: &Host,
    now_ms: i64,
    id: StimulusId,
    stimulus: &Stimulus,
) -> Result<Sent, Error> {
    let stimulus = written(id, stimulus, now_ms)?;
    let catalog = Catalog::default();
    let prepare = |definition| catalog.prepare(definition, plugins);
    as_member(store, now_ms, |numbers| {
        let sent = deliver(store, &prepare, numbers, (&stimulus, None), None, now_ms)?;
        sent.ok_or_else(|| unexpected(&Wrote::Fenced))
    })
}

/// The same in a process that runs workflows: it takes what comes of it, if it has room.
pub(crate) fn send_here(
    shared: &Shared,
    store: &dyn Store,
    numbers: &Numbers,
    id: StimulusId,
    stimulus: &Stimulus,
) -> Result<Sent, Error> {
    let now_ms = shared.base.clock.wall_ms();
    let stimulus = written(id, stimulus, now_ms)?;
    let prepare = |definition| {
        shared
            .base
            .catalog
            .prepare(definition, &shared.base.plugins)
    };
    shared.delivered(numbers, |taker| {
        let sent = deliver(store, &prepare, numbers, (&stimulus, None), taker, now_ms)?;
        sent.ok_or_else(|| unexpected(&Wrote::Fenced))
    })
}

/// The bookmark that a token is for, if it is there.
///
/// # Errors
///
/// The store is in trouble.
pub fn bookmark_of(store: &dyn Store, target: &Target) -> Result<Option<BookmarkRow>, Error> {
    let (wait, tag) = match target {
        Target::Row(digest) => return Ok(store.bookmark_by_token(*digest)?),
        Target::Wait(wait, tag) => (wait, *tag),
    };
    if let Some(row) = store.bookmark_by_token(wait.digest(tag))? {
        return Ok(Some(row));
    }
    // The first bookmark of a wait whose links may be older than its name.
    let first = store.bookmark_by_token(wait.digest(BookmarkTag::ANY))?;
    Ok(first.filter(|row| BookmarkTag::of(&row.bookmark.name) == tag))
}

/// Resumes what a token is for, with an answer that fits.
///
/// # Errors
///
/// The answer does not fit the schema of the bookmark, which goes on waiting, or the store is in
/// trouble.
pub fn resume(
    store: &dyn Store,
    now_ms: i64,
    target: &Target,
    input: Payload,
) -> Result<Sent, Error> {
    resume_at(store, now_ms, bookmark_of(store, target)?, input)
}

/// The same in a process that runs workflows: it takes what comes of it, if it has room.
pub(super) fn resume_here(
    shared: &Shared,
    numbers: &Numbers,
    row: Option<BookmarkRow>,
    input: Payload,
) -> Result<Sent, Error> {
    let (store, now_ms) = (shared.base.store.as_ref(), shared.base.clock.wall_ms());
    shared.delivered(numbers, |taker| resume_by(store, now_ms, row, input, taker))
}

/// The same in any other process.
pub(super) fn resume_at(
    store: &dyn Store,
    now_ms: i64,
    row: Option<BookmarkRow>,
    input: Payload,
) -> Result<Sent, Error> {
    let sent = resume_by(store, now_ms, row, input, None)?;
    store.notify();
    Ok(sent)
}

fn resume_by(
    store: &dyn Store,
    at_ms: i64,
    row: Option<BookmarkRow>,
    input: Payload,
    taker: Option<Taker>,
) -> Result<Sent, Error> {
    let Some(row) = row else {
        return Ok(nobody());
    };
    question::check(&row, &input)?;
    let resume = Resume {
        token: row.bookmark.token,
        input,
        blobs: Vec::new(),
        taker,
        at_ms,
    };
    match store.write(Write::Resume(Box::new(resume)))? {
        Wrote::Sent(sent) => Ok(sent),
        other => Err(unexpected(&other)),
    }
}

/// Resumes a bookmark that is known by its number, as whoever operates the store may.
///
/// # Errors
///
/// As [`resume`].
pub fn resume_bookmark(
    store: &dyn Store,
    now_ms: i64,
    no: BookmarkNo,
    input: Payload,
) -> Result<Sent, Error> {
    resume_at(store, now_ms, store.bookmark(no)?, input)
}

/// What comes of resuming nobody.
fn nobody() -> Sent {
    Sent {
        dropped: true,
        ..Sent::default()
    }
}

/// What the store finds the bindings and bookmarks of a stimulus by.
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
        let message = format!("what an event is matched by has at most {MATCH_BYTES} bytes");
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

/// A stimulus as the store takes it.
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
        instance: stimulus.instance,
        input: stimulus.input.clone(),
        blobs: Vec::new(),
        delivery: stimulus.delivery,
        ttl_ms: stimulus.ttl_ms,
        at_ms: now_ms,
    })
}

/// Makes a definition ready for a run that begins now.
type Prepare<'a> = dyn Fn(DefinitionRow) -> Result<Arc<Prepared>, Error> + 'a;

/// Prepares what a stimulus starts, and hands it over. Somebody may publish in between; then
/// the store says so, and it is prepared again. None: it was to come from the queue, and
/// somebody else has delivered it.
pub(crate) fn deliver(
    store: &dyn Store,
    prepare: &Prepare<'_>,
    numbers: &Numbers,
    (stimulus, queued): (&NewStimulus, Option<StimulusNo>),
    taker: Option<Taker>,
    now_ms: i64,
) -> Result<Option<Sent>, Error> {
    for _ in 0..TRIES {
        let bindings = if stimulus.delivery.starts() && stimulus.instance.is_none() {
            store.bindings(stimulus.hash)?
        } else {
            Vec::new()
        };
        let mut starts = Vec::with_capacity(bindings.len());
        for binding in &bindings {
            let new = started(store, prepare, numbers, stimulus, binding, now_ms)?;
            starts.push((binding.no, new));
        }
        let send = Send {
            stimulus: stimulus.clone(),
            starts,
            queued,
            limit: Send::LIMIT,
            taker,
            at_ms: now_ms,
        };
        match store.write(Write::Send(Box::new(send)))? {
            Wrote::Sent(sent) => return Ok(Some(sent)),
            Wrote::Fenced => return Ok(None),
            Wrote::Moved => {}
            other => return Err(unexpected(&other)),
        }
    }
    Err(Error::Refused {
        code: codes::STIMULUS_BUSY,
        message: "what the event starts was published anew again and again meanwhile".to_owned(),
        help: Some("send it again".to_owned()),
    })
}

/// The instance that a stimulus starts by one trigger of a workflow.
fn started(
    store: &dyn Store,
    prepare: &Prepare<'_>,
    numbers: &Numbers,
    stimulus: &NewStimulus,
    binding: &BindingRow,
    now_ms: i64,
) -> Result<NewInstance, Error> {
    let digest = binding.definition;
    let definition = store.definition(digest)?.ok_or_else(|| {
        Error::Unreadable(format!(
            "the store has no definition {digest}, though it is published"
        ))
    })?;
    let request = StartRequest {
        definition: definition.clone(),
        input: stimulus.input.clone(),
        id: None,
        correlation: stimulus.correlation.clone(),
    };
    let prepared = prepare(definition)?;
    request.check(&prepared)?;
    let (mut new, _) = request.instance(&prepared, numbers, None, now_ms)?;
    for trigger in &mut new.triggers {
        trigger.kind = TriggerType::Event;
    }
    Ok(new)
}
