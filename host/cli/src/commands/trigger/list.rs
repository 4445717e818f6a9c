//! `windlass trigger list` and `show`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use clap::Args;
use serde_json::{Value, json};
use windlass_model::{Definition, InstanceId, InstanceNo};
use windlass_store::Store;
use windlass_store::outside::{DueQuery, Touched, TriggerTarget};
use windlass_store::rows::TriggerRow;

use super::target::{name, name_of, refuse, target};
use crate::app::Context;
use crate::commands::{definition, find, moment, node_name};
use crate::exit::Exit;
use crate::output::{Output, columns_of, members};
use crate::wire::Machine;

/// The members of a trigger in a list.
pub(crate) const KEYS: [&str; 11] = [
    "trigger",
    "instance",
    "workflow",
    "node",
    "type",
    "state",
    "due",
    "priority",
    "attempt",
    "deliveries",
    "payload",
];

/// The members of a trigger, in the order in which they are shown.
pub(crate) const ORDER: [&str; 12] = {
    let [a, b, c, d, e, f, g, h, i, j, k] = KEYS;
    ["id", a, b, c, d, e, f, g, h, i, j, k]
};

/// The arguments of `trigger list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// All triggers of this run; the beginning of its id will do
    #[arg(long, value_name = "ID")]
    pub(crate) instance: Option<String>,
    /// How many
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    pub(crate) limit: u32,
}

/// The arguments of `trigger show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The trigger: its UUID, or RUN:NUMBER as `trigger list` shows it
    pub(crate) trigger: String,
}

/// What is asked for of the runs of a list, each once.
#[derive(Default)]
struct Runs {
    known: BTreeMap<InstanceNo, Option<(InstanceId, Option<Definition>)>>,
}

impl Runs {
    fn of(
        &mut self,
        store: &dyn Store,
        no: InstanceNo,
    ) -> anyhow::Result<Option<&(InstanceId, Option<Definition>)>> {
        let entry = match self.known.entry(no) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let run = match store.instance_by_no(no)? {
                    Some(row) => Some((row.id, definition(store, &row)?)),
                    None => None,
                };
                entry.insert(run)
            }
        };
        Ok(entry.as_ref())
    }

    fn item(&mut self, store: &dyn Store, row: &TriggerRow) -> anyhow::Result<Value> {
        let run = self.of(store, row.instance)?;
        let definition = run.and_then(|(_, definition)| definition.as_ref());
        let id = run.map(|(id, _)| id.to_string()).unwrap_or_default();
        let payload = row.payload.as_deref();
        Ok(json!({
            "trigger": name(&id, row.seq),
            "instance": id,
            "workflow": definition.map(|definition| definition.name.as_str()),
            "node": row.node.map(|node| node_name(definition, node)),
            "type": row.kind,
            "state": row.state,
            // What waits for something else than time has none.
            "due": (row.due_ms < i64::MAX).then(|| moment(row.due_ms)),
            "priority": row.priority,
            "attempt": row.attempt,
            "deliveries": row.deliveries,
            "payload": payload.and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok()),
        }))
    }
}

impl List {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let rows = match &self.instance {
            Some(prefix) => {
                let mut rows = store.triggers(find(store.as_ref(), prefix)?.no)?;
                rows.sort_by_key(|row| (row.due_ms, row.no));
                rows.truncate(self.limit as usize);
                rows
            }
            None => store.due(&DueQuery {
                after: None,
                until_ms: i64::MAX,
                limit: self.limit,
            })?,
        };
        let mut runs = Runs::default();
        let items = rows.iter().map(|row| runs.item(store.as_ref(), row));
        let items: Vec<Value> = items.collect::<Result<_, _>>()?;
        tell(&context.output, &items)
    }
}

/// Shows a list of triggers.
pub(crate) fn tell(output: &Output, items: &[Value]) -> anyhow::Result<Exit> {
    let columns = ["trigger", "node", "type", "state", "due"];
    output.list(items, || columns_of(items, &columns.map(|key| (key, key))))?;
    Ok(Exit::Done)
}

impl Show {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        let store = machine.existing_store()?;
        let store = store.as_ref();
        let target = target(store, &self.trigger)?;
        let missing = || refuse(Touched::NotFound, &format!("Trigger {}", self.trigger));
        let item = match (store.trigger(target)?, target) {
            (Some(row), target) => {
                let mut item = Runs::default().item(store, &row)?;
                if let (TriggerTarget::Outside(id), Some(item)) = (target, item.as_object_mut()) {
                    item.insert("id".to_owned(), json!(id));
                }
                item
            }
            // One that was named from outside is known for some time after it is gone.
            (None, TriggerTarget::Outside(id)) => {
                let known = store.outside(id)?.ok_or_else(missing)?;
                json!({
                    "trigger": name_of(store, known.instance, known.seq)?,
                    "instance": known.instance_id,
                    "state": if known.closed { "closed" } else { "finished" },
                })
            }
            (None, TriggerTarget::Row(..)) => return Err(missing().into()),
        };
        context.output.show(&item, || members(&item, &ORDER))?;
        Ok(Exit::Done)
    }
}
