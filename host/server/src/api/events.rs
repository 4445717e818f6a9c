//! CloudEvents 1.0, as structured and binary messages and as batches over HTTP.
//!
//! An event is a stimulus whose name is its `type`. A subscriber chooses its `match`: none for
//! every event of the type, or `source`, or `subject`, or both. So the event is sent once for each
//! of these four forms, each in a transaction of its own.
//!
//! A batch is checked as a whole before its first event is sent. Then each event is sent, whether
//! another one of the batch is refused or not, until this host fails; the answer has the effects of
//! each.

use std::borrow::Cow;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use windlass_body::MediaType;
use windlass_model::trace::{TRACE_PARENT, TRACE_STATE};
use windlass_model::{Delivery, Payload, Stimulus, TraceContext};
use windlass_runtime::operations::new_stimulus_id;

use crate::app::{App, read_aside};
use crate::codes;
use crate::content::{self, Content};
use crate::extract::{self, Taken, check_text};
use crate::header;
use crate::json::Json;
use crate::problem::Problem;
use crate::view::Sent;

const STRUCTURED: &str = "application/cloudevents+json";

const BATCH: &str = "application/cloudevents-batch+json";

/// How many events a batch may have.
const EVENTS: usize = 256;

/// The media types of messages. Data of a binary message has any other.
const MESSAGES: Taken = Taken {
    takes: |media| !media.starts_with("application/cloudevents"),
    names: &[STRUCTURED, BATCH],
};

/// The prefix of headers with attributes.
const PREFIX: &str = "ce-";

/// Attributes that every event must have.
const REQUIRED: [&str; 4] = ["id", "source", "specversion", "type"];

/// A structured event. It may have further attributes.
#[derive(ToSchema)]
#[expect(
    dead_code,
    reason = "it only describes the body, whose members are read one by one"
)]
struct CloudEvent {
    /// `1.0`.
    specversion: String,
    /// The id, which is unique for the source.
    id: String,
    /// The source.
    source: String,
    /// The name of the stimulus.
    r#type: String,
    /// The subject.
    subject: Option<String>,
    /// The time of the event.
    time: Option<String>,
    /// The media type of the data.
    datacontenttype: Option<String>,
    /// The W3C trace context that the runs continue which the event starts. Default: the header of
    /// this name.
    traceparent: Option<String>,
    /// The state of the trace in `traceparent`.
    tracestate: Option<String>,
    /// The data.
    data: Option<Value>,
    /// The data in Base64, if it is bytes.
    data_base64: Option<String>,
}

/// The effects of an event, or of all events of a batch.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct EventsSent {
    #[serde(flatten)]
    sent: Sent,
    /// The effects of each event of a batch, in its order.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, max_items = 256)]
    events: Option<Vec<EventSent>>,
}

/// The effects of one event of a batch.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct EventSent {
    /// The id of the event.
    id: String,
    /// The source of the event.
    source: String,
    /// The effects.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    sent: Option<Sent>,
    /// The reason why the event is not taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    problem: Option<Box<Problem>>,
}

/// A batch with an event that is not taken: the problem of the first such event, with the effects
/// of all.
#[derive(Debug, Serialize)]
struct BatchProblem {
    #[serde(flatten)]
    problem: Box<Problem>,
    events: Vec<EventSent>,
}

/// Receive a CloudEvent, or a batch: start the workflows and resume the runs that match it.
///
/// A batch is refused as a whole if one of its events is malformed. Otherwise each event is sent by
/// itself; if one is not taken, the status is that of the first such event, and `events` of the
/// problem has the effects of each.
#[utoipa::path(post, path = "/events", operation_id = "sendCloudEvent", tag = "events",
    request_body(content = CloudEvent, content_type = "application/cloudevents+json",
        description = "A structured event, or a batch: a list of at most 256 events, as \
            `application/cloudevents-batch+json`. The body is data of any media type if the \
            attributes are in `ce-` headers."),
    responses((status = 202, description = "The effects of the event, or of each event of a batch.",
        body = EventsSent)))]
pub(crate) async fn take(
    State(app): State<App>,
    request: Request,
) -> Result<Response, Box<Problem>> {
    let (parts, body) = request.into_parts();
    let bytes = extract::read(&parts, body, &app).await?;
    let media = content::media_text(&parts.headers)?.into_owned();
    let trace = crate::header::trace(&parts.headers);
    // Events are parsed until they are sent: there are few large ones at once.
    let large = app.large(bytes.len()).await?;
    if MediaType::of(&media).essence == BATCH {
        let read = move || events(&content::text(&media, &bytes)?);
        let events = read_aside(large.as_ref(), read).await?;
        return batch(&app, events, trace).await;
    }
    let headers = parts.headers;
    let read = move || Event::of(read(&headers, &bytes)?);
    let event = read_aside(large.as_ref(), read).await?;
    let sent = EventsSent {
        sent: event.send(&app, trace).await?,
        events: None,
    };
    Ok((StatusCode::ACCEPTED, Json(sent)).into_response())
}

