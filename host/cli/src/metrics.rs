//! `--metrics FILE`: the metrics of the process, written every few seconds and at the end.
//!
//! The file is replaced as a whole, so that the collector never reads half of it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
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

/// Writes the file until it is dropped.
pub(crate) struct Written(Option<(PathBuf, tokio::task::JoinHandle<()>)>);

impl MetricsArguments {
    /// Whether a file is named.
    pub(crate) fn is_wanted(&self) -> bool {
        self.metrics.is_some()
    }

    /// Starts to write, if a file is named.
    ///
    /// # Errors
    ///
    /// The file cannot be written now. Later failures only cause warnings.
    pub(crate) fn begin(
        &self,
        tokio: &tokio::runtime::Handle,
        runtime: &Arc<Runtime>,
    ) -> Result<Written, Expected> {
        let Some(file) = self.metrics.clone() else {
            return Ok(Written(None));
        };
        write(&file, &runtime.metrics()).map_err(|error| {
            let text = format!("{} cannot be written: {error}", file.display());
            Expected::new(codes::METRICS, text).help("Name a file in a directory that is there.")
        })?;
        // A weak reference: the end of the runtime must not wait for this task.
        let weak = Arc::downgrade(runtime);
        let to = file.clone();
        let task = tokio.spawn(async move {
            let mut ticks = tokio::time::interval(INTERVAL);
            ticks.tick().await;
            loop {
                ticks.tick().await;
                let Some(runtime) = weak.upgrade() else {
                    return;
                };
                write_or_warn(&to, &runtime.metrics());
            }
        });
        Ok(Written(Some((file, task))))
    }
}

impl Written {
    /// Writes the file for the last time.
    pub(crate) fn end(self, runtime: &Runtime) {
        if let Some((file, task)) = self.0 {
            task.abort();
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
    // A collector of another user reads the file: metrics are no secret.
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
