//! The functions that a plugin can export, and how their results are read.

use std::sync::Arc;

use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, Instance, Lift, Lower, TypedFunc};
use windlass_model::{Body, Failure, Outcome, Payload};

use crate::bindings::{consumer, node};
use crate::call::Disposition;
use crate::call::plugin::Exports;
use crate::error::chain;
use crate::grant::secrets::Secrets;
use crate::offer::guest::Guest;
use crate::offer::reader::Reader;

/// A function that a plugin can export, represented by its argument.
pub(crate) trait Question: Clone + Send + Sync + Sized + 'static {
    /// The interface and the name of the function.
    const FUNCTION: (&'static str, &'static str);

    /// The argument of the function.
    type Argument: Lower + From<Self> + Send + Sync + 'static;
    type Answer: Lift + Send + Sync + 'static;
    type Error: Lift + Send + Sync + 'static;
    type Output: Send + 'static;

    /// The export, if the plugin has it.
    fn export(exports: &Exports) -> Option<&Export<Self>>;

    /// Converts the guest's result.
    fn read(answer: Self::Answer, reader: &Reader<'_>) -> Result<Self::Output, Failure>;

    /// Converts the guest's error.
    fn failure(error: Self::Error, reader: &Reader<'_>) -> Failure;

    /// Removes secrets from the result.
    fn clean(output: &mut Self::Output, secrets: &Secrets);

    /// The size of the argument, in bytes.
    fn bytes(&self) -> usize;

    /// The size of the result, in bytes.
    fn answer_bytes(output: &Self::Output) -> usize;
}

/// The answer or the error of a guest.
pub(crate) type Back<Q> = Result<<Q as Question>::Answer, <Q as Question>::Error>;

/// A function of an instance.
pub(crate) struct Export<Q: Question>(TypedFunc<(Q::Argument,), (Back<Q>,)>);

impl<Q: Question> Export<Q> {
    /// The function of an instance, whose type is checked here.
    pub(crate) fn of(
        index: &ComponentExportIndex,
        instance: &Instance,
        store: &mut Store<Guest>,
    ) -> wasmtime::Result<Self> {
        let function = instance.get_typed_func(store, index);
        let wrong = |error| WrongType::of(Q::FUNCTION, &error);
        Ok(Self(function.map_err(wrong)?))
    }

    pub(crate) fn call(&self, store: &mut Store<Guest>, question: Q) -> wasmtime::Result<Back<Q>> {
        Ok(self.0.call(store, (question.into(),))?.0)
    }

    pub(crate) async fn call_async(
        &self,
        store: &mut Store<Guest>,
        question: Q,
    ) -> wasmtime::Result<Back<Q>> {
        Ok(self.0.call_async(store, (question.into(),)).await?.0)
    }
}

/// A function that a plugin exports has another type than in the contract.
#[derive(Debug, thiserror::Error)]
#[error("its function `{name}` has another type than in `{interface}`: {difference}")]
pub(crate) struct WrongType {
    interface: &'static str,
    name: &'static str,
    difference: String,
}

impl WrongType {
    pub(crate) fn of(
        (interface, name): (&'static str, &'static str),
        error: &wasmtime::Error,
    ) -> Self {
        Self {
            interface,
            name,
            difference: chain(error),
        }
    }
}

/// One execution of one node.
#[derive(Clone, Debug)]
pub(crate) struct Execute {
    pub(crate) node_type: Arc<str>,
    pub(crate) config: Payload,
    pub(crate) input: Payload,
}

/// One decision about one trigger.
#[derive(Clone, Debug)]
pub(crate) struct Decide {
    pub(crate) kind: &'static str,
    pub(crate) node: Option<Arc<str>>,
    pub(crate) payload: Option<Payload>,
}

impl From<Execute> for node::NodeRequest {
    fn from(request: Execute) -> Self {
        Self {
            node_type: request.node_type,
            config: request.config.into(),
            input: request.input.into(),
        }
    }
}

impl From<Decide> for consumer::Trigger {
    fn from(trigger: Decide) -> Self {
        Self {
            kind: trigger.kind,
            node: trigger.node,
            payload: trigger.payload.map(Into::into),
        }
    }
}

fn inline_bytes(payload: &Payload) -> usize {
    match &payload.body {
        Body::Inline(bytes) => bytes.len(),
        Body::Blob(_) => 0,
    }
}

impl Question for Execute {
    const FUNCTION: (&'static str, &'static str) = (node::INTERFACE, "execute");

    type Argument = node::NodeRequest;
    type Answer = node::Outcome;
    type Error = node::NodeError;
    type Output = Outcome;

    fn export(exports: &Exports) -> Option<&Export<Self>> {
        exports.execute.as_ref()
    }

    fn read(answer: node::Outcome, reader: &Reader<'_>) -> Result<Outcome, Failure> {
        reader.outcome(answer)
    }

    fn failure(error: node::NodeError, reader: &Reader<'_>) -> Failure {
        reader.node_error(error)
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

    fn bytes(&self) -> usize {
        inline_bytes(&self.config) + inline_bytes(&self.input)
    }

    fn answer_bytes(output: &Outcome) -> usize {
        let state = |state: &Option<Payload>| state.as_ref().map_or(0, inline_bytes);
        match output {
            Outcome::Done(done) => inline_bytes(&done.output),
            Outcome::Again(again) => state(&again.state),
            Outcome::Suspend(suspension) => state(&suspension.state),
        }
    }
}

impl Question for Decide {
    const FUNCTION: (&'static str, &'static str) = (consumer::INTERFACE, "accept");

    type Argument = consumer::Trigger;
    type Answer = consumer::Disposition;
    type Error = consumer::ConsumerError;
    type Output = Disposition;

    fn export(exports: &Exports) -> Option<&Export<Self>> {
        exports.accept.as_ref()
    }

    fn read(answer: consumer::Disposition, reader: &Reader<'_>) -> Result<Disposition, Failure> {
        reader.disposition(answer)
    }

    fn failure(error: consumer::ConsumerError, reader: &Reader<'_>) -> Failure {
        reader.consumer_error(error)
    }

    fn clean(output: &mut Disposition, secrets: &Secrets) {
        // The failure of a rejection was cleaned before it was cut.
        if let Disposition::Execute { vars: Some(vars) } = output {
            secrets.clean_payload(vars);
        }
    }

    fn bytes(&self) -> usize {
        self.payload.as_ref().map_or(0, inline_bytes)
    }

    fn answer_bytes(output: &Disposition) -> usize {
        match output {
            Disposition::Execute { vars: Some(vars) } => inline_bytes(vars),
            _ => 0,
        }
    }
}
