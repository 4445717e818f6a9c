//! The answer to a request that failed: RFC 9457, with our codes.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use windlass_model::file::DIAGNOSTICS;
use windlass_model::nearest::did_you_mean;
use windlass_model::{Code, Diagnostic};

use crate::codes;
use crate::count::Count;
use crate::json::Json;
use crate::permissions::Permission;

/// The media type of a problem.
pub(crate) const MEDIA: &str = "application/problem+json";

/// The default of `Retry-After`, in seconds.
const RETRY_AFTER_S: u64 = 1;

/// `Retry-After` while a plugin is missing, in seconds.
const PLUGIN_LATER_S: u64 = 30;

/// The answer to a request that failed (RFC 9457).
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// The page that explains it, relative to the server.
    #[serde(rename = "type")]
    kind: String,
    /// The kind of problem, in a few words.
    title: String,
    /// The status of the answer.
    status: u16,
    /// Names the problem for people and programs, like `WL-H005`.
    code: String,
    /// The event, in one sentence.
    detail: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    help: Option<String>,
    /// All mistakes of a workflow or an input.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Mistake>,
    #[serde(skip)]
    reply: StatusCode,
    /// After how many seconds the same request may succeed.
    #[serde(skip)]
    later_s: Option<u64>,
    /// Further headers of the answer.
    #[serde(skip)]
    headers: Vec<(HeaderName, HeaderValue)>,
    /// The cause of the problem.
    #[serde(skip)]
    cause: Option<Cause>,
}

/// The error that caused a problem, with its full message. It is never part of an answer: its
/// messages name files and servers of this machine, which only a caller in the same process may
/// read.
#[derive(Clone, Debug)]
pub enum Cause {
    /// An error of the store.
    Store(Arc<windlass_store::Error>),
    /// An error of the runtime.
    Runtime(Arc<windlass_runtime::Error>),
    /// An error of the lock provider.
    Locks(Arc<windlass_locks::Error>),
    /// An error that should not happen.
    Bug(String),
}

/// A mistake in a workflow or an input.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Mistake {
    /// The code of the mistake.
    code: String,
    /// The mistake, in one sentence.
    detail: String,
    /// Its place: a JSON pointer.
    pointer: String,
    /// The part of the text at `pointer`, if the mistake is about a part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    within: Option<Within>,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    help: Option<String>,
}

/// A part of a text, in bytes of UTF-8.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Within {
    /// The first byte.
    start: Count,
    /// The byte behind the last one.
    end: Count,
}

impl From<&Diagnostic> for Mistake {
    fn from(found: &Diagnostic) -> Self {
        let mut found = found.clone();
        found.shorten();
        Self {
            code: found.code.to_string(),
            detail: found.message.clone(),
            pointer: found.place.pointer.clone(),
            within: found.place.within.as_ref().map(|within| Within {
                start: within.start.into(),
                end: within.end.into(),
            }),
            help: found.help.clone(),
        }
    }
}

impl windlass_store::Exceeding for Box<Problem> {
    fn exceeds(&self) -> bool {
        self.exceeds_allowance()
    }
}

impl Problem {
    /// Whether a reader of the store found more bytes than it may read.
    pub(crate) fn exceeds_allowance(&self) -> bool {
        matches!(&self.cause, Some(Cause::Store(error)) if error.exceeds_allowance())
    }

    pub(crate) fn new(reply: StatusCode, code: &Code, detail: impl Into<String>) -> Box<Self> {
        let later = [
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::TOO_MANY_REQUESTS,
        ];
        Box::new(Self {
            kind: format!("/errors/{code}"),
            title: reply.canonical_reason().unwrap_or("Problem").to_owned(),
            status: reply.as_u16(),
            code: code.to_string(),
            detail: detail.into(),
            help: None,
            errors: Vec::new(),
            reply,
            later_s: later.contains(&reply).then_some(RETRY_AFTER_S),
            headers: Vec::new(),
            cause: None,
        })
    }

    #[must_use]
    pub(crate) fn help(mut self: Box<Self>, help: impl Into<String>) -> Box<Self> {
        self.help = Some(help.into());
        self
    }

    /// Adds a header to the answer, unless the value cannot be sent.
    #[must_use]
    pub(crate) fn header(mut self: Box<Self>, name: HeaderName, value: &str) -> Box<Self> {
        let value = HeaderValue::from_str(value).ok();
        self.headers.extend(value.map(|value| (name, value)));
        self
    }

