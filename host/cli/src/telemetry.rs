//! Logs, on stderr.

use std::sync::{Arc, OnceLock};

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};
use windlass_display::visible;
use windlass_periodic::{Periodic, Rest};
use windlass_runtime::SystemClock;

use crate::codes;
use crate::config::{LogFormat, Telemetry};
use crate::error::Expected;
use crate::limiter::{Limiter, Limits, TARGET, WINDOW};

/// The limits of this process. The last suppressed lines are reported at its end.
static LIMITS: OnceLock<Arc<Limits>> = OnceLock::new();

/// Lines of libraries that say less than the host's own about the same trouble: the store tells that a
/// connection is lost.
const LIBRARIES: &str = "deadpool=error";

/// Starts to log as configured; `default` is the filter if the configuration has none.
pub(crate) fn begin(telemetry: &Telemetry, default: &str, colour: bool) -> Result<(), Expected> {
    let default = || format!("{default},{LIBRARIES}");
    let filter = telemetry.log.clone().unwrap_or_else(default);
    let parsed = EnvFilter::try_new(&filter).map_err(|error| {
        Expected::new(
            codes::LOG_FILTER,
            format!("The log filter `{filter}` is not one: {error}"),
        )
        .help("Write a level like `info`, or levels by module like `warn,windlass_runtime=debug`.")
    })?;
    // The suppressed lines passed the filter, so their report has to pass it, too.
    let told = format!("{TARGET}=info").parse();
    let parsed = match told {
        Ok(told) => parsed.add_directive(told),
        Err(_) => parsed,
    };
    let format = telemetry.log_format;
    // Modules are for the filter: a line names its subject.
    let lines = fmt::layer()
        .with_target(false)
        .with_writer(move || LogLine { format, colour });
    let lines = match format {
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
    // Only a test installs a second subscriber in this process; the first one stays.
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

/// Writes a line of the log to stderr. Names and messages in it may be foreign: each event is one
/// line, and its control characters are made visible.
struct LogLine {
    format: LogFormat,
    colour: bool,
}

impl std::io::Write for LogLine {
    /// Takes a whole event, as the formatter passes it.
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let line = match self.format {
            LogFormat::Text => visible::line(text, self.colour),
            LogFormat::Json => visible::json(text),
        };
        std::io::stderr()
            .lock()
            .write_all(format!("{line}\n").as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

/// Reports the suppressed lines that were not reported yet.
pub(crate) fn end() {
    if let Some(limits) = LIMITS.get() {
        limits.report();
    }
}
