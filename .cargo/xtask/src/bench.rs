//! `cargo xtask bench`: measures, and prints a table.

use crate::{guests, host, place};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::process::Command;

/// Measure the whole path, in the release profile.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also write the results to this file, as a list of records.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Only scenarios whose names contain this, like `three-steps/256/full/warm`.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,

    /// Also measure on PostgreSQL, on a server that is started for it.
    #[arg(long)]
    postgres: bool,

    /// Only run a steady load of 100 runs per second for this long, to find memory or disk use that
    /// grows.
    #[arg(long, value_name = "MINUTES", conflicts_with_all = ["filter", "json", "postgres"])]
    minutes: Option<f64>,

    /// How long to measure each scenario.
    #[arg(long, value_name = "SECONDS", default_value = "3")]
    seconds: f64,
}

/// Builds the programs, and measures them.
pub(crate) fn run(args: &Args) -> Result<()> {
    guests::run(&guests::Args::everything())?;
    let programs = host::release()?;
    let target = place::target()?;
    let dir = target.join("bench");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let mut command = Command::new(programs.join("windlass-bench"));
    command
        .arg("--components")
        .arg(target.join("plugins"))
        .arg("--binary")
        .arg(programs.join("windlass"))
        .arg("--hello")
        .arg(place::root()?.join("examples/hello/hello.yaml"))
        .arg("--dir")
        .arg(dir)
        .args(["--seconds", &args.seconds.to_string()]);
    if let Some(filter) = &args.filter {
        command.args(["--filter", filter]);
    }
    if let Some(minutes) = args.minutes {
        command.args(["--minutes", &minutes.to_string()]);
    }
    if args.postgres {
        command.arg("--postgres");
    }
    if let Some(json) = &args.json {
        command.arg("--json").arg(std::path::absolute(json)?);
    }
    place::run(&mut command)
}
