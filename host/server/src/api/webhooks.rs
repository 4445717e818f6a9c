//! Webhooks: requests that start workflows whose definitions have an `http` trigger, and that
//! resume who waits for such a request.
//!
//! A request is a stimulus: its name is fixed, and what it matches is its method and path. So
//! whatever holds for stimuli holds for webhooks. A hook is looked up before its body is read: a
//! call of one that is not there costs a read of the store, and neither a write nor a body.

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::time::Duration;
use windlass_model::http;
use windlass_model::{Delivery, Digest, InstanceId, Payload, Stimulus};
use windlass_runtime::client::{new_stimulus_id, stimulus_hash};

use super::instances::{Outcome, answer};
use crate::app::App;
use crate::codes;
use crate::extract::{self, wait_ms};
use crate::gate::Room;
use crate::pools::Pool;
use crate::problem::Problem;
use crate::view::Sent;

/// Headers that are not handed on: what they hold is between the sender and this host.
const KEPT_BACK: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// Starts what is bound to a method and path, and resumes who waits for them.
///
/// What is started gets `method`, `path`, `query`, `headers` and `body`. With `?wait=5s` the
/// answer is how the run ended, if it does in time.
#[utoipa::path(method(get, post, put, patch, delete), path = "/hooks/{path}", tag = "hooks",
    params(("path" = String, Path, description = "As the definition has it; it may have slashes."),
        ("wait" = Option<String>, Query, description = "How long to wait for the run.")),
    responses(
        (status = 202, body = Sent, description = "What it did is written down."),
        (status = 200, body = Outcome, description = "The run that was waited for has ended."),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "The workflow allows one run at a time, and there is one."),
        // Whatever body comes, and none, is taken by each of the methods.
        (status = 408, body = Problem, content_type = "application/problem+json",
            description = "The body has not come in time."),
        (status = 413, body = Problem, content_type = "application/problem+json",
            description = "The body is larger than it may be."),
    ))]
pub(crate) async fn hook(
    State(app): State<App>,
    room: Option<Extension<Room>>,
    request: Request,
) -> Result<Response, Box<Problem>> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().strip_prefix("/hooks").unwrap_or_default();
    let path = path.to_owned();
    let method = parts.method.as_str().to_owned();
    let mut query = query(parts.uri.query().unwrap_or_default())?;
    let wait = query.remove("wait");
    let wait_ms = wait_ms(wait.as_ref().and_then(Value::as_str), app.bounds().wait_ms)?;
    let matches = http::matches(&method, &path);
    let hook = stimulus_hash(http::STIMULUS, &matches)?;
    if !is_heard(&app, hook).await? {
        extract::drain(&parts.headers, body);
        return Err(nothing(&Sent::default(), &method, &path));
    }
    app.admit_hook(hook)?;
    let bytes = extract::read(body, &app).await?;
    let input = json!({
        "method": method,
        "path": path,
        "query": query,
        "headers": headers(&parts.headers),
        "body": body_value(&parts.headers, &bytes)?,
    });
    // Before anything is written, so that nothing has happened if there is no room.
    let waiting = match room {
        Some(Extension(room)) if wait_ms > 0 => Some(room.wait(&app, Pool::HooksWaiting)?),
        _ => None,
    };
    let stimulus = Stimulus {
        name: http::STIMULUS.to_owned(),
        matches,
        correlation: None,
        instance: None,
        input: Payload::of(&input),
        delivery: Delivery::StartAndResume,
        ttl_ms: 0,
    };
    let sent: Sent = app.client.send(new_stimulus_id(), stimulus).await?.into();
    if sent.started.is_empty() && sent.resumed.is_empty() {
        app.known_hooks.forget(hook);
        return Err(nothing(&sent, &method, &path));
    }
    if !sent.started.is_empty() {
        app.known_hooks.note(hook);
    }
    let waited = sent.started.first().filter(|_| wait_ms > 0);
    let Some(id) = waited.copied() else {
        return Ok((StatusCode::ACCEPTED, Json(sent)).into_response());
    };
    let patience = Duration::from_millis(wait_ms);
    let standing = app.client.result(InstanceId(id), patience).await?;
    drop(waiting);
    if standing.done {
        return Ok(answer(&app, standing).await?.into_response());
    }
    Ok((StatusCode::ACCEPTED, Json(sent)).into_response())
}

/// Whether a call of a hook would start or resume anything. Nothing is written for the answer.
async fn is_heard(app: &App, hook: Digest) -> Result<bool, Box<Problem>> {
    if app.known_hooks.has(hook) {
        return Ok(true);
    }
    app.ask(move |app| Ok(app.store().is_heard(hook, app.now_ms())?))
        .await
}

/// Hooks that have started workflows, which are not looked up again. The delivery decides what a
/// call does, so a hook that is here by mistake costs a transaction, and is then forgotten.
#[derive(Default)]
pub(crate) struct KnownHooks(Mutex<HashSet<Digest>>);

/// Hooks that are known at once: only those that are bound come in.
const MAX_KNOWN: usize = 4096;

impl KnownHooks {
    fn has(&self, hook: Digest) -> bool {
        self.0.lock().contains(&hook)
    }

    fn note(&self, hook: Digest) {
        let mut known = self.0.lock();
        if known.len() >= MAX_KNOWN && !known.contains(&hook) {
            known.clear();
        }
        known.insert(hook);
    }

    fn forget(&self, hook: Digest) {
        self.0.lock().remove(&hook);
    }
}

fn nothing(sent: &Sent, method: &str, path: &str) -> Box<Problem> {
    match sent.reserved.first() {
        Some(run) => {
            let detail = format!("run {run} has not ended, and the workflow allows one at a time");
            let code = windlass_runtime::codes::RESERVED;
            Problem::new(StatusCode::CONFLICT, &code, detail)
        }
        None => {
            let detail = format!("nothing starts or waits by {method} {path}");
            Problem::new(StatusCode::NOT_FOUND, &codes::NO_HOOK, detail)
                .help("Publish a workflow with `triggers: { hook: { http: { method, path } } }`.")
        }
    }
}

/// The parameters of a query, or the fields of a form; of several by one name, the last.
pub(crate) fn query(text: &str) -> Result<Map<String, Value>, Box<Problem>> {
    use axum::extract::Query;
    let unreadable = || Problem::parameter("the query cannot be understood");
    let uri = format!("/?{text}").parse().map_err(|_| unreadable())?;
    let Query(pairs): Query<Vec<(String, String)>> =
        Query::try_from_uri(&uri).map_err(|_| unreadable())?;
    Ok(pairs
        .into_iter()
        .map(|(name, value)| (name, Value::String(value)))
        .collect())
}

fn headers(headers: &HeaderMap) -> Map<String, Value> {
    let text = |value: &[u8]| Value::String(String::from_utf8_lossy(value).into_owned());
    headers
        .iter()
        .filter(|(name, _)| !KEPT_BACK.contains(&name.as_str()))
        .map(|(name, value)| (name.to_string(), text(value.as_bytes())))
        .collect()
}

/// A body as a workflow gets it: JSON as it is, text as text, and anything else in Base64.
fn body_value(headers: &HeaderMap, bytes: &[u8]) -> Result<Value, Box<Problem>> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let media = headers.get(header::CONTENT_TYPE);
    let media = media
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = media.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") || essence.ends_with("+json") {
        return extract::json(bytes);
    }
    Ok(match std::str::from_utf8(bytes) {
        Ok(text) => Value::String(text.to_owned()),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    })
}
