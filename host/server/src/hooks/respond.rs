//! The answer that a node of a run gives to the sender of a request.
//!
//! The output of the node is data that may contain a stranger's text. So the answer runs no script
//! in a browser, sets no cookie and no policy for the whole host, and has bounds: [`HEADERS`]
//! headers of [`HEADER_BYTES`] each and [`HEADERS_BYTES`] together, and a body of `max-answer`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use windlass_model::http::Respond;
use windlass_model::{Digest, ExecutionNo, ExecutionStatus, Payload, RunId, RunNo};
use windlass_runtime::RunWatch;
use windlass_runtime::operations::{Delivered, Expected};
use windlass_store::rows::RunRow;

use super::Direct;
use crate::app::{App, AppInner, Large};
use crate::codes;
use crate::gate::Room;
use crate::newer::newer;
use crate::problem::Problem;
use crate::view;

/// How many headers an answer may have.
const HEADERS: usize = 32;

/// The longest output, in bytes, that is made an answer on the thread of its request.
const HERE_BYTES: u64 = 16 * 1024;

const TOO_MANY: &str = "it has more than 32 headers, or more than 16 KiB of them";

/// How long a header of an answer may be, in bytes.
const HEADER_BYTES: usize = 4096;

/// How long the names and values of all headers of an answer may be together, in bytes.
const HEADERS_BYTES: usize = 16 * 1024;

const NO_STATUS: &str = "its `status` is no whole number from 200 to 599";

const TOO_LONG: &str = "its `body` is longer than `max-answer` of [server]";

/// Headers that an answer must not have: those of the connection, those about the encoding of the
/// body, and those with an effect beyond this answer.
const REFUSED: &[&str] = &[
    "accept-ch",
    "alt-svc",
    "clear-site-data",
    "connection",
    "content-encoding",
    "content-length",
    "content-security-policy",
    "content-security-policy-report-only",
    "date",
    "keep-alive",
    "nel",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "public-key-pins",
    "refresh",
    "report-to",
    "reporting-endpoints",
    "service-worker-allowed",
    "set-cookie",
    "set-cookie2",
    "strict-transport-security",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-content-type-options",
];

/// The first of these triggers with an answering node: the trigger, the node and its time limit.
pub(crate) fn node_of<'d>(
    direct: impl IntoIterator<Item = &'d Direct>,
) -> Option<(&'d Direct, &'d str, u64)> {
    direct
        .into_iter()
        .find_map(|direct| match &direct.rules.respond {
            Respond::Node { node, within_ms } => Some((direct, node.as_str(), *within_ms)),
            Respond::Accepted => None,
        })
}

/// The result of a look at the store.
enum Look {
    /// The output of the node; none if it has no value.
    Given(Option<Payload>),
    /// The run has ended without an output of the node.
    Ended,
    /// The run has not ended; with the newest execution that was read.
    Later(Option<ExecutionNo>),
}

/// Waits for the answer of a node; none if it did not come in time.
///
/// # Errors
///
/// The run has ended without the node, the output of the node is no valid answer, or the store
/// fails.
pub(crate) async fn answer(
    app: &App,
    room: Option<&Room>,
    (run, expected): (Delivered, Option<Expected>),
    node: &str,
    patience: Duration,
) -> Result<Option<Response>, Box<Problem>> {
    let mut closing = app.closing();
    let clock = &app.options.clock;
    let end = clock.monotonic().saturating_add(patience);
    let id = run.id;
    if let Some(expected) = expected {
        let output = tokio::select! {
            output = expected.output(patience) => output,
            _ = closing.changed() => None,
        };
        if let Some(output) = output {
            return given(app, room, node, output).await.map(Some);
        }
    }
    // The number is nearly always known, so that one look is enough before the first wait.
    let mut watch: Option<(RunNo, RunWatch)> = match run.no {
        Some(no) => Some((no, app.client.watch(no).await?)),
        None => None,
    };
    let (mut seen, mut known) = (None, None);
    loop {
        let (wanted, last, place) = (node.to_owned(), seen, known);
        let looked = app
            .ask(move |app| look(app, id, &wanted, place, last))
            .await?;
        // A repeated delivery can outlive its run.
        let Some((look, place, row)) = looked else {
            return Ok(None);
        };
        known = Some(place);
        match look {
            Look::Given(output) => {
                return given(app, room, node, output).await.map(Some);
            }
            Look::Ended => return Err(unanswered(node, "the run has ended without it")),
            Look::Later(newest) => seen = newest,
        }
        let left = end.saturating_sub(clock.monotonic());
        if left.is_zero() || *closing.borrow() {
            return Ok(None);
        }
        let watch = match &mut watch {
            Some((no, watch)) if *no == row.no => watch,
            // The first look has given the number. The next one sees what came in between.
            other => {
                *other = Some((row.no, app.client.watch(row.no).await?));
                continue;
            }
        };
        watch.saw(&row);
        tokio::select! {
            _ = tokio::time::timeout(left, watch.changed()) => {}
            _ = closing.changed() => {}
        }
    }
}

