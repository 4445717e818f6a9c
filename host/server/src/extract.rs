//! Extracts and checks the parts of a request: bodies, parameters of the query, parts of the path.
//!
//! Bodies are bounded in size and in the time that they take to arrive. Every mistake is answered
//! with a problem.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use windlass_body::{Inflate, MediaType, header_text, inflate, is_coded};
use windlass_model::Payload;
use windlass_model::file::NoTime;
use windlass_model::valid;
use windlass_runtime::Runtime;

use crate::app::{App, read_aside};
use crate::codes;
use crate::content;
use crate::gate::Room;
use crate::listen::now;
use crate::problem::Problem;

/// How long a text of a request may be, in bytes, unless another bound applies.
const TEXT_BYTES: usize = 1024;

/// A JSON body.
pub(crate) struct Document<T>(pub(crate) T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for Document<T> {
    type Rejection = Box<Problem>;

    async fn from_request(request: Request, app: &App) -> Result<Self, Self::Rejection> {
        let (parts, body) = request.into_parts();
        check_media(&parts.headers, JSON)?;
        let bytes = read(&parts, body, app).await?;
        let media = content::media_text(&parts.headers)?.into_owned();
        let large = app.large(bytes.len()).await?;
        read_aside(large.as_ref(), move || document(&media, &bytes))
            .await
            .map(Self)
    }
}

fn document<T: DeserializeOwned>(media: &str, bytes: &Bytes) -> Result<T, Box<Problem>> {
    let text = content::text(media, bytes)?;
    // A list would be read as the values of the members in their order.
    let first = text.trim_ascii_start().chars().next();
    if first == Some('[') {
        return Err(Problem::body("the body is a list, and an object is wanted"));
    }
    json(text.as_bytes())
}

/// A value in a document. It is not kept as it is parsed, because that takes many times the memory
/// of its text.
#[derive(Debug)]
pub(crate) struct Data(pub(crate) Payload);

impl Default for Data {
    fn default() -> Self {
        Self(Payload::of(&Value::Null))
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        Value::deserialize(reader).map(|value| Self(Payload::of(&value)))
    }
}

/// The JSON text of a value in a document.
#[derive(Debug)]
pub(crate) struct JsonText(pub(crate) String);

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        Value::deserialize(reader).map(|value| Self(value.to_string()))
    }
}

/// How deep lists and objects may nest in JSON.
pub(crate) const DEPTH: usize = 127;

/// The problem of JSON that nests too deeply.
pub(crate) fn too_deep(most: usize) -> Box<Problem> {
    let detail = format!("the lists and objects of the body nest deeper than {most} levels");
    Problem::new(StatusCode::BAD_REQUEST, &codes::BODY, detail)
}

/// Reads JSON into a type.
pub(crate) fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Box<Problem>> {
    serde_json::from_slice(bytes).map_err(|error| {
        let text = error.to_string();
        let reply = match error.classify() {
            serde_json::error::Category::Data => StatusCode::UNPROCESSABLE_ENTITY,
            // The library has no other sign of it.
            _ if text.starts_with("recursion limit exceeded") => return too_deep(DEPTH),
            _ => StatusCode::BAD_REQUEST,
        };
        let detail = format!("the body cannot be read: {}", in_words(&text));
        Problem::new(reply, &codes::BODY, detail)
    })
}

/// The text of an error of the JSON reader in the words of JSON, without the names of our types.
fn in_words(text: &str) -> String {
    let words = |text: &str| {
        let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
        let (word, rest) = match first {
            "map" => ("an object", rest),
            "sequence" => ("a list", rest),
            "a" if rest == "map" => ("an object", ""),
            "a" if rest == "sequence" => ("a list", ""),
            "u8" | "u16" | "u32" | "u64" | "usize" | "i64" => ("an integer", rest),
            "struct" => ("an object", rest.split_once(' ').unwrap_or_default().1),
            _ => (first, rest),
        };
        format!("{word} {rest}").trim_end().to_owned()
    };
    // The value that was found may be any text.
    let parts = text.rsplit_once("expected ");
    match parts.map(|(before, wanted)| (before.strip_prefix("invalid type: "), before, wanted)) {
        Some((Some(found), _, wanted)) => {
            let found = words(found.trim_end_matches(", "));
            let (wanted, place) = wanted.split_at(wanted.find(" at line ").unwrap_or(wanted.len()));
            format!("expected {}, found {found}{place}", words(wanted))
        }
        Some((None, before, wanted)) => format!("{before}expected {}", words(wanted)),
        None => text.to_owned(),
    }
}

