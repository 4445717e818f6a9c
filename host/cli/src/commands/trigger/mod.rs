//! `windlass trigger`: pending triggers, those that people schedule themselves, and the schedules of
//! workflows.

mod list;
mod next;
mod schedule;
mod schedules;
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
    /// List the schedules of workflows and pending triggers, the soonest first
    List(list::List),
    /// Show a trigger or a schedule
    Show(list::Show),
    /// Fire a trigger now, regardless of its due time, or start a run of a schedule now
    Fire(target::Fire),
    /// Pause a schedule: it starts no runs until it is unpaused
    Pause(schedules::Pause),
    /// Unpause a schedule; its occurrences during the pause do not happen
    #[command(visible_alias = "resume")]
    Unpause(schedules::Unpause),
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
            Self::Pause(pause) => pause.run(context),
            Self::Unpause(unpause) => unpause.run(context),
            Self::Reschedule(reschedule) => reschedule.run(context),
            Self::Cancel(cancel) => cancel.run(context),
            Self::Next(next) => next.run(context),
        }
    }
}
