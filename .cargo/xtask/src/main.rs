//! Repository automation, run as `cargo xtask …`.
#![expect(clippy::print_stderr, reason = "it is a command for people")]

mod component;
mod debian;
mod guests;
mod place;
mod toolchain;

use anyhow::Result;
use clap::Parser;

/// Repository automation.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Compile guests into components: everything under plugins/, or one crate.
    Guests(guests::Args),
}

fn main() -> Result<()> {
    match Command::parse() {
        Command::Guests(args) => guests::run(&args),
    }
}
