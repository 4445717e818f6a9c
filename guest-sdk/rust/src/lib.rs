//! Writes nodes and trigger consumers for the Windlass workflow host.
//!
//! A node that only computes is a function; [`plugin!`] makes a component of
//! it:
//!
//! ```
//! use windlass::prelude::*;
//!
//! #[derive(Deserialize, Serialize, JsonSchema)]
//! struct Text {
//!     text: String,
//! }
//!
//! fn shout(mut input: Text) -> Result<Text> {
//!     input.text = input.text.to_uppercase();
//!     Ok(input)
//! }
//!
//! windlass::plugin! { package: "text-tools", functions: [shout] }
//! # fn main() {}
//! ```
//!
//! A node with a configuration, with ports, or with calls of the host is a type
//! that implements [`Node`].
//!
//! [`Context`] has the functions of the host. An import that no node uses does
//! not appear in the component, so a node that only computes is provably pure.
//!
//! Memory may or may not survive between two calls: a node may keep a cache in
//! a `thread_local`, but must not rely on it.

pub mod blobs;
mod bookmark;
mod check;
mod consumer;
mod context;
mod data;
mod describe;
mod duration;
mod error;
mod host;
pub mod http;
mod macros;
mod node;
#[cfg(not(target_arch = "wasm32"))]
pub mod testkit;

#[doc(hidden)]
pub mod bindings;

pub use bindings::node::windlass::{
    events::events::{EventError, Scheduled, Stimulus},
    log::log::Level,
    types::types::{Body, Payload},
};
pub use bookmark::{Bookmark, Reason, Resumption, Suspension};
pub use check::{Check, Configuration, Finding};
pub use consumer::{Consumer, Disposition, Trigger};
pub use context::Context;
pub use data::{Ignored, Incoming, Nothing, Outgoing, Raw};
pub use describe::Resources;
pub use duration::{NoDuration, parse_duration};
pub use error::{Error, Failure, Position, Result};
pub use node::{Node, Outcome};
pub use {schemars, serde, serde_json};

/// The names that the file of a plugin usually needs.
pub mod prelude {
    pub use crate::{
        Bookmark, Check, Configuration, Consumer, Context, Disposition, Error, Finding, Ignored,
        Node, Nothing, Outcome, Raw, Reason, Result, Trigger,
    };
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
    pub use serde_json::{Value, json};
    pub use std::time::Duration;
}

/// The functions that the macros use; not part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::check::{CheckEntry, check};
    pub use crate::consumer::accept;
    pub use crate::describe::{ConsumerInfo, Plugin, describe};
    pub use crate::host::log;
    pub use crate::node::{NodeEntry, describe_function, execute, run_function};
}
