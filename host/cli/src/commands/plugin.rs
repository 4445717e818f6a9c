//! `windlass plugin`.

mod archive;
mod bench;
mod build;
mod call;
mod dev;
mod doc;
mod example;
mod host;
mod inspect;
mod languages;
mod list;
mod new;
mod subject;
mod test;
mod warm;
mod wit;

use std::path::Path;

use clap::Subcommand;

pub(crate) use self::list::{summary, unproved};
use super::not_by_host;
use crate::app::Context;
use crate::exit::Exit;
use crate::wire::Machine;

/// The subcommands of `plugin`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the plugins, and those that cannot be loaded
    List,
    /// Compile all plugins into the cache, so that a host that starts next has their code
    #[command(
        after_help = "Run it with the new version of the program and the configuration of the host, \
                      before the new host takes over from the old one. It exits with 21 if a plugin \
                      cannot be loaded."
    )]
    Warm,
    /// Show a plugin's nodes, its imports and its grants
    Inspect(inspect::Inspect),
    /// Run one node by itself, without a workflow
    Call(call::Arguments),
    /// Make the project of a new plugin
    New(new::Arguments),
    /// Build a plugin's project into a component
    Build(build::Arguments),
    /// Build a plugin's project at each save, and call the plugin with its examples
    Dev(dev::Arguments),
    /// Run the tests of a plugin: its author's, its examples, and those that every plugin passes
    Test(test::Arguments),
    /// Measure how many calls a second the nodes of a plugin answer
    Bench(bench::Arguments),
    /// Write a page about a plugin, in Markdown
    Doc(doc::Arguments),
    /// Write the contract between host and plugins into a folder, as WIT
    #[command(
        after_help = "Tools for components read the folder: wit-bindgen, componentize-py, \
                            jco. Its worlds are in plugin.wit; choose the smallest that has the \
                            functions of your plugin."
    )]
    Wit(wit::Wit),
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = || -> anyhow::Result<_> { Machine::new(context.configure("warn")?) };
        let remote = context.server.is_some();
        match self {
            Self::New(arguments) => arguments.run(context),
            Self::Build(arguments) => arguments.run(context),
            Self::Dev(arguments) => arguments.run(context),
            Self::Test(arguments) => arguments.run(context),
            Self::Bench(arguments) => arguments.run(context),
            Self::Wit(wit) => wit.run(context),
            // The files of a host's plugins are on its machine.
            Self::Doc(doc) if remote && !doc.is_here() => Err(not_by_host().into()),
            Self::Doc(doc) => doc.run(context),
            Self::List if remote => host::list(context),
            // This process inspects a file itself.
            Self::Inspect(inspect) if remote && !Path::new(&inspect.plugin).is_file() => {
                host::inspect(context, &inspect.plugin)
            }
            Self::Call(_) | Self::Warm if remote => Err(not_by_host().into()),
            Self::List => list::list(context, &machine()?),
            Self::Warm => warm::warm(context, &machine()?),
            Self::Inspect(inspect) => inspect.run(context, &machine()?),
            Self::Call(call) => call.run(context, &machine()?),
        }
    }
}
