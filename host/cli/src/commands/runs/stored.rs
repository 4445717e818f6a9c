//! A run as its own process shows it, and texts of moments and durations.

use jiff::Timestamp;
use windlass_model::{Body, Definition, Payload};
use windlass_store::Store;
use windlass_store::rows::RunRow;

/// The workflow of a run, if its definition can still be read.
pub(crate) fn definition(store: &dyn Store, row: &RunRow) -> anyhow::Result<Option<Definition>> {
    let stored = store.definition(row.definition)?;
    Ok(stored.and_then(|stored| windlass_model::file::read_canonical(&stored.json).ok()))
}

/// The name of a node by its position.
pub(crate) fn node_name(definition: Option<&Definition>, position: u32) -> String {
    let name = definition
        .and_then(|definition| definition.node_names().get(position as usize).copied())
        .map(str::to_owned);
    name.unwrap_or_else(|| format!("#{position}"))
}

/// The value of a payload, inline or in a blob.
pub(crate) fn value(store: &dyn Store, payload: &Payload) -> anyhow::Result<serde_json::Value> {
    let bytes = match &payload.body {
        Body::Inline(bytes) => bytes.clone(),
        Body::Blob(blob) => store.blob(*blob)?.unwrap_or_default(),
    };
    if payload.is_json()
        && let Ok(value) = serde_json::from_slice(&bytes)
    {
        return Ok(value);
    }
    Ok(serde_json::Value::String(
        String::from_utf8_lossy(&bytes).into_owned(),
    ))
}

/// A moment, in one form for people and programs.
pub(crate) fn moment(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |at| at.to_string())
}

/// A duration in microseconds, for people.
pub(crate) fn took(us: u64) -> String {
    match us {
        0..1000 => format!("{us} µs"),
        1000..10_000 => format!("{}.{} ms", us / 1000, us % 1000 / 100),
        10_000..1_000_000 => format!("{} ms", us / 1000),
        1_000_000..60_000_000 => format!("{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
        _ => format!("{} min {} s", us / 60_000_000, us / 1_000_000 % 60),
    }
}
