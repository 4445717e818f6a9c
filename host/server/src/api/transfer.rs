//! Export of runs from a store, and import into another.

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windlass_body::strip_bom;
use windlass_model::RunId;
use windlass_runtime::operations::How;
use windlass_runtime::transfer::{Accept, ImportTarget};

use crate::answers;
use crate::app::{App, Large};
use crate::extract::{JSON, Named, QueryParams, check_media, read};
use crate::gate;
use crate::named::{ImportResult, RunStatus};
use crate::permissions::{Caller, Permission};
use crate::problem::Problem;

/// Export a run: a snapshot with everything that another store needs to continue it. The run itself
/// is not changed. The host signs the document with the newest key of its keyring.
#[utoipa::path(get, path = "/api/v1/runs/{id}/export", operation_id = "exportRun", tag = "runs",
    params(("id" = uuid::Uuid, Path, description = "The run.")),
    responses(
        (status = 200, body = serde_json::Value, description = "The run. Its form has a version \
            and is for `import` alone."),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "It has children that have not ended, is a child that has not, or is \
            too large."),
    ))]
pub(crate) async fn export(State(app): State<App>, id: Named) -> Result<Response, Box<Problem>> {
    let id = RunId(id.uuid()?);
    let bytes = app.client.export_bytes(id).await?.unwrap_or_default();
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    // An export that waits for its turn holds no room.
    if let Some(room) = gate::current() {
        room.no_answer();
    }
    let large = app.large(bytes).await?;
    if let Some(room) = gate::current() {
        // The data, and the document, which has them in Base64 or in texts with escapes.
        let room_bytes = bytes.saturating_mul(3).max(answers::READ);
        room.for_more(&app, room_bytes).await?;
    }
    let client = app.client.clone();
    let document = whole(large, async move { client.export(id).await }).await?;
    let media = [(header::CONTENT_TYPE, "application/json")];
    Ok((media, document).into_response())
}

/// Work that keeps its turn until it ends, also if the request is gone before.
async fn whole<T: Send + 'static>(
    turn: Option<Large>,
    work: impl Future<Output = Result<T, windlass_runtime::Error>> + Send + 'static,
) -> Result<T, Box<Problem>> {
    let done = tokio::spawn(async move {
        let done = work.await;
        drop(turn);
        done
    });
    match done.await {
        Ok(done) => Ok(done?),
        Err(error) => Err(Problem::bug(&error)),
    }
}

/// Options of an import.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct To {
    /// Replace the run with the same id.
    #[serde(default)]
    replace: bool,
    /// The id of the imported run, which then is a copy beside the original.
    #[serde(rename = "as")]
    id: Option<Uuid>,
    /// Accept a run without a signature of a known key. Needs the permission `imports.unsigned`,
    /// and marks the run for good.
    #[serde(default)]
    unsigned: bool,
}

/// The result of an import.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ImportedRun {
    /// Its id.
    id: Uuid,
    /// Its status.
    #[schema(value_type = RunStatus)]
    status: String,
    /// The result.
    #[schema(value_type = ImportResult)]
    result: String,
    /// The name of the known key that signed the export.
    #[schema(required = true)]
    signed_by: Option<String>,
}

/// Import a run. It is refused if no known key has signed it and the request does not say
/// `unsigned`, if the document is not valid, or if its place is taken.
#[utoipa::path(post, path = "/api/v1/runs/import", operation_id = "importRun", tag = "runs", params(To),
    request_body(content = serde_json::Value, description = "The answer of `export`."),
    responses(
        (status = 201, body = ImportedRun, description = "The run exists and continues.",
            headers(("location" = String, description = "The URL of the run."))),
        (status = 200, body = ImportedRun, description = "The same was imported before."),
        (status = 403, body = Problem, content_type = "application/problem+json",
            description = "The request says `unsigned`, and the caller lacks the permission \
            `imports.unsigned`; or it comes from a page in a browser that is not of this host."),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "A run with this id exists, a member owns the run, or the run was \
            deleted."),
    ))]
pub(crate) async fn import(
    State(app): State<App>,
    QueryParams(to): QueryParams<To>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Box<Problem>> {
    let accept = match to.unsigned {
        false => Accept::Signed,
        true if caller.may(Permission::ImportsUnsigned) => Accept::Unsigned,
        true => return Err(Problem::forbidden(Permission::ImportsUnsigned)),
    };
    let (parts, body) = request.into_parts();
    check_media(&parts.headers, JSON)?;
    let place = match (to.replace, to.id) {
        (false, None) => ImportTarget::Free,
        (true, None) => ImportTarget::Replace,
        (false, Some(id)) => ImportTarget::As(RunId(id)),
        (true, Some(_)) => {
            let detail = "`replace` and `as` exclude each other";
            return Err(Problem::parameter(detail));
        }
    };
    let document = read(&parts, body, &app).await?;
    let mark = document.len() - strip_bom(&document).len();
    let document = document.slice(mark..);
    let large = app.large(document.len()).await?;
    let client = app.client.clone();
    let imported = whole(large, async move {
        client.import(document, place, accept).await
    });
    let imported = imported.await?;
    let reply = match imported.how {
        How::Already => StatusCode::OK,
        How::New | How::Replaced => StatusCode::CREATED,
    };
    let location = format!("/api/v1/runs/{}", imported.id);
    let shown = ImportedRun {
        id: imported.id.0,
        status: imported.status.name().to_owned(),
        result: imported.how.name().to_owned(),
        signed_by: imported.seal.signer().map(|name| name.to_string()),
    };
    Ok((reply, [(header::LOCATION, location)], Json(shown)).into_response())
}
