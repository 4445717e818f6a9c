//! The due times of schedules: cron expressions and intervals, as functions of the planned time.
//!
//! An occurrence is an instant for which a schedule *planned* a run. All results depend on that
//! instant, and not on the time at which a process evaluates the schedule: the next occurrence, its
//! id, and its jitter. So every process computes the same results, a stepped clock changes nothing,
//! and intervals do not drift.
//!
//! The caller passes the time. Instants are milliseconds since 1970-01-01T00:00:00Z.

mod check;
mod cron;
mod occurrence;
mod spec;
#[cfg(test)]
mod tests;
mod zone;

pub use check::{check, warnings};
pub use cron::CronRule;
pub use occurrence::{delay_ms, occurrence_id};
pub use spec::{UnreadableSpec, decode, encode, rule};
pub use zone::use_zones;

use crate::definition::{Misfire, StartTrigger, Timing};

/// How long after its planned time an occurrence still counts as on time, in milliseconds.
pub const GRACE_MS: i64 = 60_000;

/// A schedule that has been checked.
#[derive(Clone, Debug)]
pub struct Schedule {
    rule: Rule,
    timing: Timing,
}

#[derive(Clone, Debug)]
enum Rule {
    Cron(Box<CronRule>),
    Every(i64),
}

/// The due occurrences of a schedule, by its misfire policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// The occurrences that happen, the oldest first. At most as many as the policy allows.
    pub happen: Vec<i64>,
    /// The latest due occurrence: once it is planned, no occurrence up to it is considered again.
    /// None: no occurrence is due.
    pub last: Option<i64>,
}

impl Schedule {
    /// The schedule of a start trigger; none for a trigger without a schedule.
    ///
    /// # Errors
    ///
    /// The mistakes, with pointers that begin at the trigger.
    pub fn of(trigger: &StartTrigger) -> Option<Result<Self, Vec<crate::Diagnostic>>> {
        let (rule, timing) = match trigger {
            StartTrigger::Event { .. } | StartTrigger::Http { .. } => return None,
            StartTrigger::Cron {
                expression,
                timezone,
                timing,
            } => (
                CronRule::parse(expression, timezone).map(|cron| Rule::Cron(Box::new(cron))),
                timing,
            ),
            StartTrigger::Every { every_ms, timing } => {
                (check::interval(*every_ms).map(Rule::Every), timing)
            }
        };
        let mut wrong = check::timing(trigger, timing);
        match rule {
            Ok(rule) if wrong.is_empty() => Some(Ok(Self {
                rule,
                timing: timing.clone(),
            })),
            Ok(_) => Some(Err(wrong)),
            Err(more) => {
                wrong.extend(more);
                Some(Err(wrong))
            }
        }
    }

    /// The options that all schedules have.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Whether it is a cron expression, and not an interval.
    pub fn is_cron(&self) -> bool {
        matches!(self.rule, Rule::Cron(_))
    }

    /// The first occurrence after an instant. Intervals are counted from `since_ms`, the time when
    /// the schedule was published. None: there is none.
    pub fn next_after(&self, since_ms: i64, after_ms: i64) -> Option<i64> {
        match &self.rule {
            Rule::Cron(cron) => cron.next_after(after_ms.max(since_ms)),
            Rule::Every(every_ms) => {
                let passed = after_ms.max(since_ms).checked_sub(since_ms)?;
                let count = passed.checked_div(*every_ms)?.checked_add(1)?;
                since_ms.checked_add(count.checked_mul(*every_ms)?)
            }
        }
    }

    /// The last occurrence that is not after an instant, and is after `since_ms`.
    fn latest(&self, since_ms: i64, until_ms: i64) -> Option<i64> {
        let found = match &self.rule {
            Rule::Cron(cron) => cron.latest(until_ms)?,
            Rule::Every(every_ms) => {
                let count = until_ms.checked_sub(since_ms)?.checked_div(*every_ms)?;
                since_ms.checked_add(count.checked_mul(*every_ms)?)?
            }
        };
        (found > since_ms).then_some(found)
    }

    /// The occurrences after an instant, soonest first.
    pub fn occurrences(&self, since_ms: i64, after_ms: i64) -> impl Iterator<Item = i64> + '_ {
        std::iter::successors(self.next_after(since_ms, after_ms), move |last| {
            self.next_after(since_ms, *last)
        })
    }

    /// The due occurrences at `now_ms`, given the last occurrence that was planned.
    ///
    /// * `skip`: the latest, if it is at most [`GRACE_MS`] late.
    /// * `fire-once`: the latest, however late it is; it stands for those before it.
    /// * `catch-up: n`: the latest `n`.
    pub fn due(&self, since_ms: i64, last_planned_ms: Option<i64>, now_ms: i64) -> Due {
        let after = last_planned_ms.map_or(since_ms, |last| last.max(since_ms));
        let Some(last) = self.latest(since_ms, now_ms).filter(|last| *last > after) else {
            return Due::default();
        };
        let wanted = match self.timing.misfire {
            Misfire::Skip => usize::from(now_ms.saturating_sub(last) <= GRACE_MS),
            Misfire::FireOnce => 1,
            Misfire::CatchUp(count) => usize::try_from(count).unwrap_or(usize::MAX),
        };
        let mut happen: Vec<i64> =
            std::iter::successors(Some(last), |later| self.latest(since_ms, later - 1))
                .take_while(|planned| *planned > after)
                .take(wanted)
                .collect();
        happen.reverse();
        Due {
            happen,
            last: Some(last),
        }
    }
}
