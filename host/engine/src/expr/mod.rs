//! Expressions: the `{{ … }}` in values, and the conditions on edges.
//!
//! An expression is compiled when its definition is loaded and evaluated often. So compiling finds
//! every mistake that can be found without values (syntax, unknown names, filters and functions),
//! and evaluating does as little as possible: text without an expression is serialised once, a
//! value that is passed on whole is named and never parsed, and a plain path is looked up without
//! the interpreter.
//!
//! Definitions come from users who may publish, and values come from any client. So `machine`
//! evaluates within a budget of steps, work and memory that is charged before it is used.

mod codes;
mod condition;
mod constants;
mod environment;
mod error;
mod flaws;
mod foreign;
mod grammar;
mod known;
mod machine;
mod missing;
mod names;
mod needs;
mod parse;
mod places;
mod read;
mod readings;
mod source;
mod template;
mod values;
mod write;

#[cfg(test)]
mod tests;

pub use codes::*;
pub use condition::Condition;
pub(crate) use constants::Constant;
pub use constants::Constants;
pub use environment::{RESULT_BYTES, TOKENS};
pub use error::{ExprError, ExprErrorKind};
pub(crate) use flaws::{EVERY_RUN, Flaw, Operation};
pub(crate) use known::{Known, Operand};
pub use machine::{Bounds, FUEL, Interrupt, MEMORY, Raised, STEP_BYTES, StepBudget, WORK};
pub(crate) use needs::unknown_name;
pub use needs::{Cause, Needs};
pub(crate) use places::place_of;
pub use readings::cause_paths;
pub(crate) use readings::{Findings, Reading, Step, of_condition, of_template, result};
pub(crate) use source::shorten;
pub use template::{Alias, Template, known_parts};
pub use values::{InvalidJson, PARSED, Values};
