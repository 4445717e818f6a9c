//! `windlass workflow draft`, and `windlass workflow revert`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};
use windlass_display::{Problems, diagnostics};
use windlass_model::file;
use windlass_runtime::codes::NO_DRAFT;
use windlass_runtime::operations::draft_name;

use crate::app::Context;
use crate::client::{mistakes, number, picked, taken, text};
use crate::error::{Expected, or_missing};
use crate::exit::Exit;
use crate::output::{self, Output, columns_of};
use crate::source;

/// How many drafts are listed at most.
const LISTED: u32 = 10_000;

/// The subcommands of `workflow draft`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Save the text of a workflow as its draft, even if it has mistakes
    Save(Save),
    /// List the drafts
    List,
    /// Show a draft
    Show(Show),
    /// Delete a draft
    Discard(Discard),
}

/// The arguments of `workflow draft save`.
#[derive(Debug, Args)]
pub(crate) struct Save {
    /// The file; `-` is standard input
    file: PathBuf,
    /// The name of the workflow, if the text does not contain it
    #[arg(long)]
    name: Option<String>,
    /// Save only if the draft has this revision; 0: only if there is no draft
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
    /// Delete only this revision
    #[arg(long)]
    revision: Option<u64>,
}

/// The arguments of `workflow revert`.
#[derive(Debug, Args)]
#[command(after_help = "The definition of the version is published again, as a new version.")]
pub(crate) struct Revert {
    /// The name of the workflow
    name: String,
    /// The number of the version
    version: u32,
    /// Only make it a draft, without publishing it
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
        let (shown, content) = source::text(&self.file)?;
        // The path names the workflow. The text need not be valid.
        let name = match self.name {
            Some(name) => name,
            None => draft_name(&content)?,
        };
        let over = self.over.map(|revision| match revision {
            0 => ("if-none-match", "*".to_owned()),
            revision => ("if-match", format!("\"{revision}\"")),
        });
        let body = Some(content.to_string());
        let api = context.api_and_store()?;
        let saved = api.change(Method::PUT, &["drafts", &name], over, body)?;
        let revision = number(&saved, "revision")?;
        let (found, warnings) = located(&shown, &content, &saved);
        tell_saved(&context.output, &name, revision, found, &warnings)
    }
}

/// The problems and warnings of an answer, each with its position in the text.
fn located(shown: &str, content: &Arc<str>, saved: &Value) -> (Problems, Problems) {
    let read = file::read(content, "draft");
    let found = mistakes(saved, "problems").into_iter().map(|mut found| {
        let same = read
            .diagnostics
            .iter()
            .find(|known| known.code == found.code && known.message == found.message);
        match same {
            Some(known) => known.clone(),
            None => {
                read.map.locate(&mut found);
                found
            }
        }
    });
    let mut warnings = mistakes(saved, "warnings");
    warnings.iter_mut().for_each(|found| read.map.locate(found));
    let of = |found| source::problems(shown.to_owned(), Arc::clone(content), found);
    (of(found.collect()), of(warnings))
}

/// Reports that a draft was saved, and its mistakes.
fn tell_saved(
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
        let (how, name) = (output.data.good("saved"), output::name(name));
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
const ORDER: [&str; 4] = ["workflow", "revision", "based_on", "saved"];

fn list(context: &Context) -> anyhow::Result<Exit> {
    let items = context.api()?.list(&["drafts"], &[], LISTED, &ORDER)?;
    let columns = [
        ("workflow", "workflow"),
        ("revision", "revision"),
        ("based on", "based_on"),
        ("saved", "saved"),
    ];
    let output = &context.output;
    output.list(&items, || columns_of(&items, &columns))?;
    Ok(Exit::Done)
}

impl Show {
    fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let shown = context.api()?.get(&["drafts", &self.name]);
        let mut shown = shown.map_err(|error| or_missing(error, || no_draft(&self.name)))?;
        let mut item = picked(taken(&mut shown, "draft"), &ORDER);
        let text = text(&shown, "text")?;
        if let Some(members) = item.as_object_mut() {
            members.insert("text".to_owned(), Value::from(text));
        }
        let output = &context.output;
        output.show_document(&item, || text.trim_end().to_owned())?;
        Ok(Exit::Done)
    }
}

/// The error for a workflow without a draft.
fn no_draft(name: &str) -> Expected {
    let text = format!("There is no draft of the workflow `{name}`");
    Expected::new(NO_DRAFT, text)
        .help("`windlass workflow draft list` lists the drafts")
        .exit(Exit::NotFound)
}

impl Discard {
    fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let path = ["drafts", &self.name];
        let only = self.revision.map(|revision| format!("\"{revision}\""));
        let only = only.map(|tag| ("if-match", tag));
        context.api()?.change(Method::DELETE, &path, only, None)?;
        let output = &context.output;
        let item = json!({ "workflow": self.name, "result": "discarded" });
        output.show(&item, || {
            format!(
                "{}: {}",
                output::name(&self.name),
                output.data.good("discarded")
            )
        })?;
        Ok(Exit::Done)
    }
}

impl Revert {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let request = json!({ "version": self.version, "draft": self.draft });
        let path = ["definitions", &self.name, "revert"];
        let item = context.api()?.post(&path, &request)?;
        text(&item, "workflow")?;
        let keys: &[&str] = match self.draft {
            true => &["workflow", "reverted_to", "draft"],
            false => &["workflow", "reverted_to", "version", "unchanged"],
        };
        self.tell(&context.output, &picked(item, keys))
    }

    /// Reports whether the old version was published or became a draft.
    fn tell(&self, output: &Output, item: &Value) -> anyhow::Result<Exit> {
        let (name, from) = (output::name(&self.name), self.version);
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
