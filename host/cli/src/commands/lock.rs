//! `windlass lock`: the locks of a cluster.

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::app::Context;
use crate::exit::Exit;
use crate::output::{Output, table};

/// The subcommands of `lock`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the held locks, by key
    List(List),
}

/// The arguments of `lock list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// How many locks to list at most
    #[arg(long, default_value_t = 100, value_name = "COUNT")]
    limit: u32,
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run(context),
        }
    }
}

impl List {
    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let items = context.api()?.list(&["locks"], &[], self.limit, &ORDER)?;
        tell(&context.output, &items)
    }
}

/// The members of a lock.
const ORDER: [&str; 4] = ["key", "owner", "token", "lease_ms"];

/// Shows a list of locks.
fn tell(output: &Output, items: &[Value]) -> anyhow::Result<Exit> {
    output.list(items, || {
        let text = |item: &Value, key: &str| match item.get(key) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let lines = items.iter().map(|item| {
            let left_ms = item.get("lease_ms").and_then(Value::as_u64);
            vec![
                text(item, "key"),
                text(item, "owner"),
                text(item, "token"),
                left_ms.map(seconds).unwrap_or_default(),
            ]
        });
        table(&["lock", "held by", "token", "lease left"], lines.collect())
    })?;
    Ok(Exit::Done)
}

fn seconds(left_ms: u64) -> String {
    format!("{}.{} s", left_ms / 1000, left_ms % 1000 / 100)
}
