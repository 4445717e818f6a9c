//! The question of a bookmark: its metadata may have a `message` for people and a `schema` for
//! answers.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::value::{RawValue, Value};
use windlass_model::schema::Schema;
use windlass_model::{Body, Digest, Payload, Stimulus};
use windlass_store::Store;
use windlass_store::stimuli::{BookmarkQuery, BookmarkRow};

use super::sending::stimulus_hash;
use crate::codes;
use crate::error::Error;

/// The limit of mistakes that an error about an answer lists.
const TOLD: usize = 5;

/// The question of a bookmark.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    /// The message for people.
    pub message: Option<String>,
    /// The JSON Schema of the answer.
    pub schema: Option<Value>,
}

impl Question {
    /// The question of this bookmark.
    pub fn of(row: &BookmarkRow) -> Self {
        let metadata = row.bookmark.metadata.as_deref();
        let metadata = metadata.and_then(|json| serde_json::from_slice(json).ok());
        let Some(Value::Object(mut metadata)) = metadata else {
            return Self::default();
        };
        let message = metadata.get("message").and_then(Value::as_str);
        Self {
            message: message.map(str::to_owned),
            schema: metadata.remove("schema"),
        }
    }
}

/// Compiled schemas, at most [`COMPILED`]. Many bookmarks have the same schema; with this cache a
/// third more answers per second are accepted.
static KNOWN: LazyLock<Mutex<FxHashMap<Digest, Arc<Schema>>>> = LazyLock::new(Mutex::default);

/// The limit of cached schemas.
const COMPILED: usize = 64;

/// The limit of the text of a cached schema, in bytes.
const KEPT_BYTES: usize = 16 * 1024;

/// The text of the answer schema in the metadata of a bookmark.
fn schema_of(row: &BookmarkRow) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct QuestionMetadata<'a> {
        #[serde(borrow, default)]
        schema: Option<&'a RawValue>,
    }
    let metadata = row.bookmark.metadata.as_deref()?;
    // serde also reads a struct from an array, so this checks that the metadata is an object.
    if metadata.first() == Some(&b'{')
        && let Ok(QuestionMetadata {
            schema: Some(schema),
        }) = serde_json::from_slice(metadata)
    {
        return Some(Cow::Borrowed(schema.get()));
    }
    // There is no schema, it is `null`, or there are several and the last one counts.
    let schema = Question::of(row).schema?;
    Some(Cow::Owned(schema.to_string()))
}

/// # Errors
///
/// The text is not a schema.
fn compiled(text: &str) -> Result<Arc<Schema>, String> {
    let digest = Digest::of(text.as_bytes());
    if let Some(known) = KNOWN.lock().get(&digest) {
        return Ok(Arc::clone(known));
    }
    let schema = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let compiled = Schema::compile(&schema).map_err(|error| error.to_string())?;
    let compiled = Arc::new(compiled);
    if text.len() <= KEPT_BYTES {
        let mut known = KNOWN.lock();
        if known.len() >= COMPILED {
            known.clear();
        }
        known.insert(digest, Arc::clone(&compiled));
    }
    Ok(compiled)
}

/// How many bookmarks of a stimulus are checked. A stimulus that resumes more is no answer to a
/// question.
const ASKED: u32 = 16;

/// Refuses a stimulus whose input is an answer that does not fit: it starts no workflow, and fits
/// the schema of none of the bookmarks that it would resume. A stimulus that some run takes is
/// delivered to all, and each node reads it for itself: one run cannot keep the events of others.
///
/// # Errors
///
/// The stimulus is out of bounds, the input does not fit, or the store fails.
pub(super) fn check_stimulus(store: &dyn Store, stimulus: &Stimulus) -> Result<(), Error> {
    if !stimulus.delivery.resumes() {
        return Ok(());
    }
    let run = match stimulus.run {
        Some(id) => match store.run(id)? {
            Some(row) => Some(row.no),
            None => return Ok(()),
        },
        None => None,
    };
    let hash = stimulus_hash(&stimulus.name, &stimulus.matches)?;
    let rows = store.bookmarks(&BookmarkQuery {
        run,
        hash: Some(hash),
        correlation: stimulus.correlation.clone(),
        limit: ASKED + 1,
        ..BookmarkQuery::default()
    })?;
    if rows.is_empty() || rows.len() > ASKED as usize {
        return Ok(());
    }
    let mut refused = None;
    for row in &rows {
        match check(row, &stimulus.input) {
            Ok(()) => return Ok(()),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    let starts = stimulus.delivery.starts() && run.is_none();
    if starts && !store.bindings(hash)?.is_empty() {
        return Ok(());
    }
    refused.map_or(Ok(()), Err)
}

/// Refuses an answer that does not fit.
///
/// # Errors
///
/// The answer does not fit the schema of the bookmark, or the schema is invalid.
pub(super) fn check(row: &BookmarkRow, answer: &Payload) -> Result<(), Error> {
    let Some(schema) = schema_of(row) else {
        return Ok(());
    };
    let refused = |message: String, help: &str| Error::Refused {
        code: codes::ANSWER,
        message,
        help: Some(help.to_owned()),
    };
    let schema = compiled(&schema).map_err(|error| {
        let text = format!("the schema of the bookmark is none: {error}");
        refused(text, "Correct the node that waits: its schema is its own.")
    })?;
    let value = match &answer.body {
        Body::Inline(json) => serde_json::from_slice(json).ok(),
        Body::Blob(_) => None,
    };
    let Some(value) = value else {
        let text = "the answer is no JSON that can be checked".to_owned();
        return Err(refused(text, "Answer with a JSON value."));
    };
    let found = schema.check(&value, "");
    if found.is_empty() {
        return Ok(());
    }
    let told = found.iter().take(TOLD).map(|mistake| {
        let at = mistake.place.pointer.as_str();
        match at {
            "" => mistake.message.clone(),
            at => format!("{at}: {}", mistake.message),
        }
    });
    let text = format!(
        "the answer does not fit: {}",
        told.collect::<Vec<_>>().join("; ")
    );
    Err(refused(
        text,
        "Nothing was resumed. Correct the answer and send it again.",
    ))
}
