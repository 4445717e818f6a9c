//! `windlass`: runs workflows whose nodes are WebAssembly components.
//!
//! Each command is a file in `commands`; shared parts are beside it. A script sees an error as an
//! exit code (`exit`), and a person sees it as a text with a remedy (`report`).

mod app;
mod client;
mod codes;
mod commands;
mod completion;
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
mod reload;
mod report;
mod request;
mod signals;
mod source;
mod supervisor;
mod telemetry;
mod token_file;
mod traces;
mod waits;
mod web;
mod wire;

use std::process::ExitCode;

use windlass_allocator as _;
use windlass_plugins::compiler;

fn main() -> ExitCode {
    // The host starts its own program to compile a plugin. That process reads no configuration.
    match compiler::compile_worker(std::env::args_os()) {
        Some(ended) => ended,
        None => app::main().into(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_allocator_of_the_program_has_its_options() {
        assert_eq!(windlass_allocator::keeps_pages_ms(), Some(1000));
    }
}
