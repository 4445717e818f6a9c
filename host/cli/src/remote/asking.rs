//! What asking a host for different things has in common: finding a run by the beginning of its
//! id, lists, and the members that a command shows.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Map, Value};
use windlass_model::Clock as _;
use windlass_runtime::SystemClock;

use super::server::{Server, unusable};
use crate::app::Context;
use crate::commands::instance::{check_prefix, choose};

/// Runs that are looked at for the beginning of an id: enough to see that there are several.
const CANDIDATES: u32 = 6;

/// How long one request waits for the end of a run. The host may bound it further.
pub(super) const WAIT: Duration = Duration::from_secs(20);

/// A host, and where its answers are shown.
pub(super) struct Asking<'a> {
    pub(super) context: &'a Context,
    pub(super) server: &'a Server,
}

impl Asking<'_> {
    /// The first items of a list, with these members each.
    pub(super) fn list(
        &self,
        path: &[&str],
        filter: &[(&str, String)],
        limit: u32,
        keys: &[&str],
    ) -> anyhow::Result<Vec<Value>> {
        let items = self.server.list(path, filter, limit)?;
        Ok(items.into_iter().map(|item| picked(item, keys)).collect())
    }

    /// The only run whose id begins like this, as it is listed.
    pub(super) fn find(&self, prefix: &str) -> anyhow::Result<Value> {
        check_prefix(prefix)?;
        let filter = [("id", prefix.to_owned())];
        let found = self.server.list(&["instances"], &filter, CANDIDATES)?;
        let id = |item: &Value| {
            let id = item.get("id").and_then(Value::as_str);
            id.unwrap_or_default().to_owned()
        };
        Ok(choose(prefix, found, id)?)
    }

    /// The id of the only run whose id begins like this. A whole id is one, whether or not
    /// there is such a run.
    pub(super) fn id(&self, prefix: &str) -> anyhow::Result<String> {
        if prefix.parse::<uuid::Uuid>().is_ok() {
            return Ok(prefix.to_owned());
        }
        let found = self.find(prefix)?;
        Ok(text(&found, "id")?.to_owned())
    }

    /// Asks for something that may take its time, again and again, until it has happened or
    /// nobody waits for it any more.
    pub(super) fn patiently(
        &self,
        patience: Duration,
        mut ask: impl FnMut(Duration) -> anyhow::Result<(StatusCode, Value)>,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let clock = SystemClock::new();
        loop {
            let left = patience.saturating_sub(clock.monotonic()).min(WAIT);
            let (status, answer) = ask(left)?;
            if left.is_zero() || status != StatusCode::ACCEPTED {
                return Ok((status, answer));
            }
        }
    }

    /// Asks for something once, and waits for it.
    pub(super) fn ask_waiting(
        &self,
        method: Method,
        path: &[&str],
        patience: Duration,
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let query = wait(patience.min(WAIT));
        self.server.ask(method, path, &query, body)
    }
}

/// How long a request waits, as its query says it.
pub(super) fn wait(patience: Duration) -> Vec<(&'static str, String)> {
    let wait = (!patience.is_zero()).then(|| ("wait", format!("{}ms", patience.as_millis())));
    wait.into_iter().collect()
}

/// The members of an item that the command shows, under the names that it gives them.
pub(super) fn picked(mut item: Value, keys: &[&str]) -> Value {
    let mut picked = Map::new();
    for key in keys {
        let value = match item.get_mut(key) {
            Some(value) => value.take(),
            // The same word, as the API writes it.
            None => taken(&mut item, &key.replace('-', "_")),
        };
        picked.insert((*key).to_owned(), value);
    }
    Value::Object(picked)
}

/// A member of an answer, which is not needed there any more.
pub(super) fn taken(item: &mut Value, key: &str) -> Value {
    item.get_mut(key).map(Value::take).unwrap_or_default()
}

/// A text that an answer has to have.
pub(super) fn text<'v>(answer: &'v Value, key: &str) -> anyhow::Result<&'v str> {
    let text = answer.get(key).and_then(Value::as_str);
    Ok(text.ok_or_else(|| unusable(&format!("it says no `{key}`")))?)
}

/// The items that an answer has to have.
pub(super) fn items(answer: &mut Value, key: &str) -> anyhow::Result<Vec<Value>> {
    match taken(answer, key) {
        Value::Array(items) => Ok(items),
        _ => Err(unusable(&format!("it has no `{key}`")).into()),
    }
}
