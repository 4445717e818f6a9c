//! `windlass`: runs workflows whose nodes are WebAssembly components.
//!
//! Each command is a file in `commands`; shared parts are beside it. A script sees an error as an
//! exit code (`exit`), and a person sees it as a text with a remedy (`report`).

mod api;
mod app;
mod codes;
mod commands;
mod config;
mod crash;
mod ended;
mod error;
mod exit;
mod explain;
mod failure;
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
mod supervisor;
mod telemetry;
mod token_file;
mod waits;
mod web;
mod wire;

use std::process::ExitCode;

/// Executions allocate and free many small values on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    app::main().into()
}