/// Reads the events of a batch.
fn events(text: &str) -> Result<Vec<Event>, Box<Problem>> {
    let Value::Array(events) = extract::json(text.as_bytes())? else {
        return Err(wrong("the batch is no list of events"));
    };
    if events.len() > EVENTS {
        return Err(wrong(format!("the batch has more than {EVENTS} events")));
    }
    let mut checked = Vec::with_capacity(events.len());
    for (at, event) in events.into_iter().enumerate() {
        let Value::Object(event) = event else {
            return Err(wrong(format!("the event {at} of the batch is no object")));
        };
        let event = Event::of(event);
        checked.push(event.map_err(|problem| problem.about(&format!("event {at} of the batch")))?);
    }
    Ok(checked)
}

/// Sends the events of a batch.
async fn batch(
    app: &App,
    checked: Vec<Event>,
    trace: Option<TraceContext>,
) -> Result<Response, Box<Problem>> {
    let (mut all, mut first) = (Sent::none(), None);
    let mut sent = Vec::with_capacity(checked.len());
    let mut broken: Option<Box<Problem>> = None;
    for event in checked {
        let mut one = EventSent {
            id: event.text("id"),
            source: event.text("source"),
            ..EventSent::default()
        };
        // After a failure of this host, the others would only fail as well.
        let done = match broken.clone() {
            None => event.send(app, trace.clone()).await,
            Some(problem) => Err(problem),
        };
        match done {
            Ok(done) => {
                all.add(done.clone());
                one.sent = Some(done);
            }
            Err(problem) => {
                first.get_or_insert_with(|| problem.clone());
                broken = broken.or(problem.is_of_host().then(|| problem.clone()));
                one.problem = Some(problem);
            }
        }
        sent.push(one);
    }
    Ok(match first {
        None => {
            let sent = EventsSent {
                sent: all,
                events: Some(sent),
            };
            (StatusCode::ACCEPTED, Json(sent)).into_response()
        }
        Some(problem) => {
            let extended = BatchProblem {
                problem: problem.clone(),
                events: sent,
            };
            problem.with_body(&extended)
        }
    })
}

/// An event in its structured form, with all attributes that it must have.
struct Event(Map<String, Value>);

impl Event {
    fn of(event: Map<String, Value>) -> Result<Self, Box<Problem>> {
        let event = Self(event);
        for name in REQUIRED {
            let value = event.text(name);
            if value.is_empty() {
                return Err(wrong(format!("the event has no `{name}`")));
            }
            check_text(name, &value)?;
        }
        if event.text("specversion") != "1.0" {
            return Err(wrong("the event is not of version 1.0"));
        }
        check_text("subject", &event.text("subject"))?;
        let base64 = event.0.get("data_base64");
        if base64.is_some_and(|_| event.0.contains_key("data")) {
            return Err(wrong("the event has both `data` and `data_base64`"));
        }
        let is_base64 =
            |value: &Value| value.as_str().is_some_and(|it| STANDARD.decode(it).is_ok());
        if !base64.is_none_or(is_base64) {
            return Err(wrong("the `data_base64` of the event is not Base64"));
        }
        Ok(event)
    }

    /// An attribute; empty without one.
    fn text(&self, name: &str) -> String {
        let value = self.0.get(name).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    }

