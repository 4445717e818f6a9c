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
mod environment;
mod error;
mod flaws;
mod foreign;
mod grammar;
mod machine;
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
pub use environment::{RESULT_BYTES, TOKENS};
pub use error::{ExprError, ExprErrorKind};
pub(crate) use flaws::{Flaw, Known, Operation};
pub use machine::{FUEL, Interrupt, MEMORY, WORK};
pub(crate) use needs::unknown_name;
pub use needs::{Cause, Needs};
pub(crate) use places::place_of;
pub use readings::cause_paths;
pub(crate) use readings::{Findings, Reading, Step, of_condition, of_template};
pub use template::{Alias, Template, known_parts};
pub use values::{InvalidJson, PARSED, Values};
