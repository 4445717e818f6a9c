//! Pending triggers, and triggers that people schedule.

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windlass_model::{RunId, RunNo, Seq, TriggerId, TriggerNo};
use windlass_runtime::operations;
use windlass_store::external::{DuePlace, DueQuery, Scheduled, Touched, TriggerTarget};
use windlass_store::rows::TriggerRow;

use super::runs::find;
use crate::app::{App, AppInner};
use crate::extract::{Document, Named, QueryParams, check_text, maybe_duration_text, no_time};
use crate::json::Json;
use crate::named::{LastState, TriggerResult};
use crate::page::{Page, PageAsked};
use crate::problem::Problem;
use crate::view::{Names, Trigger, trigger_name};

/// A request to schedule a trigger.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TriggerRequest {
    /// The run.
    run: Uuid,
    /// The node to execute.
    node: String,
    /// The id. The same request with the same id returns the same trigger.
    id: Option<Uuid>,
    /// The due time, like `2026-01-31T12:00:00Z`. Default: now, or `after`.
    at: Option<String>,
    /// The delay until it is due, like `90s`, by the clock of the host.
    #[serde(default, deserialize_with = "maybe_duration_text")]
    after: Option<String>,
    /// Members to merge into the variables of the run before the node runs.
    payload: Option<Map<String, Value>>,
    /// Among due triggers, higher priorities go first.
    #[serde(default)]
    #[schema(minimum = -100, maximum = 100)]
    priority: i32,
}

/// The result of a command on a trigger.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Done {
    /// The name of the trigger.
    trigger: String,
    /// The result.
    #[schema(value_type = TriggerResult)]
    result: &'static str,
}

/// Schedule a trigger for a run.
#[utoipa::path(post, path = "/api/v1/triggers", operation_id = "scheduleTrigger", tag = "triggers", request_body = TriggerRequest,
    responses(
        (status = 201, body = Done, description = "The trigger is stored."),
        (status = 200, body = Done, description = "The same request has scheduled the trigger before."),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "Another request has used the id, or the run has ended."),
    ))]
pub(crate) async fn schedule(
    State(app): State<App>,
    Document(body): Document<TriggerRequest>,
) -> Result<(StatusCode, Json<Done>), Box<Problem>> {
    check_text("`node`", &body.node)?;
    let bound = windlass_model::limits::PRIORITY;
    if !(-bound..=bound).contains(&body.priority) {
        return Err(Problem::body(format!(
            "`priority` is from -{bound} to {bound}"
        )));
    }
    let due_ms = due(&app, body.at.as_deref(), body.after.as_deref())?;
    let run = RunId(body.run);
    let schedule = operations::Schedule {
        id: body.id.map(TriggerId),
        run,
        node: body.node,
        due_ms,
        payload: body.payload,
        priority: body.priority,
    };
    let (id, scheduled) = app.client.schedule(schedule).await?;
    let done = |status, result| {
        let trigger = id.to_string();
        Ok((status, Json(Done { trigger, result })))
    };
    match scheduled {
        Scheduled::New => done(StatusCode::CREATED, "scheduled"),
        Scheduled::Already => done(StatusCode::OK, "scheduled"),
        Scheduled::Finished => done(StatusCode::OK, "finished"),
        Scheduled::Conflict => {
            let detail = format!("trigger {id} was scheduled with other arguments");
            Err(Problem::too_late(detail)
                .help("take another id; `after` is another moment each time, and `at` the same"))
        }
        Scheduled::Closed => Err(Problem::too_late("the run is over")
            .help("start another one: a run that has ended takes no trigger")),
        Scheduled::NoRun => Err(windlass_runtime::Error::NotFound(run.to_string()).into()),
    }
}

/// The due time in a request, if it has one, in epoch milliseconds.
pub(crate) fn due(
    app: &AppInner,
    at: Option<&str>,
    after: Option<&str>,
) -> Result<Option<i64>, Box<Problem>> {
    use windlass_model::file::{duration_ms, instant_ms};
    match (at, after) {
        (None, None) => Ok(None),
        (Some(text), None) => instant_ms(text).map(Some).map_err(no_time),
        (None, Some(text)) => {
            let after_ms = duration_ms(text).map_err(no_time)?;
            Ok(Some(app.now_ms().saturating_add_unsigned(after_ms)))
        }
        (Some(_), Some(_)) => Err(Problem::body("a moment is `at` or `after`, and not both")),
    }
}

/// Selects triggers.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// All triggers of this run, not only pending ones.
    run: Option<Uuid>,
    /// Only parked triggers, by run: those that need a plugin that is not there, or whose runs are
    /// paused.
    #[serde(default)]
    #[param(default = false)]
    parked: bool,
}

/// List the pending triggers, or all triggers of a run, the soonest first.
#[utoipa::path(get, path = "/api/v1/triggers", operation_id = "listTriggers", tag = "triggers", params(PageAsked, Filter),
    responses((status = 200, description = "A page of triggers.", body = Page<Trigger>)))]
