//! `--metrics FILE`: the metrics of the process, written to a file every few seconds and at the end.
//!
//! The file is replaced as a whole, so a collector never reads half of it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use windlass_periodic::{Periodic, Rest};
use windlass_runtime::Runtime;

use crate::codes;
use crate::error::Expected;

/// How often the file is written.
const INTERVAL: Duration = Duration::from_secs(5);

/// The argument.
#[derive(Debug, Args)]
pub(crate) struct MetricsArguments {
    /// Write metrics to this file, in the text format of Prometheus, every few seconds and at
    /// the end
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
}

/// Writes the file for as long as it is there.
pub(crate) struct Written(Option<(PathBuf, Periodic)>);

impl MetricsArguments {
    /// Whether a file is named.
    pub(crate) fn is_wanted(&self) -> bool {
        self.metrics.is_some()
    }

    /// Begins to write, if a file is named.
    ///
    /// # Errors
    ///
    /// The file cannot be written now; later trouble is only warned about.
    pub(crate) fn begin(&self, runtime: &Arc<Runtime>) -> Result<Written, Expected> {
        let Some(file) = self.metrics.clone() else {
            return Ok(Written(None));
        };
        write(&file, &runtime.metrics()).map_err(|error| {
            let text = format!("{} cannot be written: {error}", file.display());
            Expected::new(codes::METRICS, text).help("Name a file in a directory that is there.")
        })?;
        // The worker keeps no runtime alive: the end of the process does not wait for it.
        let (weak, to) = (Arc::downgrade(runtime), file.clone());
        let worker = Periodic::start("metrics", move |bell| {
            match weak.upgrade() {
                Some(runtime) => write_or_warn(&to, &runtime.metrics()),
                None => bell.stop(),
            }
            Rest::exactly(INTERVAL)
        });
        let worker = worker.map_err(|error| {
            Expected::new(
                codes::METRICS,
                format!("no thread for the metrics: {error}"),
            )
        })?;
        Ok(Written(Some((file, worker))))
    }
}

impl Written {
    /// Writes for the last time.
    pub(crate) fn end(self, runtime: &Runtime) {
        if let Some((file, worker)) = self.0 {
            drop(worker);
            write_or_warn(&file, &runtime.metrics());
        }
    }
}

fn write_or_warn(file: &Path, text: &str) {
    if let Err(error) = write(file, text) {
        tracing::warn!(file = %file.display(), %error, "metrics cannot be written");
    }
}

fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let directory = file.parent().filter(|path| !path.as_os_str().is_empty());
    let directory = directory.unwrap_or_else(|| Path::new("."));
    let mut new = tempfile::Builder::new();
    // Other users collect the file: metrics are no secret.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        new.permissions(std::fs::Permissions::from_mode(0o644));
    }
    let mut new = new.prefix(".metrics-").tempfile_in(directory)?;
    new.write_all(text.as_bytes())?;
    new.persist(file).map_err(|error| error.error)?;
    Ok(())
}
