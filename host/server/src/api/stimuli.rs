//! Stimuli: something happened, and whoever waits for it, or is started by it, hears of it.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;
use windlass_model::{Delivery, InstanceId, Payload, Stimulus};
use windlass_runtime::client::new_stimulus_id;

use crate::app::App;
use crate::extract::{Document, check_optional, check_text};
use crate::problem::Problem;
use crate::view::Sent;

/// How long a stimulus is kept that nobody waits for, unless somebody says otherwise, in
/// milliseconds.
pub(crate) const TTL_MS: u64 = 3_600_000;

/// Something that happened.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Happened {
    /// What it is called. Matched exactly.
    #[schema(min_length = 1, max_length = 256)]
    name: String,
    /// What it is about: equal to the `match` of whoever is meant. `null` if it is not there.
    #[serde(default, rename = "match")]
    matches: Value,
    /// Only for who waits with this correlation.
    correlation: Option<String>,
    /// Only for this run.
    instance: Option<Uuid>,
    /// What it brings. `null` if it is not there.
    #[serde(default)]
    input: Value,
    /// `start`, `resume`, `start-and-resume`, or `buffer`, which keeps it if nobody waits yet.
    /// Unless it is said: `buffer` for one run or correlation, otherwise `start-and-resume`.
    delivery: Option<String>,
    /// How long it is kept if it is buffered, like `1h`.
    ttl: Option<String>,
}

/// Sends a stimulus: what it starts is started, and who waits for it goes on, in one
/// transaction.
#[utoipa::path(post, path = "/api/v1/stimuli", tag = "stimuli", request_body = Happened,
    responses((status = 200, body = Sent)))]
pub(crate) async fn send(
    State(app): State<App>,
    Document(happened): Document<Happened>,
) -> Result<Json<Sent>, Box<Problem>> {
    check_text("`name`", &happened.name)?;
    check_optional("`correlation`", happened.correlation.as_deref())?;
    let narrowed = happened.instance.is_some() || happened.correlation.is_some();
    let delivery = match happened.delivery.as_deref() {
        None => Delivery::unsaid(narrowed),
        Some(name) => name
            .parse()
            .map_err(|_| Problem::body(format!("there is no delivery `{name}`")))?,
    };
    let ttl_ms = match happened.ttl.as_deref() {
        None => TTL_MS,
        Some(text) => windlass_model::file::parse_duration_ms(text)
            .ok_or_else(|| Problem::body(format!("`{text}` is no duration")))?,
    };
    let stimulus = Stimulus {
        name: happened.name,
        matches: happened.matches,
        correlation: happened.correlation,
        instance: happened.instance.map(InstanceId),
        input: Payload::of(&happened.input),
        delivery,
        ttl_ms,
    };
    let sent = app.client.send(new_stimulus_id(), stimulus).await?;
    Ok(Json(sent.into()))
}
