//! The functions that a plugin can export, and how their results are read.

use std::sync::Arc;

use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, Instance, Lift, Lower, TypedFunc};
use windlass_model::{Body, Failure, Outcome, Payload};

use crate::bindings::{consumer, node, old};
use crate::call::Disposition;
use crate::convert::Reader;
use crate::guest::Guest;
use crate::plugin::Exports;
use crate::secrets::Secrets;

/// A function that a plugin can export, represented by its argument.
pub(crate) trait Question: Clone + Send + Sync + Sized + 'static {
    /// The argument in the newest version of the contract.
    type New: Lower + From<Self> + Send + Sync + 'static;
    /// The argument in version 0.1.
    type Old: Lower + From<Self> + Send + Sync + 'static;
    type Answer: Lift + From<Self::OldAnswer> + Send + Sync + 'static;
    type OldAnswer: Lift + Send + Sync + 'static;
    type Error: Lift + From<Self::OldError> + Send + Sync + 'static;
    type OldError: Lift + Send + Sync + 'static;
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
/// The same in version 0.1.
type OldBack<Q> = Result<<Q as Question>::OldAnswer, <Q as Question>::OldError>;

/// A function of an instance, in the version that the component exports.
pub(crate) enum Export<Q: Question> {
    New(TypedFunc<(Q::New,), (Back<Q>,)>),
    Old(TypedFunc<(Q::Old,), (OldBack<Q>,)>),
}

/// Where a component has a function, and its version.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) index: ComponentExportIndex,
    pub(crate) version: Version,
}

/// A version of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    New,
    Old,
}

impl<Q: Question> Export<Q> {
    /// The function of an instance, whose type is checked here.
    pub(crate) fn of(
        entry: &Entry,
        instance: &Instance,
        store: &mut Store<Guest>,
    ) -> wasmtime::Result<Self> {
        Ok(match entry.version {
            Version::New => Self::New(instance.get_typed_func(store, entry.index)?),
            Version::Old => Self::Old(instance.get_typed_func(store, entry.index)?),
        })
    }

    pub(crate) fn call(&self, store: &mut Store<Guest>, question: Q) -> wasmtime::Result<Back<Q>> {
        match self {
            Self::New(function) => Ok(function.call(store, (question.into(),))?.0),
            Self::Old(function) => Ok(newest::<Q>(function.call(store, (question.into(),))?.0)),
        }
    }

    pub(crate) async fn call_async(
        &self,
        store: &mut Store<Guest>,
        question: Q,
    ) -> wasmtime::Result<Back<Q>> {
        match self {
            Self::New(function) => Ok(function.call_async(store, (question.into(),)).await?.0),
            Self::Old(function) => {
                let (back,) = function.call_async(store, (question.into(),)).await?;
                Ok(newest::<Q>(back))
            }
        }
    }
}

fn newest<Q: Question>(back: OldBack<Q>) -> Back<Q> {
    back.map(Into::into).map_err(Into::into)
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

fn inline_bytes(payload: &Payload) -> usize {
    match &payload.body {
        Body::Inline(bytes) => bytes.len(),
        Body::Blob(_) => 0,
    }
}

impl Question for Execute {
    type New = node::NodeRequest;
    type Old = old::NodeRequest;
    type Answer = node::Outcome;
    type OldAnswer = old::Outcome;
    type Error = node::NodeError;
    type OldError = old::NodeError;
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
    type New = consumer::Trigger;
    type Old = old::Trigger;
    type Answer = consumer::Disposition;
    type OldAnswer = old::Disposition;
    type Error = consumer::ConsumerError;
    type OldError = old::ConsumerError;
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
