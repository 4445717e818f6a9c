//! Runs nodes and consumers natively, against a fake host.
//!
//! ```
//! # use windlass::prelude::*;
//! # struct Shout;
//! # impl Node for Shout {
//! #     const NAME: &'static str = "shout";
//! #     type Config = Nothing;
//! #     type Input = Value;
//! #     type Output = Value;
//! #     fn run(_: Nothing, input: Value, _: &Context) -> Result<Outcome<Value>> {
//! #         Ok(json!({ "text": input["text"].as_str().unwrap_or("").to_uppercase() }).into())
//! #     }
//! # }
//! use windlass::testkit::Call;
//!
//! let report = Call::new().input(json!({ "text": "hello" })).run::<Shout>();
//! assert_eq!(report.output(), json!({ "text": "HELLO" }));
//! ```
//!
//! A call takes the same path as in a component: from bytes, through the
//! schemas, to bytes. For a configuration or an input that its schema refuses,
//! the test kit returns [`Error::Invalid`], like the host; an output that its
//! own schema refuses, or an undeclared port, is a fault of the node and
//! panics.
#![expect(clippy::panic, reason = "a test kit reports faults by panicking")]

pub(crate) mod fake;
mod rules;

use crate::bindings::consumer::exports::windlass::consumer::consumer as wit_consumer;
use crate::bindings::node::exports::windlass::node::node as wit;
use crate::bindings::node::windlass::context::context as wit_context;
use crate::data::{Incoming, Outgoing, Raw};
use crate::describe::{Plugin, describe_function, describe_node, document};
use crate::http::{HttpError, Request, Response};
use crate::{
    Body, Consumer, Disposition, Error, Level, Node, Payload, Reason, Result, Resumption,
    Scheduled, Stimulus,
};
use serde_json::{Value, json};
use std::time::Duration;

/// The describe document of a plugin; panics if it breaks the rules of
/// `DESCRIBE.md`.
pub fn describe<P: Plugin>() -> Value {
    let document = document::<P>();
    let faults = rules::faults(&document);
    assert!(faults.is_empty(), "{}: {}", P::PACKAGE, faults.join("; "));
    document
}

/// The findings of the check of a node for this configuration, all of whose
/// members are known.
pub fn check<C: crate::Check>(config: Value) -> Vec<crate::Finding> {
    C::check(&crate::Configuration {
        config,
        unknown: Vec::new(),
    })
}

/// A call to make, and its environment.
#[derive(Default)]
pub struct Call {
    config: Option<Payload>,
    input: Option<Payload>,
    world: fake::World,
}

/// The result of a call.
#[derive(Debug)]
pub struct Report<T> {
    /// The outcome or the error.
    pub outcome: Result<T>,
    /// The lines that it logged.
    pub logs: Vec<LogLine>,
    /// The progress that it reported.
    pub progress: Vec<(f64, String)>,
    /// The HTTP requests that it made.
    pub requests: Vec<Request>,
    /// The stimuli that it sent.
    pub sent: Vec<Stimulus>,
    /// The triggers that it scheduled.
    pub scheduled: Vec<Scheduled>,
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogLine {
    /// Its level.
    pub level: Level,
    /// Its message.
    pub message: String,
    /// Its named values.
    pub fields: Vec<(String, String)>,
}

/// An outcome of a node, with its values as JSON.
pub type Outcome = crate::Outcome<Value>;

impl Call {
    /// A first attempt with an empty configuration and no input.
    pub fn new() -> Self {
        Self::default()
    }

    /// The rendered `with` of the node.
    #[must_use]
    pub fn config(mut self, config: Value) -> Self {
        self.config = Some(payload(&config));
        self
    }

    /// The input of the node.
    #[must_use]
    pub fn input(self, input: Value) -> Self {
        self.raw_input(Raw(payload(&input)))
    }

    /// As [`Call::input`], of any media type; its schema is not checked.
    #[must_use]
    pub fn raw_input(mut self, input: Raw) -> Self {
        self.input = Some(input.0);
        self
    }

    /// The number of the attempt, from 1.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.world.attempt = attempt;
        self
    }

    /// Makes [`crate::Context::cancelled`] true.
    #[must_use]
    pub fn cancelled(mut self) -> Self {
        self.world.cancelled = true;
        self
    }

