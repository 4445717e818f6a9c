//! Node executors: the trait that an author implements, and the conversion from
//! the contract's bytes and back.

use crate::bindings::node::exports::windlass::node::node as wit;
use crate::bindings::node::windlass::types::types::Payload;
use crate::bookmark::{Bookmark, Suspension, state, whole_ms};
use crate::context::Context;
use crate::data::{Incoming, Outgoing, json_payload};
use crate::describe::{Plugin, Resources};
use crate::error::{Error, Result};
use crate::host::log_panics;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// One node type.
///
/// Only the types, the name and [`Node::run`] are required; the other constants
/// are the description that people and the host read before it runs.
pub trait Node {
    /// The node's `with`: a type with `Deserialize` and `JsonSchema`,
    /// [`crate::Nothing`], [`Value`] or [`crate::Raw`].
    type Config: Incoming;
    /// The node's input: as above, or [`crate::Ignored`].
    type Input: Incoming;
    /// The node's output: a type with `Serialize` and `JsonSchema`, [`Value`]
    /// or [`crate::Raw`].
    type Output: Outgoing;

    /// Second half of the node type, `[a-z][a-z0-9-]*`.
    const NAME: &'static str;
    /// Its title, for people; empty means the name.
    const TITLE: &'static str = "";
    /// Its description, for people.
    const DESCRIPTION: &'static str = "";
    /// Name of an icon.
    const ICON: &'static str = "";
    /// Every port that [`Outcome::port`] may name. If `done` is none of them, the node decides: each
    /// outcome names a port, and each edge in a workflow names one, or `*` for all of them.
    const PORTS: &'static [&'static str] = &["done"];
    /// The capabilities that the operator has to grant: `http`, `secrets`,
    /// `events`.
    const CAPABILITIES: &'static [&'static str] = &[];
    /// Whether the node may suspend or ask to be called again.
    const SUSPENDS: bool = false;
    /// Whether a large input may be given as a reference to a blob. Only an
    /// input of type [`crate::Raw`] can take one, and [`crate::Ignored`] always does.
    const BY_REFERENCE: bool = <Self::Input as Incoming>::BY_REFERENCE;
    /// Hints about its needs.
    const RESOURCES: Resources = Resources::NONE;

    /// Runs the node once.
    fn run(config: Self::Config, input: Self::Input, cx: &Context)
    -> Result<Outcome<Self::Output>>;
}

/// The outcome of a node that did not fail. An output converts into the outcome
/// "done" by `into()`.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome<T> {
    /// The node is finished.
    Done {
        /// The output that later nodes read as `nodes.<id>.output`.
        output: T,
        /// The ports taken; none means `done`.
        ports: Vec<String>,
    },
    /// The node waits.
    Suspend(Suspension),
    /// The node asks to be called again, for example to poll.
    Again {
        /// The delay from now.
        after: Duration,
        /// Returned as [`crate::Resumption::state`].
        state: Option<Value>,
    },
}

impl<T> Outcome<T> {
    /// Finished, with this output.
    pub fn done(output: T) -> Self {
        Self::Done {
            output,
            ports: Vec::new(),
        }
    }

    /// Waits until one of the bookmarks is resumed or expires.
    pub fn suspend(bookmarks: impl IntoIterator<Item = Bookmark>) -> Self {
        Self::Suspend(Suspension {
            bookmarks: bookmarks.into_iter().collect(),
            state: None,
        })
    }

    /// Asks to be called again after this delay.
    pub fn again(after: Duration) -> Self {
        Self::Again { after, state: None }
    }

    /// Takes this port, besides others already taken; no effect unless done.
    #[must_use]
    pub fn port(mut self, port: impl Into<String>) -> Self {
        if let Self::Done { ports, .. } = &mut self {
            ports.push(port.into());
        }
        self
    }

