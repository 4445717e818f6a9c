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
//!
//! # Rooms
//!
//! A file uses its own room and those below it, and `cargo xtask tidy` checks this. From the top:
//!
//! | room | has |
//! |---|---|
//! | the top: [`Host`], [`Options`], [`Registry`], [`Folders`] | the parts together, and the plugins for new work |
//! | `load` | bytes become a [`Plugin`]: shape, compiled code, cache, description |
//! | `call` | a [`Plugin`] and its calls: warm instances, the call itself, its answer |
//! | `offer` | the functions that guests import, and the data that they work on |
//! | `grant` | permissions and limits, the proofs that they apply, secrets |
//! | `hold` | places and memory of all calls, and their bounds |
//! | the ground: `bindings`, `clean`, [`codes`], `description`, `error` | the contract, and words for errors |

// The ground.
mod bindings;
mod clean;
pub mod codes;
mod description;
mod error;
// The rooms.
mod call;
mod grant;
mod hold;
mod load;
mod offer;
// The top.
mod consumers;
#[cfg(feature = "doubles")]
mod double;
mod folders;
mod host;
mod options;
mod queue;
mod registry;

pub use call::check::{Configured, Finding};
pub use call::plugin::{Plugin, Purity};
pub use call::run::is_crowded;
pub use call::{Accept, Call, Disposition, Queued, Returned};
pub use description::{Consumer, Description, NodeType, Resources};
pub use error::Error;
pub use folders::{Folders, LoadEvent};
pub use grant::destination::{Grant, Refusal};
pub use grant::proof::{Proof, Proofs, Signed, Standing};
pub use grant::secrets::{Secret, Secrets, Source};
pub use grant::secrets::{bind as bind_secrets, handles as secret_handles};
pub use grant::settings::{Grants, Isolation, Limits, Settings};
pub use hold::PoolSize;
pub use hold::budget::{Hold, machine_memory};
pub use hold::lane::CallMode;
#[cfg(feature = "doubles")]
pub use hold::quarantine::{Crash, Quarantine};
pub use host::{CompilingBehind, FileFailure, Host, LIBRARY, PoolUse, TooHigh};
pub use load::bundle::Bundle;
pub use load::compiler;
pub use load::component;
pub use load::report::{CompileReport, Compiling};
pub use offer::context::{
    BlobError, Blobs, CallContext, Cancel, Memory, MemoryError, Reason, ResumeTokens, Resumption,
};
pub use offer::effects::{Effects, ScheduledTrigger, SentStimulus};
pub use offer::http::policy::{HttpPolicy, Roots};
pub use offer::http::proxy::{Proxies, is_this_machine};
pub use offer::http::roots::{certificate_refused, client_with_roots};
pub use options::Options;
pub use queue::Awaited;
pub use registry::{Missing, Registry};
