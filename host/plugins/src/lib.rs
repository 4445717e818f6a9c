//! Executes nodes and decides about triggers: WebAssembly components, hosted in wasmtime. The only
//! crate that names wasmtime.
//!
//! A [`Host`] owns the engine and the shared state of all plugins. It loads bytes into a
//! [`Plugin`], keeps the loaded ones in a [`Registry`], and loads the plugins of [`Folders`]. A
//! plugin is called through [`Plugin::execute`] and [`Plugin::accept`], or, if its [`CallMode`]
//! allows it, by the plain functions of the same names with `_inline`.
//!
//! The effects that a guest requests do not happen here. They are part of [`Returned`], and the
//! caller commits them or drops them.

mod bindings;
mod budget;
mod bundle;
pub mod call;
mod check;
mod classify;
pub mod codes;
pub mod compiler;
mod consumers;
mod convert;
pub mod description;
mod engine;
mod error;
mod folders;
mod guest;
mod host;
mod http;
mod imports;
mod lane;
mod limiter;
mod load;
mod log;
pub mod options;
mod places;
mod plugin;
mod proof;
mod quarantine;
mod question;
mod registry;
mod run;
mod secrets;
mod slot;

pub use budget::{Hold, machine_memory};
pub use bundle::Bundle;
pub use call::{
    Accept, BlobError, Blobs, Call, CallContext, Cancel, Disposition, Effects, Memory, MemoryError,
    Reason, ResumeTokens, Resumption, Returned, ScheduledTrigger, SentStimulus,
};
pub use check::{Configured, Finding};
pub use description::{Consumer, Description, NodeType, Resources};
pub use error::Error;
pub use folders::{Folders, LoadEvent};
pub use host::{Host, PoolUse};
pub use http::grant::Refusal;
pub use http::proxy::{Proxies, is_this_machine};
pub use http::roots::{certificate_refused, client_with_roots};
pub use lane::CallMode;
pub use options::{
    CompileReport, Compiling, Grant, Grants, HttpPolicy, Isolation, Limits, Options, PoolSize,
    Roots, Secret, Secrets, Settings, Source,
};
pub use plugin::{Plugin, Purity};
pub use proof::{Proof, Proofs, Signed, Standing};
#[cfg(feature = "doubles")]
pub use quarantine::Quarantine;
pub use registry::{Missing, Registry};
pub use secrets::{bind as bind_secrets, handles as secret_handles};
