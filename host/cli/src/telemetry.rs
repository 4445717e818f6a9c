//! Logs, on stderr.

use std::sync::{Arc, OnceLock};

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};
use windlass_periodic::{Periodic, Rest};
use windlass_runtime::SystemClock;

use crate::codes;
use crate::config::{LogFormat, Telemetry};
use crate::error::Expected;
use crate::limiter::{Limiter, Limits, TARGET, WINDOW};

/// The limits of this process, so that what they suppress last is told.
static LIMITS: OnceLock<Arc<Limits>> = OnceLock::new();

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
    // What was suppressed passed the filter, so that it is told, too.
    let told = format!("{TARGET}=info").parse();
    let parsed = match told {
        Ok(told) => parsed.add_directive(told),
        Err(_) => parsed,
    };
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match telemetry.log_format {
        LogFormat::Text => lines.with_ansi(colour).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let limits = (telemetry.log_limit > 0)
        .then(|| Limits::new(telemetry.log_limit, Arc::new(SystemClock::new())));
    let limiter = limits.clone().map(Limiter);
    let subscriber = tracing_subscriber::registry()
        .with(parsed)
        .with(limiter)
        .with(lines);
    // A second subscriber can only be asked for by a test in this process; the first one stays.
    if subscriber.try_init().is_ok()
        && let Some(limits) = limits
        && LIMITS.set(Arc::clone(&limits)).is_ok()
    {
        let worker = Periodic::start("log", move |_| {
            limits.report();
            Rest::exactly(WINDOW)
        });
        match worker {
            Ok(worker) => worker.detach(),
            Err(error) => {
                tracing::warn!(%error, "suppressed log lines are only counted at the end");
            }
        }
    }
    Ok(())
}

/// Tells what was suppressed and not told yet.
pub(crate) fn end() {
    if let Some(limits) = LIMITS.get() {
        limits.report();
    }
}
