//! `cargo xtask demo`: builds everything, and runs the example to the summary of a triage.

use crate::beside::Beside;
use crate::{host, place};
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A child process that is killed at the end of the demonstration.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds everything and runs the example.
pub(crate) fn run() -> Result<()> {
    let guests = Beside::start("guests", &["guests", "--library"])?;
    host::packer()?;
    guests.wait()?;
    let programs = host::dev(&["windlass", "windlass-example-prices"])?;
    let example = place::root()?.join("examples/triage");
    host::say("starting the price service of the example");
    let (_service, address) = start_prices(&programs)?;
    host::say("triaging the orders of examples/triage/orders.json");
    // A store of another layout may be left there.
    let folder = place::target()?.join("demo");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let store = folder.join("windlass.db");
    let status = Command::new(programs.join("windlass"))
        .current_dir(&example)
        .args(["--trust", "run", "triage.yaml", "--input", "@orders.json"])
        .arg("--input")
        .arg(format!("prices={address}"))
        .arg("--store")
        .arg(&store)
        // The service may be on any port, so the grant is made here rather than in the file.
        .env(
            "WINDLASS_PLUGINS__GRANTS__HTTP__HTTP",
            format!("[\"{address}\"]"),
        )
        .status()
        .context("cannot run windlass")?;
    anyhow::ensure!(status.success(), "the triage ended with {status}");
    next_steps(&programs);
    Ok(())
}

fn start_prices(programs: &Path) -> Result<(Service, String)> {
    let mut child = Command::new(programs.join("windlass-example-prices"))
        .args(["--port", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the price service")?;
    let stdout = child.stdout.take().context("its output is piped")?;
    let service = Service(child);
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let address = line.trim().to_owned();
    anyhow::ensure!(
        address.starts_with("http://"),
        "the price service said {address:?}"
    );
    Ok((service, address))
}

fn next_steps(programs: &Path) {
    let windlass = programs.join("windlass");
    let windlass = windlass.display();
    eprintln!(
        "
That was a workflow of sandboxed nodes, every step flushed to disk. What next:

  {windlass} workflow graph examples/triage/triage.yaml    draws it
  {windlass} run examples/hello/hello.yaml --input name=you
  {windlass} serve                                         the long-running host

`cargo xtask build` makes the same program as fast as it gets, for work and for measuring.
README.md shows how to write a node in fifteen lines and drop it in while the host runs."
    );
}
