//! The commands, one file each.

mod bookmark;
mod completions;
mod config;
mod dead_letter;
mod doctor;
mod event;
mod explain;
mod instance;
pub(crate) mod keys;
mod lock;
mod plugin;
mod run;
mod serve;
mod store;
mod trigger;
mod trust;
mod workflow;

use clap::Subcommand;

use crate::app::Context;
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;

pub(crate) use instance::{definition, mark, moment, node_name, took, value};

/// A host cannot be asked for this command.
fn not_by_host() -> Expected {
    Expected::new(
        codes::NOT_BY_SERVER,
        "A host cannot be asked for this command",
    )
    .help("Leave `--server` out (and unset $WINDLASS_SERVER) to do it here, on the store.")
}

/// What to do.
#[derive(Debug, Subcommand)]
#[command(subcommand_value_name = "COMMAND")]
pub(crate) enum Command {
    /// Run one workflow to its end
    Run(run::Arguments),
    /// Carry out whatever is due in the store, until told to stop
    Serve(serve::Arguments),
    /// Check, draw and publish workflows
    #[command(subcommand)]
    Workflow(workflow::Command),
    /// Start runs, and look at them
    #[command(subcommand)]
    Instance(instance::Command),
    /// Schedule triggers, and look after them
    #[command(subcommand)]
    Trigger(trigger::Command),
    /// Tell workflows what has happened, and look at what waits
    #[command(subcommand)]
    Event(event::Command),
    /// Look at what runs wait for, and resume them
    #[command(subcommand)]
    Bookmark(bookmark::Command),
    /// Look after what could not be delivered
    #[command(subcommand)]
    DeadLetter(dead_letter::Command),
    /// See who holds which lock
    #[command(subcommand)]
    Lock(lock::Command),
    /// Look at plugins, and call them
    #[command(subcommand)]
    Plugin(plugin::Command),
    /// Look after the store as a whole
    #[command(subcommand)]
    Store(store::Command),
    /// Show what is configured, and what can be
    #[command(subcommand)]
    Config(config::Command),
    /// Let the settings of a project count that could do harm: grants, secrets, code
    Trust(trust::Arguments),
    /// Look after the keyring: the keys of links and exports
    #[command(subcommand)]
    Keys(keys::Command),
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
        if context.server.is_some()
            && matches!(self, Self::Serve(_) | Self::Store(_) | Self::Doctor(_))
        {
            return Err(not_by_host().into());
        }
        match self {
            Self::Run(arguments) => arguments.run(context),
            Self::Serve(arguments) => arguments.run(context),
            Self::Workflow(command) => command.run(context),
            Self::Instance(command) => command.run(context),
            Self::Trigger(command) => command.run(context),
            Self::Event(command) => command.run(context),
            Self::Bookmark(command) => command.run(context),
            Self::DeadLetter(command) => command.run(context),
            Self::Lock(command) => command.run(context),
            Self::Plugin(command) => command.run(context),
            Self::Store(command) => command.run(context),
            Self::Config(command) => command.run(context),
            Self::Trust(arguments) => arguments.run(context),
            Self::Keys(command) => command.run(context),
            Self::Doctor(arguments) => arguments.run(context),
            Self::Explain(arguments) => arguments.run(context),
            Self::Completions(arguments) => arguments.run(context),
        }
    }
}
