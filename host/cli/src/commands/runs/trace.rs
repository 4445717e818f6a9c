//! `windlass runs trace`: the executions of a run, the oldest first.

use std::fmt::Write as _;

use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_display::visible;
use windlass_model::{ExecutionStatus, LogLine};
use windlass_server::Failure;

use super::took;
use crate::app::Context;
use crate::client as answer;
use crate::exit::Exit;
use crate::failure;
use crate::output::Paint;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    id: String,
    #[command(flatten)]
    details: Details,
    /// Show what each node got: its input, and its `with`
    #[arg(long)]
    inputs: bool,
    /// How many executions to show at most, the newest
    #[arg(long, default_value_t = 1000, value_name = "COUNT")]
    limit: u32,
}

/// The details of executions that are shown.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Details {
    /// Show the log lines of the nodes
    #[arg(long)]
    logs: bool,
    /// Show the output of each execution
    #[arg(long)]
    outputs: bool,
}

/// The members of an execution.
pub(super) const ORDER: [&str; 12] = [
    "node", "scope", "trigger", "seq", "attempt", "status", "started", "took_us", "output",
    "failure", "logs", "skipped",
];

/// The members about what the node of an execution got.
const INPUTS: [&str; 2] = ["with", "input"];

impl Arguments {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let api = context.api()?;
        let run = api.find(&self.id)?;
        let path = ["runs", answer::text(&run, "id")?, "executions"];
        let mut items = match self.inputs {
            false => api.list(&path, &[], self.limit, &ORDER)?,
            true => {
                let brief = [("brief", "true".to_owned())];
                let all = api.list_whole(&path, &brief, self.limit)?;
                let whole = |item: Value| {
                    let [runs, id, executions] = path;
                    let no = answer::text(&item, "no")?;
                    let item = api.get(&[runs, id, executions, no])?;
                    Ok(answer::picked(item, &[&ORDER[..], &INPUTS].concat()))
                };
                all.into_iter().map(whole).collect::<anyhow::Result<_>>()?
            }
        };
        items.reverse();
        items.iter_mut().for_each(complete);
        let paint = context.output.data;
        context.output.list(&items, || {
            let name = paint.strong(text(&run, "workflow"));
            let mut said = format!("{name} {} {}\n", text(&run, "id"), text(&run, "status"));
            for item in &items {
                self.details
                    .line(&mut said, answer::at_ms(&run, "created"), item, paint);
            }
            said
        })?;
        Ok(Exit::Done)
    }
}

/// Adds the empty members that the document of an execution leaves out.
pub(super) fn complete(item: &mut Value) {
    if let Some(logs) = item.get_mut("logs").filter(|logs| logs.is_null()) {
        *logs = json!([]);
    }
}

impl Details {
    /// Adds the lines of an execution to a text.
    pub(super) fn line(&self, said: &mut String, created_ms: i64, item: &Value, paint: Paint) {
        let after = answer::at_ms(item, "started").saturating_sub(created_ms);
        let number = |key: &str| item.get(key).and_then(Value::as_u64).unwrap_or_default();
        let attempt = match number("attempt") {
            0 | 1 => String::new(),
            attempt => format!("  attempt {attempt}"),
        };
        let status: Option<ExecutionStatus> = read(item, "status");
        // Writing into a string cannot fail.
        let _ = writeln!(
            said,
            "{:>9} ms  {} {:<24} {:>9}  {}{attempt}",
            format!("+{after}"),
            status.map(|status| mark(status, paint)).unwrap_or_default(),
            named(item),
            took(number("took_us")),
            text(item, "status"),
        );
        if let Some(failure) = read::<Option<Failure>>(item, "failure").flatten() {
            let headline = failure::headline(&failure).replace('\n', "\n                ");
            let _ = writeln!(said, "{:16}{}", "", paint.bad(headline));
            if let Some(details) = failure::details(&failure) {
                let _ = writeln!(said, "{:16}{details}", "");
            }
            for line in failure.stack.iter().flat_map(|stack| stack.lines()) {
                let _ = writeln!(said, "{:18}{}", "", paint.dim(line));
            }
        }
        for name in read::<Vec<String>>(item, "skipped").unwrap_or_default() {
            let mark = mark(ExecutionStatus::Skipped, paint);
            let _ = writeln!(said, "{:14}{mark} {}", "", paint.dim(name));
        }
        for name in ["with", "input"] {
            let given = item.get(name).filter(|given| given.is_object());
            let Some(given) = given else { continue };
            let shown = match given.get("missing").and_then(Value::as_str) {
                Some(why) => format!("is not known: {}", visible::line(why, false)),
                None => given.get("value").map(Value::to_string).unwrap_or_default(),
            };
            let _ = writeln!(said, "{:16}{name:<5} {}", "", paint.dim(shown));
        }
        if self.logs {
            for line in read::<Vec<LogLine>>(item, "logs").unwrap_or_default() {
                let fields = line
                    .fields
                    .iter()
                    .map(|(name, value)| format!(" {name}={value}"));
                let fields: String = fields.collect();
                let message = format!("{}{fields}", line.message);
                let message = visible::line(&message, false);
                let _ = writeln!(said, "{:16}{:<5} {message}", "", line.level);
            }
        }
        if let Some(output) = item
            .get("output")
            .filter(|output| self.outputs && !output.is_null())
        {
            let _ = writeln!(said, "{:16}{}", "", paint.dim(output));
        }
    }
}

/// The node of an execution, with the positions of the items around it: `price[2.0]`.
fn named(item: &Value) -> String {
    let positions = item.pointer("/scope/item").and_then(Value::as_array);
    let positions: Vec<String> = positions
        .into_iter()
        .flatten()
        .map(Value::to_string)
        .collect();
    match positions.is_empty() {
        true => text(item, "node").to_owned(),
        false => format!("{}[{}]", text(item, "node"), positions.join(".")),
    }
}

fn text<'v>(item: &'v Value, key: &str) -> &'v str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn read<T: DeserializeOwned>(item: &Value, key: &str) -> Option<T> {
    T::deserialize(item.get(key)?).ok()
}

/// The sign of a status.
pub(crate) fn mark(status: ExecutionStatus, paint: Paint) -> String {
    match status {
        ExecutionStatus::Completed => paint.good('✓'),
        ExecutionStatus::WaitingRetry => paint.warning('↻'),
        ExecutionStatus::Failed => paint.bad('✗'),
        ExecutionStatus::Suspended => paint.warning('…'),
        ExecutionStatus::Cancelled => paint.warning('⊘'),
        ExecutionStatus::Skipped => paint.dim('-'),
    }
}
