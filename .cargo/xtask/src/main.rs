//! Repository automation, run as `cargo xtask …`.
#![expect(clippy::print_stderr, reason = "it is a command for people")]

mod api;
mod bench;
mod bless;
mod clients;
mod component;
mod debian;
mod demo;
mod dist;
mod fuzz;
mod guests;
mod hang;
mod host;
mod place;
mod progress;
mod pypi;
mod servers;
mod simulate;
mod statements;
mod supply;
mod test;
mod tidy;
mod toolchain;
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
    /// Build everything and run every test.
    Test(test::Args),
    /// Let generated clients send requests to the HTTP API of a running host.
    Api,
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
}

fn main() -> Result<()> {
    match Command::parse() {
        Command::Guests(args) => guests::run(&args),
        Command::Build => host::build(),
        Command::Dist(args) => dist::run(&args),
        Command::Demo => demo::run(),
        Command::Test(args) => test::run(&args),
        Command::Api => api::run(),
        Command::Simulate(args) => simulate::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Deny => supply::deny(),
        Command::Advisories => supply::advisories(),
        Command::Tidy => tidy::run(),
        Command::Bless => bless::run(),
    }
}
