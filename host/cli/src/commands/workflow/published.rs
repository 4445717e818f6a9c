//! `windlass workflow publish`, `list`, `show` and `retract`.

use std::path::{Path, PathBuf};

use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};
use windlass_model::Diagnostic;

use crate::app::Context;
use crate::client::{Api, items, mistakes, number, picked, taken, text};
use crate::codes;
use crate::error::{Expected, or_missing};
use crate::exit::Exit;
use crate::output::{self, Output, columns_of, members};
use crate::source::{self, Source, name_in};

/// How many versions are listed at most.
const LISTED: u32 = 10_000;

/// The arguments of `workflow publish`.
#[derive(Debug, Args)]
#[command(
    after_help = "Runs that have begun stay on their version. Schedules that did not change continue where they were."
)]
pub(crate) struct Publish {
    /// Workflow files, with `-` for standard input, or names of workflows with drafts
    #[arg(required = true, value_name = "FILE|NAME")]
    files: Vec<PathBuf>,
}

/// The arguments of `workflow list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Also list versions that are no longer published
    #[arg(long)]
    all: bool,
}

/// The arguments of `workflow show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The name of the workflow
    name: String,
    /// Show this version instead of the published one
    #[arg(long, value_name = "NUMBER")]
    version: Option<u32>,
    /// Show the text as it was published, comments and all
    #[arg(long)]
    source: bool,
}

/// The arguments of `workflow retract`.
#[derive(Debug, Args)]
pub(crate) struct Retract {
    /// The name of the workflow
    name: String,
}

impl Publish {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        // Read all files before the first is published.
        let given = self.files.iter().map(|file| {
            let given = Given::of(file);
            given.map_err(|error| all_mistakes(file, error, context))
        });
        let given = given.collect::<Result<Vec<_>, _>>()?;
        let (api, output) = (context.api_and_store()?, &context.output);
        let mut items = Vec::with_capacity(given.len());
        for given in &given {
            let mut item = given.publish(&api)?;
            text(&item, "workflow")?;
            if output.is_text() {
                let how = if item.get("unchanged") == Some(&Value::Bool(true)) {
                    output.data.dim("unchanged")
                } else {
                    output.data.good("published")
                };
                output.print(&format!("{}: {how}", version_of(&item)))?;
                given.warn(output, &item);
            }
            if let Some(members) = item.as_object_mut() {
                let file = match given {
                    Given::File(source) => Value::from(source.name.as_str()),
                    Given::Draft(_) => Value::Null,
                };
                members.insert("file".to_owned(), file);
            }
            items.push(item);
        }
        if !output.is_text() {
            output.list(&items, String::new)?;
        }
        Ok(Exit::Done)
    }
}

/// The mistakes of all stages in a file whose form is wrong: the host refuses it, and knows the
/// plugins. Only those of the form, if no host can be asked.
fn all_mistakes(file: &Path, error: Expected, context: &Context) -> Expected {
    // Standard input is used up.
    let Some(own) = error.problems.as_ref().filter(|_| file != Path::new("-")) else {
        return error;
    };
    let Ok((name, text)) = source::text(file) else {
        return error;
    };
    let read = windlass_model::file::read(&text, &name);
    let workflow = read.partial.map(|partial| partial.definition.name);
    let Some(workflow) = workflow.filter(|workflow| !workflow.is_empty()) else {
        return error;
    };
    let Ok(api) = context.api_and_store() else {
        return error;
    };
    let path = ["definitions", &workflow];
    // A host of another version may accept the form: it must not publish what this command refuses.
    let never = Some(("if-match", "\"never\"".to_owned()));
    let refused = api.change(Method::PUT, &path, never, Some(text.to_string()));
    let refused = refused.err().and_then(|error| error.downcast().ok());
    let Some(found) = refused.and_then(|refused: Expected| refused.problems) else {
        return error;
    };
    // The form is located in the text, which is more than the host tells.
    let mut diagnostics = own.diagnostics.clone();
    let told = |it: &Diagnostic| own.diagnostics.iter().any(|own| own.message == it.message);
    let others = found.diagnostics.into_iter().filter(|it| !told(it));
    diagnostics.extend(others.map(|mut it| {
        read.map.locate(&mut it);
        it
    }));
    Expected::of_file(source::problems(name, text, diagnostics))
}

/// A version, for people.
pub(super) fn version_of(item: &Value) -> String {
    let name = item.get("workflow").and_then(Value::as_str);
    let version = item.get("version").and_then(Value::as_u64);
    let (name, version) = (name.unwrap_or_default(), version.unwrap_or_default());
    format!("{} version {version}", output::name(name))
}

/// A file or a draft to publish.
enum Given {
    File(Box<Source>),
    /// The name of the workflow.
    Draft(String),
}

impl Given {
    /// The argument is a file unless it is the name of a workflow.
    fn of(given: &Path) -> Result<Self, Expected> {
        match name_in(given) {
            Some(name) => Ok(Self::Draft(name.to_owned())),
            None => Source::read(given).map(|source| Self::File(Box::new(source))),
        }
    }