    /// Whether this host failed, and not the request.
    pub(crate) fn is_of_host(&self) -> bool {
        self.reply.is_server_error()
    }

    /// Names the part of the request that the problem is about.
    #[must_use]
    pub(crate) fn about(mut self: Box<Self>, part: &str) -> Box<Self> {
        self.detail = format!("{part}: {}", self.detail);
        self
    }

    #[must_use]
    pub(crate) fn caused(mut self: Box<Self>, cause: Cause) -> Box<Self> {
        self.cause = Some(cause);
        self
    }

    /// The same problem with another status.
    #[must_use]
    pub(crate) fn replied(mut self: Box<Self>, reply: StatusCode) -> Box<Self> {
        self.title = reply.canonical_reason().unwrap_or("Problem").to_owned();
        self.status = reply.as_u16();
        self.reply = reply;
        self
    }

    #[must_use]
    pub(crate) fn maybe(mut self: Box<Self>, help: Option<String>) -> Box<Self> {
        self.help = help;
        self
    }

    #[must_use]
    fn errors(mut self: Box<Self>, found: &[Diagnostic]) -> Box<Self> {
        self.errors = found.iter().take(DIAGNOSTICS).map(Mistake::from).collect();
        self
    }

    /// The problem of a part of the path, a parameter of the query or a header that is not valid.
    pub(crate) fn parameter(detail: impl Into<String>) -> Box<Self> {
        Self::new(StatusCode::BAD_REQUEST, &codes::PARAMETER, detail)
    }

    /// The problem of a cursor that the list has not given.
    pub(crate) fn foreign_cursor() -> Box<Self> {
        Self::parameter(
            "`cursor` is not from this list: pass `next` of its last page, or leave `cursor` out \
             for the first page",
        )
    }

    /// The problem of a body that is JSON, but not valid.
    pub(crate) fn body(detail: impl Into<String>) -> Box<Self> {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, &codes::BODY, detail)
    }

    /// The problem of a request that needs a further permission of a caller who may call the route.
    pub(crate) fn forbidden(permission: Permission) -> Box<Self> {
        let detail = format!("the caller lacks the permission `{}`", permission.name());
        Self::new(StatusCode::FORBIDDEN, &codes::UNAUTHORISED, detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Box<Self> {
        Self::new(StatusCode::NOT_FOUND, &codes::NOT_FOUND, detail)
    }

    pub(crate) fn too_late(detail: impl Into<String>) -> Box<Self> {
        Self::new(StatusCode::CONFLICT, &codes::TOO_LATE, detail)
    }

    pub(crate) fn busy(detail: impl Into<String>) -> Box<Self> {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, &codes::BUSY, detail)
            .help("Try again after the time that `Retry-After` names.")
    }

    /// The problem of a call beyond a rate that an operator has set.
    pub(crate) fn too_often(code: &Code, detail: &str, wait: Duration) -> Box<Self> {
        let mut problem = Self::new(StatusCode::TOO_MANY_REQUESTS, code, detail)
            .help("Try again after the time that `Retry-After` names.");
        // The header has whole seconds only.
        let whole_s = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        problem.later_s = Some(whole_s.max(RETRY_AFTER_S));
        problem
    }

    /// The problem of an error that should not happen. Only the log describes the error.
    pub(crate) fn bug(what: &dyn std::fmt::Display) -> Box<Self> {
        tracing::error!(error = %what, "a request failed");
        let detail = "the host could not carry the request out, and has logged why";
        let reply = StatusCode::INTERNAL_SERVER_ERROR;
        Self::new(reply, &Code::new("WL-X001"), detail).caused(Cause::Bug(what.to_string()))
    }
}

