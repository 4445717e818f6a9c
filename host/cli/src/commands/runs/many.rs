//! `--where` of `windlass runs retry`, `cancel` and `delete`: one operation on many runs.
//!
//! Without `--yes` the command shows how many runs match, and ten of them. With it the host gets a
//! batch, and the command follows that until it ends.

use std::time::Duration;

use clap::Args;
use reqwest::Method;
use serde_json::{Map, Value, json};
use windlass_model::Clock as _;
use windlass_runtime::SystemClock;

use super::moment;
use crate::app::Context;
use crate::client::{Api, items, number, truth};
use crate::codes;
use crate::commands::batch;
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::columns_of;

/// The conditions, and the beginning of the command.
#[derive(Debug, Args)]
pub(crate) struct Many {
    /// All runs that match, instead of one: status=, workflow=, since=, until=, correlation=,
    /// failure=, parent= or tag.NAME=; may be repeated, and all have to hold
    #[arg(long = "where", value_name = "CONDITION", value_parser = condition)]
    conditions: Vec<(String, String)>,
    /// With `--where`: do not wait for the end of the batch
    #[arg(long, requires = "conditions")]
    no_wait: bool,
}

const CONDITIONS: &str = "a condition is like `workflow=order`, `status=faulted`, `since=2h`, \
                          `until=INSTANT`, `correlation=TEXT`, `failure=WL-R001`, `parent=ID` or \
                          `tag.customer=acme`";

fn condition(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or(CONDITIONS)?;
    let known = [
        "status",
        "workflow",
        "since",
        "until",
        "correlation",
        "failure",
        "parent",
    ];
    let is_tag = key
        .strip_prefix("tag.")
        .is_some_and(|name| !name.is_empty());
    if !is_tag && !known.contains(&key) {
        return Err(CONDITIONS.to_owned());
    }
    let value = match key {
        "since" | "until" => {
            let now_ms = SystemClock::new().wall_ms();
            let past = windlass_model::file::past_ms(value, now_ms);
            moment(past.map_err(|wrong| wrong.to_string())?)
        }
        _ => value.to_owned(),
    };
    Ok((key.to_owned(), value))
}

impl Many {
    /// Whether the command is about many runs. It names either one run, or conditions.
    ///
    /// # Errors
    ///
    /// It names both or neither.
    pub(super) fn is_meant(&self, id: Option<&str>) -> Result<bool, Expected> {
        let (message, help) = match (id, self.conditions.is_empty()) {
            (Some(_), true) => return Ok(false),
            (None, false) => return Ok(true),
            (Some(_), false) => (
                "The command names a run and conditions",
                "Leave the run out, or `--where`.",
            ),
            (None, true) => (
                "The command names no run",
                "Give the id of a run, or `--where CONDITION` for all that match.",
            ),
        };
        Err(Expected::new(codes::USAGE, message).help(help))
    }

    /// Shows the runs that match; with `--yes`, begins a batch and follows it. `members` are those
    /// of the request beside the runs.
    pub(super) fn run(
        &self,
        context: &Context,
        action: &'static str,
        yes: bool,
        mut members: Map<String, Value>,
    ) -> anyhow::Result<Exit> {
        let (api, output) = (context.api()?, &context.output);
        let runs = self.runs(&api)?;
        if !yes {
            let asked = json!({ "action": action, "where": runs });
            let mut found = api.post(&["batches", "preview"], &asked)?;
            let examples = items(&mut found, "examples")?;
            let (count, exact) = (number(&found, "count")?, truth(&found, "exact")?);
            output.list(&examples, || {
                let rows: Vec<_> = examples.iter().map(super::list::in_columns).collect();
                columns_of(&rows, &super::list::COLUMNS.map(|key| (key, key)))
            })?;
            if count == 0 && exact {
                output.note("No run matches.");
                return Ok(Exit::Done);
            }
            let least = if exact { "" } else { "at least " };
            let shown = examples.len();
            let message =
                format!("This would {action} {least}{count} runs, of which it shows {shown}");
            return Err(Expected::new(codes::CONFIRM, message)
                .help("Add `--yes` to do it.")
                .into());
        }
        members.insert("where".to_owned(), runs);
        let members = Value::Object(members);
        let (_, begun) = api.ask(Method::POST, &["batches", action], &[], Some(&members))?;
        if self.no_wait {
            let no = number(&begun, "batch")?;
            output.show(&begun, || no.to_string())?;
            return Ok(Exit::Done);
        }
        follow(context, &api, begun)
    }

    /// The conditions, as the API has them.
    fn runs(&self, api: &Api) -> anyhow::Result<Value> {
        let (mut runs, mut tags, mut statuses) = (Map::new(), Map::new(), Vec::new());
        for (key, value) in &self.conditions {
            let twice = match key.as_str() {
                "status" => {
                    statuses.extend(value.split(',').map(str::to_owned));
                    None
                }
                "parent" => runs.insert(key.clone(), Value::from(api.id(value)?)),
                key => match key.strip_prefix("tag.") {
                    Some(name) => tags.insert(name.to_owned(), Value::from(value.as_str())),
                    None => runs.insert(key.to_owned(), Value::from(value.as_str())),
                },
            };
            if twice.is_some() {
                let message = format!("`--where {key}=` is there twice");
                let help = "No run has two values of it, so nothing would match.";
                return Err(Expected::new(codes::USAGE, message).help(help).into());
            }
        }
        if !statuses.is_empty() {
            runs.insert("status".to_owned(), json!(statuses));
        }
        if !tags.is_empty() {
            runs.insert("tags".to_owned(), Value::Object(tags));
        }
        Ok(Value::Object(runs))
    }
}

/// How often a batch is looked at.
const LOOK: Duration = Duration::from_millis(300);

/// How often its progress is told.
const TELL: Duration = Duration::from_secs(5);

/// How long no host may work on it.
const SOON: Duration = Duration::from_secs(10);

/// Follows a batch until it ends, or until no host works on it.
fn follow(context: &Context, api: &Api, begun: Value) -> anyhow::Result<Exit> {
    let output = &context.output;
    let no = number(&begun, "batch")?.to_string();
    output.note(&format!(
        "Batch {no} has begun; `windlass batch stop {no}` stops it, and Ctrl-C only ends this command"
    ));
    let clock = SystemClock::new();
    let (mut shown, mut told) = (begun, Duration::ZERO);
    let progress = |batch: &Value| {
        let of = |key: &str| batch.get(key).cloned().unwrap_or_default();
        [of("done"), of("refused"), of("searched_to")]
    };
    let mut moved = clock.monotonic();
    while shown.get("ended").is_none_or(Value::is_null) {
        std::thread::park_timeout(LOOK);
        let now = api.get(&["batches", &no])?;
        let at = clock.monotonic();
        if progress(&now) != progress(&shown) {
            moved = at;
        }
        shown = now;
        if at.saturating_sub(told) >= TELL {
            told = at;
            output.note(&batch::summary(&shown)?);
        }
        if at.saturating_sub(moved) >= SOON {
            output.note(
                "The batch is stored, and no host works on it. `windlass serve` on this store \
                 carries it out; a paused host does so after its pause.",
            );
            return Ok(Exit::NotTaken);
        }
    }
    batch::tell(output, &shown)
}
