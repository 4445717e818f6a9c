//! What a request brings, checked: bodies, parameters of the query, parts of the path.
//!
//! Bodies are bounded in size and in the time that they take to come. Whatever is wrong is
//! answered by a problem.

use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::codes;
use crate::problem::Problem;

/// How long a text of a request may be, in bytes, where nothing else bounds it.
const TEXT_BYTES: usize = 1024;

/// A JSON body.
pub(crate) struct Document<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Document<T> {
    type Rejection = Box<Problem>;

    async fn from_request(request: Request, app: &App) -> Result<Self, Self::Rejection> {
        let (parts, body) = request.into_parts();
        check_media(&parts.headers, |media| {
            media == "application/json" || media.ends_with("+json")
        })?;
        let bytes = read(body, app).await?;
        json(&bytes).map(Self)
    }
}

/// Reads JSON of the right shape.
pub(crate) fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Box<Problem>> {
    serde_json::from_slice(bytes).map_err(|error| {
        let reply = match error.classify() {
            serde_json::error::Category::Data => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::BAD_REQUEST,
        };
        Problem::new(
            reply,
            &codes::BODY,
            format!("the body cannot be read: {error}"),
        )
    })
}

/// Reads a body to its end.
pub(crate) async fn read(body: Body, app: &App) -> Result<Bytes, Box<Problem>> {
    let bounds = app.bounds();
    let whole = axum::body::to_bytes(body, bounds.body_bytes);
    match tokio::time::timeout(Duration::from_millis(bounds.timeout_ms), whole).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => Err(unread(&error, bounds.body_bytes)),
        Err(_) => {
            let detail = "the body has not come in time";
            Err(Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                &codes::BODY_SLOW,
                detail,
            ))
        }
    }
}

fn unread(error: &axum::Error, most: usize) -> Box<Problem> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        // The type is not exported by axum; its text is.
        if error.to_string().contains("length limit exceeded") {
            let detail = format!("the body is larger than {most} bytes");
            let reply = StatusCode::PAYLOAD_TOO_LARGE;
            return Problem::new(reply, &codes::BODY_TOO_LARGE, detail);
        }
        cause = error.source();
    }
    let detail = "the body has broken off";
    Problem::new(StatusCode::BAD_REQUEST, &codes::BODY, detail)
}

/// Refuses a body of a media type that is not taken.
pub(crate) fn check_media(
    headers: &HeaderMap,
    taken: impl Fn(&str) -> bool,
) -> Result<(), Box<Problem>> {
    let media = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .map(|essence| essence.trim().to_ascii_lowercase())
        .unwrap_or_default();
    if taken(&media) {
        return Ok(());
    }
    let detail = format!("the body is `{media}`, and `application/json` is wanted");
    let reply = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Err(Problem::new(reply, &codes::MEDIA_TYPE, detail)
        .help("Send JSON with the header `Content-Type: application/json`."))
}

/// The parameters of the query.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Asked<T> {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Self::Rejection> {
        let read: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, app).await;
        match read {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(error) => Err(Problem::parameter(format!(
                "the query cannot be understood: {}",
                error.body_text()
            ))),
        }
    }
}

/// The one part of the path that is not fixed.
pub(crate) struct Named(pub(crate) String);

impl FromRequestParts<App> for Named {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Self::Rejection> {
        let path = axum::extract::Path::<String>::from_request_parts(parts, app);
        match path.await {
            Ok(axum::extract::Path(text)) => {
                check_text("the name in the path", &text)?;
                Ok(Self(text))
            }
            Err(error) => Err(Problem::parameter(format!(
                "the path cannot be understood: {}",
                error.body_text()
            ))),
        }
    }
}

impl Named {
    /// The part as a UUID.
    pub(crate) fn uuid(&self) -> Result<uuid::Uuid, Box<Problem>> {
        self.0
            .parse()
            .map_err(|_| Problem::parameter(format!("`{}` is not a UUID", self.0)))
    }

    /// The part as a number.
    pub(crate) fn number(&self) -> Result<i64, Box<Problem>> {
        self.0
            .parse()
            .map_err(|_| Problem::parameter(format!("`{}` is not a number", self.0)))
    }
}

/// Refuses texts that no store keeps.
pub(crate) fn check_text(what: &str, text: &str) -> Result<(), Box<Problem>> {
    if text.len() > TEXT_BYTES {
        let detail = format!("{what} is longer than {TEXT_BYTES} bytes");
        return Err(Problem::body(detail));
    }
    if text.contains('\0') {
        return Err(Problem::body(format!("{what} has a zero character in it")));
    }
    Ok(())
}

/// Refuses texts that no store keeps, where one is given.
pub(crate) fn check_optional(what: &str, text: Option<&str>) -> Result<(), Box<Problem>> {
    text.map_or(Ok(()), |text| check_text(what, text))
}

/// The text of a header.
pub(crate) fn text_header<'h>(
    headers: &'h HeaderMap,
    name: &str,
) -> Result<Option<&'h str>, Box<Problem>> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    let text = value
        .to_str()
        .ok()
        .filter(|text| !text.is_empty() && text.len() <= TEXT_BYTES);
    text.map(Some).ok_or_else(|| {
        Problem::parameter(format!(
            "the header `{name}` has 1 to {TEXT_BYTES} visible ASCII characters"
        ))
    })
}

/// How long somebody waits, in milliseconds: like `5s`.
pub(crate) fn wait_ms(text: Option<&str>, most_ms: u64) -> Result<u64, Box<Problem>> {
    let Some(text) = text else {
        return Ok(0);
    };
    let ms = windlass_model::file::parse_duration_ms(text).ok_or_else(|| {
        Problem::parameter(format!(
            "`{text}` is no duration: they are like `200ms` or `5s`"
        ))
    })?;
    Ok(ms.min(most_ms))
}
