//! `windlass workflow`: workflow files, drafts and published workflows.

mod draft;
mod neighbours;
mod published;
mod upkeep;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

pub(crate) use neighbours::Neighbours;
pub(crate) use published::missing;
use windlass_display::diagnostics;

use crate::app::Context;
use crate::error::Expected;
use crate::exit::Exit;
use crate::graph;
use crate::output;
use crate::source::{self, Checked, Source};
use crate::wire::Machine;
use crate::wire::plugins::leave_unreadable_secrets_out;

/// The subcommands of `workflow`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Report all mistakes in workflow files
    Validate(Validate),
    /// Draw a workflow
    Graph(Graph),
    /// Publish workflow files, or drafts by name: from then on, their triggers start them
    Publish(published::Publish),
    /// Save, list, show and delete drafts
    #[command(subcommand)]
    Draft(draft::Command),
    /// Publish an old version again
    Revert(draft::Revert),
    /// List the published workflows
    List(published::List),
    /// Show a published workflow
    Show(published::Show),
    /// Retract a workflow: its triggers start no more runs
    Retract(published::Retract),
    /// Read published workflows again, and rebuild the index of their triggers
    Refresh(upkeep::Refresh),
    /// Read the directories of workflow files again
    Reload(upkeep::Reload),
    /// Print the JSON Schema of workflow files, with the node types of the plugins, for editors
    Schema,
}

/// The arguments of `workflow validate`.
#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// The workflow files; `-` is standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// The arguments of `workflow graph`.
#[derive(Debug, Args)]
pub(crate) struct Graph {
    /// The workflow file; `-` is standard input
    file: PathBuf,
    /// Form of the picture
    #[arg(long = "as", value_enum, default_value_t, value_name = "KIND")]
    kind: Kind,
}

/// The form of the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// As rails and stations, in the terminal
    #[default]
    Text,
    /// For Mermaid
    Mermaid,
    /// For Graphviz
    Dot,
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Self::Validate(validate) => validate.run(context),
            Self::Graph(graph) => graph.run(context),
            Self::Publish(publish) => publish.run(context),
            Self::List(list) => list.run(context),
            Self::Show(show) => show.run(context),
            Self::Draft(draft) => draft.run(context),
            Self::Revert(revert) => revert.run(context),
            Self::Retract(retract) => retract.run(context),
            Self::Refresh(refresh) => refresh.run(context),
            Self::Reload(reload) => reload.run(context),
            Self::Schema => {
                let mut config = context.configure("warn")?;
                leave_unreadable_secrets_out(&mut config, &context.output)?;
                let machine = Machine::new(config)?;
                let host = machine.loaded_host(&context.output)?;
                let schema = crate::completion::schema(&host);
                context.output.document(schema.trim_end())?;
                Ok(Exit::Done)
            }
        }
    }
}

impl Graph {
    fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let source = Source::read(&self.file)?;
        let output = &context.output;
        let picture = match self.kind {
            Kind::Text => graph::text(&source.definition, output.data),
            Kind::Mermaid => graph::mermaid(&source.definition),
            Kind::Dot => graph::dot(&source.definition),
        };
        output.show(
            &json!({ "workflow": source.definition.name, "graph": picture }),
            || picture.clone(),
        )?;
        Ok(Exit::Done)
    }
}

impl Validate {
    fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let output = &context.output;
        let mut config = context.configure("warn")?;
        leave_unreadable_secrets_out(&mut config, output)?;
        let machine = Machine::new(config)?;
        let host = machine.loaded_host(output)?;
        let mut items = Vec::new();
        let mut last = None;
        for file in &self.files {
            let others = Neighbours::of(file, &machine);
            let checked = source::check(file, &host, &others);
            let error = match checked {
                Ok(checked) => {
                    items.push(described(&checked));
                    crate::report::warn(output, &checked.warnings);
                    if checked.mistakes.is_none() && output.is_text() {
                        let name = output::name(&checked.name);
                        let nodes = match checked.nodes {
                            1 => "1 node".to_owned(),
                            count => format!("{count} nodes"),
                        };
                        let good = output.data.good("valid");
                        output.print(&format!("{name}: {good}, {nodes}"))?;
                    }
                    checked.mistakes
                }
                Err(error) => {
                    items.push(unreadable(file, &error));
                    Some(error)
                }
            };
            // The mistakes of the last file are reported at the end, like any error.
            if let Some(error) = error
                && let Some(before) = last.replace(error)
                && output.is_text()
            {
                crate::report::report(output, &before);
            }
        }
        if output.is_text() {
            return last.map_or(Ok(Exit::Done), |error| Err(error.into()));
        }
        // The document contains the mistakes, so no error repeats them.
        output.list(&items, String::new)?;
        Ok(last.map_or(Exit::Done, |error| error.exit))
    }
}

fn described(checked: &Checked) -> Value {
    let problems = checked
        .mistakes
        .as_ref()
        .and_then(|error| error.problems.as_deref());
    json!({
        "file": checked.name,
        "valid": checked.mistakes.is_none(),
        "diagnostics": problems.map_or_else(|| json!([]), diagnostics),
        "warnings": diagnostics(&checked.warnings),
    })
}

fn unreadable(file: &Path, error: &Expected) -> Value {
    let unread = || json!([{ "code": error.code, "message": error.message, "help": error.help }]);
    json!({
        "file": file.display().to_string(),
        "valid": false,
        "diagnostics": error.problems.as_deref().map_or_else(unread, diagnostics),
        "warnings": [],
    })
}
