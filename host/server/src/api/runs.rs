//! Reading runs, and waiting for them.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windlass_model::{ExecutionNo, RunId, RunNo, ScopeNo, Status};
use windlass_runtime::client::{self, Standing};
use windlass_runtime::transfer::Origin;
use windlass_store::read::RunQuery;
use windlass_store::rows::{ExecutionRow, RunRow};

use super::lifecycle::patience;
use crate::answers;
use crate::app::{App, AppInner};
use crate::extract::{Named, QueryParams, check_optional};
use crate::gate::Room;
use crate::named::RunStatus;
use crate::page::{Page, PageAsked};
use crate::problem::Problem;
use crate::raw::Raw;
use crate::view::sections::Section;
use crate::view::{Execution, Failure, Names, Run, Trigger, moment, optional};

/// Selects runs.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Only runs in these statuses, separated by commas: like `running,suspended`.
    #[param(pattern = "^[a-z,]*$")]
    status: Option<String>,
    /// Only runs of this workflow.
    workflow: Option<String>,
    /// Only runs whose ids begin like this, in one page. Excludes all other parameters.
    id: Option<String>,
}

/// List runs, the highest number first: those of the process that joined last come first, the
/// newest of each process first.
#[utoipa::path(get, path = "/api/v1/runs", operation_id = "listRuns", tag = "runs", params(PageAsked, Filter),
    responses((status = 200, description = "A page of runs.", body = Page<Run>)))]
pub(crate) async fn list(
    State(app): State<App>,
    QueryParams(page): QueryParams<PageAsked>,
    QueryParams(filter): QueryParams<Filter>,
) -> Result<Json<Page<Run>>, Box<Problem>> {
    check_optional("`workflow`", filter.workflow.as_deref())?;
    let statuses = filter.status.as_deref().unwrap_or_default();
    let statuses = statuses.split(',').filter(|name| !name.is_empty());
    let statuses: Vec<Status> = statuses.map(status).collect::<Result<_, _>>()?;
    if let Some(prefix) = filter.id {
        if filter.workflow.is_some() || !statuses.is_empty() || page.cursor.is_some() {
            let detail = "`id` cannot be given together with another filter, or with a `cursor`";
            return Err(Problem::parameter(detail));
        }
        return app.ask(move |app| beginning(app, &prefix, &page)).await;
    }
    app.ask(move |app| {
        let rows = app.store().runs(&RunQuery {
            statuses,
            workflow: filter.workflow,
            before: page.after_number("runs")?.map(RunNo),
            limit: page.look()?,
        })?;
        let mut names = Names::default();
        let place = |row: &RunRow| row.no.to_string();
        page.page("runs", rows, place, |row| names.run(app, &row))
            .map(Json)
    })
    .await
}

/// The runs whose ids begin like this.
fn beginning(
    app: &AppInner,
    prefix: &str,
    page: &PageAsked,
) -> Result<Json<Page<Run>>, Box<Problem>> {
    let is_id = |c: char| c.is_ascii_hexdigit() || c == '-';
    if prefix.is_empty() || !prefix.chars().all(is_id) {
        let detail = format!("`{prefix}` is not the beginning of a UUID");
        return Err(Problem::parameter(detail));
    }
    let rows = app.store().runs_by_prefix(prefix, page.look()? - 1)?;
    let mut names = Names::default();
    let items = rows.iter().map(|row| names.run(app, row));
    let items = items.collect::<Result<_, _>>()?;
    Ok(Json(Page { items, next: None }))
}

fn status(name: &str) -> Result<Status, Box<Problem>> {
    let found = Status::ALL.into_iter().find(|status| status.name() == name);
    found.ok_or_else(|| Problem::parameter(format!("there is no status `{name}`")))
}