    /// Stores this state for the next call; no effect if done.
    pub fn state(mut self, value: impl Serialize) -> Result<Self> {
        match &mut self {
            Self::Done { .. } => {}
            Self::Suspend(Suspension { state: left, .. }) | Self::Again { state: left, .. } => {
                *left = state(value)?;
            }
        }
        Ok(self)
    }
}

impl<T> From<T> for Outcome<T> {
    fn from(output: T) -> Self {
        Self::done(output)
    }
}

impl<T: Outgoing> Outcome<T> {
    fn into_wit(self) -> Result<wit::Outcome> {
        let encode = |state: Option<Value>| state.as_ref().map(json_payload).transpose();
        Ok(match self {
            Self::Done { output, ports } => wit::Outcome::Done(wit::Done {
                output: output.encode()?,
                ports,
            }),
            Self::Suspend(suspension) => wit::Outcome::Suspend(wit::Suspension {
                bookmarks: suspension
                    .bookmarks
                    .into_iter()
                    .map(Bookmark::into_wit)
                    .collect::<Result<_>>()?,
                state: encode(suspension.state)?,
            }),
            Self::Again { after, state } => wit::Outcome::Again(wit::Again {
                after: whole_ms(after),
                state: encode(state)?,
            }),
        })
    }
}

impl From<Error> for wit::NodeError {
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid(failure) => Self::Invalid(failure.into()),
            Error::Retryable { failure, after } => Self::Retryable(wit::Retryable {
                failure: failure.into(),
                after: after.map(whole_ms),
            }),
            Error::Permanent(failure) => Self::Permanent(failure.into()),
            Error::Cancelled => Self::Cancelled,
            Error::Other(failure) => Self::Other(failure.into()),
        }
    }
}

/// A node type without its Rust types, as the macro lists it.
pub struct NodeEntry {
    /// Its name in the description, with `_` instead of `-`.
    pub name: &'static str,
    /// Its part of the description.
    pub describe: fn() -> Value,
    /// Runs it.
    pub run: fn(wit::NodeRequest) -> Result<wit::Outcome>,
}

impl NodeEntry {
    /// The entry of a node type.
    pub const fn of<N: Node>() -> Self {
        Self {
            name: N::NAME,
            describe: crate::describe::describe_node::<N>,
            run: run::<N>,
        }
    }
}

/// Whether a node type has this name, with `_` instead of `-`.
pub(crate) fn is_named(entry: &str, name: &str) -> bool {
    let hyphen = |byte| if byte == b'_' { b'-' } else { byte };
    entry.bytes().map(hyphen).eq(name.bytes())
}

pub(crate) fn run<N: Node>(request: wit::NodeRequest) -> Result<wit::Outcome> {
    let config = N::Config::decode(request.config)
        .map_err(|why| Error::invalid(format!("the configuration does not fit: {why}")))?;
    N::run(config, input(request.input)?, &Context::new())?.into_wit()
}

fn input<I: Incoming>(payload: Payload) -> Result<I> {
    I::decode(payload).map_err(|why| Error::invalid(format!("the input does not fit: {why}")))
}

/// The description of a node that is a function of its input, for the macro.
pub fn describe_function<I: Incoming, O: Outgoing>(name: &str, _: fn(I) -> Result<O>) -> Value {
    crate::describe::describe_function::<I, O>(name)
}

/// Runs such a node.
pub fn run_function<I: Incoming, O: Outgoing>(
    function: fn(I) -> Result<O>,
    request: wit::NodeRequest,
) -> Result<wit::Outcome> {
    Outcome::done(function(input(request.input)?)?).into_wit()
}

/// Runs the requested node of the plugin.
pub fn execute<P: Plugin>(request: wit::NodeRequest) -> Result<wit::Outcome, wit::NodeError> {
    log_panics();
    let wanted = request.node_type.rsplit('/').next().unwrap_or_default();
    let entry = P::NODES
        .iter()
        .find(|entry| is_named(entry.name, wanted))
        .ok_or_else(|| {
            Error::invalid(format!("this component has no node {}", request.node_type))
        })?;
    Ok((entry.run)(request)?)
}
