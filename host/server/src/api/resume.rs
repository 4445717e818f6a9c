//! Resume links: whoever has one lets a run go on.
//!
//! Following a link shows a page that asks, and only its button resumes: what fetches links to
//! show a preview of them, or to look for harm in them, resumes nothing.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use serde_json::Value;
use windlass_model::{Payload, stimulus};

use super::webhooks::query;
use crate::app::App;
use crate::extract::{self, Named};
use crate::problem::Problem;
use crate::view::Sent;

/// The page that asks. It names nothing of the run: a link may be seen by anybody.
const ASKS: &str = include_str!("resume.html");

/// Shows a page that asks whether the run is to go on.
#[utoipa::path(get, path = "/resume/{token}", tag = "resume",
    params(("token" = String, Path, description = "What the node has given away.")),
    responses((status = 200, body = String, content_type = "text/html")))]
pub(crate) async fn ask(
    State(app): State<App>,
    Named(token): Named,
) -> Result<Response, Box<Problem>> {
    let waits = app
        .ask(move |app| {
            let digest = stimulus::token_digest(&token);
            Ok(app.store().bookmark_by_token(digest)?.is_some())
        })
        .await?;
    if !waits {
        return Err(gone());
    }
    Ok(private(Html(ASKS).into_response()))
}

/// Lets the run go on that waits for this token.
///
/// A JSON body, or the fields of a form, are what it is given.
#[utoipa::path(post, path = "/resume/{token}", tag = "resume",
    params(("token" = String, Path, description = "What the node has given away.")),
    request_body(description = "What the run is given.",
        content((Value = "application/json"), (String = "application/x-www-form-urlencoded"))),
    responses((status = 200, content((Sent = "application/json"), (String = "text/html")))))]
pub(crate) async fn resume(
    State(app): State<App>,
    Named(token): Named,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Box<Problem>> {
    let bytes = extract::read(request.into_body(), &app).await?;
    let input = given(&headers, &bytes)?;
    let sent = app.client.resume(token, Payload::of(&input)).await?;
    if sent.dropped {
        return Err(gone());
    }
    let accept = headers.get(header::ACCEPT);
    let browser = accept
        .and_then(|value| value.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"));
    Ok(private(if browser {
        Html("<!doctype html><title>Thank you</title><p>Thank you, it goes on.</p>").into_response()
    } else {
        (StatusCode::OK, Json(Sent::from(sent))).into_response()
    }))
}

fn gone() -> Box<Problem> {
    Problem::not_found("nobody waits for this link any more")
        .help("It was used already, it has expired, or the run is over.")
}

/// What the run is given.
fn given(headers: &HeaderMap, bytes: &[u8]) -> Result<Value, Box<Problem>> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let is = |wanted: &'static str| extract::check_media(headers, |media| media == wanted);
    if is("application/x-www-form-urlencoded").is_ok() {
        let text =
            std::str::from_utf8(bytes).map_err(|_| Problem::body("the form is not UTF-8"))?;
        return query(text).map(Value::Object);
    }
    is("application/json")?;
    extract::json(bytes)
}

/// Nobody keeps the page, frames it, or learns of the link from it.
fn private(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
