//! `windlass bookmark`: the waits of runs.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::event;
use crate::app::Context;
use crate::client::Api;
use crate::codes;
use crate::error::{Expected, or_missing};
use crate::exit::Exit;
use crate::input;
use crate::output::{Output, columns_of};

/// The subcommands of `bookmark`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the bookmarks at which runs wait, the oldest first
    List(List),
    /// Resume the run that waits at a bookmark
    Resume(Resume),
}

/// The arguments of `bookmark list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only bookmarks of this run, given by its id or the beginning of it
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Only bookmarks of this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only bookmarks with this correlation
    #[arg(long, value_name = "TEXT")]
    correlation: Option<String>,
    /// Also create a link for each, which lets its holder resume the run
    #[arg(long)]
    links: bool,
    /// How many bookmarks to list at most
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    limit: u32,
}

/// The arguments of `bookmark resume`.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// The bookmark: its number, as `bookmark list` shows it, or its link or token
    // A token may begin with a hyphen.
    #[arg(allow_hyphen_values = true)]
    bookmark: String,
    /// Input for the run: JSON, @FILE or KEY=VALUE; may be repeated, and is merged
    #[arg(short, long, value_name = "INPUT", allow_negative_numbers = true)]
    input: Vec<String>,
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run(context),
            Self::Resume(resume) => resume.run(context),
        }
    }
}

/// The members of a bookmark.
pub(crate) const ORDER: [&str; 12] = [
    "no",
    "run",
    "subject",
    "name",
    "match",
    "correlation",
    "private",
    "auto_burn",
    "question",
    "metadata",
    "created",
    "expires",
];

/// The additional member of a bookmark if links were requested.
const LINK: &str = "link";

impl List {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let api = context.api()?;
        let run = self.run.as_deref().map(|id| api.id(id)).transpose()?;
        let mut filter: Vec<(&str, String)> = Vec::new();
        filter.extend(run.map(|id| ("run", id)));
        filter.extend(self.name.map(|name| ("name", name)));
        filter.extend(self.correlation.map(|text| ("correlation", text)));
        filter.extend(self.links.then(|| ("links", "true".to_owned())));
        let link = self.links.then_some(LINK);
        let keys: Vec<&str> = ORDER.into_iter().chain(link).collect();
        let items = api.list(&["bookmarks"], &filter, self.limit, &keys)?;
        tell(&context.output, &items)
    }
}

/// Shows a list of bookmarks.
fn tell(output: &Output, items: &[Value]) -> anyhow::Result<Exit> {
    let columns = [
        ("no", "no"),
        ("run", "run"),
        ("subject", "subject"),
        ("name", "name"),
        ("question", "question"),
        ("match", "match"),
        ("correlation", "correlation"),
        ("expires", "expires"),
        (LINK, LINK),
    ];
    // Few bookmarks have these.
    let rare = ["subject", "question", LINK];
    let is_there = |key: &str| {
        let mut values = items.iter().filter_map(|item| item.get(key));
        values.any(|value| !value.is_null())
    };
    let shown = columns.into_iter();
    let shown: Vec<_> = shown
        .filter(|(_, key)| !rare.contains(key) || is_there(key))
        .collect();
    output.list(items, || columns_of(items, &shown))?;
    Ok(Exit::Done)
}

/// The error for a bookmark that does not exist any more.
pub(crate) fn no_waiting_run(bookmark: &str) -> Expected {
    let help = "It was resumed already, it has expired, or the run is over. `windlass bookmark \
                list` shows the bookmarks for which runs wait.";
    Expected::new(
        codes::NO_BOOKMARK,
        format!("No run waits at the bookmark `{bookmark}`"),
    )
    .help(help)
    .exit(Exit::NotFound)
}

/// Resumes a run that waits at a bookmark, given by the number or the token of the bookmark.
pub(crate) fn resume(api: &Api, bookmark: &str, input: &Value) -> anyhow::Result<Value> {
    let sent = event::send(
        api,
        &["bookmarks", bookmark, "resume"],
        &json!({ "input": input }),
    );
    sent.map_err(|error| or_missing(error, || no_waiting_run(bookmark)))
}

impl Resume {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let input = input::parse(&self.input)?;
        let named = self.bookmark.rsplit('/').next().unwrap_or_default();
        let sent = resume(&context.api()?, named, &input)?;
        context.output.show(&sent, || event::text(&sent))?;
        Ok(Exit::Done)
    }
}