    /// The time of the wall clock.
    #[must_use]
    pub fn now_ms(mut self, now_ms: u64) -> Self {
        self.world.now_ms = now_ms;
        self
    }

    /// The value at this path of the memory.
    #[must_use]
    pub fn memory(mut self, path: &str, value: Value) -> Self {
        self.world.memory.insert(path.to_owned(), payload(&value));
        self
    }

    /// Why the node is called again.
    #[must_use]
    pub fn resumption(mut self, resumption: Resumption) -> Self {
        let reason = match resumption.reason {
            Reason::Again => wit_context::Reason::Again,
            Reason::Resumed {
                bookmark,
                input,
                metadata,
            } => wit_context::Reason::Resumed(wit_context::Resumed {
                bookmark,
                input: payload(&input),
                metadata: metadata.as_ref().map(payload),
            }),
            Reason::Expired(bookmark) => wit_context::Reason::Expired(bookmark),
            Reason::Cancelled => wit_context::Reason::Cancelled,
            Reason::Other(other) => wit_context::Reason::Other(other),
        };
        self.world.resumption = Some(wit_context::ResumedCall {
            reason,
            phase: resumption.phase,
            state: resumption.state.as_ref().map(payload),
        });
        self
    }

    /// Answers HTTP requests; without it every request is denied.
    #[must_use]
    pub fn http(
        mut self,
        responder: impl FnMut(&Request) -> Result<Response, HttpError> + 'static,
    ) -> Self {
        self.world.responder = Some(Box::new(responder));
        self
    }

    /// Runs a node.
    pub fn run<N: Node>(self) -> Report<Outcome> {
        self.execute(&describe_node::<N>(), crate::node::run::<N>)
    }

    /// Runs a node that is a function.
    pub fn run_function<I: Incoming, O: Outgoing>(
        self,
        function: fn(I) -> Result<O>,
    ) -> Report<Outcome> {
        let run = |request| crate::node::run_function(function, request);
        self.execute(&describe_function::<I, O>("function"), run)
    }

    fn execute(
        self,
        node: &Value,
        run: impl FnOnce(wit::NodeRequest) -> Result<wit::Outcome>,
    ) -> Report<Outcome> {
        let config = self.config.unwrap_or_else(|| payload(&json!({})));
        let input = self.input.unwrap_or_else(|| payload(&Value::Null));
        let mut faults = Vec::new();
        for (what, given) in [("config", &config), ("input", &input)] {
            if let Some(value) = json_of(given) {
                faults.extend(mistakes(what, member(node, what), &value));
            }
        }
        let call = || {
            if !faults.is_empty() {
                return Err(Error::invalid(faults.join("; ")));
            }
            let outcome = run(wit::NodeRequest {
                node_type: format!("testkit/{}", name_of(node)),
                config,
                input,
            })?;
            outcome_of(outcome, node)
        };
        report(self.world, call)
    }

    /// Offers a trigger to a consumer. Its payload is the input of the call.
    pub fn accept<C: Consumer>(mut self, kind: &str, node: Option<&str>) -> Report<Disposition> {
        self.world.node_id = node.map(str::to_owned);
        let trigger = wit_consumer::Trigger {
            kind: kind.to_owned(),
            node: node.map(str::to_owned),
            payload: self.input,
        };
        report(self.world, || match crate::consumer::accept::<C>(trigger) {
            Ok(disposition) => disposition_of(disposition),
            Err(wit_consumer::ConsumerError::Retryable(failure)) => Err(Error::Retryable {
                failure: failure.into(),
                after: None,
            }),
            Err(wit_consumer::ConsumerError::Other(failure)) => Err(Error::Other(failure.into())),
        })
    }
}

impl Report<Outcome> {
    /// The output, if the node is done; otherwise panics with the outcome.
    #[track_caller]
    pub fn output(self) -> Value {
        match self.outcome {
            Ok(Outcome::Done { output, .. }) => output,
            other => panic!("the node is not done but ended as {other:?}"),
        }
    }
}

impl<T: std::fmt::Debug> Report<T> {
    /// The error, if the call failed; otherwise panics with the outcome.
    #[track_caller]
    pub fn error(self) -> Error {
        match self.outcome {
            Err(error) => error,
            Ok(outcome) => panic!("the call did not fail but ended as {outcome:?}"),
        }
    }
}

