//! `windlass trigger`: what is due when, and what people schedule themselves.

mod list;
mod next;
mod schedule;
mod target;

use clap::Subcommand;

pub(crate) use target::When;

use crate::app::Context;
use crate::exit::Exit;

/// What to do with triggers.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Schedule a node of a run
    Schedule(schedule::Schedule),
    /// List what is pending, the soonest first
    List(list::List),
    /// Show a trigger
    Show(list::Show),
    /// Fire a trigger now, whatever it says itself
    Fire(target::Fire),
    /// Let a trigger fire at another time
    Reschedule(target::Reschedule),
    /// Cancel a trigger
    Cancel(target::Cancel),
    /// Print the coming times of a schedule
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