    /// Sends the event in each of its forms.
    async fn send(self, app: &App, of_request: Option<TraceContext>) -> Result<Sent, Box<Problem>> {
        let of_event = TraceContext::read(&self.text(TRACE_PARENT))
            .map(|context| context.with_state([&*self.text(TRACE_STATE)]));
        let trace = of_event.or(of_request);
        let name = self.text("type");
        let source = self.text("source");
        let subject = self.0.get("subject").and_then(Value::as_str);
        let mut matches = vec![Value::Null, json!({ "source": source })];
        if let Some(subject) = subject {
            matches.push(json!({ "subject": subject }));
            matches.push(json!({ "source": source, "subject": subject }));
        }
        let input = Payload::of(&Value::Object(self.0));
        let mut all = windlass_store::stimuli::Sent::default();
        let mut refused: Option<windlass_runtime::Error> = None;
        for matches in matches {
            let stimulus = Stimulus {
                name: name.clone(),
                matches,
                correlation: None,
                run: None,
                input: input.clone(),
                delivery: Delivery::StartAndResume,
                ttl_ms: 0,
                trace: trace.clone(),
            };
            let sent = match app.client.send(new_stimulus_id(), stimulus).await {
                Ok(sent) => sent,
                // Runs that wait for another form of the event may take it.
                Err(error) if error.code() == windlass_runtime::codes::ANSWER => {
                    refused.get_or_insert(error);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            all.started.extend(sent.started);
            all.resumed.extend(sent.resumed);
            all.reserved.extend(sent.reserved);
            all.more |= sent.more;
        }
        let is_taken = !(all.started.is_empty() && all.resumed.is_empty());
        if let Some(error) = refused.filter(|_| !is_taken) {
            return Err(error.into());
        }
        all.dropped = all.started.is_empty() && all.resumed.is_empty() && all.reserved.is_empty();
        Ok(all.into())
    }
}

fn wrong(detail: impl Into<String>) -> Box<Problem> {
    Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        &codes::CLOUD_EVENT,
        detail,
    )
    .help(format!(
        "CloudEvents 1.0 are taken: structured as `{STRUCTURED}`, batches as `{BATCH}`, or binary \
        with `ce-` headers."
    ))
}

/// The event in its structured form, from either kind of message.
fn read(headers: &HeaderMap, bytes: &[u8]) -> Result<Map<String, Value>, Box<Problem>> {
    let media = content::media_text(headers)?;
    if MediaType::of(&media).essence == STRUCTURED {
        return match extract::json(content::text(&media, bytes)?.as_bytes())? {
            Value::Object(event) => Ok(event),
            Value::Array(_) => Err(wrong(format!(
                "the event is a list: a batch has the media type `{BATCH}`"
            ))),
            _ => Err(wrong("the event is no object")),
        };
    }
    extract::check_media(headers, MESSAGES)?;
    let mut event = Map::new();
    for name in headers.keys() {
        if let Some(attribute) = name.as_str().strip_prefix(PREFIX) {
            let value = attribute_text(headers, name)?;
            event.insert(attribute.to_owned(), Value::from(value));
        }
    }
    for name in ["data", "data_base64", "datacontenttype"] {
        if event.contains_key(name) {
            return Err(wrong(format!(
                "`{PREFIX}{name}` is no attribute: the body is the data, and `Content-Type` its type"
            )));
        }
    }
    if !media.is_empty() {
        event.insert("datacontenttype".to_owned(), Value::from(&*media));
    }
    if !bytes.is_empty() {
        let (name, data) = data(headers, &media, bytes)?;
        event.insert(name.to_owned(), data);
    }
    Ok(event)
}

/// The data of a binary message, and the member that has it in the structured form.
fn data(
    headers: &HeaderMap,
    media: &str,
    bytes: &[u8],
) -> Result<(&'static str, Value), Box<Problem>> {
    // Without a media type, the data is JSON.
    let content = match media.is_empty() {
        true => Content::Json(content::text(media, bytes)?),
        false => content::read(headers, bytes)?,
    };
    Ok(match content {
        Content::Json(text) => ("data", extract::json(text.as_bytes())?),
        Content::Text(text) => ("data", Value::from(text)),
        Content::Bytes(bytes) => ("data_base64", Value::from(STANDARD.encode(bytes))),
    })
}

/// The value of an attribute in a header: ASCII, perhaps in quotes, with percent signs before the
/// bytes of other characters (HTTP binding 1.0.2, section 3.1.3.2).
fn attribute_text(headers: &HeaderMap, name: &HeaderName) -> Result<String, Box<Problem>> {
    let value = header::one(headers, name.as_str())?;
    let value = value.map_or(Ok(""), HeaderValue::to_str);
    let value = value.map_err(|_| wrong(format!("the header `{name}` is not ASCII")))?;
    let value = match value.strip_prefix('"') {
        Some(rest) => unquoted(rest).map(Cow::Owned),
        None => Some(Cow::Borrowed(value)),
    };
    let value = value.ok_or_else(|| wrong(format!("the header `{name}` ends within quotes")))?;
    if !is_percent_encoded(&value) {
        return Err(wrong(format!(
            "the header `{name}` has `%` without two hexadecimal digits behind it: `%` itself is `%25`"
        )));
    }
    let decoded = percent_decode_str(&value).decode_utf8();
    let decoded = decoded.map_err(|_| wrong(format!("the header `{name}` is not UTF-8")))?;
    Ok(decoded.into_owned())
}

/// The content of a quoted text, from behind its first quotation mark (RFC 9110, section 5.6.4).
fn unquoted(rest: &str) -> Option<String> {
    let (mut text, mut rest) = (String::with_capacity(rest.len()), rest.chars());
    loop {
        match rest.next()? {
            '"' => return rest.as_str().is_empty().then_some(text),
            '\\' => text.push(rest.next()?),
            other => text.push(other),
        }
    }
}

/// Whether two hexadecimal digits follow each percent sign.
fn is_percent_encoded(text: &str) -> bool {
    let mut parts = text.split('%').skip(1);
    parts.all(|part| {
        let digits = part.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(lines: &[(&'static str, &[u8])]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let value = HeaderValue::from_bytes(value).unwrap();
            headers.append(HeaderName::from_static(name), value);
        }
        headers
    }

    #[test]
    fn an_attribute_is_decoded_once() {
        for (value, wanted) in [
            (&b"caf%C3%A9"[..], Some("café")),
            (b"a%20b", Some("a b")),
            (b"a b", Some("a b")),
            (b"%2541", Some("%41")),
            (b"Euro%20%E2%82%AC%20%F0%9F%98%80", Some("Euro € 😀")),
            (b"\"a \\\"b\\\\ %22\"", Some("a \"b\\ \"")),
            (b"a\"b", Some("a\"b")),
            (b"", Some("")),
            (b"%FF%FE", None),
            (b"%C0%A0", None),
            (b"%ED%A0%80", None),
            (b"50%", None),
            (b"%zz", None),
            (b"%4", None),
            (b"\"a", None),
            (b"\"a\"b", None),
            (b"\"a\\", None),
            (b"caf\xc3\xa9", None),
        ] {
            let name = HeaderName::from_static("ce-subject");
            let read = attribute_text(&headers(&[("ce-subject", value)]), &name);
            assert_eq!(read.ok().as_deref(), wanted, "{value:?}");
        }
        let id = HeaderName::from_static("ce-id");
        let twice = |other: &'static [u8]| headers(&[("ce-id", b"1"), ("ce-id", other)]);
        assert_eq!(attribute_text(&twice(b"1"), &id).unwrap(), "1");
        assert!(attribute_text(&twice(b"2"), &id).is_err());
    }

    #[test]
    fn a_binary_message_is_the_same_event_as_a_structured_one() {
        let binary = |media: &'static str, body: &[u8]| {
            let mut all = headers(&[("ce-id", b"1"), ("ce-source", b"/s"), ("x-other", b"1")]);
            if !media.is_empty() {
                all.insert("content-type", HeaderValue::from_static(media));
            }
            read(&all, body).map(Value::Object)
        };
        let of = |media: &str, member: &str, data: Value| {
            let mut event = json!({ "id": "1", "source": "/s", member: data });
            if !media.is_empty() {
                event["datacontenttype"] = json!(media);
            }
            event
        };
        for (media, body, member, data) in [
            (
                "image/png",
                &b"\x89PNG"[..],
                "data_base64",
                json!("iVBORw=="),
            ),
            (
                "application/octet-stream",
                b"a",
                "data_base64",
                json!("YQ=="),
            ),
            (
                "text/plain; charset=iso-8859-1",
                b"\xe9",
                "data",
                json!("é"),
            ),
            ("text/plain", b"\xe9", "data_base64", json!("6Q==")),
            (
                "application/json",
                b"\xef\xbb\xbf{\"a\":1}",
                "data",
                json!({ "a": 1 }),
            ),
            ("application/x+json", b"[1]", "data", json!([1])),
            ("", b"1", "data", json!(1)),
            ("text/xml", b"<a/>", "data", json!("<a/>")),
        ] {
            assert_eq!(
                binary(media, body).unwrap(),
                of(media, member, data),
                "{media}"
            );
        }
        for (media, body) in [
            ("application/json", &b"{"[..]),
            ("", b"\xff"),
            ("application/cloudevents+xml", b"<a/>"),
            ("application/cloudevents", b"{}"),
            ("application/cloudevents+json", b"[]"),
        ] {
            assert!(binary(media, body).is_err(), "{media}");
        }
        for name in ["ce-data", "ce-data_base64", "ce-datacontenttype"] {
            assert!(read(&headers(&[(name, b"1")]), b"").is_err(), "{name}");
        }
    }

    #[test]
    fn an_event_has_its_attributes_and_one_kind_of_data() {
        let good = json!({ "specversion": "1.0", "id": "1", "source": "/s", "type": "t" });
        let check = |name: &str, value: Value| {
            let mut event = good.as_object().unwrap().clone();
            event.insert(name.to_owned(), value);
            Event::of(event).is_ok()
        };
        assert!(check("data_base64", json!("YQ==")));
        assert!(check("data", Value::Null));
        assert!(check("x", json!(1)));
        for (name, value) in [
            ("id", json!("")),
            ("id", json!(1)),
            ("source", Value::Null),
            ("type", json!("x".repeat(2000))),
            ("specversion", json!("0.3")),
            ("subject", json!("x".repeat(2000))),
            ("data_base64", json!("a")),
            ("data_base64", json!(1)),
        ] {
            assert!(!check(name, value.clone()), "{name} {value}");
        }
        let mut both = good.as_object().unwrap().clone();
        both.extend([
            ("data".to_owned(), json!(1)),
            ("data_base64".to_owned(), json!("")),
        ]);
        assert!(Event::of(both).is_err());
    }
}
