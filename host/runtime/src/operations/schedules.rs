//! Schedules of published workflows: found by their names, paused, unpaused, and run at once.
//!
//! A schedule is named `WORKFLOW:KEY`, or `KEY` if no other published workflow has a schedule with
//! that key.

use windlass_model::definition::Overlap;
use windlass_model::nearest::did_you_mean;
use windlass_model::schedule::{self, Schedule};
use windlass_model::{Payload, RunId, TriggerType};
use windlass_store::published::{
    PauseSchedule, ScheduleQuery, ScheduleRow, StartSchedule, StartedNow, UnpauseSchedule,
};
use windlass_store::{Store, Writer as _};

use super::definitions::{TRIES, busy};
use super::reach::{Operations, OperationsInner};
use super::tell;
use crate::clock::new_run_id;
use crate::codes;
use crate::error::Error;
use crate::schedules::occurrence_overlap;
use crate::starting::{Cause, Start};

/// How many candidates an error names.
const NAMED: u32 = 5;

/// How many keys of a workflow are read to suggest one.
const KEYS: u32 = 1_000;

/// The schedule with this name.
///
/// # Errors
///
/// There is none, there are several, or the store fails.
pub fn schedule_named(store: &dyn Store, name: &str) -> Result<ScheduleRow, Error> {
    let (workflow, key) = match name.split_once(':') {
        Some((workflow, key)) => (Some(workflow), key),
        None => (None, name),
    };
    let mut rows = store.schedules(&ScheduleQuery {
        workflow: workflow.map(str::to_owned),
        key: Some(key.to_owned()),
        limit: NAMED + 1,
        ..ScheduleQuery::default()
    })?;
    if rows.len() > 1 {
        return Err(ambiguous(key, &rows));
    }
    match (rows.pop(), workflow) {
        (Some(row), _) => Ok(row),
        (None, Some(workflow)) => Err(not_of(store, workflow, key)?),
        (None, None) => Err(missing(
            format!("no published workflow has a schedule `{key}`"),
            None,
        )),
    }
}

fn missing(message: String, help: Option<String>) -> Error {
    let code = codes::NO_SCHEDULE;
    Error::NotNow {
        code,
        message,
        help,
    }
}

/// The error for a key that several workflows have.
fn ambiguous(key: &str, rows: &[ScheduleRow]) -> Error {
    let name = |row: &ScheduleRow| format!("`{}:{}`", row.workflow, row.key);
    let mut names: Vec<String> = rows.iter().take(NAMED as usize).map(name).collect();
    if rows.len() > names.len() {
        names.push("others".to_owned());
    }
    Error::NotNow {
        code: codes::AMBIGUOUS_SCHEDULE,
        message: format!("several workflows have a schedule `{key}`"),
        help: Some(format!("name one with its workflow: {}", names.join(", "))),
    }
}

/// The error for a workflow without such a schedule.
fn not_of(store: &dyn Store, workflow: &str, key: &str) -> Result<Error, Error> {
    if store.published(workflow)?.is_none() {
        return Ok(Error::no_workflow(store, workflow));
    }
    let bindings = store.bindings_of(workflow)?;
    if let Some(row) = bindings.iter().find(|row| row.binding.key == key) {
        let event = &row.binding.name;
        let message = format!("the trigger `{key}` of `{workflow}` is no schedule");
        let help = format!("it starts a run for each event `{event}`: send one");
        return Ok(missing(message, Some(help)));
    }
    let rows = store.schedules(&ScheduleQuery {
        workflow: Some(workflow.to_owned()),
        limit: KEYS,
        ..ScheduleQuery::default()
    })?;
    let message = format!("the workflow `{workflow}` has no schedule `{key}`");
    let keys = rows.iter().map(|row| row.key.as_str());
    let help = did_you_mean(key, keys.clone()).or_else(|| {
        let keys: Vec<_> = keys.take(NAMED as usize).collect();
        (!keys.is_empty()).then(|| format!("it has {}", keys.join(", ")))
    });
    Ok(missing(message, help))
}

