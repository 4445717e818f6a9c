//! `windlass lock`: who may act.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass_locks::Listed;
use windlass_runtime::client;

use crate::app::Context;
use crate::config::LockBackend;
use crate::exit::Exit;
use crate::output::{Output, table};
use crate::wire::Machine;

/// What to do with locks.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the locks that are held, by key
    List(List),
}

/// The arguments of `lock list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// How many
    #[arg(long, default_value_t = 100, value_name = "COUNT")]
    pub(crate) limit: u32,
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
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let provider = machine.locks()?;
        let mut held = machine.tokio.block_on(provider.list(self.limit))?;
        // Where the store gives out the locks, owning a run is holding its lock.
        if machine.config.locks.provider == LockBackend::Store {
            held.extend(client::owned(store.as_ref(), self.limit)?);
            held.sort_unstable_by(|a, b| a.key.cmp(&b.key));
            held.truncate(self.limit as usize);
        }
        let items: Vec<_> = held.iter().map(item).collect();
        tell(&context.output, &items)
    }
}

/// The members of a lock.
pub(crate) const ORDER: [&str; 4] = ["key", "owner", "token", "lease-ms"];

/// Shows a list of locks.
pub(crate) fn tell(output: &Output, items: &[Value]) -> anyhow::Result<Exit> {
    output.list(items, || {
        let text = |item: &Value, key: &str| match item.get(key) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let lines = items.iter().map(|item| {
            let left_ms = item.get("lease-ms").and_then(Value::as_u64);
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

fn item(lock: &Listed) -> Value {
    json!({
        "key": lock.key,
        "owner": lock.owner,
        "token": lock.token,
        "lease-ms": lock.lease_ms,
    })
}

fn seconds(left_ms: u64) -> String {
    format!("{}.{} s", left_ms / 1000, left_ms % 1000 / 100)
}