fn report<T>(world: fake::World, call: impl FnOnce() -> Result<T>) -> Report<T> {
    fake::enter(world);
    let outcome = call();
    let done = fake::leave().done;
    Report {
        outcome,
        logs: done.logs,
        progress: done.progress,
        requests: done.requests,
        sent: done.sent,
        scheduled: done.scheduled,
    }
}

fn outcome_of(outcome: wit::Outcome, node: &Value) -> Result<Outcome> {
    let name = name_of(node);
    let suspends = member(node, "suspends") == &Value::Bool(true);
    Ok(match outcome {
        wit::Outcome::Done(done) => {
            let declared = member(node, "ports").as_array();
            let is_declared = |port: &str| {
                declared.is_some_and(|declared| declared.iter().any(|known| known == port))
            };
            let none = done.ports.is_empty().then_some("done");
            for port in done.ports.iter().map(String::as_str).chain(none) {
                assert!(
                    is_declared(port),
                    "{name} took the port {port}, which it does not declare",
                );
            }
            let output = json_of(&done.output).unwrap_or_else(|| bytes_as_json(&done.output));
            let faults = mistakes("output", member(node, "output"), &output);
            assert!(faults.is_empty(), "{name}: {}", faults.join("; "));
            Outcome::Done {
                output,
                ports: done.ports,
            }
        }
        wit::Outcome::Suspend(suspension) => {
            assert!(suspends, "{name} suspends without declaring it");
            Outcome::Suspend(crate::Suspension {
                bookmarks: suspension
                    .bookmarks
                    .into_iter()
                    .map(crate::Bookmark::from_wit)
                    .collect::<Result<_>>()?,
                state: suspension.state.as_ref().and_then(json_of),
            })
        }
        wit::Outcome::Again(again) => {
            assert!(suspends, "{name} asks to run again without declaring it");
            Outcome::Again {
                after: Duration::from_millis(again.after),
                state: again.state.as_ref().and_then(json_of),
            }
        }
    })
}

fn disposition_of(disposition: wit_consumer::Disposition) -> Result<Disposition> {
    Ok(match disposition {
        wit_consumer::Disposition::Execute(patch) => {
            let vars = patch
                .vars
                .as_ref()
                .map(crate::data::from_json)
                .transpose()?;
            Disposition::Execute(vars.unwrap_or_default())
        }
        wit_consumer::Disposition::Handled => Disposition::Handled,
        wit_consumer::Disposition::Later(ms) => Disposition::Later(Duration::from_millis(ms)),
        wit_consumer::Disposition::Reject(failure) => Disposition::Reject(failure.into()),
    })
}

fn name_of(node: &Value) -> &str {
    member(node, "name").as_str().unwrap_or_default()
}

fn member<'a>(object: &'a Value, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&Value::Bool(true))
}

/// The mistakes of a value by a schema.
fn mistakes(what: &str, schema: &Value, value: &Value) -> Vec<String> {
    let validator = match jsonschema::validator_for(schema) {
        Ok(validator) => validator,
        Err(error) => panic!("the schema of the {what} is broken: {error}"),
    };
    validator
        .iter_errors(value)
        .map(|error| format!("{what}{}: {error}", error.instance_path()))
        .collect()
}

fn payload(value: &Value) -> Payload {
    Raw::json(value.to_string()).0
}

fn json_of(payload: &Payload) -> Option<Value> {
    let bytes = match (&payload.content_type, &payload.body) {
        (None, Body::Inline(bytes)) => bytes.as_slice(),
        (None, Body::Text(text)) => text.as_bytes(),
        _ => return None,
    };
    Some(match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(error) => panic!("a payload without content type is no JSON: {error}"),
    })
}

/// Values that are not JSON appear in a report by their media type and bytes.
fn bytes_as_json(payload: &Payload) -> Value {
    match &payload.body {
        Body::Inline(bytes) => json!({
            "content-type": payload.content_type,
            "bytes": bytes,
        }),
        Body::Text(text) => json!({
            "content-type": payload.content_type,
            "text": text,
        }),
        Body::Blob(reference) => json!({
            "content-type": payload.content_type,
            "blob": reference,
        }),
    }
}
