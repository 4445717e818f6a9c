//! Starting runs.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;
use windlass_model::{Digest, RunId};
use windlass_runtime::operations::Begun;
use windlass_runtime::{StartRequest, Workflow};

use super::publishing::definition;
use super::triggers::due;
use crate::app::{App, Large};
use crate::codes;
use crate::extract::{
    Data, Document, JsonText, Named, check_optional, maybe_duration_text, text_header,
};
use crate::json::Json;
use crate::problem::Problem;
use crate::workflow_file::WorkflowFile;

/// A request to start a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Start {
    /// The published workflow.
    workflow: Option<String>,
    /// A definition, as in a workflow file, instead of a published workflow.
    #[schema(value_type = Option<WorkflowFile>)]
    definition: Option<JsonText>,
    /// The input. Default: `null`.
    #[serde(default)]
    #[schema(value_type = Value)]
    input: Data,
    /// The id of the run: a UUID of any version except 8. The same request with the same id returns
    /// the same run.
    id: Option<Uuid>,
    /// The subject of the run, for people and for searches.
    correlation: Option<String>,
    /// Only create the run; it begins on request.
    #[serde(default)]
    create_only: bool,
    /// The time at which it begins, like `2026-01-31T12:00:00Z`. Default: now, or `after`.
    at: Option<String>,
    /// The delay after which it begins, like `90s`, by the clock of the host.
    #[serde(default, deserialize_with = "maybe_duration_text")]
    after: Option<String>,
}

/// The run of a request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Started {
    /// Its id.
    id: Uuid,
    /// An earlier request has started this run.
    existed: bool,
}

/// Start a run of a published workflow, or of a definition in the request.
///
/// The response is sent after the run is stored durably: from then on it is executed to its end, on
/// this host or another. With an `Idempotency-Key` the request can be repeated without starting
/// another run, for as long as the run is kept.
#[utoipa::path(
    post, path = "/api/v1/runs", operation_id = "startRun", tag = "runs", request_body = Start,
    params(("Idempotency-Key" = Option<String>, Header,
        description = "Names the request: the same key with the same request is the same run.",
        min_length = 1, max_length = 255),
        ("traceparent" = Option<String>, Header,
        description = "The W3C trace context that the run continues. A malformed one is ignored."),
        ("tracestate" = Option<String>, Header,
        description = "The state of that trace. A malformed one is dropped.")),
    responses(
        (status = 201, body = Started, description = "The run is stored.",
            headers(("location" = String, description = "The URL of the run."))),
        (status = 200, body = Started, description = "The same request was made before."),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "The id or key belongs to another request, or a run that excludes this \
            one has not ended."),
    )
)]
pub(crate) async fn start(
    State(app): State<App>,
    headers: HeaderMap,
    Document(body): Document<Start>,
) -> Result<Response, Box<Problem>> {
    check_optional("`workflow`", body.workflow.as_deref())?;
    check_optional("`correlation`", body.correlation.as_deref())?;
    let key = text_header(&headers, "idempotency-key")?.map(key_id);
    if key.is_some() && body.id.is_some() {
        let detail = "the request has both an `Idempotency-Key` and an `id`: leave one out";
        return Err(Problem::body(detail));
    }
    if let Some(id) = body.id {
        windlass_runtime::check_chosen(RunId(id))?;
    }
    let due_ms = due(&app, body.at.as_deref(), body.after.as_deref())?;
    if due_ms.is_some() && body.create_only {
        let detail = "a run that is only created has no moment at which it begins";
        return Err(Problem::body(detail));
    }
    let id = body.id.or(key).map(RunId);
    // A definition that is large is prepared before the turn ends.
    let mut turn = None;
    let workflow = match (body.workflow, body.definition) {
        (Some(workflow), None) => Workflow::Published(workflow),
        (None, Some(JsonText(text))) => {
            turn = app.large(text.len()).await?;
            let large = turn.clone();
            let given = app.ask(move |app| Large::work(large, || definition(app, None, &text)));
            Workflow::Given(given.await?)
        }
        _ => {
            let detail =
                "the request must have exactly one of `workflow` (a name) and `definition`";
            return Err(Problem::body(detail));
        }
    };
    let request = StartRequest {
        workflow,
        input: body.input.0,
        id,
        correlation: body.correlation,
        trace: crate::header::trace(&headers),
    };
    let started = match due_ms {
        _ if body.create_only => app.client.create(request).await,
        Some(at_ms) => app.client.create_for(request, at_ms).await,
        None => app.client.create_and_run(request).await,
    };
    drop(turn);
    let started = started.map_err(|error| match error {
        windlass_runtime::Error::Conflict { .. } if key.is_some() => {
            let detail = "the `Idempotency-Key` was used for another request";
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
    let place = format!("{}/api/v1/runs/{id}", base.trim_end_matches('/'));
    Ok((StatusCode::CREATED, [(header::LOCATION, place)], body).into_response())
}

/// The id of the run that an idempotency key stands for.
fn key_id(key: &str) -> Uuid {
    let digest = Digest::of(format!("idempotency-key\n{key}").as_bytes());
    let mut bytes = [0; 16];
    bytes
        .iter_mut()
        .zip(digest.0)
        .for_each(|(to, from)| *to = from);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// Begin a run that was created with `create_only` or for later. Repeating the request does nothing.
#[utoipa::path(post, path = "/api/v1/runs/{id}/begin", operation_id = "beginRun", tag = "runs",
    params(("id" = Uuid, Path, description = "The run.")),
    responses(
        (status = 200, body = Started, description = "The run begins, or had begun before."),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "The run has ended."),
    ))]
pub(crate) async fn begin(
    State(app): State<App>,
    id: Named,
) -> Result<Json<Started>, Box<Problem>> {
    let id = id.uuid()?;
    let begun = app.client.begin(RunId(id)).await?;
    let existed = begun == Begun::Before;
    Ok(Json(Started { id, existed }))
}