/// How long a body may take to arrive regardless of its rate.
const GRACE: Duration = Duration::from_secs(5);

/// The content codings that are removed, for `Accept-Encoding`.
const ACCEPTED: &str = "gzip, deflate, br, zstd";

/// How many bytes of a body are read that the handler does not need.
const DRAINED_BYTES: usize = 64 * 1024;

/// Reads a body to its end, without the content codings that its headers name.
pub(crate) async fn read(parts: &Parts, body: Body, app: &App) -> Result<Bytes, Box<Problem>> {
    inflated(&parts.headers, as_sent(parts, body, app).await?, app).await
}

/// A body without its content codings, within the bound of a body.
pub(crate) async fn inflated(
    headers: &HeaderMap,
    bytes: Bytes,
    app: &App,
) -> Result<Bytes, Box<Problem>> {
    let codings = headers.get_all(header::CONTENT_ENCODING).iter();
    let codings: Vec<_> = codings.map(|value| header_text(value.as_bytes())).collect();
    let codings = codings.join(",");
    if !is_coded(&codings) {
        return Ok(bytes);
    }
    let most = app.bounds().body_bytes;
    // Decoders take memory and time: no more of them are at work than may use the store.
    app.ask(move |app| {
        let mut memory = app.bodies.inflating();
        let inflated = inflate(&codings, &bytes, most, &mut memory);
        let inflated: Bytes = match inflated.map_err(|error| not_inflated(&error))? {
            Cow::Borrowed(_) => return Ok(bytes.clone()),
            Cow::Owned(inflated) => inflated.into(),
        };
        Ok(match memory.into_charge() {
            Some(charge) => charge.hold(inflated),
            None => inflated,
        })
    })
    .await
}

/// The problem of a body whose content codings cannot be removed.
fn not_inflated(error: &Inflate) -> Box<Problem> {
    let (reply, code) = match error {
        Inflate::Unknown(_) | Inflate::TooMany(_) => {
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, &codes::MEDIA_TYPE)
        }
        Inflate::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, &codes::BODY_TOO_LARGE),
        Inflate::Broken(_) => (StatusCode::BAD_REQUEST, &codes::BODY),
        Inflate::NoMemory => (StatusCode::SERVICE_UNAVAILABLE, &codes::BUSY),
    };
    let problem = Problem::new(reply, code, format!("the body cannot be read: {error}"));
    match reply {
        StatusCode::UNSUPPORTED_MEDIA_TYPE => problem
            .header(header::ACCEPT_ENCODING, ACCEPTED)
            .help("Send the body without `Content-Encoding`, or with one of these."),
        _ => problem,
    }
}

/// Reads a body to its end, as it was sent. It has to arrive within a time, and at a minimum rate.
/// Its bytes are charged before it grows, until the request ends.
pub(crate) async fn as_sent(parts: &Parts, body: Body, app: &App) -> Result<Bytes, Box<Problem>> {
    let room = parts.extensions.get::<Room>();
    let bounds = app.bounds();
    if body.size_hint().lower() > bounds.body_bytes as u64 {
        return Err(too_large(bounds.body_bytes));
    }
    let begun = now();
    let last = begun + Duration::from_millis(bounds.timeout_ms);
    let mut chunks = body.into_data_stream();
    let (mut first, mut more) = (Bytes::new(), Vec::new());
    loop {
        let read = first.len() + more.len();
        let due = due(read, bounds.body_rate).map_or(last, |due| last.min(begun + due));
        let chunk = match tokio::time::timeout_at(due, chunks.next()).await {
            Ok(Some(Ok(chunk))) => chunk,
            Ok(Some(Err(_))) => {
                let detail = "the body has broken off";
                return Err(Problem::new(StatusCode::BAD_REQUEST, &codes::BODY, detail));
            }
            Ok(None) => break,
            Err(_) => {
                let detail = "the body has not come in time";
                let reply = StatusCode::REQUEST_TIMEOUT;
                return Err(Problem::new(reply, &codes::BODY_SLOW, detail));
            }
        };
        if read.saturating_add(chunk.len()) > bounds.body_bytes {
            return Err(too_large(bounds.body_bytes));
        }
        if let Some(room) = room {
            room.for_body(app, read.saturating_add(chunk.len())).await?;
        }
        // Most bodies arrive in one piece, which is not copied.
        if read == 0 {
            first = chunk;
            continue;
        }
        if more.is_empty() {
            more.extend_from_slice(&std::mem::take(&mut first));
        }
        more.extend_from_slice(&chunk);
    }
    Ok(if more.is_empty() { first } else { more.into() })
}

