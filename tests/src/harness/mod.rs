//! What the end-to-end tests stand on: the real program in a directory of its own, processes
//! that can be killed and do not outlive their test, and a look into the store they leave.
//!
//! Nothing here sleeps to let something happen. A test names the condition that it waits for
//! ([`until`]), and a wait that does not end within [`PATIENCE`] fails with that name and with
//! what every process of the test has said. No test measures how long anything takes.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "it is part of tests, which fail by panicking"
)]

mod dice;
mod gate;
mod look;
mod model;
mod place;
mod process;
mod programs;
mod starter;
mod wait;
mod web;

pub use dice::Dice;
pub use gate::Gate;
pub use look::{Look, Record};
pub use model::{Ended, GO, Plan};
pub use place::{Place, Said};
pub use process::{Process, Signal};
pub use programs::{component, core_module, failpoint_program, program};
pub use starter::Starter;
pub use wait::{PATIENCE, until, until_some};
pub use web::{Answer, Line, Web, request};
