//! `windlass instance trace`: the run records, oldest first.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};
use windlass_model::{Definition, RunStatus};
use windlass_store::rows::{InstanceRow, RunRow};

use super::find::{definition, find, moment, node_name, took, value};
use crate::app::Context;
use crate::exit::Exit;
use crate::output::Paint;
use crate::wire::Machine;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    id: String,
    /// Show what the nodes logged
    #[arg(long)]
    logs: bool,
    /// Show what came out of each node
    #[arg(long)]
    outputs: bool,
    /// How many executions at most, the newest
    #[arg(long, default_value_t = 1000, value_name = "COUNT")]
    limit: u32,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let row = find(store.as_ref(), &self.id)?;
        let definition = definition(store.as_ref(), &row)?;
        let mut runs = store.runs(row.no, None, self.limit)?;
        runs.reverse();
        let mut items = Vec::with_capacity(runs.len());
        for run in &runs {
            let output = match &run.output {
                Some(payload) if self.outputs || !context.output.is_text() => {
                    Some(value(store.as_ref(), payload)?)
                }
                _ => None,
            };
            items.push(item(definition.as_ref(), run, output.as_ref()));
        }
        let paint = context.output.data;
        context.output.list(&items, || {
            let mut text = heading(&row, definition.as_ref(), paint);
            for (run, item) in runs.iter().zip(&items) {
                self.line(&mut text, &row, definition.as_ref(), (run, item), paint);
            }
            text
        })?;
        Ok(Exit::Done)
    }

    fn line(
        &self,
        text: &mut String,
        row: &InstanceRow,
        definition: Option<&Definition>,
        (run, item): (&RunRow, &Value),
        paint: Paint,
    ) {
        let after = run.started_ms.saturating_sub(row.created_ms);
        let name = node_name(definition, run.node);
        let attempt = if run.attempt > 1 {
            format!("  attempt {}", run.attempt)
        } else {
            String::new()
        };
        // Writing into a string cannot fail.
        let _ = writeln!(
            text,
            "{:>9} ms  {} {name:<24} {:>9}  {}{attempt}",
            format!("+{after}"),
            mark(run.status, paint),
            took(run.took_us),
            run.status.name(),
        );
        if let Some(failure) = &run.failure {
            let _ = writeln!(text, "{:16}{}", "", paint.bad(failure));
        }
        for node in &run.skipped {
            let name = node_name(definition, *node);
            let _ = writeln!(
                text,
                "{:14}{} {}",
                "",
                mark(RunStatus::Skipped, paint),
                paint.dim(name)
            );
        }
        if self.logs {
            for line in &run.logs {
                let fields = line
                    .fields
                    .iter()
                    .map(|(name, value)| format!(" {name}={value}"));
                let fields: String = fields.collect();
                let _ = writeln!(text, "{:16}{:<5} {}{fields}", "", line.level, line.message);
            }
        }
        if let Some(output) = item
            .get("output")
            .filter(|output| self.outputs && !output.is_null())
        {
            let _ = writeln!(text, "{:16}{}", "", paint.dim(output));
        }
    }
}

fn heading(row: &InstanceRow, definition: Option<&Definition>, paint: Paint) -> String {
    let name = definition
        .map(|definition| definition.name.as_str())
        .unwrap_or_default();
    format!("{} {} {}\n", paint.strong(name), row.id, row.status)
}

/// The sign that stands for a status.
pub(crate) fn mark(status: RunStatus, paint: Paint) -> String {
    match status {
        RunStatus::Completed => paint.good('✓'),
        RunStatus::WaitingRetry => paint.warning('↻'),
        RunStatus::Failed => paint.bad('✗'),
        RunStatus::Suspended => paint.warning('…'),
        RunStatus::Cancelled => paint.warning('⊘'),
        RunStatus::Skipped => paint.dim('-'),
    }
}

fn item(definition: Option<&Definition>, run: &RunRow, output: Option<&Value>) -> Value {
    let skipped: Vec<_> = run
        .skipped
        .iter()
        .map(|&node| node_name(definition, node))
        .collect();
    json!({
        "node": node_name(definition, run.node),
        "trigger": run.kind,
        "seq": run.seq,
        "attempt": run.attempt,
        "status": run.status,
        "started": moment(run.started_ms),
        "took_us": run.took_us,
        "output": output,
        "failure": run.failure,
        "logs": run.logs,
        "skipped": skipped,
    })
}
