//! `windlass plugin doc`: a page about a plugin, in Markdown.
//!
//! The page says what the description of the component says, and shows calls that the command makes:
//! the examples of the project, each with the result that it gave.

mod json;
mod markdown;
mod members;
mod page;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use windlass_plugins::{Host, Plugin};

use self::page::{Called, page};
use super::example::{self, Example};
use super::inspect::named;
use super::subject::Subject;
use crate::app::Context;
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::file;
use crate::wire::{Machine, compile};

/// The arguments.
#[derive(Debug, Args)]
#[command(
    mut_arg("subject", |it| it
        .value_name("FILE|DIR|NAME")
        .help("The directory of a plugin, a component, or the name of a package")),
    after_help = "The page has the members of configurations, inputs and outputs as the schemas of \
                  the plugin say them. Each file in the folder of the examples is one call, which \
                  the command makes: the page shows its result and its log."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    subject: Subject,
    /// Write the page to this file, in place of stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Arguments {
    /// Whether the plugin is a file or a directory, and not a package that a host has loaded.
    pub(crate) fn is_here(&self) -> bool {
        self.subject.subject.exists()
    }

    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("error")?)?;
        let (_host, plugin, examples) = self.load(context, &machine)?;
        let called: Vec<Called<'_>> = examples
            .iter()
            .map(|example| {
                let ran = example.run(&machine, &plugin, None);
                for difference in example.differences(&ran.got) {
                    let name = &example.name;
                    let text = format!("the example {name} has another result: {difference}");
                    context.output.warn(&text);
                }
                Called { example, ran }
            })
            .collect();
        let text = page(&page::Subject::of(&plugin), &called);
        let Some(path) = &self.out else {
            let item = json!({ "plugin": plugin.name(), "page": text });
            context.output.show_document(&item, || text.clone())?;
            return Ok(Exit::Done);
        };
        std::fs::write(path, &text).map_err(|error| {
            let text = format!("{} cannot be written: {error}", path.display());
            Expected::new(codes::OUTPUT, text)
        })?;
        context.output.note(&format!("{} is written", file(path)));
        Ok(Exit::Done)
    }

    /// The plugin in its host, with its examples.
    fn load(
        &self,
        context: &Context,
        machine: &Machine,
    ) -> anyhow::Result<(Arc<Host>, Arc<Plugin>, Vec<Example>)> {
        if self.is_here() {
            let component = self.subject.component(context, machine)?;
            let host = machine.host(compile::noted(context.output))?;
            let plugin = host.load_file(&component.file)?;
            let examples = component.examples(&plugin)?;
            return Ok((host, plugin, examples));
        }
        let package = self.subject.subject.to_string_lossy();
        let (host, plugin) = named(&context.output, machine, &package)?;
        let folder = self.subject.examples.as_deref();
        let examples = folder.map_or_else(|| Ok(Vec::new()), |it| example::read(it, &plugin))?;
        Ok((host, plugin, examples))
    }
}
