//! Webhooks: requests that start workflows by `http` triggers, and resume nodes that wait for a
//! request.
//!
//! A request is a stimulus with a fixed name, whose match is the method and the path; the rules of
//! stimuli apply. Triggers that verify, answer, have parameters or make the input of the request are
//! started here (`hooks/`). A
//! hook is looked up before its body is read: a call of an unknown hook costs reads of the store,
//! but no write and no body. A request is verified before anything is written.

use axum::body::Bytes;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use windlass_model::http;
use windlass_model::{Delivery, Digest, Payload, RunId, Stimulus, TraceContext};
use windlass_runtime::operations::{self, Expected, Expects, new_stimulus_id};
use windlass_store::published::Edition;

use super::runs::{Outcome, answer};
use crate::app::{App, AppInner, read_aside};
use crate::codes;
use crate::content::by_name;
use crate::extract::{self, wait_ms};
use crate::gate::{ForeignPage, Room, Waiting, foreign_page};
use crate::hooks::{self, Found};
use crate::json::Json;
use crate::permissions::Caller;
use crate::pools::Pool;
use crate::problem::Problem;
use crate::view::Sent;

/// Start the workflows that are bound to a method and path, and resume the runs that wait for them.
///
/// The input of a run has `method`, `path`, `query`, `headers` and `body`, and `params` if its path
/// has parameters. A trigger may verify its requests, and may answer with the output of a node.
/// With `?wait=5s`, which needs the token of the host, the response is the outcome of the run, if
/// it ends in time.
#[utoipa::path(method(get, post, put, patch, delete), path = "/hooks/{path}", tag = "hooks",
    params(("path" = String, Path, description = "As the definition has it; it may have slashes."),
        ("wait" = Option<String>, Query, description = "How long to wait for the run, like `5s`; at most `max-wait` of the host.")),
    responses(
        (status = 202, body = Sent, description = "The stimulus is stored, with its effects."),
        (status = 200, body = Outcome, description = "The run that was waited for has ended. \
            Where the trigger says `respond`, any answer that the node gives."),
        (status = 400, body = Problem, content_type = "application/problem+json",
            description = "The request is malformed, or does not fit the trigger or the schema of \
            the workflow's input. Nothing is started."),
        (status = 401, body = Problem, content_type = "application/problem+json",
            description = "The request does not come from the sender of the hook."),
        (status = 403, body = Problem, content_type = "application/problem+json",
            description = "The request waits for the run, and has no token; or it comes from a \
            page in a browser that is not of this host."),
        (status = 405, body = Problem, content_type = "application/problem+json",
            description = "Other methods of this path start something: `Allow` lists them."),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "The workflow allows one run at a time, and another run has not ended."),
        // Each method accepts any body, and none.
        (status = 408, body = Problem, content_type = "application/problem+json",
            description = "The body has not come in time."),
        (status = 413, body = Problem, content_type = "application/problem+json",
            description = "The body is larger than it may be."),
        (status = 415, body = Problem, content_type = "application/problem+json",
            description = "The body has a content coding that is not known."),
        (status = 502, body = Problem, content_type = "application/problem+json",
            description = "The node that was to answer gave no answer that can be sent."),
    ))]
