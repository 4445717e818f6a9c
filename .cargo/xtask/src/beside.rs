//! Commands of this program that run beside others, each with its output in a file.

use crate::{host, place, times};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The lines of the output that are printed when a command has ended well.
const TAIL: usize = 12;

/// A command that is running. Dropped, it is killed.
pub(crate) struct Beside {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Beside {
    /// Starts this program with these arguments.
    pub(crate) fn start(name: &'static str, arguments: &[&str]) -> Result<Self> {
        let directory = place::target()?.join("xtask-logs");
        std::fs::create_dir_all(&directory)?;
        let log = directory.join(name.replace(' ', "-")).with_extension("log");
        let output =
            File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        host::say(&format!(
            "{name}: running beside, output in {}",
            log.display()
        ));
        let child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .current_dir(place::root()?)
            .env(times::STEP, format!("  {name}, beside others"))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name, child, log })
    }

    /// Waits for its end, and prints its output: the last lines, or all if it has failed.
    ///
    /// # Errors
    ///
    /// It has failed.
    pub(crate) fn wait(mut self) -> Result<()> {
        let status = self.child.wait()?;
        let output = std::fs::read(&self.log)?;
        let output = String::from_utf8_lossy(&output);
        let lines: Vec<&str> = output.lines().collect();
        let shown = if status.success() { TAIL } else { lines.len() };
        host::say(&format!("{} has ended:", self.name));
        for line in lines.iter().skip(lines.len().saturating_sub(shown)) {
            eprintln!("    {line}");
        }
        if !status.success() {
            bail!("{} failed: {status}", self.name);
        }
        Ok(())
    }
}
