//! The commands, one file each.

mod completions;
mod config;
mod explain;

use clap::Subcommand;

use crate::app::Context;
use crate::exit::Exit;

/// What to do.
#[derive(Debug, Subcommand)]
#[command(subcommand_value_name = "COMMAND", disable_help_subcommand = false)]
pub(crate) enum Command {
    /// Show what is configured, and what can be
    #[command(subcommand)]
    Config(config::Command),
    /// Explain an error by its code
    Explain(explain::Arguments),
    /// Print a completion script for a shell
    Completions(completions::Arguments),
}

impl Command {
    /// Does it.
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Self::Config(command) => command.run(context),
            Self::Explain(arguments) => arguments.run(context),
            Self::Completions(arguments) => arguments.run(context),
        }
    }
}
