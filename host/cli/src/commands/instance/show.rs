//! `windlass instance show`.

use clap::Args;
use serde_json::{Map, Value, json};
use windlass_runtime::client;
use windlass_runtime::transfer::Origin;
use windlass_store::Store;
use windlass_store::rows::InstanceRow;

use super::find::{definition, find, moment, node_name, value};
use crate::app::Context;
use crate::exit::Exit;
use crate::output::members;
use crate::wire::Machine;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    pub(crate) id: String,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let row = find(store.as_ref(), &self.id)?;
        let item = item(store.as_ref(), &row)?;
        context.output.show(&item, || members(&item, &ORDER))?;
        Ok(Exit::Done)
    }
}

fn item(store: &dyn Store, row: &InstanceRow) -> anyhow::Result<Value> {
    let optional = |payload: Option<windlass_model::Payload>| {
        payload.map(|payload| value(store, &payload)).transpose()
    };
    let mut vars = Map::new();
    for (name, payload) in store.vars(row.no, windlass_model::ScopeNo::ROOT)? {
        vars.insert(name, value(store, &payload)?);
    }
    let definition = definition(store, row)?;
    let waiting: Vec<_> = store
        .triggers(row.no)?
        .iter()
        .map(|trigger| {
            json!({
                "node": trigger.node.map(|node| node_name(definition.as_ref(), node)),
                "type": trigger.kind,
                "state": trigger.state,
                "due": (trigger.due_ms < i64::MAX).then(|| moment(trigger.due_ms)),
                "attempt": trigger.attempt,
            })
        })
        .collect();
    let journal = store.journal(row.no)?;
    let imported = Origin::of(&journal).map(|origin| origin.to_string());
    let journal: Vec<_> = journal
        .iter()
        .map(|entry| {
            let detail: Value = serde_json::from_slice(&entry.detail).unwrap_or_default();
            json!({ "at": moment(entry.at_ms), "kind": entry.kind, "detail": detail })
        })
        .collect();
    let mutexes = match &definition {
        Some(definition) => client::sections(store, row, definition)?,
        None => Vec::new(),
    };
    let mutexes: Vec<_> = mutexes.iter().map(windlass_server::Section::from).collect();
    Ok(json!({
        "id": row.id,
        "workflow": definition.map(|definition| definition.name),
        "definition": row.definition,
        "status": row.status,
        "correlation": row.correlation,
        "created": moment(row.created_ms),
        "finished": row.finished_ms.map(moment),
        "failure": row.failure,
        "input": optional(store.input(row.no)?)?,
        "vars": vars,
        "output": optional(store.output(row.no)?)?,
        "triggers": waiting,
        "mutexes": mutexes,
        "imported": imported,
        "journal": journal,
    }))
}

/// The members of a run, in the order in which they are shown.
pub(crate) const ORDER: [&str; 15] = [
    "id",
    "workflow",
    "definition",
    "status",
    "correlation",
    "created",
    "finished",
    "failure",
    "input",
    "vars",
    "output",
    "triggers",
    "mutexes",
    "imported",
    "journal",
];
