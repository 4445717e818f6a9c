//! Runs that go from one store to another.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use windlass_model::InstanceId;
use windlass_runtime::client::How;
use windlass_runtime::transfer::Place;

use crate::app::App;
use crate::extract::{Asked, Named, check_media, read};
use crate::problem::Problem;

/// Takes a run out: one moment of it, with all that it needs to go on in another store. It stays
/// where it is, and as it is.
#[utoipa::path(get, path = "/api/v1/instances/{id}/export", tag = "instances",
    params(("id" = uuid::Uuid, Path, description = "The run.")),
    responses(
        (status = 200, body = serde_json::Value, description = "The run. Its form has a version \
            and is for `import` alone."),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "It has children that have not ended, is a child that has not, or is \
            too large."),
    ))]
pub(crate) async fn export(State(app): State<App>, id: Named) -> Result<Response, Box<Problem>> {
    let document = app.client.export(InstanceId(id.uuid()?)).await?;
    let media = [(header::CONTENT_TYPE, "application/json")];
    Ok((media, document).into_response())
}

/// Where a run goes.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct To {
    /// Whether it takes the place of a run that has its id.
    #[serde(default)]
    replace: bool,
    /// The id that it gets, beside the run that it was.
    #[serde(rename = "as")]
    id: Option<Uuid>,
}

/// A run that was taken in.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ImportedRun {
    /// Its id.
    id: Uuid,
    /// Where it is in its life.
    status: String,
    /// `new`, `replaced`, or `already` if the same was imported before.
    result: String,
}

/// Takes a run in. Nothing is done if what comes is not in order, or cannot go there.
#[utoipa::path(post, path = "/api/v1/instances/import", tag = "instances", params(To),
    request_body(content = serde_json::Value, description = "What `export` has answered."),
    responses(
        (status = 201, body = ImportedRun, description = "The run is there, and goes on.",
            headers(("location" = String, description = "Where the run is looked at."))),
        (status = 200, body = ImportedRun, description = "The same was imported before."),
        (status = 409, body = Problem, content_type = "application/problem+json",
            description = "There is a run of its id, somebody is at work on it, or it was \
            deleted."),
    ))]
pub(crate) async fn import(
    State(app): State<App>,
    Asked(to): Asked<To>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Box<Problem>> {
    check_media(&headers, |media| {
        media == "application/json" || media.ends_with("+json")
    })?;
    let place = match (to.replace, to.id) {
        (false, None) => Place::Free,
        (true, None) => Place::Replace,
        (false, Some(id)) => Place::As(InstanceId(id)),
        (true, Some(_)) => {
            let detail = "`replace` and `as` exclude each other";
            return Err(Problem::parameter(detail));
        }
    };
    let document = read(body, &app).await?;
    let imported = app.client.import(document, place).await?;
    let reply = match imported.how {
        How::Already => StatusCode::OK,
        How::New | How::Replaced => StatusCode::CREATED,
    };
    let location = format!("/api/v1/instances/{}", imported.id);
    let shown = ImportedRun {
        id: imported.id.0,
        status: imported.status.name().to_owned(),
        result: imported.how.name().to_owned(),
    };
    Ok((reply, [(header::LOCATION, location)], Json(shown)).into_response())
}
