//! The due times of schedules.

use windlass_model::schedule::{self, Schedule};
use windlass_store::Store;
use windlass_store::published::ScheduleQuery;

use crate::error::Error;

/// The limit of schedules of one workflow that are read.
const SCHEDULES: u32 = 10_000;

/// A schedule, and the time from which its occurrences are computed.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its name in the definition.
    pub key: String,
    /// The schedule itself.
    pub schedule: Schedule,
    /// Since when it exists, in epoch milliseconds: intervals count from then.
    pub since_ms: i64,
    /// Only occurrences after this time count, in epoch milliseconds.
    pub after_ms: i64,
    /// Whether it is paused.
    pub paused: bool,
}

/// The schedules of a published workflow, each from the time up to which it has been planned.
///
/// # Errors
///
/// No workflow of this name is published, or the store fails.
pub fn plans(store: &dyn Store, now_ms: i64, workflow: &str) -> Result<Vec<Planned>, Error> {
    if store.published(workflow)?.is_none() {
        return Err(Error::no_workflow(store, workflow));
    }
    let rows = store.schedules(&ScheduleQuery {
        workflow: Some(workflow.to_owned()),
        limit: SCHEDULES,
        ..ScheduleQuery::default()
    })?;
    let plan = |row: windlass_store::published::ScheduleRow| {
        let schedule = schedule::decode(&row.spec);
        Ok(Planned {
            schedule: schedule.map_err(|error| Error::Unreadable(error.to_string()))?,
            key: row.key,
            since_ms: row.since_ms,
            after_ms: row.last_planned_ms.unwrap_or(now_ms).max(now_ms),
            paused: row.paused_ms.is_some(),
        })
    };
    rows.into_iter().map(plan).collect()
}

/// The next times of these schedules, `count` of each, soonest first: in epoch milliseconds, with
/// the name of the schedule. A paused one has none.
pub fn times(plans: &[Planned], count: usize) -> Vec<(i64, String)> {
    let mut times: Vec<(i64, String)> = plans
        .iter()
        .filter(|plan| !plan.paused)
        .flat_map(|plan| {
            let times = plan.schedule.occurrences(plan.since_ms, plan.after_ms);
            times.take(count).map(|at_ms| (at_ms, plan.key.clone()))
        })
        .collect();
    times.sort_unstable();
    times
}