/// A definition, and the position of the node in it.
type NodeOfDefinition = (Digest, Option<u32>);

/// Looks for the first completed execution of a node among the new ones. None: the run does not
/// exist any more.
fn look(
    app: &AppInner,
    id: RunId,
    node: &str,
    known: Option<NodeOfDefinition>,
    last: Option<ExecutionNo>,
) -> Result<Option<(Look, NodeOfDefinition, RunRow)>, Box<Problem>> {
    // Read the head first: if it says that the run has ended, all executions are in the store.
    let Some(row) = app.store().run(id)? else {
        return Ok(None);
    };
    let place = match known.filter(|(digest, _)| *digest == row.definition) {
        Some(place) => place,
        None => {
            let nodes = app.nodes(row.definition)?;
            let at = nodes.and_then(|nodes| nodes.position(node));
            (row.definition, at)
        }
    };
    let (mut newest, mut given) = (None, None);
    newer(app, row.no, last, |execution| {
        newest = newest.or(Some(execution.no));
        if Some(execution.node) == place.1 && execution.status == ExecutionStatus::Completed {
            given = Some(execution.output);
        }
        ControlFlow::Continue(())
    })?;
    let look = match given {
        Some(output) => Look::Given(output),
        None if row.status.is_final() => Look::Ended,
        None => Look::Later(newest.or(last)),
    };
    Ok(Some((look, place, row)))
}

/// Makes the answer of an output, within the bound of an answer and in the room for it.
async fn given(
    app: &App,
    room: Option<&Room>,
    node: &str,
    output: Option<Payload>,
) -> Result<Response, Box<Problem>> {
    let most = app.bounds().answer_bytes;
    let output = output.unwrap_or_else(Payload::null);
    // Base64 is a third longer than its bytes, and escapes make a text up to six times as long.
    let largest = most.saturating_mul(6).saturating_add(HEADERS_BYTES * 6);
    if output.len() > largest as u64 {
        return Err(unanswered(node, TOO_LONG));
    }
    if let Some(room) = room {
        room.for_answer(app, output_room(&output, most)).await?;
    }
    if output.len() <= HERE_BYTES && output.inline().is_some() {
        // Nothing is read from the store.
        let output = view::value(app, &output)?;
        return read(output.json(), most).map_err(|wrong| unanswered(node, wrong));
    }
    let large = app.large(bytes_of(&output)).await?;
    let read = app.ask(move |app| {
        Large::work(large, || {
            let output = view::value(app, &output)?;
            Ok(read(output.json(), most))
        })
    });
    read.await?.map_err(|wrong| unanswered(node, wrong))
}

/// The room for an answer, in bytes: the output, a copy of it, and the body that is made of it.
fn output_room(output: &Payload, most: usize) -> usize {
    let size = bytes_of(output);
    size.saturating_mul(2).saturating_add(most.min(size))
}

fn bytes_of(output: &Payload) -> usize {
    usize::try_from(output.len()).unwrap_or(usize::MAX)
}

fn unanswered(node: &str, wrong: &str) -> Box<Problem> {
    let detail = format!("the node `{node}` gave no answer that can be sent: {wrong}");
    Problem::new(StatusCode::BAD_GATEWAY, &codes::NO_ANSWER, detail)
}

