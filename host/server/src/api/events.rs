//! CloudEvents 1.0, as structured and as binary messages over HTTP.
//!
//! An event is a stimulus whose name is its `type`. A subscriber chooses its `match`: none for
//! every event of the type, or `source`, or `subject`, or both. So the event is sent once for each
//! of these four forms, each in a transaction of its own.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use windlass_model::{Delivery, Payload, Stimulus};
use windlass_runtime::client::new_stimulus_id;

use crate::app::App;
use crate::codes;
use crate::extract::{self, check_text};
use crate::problem::Problem;
use crate::view::Sent;

const STRUCTURED: &str = "application/cloudevents+json";

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
    /// The data.
    data: Option<Value>,
}

/// Receive a CloudEvent: start the workflows and resume the runs that match it.
#[utoipa::path(post, path = "/events", operation_id = "sendCloudEvent", tag = "events",
    request_body(description = "A structured event. The body is data of any media type if the \
        attributes are in `ce-` headers.",
        content((CloudEvent = "application/cloudevents+json"))),
    responses((status = 202, description = "The effects of the event.", body = Sent)))]
pub(crate) async fn take(
    State(app): State<App>,
    request: Request,
) -> Result<(StatusCode, Json<Sent>), Box<Problem>> {
    let (parts, body) = request.into_parts();
    let bytes = extract::read(body, &app).await?;
    let event = read(&parts.headers, &bytes)?;
    let text = |name: &str| event.get(name).and_then(Value::as_str).map(str::to_owned);
    for name in REQUIRED {
        let value = text(name).filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| wrong(format!("the event has no `{name}`")))?;
        check_text(name, &value)?;
    }
    if text("specversion").as_deref() != Some("1.0") {
        return Err(wrong("the event is not of version 1.0"));
    }
    let name = text("type").unwrap_or_default();
    let (source, subject) = (text("source"), text("subject"));
    let input = Payload::of(&Value::Object(event));
    let mut matches = vec![Value::Null, json!({ "source": source })];
    if let Some(subject) = subject {
        check_text("subject", &subject)?;
        matches.push(json!({ "subject": subject }));
        matches.push(json!({ "source": source, "subject": subject }));
    }
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
    Ok((StatusCode::ACCEPTED, Json(all.into())))
}

fn wrong(detail: impl Into<String>) -> Box<Problem> {
    Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        &codes::CLOUD_EVENT,
        detail,
    )
    .help("CloudEvents 1.0 are taken: structured as JSON, or binary with `ce-` headers.")
}

/// The event in its structured form, from either kind of message.
fn read(headers: &HeaderMap, bytes: &[u8]) -> Result<Map<String, Value>, Box<Problem>> {
    let media = headers.get(header::CONTENT_TYPE);
    let media = media
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let essence = media.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(STRUCTURED) {
        return extract::json(bytes);
    }
    extract::check_media(headers, |media| {
        !media.starts_with("application/cloudevents")
    })?;
    let mut event = Map::new();
    for (name, value) in headers {
        if let Some(name) = name.as_str().strip_prefix("ce-") {
            let value = value
                .to_str()
                .map_err(|_| wrong("an attribute is not ASCII"))?;
            event.insert(name.to_owned(), Value::from(value));
        }
    }
    if !media.is_empty() {
        event.insert("datacontenttype".to_owned(), Value::from(media));
    }
    if !bytes.is_empty() {
        let json = essence.is_empty() || essence.eq_ignore_ascii_case("application/json");
        let data = if json || essence.ends_with("+json") {
            extract::json(bytes)?
        } else {
            Value::from(String::from_utf8_lossy(bytes))
        };
        event.insert("data".to_owned(), data);
    }
    Ok(event)
}
