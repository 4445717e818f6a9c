//! The time from the start of the program to its end for the smallest workflow.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use windlass_model::Clock as _;
use windlass_runtime::SystemClock;

/// The result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StartUp {
    /// `start-up`.
    pub scenario: String,
    /// The median duration of a whole `windlass run`, in milliseconds, with compiled code in the
    /// cache.
    pub p50_ms: f64,
    /// The slowest, in milliseconds.
    pub max_ms: f64,
    /// How often it was run.
    pub runs: usize,
}

impl StartUp {
    /// One line for people.
    pub fn describe(&self) -> String {
        format!(
            "start-up: `windlass run` of the hello world takes {:.0} ms (median of {}, slowest {:.0} ms)",
            self.p50_ms, self.runs, self.max_ms
        )
    }
}

/// Runs the workflow repeatedly, each time with a new store.
///
/// # Errors
///
/// The program cannot be run, or fails.
pub fn measure(binary: &Path, workflow: &Path, dir: &Path) -> Result<StartUp> {
    const RUNS: usize = 21;
    let clock = SystemClock::new();
    let dir = tempfile::Builder::new().prefix("start-").tempdir_in(dir)?;
    let mut times = Vec::with_capacity(RUNS);
    // The first run compiles the components; it is not counted.
    for index in 0..=RUNS {
        let before = clock.monotonic();
        let output = Command::new(binary)
            .arg("run")
            .arg(workflow)
            .args(["--input", "name=you"])
            .arg("--store")
            .arg(
                dir.path()
                    .join(format!("store-{index}"))
                    .join("windlass.db"),
            )
            .output()?;
        let took = clock.monotonic().saturating_sub(before);
        if !output.status.success() {
            bail!(
                "the hello world failed: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        if index > 0 {
            times.push(took.as_secs_f64() * 1e3);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(StartUp {
        scenario: "start-up".to_owned(),
        p50_ms: times.get(RUNS / 2).copied().unwrap_or_default(),
        max_ms: times.last().copied().unwrap_or_default(),
        runs: RUNS,
    })
}
