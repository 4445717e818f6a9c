//! Pausing the host.

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_runtime::{Paused, Runtime};

use crate::app::App;
use crate::extract::{Document, Running};
use crate::json::Json;
use crate::problem::Problem;
use crate::view::moment;

/// Whether the host is paused.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Pause {
    /// The host begins no new work.
    paused: bool,
    /// The time at which the pause began.
    #[schema(required = true)]
    since: Option<String>,
    /// The pause survives a restart.
    persist: bool,
    /// Steps in progress.
    in_flight: u32,
}

fn state(runtime: &Runtime, paused: Option<Paused>) -> Json<Pause> {
    Json(Pause {
        paused: paused.is_some(),
        since: paused.map(|paused| moment(paused.since_ms)),
        persist: paused.is_some_and(|paused| paused.persist),
        in_flight: runtime.in_flight(),
    })
}

/// Report whether the host is paused.
#[utoipa::path(get, path = "/api/v1/admin/pause", operation_id = "showPause", tag = "admin",
    responses((status = 200, description = "Whether the host is paused.", body = Pause)))]
pub(crate) async fn show(Running(runtime): Running) -> Json<Pause> {
    state(&runtime, runtime.paused())
}

/// A request for a pause.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PauseRequest {
    /// The pause survives a restart: it is written into the store.
    #[serde(default)]
    persist: bool,
}

/// Pause the host: work in progress is finished, and further work waits.
#[utoipa::path(post, path = "/api/v1/admin/pause", operation_id = "pauseHost", tag = "admin", request_body = PauseRequest,
    responses((status = 200, description = "The host is paused.", body = Pause)))]
pub(crate) async fn pause(
    State(app): State<App>,
    Running(runtime): Running,
    Document(body): Document<PauseRequest>,
) -> Result<Json<Pause>, Box<Problem>> {
    let by = Arc::clone(&runtime);
    let paused = app.ask(move |_| Ok(by.pause(body.persist)?)).await?;
    tracing::warn!(persist = paused.persist, "paused: nothing new is begun");
    Ok(state(&runtime, Some(paused)))
}

/// End a pause.
#[utoipa::path(post, path = "/api/v1/admin/unpause", operation_id = "unpauseHost", tag = "admin",
    responses((status = 200, description = "The host claims new work again.", body = Pause)))]
pub(crate) async fn unpause(
    State(app): State<App>,
    Running(runtime): Running,
) -> Result<Json<Pause>, Box<Problem>> {
    let by = Arc::clone(&runtime);
    let before = app.ask(move |_| Ok(by.unpause()?)).await?;
    if before.is_some() {
        tracing::info!("the pause is over");
    }
    Ok(state(&runtime, None))
}
