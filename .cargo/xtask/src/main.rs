//! Repository automation, run as `cargo xtask …`.
#![expect(clippy::print_stderr, reason = "it is a command for people")]

mod api;
mod bench;
mod beside;
mod bless;
mod c;
mod check;
mod clients;
mod component;
mod console;
mod debian;
mod demo;
mod dist;
mod foreign;
mod frozen;
mod fuzz;
mod go;
mod guests;
mod host;
mod javascript;
mod nextest;
mod node;
mod place;
mod progress;
mod pypi;
mod python;
mod rooms;
mod selection;
mod servers;
mod simulate;
mod statements;
mod supply;
mod test;
mod tidy;
mod times;
mod toolchain;
mod vendored;
mod words;

use anyhow::Result;
use clap::Parser;

/// Repository automation.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Compile guests into components: everything under plugins/, or one crate.
    Guests(guests::Args),
    /// Build the guests, and the host with their digests, in the release profile.
    Build,
    /// Make the archive, the Debian package, the SBOM and their checksums.
    Dist(dist::Args),
    /// Build everything and run the example to the summary of a triage.
    Demo,
    Test(test::Args),
    /// Check what differs from `main`: format, lints, documents, and the rules of tidy.
    Check,
    /// Install the clients of the HTTP API and the programs that generate such clients, and build
    /// the plugins in JavaScript, Python, C and Go.
    Prepare,
    /// Run the guests' own tests, as ordinary programs.
    Native,
    Api(api::Args),
    /// Run simulated processes on a simulated store, from seeds.
    Simulate(simulate::Args),
    /// Let libFuzzer search for an input that harms a parser of untrusted data.
    Fuzz(fuzz::Args),
    /// Measure the whole path and print a table.
    Bench(bench::Args),
    /// Check the licences, bans and sources of all dependencies.
    Deny,
    /// Report the known advisories about locked dependencies, and the age of the list.
    Advisories,
    /// Check the rules of this repository that no compiler checks.
    Tidy,
    /// Write golden and generated files anew.
    Bless,
    /// Print how long the steps of `.ci/run` and the slowest tests took.
    Summary,
}

fn main() -> Result<()> {
    if let Some(status) = toolchain::wrapped()? {
        std::process::exit(status);
    }
    let command = Command::parse();
    match std::env::var(times::STEP) {
        Ok(name) => times::step(&name, || run(command)),
        Err(_) => run(command),
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Guests(args) => guests::run(&args),
        Command::Build => host::build(),
        Command::Dist(args) => dist::run(&args),
        Command::Demo => demo::run(),
        Command::Test(args) => test::run(&args),
        Command::Check => check::run(),
        Command::Prepare => test::prepare(),
        Command::Native => test::natively(),
        Command::Api(args) => api::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Deny => supply::deny(),
        Command::Advisories => supply::advisories(),
        Command::Tidy => tidy::run(),
        Command::Bless => bless::run(),
        Command::Summary => times::summary(),
    }
}
