//! Runs: to start them, to look at them, to wait for them.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windlass_model::{Digest, InstanceId, InstanceNo, Payload, RunNo, ScopeNo, Status};
use windlass_runtime::StartRequest;
use windlass_runtime::client::Standing;
use windlass_store::read::InstanceQuery;
use windlass_store::rows::{DefinitionRow, InstanceRow};

use crate::app::{App, Inner};
use crate::codes;
use crate::extract::{Asked, Document, Named, check_optional, check_text, text_header, wait_ms};
use crate::gate::Room;
use crate::page::{Page, PageAsked};
use crate::problem::Problem;
use crate::view::{Failure, Instance, Names, Run, Trigger, moment, optional, read};

/// A wish for a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Start {
    /// The published workflow.
    workflow: String,
    /// What it works on. `null` if it is not there.
    #[serde(default)]
    input: Value,
    /// The id of the run. The same id again with the same wish is the same run.
    id: Option<Uuid>,
    /// What the run is about, for people and for finding it.
    correlation: Option<String>,
}

/// A run that was asked for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Started {
    /// Its id.
    id: Uuid,
    /// The same wish was made before, and this is its run.
    existed: bool,
}

/// Starts a run of a published workflow.
///
/// The answer comes when the run is written down durably: from then on it ends, here or
/// elsewhere. With an `Idempotency-Key` the same wish can be made again without starting
/// another run, for as long as the run is kept.
#[utoipa::path(
    post, path = "/api/v1/instances", tag = "instances", request_body = Start,
    params(("Idempotency-Key" = Option<String>, Header,
        description = "Names the wish: the same key with the same wish is the same run.",
        min_length = 1, max_length = 255)),
    responses(
        (status = 201, body = Started, description = "The run is written down.",
            headers(("location" = String, description = "Where the run is looked at."))),
        (status = 200, body = Started, description = "The same wish was made before."),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "The id or key is taken by another wish, or a run that excludes this \
            one has not ended."),
    )
)]
pub(crate) async fn start(
    State(app): State<App>,
    headers: HeaderMap,
    Document(wish): Document<Start>,
) -> Result<Response, Box<Problem>> {
    check_text("`workflow`", &wish.workflow)?;
    check_optional("`correlation`", wish.correlation.as_deref())?;
    let key = text_header(&headers, "idempotency-key")?.map(key_id);
    if key.is_some() && wish.id.is_some() {
        let detail = "a wish has an `Idempotency-Key` or an `id`, and not both";
        return Err(Problem::body(detail));
    }
    let id = wish.id.or(key).map(InstanceId);
    let (workflow, named) = (wish.workflow.clone(), id);
    let definition = app
        .ask(move |app| definition(app, &workflow, named))
        .await?;
    let request = StartRequest {
        definition,
        input: Payload::of(&wish.input),
        id,
        correlation: wish.correlation,
    };
    let started = app.client.create_and_run(request).await;
    let started = started.map_err(|error| match error {
        windlass_runtime::Error::Conflict { .. } if key.is_some() => {
            let detail = "the `Idempotency-Key` was used for another wish";
            Problem::new(StatusCode::CONFLICT, &codes::KEY_REUSED, detail)
        }
        error => error.into(),
    })?;
    let existed = started.existing.is_some();
    let id = started.id.0;
    let body = Json(Started { id, existed });
    if existed {
        return Ok(body.into_response());
    }
    let base = app.options.public_url.as_deref().unwrap_or_default();
    let place = format!("{}/api/v1/instances/{id}", base.trim_end_matches('/'));
    Ok((StatusCode::CREATED, [(header::LOCATION, place)], body).into_response())
}

