//! `windlass dead-letter`: triggers, resumptions and stimuli that could not be delivered.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};
use windlass_store::letters::LetterKind;

use super::event::duration;
use crate::app::Context;
use crate::client::{number, picked, text};
use crate::codes;
use crate::error::{Expected, or_missing};
use crate::exit::Exit;
use crate::output::{Output, columns_of, members};

/// The members of a dead letter, in the order in which they are shown.
const ORDER: [&str; 8] = [
    "no", "kind", "reason", "run", "died", "replayed", "failure", "body",
];

/// The subcommands of `dead-letter`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List dead letters, the oldest first
    List(List),
    /// Show a dead letter
    Show(One),
    /// Deliver a dead letter again, which is possible once
    Replay(One),
    /// Delete a dead letter
    Delete(Delete),
    /// Delete all dead letters older than a duration
    Purge(Purge),
}

/// The arguments of `dead-letter list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only dead letters of this kind: trigger, resume or stimulus
    #[arg(long, value_parser = kind, value_name = "KIND")]
    kind: Option<LetterKind>,
    /// Only dead letters of this run, given by its id or the beginning of it
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// How many dead letters to list at most
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    limit: u32,
}

/// The arguments of a command about one dead letter.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// The number of the dead letter
    no: i64,
}

/// The arguments of `dead-letter delete`.
#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// The number of the dead letter
    no: i64,
    /// Confirm the deletion, which cannot be undone
    #[arg(long)]
    yes: bool,
}

/// The arguments of `dead-letter purge`.
#[derive(Debug, Args)]
pub(crate) struct Purge {
    /// Delete those older than this
    #[arg(
        long,
        value_parser = duration,
        default_value = "7d",
        value_name = "DURATION",
        allow_hyphen_values = true
    )]
    older_than: u64,
    /// Confirm the deletion, which cannot be undone
    #[arg(long)]
    yes: bool,
}

fn kind(text: &str) -> Result<LetterKind, String> {
    let found = LetterKind::ALL.into_iter().find(|kind| kind.name() == text);
    found.ok_or_else(|| "a kind is trigger, resume or stimulus".to_owned())
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run(context),
            Self::Show(one) => one.show(context),
            Self::Replay(one) => one.replay(context),
            Self::Delete(delete) => delete.run(context),
            Self::Purge(purge) => purge.run(context),
        }
    }
}

impl List {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let api = context.api()?;
        let run = self.run.as_deref().map(|id| api.id(id)).transpose()?;
        let mut filter: Vec<(&str, String)> = Vec::new();
        filter.extend(self.kind.map(|kind| ("kind", kind.name().to_owned())));
        filter.extend(run.map(|id| ("run", id)));
        let items = api.list(&["dead-letters"], &filter, self.limit, &ORDER)?;
        let columns = [
            ("no", "no"),
            ("kind", "kind"),
            ("reason", "reason"),
            ("run", "run"),
            ("died", "died"),
            ("replayed", "replayed"),
        ];
        let output = &context.output;
        output.list(&items, || columns_of(&items, &columns))?;
        Ok(Exit::Done)
    }
}

impl One {
    fn show(&self, context: &Context) -> anyhow::Result<Exit> {
        let shown = context.api()?.get(&["dead-letters", &self.no.to_string()]);
        let shown = shown.map_err(|error| or_missing(error, || missing(self.no)))?;
        let item = picked(shown, &ORDER);
        text(&item, "kind")?;
        context.output.show(&item, || members(&item, &ORDER))?;
        Ok(Exit::Done)
    }

    fn replay(&self, context: &Context) -> anyhow::Result<Exit> {
        let path = ["dead-letters", &self.no.to_string(), "replay"];
        let replayed = context.api()?.post(&path, &Value::Null);
        tell(&context.output, self.no, replayed.map(drop), "replayed")
    }
}

impl Delete {
    fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        confirm(self.yes, "throws the dead letter away")?;
        let path = ["dead-letters", &self.no.to_string()];
        let deleted = context.api()?.ask(Method::DELETE, &path, &[], None);
        tell(&context.output, self.no, deleted.map(drop), "deleted")
    }
}

impl Purge {
    fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        confirm(self.yes, "throws dead letters away")?;
        let api = context.api()?;
        let request = json!({ "older_than": format!("{}ms", self.older_than) });
        let mut count = 0;
        loop {
            let purged = api.post(&["dead-letters", "purge"], &request)?;
            let deleted = number(&purged, "deleted")?;
            count += deleted;
            if deleted == 0 || purged.get("more") != Some(&Value::Bool(true)) {
                break;
            }
        }
        let item = json!({ "deleted": count });
        context.output.show(&item, || format!("{count} deleted"))?;
        Ok(Exit::Done)
    }
}

/// Prints the result for a dead letter, or the reason why nothing was done.
fn tell(output: &Output, no: i64, did: anyhow::Result<()>, done: &str) -> anyhow::Result<Exit> {
    did.map_err(|error| or_missing(error, || missing(no)))?;
    let item = json!({ "no": no, "result": done });
    output.show(&item, || format!("{no} {done}"))?;
    Ok(Exit::Done)
}

/// Refuses an action that cannot be undone unless the user confirms it.
fn confirm(yes: bool, what: &str) -> Result<(), Expected> {
    if yes {
        return Ok(());
    }
    let text = format!("This {what}, and there is no way back");
    Err(Expected::new(codes::CONFIRM, text).help("Add `--yes` to do it."))
}

fn missing(no: i64) -> Expected {
    Expected::new(codes::NO_LETTER, format!("There is no dead letter {no}"))
        .help("`windlass dead-letter list` shows those that there are.")
        .exit(Exit::NotFound)
}