pub(crate) async fn hook(
    State(app): State<App>,
    room: Option<Extension<Room>>,
    caller: Option<Extension<Caller>>,
    page: Option<Extension<ForeignPage>>,
    request: Request,
) -> Result<Response, Box<Problem>> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().strip_prefix("/hooks").unwrap_or_default();
    let (method, path) = (parts.method.as_str().to_owned(), path.to_owned());
    // A request for the header alone is the request for the content, which is not sent.
    let asked = match method.as_str() {
        "HEAD" => "GET",
        method => method,
    }
    .to_owned();
    let caller = caller.map_or(Caller::Stranger, |Extension(caller)| caller);
    let query = parts.uri.query().unwrap_or_default();
    let asks_to_wait = query.split('&').any(|pair| pair.starts_with("wait="));
    let known = match page.is_some() {
        true => None,
        false => app.hooks.known(app.store(), &asked, &path),
    };
    let may = |found: &Found| !asks_to_wait || caller != Caller::Stranger || found.responds();
    let known = known.filter(|(found, _)| may(found));
    let (mut found, edition) = match known {
        Some((known, edition)) => (known, Some(edition)),
        None => match look_up(&app, (&method, &asked), &path).await {
            Ok(found) => (Arc::new(found), None),
            Err(problem) => {
                extract::drain(&parts.headers, body);
                return Err(problem);
            }
        },
    };
    let mut query = by_name(pairs(query)?);
    let wait = match query.remove("wait") {
        Some(Value::String(text)) => Some(text),
        None => None,
        Some(_) => return Err(Problem::parameter("`wait` is given more than once")),
    };
    let patience_ms = wait_ms(wait.as_deref(), app.bounds().wait_ms)?;
    if page.is_some() {
        let excepted = Found::for_foreign_page(Arc::unwrap_or_clone(found));
        if excepted.is_empty() {
            extract::drain(&parts.headers, body);
            return Err(foreign_page());
        }
        found = Arc::new(excepted);
    }
    app.admit_hook(found.counted)?;
    if wait.is_some() && caller == Caller::Stranger && !found.responds() {
        extract::drain(&parts.headers, body);
        return Err(no_wait());
    }
    let bytes = extract::as_sent(&parts, body, &app).await?;
    let headers = Arc::new(parts.headers);
    let mut call = Call {
        app,
        hook: (&asked, &path),
        found,
        accepted: Vec::new(),
        trace: crate::header::trace(&headers),
        waits: wait.is_some(),
        may_wait: caller != Caller::Stranger,
        patience_ms,
    };
    let mut known = match edition {
        Some(edition) if call.verify_here(&headers, &bytes) => Some(edition),
        Some(_) => {
            call.found = Arc::new(look_up(&call.app, (&method, &asked), &path).await?);
            None
        }
        None => None,
    };
    if known.is_none() {
        call.verify(&headers, &bytes).await?;
    }
    // Only a verified body is inflated.
    let sent = bytes.clone();
    let bytes = extract::inflated(&headers, bytes, &call.app).await?;
    let large = call.app.large(bytes.len()).await?;
    let request = {
        let (method, path, headers) = (method.clone(), path.clone(), Arc::clone(&headers));
        read_aside(large.as_ref(), move || {
            hooks::request((&method, &path), query, &headers, &bytes)
        })
        .await?
    };
    drop(large);
    let request = Arc::new(request);
    // Take the slot before anything is written: a request without a slot has no effect.
    let mut waiting = call.enter(room.as_ref())?;
    let mut done = None;
    if let Some(edition) = known.take() {
        done = call.start_known(&request, edition).await?;
        if done.is_none() {
            // What the request starts may be another by now.
            call.found = Arc::new(look_up(&call.app, (&method, &asked), &path).await?);
            call.verify(&headers, &sent).await?;
            drop(waiting);
            waiting = call.enter(room.as_ref())?;
        }
    }
    drop(sent);
    let done = match done {
        Some(done) => done,
        None => call.start(&request).await?,
    };
    // The runs have it.
    drop(request);
    if let Some(Extension(room)) = &room {
        room.body_is_gone();
    }
    if done.sent.started.is_empty() && done.sent.resumed.is_empty() {
        return Err(nothing(&done.sent, &method, &path));
    }
    call.answer(done, waiting, room.as_ref()).await
}

/// Looks up what a request may start. `method` is the method as it was sent, and `asked` the one whose
/// triggers it may start.
async fn look_up(
    app: &App,
    (method, asked): (&str, &str),
    path: &str,
) -> Result<Found, Box<Problem>> {
    let (of_asked, of_path) = (asked.to_owned(), path.to_owned());
    let found = app
        .ask(move |app| match hooks::find(app, &of_asked, &of_path)? {
            Some(found) => Ok(Ok(found)),
            None => Ok(Err(hooks::methods(app, &of_path)?)),
        })
        .await?;
    found.map_err(|methods| {
        let is_method = http::METHODS.contains(&asked);
        match methods.as_slice() {
            [] if is_method => nothing(&Sent::default(), method, path),
            // Methods that hooks can have.
            [] => other_method(method, path, &http::METHODS),
            methods => other_method(method, path, methods),
        }
    })
}

/// The largest body, in bytes, that is verified on the thread of its request.
const HERE_BYTES: usize = 16 * 1024;

/// A verified request, with the triggers that it may start.
struct Call<'a> {
    app: App,
    /// The method and the path of the stimulus.
    hook: (&'a str, &'a str),
    found: Arc<Found>,
    /// The indices of direct triggers that accept the request, each with the delivery.
    accepted: Vec<(usize, Option<Digest>)>,
    /// The trace of the request.
    trace: Option<TraceContext>,
    /// Whether the sender asks to wait for the run.
    waits: bool,
    /// Whether the sender may learn the outcome of a run.
    may_wait: bool,
    patience_ms: u64,
}

/// The runs that a call has started and resumed.
#[derive(Default)]
struct Called {
    sent: Sent,
    /// The run that answers the request, and its node.
    responds: Option<(operations::Delivered, String)>,
    /// The only run, and the wait for it.
    expected: Option<(operations::Delivered, Expected)>,
}

