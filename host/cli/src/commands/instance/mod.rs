//! `windlass instance`: runs that are in the store.

mod cancel;
mod find;
mod list;
mod result;
mod show;
mod start;
mod trace;

use clap::Subcommand;

pub(crate) use find::{definition, find, moment, node_name, took, value};
pub(crate) use trace::mark;

use crate::app::Context;
use crate::exit::Exit;

/// What to do with runs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a run down for `windlass serve` to carry out
    Start(start::Arguments),
    /// End a run: what runs is interrupted, what waits is dropped
    Cancel(cancel::Arguments),
    /// Print what came out of a run
    Result(result::Arguments),
    /// List runs, the newest first
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
            Self::Cancel(arguments) => arguments.run(context),
            Self::Result(arguments) => arguments.run(context),
            Self::List(arguments) => arguments.run(context),
            Self::Show(arguments) => arguments.run(context),
            Self::Trace(arguments) => arguments.run(context),
        }
    }
}
