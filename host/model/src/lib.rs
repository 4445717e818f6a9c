//! The data model: ids, triggers, workflow definitions, runs, payloads and failures.
//!
//! This crate uses no clock, no file, no thread and no network. All types are plain data with
//! public fields, unless a type has an invariant.

pub mod clock;
pub mod code;
pub mod codes;
pub mod decimal;
pub mod definition;
pub mod diagnostic;
pub mod execution;
pub mod failpoint;
pub mod failure;
pub mod file;
pub mod http;
pub mod ids;
mod json_text;
pub mod limits;
pub mod mac;
pub mod metrics;
pub mod nearest;
pub mod outcome;
pub mod payload;
pub mod resumption;
pub mod run;
pub mod schedule;
pub mod schema;
pub mod secrets;
pub mod span;
mod start_trigger;
pub mod stimulus;
pub mod template;
pub mod trace;
pub mod trigger;
pub mod valid;
pub mod visible;
pub mod weight;

pub use clock::Clock;
pub use code::Code;
pub use definition::Definition;
pub use diagnostic::{Diagnostic, Place, position};
pub use execution::{ExecutionStatus, LogLine, ShortBytes};
pub use failure::{Class, Failure, Origin, Position};
/// The name of a [`RunId`] in `host/plugins`.
pub use ids::{
    BatchNo, BindingNo, BookmarkNo, Digest, Epoch, ExecutionNo, Incarnation, LetterNo, Numbers,
    RunId, RunNo, ScheduleNo, ScopeNo, Seq, StimulusId, StimulusNo, Token, TriggerId, TriggerNo,
    UpkeepNo, Version,
};
pub use json_text::JsonText;
pub use outcome::{Again, Bookmark, Done, Outcome, Suspension};
pub use payload::{BlobRef, Body, Payload};
pub use resumption::Resumption;
pub use run::{Status, Tags};
pub use stimulus::{Delivery, Stimulus};
pub use trace::TraceContext;
pub use trigger::{TriggerState, TriggerType};
