//! `windlass`: runs workflows whose nodes are WebAssembly components.
//!
//! Each command is a file in `commands`; what they share is beside it. An error reaches the
//! caller as an exit code (`exit`), and a person as text that says what to do (`report`).

mod api;
mod app;
mod codes;
mod commands;
mod config;
mod ended;
mod error;
mod exit;
mod explain;
mod graph;
mod input;
mod limiter;
mod metrics;
mod output;
mod private;
mod progress;
#[cfg(test)]
mod reference;
mod report;
mod request;
mod signals;
mod source;
mod telemetry;
mod token_file;
mod waits;
mod web;
mod wire;

use std::process::ExitCode;

/// Steps make and drop many small values, which cross threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    app::main().into()
}