/// Characters of an address that have to be encoded (RFC 3986, appendix A). An existing encoding
/// stays as it is, since `%` is none of them.
const NOT_IN_ADDRESS: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Makes an answer of an output: `{ status, headers, body }`, each optional. `most_bytes` bounds its
/// body. A body that is JSON is not parsed: it could take many times its size.
fn read(output: &RawValue, most_bytes: usize) -> Result<Response, &'static str> {
    let members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(output.get())
        .map_err(|_| "its output is no object with `status`, `headers` and `body`")?;
    let known = |name: &Cow<'_, str>| ["status", "headers", "body"].contains(&name.as_ref());
    if !members.keys().all(known) {
        return Err("its output has more than `status`, `headers` and `body`");
    }
    let member = |name: &str, otherwise| match members.get(name) {
        Some(raw) if raw.get().len() > HEADERS_BYTES * 6 => Err(otherwise),
        Some(raw) => Ok(serde_json::from_str::<Value>(raw.get()).ok()),
        None => Ok(None),
    };
    let status = status(member("status", NO_STATUS)?.as_ref())?;
    let mut headers = headers(member("headers", TOO_MANY)?.as_ref())?;
    let (media, body) = match members.get("body").map(|body| body.get()) {
        None | Some("null") => (None, Vec::new()),
        Some(raw) if raw.starts_with('"') => {
            let text = serde_json::from_str(raw).map_err(|_| "its body cannot be written")?;
            let text: String = text;
            (Some("text/plain; charset=utf-8"), text.into_bytes())
        }
        Some(raw) => match encoded(raw)? {
            Some(bytes) => (Some("application/octet-stream"), bytes),
            None => (Some("application/json"), raw.as_bytes().to_vec()),
        },
    };
    if body.len() > most_bytes {
        return Err(TOO_LONG);
    }
    let is_bodiless = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
    if is_bodiless && !body.is_empty() {
        return Err("its status has no body");
    }
    if let Some(media) = media.filter(|_| !headers.contains_key(header::CONTENT_TYPE)) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    }
    // The body may contain a stranger's text.
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox; default-src 'none'"),
    );
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    Ok((status, headers, Body::from(body)).into_response())
}

/// The bytes of a body `{ base64 }`; none if the body is another value.
fn encoded(raw: &str) -> Result<Option<Vec<u8>>, &'static str> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Encoded<'a> {
        #[serde(borrow)]
        base64: &'a RawValue,
    }
    // A list of one value would be read as the members in their order.
    let members = raw.starts_with('{').then(|| serde_json::from_str(raw));
    let Some(Ok(Encoded { base64 })) = members else {
        return Ok(None);
    };
    let text: Option<String> = serde_json::from_str(base64.get()).ok();
    let bytes = text.and_then(|text| STANDARD.decode(text).ok());
    let bytes = bytes.ok_or("its `body` has a `base64` that is not Base64")?;
    Ok(Some(bytes))
}

fn status(value: Option<&Value>) -> Result<StatusCode, &'static str> {
    let Some(value) = value else {
        return Ok(StatusCode::OK);
    };
    let number = value.as_u64().filter(|number| (200..600).contains(number));
    let number = number.and_then(|number| u16::try_from(number).ok());
    let status = number.and_then(|number| StatusCode::from_u16(number).ok());
    status.ok_or(NO_STATUS)
}

