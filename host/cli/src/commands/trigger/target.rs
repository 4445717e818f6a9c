//! The commands that act on one trigger, and how a trigger or a schedule is named.
//!
//! A trigger that a person scheduled has a UUID. Every trigger, those of the engine included, has a
//! name made of its run and its number there: `0193c0de:17`, or `0193c0de:+17` for an external
//! trigger. A schedule is named by its workflow and its key there, `report:nightly`, or by its key
//! alone. A key never is a number, so the names differ.

use clap::Args;
use serde_json::{Map, Value, json};

use super::schedules;
use crate::app::Context;
use crate::client::{Api, text};
use crate::codes;
use crate::commands::event::duration;
use crate::commands::moment;
use crate::error::{Expected, or_missing};
use crate::exit::Exit;

/// The arguments of `trigger fire`.
#[derive(Debug, Args)]
#[command(
    after_help = "A run of a schedule has the input of the schedule, and counts as its last run: the next occurrence obeys `overlap`. A paused schedule can be fired, too."
)]
pub(crate) struct Fire {
    /// The trigger: its UUID, RUN:NUMBER, or a schedule: WORKFLOW:KEY or KEY
    trigger: String,
}

/// The arguments of `trigger reschedule`.
#[derive(Debug, Args)]
pub(crate) struct Reschedule {
    /// The trigger: its UUID, or RUN:NUMBER as `trigger list` shows it
    trigger: String,
    #[command(flatten)]
    when: When,
}

/// The arguments of `trigger cancel`.
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// The trigger: its UUID, or RUN:NUMBER as `trigger list` shows it
    trigger: String,
}

/// A moment.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct When {
    /// The due time, an instant like 2026-01-31T12:00:00Z
    #[arg(long, value_parser = instant, value_name = "INSTANT")]
    at: Option<i64>,
    /// The due time, counted from now, like 90s or 3d
    #[arg(
        long = "in",
        value_parser = duration,
        value_name = "DURATION",
        allow_hyphen_values = true
    )]
    after: Option<u64>,
}

fn instant(text: &str) -> Result<i64, String> {
    windlass_model::file::instant_ms(text).map_err(|wrong| wrong.to_string())
}

impl When {
    /// The members of the API request.
    pub(crate) fn members(&self) -> Map<String, Value> {
        let at = self.at.map(|at_ms| ("at", moment(at_ms)));
        let after = self
            .after
            .map(|after_ms| ("after", format!("{after_ms}ms")));
        let members = at.or(after).into_iter();
        members
            .map(|(key, text)| (key.to_owned(), Value::from(text)))
            .collect()
    }
}

impl Fire {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let api = context.api()?;
        match Named::read(&api, &self.trigger)? {
            Named::Schedule(name) => schedules::fire(context, &api, &name),
            Named::Trigger(trigger) => {
                let asked = (trigger.as_str(), "fire", &Value::Null);
                touch(context, &api, &self.trigger, asked)
            }
        }
    }
}

impl Reschedule {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let when = Value::Object(self.when.members());
        alone(context, &self.trigger, "reschedule", &when)
    }
}

impl Cancel {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        alone(context, &self.trigger, "cancel", &Value::Null)
    }
}

/// Sends a command that is for triggers, and not for schedules.
fn alone(context: &Context, named: &str, verb: &str, body: &Value) -> anyhow::Result<Exit> {
    let api = context.api()?;
    match Named::read(&api, named)? {
        Named::Trigger(trigger) => touch(context, &api, named, (&trigger, verb, body)),
        Named::Schedule(name) => Err(no_trigger(&name, verb).into()),
    }
}

fn touch(
    context: &Context,
    api: &Api,
    named: &str,
    (trigger, verb, body): (&str, &str, &Value),
) -> anyhow::Result<Exit> {
    let done = api.post(&["triggers", trigger, verb], body);
    let done = done.map_err(|error| or_missing(error, || missing(named)))?;
    let result = text(&done, "result")?;
    let item = json!({ "trigger": named, "result": result });
    context.output.show(&item, || format!("{named} {result}"))?;
    Ok(Exit::Done)
}

/// What a name stands for.
pub(super) enum Named {
    /// A trigger: the UUID that it was scheduled with, or its run, whole, and its number there.
    Trigger(String),
    /// A schedule: its workflow and its key there, or its key.
    Schedule(String),
}

impl Named {
    /// Reads a name. The run of a trigger may be given by the beginning of its id.
    pub(super) fn read(api: &Api, named: &str) -> anyhow::Result<Self> {
        let Some((run, number)) = named.split_once(':') else {
            return Ok(match named.parse::<uuid::Uuid>() {
                Ok(_) => Self::Trigger(named.to_owned()),
                Err(_) if is_key(named) => Self::Schedule(named.to_owned()),
                Err(_) => return Err(unreadable(named).into()),
            });
        };
        // The numbers of external triggers have a plus sign.
        let place = number.strip_prefix('+').unwrap_or(number);
        if place.parse::<u64>().is_ok() {
            return Ok(Self::Trigger(format!("{}:{number}", api.id(run)?)));
        }
        match is_key(number) {
            true => Ok(Self::Schedule(named.to_owned())),
            false => Err(unreadable(named).into()),
        }
    }
}

/// Whether a text may be the key of a schedule.
fn is_key(text: &str) -> bool {
    let is = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    !text.starts_with(|c: char| c.is_ascii_digit()) && !text.is_empty() && text.chars().all(is)
}

fn unreadable(named: &str) -> Expected {
    let text = format!("`{named}` does not name a trigger or a schedule");
    Expected::new(codes::NO_ID, text).help(
        "Give the UUID that it was scheduled with, RUN:NUMBER or WORKFLOW:KEY, as `windlass \
         trigger list` shows it.",
    )
}

/// The error for a command on a schedule that concerns triggers only.
fn no_trigger(name: &str, verb: &str) -> Expected {
    let text = format!("`{name}` is a schedule, and `trigger {verb}` is for one pending trigger");
    Expected::new(codes::NO_ID, text).help(
        "`windlass trigger pause` pauses a schedule; its times are in the workflow file, which is \
         published again.",
    )
}

/// The error for a trigger that does not exist.
pub(super) fn missing(named: &str) -> Expected {
    let text = format!("Trigger {named} does not exist");
    Expected::new(codes::NO_TRIGGER, text)
        .help("`windlass trigger list` shows the pending triggers.")
        .exit(Exit::NotFound)
}
