//! `cargo xtask bless`: writes generated and golden files anew.

use crate::{host, place};
use anyhow::Result;

/// Runs the tests that compare with files, in the mode that writes the files instead.
pub(crate) fn run() -> Result<()> {
    host::say("writing golden and generated files anew; look at the difference before you commit");
    let mut command = place::cargo_with_library()?;
    command
        .args([
            "test",
            "--workspace",
            "--all-features",
            "--exclude",
            "windlass-tests",
        ])
        .env("BLESS", "1")
        .current_dir(place::root()?);
    place::run(&mut command)
}
