//! The commands, one file each.

mod completions;
mod config;
mod doctor;
mod explain;
mod instance;
mod plugin;
mod run;
mod serve;
mod workflow;

use clap::Subcommand;

use crate::app::Context;
use crate::exit::Exit;

pub(crate) use instance::{mark, took, value};

/// What to do.
#[derive(Debug, Subcommand)]
#[command(subcommand_value_name = "COMMAND")]
pub(crate) enum Command {
    /// Run one workflow to its end
    Run(run::Arguments),
    /// Carry out whatever is due in the store, until told to stop
    Serve(serve::Arguments),
    /// Check and draw workflow files
    #[command(subcommand)]
    Workflow(workflow::Command),
    /// Start runs, and look at them
    #[command(subcommand)]
    Instance(instance::Command),
    /// Look at plugins, and call them
    #[command(subcommand)]
    Plugin(plugin::Command),
    /// Show what is configured, and what can be
    #[command(subcommand)]
    Config(config::Command),
    /// Check whether everything that windlass needs is there
    Doctor(doctor::Arguments),
    /// Explain an error by its code
    Explain(explain::Arguments),
    /// Print a completion script for a shell
    Completions(completions::Arguments),
}

impl Command {
    /// Does it.
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Self::Run(arguments) => arguments.run(context),
            Self::Serve(arguments) => arguments.run(context),
            Self::Workflow(command) => command.run(context),
            Self::Instance(command) => command.run(context),
            Self::Plugin(command) => command.run(context),
            Self::Config(command) => command.run(context),
            Self::Doctor(arguments) => arguments.run(context),
            Self::Explain(arguments) => arguments.run(context),
            Self::Completions(arguments) => arguments.run(context),
        }
    }
}
