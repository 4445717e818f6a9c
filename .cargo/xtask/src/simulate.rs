//! `cargo xtask simulate`: runs the simulation with more seeds than the tests.

use crate::{host, place};
use anyhow::Result;

/// Try seeds of the simulation, or one of them again.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many seeds to try.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print every write of every simulated store.
    #[arg(long)]
    trace: bool,
}

/// Runs the simulation in the tests of the runtime.
pub(crate) fn run(args: &Args) -> Result<()> {
    host::say("simulating");
    let mut command = place::cargo_with_library()?;
    command
        // With the same features as all other tests, so that nothing is compiled again.
        .args(["test", "--workspace", "--all-features", "--lib"])
        .args(["sim::tests::every_run_ends_once", "--", "--nocapture"])
        .env("WINDLASS_SEED", args.seed.to_string())
        .env("WINDLASS_SEEDS", args.seeds.to_string())
        .current_dir(place::root()?);
    if args.trace {
        command.env("WINDLASS_TRACE", "1");
    }
    place::run(&mut command)
}
