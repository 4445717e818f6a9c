//! Checks of a schedule beyond its form.

use crate::definition::{Misfire, StartTrigger, Timing};
use crate::diagnostic::{Diagnostic, Place};
use crate::{codes, limits};

use super::{Schedule, cron};

/// The mistakes in a start trigger's schedule; none for a trigger without a schedule.
///
/// Pointers begin with `at`, the trigger's own: `/triggers/nightly/cron`. A span is relative to the
/// beginning of the value that the pointer names.
pub fn check(trigger: &StartTrigger, at: &str) -> Vec<Diagnostic> {
    let Some(Err(mut wrong)) = Schedule::of(trigger) else {
        return Vec::new();
    };
    for diagnostic in &mut wrong {
        diagnostic.place.pointer.insert_str(0, at);
    }
    wrong
}

/// Warnings about a valid start trigger's schedule: steps of a cron expression beyond their field.
/// Places are as those of [`check`].
pub fn warnings(trigger: &StartTrigger, at: &str) -> Vec<Diagnostic> {
    let StartTrigger::Cron { expression, .. } = trigger else {
        return Vec::new();
    };
    let mut found = cron::beyond(expression);
    for diagnostic in &mut found {
        diagnostic.place.pointer.insert_str(0, at);
    }
    found
}

/// An interval, in milliseconds.
pub(super) fn interval(every_ms: u64) -> Result<i64, Vec<Diagnostic>> {
    let fits = (limits::INTERVAL_MS..=limits::DURATION_MS).contains(&every_ms);
    match i64::try_from(every_ms) {
        Ok(every_ms) if fits => Ok(every_ms),
        _ => {
            let message = format!(
                "an interval is at least {} s, and at most {} d",
                limits::INTERVAL_MS / 1000,
                limits::DURATION_MS / 86_400_000
            );
            let place = Place::at("/every");
            Err(vec![Diagnostic::new(codes::BAD_SCHEDULE, message, place)])
        }
    }
}

pub(super) fn timing(trigger: &StartTrigger, timing: &Timing) -> Vec<Diagnostic> {
    let mut wrong = Vec::new();
    let mut say = |at: &str, message: String, help: &str| {
        let mistake = Diagnostic::new(codes::BAD_SCHEDULE, message, Place::at(at));
        wrong.push(mistake.help(help));
    };
    if let Misfire::CatchUp(count) = timing.misfire
        && (count == 0 || count > limits::CATCH_UP)
    {
        say(
            "/misfire",
            format!(
                "a schedule catches up with 1 to {} occurrences",
                limits::CATCH_UP
            ),
            "`misfire: skip` catches up with none, `fire-once` makes one of all that was missed",
        );
    }
    let longest = match trigger {
        StartTrigger::Every { every_ms, .. } => (*every_ms).min(JITTER_MS),
        _ => JITTER_MS,
    };
    if timing.jitter_ms > longest {
        say(
            "/jitter",
            "a jitter is at most a day, and never more than the interval".to_owned(),
            "occurrences would overtake each other: choose a shorter jitter",
        );
    }
    wrong
}

/// The longest jitter: a day, in milliseconds.
const JITTER_MS: u64 = 24 * 60 * 60 * 1000;