/// The time by which further bytes have to arrive; none without a minimum rate.
fn due(read: usize, rate: u64) -> Option<Duration> {
    let ms = (read as u64).saturating_mul(1000).checked_div(rate)?;
    Some(GRACE + Duration::from_millis(ms))
}

/// Reads the bytes of an unneeded body that have arrived, without waiting: a client that has sent a
/// small body keeps its connection.
pub(crate) fn drain(headers: &HeaderMap, body: Body) {
    // The client waits for `100 Continue` before it sends the body.
    if headers.contains_key(header::EXPECT) {
        return;
    }
    let mut chunks = body.into_data_stream();
    let mut taken = 0_usize;
    while taken < DRAINED_BYTES
        && let Some(Some(Ok(chunk))) = chunks.next().now_or_never()
    {
        taken = taken.saturating_add(chunk.len());
    }
}

fn too_large(most: usize) -> Box<Problem> {
    let detail = format!("the body is larger than {most} bytes");
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        &codes::BODY_TOO_LARGE,
        detail,
    )
}

/// The media types of the bodies of a route.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    /// Whether a media type, in lower case and without parameters, is one of them.
    pub(crate) takes: fn(&str) -> bool,
    /// Their names, the first one being the usual one.
    pub(crate) names: &'static [&'static str],
}

/// JSON.
pub(crate) const JSON: Taken = Taken {
    takes: |media| media == "application/json" || media.ends_with("+json"),
    names: &["application/json"],
};

/// A workflow file.
pub(crate) const WORKFLOW: Taken = Taken {
    takes: |media| matches!(media, "application/json" | "application/yaml"),
    names: &["application/yaml", "application/json"],
};

/// Refuses a body whose media type is not accepted.
pub(crate) fn check_media(headers: &HeaderMap, taken: Taken) -> Result<(), Box<Problem>> {
    let media = MediaType::of(&content::media_text(headers)?).essence;
    if (taken.takes)(&media) {
        return Ok(());
    }
    let names = taken.names.join("` or `");
    let shown: String = media.chars().take(TEXT_BYTES).collect();
    let detail = match media.as_str() {
        "" => format!("the body has no media type, and `{names}` is wanted"),
        _ => format!("the body is `{shown}`, and `{names}` is wanted"),
    };
    let usual = taken.names.first().copied().unwrap_or_default();
    let reply = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Err(Problem::new(reply, &codes::MEDIA_TYPE, detail)
        .help(format!("Send the header `Content-Type: {usual}`.")))
}

