//! The commands, one file each.

mod batch;
mod bookmark;
mod completions;
mod config;
mod dead_letter;
mod dev;
mod doctor;
mod event;
mod explain;
mod health;
mod init;
pub(crate) mod keys;
mod lock;
mod man;
mod plugin;
mod run;
mod runs;
mod serve;
mod store;
mod trigger;
mod trust;
mod ui;
mod workflow;

use clap::Subcommand;

use crate::app::Context;
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;

pub(crate) use runs::{definition, mark, moment, node_name, took, value};

/// The error for a command that cannot be sent to a host.
fn not_by_host() -> Expected {
    Expected::new(
        codes::NOT_BY_SERVER,
        "A host cannot be asked for this command",
    )
    .help("Leave `--server` out (and unset $WINDLASS_SERVER) to do it here, on the store.")
}

/// The commands.
#[derive(Debug, Subcommand)]
#[command(subcommand_value_name = "COMMAND")]
pub(crate) enum Command {
    /// Make a project: settings, a workflow, a folder for plugins, and the schema for editors
    Init(init::Arguments),
    /// Run one workflow to its end
    Run(run::Arguments),
    /// Execute runs from the store as they become due, until stopped
    Serve(serve::Arguments),
    /// Host a project while you write it: publish each saved file, show mistakes and runs
    Dev(dev::Arguments),
    /// Check, draw and publish workflows
    #[command(subcommand)]
    Workflow(workflow::Command),
    /// Start, show and control runs
    #[command(subcommand)]
    Runs(runs::Command),
    /// List, show and stop batches: operations on many runs
    #[command(subcommand)]
    Batch(batch::Command),
    /// Schedule, list and control triggers
    #[command(subcommand)]
    Trigger(trigger::Command),
    /// Send events to workflows, and list events that wait
    #[command(subcommand)]
    Event(event::Command),
    /// List the bookmarks at which runs wait, and resume runs
    #[command(subcommand)]
    Bookmark(bookmark::Command),
    /// List, replay and delete dead letters
    #[command(subcommand)]
    DeadLetter(dead_letter::Command),
    /// List the locks and their owners
    #[command(subcommand)]
    Lock(lock::Command),
    /// Make, build, test, document, list, inspect and call plugins
    #[command(subcommand)]
    Plugin(plugin::Command),
    /// Check, back up, restore and migrate the store
    #[command(subcommand)]
    Store(store::Command),
    /// Show the configuration, its schema and a sample
    #[command(subcommand)]
    Config(config::Command),
    /// Trust a project's security-sensitive settings: grants, secrets, code
    Trust(trust::Arguments),
    /// Manage the keyring: the keys of links and exports
    #[command(subcommand)]
    Keys(keys::Command),
    /// Check that everything windlass needs is present
    Doctor(doctor::Arguments),
    /// Ask the host whether it accepts work
    Health(health::Arguments),
    /// Print the address of the web console
    Ui(ui::Arguments),
    /// Explain an error by its code
    Explain(explain::Arguments),
    /// Print a completion script for a shell
    Completions(completions::Arguments),
    /// Write the manual pages
    #[command(hide = true)]
    Man(man::Arguments),
}

impl Command {
    /// The first word of the command, for reports about crashes.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Init(_) => "init",
            Self::Run(_) => "run",
            Self::Serve(_) => "serve",
            Self::Dev(_) => "dev",
            Self::Workflow(_) => "workflow",
            Self::Runs(_) => "runs",
            Self::Batch(_) => "batch",
            Self::Trigger(_) => "trigger",
            Self::Event(_) => "event",
            Self::Bookmark(_) => "bookmark",
            Self::DeadLetter(_) => "dead-letter",
            Self::Lock(_) => "lock",
            Self::Plugin(_) => "plugin",
            Self::Store(_) => "store",
            Self::Config(_) => "config",
            Self::Trust(_) => "trust",
            Self::Keys(_) => "keys",
            Self::Doctor(_) => "doctor",
            Self::Health(_) => "health",
            Self::Ui(_) => "ui",
            Self::Explain(_) => "explain",
            Self::Completions(_) => "completions",
            Self::Man(_) => "man",
        }
    }

    /// Runs the command.
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        if context.server.is_some()
            && matches!(self, Self::Serve(_) | Self::Dev(_) | Self::Store(_))
        {
            return Err(not_by_host().into());
        }
        match self {
            Self::Init(arguments) => arguments.run(context),
            Self::Run(arguments) => arguments.run(context),
            Self::Serve(arguments) => arguments.run(context),
            Self::Dev(arguments) => arguments.run(context),
            Self::Workflow(command) => command.run(context),
            Self::Runs(command) => command.run(context),
            Self::Batch(command) => command.run(context),
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
            Self::Health(arguments) => arguments.run(context),
            Self::Ui(arguments) => arguments.run(context),
            Self::Explain(arguments) => arguments.run(context),
            Self::Completions(arguments) => arguments.run(context),
            Self::Man(arguments) => arguments.run(context),
        }
    }
}
