//! The end of a run, on stdout, on stderr and as an exit code.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use windlass_model::{Clock as _, Status, TriggerState};
use windlass_runtime::SystemClock;
use windlass_server::Failure;
use windlass_store::Store;
use windlass_store::rows::RunRow;

use crate::client::{Api, at_ms, text, unusable};
use crate::commands::value;
use crate::error::Expected;
use crate::exit::Exit;
use crate::failure;
use crate::output::Output;

/// Prints the output of a run, or why there is none. `kept`: the store still has the run.
pub(crate) fn report(
    output: &Output,
    store: &dyn Store,
    row: RunRow,
    kept: bool,
) -> anyhow::Result<Exit> {
    let came_out = match store.output(row.no)? {
        Some(payload) => Some(value(store, &payload)?),
        None => None,
    };
    tell(
        output,
        Ended {
            id: row.id.to_string(),
            status: row.status,
            output: came_out,
            failure: row.failure.as_ref().map(Failure::from),
            kept,
        },
    )
}

/// After which time without a host a command that waits says so.
pub(crate) const UNTAKEN: Duration = Duration::from_secs(3);

/// The soonest triggers of a run that are looked at.
const TRIGGERS: u32 = 50;

/// Whether a trigger of the run is due, and no host has taken one. A retried run that no host has
/// taken is already `running`.
pub(crate) fn is_untaken(api: &Api, id: &str) -> bool {
    let of_run = [("run", id.to_owned())];
    let triggers = api.list_whole(&["triggers"], &of_run, TRIGGERS);
    let triggers = triggers.unwrap_or_default();
    let is = |trigger: &Value, state: TriggerState| {
        trigger.get("state").and_then(Value::as_str) == Some(state.name())
    };
    let now_ms = SystemClock::new().wall_ms();
    let is_due =
        |trigger: &Value| is(trigger, TriggerState::Pending) && at_ms(trigger, "due") <= now_ms;
    triggers.iter().any(is_due) && !triggers.iter().any(|it| is(it, TriggerState::Claimed))
}

/// Says why a run does not go on.
pub(crate) fn note_untaken(output: &Output) {
    output.note(
        "No host has taken the run yet: start one with `windlass serve`, or wait for the one that \
         is busy.",
    );
}

/// Waits for the end of a run through the API, and prints its output or its status.
pub(crate) fn await_result(
    output: &Output,
    api: &Api,
    id: &str,
    patience: Duration,
) -> anyhow::Result<Exit> {
    let path = ["runs", id, "result"];
    let soon = patience.min(UNTAKEN);
    let (status, mut outcome) = api.ask_patiently(Method::GET, &path, soon)?;
    let rest = patience.saturating_sub(soon);
    if status == StatusCode::ACCEPTED && !rest.is_zero() {
        if is_untaken(api, id) {
            note_untaken(output);
        }
        (_, outcome) = api.ask_patiently(Method::GET, &path, rest)?;
    }
    tell_outcome(output, &outcome)
}

/// Prints the output of a run, or its status, from the answer of the API.
pub(crate) fn tell_outcome(output: &Output, outcome: &Value) -> anyhow::Result<Exit> {
    let failure = outcome.get("failure").cloned().unwrap_or_default();
    let named = text(outcome, "status")?;
    let status = Status::ALL
        .into_iter()
        .find(|status| status.name() == named)
        .ok_or_else(|| unusable(&format!("`{named}` is no status of a run")))?;
    let failure = serde_json::from_value::<Option<Failure>>(failure)
        .map_err(|error| unusable(&format!("its failure cannot be read: {error}")))?;
    let ended = Ended {
        id: text(outcome, "id")?.to_owned(),
        status,
        output: outcome.get("output").filter(|it| !it.is_null()).cloned(),
        failure,
        kept: true,
    };
    tell(output, ended)
}

/// The status and the outcome of a run.
struct Ended {
    /// Its id.
    id: String,
    /// Its status.
    status: Status,
    /// Its output.
    output: Option<Value>,
    /// Why it faulted.
    failure: Option<Failure>,
    /// Whether the store still has the run.
    kept: bool,
}

/// Prints the output of a run, or why there is none.
fn tell(output: &Output, ended: Ended) -> anyhow::Result<Exit> {
    let item = json!({
        "id": ended.id,
        "status": ended.status,
        "output": ended.output,
        "failure": ended.failure,
    });
    if !output.is_text() {
        output.show(&item, String::new)?;
    } else if let Some(came_out) = &ended.output {
        // A text is printed without quotes for people; `-o json` quotes it.
        match came_out.as_str() {
            Some(text) => output.document(text)?,
            None => output.document(&format!("{came_out:#}"))?,
        }
    }
    match (ended.status, ended.failure) {
        (Status::Completed, _) => Ok(Exit::Done),
        (Status::Faulted, Some(failure)) => Err(faulted(&ended.id, failure, ended.kept).into()),
        (Status::Cancelled, _) => {
            output.note(&format!("Run {} was cancelled.", ended.id));
            Ok(Exit::Cancelled)
        }
        (status, _) => {
            output.note(&format!("Run {} is {status}.", ended.id));
            Ok(if status == Status::Faulted {
                Exit::Faulted
            } else {
                Exit::Suspended
            })
        }
    }
}

/// The failure of a run as an error.
fn faulted(id: &str, failure: Failure, kept: bool) -> Expected {
    let exit = if failure.code == windlass_engine::codes::TIMED_OUT {
        Exit::TimedOut
    } else {
        Exit::Faulted
    };
    let text = format!("Run {id} faulted: {}", failure::message(&failure));
    let note = failure::note(&failure);
    let expected = Expected::new(failure.code, text).note(note).exit(exit);
    if !kept {
        return expected;
    }
    expected.help(format!(
        "`windlass runs trace {id} --logs` shows its executions."
    ))
}
