//! Resume links: the holder of a link can resume a run.
//!
//! The link shows a page with a form, and only its button resumes the run: mail scanners and
//! previews, which fetch links, resume nothing.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use bytes::Bytes;
use serde_json::{Map, Value};
use windlass_keys::link::{self, Target};
use windlass_model::Payload;
use windlass_runtime::operations::Question;

use crate::app::{App, read_aside};
use crate::content;
use crate::extract::{self, Named};
use crate::form::{Form, document};
use crate::json::Json;
use crate::problem::Problem;
use crate::view::Sent;

/// Show a page with a form for the answer that the node waits for.
#[utoipa::path(get, path = "/resume/{token}", operation_id = "showResumeForm", tag = "resume",
    params(("token" = String, Path, description = "The token in the link.")),
    responses((status = 200, description = "The page with the form.", body = String, content_type = "text/html")))]
pub(crate) async fn ask(
    State(app): State<App>,
    Named(token): Named,
) -> Result<Response, Box<Problem>> {
    let form = form(&app, &token).await?;
    Ok(private(Html(form.page(None, &Map::new())).into_response()))
}

/// Resume the run that waits for this token.
///
/// The input is a JSON body, or the fields of a form. An answer that does not fit the schema
/// resumes nothing, and the link stays valid.
#[utoipa::path(post, path = "/resume/{token}", operation_id = "resumeByLink", tag = "resume",
    params(("token" = String, Path, description = "The token in the link.")),
    request_body(content = Value, description = "The input of the run. The page of the link sends \
        the fields of a form in its place."),
    responses((status = 200, description = "The run is resumed.", content((Sent = "application/json"), (String = "text/html")))))]
pub(crate) async fn resume(
    State(app): State<App>,
    Named(token): Named,
    request: Request,
) -> Result<Response, Box<Problem>> {
    let target = target(&app, &token).await?;
    let (parts, body) = request.into_parts();
    let bytes = extract::read(&parts, body, &app).await?;
    let headers = parts.headers;
    // What it has is parsed until the answer: there are few such requests at once.
    let large = app.large(bytes.len()).await?;
    let (given, headers) = read_aside(large.as_ref(), move || {
        Ok((given(&headers, &bytes)?, headers))
    })
    .await?;
    let asked = match &given {
        Given::Form(_) => Some(form(&app, &token).await?),
        Given::Json(_) => None,
    };
    let (input, fields) = match (given, &asked) {
        (Given::Form(fields), Some(form)) => (form.answer(fields.clone()), fields),
        (Given::Form(fields), None) => (Value::Object(fields), Map::new()),
        (Given::Json(value), _) => (value, Map::new()),
    };
    let mut accept = headers.get_all(header::ACCEPT).iter();
    let browser = accept.any(|value| {
        let accept = value.to_str().ok();
        accept.is_some_and(|accept| accept.contains("text/html"))
    });
    let sent = match (app.client.resume(target, Payload::of(&input)).await, &asked) {
        (Ok(sent), _) => sent,
        (Err(error), Some(form)) if browser && error.code() == windlass_runtime::codes::ANSWER => {
            let page = Html(form.page(Some(&error.to_string()), &fields));
            return Ok(private(
                (StatusCode::UNPROCESSABLE_ENTITY, page).into_response(),
            ));
        }
        (Err(error), _) => return Err(error.into()),
    };
    if sent.dropped {
        return Err(gone());
    }
    Ok(private(if browser {
        Html(document("Thank you", "<p>Thank you, it goes on.</p>")).into_response()
    } else {
        (StatusCode::OK, Json(Sent::from(sent))).into_response()
    }))
}

/// The bookmark of a token.
pub(crate) async fn target(app: &App, token: &str) -> Result<Target, Box<Problem>> {
    let token = token.to_owned();
    let read = app.ask(move |app| {
        let links = app.resources().links()?;
        Ok(link::read(links.keys(), &token).map_err(windlass_runtime::Error::Keys)?)
    });
    read.await?.ok_or_else(gone)
}

/// The form for the bookmark of a token.
async fn form(app: &App, token: &str) -> Result<Form, Box<Problem>> {
    let target = target(app, token).await?;
    let row = app.client.bookmark_of(target).await?.ok_or_else(gone)?;
    let question = Question::of(&row);
    Ok(Form::of(question.message, question.schema.as_ref()))
}

fn gone() -> Box<Problem> {
    Problem::not_found("nothing waits for this link").help(
        "It was used already, it has expired, the run is over, or the run has not come to the \
         node yet.",
    )
}

/// The kind of body that the request has.
enum Given {
    Json(Value),
    Form(Map<String, Value>),
}

fn given(headers: &HeaderMap, bytes: &Bytes) -> Result<Given, Box<Problem>> {
    if content::is_plain_form(headers)? {
        let fields = content::fields(headers, bytes)?.unwrap_or_default();
        // For a repeated name, the last value: a box that is ticked follows its default.
        let fields = fields.into_iter();
        return Ok(Given::Form(
            fields.map(|(name, value)| (name, value.into())).collect(),
        ));
    }
    if bytes.is_empty() {
        return Ok(Given::Json(Value::Null));
    }
    extract::check_media(headers, extract::JSON)?;
    let text = content::text(&content::media_text(headers)?, bytes)?;
    extract::json(text.as_bytes()).map(Given::Json)
}

/// The page must not be cached or framed, and must not reveal its link as a referrer. The policy is
/// not `no-referrer`: then a browser would send its form with the origin `null`, like a foreign page.
fn private(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "same-origin"),
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
