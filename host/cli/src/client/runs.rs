//! Shared parts of the commands about runs: finding a run by the beginning of its id, and waiting.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::Value;
use windlass_model::Clock as _;
use windlass_runtime::SystemClock;
use windlass_server::codes::WAIT_TOO_LONG;

use super::{Api, text};
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;

/// How many candidates an error names when the beginning of an id fits several runs.
const NAMED: u32 = 5;

/// How long one request waits for the end of a run, unless the host has a shorter limit.
pub(crate) const WAIT: Duration = Duration::from_secs(20);

/// The shortest wait that a command asks for when a host refuses longer ones.
const SHORTEST: Duration = Duration::from_millis(50);

impl Api {
    /// The only run whose id begins like this, as it is listed.
    pub(crate) fn find(&self, prefix: &str) -> anyhow::Result<Value> {
        let is_id = |c: char| c.is_ascii_hexdigit() || c == '-';
        if prefix.is_empty() || !prefix.chars().all(is_id) {
            let text = format!("`{prefix}` is not the id of a run");
            let help = "An id is a UUID; its beginning is enough. `windlass runs list` shows them.";
            return Err(Expected::new(codes::NO_ID, text).help(help).into());
        }
        let filter = [("id", prefix.to_owned())];
        let mut found = self.list_whole(&["runs"], &filter, NAMED + 1)?;
        if found.len() > 1 {
            let ids = found.iter().map(|run| text(run, "id"));
            let ids = ids.collect::<anyhow::Result<Vec<_>>>()?.join("\n");
            let text = format!("Several ids begin with `{prefix}`");
            return Err(Expected::new(codes::AMBIGUOUS, text)
                .help(format!("Give more of it. There is\n{ids}"))
                .into());
        }
        found.pop().ok_or_else(|| {
            let text = format!("No run has an id that begins with `{prefix}`");
            let help =
                "`windlass runs list` shows the runs of this store; `--store` names another.";
            let missing = Expected::new(codes::NO_RUN, text).help(help);
            missing.exit(Exit::NotFound).into()
        })
    }

    /// The id of the only run whose id begins like this. A complete id is returned without a
    /// look-up.
    pub(crate) fn id(&self, prefix: &str) -> anyhow::Result<String> {
        if prefix.parse::<uuid::Uuid>().is_ok() {
            return Ok(prefix.to_owned());
        }
        let found = self.find(prefix)?;
        Ok(text(&found, "id")?.to_owned())
    }

    /// Sends a request once, with a bounded wait. Also returns the rest of the patience, if the
    /// request has not used it up.
    pub(crate) fn ask_waiting(
        &self,
        method: Method,
        path: &[&str],
        patience: Duration,
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Value, Option<Duration>)> {
        let mut longest = WAIT;
        let (status, answer) =
            self.ask_within(method, path, patience, &mut longest, (None, body))?;
        let rest = patience.saturating_sub(longest);
        Ok((status, answer, (!rest.is_zero()).then_some(rest)))
    }

    /// Repeats a request until it reports completion or the patience is over.
    pub(crate) fn ask_patiently(
        &self,
        method: Method,
        path: &[&str],
        patience: Duration,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let clock = SystemClock::new();
        let mut longest = WAIT;
        loop {
            let left = patience.saturating_sub(clock.monotonic());
            let (status, answer) =
                self.ask_within(method.clone(), path, left, &mut longest, (None, None))?;
            if left.is_zero() || status != StatusCode::ACCEPTED {
                return Ok((status, answer));
            }
        }
    }

    /// The outcome of a run: at once for the first call, and then when the run has gone on since the
    /// last outcome, for at most `patience`.
    pub(crate) fn follow(
        &self,
        id: &str,
        last: Option<&Value>,
        patience: Duration,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let version = last.and_then(|last| last.get("version")?.as_str());
        let patience = last.map_or(Duration::ZERO, |_| patience);
        let mut longest = WAIT;
        let path = ["runs", id, "result"];
        self.ask_within(Method::GET, &path, patience, &mut longest, (version, None))
    }

    /// Sends a request that waits for at most `longest`, which is shortened until the host allows
    /// it. A host refuses a wait before it changes anything.
    fn ask_within(
        &self,
        method: Method,
        path: &[&str],
        patience: Duration,
        longest: &mut Duration,
        (after, body): (Option<&str>, Option<&Value>),
    ) -> anyhow::Result<(StatusCode, Value)> {
        loop {
            let mut query = wait(patience.min(*longest));
            query.extend(after.map(|version| ("after", version.to_owned())));
            let error = match self.ask(method.clone(), path, &query, body) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let expected = error.downcast_ref::<Expected>();
            let is_refused = expected.is_some_and(|error| error.code == WAIT_TOO_LONG);
            if !is_refused || *longest <= SHORTEST {
                return Err(error);
            }
            *longest = (*longest / 2).max(SHORTEST);
        }
    }
}

/// The query that says how long a request waits.
fn wait(patience: Duration) -> Vec<(&'static str, String)> {
    let wait = (!patience.is_zero()).then(|| ("wait", format!("{}ms", patience.as_millis())));
    wait.into_iter().collect()
}
