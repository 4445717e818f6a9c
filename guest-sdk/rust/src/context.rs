//! The context of the current call, and the functions of the host.

use crate::bindings::node::windlass::events::events::{EventError, Scheduled, Stimulus};
use crate::bindings::node::windlass::memory::memory::MemoryError;
use crate::bookmark::Resumption;
use crate::data::{from_json, json_payload};
use crate::error::{Error, Result};
use crate::host;
use crate::http::RequestBuilder;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// The host, for the length of one call. Each method is one host call.
#[derive(Debug)]
pub struct Context(());

impl Context {
    pub(crate) fn new() -> Self {
        Self(())
    }

    /// The id of the run, a UUID.
    pub fn run_id(&self) -> String {
        host::context::run_id()
    }

    /// The name of the workflow.
    pub fn workflow(&self) -> String {
        host::context::workflow()
    }

    /// The node that runs; none while a consumer decides about a trigger that
    /// starts a workflow.
    pub fn node_id(&self) -> Option<String> {
        host::context::node_id()
    }

    /// The trigger of this call.
    pub fn trigger_id(&self) -> String {
        host::context::trigger_id()
    }

    /// The number of the attempt, from 1.
    pub fn attempt(&self) -> u32 {
        host::context::attempt()
    }

    /// Equal for all crashes and retries of one node run, and different for any
    /// other: send it with side effects, so that the other system can recognise
    /// a repetition.
    pub fn idempotency_key(&self) -> String {
        host::context::idempotency_key()
    }

    /// The time limit of this call, in milliseconds since 1970.
    pub fn deadline_ms(&self) -> u64 {
        host::context::deadline()
    }

    /// The correlation id of the run, if it has one.
    pub fn correlation_id(&self) -> Option<String> {
        host::context::correlation_id()
    }

    /// W3C trace context of the run, if there is one.
    pub fn trace_parent(&self) -> Option<String> {
        host::context::trace_parent()
    }

    /// Why the node is called again; none on the first call of a node run.
    pub fn resumption(&self) -> Result<Option<Resumption>> {
        host::context::resumption()
            .map(Resumption::from_wit)
            .transpose()
    }

    /// The token that resumes a bookmark of this name and of this call; none if
    /// the host has no bookmarks.
    pub fn resume_token(&self, bookmark: &str) -> Option<String> {
        host::context::resume_token(bookmark)
    }

    /// Whether the run has been cancelled meanwhile: a long node should check
    /// it, and return [`Error::Cancelled`].
    pub fn cancelled(&self) -> bool {
        host::context::cancelled()
    }

    /// Reports the progress of a long node; the fraction is between 0 and 1.
    pub fn progress(&self, fraction: f64, note: &str) {
        host::context::progress(fraction, note);
    }

    /// The wall clock, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        host::clock::now()
    }

    /// Nanoseconds since a fixed moment before the call; never goes back within
    /// a call.
    pub fn monotonic_ns(&self) -> u64 {
        host::clock::monotonic_ns()
    }

    /// This many unpredictable bytes, at most 64 KiB.
    pub fn random_bytes(&self, length: u32) -> Vec<u8> {
        host::random::bytes(length)
    }

    /// 64 unpredictable bits.
    pub fn random(&self) -> u64 {
        host::random::number()
    }

    /// The value of the workflow's data at a path such as `vars.currency` or
    /// `nodes.sum.output.total`; none if there is no such value.
    pub fn memory<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>> {
        let found = host::memory::get(path).map_err(|error| match error {
            MemoryError::InvalidPath(why) => {
                Error::invalid(format!("cannot read {path} from memory: {why}"))
            }
            MemoryError::TooLarge(bytes) => Error::permanent(format!(
                "cannot read {path} from memory: {bytes} bytes are more than a payload may have"
            )),
            MemoryError::Other(why) => {
                Error::other(format!("cannot read {path} from memory: {why}"))
            }
        })?;
        found.as_ref().map(from_json).transpose()
    }

    /// A request to this URL; nothing is sent before [`RequestBuilder::send`].
    pub fn http(&self, method: impl Into<String>, url: impl Into<String>) -> RequestBuilder {
        RequestBuilder::new(method.into(), url.into())
    }

    /// Sends a stimulus with the commit of this call.
    pub fn send(&self, stimulus: &Stimulus) -> Result<()> {
        host::events::send(stimulus).map_err(|error| event_error("send the stimulus", error))
    }

    /// Schedules an execution of a node of this run, with the commit of
    /// this call. The members of the payload are assigned to `vars` before the
    /// node runs.
    pub fn schedule(
        &self,
        node: impl Into<String>,
        at_ms: u64,
        payload: Option<&Value>,
    ) -> Result<()> {
        let trigger = Scheduled {
            node: node.into(),
            at: at_ms,
            payload: payload.map(json_payload).transpose()?,
        };
        host::events::schedule(&trigger).map_err(|error| event_error("schedule the trigger", error))
    }
}

impl Stimulus {
    /// A stimulus of this name, for waits and triggers with this match.
    pub fn new(name: impl Into<String>, matching: impl Serialize) -> Result<Self> {
        Ok(Self {
            name: name.into(),
            match_: Some(json_payload(&matching)?),
            correlation: None,
            run: None,
            input: None,
        })
    }

    /// Only runs of this correlation get it.
    #[must_use]
    pub fn correlation(mut self, correlation: impl Into<String>) -> Self {
        self.correlation = Some(correlation.into());
        self
    }

    /// Only the run with this id gets it.
    #[must_use]
    pub fn run(mut self, run: impl Into<String>) -> Self {
        self.run = Some(run.into());
        self
    }

    /// The input that it carries.
    pub fn input(mut self, input: impl Serialize) -> Result<Self> {
        self.input = Some(json_payload(&input)?);
        Ok(self)
    }
}

fn event_error(doing: &str, error: EventError) -> Error {
    match error {
        EventError::Unavailable(why) => Error::permanent(format!("cannot {doing}: {why}")),
        EventError::Invalid(why) => Error::invalid(format!("cannot {doing}: {why}")),
        EventError::Limit(why) => Error::permanent(format!("cannot {doing}: {why}")),
        EventError::Other(why) => Error::other(format!("cannot {doing}: {why}")),
    }
}
