//! The commands that act on one trigger, and how a trigger is named.
//!
//! A trigger that a person scheduled has a UUID. Every trigger, those of the engine included, has a
//! name made of its run and its number there: `0193c0de:17`, or `0193c0de:+17` for an external
//! trigger.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::app::Context;
use crate::client::{Api, text};
use crate::codes;
use crate::commands::event::duration;
use crate::commands::moment;
use crate::error::{Expected, or_missing};
use crate::exit::Exit;

/// The arguments of `trigger fire`.
#[derive(Debug, Args)]
pub(crate) struct Fire {
    /// The trigger: its UUID, or RUN:NUMBER as `trigger list` shows it
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
        touch(context, &self.trigger, "fire", &Value::Null)
    }
}

impl Reschedule {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let when = Value::Object(self.when.members());
        touch(context, &self.trigger, "reschedule", &when)
    }
}

impl Cancel {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        touch(context, &self.trigger, "cancel", &Value::Null)
    }
}

fn touch(context: &Context, named: &str, verb: &str, body: &Value) -> anyhow::Result<Exit> {
    let api = context.api()?;
    let done = api.post(&["triggers", &whole_name(&api, named)?, verb], body);
    let done = done.map_err(|error| or_missing(error, || missing(named)))?;
    let result = text(&done, "result")?;
    let item = json!({ "trigger": named, "result": result });
    context.output.show(&item, || format!("{named} {result}"))?;
    Ok(Exit::Done)
}

/// The whole name of a trigger whose run may be given by the beginning of its id.
pub(super) fn whole_name(api: &Api, named: &str) -> anyhow::Result<String> {
    let Some((run, number)) = named.split_once(':') else {
        named.parse::<uuid::Uuid>().map_err(|_| unreadable(named))?;
        return Ok(named.to_owned());
    };
    // The numbers of external triggers have a plus sign.
    let place = number.strip_prefix('+').unwrap_or(number);
    place.parse::<u64>().map_err(|_| unreadable(named))?;
    Ok(format!("{}:{number}", api.id(run)?))
}

fn unreadable(named: &str) -> Expected {
    Expected::new(codes::NO_ID, format!("`{named}` does not name a trigger")).help(
        "Give the UUID that it was scheduled with, or RUN:NUMBER as `windlass trigger list` \
         shows it.",
    )
}

/// The error for a trigger that does not exist.
pub(super) fn missing(named: &str) -> Expected {
    let text = format!("Trigger {named} does not exist");
    Expected::new(codes::NO_TRIGGER, text)
        .help("`windlass trigger list` shows the pending triggers.")
        .exit(Exit::NotFound)
}
