//! Schedules of published workflows, across workflows: list, run now, pause and unpause.

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windlass_model::{RunId, ScheduleNo, TriggerType, schedule};
use windlass_runtime::{Error, operations};
use windlass_store::published::{SchedulePlace, ScheduleQuery, ScheduleRow};

use crate::app::App;
use crate::extract::{Named, QueryParams, check_optional};
use crate::json::Json;
use crate::named::{ScheduleState, TriggerKind};
use crate::page::{Page, PageAsked};
use crate::problem::Problem;
use crate::view::moment;

/// A schedule of a published workflow.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Schedule {
    /// Its name, `WORKFLOW:KEY`.
    schedule: String,
    /// The workflow.
    workflow: String,
    /// The name of the trigger in the definition.
    key: String,
    /// The type of the first trigger of its runs: `cron` or `timer`.
    #[serde(rename = "type")]
    #[schema(value_type = TriggerKind)]
    kind: &'static str,
    /// Its times, like `0 2 * * * Europe/Berlin` or `every 15m`.
    rule: String,
    /// Its state.
    #[schema(value_type = ScheduleState)]
    state: &'static str,
    /// The time of the next occurrence; in trouble, of the next attempt. Null: there is none, or the
    /// schedule is paused.
    #[schema(required = true)]
    next: Option<String>,
    /// The last occurrence for which it has decided whether to start a run.
    #[schema(required = true)]
    last: Option<String>,
    /// The last run that it has started.
    #[schema(required = true)]
    run: Option<Uuid>,
    /// Since when it is paused.
    #[schema(required = true)]
    paused: Option<String>,
    /// How many times in a row it could not start a run.
    troubles: u32,
}

fn view(row: &ScheduleRow) -> Result<Schedule, Box<Problem>> {
    let unreadable =
        |error: schedule::UnreadableSpec| Error::Unreadable(format!("{}: {error}", named(row)));
    let read = schedule::decode(&row.spec).map_err(unreadable)?;
    let kind = match read.is_cron() {
        true => TriggerType::Cron,
        false => TriggerType::Timer,
    };
    Ok(Schedule {
        schedule: named(row),
        workflow: row.workflow.clone(),
        key: row.key.clone(),
        kind: kind.name(),
        rule: schedule::rule(&row.spec).map_err(unreadable)?,
        state: match (row.paused_ms, row.troubles) {
            (Some(_), _) => "paused",
            (None, 0) => "planned",
            (None, _) => "retrying",
        },
        next: (row.next_ms < i64::MAX).then(|| moment(row.next_ms)),
        last: row.last_planned_ms.map(moment),
        run: row.last_run.map(|id| id.0),
        paused: row.paused_ms.map(moment),
        troubles: row.troubles,
    })
}

fn named(row: &ScheduleRow) -> String {
    format!("{}:{}", row.workflow, row.key)
}

/// Selects schedules.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Only those of this workflow.
    workflow: Option<String>,
}

/// List the schedules of the published workflows, the soonest first; paused ones come last.
#[utoipa::path(get, path = "/api/v1/schedules", operation_id = "listSchedules", tag = "triggers", params(PageAsked, Filter),
    responses((status = 200, description = "A page of schedules.", body = Page<Schedule>)))]
pub(crate) async fn list(
    State(app): State<App>,
    QueryParams(page): QueryParams<PageAsked>,
    QueryParams(filter): QueryParams<Filter>,
) -> Result<Json<Page<Schedule>>, Box<Problem>> {
    check_optional("`workflow`", filter.workflow.as_deref())?;
    app.read(move |app| {
        let after = page.after("schedules")?;
        let after = after.map(|text| place(&text)).transpose()?;
        let rows = page.rows(|limit| {
            Ok(app.store().schedules(&ScheduleQuery {
                workflow: filter.workflow.clone(),
                after,
                limit,
                ..ScheduleQuery::default()
            })?)
        })?;
        let text = |row: &ScheduleRow| format!("{} {}", row.next_ms, row.no.0);
        page.part("schedules", rows, text, |row| view(&row))
    })
    .await
    .map(Json)
}

