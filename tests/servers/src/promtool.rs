//! The checker of Prometheus, for the text of metrics and for alert rules.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::places;

/// The path of the checker, if it is not in `PATH`. `cargo xtask test` sets it.
const VARIABLE: &str = "WINDLASS_PROMTOOL";

/// Runs `promtool` with these arguments on a text. If the program is missing, reports that the test
/// does not run.
///
/// # Errors
///
/// It has found a mistake, or it is missing and required.
pub fn promtool(arguments: &[&str], input: &str) -> Result<()> {
    let named = std::env::var_os(VARIABLE).map(Into::into);
    let Some(program) = named.or_else(|| places::program("promtool", &[])) else {
        return places::missing("promtool", "prometheus");
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("promtool cannot be started")?;
    child
        .stdin
        .take()
        .context("promtool has no input")?
        .write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    ensure!(output.status.success(), "promtool {arguments:?}: {said}");
    Ok(())
}