/// Pauses a schedule, or ends its pause. Returns whether that changed anything.
///
/// The occurrences of the pause are never planned. That includes an occurrence that was due at the
/// beginning of the pause and was not planned yet, and one that waits in the queue.
///
/// # Errors
///
/// As for [`schedule_named`]; or other processes keep changing the schedule.
pub fn pause_schedule(
    store: &dyn Store,
    now_ms: i64,
    name: &str,
    pause: bool,
) -> Result<(ScheduleRow, bool), Error> {
    for _ in 0..TRIES {
        let row = schedule_named(store, name)?;
        if row.paused_ms.is_some() == pause {
            return Ok((row, false));
        }
        let done = if pause {
            tell(
                store,
                PauseSchedule {
                    schedule: row.no,
                    at_ms: now_ms,
                },
            )?
        } else {
            tell(store, unpaused(&row, now_ms)?)?
        };
        if done {
            return Ok((schedule_named(store, name)?, true));
        }
    }
    Err(busy(name))
}

/// The end of a pause: every occurrence up to now is decided, and does not happen.
fn unpaused(row: &ScheduleRow, now_ms: i64) -> Result<UnpauseSchedule, Error> {
    let schedule = decoded(row)?;
    let due = schedule.due(row.since_ms, row.last_planned_ms, now_ms);
    let decided_ms = due.last.or(row.last_planned_ms).unwrap_or(row.since_ms);
    let next_ms = schedule.next_after(row.since_ms, decided_ms.max(now_ms));
    Ok(UnpauseSchedule {
        schedule: row.no,
        expected_since_ms: row.since_ms,
        planned_ms: due.last,
        next_ms: next_ms.unwrap_or(i64::MAX),
    })
}

fn decoded(row: &ScheduleRow) -> Result<Schedule, Error> {
    schedule::decode(&row.spec).map_err(|error| Error::Unreadable(error.to_string()))
}

impl Operations {
    /// Starts a run of a schedule now, beside its plan, with the input of the schedule. Its first
    /// trigger is of type `manual`. Returns the schedule and the run. The same id is the same run.
    ///
    /// # Errors
    ///
    /// As for [`schedule_named`]; the run of the last occurrence has not ended, and the schedule
    /// neither allows that nor cancels it; the run cannot begin, or the process is draining or
    /// paused.
    pub async fn start_schedule(
        &self,
        name: String,
        id: Option<RunId>,
    ) -> Result<(ScheduleRow, RunId), Error> {
        self.accepts()?;
        self.ask(move |inner| inner.start_schedule(&name, id)).await
    }
}

impl OperationsInner {
    fn start_schedule(&self, name: &str, id: Option<RunId>) -> Result<(ScheduleRow, RunId), Error> {
        let store = self.store.as_ref();
        let row = schedule_named(store, name)?;
        let schedule = decoded(&row)?;
        let now_ms = self.clock.wall_ms();
        let id = id.unwrap_or_else(new_run_id);
        let start = Start {
            prepared: self.stored(row.definition)?,
            input: Payload::of(&schedule.timing().input),
            cause: Cause::Occurrence {
                id,
                kind: TriggerType::Manual,
                due_ms: now_ms,
            },
        };
        let start = start.accepted()?;
        let (started, no) = self.numbered(|numbers| {
            let create = Box::new(start.left(numbers, now_ms)?);
            let no = create.no;
            let started = store.write(StartSchedule {
                schedule: row.no,
                overlap: occurrence_overlap(schedule.timing().overlap, || numbers.trigger())?,
                create,
                at_ms: now_ms,
            })??;
            Ok((started, no))
        })?;
        let created = match started {
            StartedNow::Created(created) => created,
            StartedNow::Busy(by) => return Err(busy_with(by, schedule.timing().overlap)),
            StartedNow::Gone => {
                let message = format!("the schedule `{}:{}` is gone", row.workflow, row.key);
                return Err(missing(message, None));
            }
        };
        let started = start.answered(Ok(created), no)?;
        let started = started.ok_or_else(super::starting::moved)?;
        if let (None, Some(runtime)) = (&started.existing, self.runtime()) {
            runtime.shared.intake.claim_too(started.no);
        }
        Ok((row, started.id))
    }
}

/// The error if the run of the last occurrence has not ended.
fn busy_with(by: RunId, overlap: Overlap) -> Error {
    let overlap = match overlap {
        Overlap::Queue => "queue",
        _ => "skip",
    };
    Error::NotNow {
        code: codes::RESERVED,
        message: format!(
            "run {by} of the schedule has not ended, and with `overlap: {overlap}` there is one at \
             a time"
        ),
        help: Some("wait for its end, cancel it, or start the workflow itself".to_owned()),
    }
}
