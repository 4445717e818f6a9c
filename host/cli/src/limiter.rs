//! Limits repeated log lines, so that a fault that repeats ten thousand times a second does not
//! fill the disk or hide other lines.
//!
//! Lines are counted by the place in the code that logs them, and there by their subject: the
//! fields `workflow`, `file` and `code`. In [`WINDOW`] each place may log a number of lines, and a subject
//! a tenth of it, so that one workflow that fails all the time does not hide the others. Further
//! lines are suppressed and counted. One line for each subject reports the count, at most
//! [`WINDOW`] later and when the program ends. Lines of the levels `debug` and `trace` are never
//! suppressed. There are as many counts as such places, each with [`SUBJECTS`] subjects at most.

use std::collections::HashMap;
use std::fmt::{Debug, Write as _};
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use windlass_model::Clock;

/// The period of the count, and of the reports about suppressed lines.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);

/// The target of the reports about suppressed lines. They are not limited.
pub(crate) const TARGET: &str = "windlass::log";

/// The most subjects of one place that are counted apart in one window. The lines of further ones
/// are counted together.
const SUBJECTS: usize = 32;

/// The share of a place's lines that one subject may log, as a divisor.
const SHARE: u32 = 10;

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
    subjects: HashMap<u64, Subject>,
    /// The suppressed lines of subjects that are not counted apart.
    rest: Suppressed,
}

/// The lines of a place with the same workflow and the same code.
#[derive(Default)]
struct Subject {
    lines: u32,
    suppressed: Suppressed,
}

/// Suppressed lines with the same text.
#[derive(Default)]
struct Suppressed {
    lines: u64,
    said: Said,
}

/// What a line says, as far as its report repeats it.
#[derive(Default)]
struct Said {
    message: String,
    workflow: Option<String>,
    code: Option<String>,
}

impl Suppressed {
    fn count(&mut self, event: &Event<'_>) {
        if self.lines == 0 {
            event.record(&mut self.said);
        }
        self.lines += 1;
    }
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "workflow" => self.workflow = Some(format!("{value:?}")),
            "code" => self.code = Some(format!("{value:?}")),
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// The hash of the fields that make the subject of a line. It allocates nothing: a flood passes
/// here.
#[derive(Default)]
struct SubjectHash {
    hasher: DefaultHasher,
    /// Whether the line has a subject.
    any: bool,
}

impl Visit for SubjectHash {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if matches!(field.name(), "workflow" | "code" | "file") {
            self.any = true;
            // Writing into a hash cannot fail.
            let _ = writeln!(self, "{} {value:?}", field.name());
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

impl std::fmt::Write for SubjectHash {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        self.hasher.write(part.as_bytes());
        Ok(())
    }
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
    fn takes(&self, event: &Event<'_>) -> bool {
        let (now, metadata) = (self.clock.monotonic(), event.metadata());
        let mut hash = SubjectHash::default();
        event.record(&mut hash);
        let share = if hash.any { SHARE } else { 1 };
        let subject = hash.hasher.finish();
        let mut places = self.places.lock();
        let place = places
            .entry(metadata.callsite())
            .or_insert_with(|| CallSite {
                metadata,
                since: now,
                lines: 0,
                subjects: HashMap::new(),
                rest: Suppressed::default(),
            });
        if now.saturating_sub(place.since) >= WINDOW {
            place.since = now;
            place.lines = 0;
            place.subjects.retain(|_, subject| {
                subject.lines = 0;
                subject.suppressed.lines > 0
            });
        }
        let is_known = place.subjects.contains_key(&subject) || place.subjects.len() < SUBJECTS;
        if !is_known {
            place.rest.count(event);
            (place.rest.said.workflow, place.rest.said.code) = (None, None);
            return false;
        }
        let subject = place.subjects.entry(subject).or_default();
        if place.lines < self.most && subject.lines < self.most.div_ceil(share) {
            place.lines += 1;
            subject.lines += 1;
            return true;
        }
        subject.suppressed.count(event);
        false
    }

