//! `windlass workflow draft`, and `windlass workflow revert`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass_display::{Problems, diagnostics};
use windlass_runtime::client::{self, SaveDraft};
use windlass_store::drafts::DraftRow;

use crate::app::Context;
use crate::commands::moment;
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::{Output, columns_of};
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
    pub(crate) file: PathBuf,
    /// The workflow, if the text does not say it
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Save it only over this revision; 0: only if there is no draft
    #[arg(long, value_name = "REVISION")]
    pub(crate) over: Option<u64>,
}

/// The arguments of `workflow draft show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The name of the workflow
    pub(crate) name: String,
}

/// The arguments of `workflow draft discard`.
#[derive(Debug, Args)]
pub(crate) struct Discard {
    /// The name of the workflow
    pub(crate) name: String,
    /// Only this revision
    #[arg(long)]
    pub(crate) revision: Option<u64>,
}

/// The arguments of `workflow revert`.
#[derive(Debug, Args)]
#[command(after_help = "What the version says is published again, as a new version.")]
pub(crate) struct Revert {
    /// The name of the workflow
    pub(crate) name: String,
    /// The number of the version
    pub(crate) version: u32,
    /// Make a draft of it, and publish nothing
    #[arg(long)]
    pub(crate) draft: bool,
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
        let warnings = source::problems(name.clone(), text.clone(), saved.warnings);
        let found = source::problems(name, text, saved.problems);
        tell_saved(output, &saved.name, saved.revision, found, &warnings)
    }
}

/// Tells that a draft was saved, and what is wrong with it.
pub(crate) fn tell_saved(
    output: &Output,
    name: &str,
    revision: u64,
    found: Problems,
    warnings: &Problems,
) -> anyhow::Result<Exit> {
    let item = json!({
        "workflow": name,
        "revision": revision,
        "valid": found.diagnostics.is_empty(),
        "diagnostics": diagnostics(&found),
        "warnings": diagnostics(warnings),
    });
    output.show(&item, || {
        let how = output.data.good("saved");
        match found.diagnostics.len() {
            0 => format!("{name} revision {revision}: {how}"),
            1 => format!("{name} revision {revision}: {how}, with a mistake"),
            count => format!("{name} revision {revision}: {how}, with {count} mistakes"),
        }
    })?;
    crate::report::warn(output, warnings);
    if output.is_text() && !found.diagnostics.is_empty() {
        crate::report::report(output, &Expected::of_file(found));
    }
    Ok(Exit::Done)
}

/// The members of a draft.
pub(crate) const ORDER: [&str; 4] = ["workflow", "revision", "based-on", "saved"];

/// Shows a list of drafts.
pub(crate) fn tell_all(output: &Output, items: &[Value]) -> anyhow::Result<Exit> {
    let columns = [
        ("workflow", "workflow"),
        ("revision", "revision"),
        ("based on", "based-on"),
        ("saved", "saved"),
    ];
    output.list(items, || columns_of(items, &columns))?;
    Ok(Exit::Done)
}

/// Shows a draft with its text.
pub(crate) fn tell(output: &Output, mut item: Value, text: &str) -> anyhow::Result<Exit> {
    if let Some(members) = item.as_object_mut() {
        members.insert("text".to_owned(), Value::from(text));
    }
    output.show(&item, || text.trim_end().to_owned())?;
    Ok(Exit::Done)
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
    tell_all(&context.output, &items)
}

impl Show {
    fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let row = client::draft(store.as_ref(), &self.name)?;
        let text = String::from_utf8_lossy(&row.content);
        tell(&context.output, item(&row), &text)
    }
}

impl Discard {
    fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        client::discard_draft(store.as_ref(), &self.name, self.revision)?;
        store.close();
        self.tell(&context.output)
    }

    /// Tells that it is gone.
    pub(crate) fn tell(&self, output: &Output) -> anyhow::Result<Exit> {
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
        self.tell(output, &item)
    }

    /// Tells what the old version is now.
    pub(crate) fn tell(&self, output: &Output, item: &Value) -> anyhow::Result<Exit> {
        let (name, from) = (&self.name, self.version);
        output.show(item, || {
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
