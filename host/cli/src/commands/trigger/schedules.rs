//! `windlass trigger pause` and `unpause`, and schedules in the other commands.

use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::Context;
use crate::client::{Api, text};
use crate::exit::Exit;
use crate::output::members;

/// The members of a schedule, as the API and the commands show it.
pub(super) const KEYS: [&str; 11] = [
    "schedule", "workflow", "key", "type", "rule", "state", "next", "last", "run", "paused",
    "troubles",
];

/// The arguments of `trigger pause`.
#[derive(Debug, Args)]
#[command(
    after_help = "Runs that have begun continue. Publishing the workflow again does not end the pause; retracting it deletes the schedule and its pause."
)]
pub(crate) struct Pause {
    /// The schedule: WORKFLOW:KEY, or KEY if only one workflow has it
    schedule: String,
}

/// The arguments of `trigger unpause`.
#[derive(Debug, Args)]
#[command(
    after_help = "Under every `misfire` policy, the next occurrence is the first one after the command."
)]
pub(crate) struct Unpause {
    /// The schedule: WORKFLOW:KEY, or KEY if only one workflow has it
    schedule: String,
}

impl Pause {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let shown = context
            .api()?
            .post(&["schedules", &self.schedule, "pause"], &Value::Null)?;
        let (name, since) = (text(&shown, "schedule")?, text(&shown, "paused")?);
        context
            .output
            .show(&shown, || format!("{name} paused since {since}"))?;
        Ok(Exit::Done)
    }
}

impl Unpause {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let path = ["schedules", &self.schedule, "unpause"];
        let shown = context.api()?.post(&path, &Value::Null)?;
        let name = text(&shown, "schedule")?;
        let next = shown.get("next").and_then(Value::as_str);
        let next = next.unwrap_or("never: the schedule has no more times");
        context
            .output
            .show(&shown, || format!("{name} unpaused, next at {next}"))?;
        Ok(Exit::Done)
    }
}

/// Shows a schedule.
pub(super) fn show(context: &Context, api: &Api, name: &str) -> anyhow::Result<Exit> {
    let shown = api.get(&["schedules", name])?;
    text(&shown, "schedule")?;
    context.output.show(&shown, || members(&shown, &KEYS))?;
    Ok(Exit::Done)
}

/// Starts a run of a schedule.
pub(super) fn fire(context: &Context, api: &Api, name: &str) -> anyhow::Result<Exit> {
    let path = ["schedules", name, "fire"];
    let (_, fired) = api.ask(Method::POST, &path, &[], None)?;
    let (name, run) = (text(&fired, "schedule")?, text(&fired, "run")?);
    let item = json!({ "trigger": name, "result": "fired", "run": run });
    context.output.show(&item, || run.to_owned())?;
    Ok(Exit::Done)
}
