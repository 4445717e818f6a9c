//! Health and metrics, for operators.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use windlass_runtime::Error;

use crate::app::App;
use crate::codes;
use crate::extract::{Named, Running};
use crate::problem::Problem;

/// Answer while the process is alive.
#[utoipa::path(get, path = "/livez", operation_id = "checkLife", tag = "health", responses((status = 200, description = "The process answers.", body = String)))]
pub(crate) async fn livez() -> &'static str {
    "ok\n"
}

/// Report whether the host accepts work.
///
/// It does not while it is paused or shutting down, while its store does not answer or is damaged,
/// or while its lease in the store does not hold. The body names the reason. While plugins are being
/// compiled, the host accepts work, and the second line of the body has their number: work that needs
/// one of them waits.
#[utoipa::path(get, path = "/readyz", operation_id = "checkReadiness", tag = "health",
    responses(
        (status = 200, description = "The host accepts work.", body = String),
        (status = 503, body = Problem, content_type = "application/problem+json",
            description = "The host is paused, shutting down, or without a store or a lease."),
    ))]
pub(crate) async fn readyz(
    State(app): State<App>,
    Running(runtime): Running,
) -> Result<String, Box<Problem>> {
    if app.is_draining() {
        return Err(Error::Draining.into());
    }
    if runtime.paused().is_some() {
        return Err(Error::Paused.into());
    }
    app.probe().await?;
    if !runtime.is_trusted() {
        let detail = "the lease of this host in its store does not hold, and it begins nothing";
        return Err(
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, &codes::NO_LEASE, detail)
                .help("See whether the store can be reached: then the host goes on by itself."),
        );
    }
    let mut text = "ok\n".to_owned();
    let awaited = app.resources().plugins()?.awaited();
    if !awaited.is_empty() {
        let left = awaited.len();
        text.push_str(&format!("plugins to be compiled: {left}\n"));
    }
    Ok(text)
}

/// Return the metrics of the host, in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", operation_id = "getMetrics", tag = "health", responses((status = 200, description = "The metrics, in the text format of Prometheus.", body = String)))]
pub(crate) async fn metrics(
    State(app): State<App>,
    Running(runtime): Running,
) -> Result<Response, Box<Problem>> {
    let text = app.count(move |_| Ok(runtime.metrics())).await?;
    let media = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    Ok((media, text).into_response())
}

/// Return the page that explains a code, as Markdown.
#[utoipa::path(get, path = "/errors/{code}", operation_id = "getErrorPage", tag = "health",
    params(("code" = String, Path, description = "Like `WL-H001`.")),
    responses((status = 200, description = "The page of the code.", body = String, content_type = "text/markdown")))]
pub(crate) async fn page(
    State(app): State<App>,
    Named(code): Named,
) -> Result<Response, Box<Problem>> {
    let missing = || Problem::not_found(format!("there is no page for `{code}`"));
    let page = (app.options.page)(&code).ok_or_else(missing)?;
    let media = [(header::CONTENT_TYPE, "text/markdown; charset=utf-8")];
    Ok((media, page).into_response())
}
