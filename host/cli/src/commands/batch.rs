//! `windlass batch`: operations on many runs.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::app::Context;
use crate::client::{items, number, picked, text};
use crate::exit::Exit;
use crate::output::{Output, columns_of, members};

/// The subcommands of `batch`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List batches, the newest first
    List(List),
    /// Show a batch: its operation, its progress, and the runs that were refused
    Show(Show),
    /// Stop a batch: it ends with the runs that it works on
    Stop(Stop),
}

/// The arguments of `batch list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// How many batches to list at most
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    limit: u32,
}

/// The arguments of `batch show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The number of the batch
    batch: u64,
}

/// The arguments of `batch stop`.
#[derive(Debug, Args)]
pub(crate) struct Stop {
    /// The number of the batch
    batch: u64,
}

/// The members of a batch, in the order in which they are shown.
const ORDER: [&str; 11] = [
    "batch",
    "action",
    "where",
    "standing",
    "created",
    "ended",
    "searched_to",
    "done",
    "refused",
    "refusals",
    "error",
];

impl Command {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run(context),
            Self::Show(show) => {
                let shown = context.api()?.get(&["batches", &show.batch.to_string()])?;
                text(&shown, "standing")?;
                context.output.show(&shown, || members(&shown, &ORDER))?;
                Ok(Exit::Done)
            }
            Self::Stop(stop) => {
                let path = ["batches", &stop.batch.to_string(), "stop"];
                let stopped = context.api()?.post(&path, &Value::Null)?;
                let line = summary(&stopped)?;
                context.output.show(&stopped, || line)?;
                Ok(Exit::Done)
            }
        }
    }
}

impl List {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let items = context.api()?.list(&["batches"], &[], self.limit, &ORDER)?;
        let columns = [
            "batch", "action", "standing", "done", "refused", "created", "ended",
        ];
        let rows: Vec<_> = items
            .iter()
            .map(|item| picked(item.clone(), &columns))
            .collect();
        context
            .output
            .list(&items, || columns_of(&rows, &columns.map(|key| (key, key))))?;
        Ok(Exit::Done)
    }
}

/// How a batch stands, on one line.
pub(crate) fn summary(batch: &Value) -> anyhow::Result<String> {
    let no = number(batch, "batch")?;
    let (standing, done) = (text(batch, "standing")?, number(batch, "done")?);
    let mut line = format!("Batch {no} {standing}: {done} done");
    let refused = number(batch, "refused")?;
    if refused > 0 {
        line.push_str(&format!(", {refused} refused"));
    }
    if let Some(error) = batch.get("error").and_then(Value::as_str) {
        line.push_str(&format!("; {error}"));
    }
    Ok(line)
}

/// Shows a batch that has ended, and the first refusals.
pub(crate) fn tell(output: &Output, batch: &Value) -> anyhow::Result<Exit> {
    let line = summary(batch)?;
    output.show(batch, || line)?;
    let refusals = items(&mut batch.clone(), "refusals")?;
    for refusal in refusals.iter().filter(|_| output.is_text()) {
        let (run, code) = (text(refusal, "run")?, text(refusal, "code")?);
        output.note(&format!("run {run}: {} ({code})", text(refusal, "detail")?));
    }
    Ok(match text(batch, "standing")? {
        "failed" => Exit::Store,
        _ => Exit::Done,
    })
}