    /// Publishes the file or draft. Returns the answer.
    fn publish(&self, api: &Api) -> anyhow::Result<Value> {
        match self {
            Self::File(source) => {
                let path = ["definitions", source.definition.name.as_str()];
                let put = api.change(Method::PUT, &path, None, Some(source.text().to_owned()));
                put.map_err(|error| source.place(error))
            }
            Self::Draft(name) => {
                let published = api.post(&["drafts", name, "publish"], &Value::Null);
                published.map_err(|error| {
                    // Mistakes are shown in the text of the draft, if the draft still exists.
                    let draft = api.get(&["drafts", name]).ok();
                    let content = draft.and_then(|draft| Some(draft.get("text")?.as_str()?.into()));
                    match content {
                        Some(content) => source::place(format!("draft of {name}"), &content, error),
                        None => error,
                    }
                })
            }
        }
    }

    /// Prints the warnings of a published definition.
    fn warn(&self, output: &Output, published: &Value) {
        let found = mistakes(published, "warnings");
        let found = match self {
            Self::File(source) => source.warnings(found),
            Self::Draft(name) => source::problems(format!("draft of {name}"), "".into(), found),
        };
        crate::report::warn(output, &found);
    }
}

/// The members of a version in a list.
const LISTED_KEYS: [&str; 5] = [
    "workflow",
    "version",
    "definition",
    "published",
    "retracted",
];

impl List {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let filter = [
            ("retracted", self.all.to_string()),
            ("check", true.to_string()),
        ];
        let api = context.api()?;
        let keys = [&LISTED_KEYS[..], &["mistakes"]].concat();
        let mut items = api.list(&["definitions"], &filter, LISTED, &keys)?;
        items.iter_mut().for_each(with_problem);
        let mut columns = vec!["workflow", "version", "published"];
        // Most lists have neither.
        let any = |key: &str| items.iter().any(|item| !item[key].is_null());
        columns.extend(["retracted", "problem"].into_iter().filter(|key| any(key)));
        let columns: Vec<_> = columns.into_iter().map(|key| (key, key)).collect();
        let output = &context.output;
        output.list(&items, || columns_of(&items, &columns))?;
        Ok(Exit::Done)
    }
}

/// Replaces the mistakes of a version by its problem: the first of them, if there are any.
fn with_problem(item: &mut Value) {
    let mistakes = taken(item, "mistakes");
    let first = mistakes.get(0).and_then(|first| first.get("detail"));
    if let Some(members) = item.as_object_mut() {
        members.remove("mistakes");
        members.insert("problem".to_owned(), first.cloned().unwrap_or_default());
    }
}

impl Show {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let query = self.version.map(|version| ("version", version.to_string()));
        let query: Vec<_> = query.into_iter().collect();
        let path = ["definitions", self.name.as_str(), "text"];
        let path = path.get(..if self.source { 3 } else { 2 }).unwrap_or(&path);
        let asked = context.api()?.ask(Method::GET, path, &query, None);
        let (_, mut shown) = asked.map_err(|error| or_missing(error, || self.missing()))?;
        if self.source {
            return self.show_source(context, &shown);
        }
        let mut item = picked(taken(&mut shown, "version"), &LISTED_KEYS);
        let triggers = items(&mut shown, "triggers")?.into_iter().map(|trigger| {
            let keys: &[&str] = match trigger.get("event") {
                None | Some(Value::Null) => &["key", "next", "last", "run", "paused"],
                Some(_) => &["key", "event", "match"],
            };
            picked(trigger, keys)
        });
        let triggers: Vec<Value> = triggers.collect();
        if let Some(members) = item.as_object_mut() {
            members.insert("triggers".to_owned(), Value::from(triggers));
            members.insert("file".to_owned(), taken(&mut shown, "file"));
        }
        let order: Vec<&str> = LISTED_KEYS
            .into_iter()
            .chain(["triggers", "file"])
            .collect();
        context.output.show(&item, || members(&item, &order))?;
        Ok(Exit::Done)
    }

    fn show_source(&self, context: &Context, shown: &Value) -> anyhow::Result<Exit> {
        let output = &context.output;
        match shown.get("text").and_then(Value::as_str) {
            Some(text) if output.is_text() => output.print(text.trim_end_matches('\n'))?,
            None if output.is_text() => {
                let text = format!("{} was published without a text", version_of(shown));
                return Err(Expected::new(codes::NO_WORKFLOW, text)
                    .help("`windlass workflow show NAME` shows its definition.")
                    .exit(Exit::NotFound)
                    .into());
            }
            _ => output.show(shown, String::new)?,
        }
        Ok(Exit::Done)
    }

    fn missing(&self) -> Expected {
        let Some(version) = self.version else {
            return missing(&self.name);
        };
        let text = format!(
            "There is no version {version} of the workflow `{}`",
            self.name
        );
        Expected::new(codes::NO_WORKFLOW, text)
            .help("`windlass workflow list --all` shows the versions that there are.")
            .exit(Exit::NotFound)
    }
}

impl Retract {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let path = ["definitions", &self.name];
        let asked = context.api()?.ask(Method::DELETE, &path, &[], None);
        let (_, gone) = asked.map_err(|error| or_missing(error, || missing(&self.name)))?;
        let version = number(&gone, "version")?;
        let item = json!({ "workflow": self.name, "version": version, "result": "retracted" });
        let output = &context.output;
        output.show(&item, || {
            format!("{}: {}", version_of(&item), output.data.good("retracted"))
        })?;
        Ok(Exit::Done)
    }
}

/// The error for a workflow that is not published.
pub(crate) fn missing(name: &str) -> Expected {
    let text = format!("No workflow `{name}` is published");
    Expected::new(codes::NO_WORKFLOW, text)
        .help("`windlass workflow list` shows the published workflows; `workflow publish FILE` publishes one.")
        .exit(Exit::NotFound)
}
