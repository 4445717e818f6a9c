//! `windlass instance list`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use clap::Args;
use serde_json::{Value, json};
use windlass_model::{Digest, Status};
use windlass_store::read::InstanceQuery;

use super::find::moment;
use crate::app::Context;
use crate::exit::Exit;
use crate::output::{Output, columns_of};
use crate::wire::Machine;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "They are listed by their numbers, which are those of the process that wrote a \
    run down: first the process that joined the store last, and of each the newest run first."
)]
pub(crate) struct Arguments {
    /// Only runs in this status; may be repeated
    #[arg(long, value_parser = status, value_name = "STATUS")]
    pub(crate) status: Vec<Status>,
    /// Only runs of this workflow
    #[arg(long, value_name = "NAME")]
    pub(crate) workflow: Option<String>,
    /// How many
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    pub(crate) limit: u32,
}

fn status(text: &str) -> Result<Status, String> {
    Status::ALL
        .into_iter()
        .find(|status| status.name() == text)
        .ok_or_else(|| {
            let names: Vec<_> = Status::ALL.iter().map(|status| status.name()).collect();
            format!("a status is one of {}", names.join(", "))
        })
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let rows = store.instances(&InstanceQuery {
            statuses: self.status,
            workflow: self.workflow,
            before: None,
            limit: self.limit,
        })?;
        let mut names: BTreeMap<Digest, String> = BTreeMap::new();
        for row in &rows {
            if let Entry::Vacant(entry) = names.entry(row.definition) {
                let stored = store.definition(row.definition)?;
                entry.insert(stored.map(|stored| stored.name).unwrap_or_default());
            }
        }
        let name = |digest| names.get(digest).cloned().unwrap_or_default();
        let items: Vec<_> = rows
            .iter()
            .map(|row| {
                json!({
                    "id": row.id,
                    "workflow": name(&row.definition),
                    "status": row.status,
                    "correlation": row.correlation,
                    "created": moment(row.created_ms),
                    "finished": row.finished_ms.map(moment),
                    "failure": row.failure,
                })
            })
            .collect();
        tell(&context.output, &items)
    }
}

/// The members of a run in a list.
pub(crate) const ORDER: [&str; 7] = [
    "id",
    "workflow",
    "status",
    "correlation",
    "created",
    "finished",
    "failure",
];

/// Shows a list of runs.
pub(crate) fn tell(output: &Output, items: &[Value]) -> anyhow::Result<Exit> {
    let columns = ["id", "workflow", "status", "created", "finished"];
    output.list(items, || columns_of(items, &columns.map(|key| (key, key))))?;
    Ok(Exit::Done)
}
