//! What a bookmark asks: its metadata may have a `message` for people and a `schema` that
//! answers have to fit.

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde_json::Value;
use windlass_model::schema::{Refused, Schema};
use windlass_model::{Body, Digest, Payload};
use windlass_store::stimuli::BookmarkRow;

use crate::codes;
use crate::error::Error;

/// Mistakes of an answer that are told.
const TOLD: usize = 5;

/// What a bookmark asks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    /// For people.
    pub message: Option<String>,
    /// The JSON Schema of an answer.
    pub schema: Option<Value>,
}

impl Question {
    /// What this bookmark asks.
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

/// Schemas that were compiled before, at most [`COMPILED`]: many bookmarks ask alike, and a third
/// more answers go in where each does not compile its schema anew.
static KNOWN: LazyLock<Mutex<FxHashMap<Digest, Arc<Schema>>>> = LazyLock::new(Mutex::default);

/// Schemas that are kept compiled.
const COMPILED: usize = 64;

/// How long the text of a schema that is kept compiled may be, in bytes.
const KEPT_BYTES: usize = 16 * 1024;

fn compiled(schema: &Value) -> Result<Arc<Schema>, Refused> {
    let text = serde_json::to_vec(schema).unwrap_or_default();
    let digest = Digest::of(&text);
    if let Some(known) = KNOWN.lock().get(&digest) {
        return Ok(Arc::clone(known));
    }
    let compiled = Arc::new(Schema::compile(schema)?);
    if text.len() <= KEPT_BYTES {
        let mut known = KNOWN.lock();
        if known.len() >= COMPILED {
            known.clear();
        }
        known.insert(digest, Arc::clone(&compiled));
    }
    Ok(compiled)
}

/// Refuses an answer that does not fit.
///
/// # Errors
///
/// The answer does not fit the schema of the bookmark, or the schema is none.
pub(super) fn check(row: &BookmarkRow, answer: &Payload) -> Result<(), Error> {
    let Some(schema) = Question::of(row).schema else {
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