/// What a run is to be started with: the published version; or, if there is a run of this name
/// already, what that was started with, so that a wish made again is answered alike whatever
/// was published meanwhile.
fn definition(
    app: &Inner,
    workflow: &str,
    id: Option<InstanceId>,
) -> Result<DefinitionRow, Box<Problem>> {
    if let Some(id) = id
        && let Some(row) = app.store().instance(id)?
        && let Some(definition) = app.store().definition(row.definition)?
        && definition.name == workflow
    {
        return Ok(definition);
    }
    let missing = || windlass_runtime::Error::NoWorkflow(workflow.to_owned());
    let published = app.store().published(workflow)?.ok_or_else(missing)?;
    let definition = app.store().definition(published.definition)?;
    definition.ok_or_else(|| Problem::bug(&"a published definition is not there"))
}

/// The id of the run that a key stands for.
fn key_id(key: &str) -> Uuid {
    let digest = Digest::of(format!("idempotency-key\n{key}").as_bytes());
    let mut bytes = [0; 16];
    bytes
        .iter_mut()
        .zip(digest.0)
        .for_each(|(to, from)| *to = from);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// Which runs to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Only in these statuses, separated by commas: like `running,suspended`.
    status: Option<String>,
    /// Only of this workflow.
    workflow: Option<String>,
}

/// Lists runs, the newest first.
#[utoipa::path(get, path = "/api/v1/instances", tag = "instances", params(PageAsked, Filter),
    responses((status = 200, body = Page<Instance>)))]
pub(crate) async fn list(
    State(app): State<App>,
    Asked(page): Asked<PageAsked>,
    Asked(filter): Asked<Filter>,
) -> Result<Json<Page<Instance>>, Box<Problem>> {
    check_optional("`workflow`", filter.workflow.as_deref())?;
    let statuses = filter.status.as_deref().unwrap_or_default();
    let statuses = statuses.split(',').filter(|name| !name.is_empty());
    let statuses: Vec<Status> = statuses.map(status).collect::<Result<_, _>>()?;
    app.ask(move |app| {
        let rows = app.store().instances(&InstanceQuery {
            statuses,
            workflow: filter.workflow,
            before: page.after_number("instances")?.map(InstanceNo),
            limit: page.look()?,
        })?;
        let mut names = Names::default();
        let place = |row: &InstanceRow| row.no.to_string();
        page.page("instances", rows, place, |row| names.instance(app, &row))
    })
    .await
    .map(Json)
}

fn status(name: &str) -> Result<Status, Box<Problem>> {
    let found = Status::ALL.into_iter().find(|status| status.name() == name);
    found.ok_or_else(|| Problem::parameter(format!("there is no status `{name}`")))
}

/// A run with all that is known of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunShown {
    /// What is known of every run.
    instance: Instance,
    /// What it works on.
    input: Option<Value>,
    /// Its variables.
    vars: Map<String, Value>,
    /// What came out.
    output: Option<Value>,
    /// What it is about to do, or waits for.
    triggers: Vec<Trigger>,
    /// What happened to it as a whole.
    journal: Vec<Entry>,
}

/// Something that happened to a run as a whole.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Entry {
    /// When.
    at: String,
    /// Like `incident`.
    kind: String,
    /// What exactly.
    detail: Value,
}

/// Shows a run.
#[utoipa::path(get, path = "/api/v1/instances/{id}", tag = "instances",
    params(("id" = Uuid, Path, description = "The run.")),
    responses((status = 200, body = RunShown)))]
pub(crate) async fn show(
    State(app): State<App>,
    id: Named,
) -> Result<Json<RunShown>, Box<Problem>> {
    let id = InstanceId(id.uuid()?);
    app.ask(move |app| shown(app, id)).await.map(Json)
}

fn shown(app: &Inner, id: InstanceId) -> Result<RunShown, Box<Problem>> {
    let (row, store) = (find(app, id)?, app.store());
    let mut names = Names::default();
    let mut vars = Map::new();
    for (name, payload) in store.vars(row.no, ScopeNo::ROOT)? {
        vars.insert(name, crate::view::value(app, &payload)?);
    }
    let triggers = store.triggers(row.no)?;
    let triggers = triggers.iter().map(|row| names.trigger(app, row));
    let triggers: Vec<_> = triggers.collect::<Result<_, _>>()?;
    let journal = store.journal(row.no)?;
    let journal = journal.iter().map(|entry| Entry {
        at: moment(entry.at_ms),
        kind: entry.kind.clone(),
        detail: read(&entry.detail),
    });
    Ok(RunShown {
        instance: names.instance(app, &row)?,
        input: optional(app, store.input(row.no)?.as_ref())?,
        vars,
        output: optional(app, store.output(row.no)?.as_ref())?,
        triggers,
        journal: journal.collect(),
    })
}

