//! Whether a host has taken a stored request.
//!
//! A request to a run is a trigger of the run. The owner of the run takes it at once, and any host
//! on the store takes the triggers of a run without an owner. A request that stays pending shows
//! that no host is there, or that the hosts are paused.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::Value;
use windlass_model::Clock as _;
use windlass_runtime::SystemClock;
use windlass_runtime::codes::NOT_FOUND;

use crate::client::Api;
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::Output;

/// How long a host may take to take a request: longer than it sleeps between two looks at its
/// store.
const SOON: Duration = Duration::from_secs(3);

/// How many triggers of the run are looked through. Control triggers are due at once, so they come
/// first.
const TRIGGERS: u32 = 500;

/// Whether a request is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The run has ended, or is deleted.
    Ended,
    /// A host has taken it.
    Yes,
    /// No host has taken it.
    No,
}

impl Taken {
    /// The exit code; also has the remedy if no host has taken the request.
    pub(super) fn exit(self, output: &Output) -> Exit {
        if self != Self::No {
            return Exit::Done;
        }
        output.note(
            "The request is stored, and no host has taken it within 3 s. `windlass serve` on this \
             store carries it out; a paused host does so after its pause.",
        );
        Exit::NotTaken
    }
}

/// Waits until a host has taken the request of this kind, for at most [`SOON`].
pub(super) fn is_taken(api: &Api, id: &str, kind: &str) -> anyhow::Result<Taken> {
    let clock = SystemClock::new();
    let mut last = None;
    loop {
        // The owner of the run carries the request out by a step.
        let left = SOON.saturating_sub(clock.monotonic());
        match api.follow(id, last.as_ref(), left) {
            Ok((StatusCode::ACCEPTED, outcome)) => last = Some(outcome),
            Ok(_) => return Ok(Taken::Ended),
            Err(error) => match error.downcast_ref::<Expected>() {
                Some(expected) if expected.code == NOT_FOUND => return Ok(Taken::Ended),
                _ => return Err(error),
            },
        }
        let filter = [("run", id.to_owned())];
        let triggers = api.list_whole(&["triggers"], &filter, TRIGGERS)?;
        let is = |trigger: &Value, key: &str, text: &str| {
            trigger.get(key).and_then(Value::as_str) == Some(text)
        };
        let waits = |it: &Value| is(it, "type", kind) && is(it, "state", "pending");
        if !triggers.iter().any(waits) {
            return Ok(Taken::Yes);
        }
        if clock.monotonic() >= SOON {
            return Ok(Taken::No);
        }
    }
}