impl Call<'_> {
    /// How long the sender waits, in milliseconds; 0 without a wait.
    fn most_ms(&self) -> u64 {
        let direct = self.accepted.iter();
        let direct = direct.filter_map(|(at, _)| self.found.direct.get(*at));
        let Some((_, _, within_ms)) = hooks::node_of(direct) else {
            return if self.may_wait { self.patience_ms } else { 0 };
        };
        let within_ms = within_ms.min(self.app.bounds().wait_ms);
        if self.waits {
            within_ms.min(self.patience_ms)
        } else {
            within_ms
        }
    }

    fn enter(&self, room: Option<&Extension<Room>>) -> Result<Option<Waiting>, Box<Problem>> {
        match room {
            Some(Extension(room)) if self.most_ms() > 0 => {
                room.wait(&self.app, Pool::HooksWaiting).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Verifies the request for each trigger.
    async fn verify(
        &mut self,
        headers: &Arc<HeaderMap>,
        bytes: &Bytes,
    ) -> Result<(), Box<Problem>> {
        self.accepted = match self.found.verifies() {
            true => {
                let (found, headers) = (Arc::clone(&self.found), Arc::clone(headers));
                let bytes = bytes.clone();
                let verify = move |app: &AppInner| {
                    hooks::accepted(app, &found.direct, found.plain.is_some(), &headers, &bytes)
                };
                self.app.ask(verify).await?
            }
            false => (0..self.found.direct.len()).map(|at| (at, None)).collect(),
        };
        Ok(())
    }

    /// Verifies a little request for the trigger that was known before. False if it refuses.
    fn verify_here(&mut self, headers: &HeaderMap, bytes: &Bytes) -> bool {
        if bytes.len() > HERE_BYTES {
            return false;
        }
        match hooks::accepted(&self.app, &self.found.direct, false, headers, bytes) {
            Ok(accepted) => self.accepted = accepted,
            Err(_) => return false,
        }
        true
    }

    /// Starts the run of the trigger that was known before. None: nothing has changed, and the triggers
    /// have to be looked up.
    async fn start_known(
        &self,
        request: &Arc<http::Request>,
        edition: Edition,
    ) -> Result<Option<Called>, Box<Problem>> {
        let ([direct], [(_, delivery)]) = (&*self.found.direct, &*self.accepted) else {
            return Ok(None);
        };
        let delivery = direct.delivery(*delivery, request, self.trace.clone());
        let node = hooks::node_of([direct]).map(|(_, node, _)| node);
        let expects = match node {
            Some(node) => Expects::Output(node),
            None if self.waits && self.most_ms() > 0 => Expects::End,
            None => Expects::Nothing,
        };
        let client = &self.app.client;
        let delivered = client.deliver_known(&delivery, edition, expects).await;
        let (delivered, expected) = match delivered {
            Ok(Some(delivered)) => delivered,
            Ok(None) => return Ok(None),
            Err(windlass_runtime::Error::Reserved { by }) => {
                let mut called = Called::default();
                called.sent.reserved.push(by.0);
                return Ok(Some(called));
            }
            Err(error) => return Err(unfit(error)),
        };
        let mut called = Called::default();
        called.sent.started.push(delivered.id.0);
        called.responds = node.map(|node| (delivered, node.to_owned()));
        called.expected = Some((delivered, expected));
        Ok(Some(called))
    }

    /// Sends the stimulus of the plain triggers, and then starts the direct ones, each in its own
    /// transaction. A repeated delivery starts nothing.
    ///
    /// The runs of direct triggers record the delivery, so the stimulus precedes them: if a request
    /// is interrupted in between, its repetition sends the stimulus again and leaves nothing out.
    async fn start(&self, request: &Arc<http::Request>) -> Result<Called, Box<Problem>> {
        let (mut called, mut plain_sent) = (Called::default(), Sent::default());
        if let Some(plain) = self.found.plain
            && self.is_new().await?
        {
            self.send(plain, request, &mut plain_sent).await?;
        }
        let mut is_new = self.accepted.is_empty();
        let mut refused = None;
        for (at, delivery) in &self.accepted {
            let Some(direct) = self.found.direct.get(*at) else {
                continue;
            };
            let delivery = direct.delivery(*delivery, request, self.trace.clone());
            let delivered = match self.app.client.deliver(delivery).await {
                Ok(delivered) => delivered,
                Err(windlass_runtime::Error::Reserved { by }) => {
                    called.sent.reserved.push(by.0);
                    is_new = true;
                    continue;
                }
                // The failure of one trigger does not affect the others of the path.
                Err(error) => {
                    refused.get_or_insert(error);
                    continue;
                }
            };
            called.sent.started.push(delivered.id.0);
            is_new |= !delivered.existed;
            if called.responds.is_none()
                && let Some((_, node, _)) = hooks::node_of([direct])
            {
                called.responds = Some((delivered, node.to_owned()));
            }
        }
        called.sent.existed = !is_new;
        called.sent.add(plain_sent);
        match refused {
            // The sender repeats the request, and the triggers that succeeded recognise the
            // delivery.
            Some(error) => Err(unfit(error)),
            None => Ok(called),
        }
    }

    /// Whether no direct trigger has a run of this delivery.
    async fn is_new(&self) -> Result<bool, Box<Problem>> {
        for (at, delivery) in &self.accepted {
            if let (Some(direct), Some(delivery)) = (self.found.direct.get(*at), delivery)
                && (self.app.client)
                    .is_delivered(&direct.workflow, &direct.key, *delivery)
                    .await?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn send(
        &self,
        plain: Digest,
        request: &http::Request,
        sent: &mut Sent,
    ) -> Result<(), Box<Problem>> {
        let stimulus = Stimulus {
            name: http::STIMULUS.to_owned(),
            matches: http::matches(self.hook.0, self.hook.1),
            correlation: None,
            run: None,
            input: Payload::json(request.json(&Vec::new())),
            delivery: Delivery::StartAndResume,
            ttl_ms: 0,
            trace: self.trace.clone(),
        };
        let more = self.app.client.send(new_stimulus_id(), stimulus).await;
        let more: Sent = more.map_err(unfit)?.into();
        if more.started.is_empty() {
            self.app.hooks.forget(plain);
        } else {
            self.app.hooks.note(plain);
        }
        sent.add(more);
        Ok(())
    }

    async fn answer(
        self,
        called: Called,
        waiting: Option<Waiting>,
        room: Option<&Extension<Room>>,
    ) -> Result<Response, Box<Problem>> {
        let patience = Duration::from_millis(self.most_ms());
        if let Some((run, node)) = &called.responds {
            let answer = hooks::answer(
                &self.app,
                room.map(|Extension(room)| room),
                (*run, called.expected.map(|(_, expected)| expected)),
                node,
                patience,
            )
            .await?;
            drop(waiting);
            let accepted = || (StatusCode::ACCEPTED, Json(&called.sent)).into_response();
            return Ok(answer.unwrap_or_else(accepted));
        }
        // If the run that should answer did not start, the outcome of another run is only for
        // callers who may see it.
        let waits = self.waits && self.may_wait && !patience.is_zero();
        let waited = called.sent.started.first().copied();
        if let Some(id) = waited.filter(|_| waits) {
            let client = &self.app.client;
            let standing = match called.expected {
                Some((run, expected)) => client.result_of(run, expected, patience).await?,
                None => client.result(RunId(id), patience).await?,
            };
            drop(waiting);
            if standing.done {
                return Ok(answer(&self.app, standing).await?.into_response());
            }
        }
        Ok((StatusCode::ACCEPTED, Json(called.sent)).into_response())
    }
}

/// The problem of a request that starts nothing. An input that does not fit is the sender's mistake.
fn unfit(error: windlass_runtime::Error) -> Box<Problem> {
    let is_input = matches!(error, windlass_runtime::Error::Input(_));
    let problem: Box<Problem> = error.into();
    match is_input {
        true => problem.replied(StatusCode::BAD_REQUEST),
        false => problem,
    }
}

fn no_wait() -> Box<Problem> {
    let detail = "a request that waits for the run of a hook needs the token of this host";
    Problem::new(StatusCode::FORBIDDEN, &codes::NO_WAIT, detail)
        .help("Leave `wait` out, send the token, or let the trigger answer by `respond`.")
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

/// The problem of a request whose path is that of a hook with other methods.
fn other_method(method: &str, path: &str, methods: &[&str]) -> Box<Problem> {
    let detail = format!("the path {path} of hooks does not know the method {method}");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, &codes::NO_METHOD, detail)
        .help(format!("Its methods are {}.", methods.join(", ")))
        .header(header::ALLOW, &methods.join(", "))
}

/// The parameters of a query.
fn pairs(text: &str) -> Result<Vec<(String, String)>, Box<Problem>> {
    use axum::extract::Query;
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let unreadable = || Problem::parameter("the query cannot be understood");
    let uri = format!("/?{text}").parse().map_err(|_| unreadable())?;
    let Query(pairs) = Query::try_from_uri(&uri).map_err(|_| unreadable())?;
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_parameter_that_is_repeated_is_a_list() {
        for (text, wanted) in [
            ("", json!({})),
            ("a=1", json!({ "a": "1" })),
            ("a=1&b=2&a=3&a=", json!({ "a": ["1", "3", ""], "b": "2" })),
            ("a%5B%5D=1&a%5B%5D=1", json!({ "a[]": ["1", "1"] })),
        ] {
            assert_eq!(Value::from(by_name(pairs(text).unwrap())), wanted, "{text}");
        }
    }
}
