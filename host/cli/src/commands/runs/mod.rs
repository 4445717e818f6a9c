//! `windlass runs`: the runs in the store.

mod cancel;
mod control;
mod delete;
mod exists;
mod list;
mod many;
mod result;
mod resume;
mod retry;
mod show;
mod start;
mod stored;
mod taken;
mod trace;
mod transfer;
mod watch;

use clap::Subcommand;

pub(crate) use stored::{definition, moment, node_name, took, value};
pub(crate) use trace::mark;

use crate::app::Context;
use crate::exit::Exit;

/// The subcommands of `runs`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Store a run for `windlass serve` to execute
    Start(start::Arguments),
    /// Begin a run that was created with `--create-only` or for later
    Begin(control::Begin),
    /// Cancel a run, or all that match: executions are interrupted, and waits are dropped
    Cancel(cancel::Arguments),
    /// Pause a run: current executions finish, and no new ones begin
    Pause(control::Pause),
    /// Continue a paused run, with the triggers that became due meanwhile
    Unpause(control::Unpause),
    /// Resume a run that waits at a bookmark
    Resume(resume::Arguments),
    /// Continue a run that failed or was cancelled, or all that match
    Retry(retry::Arguments),
    /// Delete a run for good, or all ended ones that match; one that has not ended is cancelled first
    Delete(delete::Arguments),
    /// Write a run to a file, with everything another store needs to continue it
    Export(transfer::Export),
    /// Import a run from a file that `export` wrote
    Import(transfer::Import),
    /// Exit with 0 if the run exists, otherwise with 41
    Exists(exists::Arguments),
    /// Print the output of a run
    Result(result::Arguments),
    /// List runs, the newest first
    List(list::Arguments),
    /// Show one run
    Show(show::Arguments),
    /// Show the executions of a run, node by node
    Trace(trace::Arguments),
    /// Show the executions of a run as they happen, and then its output
    Watch(watch::Arguments),
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Self::Start(arguments) => arguments.run(context),
            Self::Begin(arguments) => arguments.run(context),
            Self::Cancel(arguments) => arguments.run(context),
            Self::Pause(arguments) => arguments.run(context),
            Self::Unpause(arguments) => arguments.run(context),
            Self::Resume(arguments) => arguments.run(context),
            Self::Retry(arguments) => arguments.run(context),
            Self::Delete(arguments) => arguments.run(context),
            Self::Export(arguments) => arguments.run(context),
            Self::Import(arguments) => arguments.run(context),
            Self::Exists(arguments) => arguments.run(context),
            Self::Result(arguments) => arguments.run(context),
            Self::List(arguments) => arguments.run(context),
            Self::Show(arguments) => arguments.run(context),
            Self::Trace(arguments) => arguments.run(context),
            Self::Watch(arguments) => arguments.run(context),
        }
    }
}