/// A run with its data, its triggers and its journal.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunShown {
    /// The run as lists show it.
    run: Run,
    /// Its input.
    #[schema(value_type = Option<Value>, required = true)]
    input: Option<Raw>,
    /// Its variables.
    #[schema(value_type = Map<String, Value>)]
    vars: BTreeMap<String, Raw>,
    /// Its output.
    #[schema(value_type = Option<Value>, required = true)]
    output: Option<Raw>,
    /// Its pending triggers and waits.
    triggers: Vec<Trigger>,
    /// The critical sections for which its executions wait.
    mutexes: Vec<Section>,
    /// For an imported run: `unsigned`, or `signed by` and the name of a key. The history of an
    /// unsigned run may be forged.
    #[schema(required = true)]
    imported: Option<String>,
    /// Events that concern the run as a whole.
    journal: Vec<Entry>,
}

/// An event that concerns a run as a whole.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Entry {
    /// The time of the event.
    at: String,
    /// The kind of event, like `incident`.
    kind: String,
    /// The details of the event.
    #[schema(value_type = Value)]
    detail: Raw,
}

/// Show a run.
#[utoipa::path(get, path = "/api/v1/runs/{id}", operation_id = "getRun", tag = "runs",
    params(("id" = Uuid, Path, description = "The run.")),
    responses((status = 200, description = "The run with its data, its triggers and its journal.", body = RunShown)))]
pub(crate) async fn show(
    State(app): State<App>,
    id: Named,
) -> Result<Json<RunShown>, Box<Problem>> {
    let id = RunId(id.uuid()?);
    app.ask(move |app| shown(app, id)).await.map(Json)
}

fn shown(app: &AppInner, id: RunId) -> Result<RunShown, Box<Problem>> {
    let (row, store) = (find(app, id)?, app.store());
    let mut names = Names::default();
    let mut vars = BTreeMap::new();
    for (name, payload) in store.vars(row.no, ScopeNo::ROOT)? {
        vars.insert(name, crate::view::value(app, &payload)?);
    }
    let triggers = store.triggers(row.no)?;
    let triggers = triggers.iter().map(|row| names.trigger(app, row));
    let triggers: Vec<_> = triggers.collect::<Result<_, _>>()?;
    let journal = store.journal(row.no)?;
    let imported = Origin::of(&journal).map(|origin| origin.to_string());
    let journal = journal.iter().map(|entry| Entry {
        at: moment(entry.at_ms),
        kind: entry.kind.clone(),
        detail: Raw::read(&entry.detail),
    });
    let mutexes = match app.definition(row.definition)? {
        Some(definition) => client::sections(store, &row, &definition)?,
        None => Vec::new(),
    };
    Ok(RunShown {
        run: names.run(app, &row)?,
        input: optional(app, store.input(row.no)?.as_ref())?,
        vars,
        output: optional(app, store.output(row.no)?.as_ref())?,
        triggers,
        mutexes: mutexes.iter().map(Section::from).collect(),
        imported,
        journal: journal.collect(),
    })
}

/// The row of a run.
pub(crate) fn find(app: &AppInner, id: RunId) -> Result<RunRow, Box<Problem>> {
    let missing = || windlass_runtime::Error::NotFound(id.to_string());
    Ok(app.store().run(id)?.ok_or_else(missing)?)
}

/// List the executions of a run, the newest first.
#[utoipa::path(get, path = "/api/v1/runs/{id}/executions", operation_id = "listExecutions", tag = "runs",
    params(("id" = Uuid, Path, description = "The run."), PageAsked),
    responses((status = 200, description = "A page of executions.", body = Page<Execution>)))]
pub(crate) async fn executions(
    State(app): State<App>,
    id: Named,
    QueryParams(page): QueryParams<PageAsked>,
) -> Result<Json<Page<Execution>>, Box<Problem>> {
    let id = RunId(id.uuid()?);
    app.ask(move |app| {
        let row = find(app, id)?;
        let nodes = app.nodes(row.definition)?;
        let list = format!("executions {id}");
        let before = page.after_number(&list)?.map(ExecutionNo);
        // A cursor from another run's history would lead into that history.
        if let Some(no) = before
            && app
                .store()
                .execution(no)?
                .is_none_or(|execution| execution.run != row.no)
        {
            return Err(Problem::parameter("`cursor` leads nowhere any more"));
        }
        let (rows, more) = executions_of(app, row.no, before, page.look()?)?;
        let place = |row: &ExecutionRow| row.no.to_string();
        page.part(&list, (rows, more), place, |row| {
            Execution::whole(app, nodes.as_deref(), &row)
        })
    })
    .await
    .map(Json)
}