    /// Logs the number of lines that were suppressed since the last report.
    pub(crate) fn report(&self) {
        let suppressed: Vec<_> = {
            let mut places = self.places.lock();
            let places = places.values_mut();
            places
                .flat_map(|place| {
                    let subjects = place.subjects.values_mut();
                    let all = subjects.map(|subject| &mut subject.suppressed);
                    let taken = all.chain([&mut place.rest]).map(std::mem::take);
                    let taken = taken.filter(|suppressed| suppressed.lines > 0);
                    taken
                        .map(|suppressed| (*place.metadata.level(), suppressed))
                        .collect::<Vec<_>>()
                })
                .collect()
        };
        for (level, Suppressed { lines, said }) in suppressed {
            let Said {
                message,
                workflow,
                code,
            } = said;
            let code = code.map(tracing::field::display);
            if level == Level::ERROR {
                tracing::error!(target: TARGET, workflow, code, lines, "{message}: more such lines were not written");
            } else if level == Level::WARN {
                tracing::warn!(target: TARGET, workflow, code, lines, "{message}: more such lines were not written");
            } else {
                tracing::info!(target: TARGET, workflow, code, lines, "{message}: more such lines were not written");
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
        !is_limited || self.0.takes(event)
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

    /// Runs with a log that takes ten lines from one place.
    fn logged(json: bool, run: impl FnOnce(&Log, &Limits, &Told)) {
        let clock = Arc::new(Told::default());
        let limits = Limits::new(10, Arc::clone(&clock) as _);
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
        tracing::subscriber::with_default(subscriber, || run(&log, &limits, &clock));
    }

    fn check(json: bool) {
        logged(json, |log, limits, clock| {
            let again = |times: u32| {
                for time in 0..times {
                    tracing::warn!(time, "again and again");
                    tracing::debug!(time, "in detail");
                }
            };
            again(100);
            tracing::error!("something else");
            assert_eq!(log.count("again and again"), 10);
            assert_eq!(log.count("in detail"), 100);
            assert_eq!(log.count("something else"), 1);
            limits.report();
            limits.report();
            let said = if json { "\"lines\":90" } else { "lines=90" };
            let report = "again and again: more such lines were not written";
            assert_eq!((log.count(report), log.count(said)), (1, 1));
            // A new window begins with the first line after the end of the old one.
            *clock.0.lock() = WINDOW;
            again(2);
            limits.report();
            assert_eq!(log.count("again and again"), 13);
            assert_eq!(log.count("more such lines"), 1);
        });
    }

    #[test]
    fn lines_that_repeat_themselves_are_counted_in_place_of_being_written() {
        check(false);
        check(true);
    }

    fn fault(workflow: &str, code: u32) {
        tracing::warn!(workflow, code = %format_args!("E{code}"), "run faulted");
    }

    #[test]
    fn a_subject_that_repeats_itself_hides_no_other_one() {
        logged(false, |log, limits, _| {
            for _ in 0..1_000 {
                fault("noisy", 1);
            }
            fault("quiet", 1);
            fault("noisy", 2);
            assert_eq!(log.count("workflow=\"noisy\" code=E1"), 1);
            assert_eq!(log.count("workflow=\"quiet\" code=E1"), 1);
            assert_eq!(log.count("workflow=\"noisy\" code=E2"), 1);
            limits.report();
            let report = "run faulted: more such lines were not written \
                          workflow=\"noisy\" code=E1 lines=999";
            assert_eq!(log.count(report), 1);
            assert_eq!(log.count("more such lines"), 1);
        });
    }

    #[test]
    fn however_many_subjects_there_are_the_counts_and_their_reports_are_bounded() {
        logged(false, |log, limits, _| {
            for code in 0..10_000 {
                fault("many", code);
            }
            assert_eq!(log.count("run faulted"), 10);
            let places = limits.places.lock();
            assert!(
                places
                    .values()
                    .all(|place| place.subjects.len() == SUBJECTS)
            );
            drop(places);
            limits.report();
            let counted = SUBJECTS - 10;
            assert_eq!(log.count("more such lines"), counted + 1);
            let rest = format!("were not written lines={}", 10_000 - SUBJECTS);
            assert_eq!(log.count(&rest), 1);
        });
    }
}