pub(crate) async fn list(
    State(app): State<App>,
    QueryParams(page): QueryParams<PageAsked>,
    QueryParams(filter): QueryParams<Filter>,
) -> Result<Json<Page<Trigger>>, Box<Problem>> {
    if filter.parked && filter.run.is_some() {
        return Err(Problem::parameter(
            "triggers are of one `run`, or `parked`, and not both",
        ));
    }
    if filter.parked {
        return app.read(move |app| parked(app, &page)).await.map(Json);
    }
    app.read(move |app| {
        let after = page
            .after("triggers")?
            .map(|text| place(&text))
            .transpose()?;
        let run = filter.run.map(|run| find(app, RunId(run))).transpose()?;
        let rows = page.rows(|limit| {
            Ok(match &run {
                Some(run) => app.store().triggers_after(run.no, after, limit)?,
                None => app.store().due(&DueQuery {
                    after,
                    until_ms: i64::MAX,
                    limit,
                })?,
            })
        })?;
        let mut names = Names::default();
        let text = |row: &TriggerRow| {
            let place = DuePlace::from(row);
            format!("{} {} {}", place.due_ms, place.run, place.no)
        };
        page.part("triggers", rows, text, |row| names.trigger(app, &row))
    })
    .await
    .map(Json)
}

fn parked(app: &AppInner, page: &PageAsked) -> Result<Page<Trigger>, Box<Problem>> {
    let after = page.after("parked triggers")?;
    let after = after.map(|text| match text.split_once(' ') {
        Some((run, no)) => Ok((RunNo(number(run)?), TriggerNo(number(no)?))),
        None => Err(Problem::foreign_cursor()),
    });
    let after = after.transpose()?;
    let rows = page.rows(|limit| Ok(app.store().parked(after, limit)?))?;
    let mut names = Names::default();
    let text = |row: &TriggerRow| format!("{} {}", row.run, row.no);
    page.part("parked triggers", rows, text, |row| {
        names.trigger(app, &row)
    })
}

/// A number of a cursor.
fn number(text: &str) -> Result<i64, Box<Problem>> {
    text.parse().map_err(|_| Problem::foreign_cursor())
}

/// The position at which a page of pending triggers begins.
fn place(text: &str) -> Result<DuePlace, Box<Problem>> {
    let numbers: Result<Vec<i64>, _> = text.split(' ').map(str::parse).collect();
    match numbers.as_deref() {
        Ok([due_ms, run, no]) => Ok(DuePlace {
            due_ms: *due_ms,
            run: RunNo(*run),
            no: TriggerNo(*no),
        }),
        _ => Err(Problem::foreign_cursor()),
    }
}

/// The trigger of a name: the UUID that it was scheduled with, or its run and its number there.
fn target(app: &AppInner, named: &str) -> Result<TriggerTarget, Box<Problem>> {
    let unreadable = || {
        Problem::parameter(format!(
            "`{named}` names no trigger: give its UUID, or RUN:NUMBER; schedules have paths of their \
             own, `/schedules/WORKFLOW:KEY`"
        ))
    };
    let Some((run, number)) = named.split_once(':') else {
        let id = named.parse().map_err(|_| unreadable())?;
        return Ok(TriggerTarget::External(TriggerId(id)));
    };
    let run = run.parse().map_err(|_| unreadable())?;
    let seq = match number.strip_prefix('+') {
        Some(external) => {
            let no: i64 = external.parse().map_err(|_| unreadable())?;
            Seq::external(TriggerNo(no))
        }
        None => Seq(number.parse().map_err(|_| unreadable())?),
    };
    Ok(TriggerTarget::Row(find(app, RunId(run))?.no, seq))
}

fn missing(named: &str) -> Box<Problem> {
    Problem::not_found(format!("there is no trigger {named}"))
}

/// A trigger, or its last known state.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TriggerShown {
    /// Its name: its run and its number there.
    trigger: String,
    /// Its run.
    run: Uuid,
    /// Its last known state.
    #[schema(value_type = LastState)]
    state: &'static str,
    /// The trigger, as long as it exists.
    #[schema(required = true)]
    pending: Option<Trigger>,
}

/// Show a trigger.
#[utoipa::path(get, path = "/api/v1/triggers/{trigger}", operation_id = "getTrigger", tag = "triggers",
    params(("trigger" = String, Path, description = "The UUID that the trigger was scheduled with, or RUN:NUMBER.")),
    responses((status = 200, description = "The trigger, or its last known state.", body = TriggerShown)))]