fn headers(value: Option<&Value>) -> Result<HeaderMap, &'static str> {
    let none = Map::new();
    let members = match value {
        None | Some(Value::Null) => &none,
        Some(Value::Object(members)) => members,
        Some(_) => return Err("its `headers` are no object"),
    };
    if members.len() > HEADERS {
        return Err(TOO_MANY);
    }
    let mut headers = HeaderMap::with_capacity(members.len() + 3);
    let mut bytes = 0;
    for (name, value) in members {
        let name = HeaderName::from_bytes(name.as_bytes());
        let name = name.map_err(|_| "a header has a name that cannot be sent")?;
        let text = name.as_str();
        if REFUSED.contains(&text) || text.starts_with("access-control-") {
            return Err("it has a header that an answer may not have");
        }
        if headers.contains_key(&name) {
            return Err("it has a header twice");
        }
        let values = match value {
            Value::Array(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        for value in values {
            let text = match value {
                Value::Number(number) => Some(number.to_string()),
                value => value.as_str().map(str::to_owned),
            };
            let value = text.and_then(|text| header_value(&name, &text));
            let value = value.ok_or("a header has a value that cannot be sent")?;
            bytes += name.as_str().len() + value.len();
            if headers.len() == HEADERS || bytes > HEADERS_BYTES {
                return Err(TOO_MANY);
            }
            headers.append(name.clone(), value);
        }
    }
    Ok(headers)
}

/// The value of a header. An address is sent in ASCII.
fn header_value(name: &HeaderName, text: &str) -> Option<HeaderValue> {
    let is_address = [header::LOCATION, header::CONTENT_LOCATION].contains(name);
    let has_line = text.contains(['\r', '\n', '\0']);
    let text = match is_address && !has_line {
        true => utf8_percent_encode(text, NOT_IN_ADDRESS).into(),
        false => Cow::Borrowed(text),
    };
    let value = HeaderValue::from_str(&text).ok();
    value.filter(|value| value.len() <= HEADER_BYTES)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use serde_json::json;

    use super::*;

    fn read(output: &Value, most_bytes: usize) -> Result<Response, &'static str> {
        let output = serde_json::value::to_raw_value(output).unwrap();
        super::read(&output, most_bytes)
    }

    #[test]
    fn an_output_becomes_an_answer_that_runs_nothing() {
        let output = json!({
            "status": 201, "headers": { "Location": "/a", "X-A": 1 }, "body": "<script>",
        });
        let answer = read(&output, 100).unwrap();
        assert_eq!(answer.status(), StatusCode::CREATED);
        let header = |name: &str| {
            answer
                .headers()
                .get(name)
                .map(|value| value.to_str().unwrap())
        };
        assert_eq!(header("location"), Some("/a"));
        assert_eq!(header("x-a"), Some("1"));
        assert_eq!(header("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(header("x-content-type-options"), Some("nosniff"));
        let policy = Some("sandbox; default-src 'none'");
        assert_eq!(header("content-security-policy"), policy);
        let html = json!({ "headers": { "content-type": "text/html" }, "body": { "a": 1 } });
        let answer = read(&html, 100).unwrap();
        assert_eq!(answer.headers().get("content-type").unwrap(), "text/html");
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(answer.headers().contains_key("content-security-policy"));
        let address = |text: &str| {
            let answer = read(&json!({ "headers": { "location": text } }), 100).unwrap();
            answer
                .headers()
                .get("location")
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        };
        let encoded = "https://example.com/%C3%A9%20?a%20b=%7B%7D#[x]";
        assert_eq!(address("https://example.com/é%20?a b={}#[x]"), encoded);
        let bytes = json!({ "body": { "base64": "iVBORw==" } });
        let answer = read(&bytes, 4).unwrap();
        let media = answer.headers().get("content-type").unwrap();
        assert_eq!(media, "application/octet-stream");
        let body = axum::body::to_bytes(answer.into_body(), 100).now_or_never();
        assert_eq!(&body.unwrap().unwrap()[..], b"\x89PNG");
        let png = json!({ "headers": { "Content-Type": "image/png" }, "body": { "base64": "" } });
        let answer = read(&png, 4).unwrap();
        assert_eq!(answer.headers().get("content-type").unwrap(), "image/png");
        let other = json!({ "body": { "base64": "AA==", "x": 1 } });
        let answer = read(&other, 100).unwrap();
        assert_eq!(
            answer.headers().get("content-type").unwrap(),
            "application/json"
        );
        let links = json!({ "headers": { "Link": ["</a>", "</b>"] } });
        let answer = read(&links, 100).unwrap();
        assert_eq!(answer.headers().get_all("link").iter().count(), 2);
        for least in [json!({}), json!({ "status": 204 }), json!({ "body": [1] })] {
            assert!(read(&least, 100).is_ok(), "{least}");
        }
    }

    #[test]
    fn an_output_that_is_no_answer_is_refused() {
        let many: Map<String, Value> = (0..33).map(|n| (format!("x-{n}"), json!("1"))).collect();
        for wrong in [
            json!(null),
            json!("text"),
            json!([200]),
            json!({ "statuscode": 200 }),
            json!({ "status": 100 }),
            json!({ "status": 101 }),
            json!({ "status": 199 }),
            json!({ "status": 600 }),
            json!({ "status": -1 }),
            json!({ "status": 200.5 }),
            json!({ "status": "200" }),
            json!({ "status": 204, "body": "x" }),
            json!({ "status": 304, "body": 1 }),
            json!({ "body": "x".repeat(101) }),
            json!({ "headers": { "NEL": "{}" } }),
            json!({ "headers": [] }),
            json!({ "headers": many }),
            json!({ "headers": { "Set-Cookie": "a=b" } }),
            json!({ "headers": { "CONNECTION": "close" } }),
            json!({ "headers": { "Transfer-Encoding": "chunked" } }),
            json!({ "headers": { "content-length": "1" } }),
            json!({ "headers": { "Access-Control-Allow-Origin": "*" } }),
            json!({ "headers": { "Content-Security-Policy": "x" } }),
            json!({ "headers": { "x": "a\r\nSet-Cookie: b" } }),
            json!({ "headers": { "x\r\ny": "a" } }),
            json!({ "headers": { "": "a" } }),
            json!({ "headers": { "x": true } }),
            json!({ "headers": { "x": ["a", true] } }),
            json!({ "headers": { "x": vec!["a"; 33] } }),
            json!({ "headers": { "location": "/a\r\nx: b" } }),
            json!({ "body": { "base64": "?" } }),
            json!({ "body": { "base64": 1 } }),
            json!({ "body": { "base64": "A".repeat(136) } }),
            json!({ "headers": { "x": "a", "X": "b" } }),
            json!({ "headers": { "x": "y".repeat(HEADER_BYTES + 1) } }),
            json!({ "headers": { "x": vec!["y".repeat(HEADER_BYTES); 5] } }),
        ] {
            assert!(read(&wrong, 100).is_err(), "{wrong}");
        }
    }
}
