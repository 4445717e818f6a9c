//! The foundation of the end-to-end tests: the real program in a separate directory, processes that
//! can be killed and do not outlive their test, and access to the store that they leave.
//!
//! Nothing here sleeps to let an event happen. A test names the condition for which it waits
//! ([`until`]), and a wait that does not end within [`PATIENCE`] fails with that name and with the
//! output of every process of the test. No test measures durations, except that `waiting_clients` bounds
//! the time until a client has its answer.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "it is part of tests, which fail by panicking"
)]

mod dice;
mod gate;
mod listener;
mod look;
mod model;
mod place;
mod process;
mod programs;
mod shell;
mod starter;
mod wait;
mod web;

pub use dice::Dice;
pub use gate::Gate;
pub use listener::{Answered, Listener, Received, response};
pub use look::{Look, Record};
pub use model::{Ended, GO, Plan};
pub use place::{Place, Said};
pub use process::{Process, Signal};
pub use programs::{
    Browser, browser, c, clang, component, core_module, failpoint_program, foreign, go,
    go_variables, javascript, javascript_sdk, program, python, zig,
};
pub use shell::{Shell, typed};
pub use starter::Starter;
pub use wait::{PATIENCE, until, until_some, until_within};
pub use web::{Answer, Line, Web, request};
