//! Decides which occurrences are due, and writes them. Uses no thread and no clock.
//!
//! Bounds: a turn plans at most [`PER_TURN`] occurrences of healthy schedules and at most
//! [`TROUBLED`] of failing ones, and reports whether there are more. A schedule is failing if an
//! occurrence of it cannot be planned: the store counts its consecutive failures, and has the time
//! of the next attempt. So failing schedules do not delay the others, however many there are.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use windlass_model::definition::{Misfire, Overlap};
use windlass_model::schedule::{self, GRACE_MS, Schedule};
use windlass_model::{Code, RunId, TriggerNo, TriggerType};
use windlass_store::published::{self, Plan, Planned, PutOff, ScheduleQuery, ScheduleRow};
use windlass_store::rows::NewRun;
use windlass_store::{Sink, Store, Ticket, Verb, Wrote};

use super::standby::Standby;
use crate::error::Error;
use crate::scheduler::core::Now;

/// The limit of occurrences planned in one turn.
const PER_TURN: usize = 256;

/// The limit of failing schedules that one turn tries again.
const TROUBLED: usize = PER_TURN / 8;

/// The first and the longest delay of a failing schedule; it doubles each time.
const PUT_OFF_MS: (i64, i64) = (10_000, 10 * 60 * 1_000);

/// The shortest and the longest time until a queued occurrence is tried again without a
/// notification that the run before has ended: that run may end in another process.
const QUEUED_MS: (i64, i64) = (500, 5_000);

/// An occurrence for which a run is to be created.
pub(crate) struct Occurrence<'a> {
    pub(crate) row: &'a ScheduleRow,
    pub(crate) schedule: &'a Schedule,
    /// The id of the run.
    pub(crate) id: RunId,
    /// When its trigger is due: the planned time plus the jitter.
    pub(crate) due_ms: i64,
}

impl Occurrence<'_> {
    /// The type of its first trigger.
    pub(crate) fn kind(&self) -> TriggerType {
        if self.schedule.is_cron() {
            TriggerType::Cron
        } else {
            TriggerType::Timer
        }
    }
}

/// Makes the parts of a plan that need a process.
pub(crate) trait Maker {
    /// The run of an occurrence, to be written.
    fn new_run(&self, occurrence: &Occurrence<'_>) -> Result<NewRun, Error>;

    /// A number for a cancelling trigger.
    fn trigger(&self) -> Option<TriggerNo>;
}

/// The result of a turn.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The number of runs created.
    pub(crate) made: u32,
    /// Whether the turn was cut short and more occurrences are due now.
    pub(crate) more: bool,
    /// When the next schedule is due, in epoch milliseconds; none if there is none.
    pub(crate) next_ms: Option<i64>,
}

#[derive(Default)]
pub(crate) struct Planner {
    /// The occurrences that wait for runs to end.
    pub(super) standby: Arc<Standby>,
}

impl Planner {
    /// A planner that is notified through `standby` when a run ends for which an occurrence waits.
    pub(super) fn behind(standby: Arc<Standby>) -> Self {
        Self { standby }
    }

    /// Plans due occurrences.
    pub(crate) fn turn(
        &mut self,
        store: &dyn Store,
        maker: &dyn Maker,
        now: Now,
    ) -> windlass_store::Result<Turn> {
        let (well, troubled) = (
            listed(store, false, PER_TURN)?,
            listed(store, true, TROUBLED)?,
        );
        let next_ms = [&well, &troubled].into_iter().filter_map(|rows| {
            let times = rows.iter().map(|row| row.next_ms);
            times.into_iter().find(|next_ms| *next_ms > now.wall_ms)
        });
        let mut turn = Turn {
            next_ms: next_ms.min(),
            ..Turn::default()
        };
        let ready = self.standby.ready();
        let due = |row: &ScheduleRow| row.next_ms <= now.wall_ms || ready.contains(&row.no);
        let mut rows: Vec<ScheduleRow> = well.into_iter().filter(due).collect();
        turn.more = rows.len() > PER_TURN;
        rows.truncate(PER_TURN);
        let mut left = PER_TURN;
        let mut retried: Vec<ScheduleRow> = troubled.into_iter().filter(due).collect();
        turn.more |= retried.len() > TROUBLED;
        retried.truncate(TROUBLED);
        left += retried.len();
        rows.append(&mut retried);
        while !rows.is_empty() {
            turn.more |= rows.len() > left;
            rows.truncate(left);
            left -= rows.len();
            rows = self.round(store, maker, now, rows, &mut turn)?;
        }
        Ok(turn)
    }

