//! Which trigger is meant, and what is done with it.
//!
//! A trigger that a person scheduled has a UUID. Any trigger, those of the engine included, is
//! named by its run and its place there: `0193c0de:17`, or `0193c0de:+17` for one that came
//! from outside.

use clap::Args;
use serde_json::json;
use windlass_model::{InstanceNo, Seq, TriggerId, TriggerNo};
use windlass_runtime::client;
use windlass_store::Store;
use windlass_store::outside::{Touched, TriggerTarget};

use crate::app::Context;
use crate::codes;
use crate::commands::event::duration;
use crate::commands::find;
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::Output;
use crate::wire::Machine;

/// The arguments of `trigger fire`.
#[derive(Debug, Args)]
pub(crate) struct Fire {
    /// The trigger: its UUID, or RUN:NUMBER as `trigger list` shows it
    pub(crate) trigger: String,
}

/// The arguments of `trigger reschedule`.
#[derive(Debug, Args)]
pub(crate) struct Reschedule {
    /// The trigger: its UUID, or RUN:NUMBER as `trigger list` shows it
    pub(crate) trigger: String,
    #[command(flatten)]
    pub(crate) when: When,
}

/// The arguments of `trigger cancel`.
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// The trigger: its UUID, or RUN:NUMBER as `trigger list` shows it
    pub(crate) trigger: String,
}

/// A moment.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct When {
    /// When: like 2026-01-31T12:00:00Z
    #[arg(long, value_parser = instant, value_name = "INSTANT")]
    pub(crate) at: Option<i64>,
    /// After how long: like 90s or 3d
    #[arg(long = "in", value_parser = duration, value_name = "DURATION")]
    pub(crate) after: Option<u64>,
}

fn instant(text: &str) -> Result<i64, String> {
    let help = "instants are like 2026-01-31T12:00:00Z";
    windlass_model::file::parse_instant_ms(text).ok_or_else(|| help.to_owned())
}

impl When {
    /// In epoch milliseconds, if a moment was given.
    pub(crate) fn due_ms(&self, now_ms: i64) -> Option<i64> {
        let after = self
            .after
            .map(|after| now_ms.saturating_add_unsigned(after));
        self.at.or(after)
    }
}

impl Fire {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        touch(context, &self.trigger, "fired", |store, now_ms, target| {
            client::fire(store, now_ms, target)
        })
    }
}

impl Reschedule {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        touch(
            context,
            &self.trigger,
            "rescheduled",
            |store, now_ms, target| {
                let due_ms = self.when.due_ms(now_ms).unwrap_or(now_ms);
                client::reschedule(store, target, due_ms)
            },
        )
    }
}

impl Cancel {
    pub(super) fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        touch(context, &self.trigger, "cancelled", client::cancel_trigger)
    }
}

fn touch(
    context: &Context,
    named: &str,
    done: &str,
    ask: impl FnOnce(&dyn Store, i64, TriggerTarget) -> Result<Touched, windlass_runtime::Error>,
) -> anyhow::Result<Exit> {
    let machine = Machine::new(context.configure("warn")?)?;
    let store = machine.existing_store()?;
    let target = target(store.as_ref(), named)?;
    let touched = ask(store.as_ref(), machine.clock.wall_ms(), target)?;
    store.close();
    let result = match touched {
        Touched::Done => done,
        // Whoever runs it has been asked, or it happens just now anyway.
        Touched::Running => "running",
        other => return Err(refuse(other, &format!("Trigger {named}")).into()),
    };
    tell(&context.output, named, result)
}

/// Tells what became of a trigger.
pub(crate) fn tell(output: &Output, named: &str, result: &str) -> anyhow::Result<Exit> {
    let item = json!({ "trigger": named, "result": result });
    output.show(&item, || format!("{named} {result}"))?;
    Ok(Exit::Done)
}

/// Which trigger a name means.
enum Named<'a> {
    /// One that was named from outside.
    Outside(TriggerId),
    /// The run, and the place there.
    Row(&'a str, Seq),
}

fn read(named: &str) -> Result<Named<'_>, Expected> {
    let Some((run, number)) = named.split_once(':') else {
        let id = named.parse().map_err(|_| unreadable(named))?;
        return Ok(Named::Outside(TriggerId(id)));
    };
    let seq = match number.strip_prefix('+') {
        Some(outside) => outside.parse().map(|no| Seq::outside(TriggerNo(no))),
        None => number.parse().map(Seq),
    };
    Ok(Named::Row(run, seq.map_err(|_| unreadable(named))?))
}

/// Refuses what names no trigger.
pub(crate) fn check(named: &str) -> Result<(), Expected> {
    read(named).map(drop)
}

/// The trigger that is meant.
pub(super) fn target(store: &dyn Store, named: &str) -> anyhow::Result<TriggerTarget> {
    Ok(match read(named)? {
        Named::Outside(id) => TriggerTarget::Outside(id),
        Named::Row(run, seq) => TriggerTarget::Row(find(store, run)?.no, seq),
    })
}

/// How a trigger is named on the command line, given the id of its run.
pub(super) fn name(run: &str, seq: Seq) -> String {
    match seq.outside_no() {
        Some(no) => format!("{run}:+{no}"),
        None => format!("{run}:{seq}"),
    }
}

/// How a trigger is named whose run is known by its number.
pub(super) fn name_of(store: &dyn Store, instance: InstanceNo, seq: Seq) -> anyhow::Result<String> {
    let row = store.instance_by_no(instance)?;
    let run = row.map(|row| row.id.to_string()).unwrap_or_default();
    Ok(name(&run, seq))
}

fn unreadable(named: &str) -> Expected {
    Expected::new(codes::NO_ID, format!("`{named}` does not name a trigger")).help(
        "Give the UUID that it was scheduled with, or RUN:NUMBER as `windlass trigger list` \
         shows it.",
    )
}

/// Why something was not done.
pub(crate) fn refuse(touched: Touched, what: &str) -> Expected {
    let late = |text: String| {
        Expected::new(codes::TOO_LATE, text)
            .help("`windlass instance show ID` says where the run is now.")
            .exit(Exit::Conflict)
    };
    match touched {
        Touched::NotFound => Expected::new(codes::NO_TRIGGER, format!("{what} does not exist"))
            .help("`windlass trigger list` shows what is pending.")
            .exit(Exit::NotFound),
        Touched::Closed => late(format!("{what} is closed: the run is over")),
        Touched::Dead => late(format!("{what} is a dead letter"))
            .help("`windlass dead-letter list` shows it; `dead-letter replay NO` tries it again."),
        Touched::Waiting => late(format!("{what} waits for an event or for another run"))
            .help("`windlass bookmark list` shows what for; only that lets it go on."),
        Touched::Done | Touched::Running | Touched::AlreadyFinished => {
            late(format!("{what} is finished already"))
        }
    }
}
