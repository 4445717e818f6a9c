//! `windlass trigger`: pending triggers, and those that people schedule themselves.

mod list;
mod next;
mod schedule;
mod target;

use clap::Subcommand;

pub(crate) use target::When;

use crate::app::Context;
use crate::exit::Exit;

/// The subcommands of `trigger`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Schedule a node of a run
    Schedule(schedule::Schedule),
    /// List pending triggers, the soonest first
    List(list::List),
    /// Show a trigger
    Show(list::Show),
    /// Fire a trigger now, regardless of its due time
    Fire(target::Fire),
    /// Change the due time of a trigger
    Reschedule(target::Reschedule),
    /// Cancel a trigger
    Cancel(target::Cancel),
    /// Print the next due times of a workflow's schedules
    Next(next::Next),
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Self::Schedule(schedule) => schedule.run(context),
            Self::List(list) => list.run(context),
            Self::Show(show) => show.run(context),
            Self::Fire(fire) => fire.run(context),
            Self::Reschedule(reschedule) => reschedule.run(context),
            Self::Cancel(cancel) => cancel.run(context),
            Self::Next(next) => next.run(context),
        }
    }
}