/// The parameters of the query.
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for QueryParams<T> {
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

/// The runtime of this process, for requests that need one.
pub(crate) struct Running(pub(crate) Arc<Runtime>);

impl FromRequestParts<App> for Running {
    type Rejection = Box<Problem>;

    async fn from_request_parts(_: &mut Parts, app: &App) -> Result<Self, Self::Rejection> {
        let missing = || Problem::not_found("this process runs no workflows");
        let runtime = app.runtime().map(Arc::clone);
        runtime.map(Self).ok_or_else(missing)
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

/// The two parts of the path that are not fixed: the second one is within the first one.
pub(crate) struct NamedIn(pub(crate) Named, pub(crate) Named);

impl FromRequestParts<App> for NamedIn {
    type Rejection = Box<Problem>;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Self::Rejection> {
        let path = axum::extract::Path::<(String, String)>::from_request_parts(parts, app);
        let axum::extract::Path((first, second)) = path.await.map_err(|error| {
            let text = error.body_text();
            Problem::parameter(format!("the path cannot be understood: {text}"))
        })?;
        for text in [&first, &second] {
            check_text("the name in the path", text)?;
        }
        Ok(Self(Named(first), Named(second)))
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

/// Refuses texts that the store cannot keep.
pub(crate) fn check_text(what: &str, text: &str) -> Result<(), Box<Problem>> {
    let kind = valid::Kind::new(what, 0, TEXT_BYTES);
    kind.check(text)
        .map_err(|wrong| Problem::body(wrong.to_string()))
}

/// Refuses an optional text that the store cannot keep.
pub(crate) fn check_optional(what: &str, text: Option<&str>) -> Result<(), Box<Problem>> {
    text.map_or(Ok(()), |text| check_text(what, text))
}

/// The text of a header that has one value.
pub(crate) fn text_header<'h>(
    headers: &'h HeaderMap,
    name: &str,
) -> Result<Option<&'h str>, Box<Problem>> {
    let Some(value) = crate::header::one(headers, name)? else {
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

/// The problem of a text in a body that is no duration or no instant.
pub(crate) fn no_time(wrong: NoTime) -> Box<Problem> {
    Problem::body(wrong.message).help(wrong.help)
}

/// The text of a duration in a body. The error about a number says that it has no unit.
pub(crate) fn duration_text<'de, D: Deserializer<'de>>(body: D) -> Result<String, D::Error> {
    match Value::deserialize(body)? {
        Value::String(text) => Ok(text),
        Value::Number(number) => Err(de::Error::custom(NoTime::unitless(&number))),
        _ => Err(de::Error::custom("a duration is a text, like `90s`")),
    }
}

/// As [`duration_text`], for a member that may be absent or null.
pub(crate) fn maybe_duration_text<'de, D: Deserializer<'de>>(
    body: D,
) -> Result<Option<String>, D::Error> {
    match Option::<Value>::deserialize(body)? {
        None => Ok(None),
        Some(value) => duration_text(value).map(Some).map_err(de::Error::custom),
    }
}

/// A duration as a request may write it.
fn written_ms(ms: u64) -> String {
    match ms {
        ms if ms % 60_000 == 0 && ms > 0 => format!("{}m", ms / 60_000),
        ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    }
}

/// How long a request waits, in milliseconds, from a text like `5s`.
pub(crate) fn wait_ms(text: Option<&str>, most_ms: u64) -> Result<u64, Box<Problem>> {
    let Some(text) = text else {
        return Ok(0);
    };
    let ms = windlass_model::file::duration_ms(text)
        .map_err(|wrong| Problem::parameter(wrong.message).help(wrong.help))?;
    if ms > most_ms {
        let detail = format!(
            "`wait` is {text}, and a request waits for at most {}",
            written_ms(most_ms)
        );
        let reply = StatusCode::BAD_REQUEST;
        return Err(Problem::new(reply, &codes::WAIT_TOO_LONG, detail)
            .help("Ask for a shorter wait, and repeat the request while the answer is 202."));
    }
    Ok(ms)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::in_words;

    #[derive(Debug, Deserialize)]
    struct Start {
        #[expect(dead_code, reason = "it is only read")]
        workflow: String,
    }

    #[test]
    fn a_value_of_another_kind_is_named_in_the_words_of_json() {
        fn check<T: serde::de::DeserializeOwned + std::fmt::Debug>(json: &str, expected: &str) {
            let error = serde_json::from_str::<T>(json).unwrap_err().to_string();
            assert_eq!(in_words(&error), expected);
        }
        check::<Vec<u8>>("{}", "expected a list, found an object at line 1 column 0");
        check::<BTreeMap<String, u8>>("[]", "expected an object, found a list at line 1 column 0");
        check::<Start>(
            "5",
            "expected an object, found integer `5` at line 1 column 1",
        );
        check::<Start>(
            r#"{"workflow":{}}"#,
            "expected a string, found an object at line 1 column 12",
        );
        check::<u8>(
            r#""map, expected a map""#,
            r#"expected an integer, found string "map, expected a map" at line 1 column 21"#,
        );
        check::<Start>("{}", "missing field `workflow` at line 1 column 2");
        check::<Start>(
            "[]",
            "invalid length 0, expected an object with 1 element at line 1 column 2",
        );
    }
}
