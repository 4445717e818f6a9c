//! Who does the work: WebAssembly components, hosted in wasmtime. The only crate that names it.
//!
//! A [`Host`] owns the engine and what all plugins share. It loads bytes into a [`Plugin`],
//! keeps the loaded ones in a [`Registry`], and takes in what [`Folders`] hold. A plugin is
//! called through [`Plugin::execute`] and [`Plugin::accept`], or, where its [`CallMode`] allows
//! it, by the plain functions of the same names with `_inline`.
//!
//! Guests return, the host writes: nothing that a guest asks for takes effect here. It comes
//! back in [`Returned`], and the caller commits it or throws it away.

mod bindings;
mod budget;
pub mod call;
mod classify;
pub mod codes;
mod consumers;
mod convert;
pub mod description;
mod engine;
mod error;
mod folders;
mod gate;
mod guest;
mod host;
mod http;
mod imports;
mod lane;
mod limiter;
mod load;
mod log;
pub mod options;
mod plugin;
mod proof;
mod quarantine;
mod question;
mod registry;
mod run;
mod secrets;
mod slot;

pub use budget::{Hold, machine_memory};
pub use call::{
    Accept, BlobError, Blobs, Call, CallContext, Cancel, Disposition, Effects, Memory, MemoryError,
    Reason, ResumeTokens, Resumption, Returned, ScheduledTrigger, SentStimulus,
};
pub use description::{Consumer, Description, NodeType, Resources};
pub use error::Error;
pub use folders::{Folders, LoadEvent};
pub use host::{Host, PoolUse};
pub use lane::CallMode;
pub use options::{
    Grant, Grants, HttpPolicy, Isolation, Limits, Options, PoolSize, Secret, Secrets, Settings,
    Source,
};
pub use plugin::{Plugin, Purity};
pub use proof::{Proof, Proofs, Signed, Standing};
#[cfg(feature = "doubles")]
pub use quarantine::Quarantine;
pub use registry::{Missing, Registry};
pub use secrets::bind as bind_secrets;