/// The position at which a page begins.
fn place(text: &str) -> Result<SchedulePlace, Box<Problem>> {
    let (next_ms, no) = text.split_once(' ').ok_or_else(Problem::foreign_cursor)?;
    let (Ok(next_ms), Ok(no)) = (next_ms.parse(), no.parse()) else {
        return Err(Problem::foreign_cursor());
    };
    Ok((next_ms, ScheduleNo(no)))
}

/// Show a schedule.
#[utoipa::path(get, path = "/api/v1/schedules/{schedule}", operation_id = "getSchedule", tag = "triggers",
    params(("schedule" = String, Path, description = "`WORKFLOW:KEY`; or `KEY`, if one workflow alone has a schedule with it.")),
    responses((status = 200, description = "The schedule.", body = Schedule),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "Several workflows have a schedule with this key.")))]
pub(crate) async fn show(
    State(app): State<App>,
    Named(name): Named,
) -> Result<Json<Schedule>, Box<Problem>> {
    app.read(move |app| view(&operations::schedule_named(app.store(), &name)?))
        .await
        .map(Json)
}

/// Pause a schedule: it starts no runs until it is unpaused.
#[utoipa::path(post, path = "/api/v1/schedules/{schedule}/pause", operation_id = "pauseSchedule", tag = "triggers",
    params(("schedule" = String, Path, description = "`WORKFLOW:KEY`; or `KEY`, if one workflow alone has a schedule with it.")),
    responses((status = 200, description = "The schedule is paused, now or already before.", body = Schedule),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "Several workflows have a schedule with this key.")))]
pub(crate) async fn pause(
    State(app): State<App>,
    Named(name): Named,
) -> Result<Json<Schedule>, Box<Problem>> {
    set(app, name, true).await
}

/// Unpause a schedule. The occurrences of the pause do not happen.
#[utoipa::path(post, path = "/api/v1/schedules/{schedule}/unpause", operation_id = "unpauseSchedule", tag = "triggers",
    params(("schedule" = String, Path, description = "`WORKFLOW:KEY`; or `KEY`, if one workflow alone has a schedule with it.")),
    responses((status = 200, description = "The schedule is not paused, now or already before.", body = Schedule),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "Several workflows have a schedule with this key.")))]
pub(crate) async fn unpause(
    State(app): State<App>,
    Named(name): Named,
) -> Result<Json<Schedule>, Box<Problem>> {
    set(app, name, false).await
}

async fn set(app: App, name: String, pause: bool) -> Result<Json<Schedule>, Box<Problem>> {
    let (schedule, changed) = app
        .ask(move |app| {
            let (store, now_ms) = (app.store(), app.now_ms());
            let (row, changed) = operations::pause_schedule(store, now_ms, &name, pause)?;
            Ok((view(&row)?, changed))
        })
        .await?;
    if changed {
        app.published();
    }
    Ok(Json(schedule))
}

/// The run that a request starts.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Fire {
    /// The id of the run. The same id is the same run.
    id: Option<Uuid>,
}

/// A run of a schedule.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Fired {
    /// The schedule, `WORKFLOW:KEY`.
    schedule: String,
    /// The run.
    run: Uuid,
}

/// Start a run of a schedule now, beside its plan; a paused schedule has such runs, too.
#[utoipa::path(post, path = "/api/v1/schedules/{schedule}/fire", operation_id = "fireSchedule", tag = "triggers",
    params(("schedule" = String, Path, description = "`WORKFLOW:KEY`; or `KEY`, if one workflow alone has a schedule with it."), Fire),
    responses((status = 201, description = "The run is stored.", body = Fired),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "The last run of the schedule has not ended and `overlap` allows one at a time, or several workflows have a schedule with this key.")))]
pub(crate) async fn fire(
    State(app): State<App>,
    Named(name): Named,
    QueryParams(fire): QueryParams<Fire>,
) -> Result<(StatusCode, Json<Fired>), Box<Problem>> {
    let (row, run) = app.client.start_schedule(name, fire.id.map(RunId)).await?;
    let (schedule, run) = (named(&row), run.0);
    Ok((StatusCode::CREATED, Json(Fired { schedule, run })))
}
