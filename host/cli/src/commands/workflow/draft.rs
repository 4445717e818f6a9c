//! `windlass workflow draft`, and `windlass workflow revert`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass_runtime::client::{self, SaveDraft};
use windlass_store::drafts::DraftRow;

use crate::app::Context;
use crate::commands::moment;
use crate::exit::Exit;
use crate::output::table;
use crate::report::diagnostics;
use crate::source;
use crate::wire::Machine;

/// Drafts that are listed at most.
const LISTED: u32 = 10_000;

/// What to do with drafts.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Save the text of a workflow as its draft, with whatever is wrong with it
    Save(Save),
    /// List the drafts
    List,
    /// Show a draft
    Show(Show),
    /// Throw a draft away
    Discard(Discard),
}

/// The arguments of `workflow draft save`.
#[derive(Debug, Args)]
pub(crate) struct Save {
    /// The file; `-` is standard input
    file: PathBuf,
    /// The workflow, if the text does not say it
    #[arg(long)]
    name: Option<String>,
    /// Save it only over this revision; 0: only if there is no draft
    #[arg(long, value_name = "REVISION")]
    over: Option<u64>,
}

/// The arguments of `workflow draft show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The name of the workflow
    name: String,
}

/// The arguments of `workflow draft discard`.
#[derive(Debug, Args)]
pub(crate) struct Discard {
    /// The name of the workflow
    name: String,
    /// Only this revision
    #[arg(long)]
    revision: Option<u64>,
}

/// The arguments of `workflow revert`.
#[derive(Debug, Args)]
#[command(after_help = "What the version says is published again, as a new version.")]
pub(crate) struct Revert {
    /// The name of the workflow
    name: String,
    /// The number of the version
    version: u32,
    /// Make a draft of it, and publish nothing
    #[arg(long)]
    draft: bool,
}

impl Command {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Self::Save(save) => save.run(context),
            Self::List => list(context),
            Self::Show(show) => show.run(context),
            Self::Discard(discard) => discard.run(context),
        }
    }
}

impl Save {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let output = &context.output;
        let (name, text) = source::text(&self.file)?;
        let machine = Machine::new(context.configure("warn")?)?;
        let host = machine.loaded_host(output)?;
        let store = machine.store()?;
        let now_ms = machine.clock.wall_ms();
        let draft = SaveDraft {
            name: self.name,
            text: text.to_string(),
            expected: self.over,
        };
        let saved = client::save_draft(store.as_ref(), &host, now_ms, &draft)?;
        store.close();
        let found = source::problems(name, text, saved.problems);
        let item = json!({
            "workflow": saved.name,
            "revision": saved.revision,
            "valid": found.diagnostics.is_empty(),
            "diagnostics": diagnostics(&found),
        });
        output.show(&item, || {
            let how = output.data.good("saved");
            let (name, revision) = (&saved.name, saved.revision);
            match found.diagnostics.len() {
                0 => format!("{name} revision {revision}: {how}"),
                1 => format!("{name} revision {revision}: {how}, with a mistake"),
                count => format!("{name} revision {revision}: {how}, with {count} mistakes"),
            }
        })?;
        if output.is_text() && !found.diagnostics.is_empty() {
            crate::report::report(output, &crate::error::Expected::of_file(found));
        }
        Ok(Exit::Done)
    }
}

fn item(row: &DraftRow) -> Value {
    json!({
        "workflow": row.name,
        "revision": row.revision,
        "based-on": row.based_on,
        "saved": moment(row.saved_ms),
    })
}

fn list(context: &Context) -> anyhow::Result<Exit> {
    let machine = Machine::new(context.configure("warn")?)?;
    let store = machine.existing_store()?;
    let rows = store.drafts(None, LISTED)?;
    let items: Vec<_> = rows.iter().map(item).collect();
    context.output.list(&items, || {
        let lines = rows.iter().map(|row| {
            vec![
                row.name.clone(),
                row.revision.to_string(),
                row.based_on
                    .map(|version| version.to_string())
                    .unwrap_or_default(),
                moment(row.saved_ms),
            ]
        });
        table(
            &["workflow", "revision", "based on", "saved"],
            lines.collect(),
        )
    })?;
    Ok(Exit::Done)
}

impl Show {
    fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let row = client::draft(store.as_ref(), &self.name)?;
        let text = String::from_utf8_lossy(&row.content).into_owned();
        let mut item = item(&row);
        if let Some(members) = item.as_object_mut() {
            members.insert("text".to_owned(), Value::from(text.clone()));
        }
        context.output.show(&item, || text.trim_end().to_owned())?;
        Ok(Exit::Done)
    }
}

impl Discard {
    fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let output = &context.output;
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        client::discard_draft(store.as_ref(), &self.name, self.revision)?;
        store.close();
        let item = json!({ "workflow": self.name, "result": "discarded" });
        output.show(&item, || {
            format!("{}: {}", self.name, output.data.good("discarded"))
        })?;
        Ok(Exit::Done)
    }
}

impl Revert {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let output = &context.output;
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let now_ms = machine.clock.wall_ms();
        let (name, from) = (&self.name, self.version);
        let item = if self.draft {
            let revision = client::revert_to_draft(store.as_ref(), now_ms, name, from, None)?;
            json!({ "workflow": name, "reverted-to": from, "draft": revision })
        } else {
            let host = machine.loaded_host(output)?;
            let published = client::revert(store.as_ref(), &host, now_ms, name, from)?;
            json!({
                "workflow": name,
                "reverted-to": from,
                "version": published.version,
                "unchanged": published.unchanged,
            })
        };
        store.close();
        output.show(&item, || {
            let (how, what) = match (item.get("version"), item.get("draft")) {
                (Some(version), _) => ("published", format!("version {version}")),
                (None, Some(revision)) => ("a draft", format!("revision {revision}")),
                (None, None) => ("done", String::new()),
            };
            format!(
                "{name} {what}: as version {from} was, {}",
                output.data.good(how)
            )
        })?;
        Ok(Exit::Done)
    }
}