pub(crate) async fn show(
    State(app): State<App>,
    Named(named): Named,
) -> Result<Json<TriggerShown>, Box<Problem>> {
    app.read(move |app| {
        let target = target(app, &named)?;
        if let Some(row) = app.store().trigger(target)? {
            let of = app.store().run_by_no(row.run)?;
            let run = of.map(|of| of.id.0).unwrap_or_default();
            let trigger = trigger_name(run, row.seq);
            return Ok(TriggerShown {
                trigger,
                run,
                state: row.state.name(),
                pending: Some(Names::default().trigger(app, &row)?),
            });
        }
        // An external trigger that was scheduled with a UUID is remembered for some time after it
        // is gone.
        let known = match target {
            TriggerTarget::External(id) => app.store().external(id)?,
            TriggerTarget::Row(..) => None,
        };
        let known = known.ok_or_else(|| missing(&named))?;
        Ok(TriggerShown {
            trigger: trigger_name(known.run_id.0, known.seq),
            run: known.run_id.0,
            state: if known.closed { "closed" } else { "finished" },
            pending: None,
        })
    })
    .await
    .map(Json)
}

type Touch = Result<Json<Done>, Box<Problem>>;

async fn touch(
    app: App,
    named: String,
    done: &'static str,
    ask: impl FnOnce(&AppInner, TriggerTarget) -> Result<Touched, windlass_runtime::Error>
    + Send
    + 'static,
) -> Touch {
    app.ask(move |app| {
        let result = match ask(app, target(app, &named)?)? {
            Touched::Done => done,
            // The process that executes it gets the request, or the trigger is firing at this
            // moment.
            Touched::Running => "running",
            Touched::NotFound => return Err(missing(&named)),
            Touched::Closed => return Err(late("the run is over", LOOK)),
            Touched::Dead => return Err(late("it is a dead letter", "replay the dead letter")),
            Touched::Waiting => {
                let help = "resume a bookmark for which it waits: the list of bookmarks shows them";
                return Err(late("it waits for an event or for another run", help));
            }
            Touched::AlreadyFinished => return Err(late("it is finished already", LOOK)),
        };
        if let Some(runtime) = app.runtime() {
            runtime.wake();
        }
        Ok(Json(Done {
            trigger: named,
            result,
        }))
    })
    .await
}

/// The help for a trigger that cannot be changed any more.
const LOOK: &str = "look at the run, which says where it is now";

fn late(why: &str, help: &str) -> Box<Problem> {
    let detail = format!("this cannot be done to the trigger any more: {why}");
    Problem::too_late(detail).help(help)
}

/// Fire a trigger now, regardless of its due time.
#[utoipa::path(post, path = "/api/v1/triggers/{trigger}/fire", operation_id = "fireTrigger", tag = "triggers",
    params(("trigger" = String, Path, description = "The UUID that the trigger was scheduled with, or RUN:NUMBER.")),
    responses((status = 200, description = "The trigger is due now.", body = Done),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The run or trigger has already ended.")))]
pub(crate) async fn fire(State(app): State<App>, Named(named): Named) -> Touch {
    touch(app, named, "fired", |app, target| {
        operations::fire(app.store(), app.now_ms(), target)
    })
    .await
}

/// Cancel a trigger; an execution in progress is asked to stop.
#[utoipa::path(post, path = "/api/v1/triggers/{trigger}/cancel", operation_id = "cancelTrigger", tag = "triggers",
    params(("trigger" = String, Path, description = "The UUID that the trigger was scheduled with, or RUN:NUMBER.")),
    responses((status = 200, description = "The trigger is cancelled.", body = Done),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The run or trigger has already ended.")))]
pub(crate) async fn cancel(State(app): State<App>, Named(named): Named) -> Touch {
    touch(app, named, "cancelled", |app, target| {
        operations::cancel_trigger(app.store(), app.now_ms(), target)
    })
    .await
}

/// A new due time for a trigger.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct When {
    /// The due time, like `2026-01-31T12:00:00Z`. Default: now, or `after`.
    at: Option<String>,
    /// The delay until it is due, like `90s`, by the clock of the host.
    #[serde(default, deserialize_with = "maybe_duration_text")]
    after: Option<String>,
}

/// Change the due time of a trigger.
#[utoipa::path(post, path = "/api/v1/triggers/{trigger}/reschedule", operation_id = "rescheduleTrigger", tag = "triggers", request_body = When,
    params(("trigger" = String, Path, description = "The UUID that the trigger was scheduled with, or RUN:NUMBER.")),
    responses((status = 200, description = "The trigger has the new due time.", body = Done),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The run or trigger has already ended.")))]
pub(crate) async fn reschedule(
    State(app): State<App>,
    Named(named): Named,
    Document(when): Document<When>,
) -> Touch {
    let due_ms = due(&app, when.at.as_deref(), when.after.as_deref())?;
    touch(app, named, "rescheduled", move |app, target| {
        let due_ms = due_ms.unwrap_or_else(|| app.now_ms());
        operations::reschedule(app.store(), target, due_ms)
    })
    .await
}