    /// Plans one occurrence of each schedule, all in one batch. Returns the schedules that have
    /// moved on and are due again, with their new state.
    fn round(
        &mut self,
        store: &dyn Store,
        maker: &dyn Maker,
        now: Now,
        rows: Vec<ScheduleRow>,
        turn: &mut Turn,
    ) -> windlass_store::Result<Vec<ScheduleRow>> {
        let mut planned = Vec::with_capacity(rows.len());
        let mut plans = Vec::with_capacity(rows.len());
        let mut put_off = Vec::new();
        for row in rows {
            match plan(store, maker, now.wall_ms, &row) {
                Ok(plan) => {
                    let queues = plan.create.is_some() && plan.overlap == published::Overlap::Queue;
                    if let (true, Some(before)) = (queues, row.last_run) {
                        self.standby.join(before, row.no);
                    }
                    planned.push((row, plan.planned_ms, plan.next_ms));
                    plans.push(plan);
                }
                // The store failed, so the schedule itself is not failing.
                Err(Error::Store(error)) if !error.is_refusal() => return Err(error),
                Err(error) => put_off.push(trouble(&row, &error.code(), &error, now)),
            }
        }
        windlass_model::failpoint::pass("before-plan");
        let answers = write_all(store, plans);
        windlass_model::failpoint::pass("after-plan");
        let mut again = Vec::new();
        for ((mut row, planned_ms, next_ms), answer) in planned.into_iter().zip(answers) {
            if let Some(before) = row.last_run
                && !matches!(answer, Ok(Ok(Planned::Queued)))
            {
                self.standby.leave(before);
            }
            match answer {
                Ok(Ok(Planned::Created(id))) => {
                    tracing::debug!(workflow = row.workflow, key = row.key, run = %id, planned_ms, "an occurrence was created");
                    turn.made += 1;
                    row.troubles = 0;
                    row.last_run = Some(id);
                }
                Ok(Ok(Planned::Skipped)) => {
                    tracing::debug!(
                        workflow = row.workflow,
                        key = row.key,
                        planned_ms,
                        "an occurrence is skipped"
                    );
                }
                // The row has the time of the next attempt, or another member has decided.
                Ok(Ok(Planned::Queued | Planned::Stale)) => {
                    turn.more = true;
                    continue;
                }
                Err(error) if error.is_refusal() => {
                    put_off.push(trouble(&row, &error.code, &error, now));
                    continue;
                }
                // The store failed, or the membership has ended: the schedule stays due.
                Err(error) => {
                    tracing::warn!(code = %error.code, %error, "cannot write an occurrence");
                    continue;
                }
                Ok(Err(fenced)) => {
                    let error = Error::from(fenced);
                    tracing::warn!(code = %error.code(), %error, "cannot write an occurrence");
                    continue;
                }
            }
            row.last_planned_ms = Some(planned_ms);
            row.next_ms = next_ms;
            if next_ms <= now.wall_ms {
                again.push(row);
            } else {
                turn.next_ms = Some(turn.next_ms.map_or(next_ms, |next| next.min(next_ms)));
            }
        }
        for error in write_all(store, put_off)
            .into_iter()
            .filter_map(Result::err)
        {
            tracing::warn!(code = %error.code, %error, "cannot put a schedule off");
        }
        Ok(again)
    }
}

/// The first failing or healthy schedules, and one more than the limit.
fn listed(
    store: &dyn Store,
    troubled: bool,
    wanted: usize,
) -> windlass_store::Result<Vec<ScheduleRow>> {
    store.schedules(&ScheduleQuery {
        troubled: Some(troubled),
        until_ms: i64::MAX - 1,
        limit: u32::try_from(wanted + 1).unwrap_or(u32::MAX),
        ..ScheduleQuery::default()
    })
}

/// The write for a schedule whose occurrence cannot be planned.
fn trouble(row: &ScheduleRow, code: &Code, error: &dyn std::fmt::Display, now: Now) -> PutOff {
    let (first_ms, most_ms) = PUT_OFF_MS;
    let again_in_ms = (first_ms << row.troubles.min(10)).min(most_ms);
    tracing::warn!(workflow = row.workflow, key = row.key, troubles = row.troubles + 1, again_in_ms, %code, %error, "the schedule cannot start a run");
    PutOff {
        schedule: row.no,
        expected_last_planned_ms: row.last_planned_ms,
        again_ms: now.wall_ms.saturating_add(again_in_ms),
    }
}