impl From<windlass_store::Error> for Box<Problem> {
    fn from(error: windlass_store::Error) -> Self {
        if error.exceeds_allowance() {
            // Readers try again with fewer rows or more room before they answer this.
            let detail = "the data are larger than the data of an answer may be";
            let reply = StatusCode::INSUFFICIENT_STORAGE;
            return Problem::new(reply, &error.code, detail).caused(Cause::Store(Arc::new(error)));
        }
        tracing::warn!(code = %error.code, %error, "the store could not answer a request");
        let closed = error.code == windlass_store::codes::CLOSED;
        let reply = if error.transient || closed {
            StatusCode::SERVICE_UNAVAILABLE
        } else if error.code == windlass_store::codes::CONTRADICTION {
            StatusCode::CONFLICT
        } else {
            StatusCode::INTERNAL_SERVER_ERROR
        };
        // Messages of the store name files of this machine, so they only go to the log.
        let detail = "the store could not carry the request out";
        Problem::new(reply, &error.code, detail).caused(Cause::Store(Arc::new(error)))
    }
}

impl From<windlass_runtime::Error> for Box<Problem> {
    fn from(error: windlass_runtime::Error) -> Self {
        use windlass_runtime::Error;
        if let Error::Store(error) = error {
            return error.into();
        }
        of_runtime(&error).caused(Cause::Runtime(Arc::new(error)))
    }
}

fn of_runtime(error: &windlass_runtime::Error) -> Box<Problem> {
    use windlass_runtime::Error;
    let code = error.code();
    let new = |reply| Problem::new(reply, &code, error.to_string());
    match error {
        Error::Definition(found) | Error::Input(found) => {
            new(StatusCode::UNPROCESSABLE_ENTITY).errors(found)
        }
        Error::CannotRun { mistakes, .. } => {
            let mut problem = new(StatusCode::SERVICE_UNAVAILABLE).errors(mistakes);
            problem.later_s = Some(PLUGIN_LATER_S);
            problem.help("put the plugin back, or publish a version that fits the plugins")
        }
        Error::Conflict { .. } | Error::Reserved { .. } => new(StatusCode::CONFLICT),
        Error::Deleted(_) => {
            new(StatusCode::CONFLICT).help("take another id: a deleted run does not come back")
        }
        Error::NotNow { help, .. } if error.is_missing() => {
            new(StatusCode::NOT_FOUND).maybe(help.clone())
        }
        Error::NotNow { help, .. } => new(StatusCode::CONFLICT).maybe(help.clone()),
        Error::NotFound(_) => new(StatusCode::NOT_FOUND),
        Error::NoWorkflow { near, .. } => new(StatusCode::NOT_FOUND).maybe(near.clone()),
        Error::Refused { help, .. } => new(StatusCode::UNPROCESSABLE_ENTITY).maybe(help.clone()),
        Error::Draining | Error::Paused => new(StatusCode::SERVICE_UNAVAILABLE),
        Error::NoLease => {
            tracing::warn!(%code, %error, "the store could not answer a request");
            new(StatusCode::SERVICE_UNAVAILABLE)
        }
        Error::Plugins(_) if error.is_compiling() => new(StatusCode::SERVICE_UNAVAILABLE)
            .help("send it again when the plugin is compiled; `/readyz` shows how many are left"),
        Error::Plugins(error) => {
            tracing::warn!(code = %error.code, %error, "a plugin could not be used");
            new(StatusCode::UNPROCESSABLE_ENTITY)
        }
        other => Problem::bug(other),
    }
}

/// A near name, or all of them.
pub(crate) fn one_of(wrong: &str, names: &[&str]) -> String {
    did_you_mean(wrong, names.iter().copied())
        .unwrap_or_else(|| format!("it is one of {}", names.join(", ")))
}

impl Problem {
    /// The answer with this body, which has the members of the problem and perhaps others.
    pub(crate) fn with_body(self: Box<Self>, body: &impl Serialize) -> Response {
        let mut response = (self.reply, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA));
        headers.extend(self.headers);
        if let Some(later_s) = self.later_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(later_s));
        }
        if self.reply == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, bearer);
        }
        if let Some(cause) = self.cause {
            response.extensions_mut().insert(cause);
        }
        response
    }
}

impl IntoResponse for Box<Problem> {
    fn into_response(self) -> Response {
        let body = self.clone();
        self.with_body(&body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_a_lease_is_no_bug_and_its_client_comes_again() {
        let problem = Box::<Problem>::from(windlass_runtime::Error::NoLease);
        let code = codes::NO_LEASE.to_string();
        assert_eq!((problem.status, &problem.code), (503, &code));
        let answer = problem.into_response();
        assert!(answer.headers().contains_key(header::RETRY_AFTER));
    }
}
