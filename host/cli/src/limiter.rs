//! Limits repeated log lines, so that a fault that repeats ten thousand times a second does not
//! fill the disk or hide other lines.
//!
//! Lines are counted by the place in the code that logs them. Each place may log a number of lines
//! in [`WINDOW`]; further lines are suppressed and counted. One line reports the count, at most
//! [`WINDOW`] later and when the program ends. Lines of the levels `debug` and `trace` are never
//! suppressed. There are as many counts as such places.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use windlass_model::Clock;

/// The period of the count, and of the reports about suppressed lines.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);

/// The target of the reports about suppressed lines. They are not limited.
pub(crate) const TARGET: &str = "windlass::log";

/// The counts of all places.
pub(crate) struct Limits {
    /// The most lines from one place in one window.
    most: u32,
    clock: Arc<dyn Clock>,
    places: Mutex<HashMap<Identifier, CallSite>>,
}

/// A place in the code that has logged a line.
struct CallSite {
    metadata: &'static Metadata<'static>,
    /// The start of its window.
    since: Duration,
    lines: u32,
    suppressed: u64,
}

impl Limits {
    /// Allows `most` lines from one place in a window.
    pub(crate) fn new(most: u32, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            most,
            clock,
            places: Mutex::default(),
        })
    }

    /// Whether a line is written.
    fn takes(&self, metadata: &'static Metadata<'static>) -> bool {
        let now = self.clock.monotonic();
        let mut places = self.places.lock();
        let place = places
            .entry(metadata.callsite())
            .or_insert_with(|| CallSite {
                metadata,
                since: now,
                lines: 0,
                suppressed: 0,
            });
        if now.saturating_sub(place.since) >= WINDOW {
            place.since = now;
            place.lines = 0;
        }
        if place.lines < self.most {
            place.lines += 1;
            return true;
        }
        place.suppressed += 1;
        false
    }

    /// Logs the number of lines that were suppressed since the last report.
    pub(crate) fn report(&self) {
        let suppressed: Vec<_> = {
            let mut places = self.places.lock();
            let places = places.values_mut().filter(|place| place.suppressed > 0);
            places
                .map(|place| (place.metadata, std::mem::take(&mut place.suppressed)))
                .collect()
        };
        for (metadata, lines) in suppressed {
            let module = metadata.module_path().unwrap_or_default();
            let place = format!("{module}:{}", metadata.line().unwrap_or_default());
            if *metadata.level() == Level::ERROR {
                tracing::error!(target: TARGET, lines, place, "log lines were suppressed");
            } else if *metadata.level() == Level::WARN {
                tracing::warn!(target: TARGET, lines, place, "log lines were suppressed");
            } else {
                tracing::info!(target: TARGET, lines, place, "log lines were suppressed");
            }
        }
    }
}

/// The layer of the subscriber that applies the limits.
pub(crate) struct Limiter(pub(crate) Arc<Limits>);

impl<S: Subscriber> Layer<S> for Limiter {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        let is_limited = *metadata.level() <= Level::INFO && metadata.target() != TARGET;
        !is_limited || self.0.takes(metadata)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// A clock that the test sets.
    #[derive(Default)]
    struct Told(Mutex<Duration>);

    impl Clock for Told {
        fn wall_ms(&self) -> i64 {
            0
        }

        fn monotonic(&self) -> Duration {
            *self.0.lock()
        }
    }

    /// The log of the test.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Log {
        fn count(&self, text: &str) -> usize {
            let log = self.0.lock();
            let log = String::from_utf8_lossy(&log);
            log.lines().filter(|line| line.contains(text)).count()
        }
    }

    fn check(json: bool) {
        let clock = Arc::new(Told::default());
        let limits = Limits::new(3, Arc::clone(&clock) as _);
        let log = Log::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt::layer().with_writer(move || writer.clone());
        let lines = if json {
            lines.json().flatten_event(true).boxed()
        } else {
            lines.with_ansi(false).boxed()
        };
        let limiter = Limiter(Arc::clone(&limits));
        let subscriber = tracing_subscriber::registry().with(limiter).with(lines);
        tracing::subscriber::with_default(subscriber, || {
            let again = |times: u32| {
                for time in 0..times {
                    tracing::warn!(time, "again and again");
                    tracing::debug!(time, "in detail");
                }
            };
            again(100);
            tracing::error!("something else");
            assert_eq!(log.count("again and again"), 3);
            assert_eq!(log.count("in detail"), 100);
            assert_eq!(log.count("something else"), 1);
            limits.report();
            limits.report();
            let said = if json { "\"lines\":97" } else { "lines=97" };
            assert_eq!((log.count("suppressed"), log.count(said)), (1, 1));
            let place = if json { "\"place\":\"" } else { "place=\"" };
            assert_eq!(log.count(place), 1);
            // A new window begins with the first line after the end of the old one.
            *clock.0.lock() = WINDOW;
            again(2);
            limits.report();
            assert_eq!(log.count("again and again"), 5);
            assert_eq!(log.count("suppressed"), 1);
        });
    }

    #[test]
    fn lines_that_repeat_themselves_are_counted_in_place_of_being_written() {
        check(false);
        check(true);
    }
}
