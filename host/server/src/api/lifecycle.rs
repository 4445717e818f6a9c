//! Commands that cancel, pause, continue, retry and delete runs.

use std::time::Duration;

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;
use windlass_model::RunId;
use windlass_runtime::Error;
use windlass_runtime::operations::{Operations, Retry, Standing, WithVersion};

use super::runs::{Outcome, Wait, answer};
use crate::app::App;
use crate::extract::{Data, Document, Named, QueryParams, check_optional, wait_ms};
use crate::gate::{Room, Waiting};
use crate::json::Json;
use crate::pools::Pool;
use crate::problem::Problem;

type Answer = Result<(StatusCode, Json<Outcome>), Box<Problem>>;

/// How long the request waits, and its slot in the pool of waiting requests.
type Patience = (Duration, Option<Waiting>);

pub(crate) fn patience(
    app: &App,
    room: Option<&Extension<Room>>,
    wait: &Wait,
) -> Result<Patience, Box<Problem>> {
    let wait_ms = wait_ms(wait.wait.as_deref(), app.bounds().wait_ms)?;
    let stream = match room {
        Some(Extension(room)) if wait_ms > 0 => Some(room.wait(app, Pool::Waiting)?),
        _ => None,
    };
    Ok((Duration::from_millis(wait_ms), stream))
}

/// Sends a command to a run, waits if the request asks for it, and returns the run's status.
async fn change<F>(
    app: App,
    room: Option<Extension<Room>>,
    (id, wait): (Named, Wait),
    ask: impl FnOnce(Operations, RunId, Duration) -> F,
) -> Answer
where
    F: Future<Output = Result<Standing, Error>> + Send,
{
    let (patience, _stream) = patience(&app, room.as_ref(), &wait)?;
    let id = RunId(id.uuid()?);
    let standing = ask(app.client.clone(), id, patience).await?;
    answer(&app, standing).await
}

/// Cancel a run: executions are interrupted, and waits are dropped.
#[utoipa::path(post, path = "/api/v1/runs/{id}/cancel", operation_id = "cancelRun", tag = "runs",
    params(("id" = uuid::Uuid, Path, description = "The run."), Wait),
    responses(
        (status = 200, body = Outcome, description = "The run has ended."),
        (status = 202, body = Outcome, description = "The request is stored; the owner of the run carries it out."),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "The run had ended before."),
    ))]
pub(crate) async fn cancel(
    State(app): State<App>,
    room: Option<Extension<Room>>,
    id: Named,
    QueryParams(wait): QueryParams<Wait>,
) -> Answer {
    let ask = |client: Operations, id, patience| async move { client.cancel(id, patience).await };
    change(app, room, (id, wait), ask).await
}

/// Pause a run: nothing of it begins, and triggers that become due are kept.
#[utoipa::path(post, path = "/api/v1/runs/{id}/pause", operation_id = "pauseRun", tag = "runs",
    params(("id" = uuid::Uuid, Path, description = "The run."), Wait),
    responses(
        (status = 200, body = Outcome, description = "The run is paused."),
        (status = 202, body = Outcome, description = "The request is stored; the owner of the run carries it out."),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "The run has ended."),
    ))]
pub(crate) async fn pause(
    State(app): State<App>,
    room: Option<Extension<Room>>,
    id: Named,
    QueryParams(wait): QueryParams<Wait>,
) -> Answer {
    let ask = |client: Operations, id, patience| async move { client.pause(id, patience).await };
    change(app, room, (id, wait), ask).await
}

/// Continue a paused run, with the triggers that became due meanwhile.
#[utoipa::path(post, path = "/api/v1/runs/{id}/unpause", operation_id = "unpauseRun", tag = "runs",
    params(("id" = uuid::Uuid, Path, description = "The run."), Wait),
    responses(
        (status = 200, body = Outcome, description = "The run continues."),
        (status = 202, body = Outcome, description = "The request is stored; the owner of the run carries it out."),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "The run has ended."),
    ))]
pub(crate) async fn unpause(
    State(app): State<App>,
    room: Option<Extension<Room>>,
    id: Named,
    QueryParams(wait): QueryParams<Wait>,
) -> Answer {
    let ask = |client: Operations, id, patience| async move { client.unpause(id, patience).await };
    change(app, room, (id, wait), ask).await
}

/// A request to continue a run that failed or was cancelled.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Again {
    /// The node to continue from. Default: all nodes that failed.
    from: Option<String>,
    /// Input for that node instead of its own; `null` keeps its own.
    #[schema(value_type = Option<Value>)]
    input: Option<Data>,
    /// The input of the run, in place of the one that it has; `null` keeps that. Completed nodes keep
    /// their outputs.
    #[schema(value_type = Option<Value>)]
    run_input: Option<Data>,
    /// The version of its workflow with which the run continues: `latest` for the published one, or
    /// a number. Default: the definition and the components that it has.
    definition: Option<String>,
}

/// The version that a text names.
pub(crate) fn with_version(text: &str) -> Result<WithVersion, Box<Problem>> {
    match (text, text.parse()) {
        ("latest", _) => Ok(WithVersion::Latest),
        (_, Ok(version)) => Ok(WithVersion::Number(version)),
        (_, Err(_)) => Err(Problem::body(
            "`definition` is `latest`, or the number of a version as a text",
        )),
    }
}

/// Continue a run that failed or was cancelled.
#[utoipa::path(post, path = "/api/v1/runs/{id}/retry", operation_id = "retryRun", tag = "runs", request_body = Again,
    params(("id" = uuid::Uuid, Path, description = "The run."), Wait),
    responses(
        (status = 200, body = Outcome, description = "The run has ended."),
        (status = 202, body = Outcome, description = "The run continues."),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "The run has not failed, or cannot be retried."),
    ))]
pub(crate) async fn retry(
    State(app): State<App>,
    room: Option<Extension<Room>>,
    id: Named,
    QueryParams(wait): QueryParams<Wait>,
    Document(again): Document<Again>,
) -> Answer {
    check_optional("`from`", again.from.as_deref())?;
    let retry = Retry {
        from: again.from,
        input: again.input.map(|input| input.0),
        run_input: again.run_input.map(|input| input.0),
        definition: again.definition.as_deref().map(with_version).transpose()?,
    };
    let ask =
        |client: Operations, id, patience| async move { client.retry(id, retry, patience).await };
    change(app, room, (id, wait), ask).await
}

/// Delete a run for good. A run that has not ended is cancelled first.
#[utoipa::path(delete, path = "/api/v1/runs/{id}", operation_id = "deleteRun", tag = "runs",
    params(("id" = uuid::Uuid, Path, description = "The run."), Wait),
    responses(
        (status = 204, description = "The run is deleted."),
        (status = 202, description = "The run is deleted when it has ended."),
    ))]
pub(crate) async fn delete(
    State(app): State<App>,
    room: Option<Extension<Room>>,
    id: Named,
    QueryParams(wait): QueryParams<Wait>,
) -> Result<StatusCode, Box<Problem>> {
    let (patience, _stream) = patience(&app, room.as_ref(), &wait)?;
    let gone = app.client.delete(RunId(id.uuid()?), patience).await?;
    Ok(if gone {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::ACCEPTED
    })
}
