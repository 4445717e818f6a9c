//! `windlass instance`: runs that are in the store.

mod cancel;
mod control;
mod delete;
mod exists;
mod list;
mod result;
mod resume;
mod retry;
mod show;
mod start;
mod stored;
mod trace;
mod transfer;

use clap::Subcommand;

pub(crate) use stored::{definition, moment, node_name, took, value};
pub(crate) use trace::mark;

use crate::app::Context;
use crate::exit::Exit;

/// What to do with runs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a run down for `windlass serve` to carry out
    Start(start::Arguments),
    /// Let a run begin that was only created
    Run(control::Run),
    /// End a run: what runs is interrupted, what waits is dropped
    Cancel(cancel::Arguments),
    /// Stop a run for a while: what is at work goes on to its end, and nothing begins
    Pause(control::Pause),
    /// Let a paused run go on, with what has come meanwhile
    Unpause(control::Unpause),
    /// Let a run go on that waits for something
    Resume(resume::Arguments),
    /// Try a run again that failed or was cancelled
    Retry(retry::Arguments),
    /// Delete a run for good; one that has not ended is cancelled first
    Delete(delete::Arguments),
    /// Write a run to a file, with all that it needs to go on elsewhere
    Export(transfer::Export),
    /// Take a run in that was exported
    Import(transfer::Import),
    /// Say whether there is such a run, by the exit code
    Exists(exists::Arguments),
    /// Print what came out of a run
    Result(result::Arguments),
    /// List runs, the newest of each process first
    List(list::Arguments),
    /// Show one run
    Show(show::Arguments),
    /// Show what a run did, node by node
    Trace(trace::Arguments),
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Self::Start(arguments) => arguments.run(context),
            Self::Run(arguments) => arguments.run(context),
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
        }
    }
}