/// The head of a run.
pub(crate) fn find(app: &Inner, id: InstanceId) -> Result<InstanceRow, Box<Problem>> {
    let missing = || windlass_runtime::Error::NotFound(id.to_string());
    Ok(app.store().instance(id)?.ok_or_else(missing)?)
}

/// Shows what a run did, node by node, the newest first.
#[utoipa::path(get, path = "/api/v1/instances/{id}/runs", tag = "instances",
    params(("id" = Uuid, Path, description = "The run."), PageAsked),
    responses((status = 200, body = Page<Run>)))]
pub(crate) async fn runs(
    State(app): State<App>,
    id: Named,
    Asked(page): Asked<PageAsked>,
) -> Result<Json<Page<Run>>, Box<Problem>> {
    let id = InstanceId(id.uuid()?);
    app.ask(move |app| {
        let row = find(app, id)?;
        let definition = app.definition(row.definition)?;
        let list = format!("runs {id}");
        let before = page.after_number(&list)?.map(RunNo);
        // A place in the history of another run would lead into that one's.
        if let Some(no) = before
            && app
                .store()
                .run(no)?
                .is_none_or(|run| run.instance != row.no)
        {
            return Err(Problem::parameter("`cursor` leads nowhere any more"));
        }
        let rows = app.store().runs(row.no, before, page.look()?)?;
        let place = |run: &windlass_store::rows::RunRow| run.no.to_string();
        page.page(&list, rows, place, |run| {
            Run::whole(app, definition.as_ref(), &run)
        })
    })
    .await
    .map(Json)
}

/// How long to wait.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wait {
    /// How long to wait for it, like `5s`; not at all if it is not there. Bounded by the host.
    pub(crate) wait: Option<String>,
}

/// How a run stands.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Outcome {
    /// Its id.
    id: Uuid,
    /// Like `running`; `completed`, `faulted` and `cancelled` are final.
    status: &'static str,
    /// Whether what was asked for, or waited for, has happened.
    done: bool,
    /// What came out, if it completed.
    output: Option<Value>,
    /// Why it faulted.
    failure: Option<Failure>,
}

impl Outcome {
    pub(crate) fn of(app: &Inner, standing: Standing) -> Result<Self, Box<Problem>> {
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

/// How a run ended, once it has, or how it stands after so long a wait.
#[utoipa::path(get, path = "/api/v1/instances/{id}/result", tag = "instances",
    params(("id" = Uuid, Path, description = "The run."), Wait),
    responses(
        (status = 200, body = Outcome, description = "The run has ended."),
        (status = 202, body = Outcome, description = "The run has not ended yet."),
    ))]
pub(crate) async fn result(
    State(app): State<App>,
    room: Option<Extension<Room>>,
    id: Named,
    Asked(wait): Asked<Wait>,
) -> Result<(StatusCode, Json<Outcome>), Box<Problem>> {
    let id = InstanceId(id.uuid()?);
    let wait_ms = wait_ms(wait.wait.as_deref(), app.bounds().wait_ms)?;
    let _stream = match room {
        Some(Extension(room)) if wait_ms > 0 => Some(room.wait(&app)?),
        _ => None,
    };
    let patience = Duration::from_millis(wait_ms);
    let standing = app.client.result(id, patience).await?;
    answer(&app, standing).await
}

/// A standing, as it is answered.
pub(crate) async fn answer(
    app: &App,
    standing: Standing,
) -> Result<(StatusCode, Json<Outcome>), Box<Problem>> {
    let status = if standing.done {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    let outcome = app.ask(move |app| Outcome::of(app, standing)).await?;
    Ok((status, Json(outcome)))
}
