//! Version 0.1 of the imports, on top of the newest.
//!
//! A payload of this version has no text, an HTTP body is bytes, and a run is an instance.

use crate::bindings::host::windlass as new;
use crate::bindings::old_host::windlass::{context::context, events::events, http::http};
use crate::bindings::old_host::windlass::{memory::memory, types::types};
use crate::guest::Guest;

impl types::Host for Guest {}

/// A payload for a guest of this version.
fn handed(payload: new::types0_2_0::types::Payload) -> types::Payload {
    use new::types0_2_0::types::Body;
    let body = match payload.body {
        Body::Inline(bytes) => types::Body::Inline(bytes),
        Body::Text(text) => types::Body::Inline(text.into_bytes()),
        Body::Blob(text) => types::Body::Blob(text),
    };
    types::Payload {
        content_type: payload.content_type,
        body,
    }
}

/// A payload of a guest of this version.
fn taken(payload: types::Payload) -> new::types0_2_0::types::Payload {
    use new::types0_2_0::types::{Body, Payload};
    let body = match payload.body {
        types::Body::Inline(bytes) => Body::Inline(bytes),
        types::Body::Blob(text) => Body::Blob(text),
    };
    Payload {
        content_type: payload.content_type,
        body,
    }
}

impl context::Host for Guest {
    fn instance_id(&mut self) -> String {
        new::context::context::Host::run_id(self)
    }

    fn workflow(&mut self) -> String {
        new::context::context::Host::workflow(self)
    }

    fn node_id(&mut self) -> Option<String> {
        new::context::context::Host::node_id(self)
    }

    fn trigger_id(&mut self) -> String {
        new::context::context::Host::trigger_id(self)
    }

    fn attempt(&mut self) -> u32 {
        new::context::context::Host::attempt(self)
    }

    fn idempotency_key(&mut self) -> String {
        new::context::context::Host::idempotency_key(self)
    }

    fn deadline(&mut self) -> u64 {
        new::context::context::Host::deadline(self)
    }

    fn correlation_id(&mut self) -> Option<String> {
        new::context::context::Host::correlation_id(self)
    }

    fn trace_parent(&mut self) -> Option<String> {
        new::context::context::Host::trace_parent(self)
    }

    fn resumption(&mut self) -> Option<context::ResumedCall> {
        use new::context::context::Reason;
        let call = new::context::context::Host::resumption(self)?;
        let reason = match call.reason {
            Reason::Again => context::Reason::Again,
            Reason::Resumed(resumed) => context::Reason::Resumed(context::Resumed {
                bookmark: resumed.bookmark,
                input: handed(resumed.input),
                metadata: resumed.metadata.map(handed),
            }),
            Reason::Expired(bookmark) => context::Reason::Expired(bookmark),
            Reason::Cancelled => context::Reason::Cancelled,
            Reason::Other(other) => context::Reason::Other(other),
        };
        Some(context::ResumedCall {
            reason,
            phase: call.phase,
            state: call.state.map(handed),
        })
    }

    fn resume_token(&mut self, bookmark: String) -> Option<String> {
        new::context::context::Host::resume_token(self, bookmark)
    }

    fn cancelled(&mut self) -> bool {
        new::context::context::Host::cancelled(self)
    }

    fn progress(&mut self, fraction: f64, note: String) {
        new::context::context::Host::progress(self, fraction, note);
    }
}

impl memory::Host for Guest {
    async fn get(&mut self, path: String) -> Result<Option<types::Payload>, memory::MemoryError> {
        use new::memory::memory::{Host, MemoryError};
        match Host::get(self, path).await {
            Ok(found) => Ok(found.map(handed)),
            Err(MemoryError::InvalidPath(text)) => Err(memory::MemoryError::InvalidPath(text)),
            Err(MemoryError::TooLarge(bytes)) => Err(memory::MemoryError::TooLarge(bytes)),
            Err(MemoryError::Other(text)) => Err(memory::MemoryError::Other(text)),
        }
    }
}

impl events::Host for Guest {
    fn send(&mut self, sent: events::Stimulus) -> Result<(), events::EventError> {
        let stimulus = new::events::events::Stimulus {
            name: sent.name,
            match_: Some(taken(sent.match_)),
            correlation: sent.correlation,
            run: sent.instance,
            input: Some(taken(sent.input)),
        };
        new::events::events::Host::send(self, stimulus).map_err(event_error)
    }

    fn schedule(&mut self, trigger: events::Scheduled) -> Result<(), events::EventError> {
        let scheduled = new::events::events::Scheduled {
            node: trigger.node,
            at: trigger.at,
            payload: trigger.payload.map(taken),
        };
        new::events::events::Host::schedule(self, scheduled).map_err(event_error)
    }
}

fn event_error(error: new::events::events::EventError) -> events::EventError {
    use new::events::events::EventError;
    match error {
        EventError::Unavailable(text) => events::EventError::Unavailable(text),
        EventError::Invalid(text) => events::EventError::Invalid(text),
        EventError::Limit(text) => events::EventError::Limit(text),
        EventError::Other(text) => events::EventError::Other(text),
    }
}

impl http::Host for Guest {
    async fn fetch(&mut self, request: http::Request) -> Result<http::Response, http::HttpError> {
        use new::http::http::{Content, Header, HeaderValue, Host, HttpError, Request};
        let header = |header: http::Header| Header {
            name: header.name,
            value: match header.value {
                http::HeaderValue::Plain(text) => HeaderValue::Plain(text),
                http::HeaderValue::Secret(name) => HeaderValue::Secret(name),
            },
        };
        let request = Request {
            method: request.method,
            url: request.url,
            headers: request.headers.into_iter().map(header).collect(),
            body: request.body.map(Content::Bytes),
            timeout: request.timeout,
            max_response_bytes: request.max_response_bytes,
            max_redirects: Some(request.max_redirects),
        };
        match Host::fetch(self, request).await {
            Ok(response) => Ok(http::Response {
                status: response.status,
                headers: response.headers,
                body: match response.body {
                    Content::Bytes(bytes) => bytes,
                    Content::Text(text) => text.into_bytes(),
                },
            }),
            Err(error) => Err(match error {
                HttpError::Denied(text) => http::HttpError::Denied(text),
                HttpError::Invalid(text) => http::HttpError::Invalid(text),
                HttpError::Timeout => http::HttpError::Timeout,
                HttpError::TooLarge(bytes) => http::HttpError::TooLarge(bytes),
                HttpError::Unreachable(text) => http::HttpError::Unreachable(text),
                HttpError::NoSecret(text) => http::HttpError::NoSecret(text),
                HttpError::Limit(text) => http::HttpError::Limit(text),
                HttpError::Other(text) => http::HttpError::Other(text),
            }),
        }
    }
}
