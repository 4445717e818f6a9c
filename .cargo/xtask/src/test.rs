//! `cargo xtask test`: runs every test.

use crate::{api, clients, guests, hang, host, place, servers};
use anyhow::Result;
use std::path::Path;

/// Run every test.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only tests of the host whose names contain this.
    filter: Option<String>,
}

/// Builds the parts that the tests need, and runs the tests.
pub(crate) fn run(args: &Args) -> Result<()> {
    guests::run(&guests::Args::everything())?;
    for example in ["examples/shout", "examples/guard"] {
        let path = place::root()?.join(example);
        guests::run(&guests::Args::one(&path, "fixtures/author")?)?;
    }
    servers::prepare()?;
    let programs = host::tested()?;
    tests(args, &programs)?;
    if args.filter.is_none() {
        api::check(&programs)?;
        clients::check(&programs)?;
        natively()?;
    }
    host::say("all tests passed");
    Ok(())
}

fn tests(args: &Args, programs: &Path) -> Result<()> {
    host::say("testing the host");
    let mut command = place::cargo_with_library()?;
    command
        .args(["test", "--workspace", "--all-features", "--no-fail-fast"])
        .env("WINDLASS_BIN", programs.join("windlass"))
        .env("WINDLASS_FAILPOINT_BIN", programs.join("windlass"))
        .env("WINDLASS_TARGET", place::target()?)
        .current_dir(place::root()?);
    if let Some(filter) = &args.filter {
        command.args(["--", filter]);
    }
    hang::run(&mut command, &programs.join("deps"))
}

/// The guests' own tests, which run as ordinary programs.
fn natively() -> Result<()> {
    host::say("testing the guest SDK and the plugins natively");
    for manifest in [
        "guest-sdk/rust/Cargo.toml",
        "plugins/Cargo.toml",
        "examples/shout/Cargo.toml",
        "examples/guard/Cargo.toml",
    ] {
        let mut command = place::cargo();
        command
            .args(["test", "--workspace", "--manifest-path"])
            .arg(place::root()?.join(manifest))
            .env("CARGO_TARGET_DIR", place::target()?.join("guests"));
        place::run(&mut command)?;
    }
    Ok(())
}
