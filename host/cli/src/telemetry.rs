//! Logs, on stderr.

use tracing_subscriber::EnvFilter;

use crate::codes;
use crate::config::{LogFormat, Telemetry};
use crate::error::Expected;

/// Begins to log as configured; `quiet` is the filter if none is.
pub(crate) fn begin(telemetry: &Telemetry, default: &str, colour: bool) -> Result<(), Expected> {
    let filter = telemetry.log.as_deref().unwrap_or(default);
    let parsed = EnvFilter::try_new(filter).map_err(|error| {
        Expected::new(
            codes::LOG_FILTER,
            format!("The log filter `{filter}` is not one: {error}"),
        )
        .help("Write a level like `info`, or levels by module like `warn,windlass_runtime=debug`.")
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(std::io::stderr);
    // A second subscriber can only be asked for by a test in this process; the first one stays.
    let _ = match telemetry.log_format {
        LogFormat::Text => builder.with_ansi(colour).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    Ok(())
}
