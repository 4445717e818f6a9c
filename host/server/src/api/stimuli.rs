//! Stimuli: events that start workflows and resume runs.

use axum::extract::State;
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;
use windlass_model::{Delivery, RunId, Stimulus, StimulusNo};
use windlass_runtime::operations::{self, Waiting, new_stimulus_id};

use crate::app::{App, AppInner};
use crate::count::Count;
use crate::extract::{
    Data, Document, QueryParams, check_optional, check_text, maybe_duration_text, no_time,
};
use crate::json::Json;
use crate::named::{DeliveryKind, StimulusState};
use crate::page::{Page, PageAsked};
use crate::problem::{Problem, one_of};
use crate::raw::Raw;
use crate::view::{Failure, Sent, moment, value};

/// How long a stimulus is buffered by default, in milliseconds.
pub(crate) const TTL_MS: u64 = 3_600_000;

/// A request to send a stimulus.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Happened {
    /// The name of the event, which is matched exactly.
    #[schema(min_length = 1, max_length = 256)]
    name: String,
    /// A value that has to equal the `match` of a trigger or a wait. Default: `null`.
    #[serde(default, rename = "match")]
    matches: Value,
    /// Only for runs that wait with this correlation.
    correlation: Option<String>,
    /// Only for this run.
    run: Option<Uuid>,
    /// Input that the event carries. Default: `null`.
    #[serde(default)]
    #[schema(value_type = Value)]
    input: Data,
    /// `start`, `resume`, `start-and-resume`, or `buffer`, which keeps the stimulus until a run
    /// waits for it. Default: `buffer` for one run or correlation, otherwise `start-and-resume`.
    #[schema(value_type = Option<DeliveryKind>)]
    delivery: Option<String>,
    /// How long it is buffered, like `1h`.
    #[serde(default, deserialize_with = "maybe_duration_text")]
    ttl: Option<String>,
}

/// Send a stimulus: start the workflows and resume the runs that match it, in one transaction.
#[utoipa::path(post, path = "/api/v1/stimuli", operation_id = "sendStimulus", tag = "stimuli", request_body = Happened,
    params(("traceparent" = Option<String>, Header,
        description = "The W3C trace context that the runs continue which the stimulus starts. A malformed one is ignored."),
        ("tracestate" = Option<String>, Header,
        description = "The state of that trace. A malformed one is dropped.")),
    responses((status = 200, description = "The effects of the stimulus.", body = Sent)))]
pub(crate) async fn send(
    State(app): State<App>,
    headers: HeaderMap,
    Document(happened): Document<Happened>,
) -> Result<Json<Sent>, Box<Problem>> {
    check_text("`name`", &happened.name)?;
    check_optional("`correlation`", happened.correlation.as_deref())?;
    let narrowed = happened.run.is_some() || happened.correlation.is_some();
    let delivery = match happened.delivery.as_deref() {
        None => Delivery::unsaid(narrowed),
        Some(name) => name.parse().map_err(|_| {
            let names = Delivery::ALL.map(Delivery::name);
            Problem::body(format!("there is no delivery `{name}`")).help(one_of(name, &names))
        })?,
    };
    let ttl_ms = match happened.ttl.as_deref() {
        None => TTL_MS,
        Some(text) => windlass_model::file::duration_ms(text).map_err(no_time)?,
    };
    let stimulus = Stimulus {
        name: happened.name,
        matches: happened.matches,
        correlation: happened.correlation,
        run: happened.run.map(RunId),
        input: happened.input.0,
        delivery,
        ttl_ms,
        trace: crate::header::trace(&headers),
    };
    let sent = app.client.send(new_stimulus_id(), stimulus).await?;
    Ok(Json(sent.into()))
}

/// A queued or buffered stimulus.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WaitingStimulus {
    /// Its number, which grows with each stimulus.
    no: Count,
    /// Its state.
    #[schema(value_type = StimulusState)]
    state: &'static str,
    /// Its id.
    id: Uuid,
    /// The name of the event.
    name: String,
    /// Its `match`.
    #[serde(rename = "match")]
    #[schema(value_type = Value)]
    matches: Raw,
    /// Only for runs that wait with this correlation.
    #[schema(required = true)]
    correlation: Option<String>,
    /// Only for this run.
    #[schema(required = true)]
    run: Option<Uuid>,
    /// The run that sent it.
    #[schema(required = true)]
    source: Option<Uuid>,
    /// How it is delivered.
    #[schema(value_type = DeliveryKind)]
    delivery: &'static str,
    /// Its input.
    #[schema(value_type = Value)]
    input: Raw,
    /// The time at which it was sent.
    sent: String,
    /// The time at which a buffered stimulus expires.
    #[schema(required = true)]
    expires: Option<String>,
    /// The time of the next attempt to deliver it.
    #[schema(required = true)]
    ready: Option<String>,
    /// How often its delivery has failed.
    #[schema(required = true)]
    attempts: Option<u32>,
    /// The failure of the last attempt.
    #[schema(required = true)]
    failure: Option<Failure>,
}

fn item(app: &AppInner, waiting: &Waiting) -> Result<WaitingStimulus, Box<Problem>> {
    let stimulus = waiting.stimulus();
    let (queued, expires_ms) = match waiting {
        Waiting::Queued(row) => (Some(row), None),
        Waiting::Buffered(row) => (None, Some(row.expires_ms)),
    };
    let source = match queued.and_then(|row| row.source) {
        Some(no) => app.store().run_by_no(no)?.map(|row| row.id.0),
        None => None,
    };
    Ok(WaitingStimulus {
        no: Count::of_row(waiting.no().0),
        state: queued.map_or("buffered", |_| "queued"),
        id: stimulus.id.0,
        name: stimulus.name.clone(),
        matches: Raw::read(&stimulus.matches),
        correlation: stimulus.correlation.clone(),
        run: stimulus.run.map(|id| id.0),
        source,
        delivery: stimulus.delivery.name(),
        input: value(app, &stimulus.input)?,
        sent: moment(stimulus.at_ms),
        expires: expires_ms.map(moment),
        ready: queued.map(|row| moment(row.ready_ms)),
        attempts: queued.map(|row| row.attempts),
        failure: queued.and_then(|row| row.last_error.as_ref().map(Failure::from)),
    })
}

/// List queued and buffered stimuli, the oldest first.
#[utoipa::path(get, path = "/api/v1/stimuli", operation_id = "listStimuli", tag = "stimuli", params(PageAsked),
    responses((status = 200, description = "A page of stimuli.", body = Page<WaitingStimulus>)))]
pub(crate) async fn list(
    State(app): State<App>,
    QueryParams(page): QueryParams<PageAsked>,
) -> Result<Json<Page<WaitingStimulus>>, Box<Problem>> {
    app.read(move |app| {
        let after = page.after_number("stimuli")?.map(StimulusNo);
        let rows = page.rows(|limit| Ok(operations::waiting(app.store(), after, limit)?))?;
        let place = |row: &Waiting| row.no().to_string();
        page.part("stimuli", rows, place, |row| item(app, &row))
    })
    .await
    .map(Json)
}
