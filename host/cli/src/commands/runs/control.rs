//! `windlass runs begin`, `pause` and `unpause`.

use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};

use super::result::Wait;
use super::taken::is_taken;
use crate::app::Context;
use crate::client::{text, truth};
use crate::exit::Exit;

/// The arguments of `runs begin`.
#[derive(Debug, Args)]
#[command(
    after_help = "It is carried out by `windlass serve`. The same again does nothing more: a run \
    begins once."
)]
pub(crate) struct Begin {
    /// The id of the run, or its beginning
    id: String,
}

/// The arguments of `runs pause`.
#[derive(Debug, Args)]
#[command(
    after_help = "The command stores the request, and the owner of the run carries it out. Events \
    and times that come while the run is paused are kept, and act when the run continues. The exit \
    code is 32 if no host has taken the request within three seconds."
)]
pub(crate) struct Pause {
    /// The id of the run, or its beginning
    id: String,
    #[command(flatten)]
    wait: Wait,
}

/// The arguments of `runs unpause`.
#[derive(Debug, Args)]
pub(crate) struct Unpause {
    /// The id of the run, or its beginning
    id: String,
    #[command(flatten)]
    wait: Wait,
}

impl Begin {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let api = context.api()?;
        let id = api.id(&self.id)?;
        let begun = api.post(&["runs", &id, "begin"], &Value::Null)?;
        let existed = truth(&begun, "existed")?;
        let item = json!({ "id": id, "existed": existed });
        context.output.show(&item, || id.clone())?;
        if existed {
            context.output.note("It had begun before.");
        }
        Ok(Exit::Done)
    }
}

impl Pause {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        ask(
            context,
            &self.id,
            &self.wait,
            "pause",
            ("paused", "pausing"),
        )
    }
}

impl Unpause {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let words = ("unpaused", "unpausing");
        ask(context, &self.id, &self.wait, "unpause", words)
    }
}

/// Sends a control request, and prints the first word if it is carried out, or the second if it is
/// still pending.
fn ask(
    context: &Context,
    run: &str,
    wait: &Wait,
    verb: &str,
    words: (&str, &str),
) -> anyhow::Result<Exit> {
    let api = context.api()?;
    let id = api.id(run)?;
    let path = ["runs", &id, verb];
    let (_, standing) = api.ask_patiently(Method::POST, &path, wait.patience())?;
    let status = text(&standing, "status")?;
    let done = standing.get("done") == Some(&Value::Bool(true));
    let result = if done { words.0 } else { words.1 };
    let item = json!({ "id": id, "result": result, "status": status });
    context.output.show(&item, || format!("{id} {result}"))?;
    if done {
        return Ok(Exit::Done);
    }
    Ok(is_taken(&api, &id, verb)?.exit(&context.output))
}
