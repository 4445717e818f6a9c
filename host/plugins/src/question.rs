//! The functions that a plugin can export, and how their results are read.

use wasmtime::component::{Lift, Lower, TypedFunc};
use windlass_model::{Failure, Outcome, Payload};

use crate::bindings::{consumer, node};
use crate::call::Disposition;
use crate::convert::Reader;
use crate::plugin::Exports;
use crate::secrets::Secrets;

/// A function that a plugin can export, represented by its argument.
pub(crate) trait Question: Lower + Clone + Send + Sync + Sized + 'static {
    type Answer: Lift + Send + Sync + 'static;
    type Error: Lift + Into<Failure> + Send + Sync + 'static;
    type Output: Send + 'static;
    /// The export, if the plugin has it.
    fn export(exports: &Exports) -> Option<&Export<Self>>;

    /// Converts the guest's result.
    fn read(answer: Self::Answer, reader: &Reader<'_>) -> Result<Self::Output, Failure>;

    /// Removes secrets from the result.
    fn clean(output: &mut Self::Output, secrets: &Secrets);

    /// Removes secrets from the error.
    fn clean_error(error: &mut Self::Error, secrets: &Secrets);

    /// The size of the argument, in bytes.
    fn bytes(&self) -> usize;

    /// The size of the result, in bytes.
    fn answer_bytes(output: &Self::Output) -> usize;
}

fn inline_bytes(payload: &node::Payload) -> usize {
    match &payload.body {
        node::Body::Inline(bytes) => bytes.len(),
        node::Body::Blob(_) => 0,
    }
}

fn payload_bytes(payload: &Payload) -> usize {
    payload.inline().map_or(0, |bytes| bytes.len())
}

pub(crate) type Back<Q> = (Result<<Q as Question>::Answer, <Q as Question>::Error>,);
pub(crate) type Export<Q> = TypedFunc<(Q,), Back<Q>>;

impl Question for node::NodeRequest {
    type Answer = node::Outcome;
    type Error = node::NodeError;
    type Output = Outcome;

    fn export(exports: &Exports) -> Option<&Export<Self>> {
        exports.execute.as_ref()
    }

    fn read(answer: node::Outcome, reader: &Reader<'_>) -> Result<Outcome, Failure> {
        reader.outcome(answer)
    }

    fn clean(output: &mut Outcome, secrets: &Secrets) {
        let state = match output {
            Outcome::Done(done) => return secrets.clean_payload(&mut done.output),
            Outcome::Again(again) => &mut again.state,
            Outcome::Suspend(suspension) => {
                for bookmark in &mut suspension.bookmarks {
                    secrets.clean_text(&mut bookmark.name);
                    if let Some(correlation) = &mut bookmark.correlation {
                        secrets.clean_text(correlation);
                    }
                    secrets.clean_value(&mut bookmark.matches);
                    secrets.clean_json(&mut bookmark.metadata);
                }
                &mut suspension.state
            }
        };
        if let Some(state) = state {
            secrets.clean_payload(state);
        }
    }

    fn clean_error(error: &mut node::NodeError, secrets: &Secrets) {
        let text = match error {
            node::NodeError::Invalid(text)
            | node::NodeError::Permanent(text)
            | node::NodeError::Other(text) => text,
            node::NodeError::Retryable(hint) => &mut hint.message,
            node::NodeError::Cancelled => return,
        };
        *text = secrets.redact(text);
    }

    fn bytes(&self) -> usize {
        inline_bytes(&self.config) + inline_bytes(&self.input)
    }

    fn answer_bytes(output: &Outcome) -> usize {
        let state = |state: &Option<Payload>| state.as_ref().map_or(0, payload_bytes);
        match output {
            Outcome::Done(done) => payload_bytes(&done.output),
            Outcome::Again(again) => state(&again.state),
            Outcome::Suspend(suspension) => state(&suspension.state),
        }
    }
}

impl Question for consumer::Trigger {
    type Answer = consumer::Disposition;
    type Error = consumer::ConsumerError;
    type Output = Disposition;

    fn export(exports: &Exports) -> Option<&Export<Self>> {
        exports.accept.as_ref()
    }

    fn read(answer: consumer::Disposition, reader: &Reader<'_>) -> Result<Disposition, Failure> {
        reader.disposition(answer)
    }

    fn clean(output: &mut Disposition, secrets: &Secrets) {
        // The reason of a rejection was cleaned before it was cut.
        if let Disposition::Execute { vars: Some(vars) } = output {
            secrets.clean_payload(vars);
        }
    }

    fn clean_error(error: &mut consumer::ConsumerError, secrets: &Secrets) {
        let (consumer::ConsumerError::Retryable(text) | consumer::ConsumerError::Other(text)) =
            error;
        *text = secrets.redact(text);
    }

    fn bytes(&self) -> usize {
        self.payload.as_ref().map_or(0, inline_bytes)
    }

    fn answer_bytes(output: &Disposition) -> usize {
        match output {
            Disposition::Execute { vars: Some(vars) } => payload_bytes(vars),
            _ => 0,
        }
    }
}
