//! `windlass lock`: who may act.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass_locks::Listed;
use windlass_runtime::client;

use crate::app::Context;
use crate::config::LockBackend;
use crate::exit::Exit;
use crate::output::table;
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
        context.output.list(&items, || {
            let lines = held.iter().map(|lock| {
                vec![
                    lock.key.clone(),
                    lock.owner.clone(),
                    lock.token.to_string(),
                    lock.lease_ms.map(seconds).unwrap_or_default(),
                ]
            });
            table(&["lock", "held by", "token", "lease left"], lines.collect())
        })?;
        Ok(Exit::Done)
    }
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