/// The plan for the first due occurrence of a schedule.
fn plan(
    store: &dyn Store,
    maker: &dyn Maker,
    now_ms: i64,
    row: &ScheduleRow,
) -> Result<Plan, Error> {
    let unreadable = |error: schedule::UnreadableSpec| Error::Unreadable(error.to_string());
    let schedule = schedule::decode(&row.spec).map_err(unreadable)?;
    let due = schedule.due(row.since_ms, row.last_planned_ms, now_ms);
    let next_ms = |after: i64| schedule.next_after(row.since_ms, after).unwrap_or(i64::MAX);
    let moved = |planned_ms: i64, create: Option<Box<NewRun>>| Plan {
        schedule: row.no,
        expected_last_planned_ms: row.last_planned_ms,
        planned_ms,
        next_ms: next_ms(planned_ms),
        again_ms: again_ms(planned_ms, now_ms),
        overlap: published::Overlap::Skip,
        create,
        at_ms: now_ms,
    };
    let Some(last_ms) = due.last else {
        // The row says that the schedule is due, and no occurrence is: the clock was stepped back
        // after the occurrence was decided. The schedule moves on, and no occurrence is planned
        // twice.
        let decided = row.last_planned_ms.unwrap_or(row.since_ms);
        return Ok(moved(decided, None));
    };
    let happens = match due.happen.first() {
        Some(first) => Some(*first),
        None if waited(store, &schedule, row, last_ms)? => Some(last_ms),
        None => None,
    };
    let Some(planned_ms) = happens else {
        return Ok(moved(last_ms, None));
    };
    let id = schedule::occurrence_id(&row.workflow, &row.key, planned_ms);
    let delay_ms = schedule::delay_ms(id, schedule.timing().jitter_ms);
    let occurrence = Occurrence {
        row,
        schedule: &schedule,
        id,
        due_ms: planned_ms.saturating_add_unsigned(delay_ms),
    };
    let create = Some(Box::new(maker.new_run(&occurrence)?));
    let overlap = overlap(schedule.timing().overlap, || maker.trigger())?;
    Ok(Plan {
        overlap,
        ..moved(planned_ms, create)
    })
}

/// The rule for overlaps, as the store takes it. A cancellation needs the number of a trigger.
pub(crate) fn overlap(
    overlap: Overlap,
    number: impl FnOnce() -> Option<TriggerNo>,
) -> Result<published::Overlap, Error> {
    Ok(match overlap {
        Overlap::Allow => published::Overlap::Allow,
        Overlap::Skip => published::Overlap::Skip,
        Overlap::Queue => published::Overlap::Queue,
        Overlap::CancelPrevious => {
            published::Overlap::CancelPrevious(number().ok_or_else(Error::no_numbers)?)
        }
    })
}

/// Whether a late occurrence was not missed, but waited in the queue behind the run before it.
fn waited(
    store: &dyn Store,
    schedule: &Schedule,
    row: &ScheduleRow,
    planned_ms: i64,
) -> windlass_store::Result<bool> {
    let timing = schedule.timing();
    let Some(before) = row.last_run else {
        return Ok(false);
    };
    if timing.overlap != Overlap::Queue || timing.misfire != Misfire::Skip {
        return Ok(false);
    }
    let before = store.run(before)?;
    Ok(before.is_some_and(|before| match before.finished_ms {
        Some(finished_ms) => finished_ms.saturating_add(GRACE_MS) >= planned_ms,
        None => true,
    }))
}

/// When to try a queued occurrence again: the longer it has waited, the later.
fn again_ms(planned_ms: i64, now_ms: i64) -> i64 {
    let waited_ms = now_ms.saturating_sub(planned_ms);
    let (least, most) = QUEUED_MS;
    now_ms.saturating_add((waited_ms / 4).clamp(least, most))
}

/// Submits all verbs together, so that they share a flush, and waits for the answers.
fn write_all<V: Verb>(store: &dyn Store, verbs: Vec<V>) -> Vec<windlass_store::Result<V::Answer>> {
    struct Answers(Sender<(Ticket, windlass_store::Result<Wrote>)>);
    impl Sink for Answers {
        fn answered(&self, answers: Vec<(Ticket, windlass_store::Result<Wrote>)>) {
            for answer in answers {
                let _ = self.0.send(answer);
            }
        }
    }
    let count = verbs.len();
    if count == 0 {
        return Vec::new();
    }
    let (sender, answers) = channel();
    let sink: Arc<dyn Sink> = Arc::new(Answers(sender));
    let writes = verbs.into_iter().map(Into::into);
    store.submit(&sink, (0..).zip(writes).collect());
    drop(sink);
    // A sink receives the answers in order, one for each write.
    answers
        .iter()
        .take(count)
        .map(|(_, answer)| V::answer(answer))
        .collect()
}