/// Executions per read, and their size in bytes after which no more of them are read.
const READ: u32 = 50;
const READ_BYTES: u64 = 4 * 1024 * 1024;

/// The executions of a page. Fewer if they are large; then there may be more behind them.
fn executions_of(
    app: &AppInner,
    run: RunNo,
    mut before: Option<ExecutionNo>,
    most: u32,
) -> Result<(Vec<ExecutionRow>, bool), Box<Problem>> {
    let (mut rows, mut bytes) = (Vec::new(), 0_u64);
    while rows.len() < most as usize {
        let left = most.saturating_sub(u32::try_from(rows.len()).unwrap_or(most));
        let read = app.store().executions(run, before, left.min(READ))?;
        let ends = read.len() < left.min(READ) as usize;
        before = read.last().map(|row| row.no).or(before);
        let sizes = read
            .iter()
            .filter_map(|row| Some(row.output.as_ref()?.len()));
        bytes = sizes.fold(bytes, u64::saturating_add);
        rows.extend(read);
        if ends {
            return Ok((rows, false));
        }
        if bytes > READ_BYTES {
            return Ok((rows, true));
        }
    }
    Ok((rows, false))
}

/// A wait for an outcome.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wait {
    /// How long to wait, like `5s`. Default: no wait. The host refuses a longer wait than
    /// `max-wait` of its configuration (`1m` by default).
    pub(crate) wait: Option<String>,
}

/// The status and the outcome of a run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Outcome {
    /// Its id.
    id: Uuid,
    /// Its status.
    #[schema(value_type = RunStatus)]
    status: &'static str,
    /// Whether the requested or awaited change has happened.
    done: bool,
    /// The output, if the run completed.
    #[schema(value_type = Option<Value>, required = true)]
    output: Option<Raw>,
    /// The failure, if the run faulted.
    #[schema(required = true)]
    failure: Option<Failure>,
}

impl Outcome {
    pub(crate) fn of(app: &AppInner, standing: Standing) -> Result<Self, Box<Problem>> {
        let result = standing.result.as_ref();
        let output = result.and_then(|result| result.output.as_ref());
        Ok(Self {
            id: standing.id.0,
            status: standing.status.name(),
            done: standing.done,
            output: optional(app, output)?,
            failure: result
                .and_then(|result| result.failure.as_ref())
                .map(Failure::from),
        })
    }
}

/// Return the outcome of a run, or its status if it has not ended by the end of the wait.
#[utoipa::path(get, path = "/api/v1/runs/{id}/result", operation_id = "getResult", tag = "runs",
    params(("id" = Uuid, Path, description = "The run."), Wait),
    responses(
        (status = 200, body = Outcome, description = "The run has ended."),
        (status = 202, body = Outcome, description = "The run has not ended yet."),
    ))]
pub(crate) async fn result(
    State(app): State<App>,
    room: Option<Extension<Room>>,
    id: Named,
    QueryParams(wait): QueryParams<Wait>,
) -> Result<(StatusCode, Json<Outcome>), Box<Problem>> {
    let id = RunId(id.uuid()?);
    let (patience, _stream) = patience(&app, room.as_ref(), &wait)?;
    let standing = app.client.result(id, patience).await?;
    answer(&app, room.as_ref(), standing).await
}

/// The response for a standing.
pub(crate) async fn answer(
    app: &App,
    room: Option<&Extension<Room>>,
    standing: Standing,
) -> Result<(StatusCode, Json<Outcome>), Box<Problem>> {
    let has_output = (standing.result.as_ref()).is_some_and(|result| result.output.is_some());
    if let Some(Extension(room)) = room
        && has_output
    {
        room.for_answer(app, answers::READ).await?;
    }
    let status = if standing.done {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    let outcome = app.ask(move |app| Outcome::of(app, standing)).await?;
    Ok((status, Json(outcome)))
}
