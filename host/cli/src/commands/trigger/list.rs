//! `windlass trigger list` and `show`.

use clap::Args;
use serde_json::{Value, json};

use super::schedules;
use super::target::{Named, missing};
use crate::app::Context;
use crate::client::{picked, taken, text};
use crate::error::or_missing;
use crate::exit::Exit;
use crate::output::{columns_of, members};

/// The members of a trigger in a list.
const KEYS: [&str; 12] = [
    "trigger",
    "run",
    "workflow",
    "node",
    "type",
    "state",
    "reason",
    "due",
    "priority",
    "attempt",
    "deliveries",
    "payload",
];

/// The members of a trigger, in the order in which they are shown.
const ORDER: [&str; 13] = {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = KEYS;
    ["id", a, b, c, d, e, f, g, h, i, j, k, l]
};

/// The members of a schedule in a list of triggers, and their names in the API.
const SCHEDULE_KEYS: [(&str, &str); 8] = [
    ("trigger", "schedule"),
    ("workflow", "workflow"),
    ("type", "type"),
    ("rule", "rule"),
    ("state", "state"),
    ("due", "next"),
    ("last", "last"),
    ("last_run", "run"),
];

/// The arguments of `trigger list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// All triggers of this run, given by its id or the beginning of it
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Only triggers that cannot run, with the reason: like a plugin that is missing
    #[arg(long, conflicts_with_all = ["run", "schedules", "workflow"])]
    parked: bool,
    /// Only schedules
    #[arg(long, conflicts_with = "run")]
    schedules: bool,
    /// Only the schedules of this workflow
    #[arg(long, value_name = "NAME", conflicts_with = "run")]
    workflow: Option<String>,
    /// How many schedules and triggers to list at most
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    limit: u32,
}

/// The arguments of `trigger show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The trigger: its UUID, RUN:NUMBER, or a schedule: WORKFLOW:KEY or KEY
    trigger: String,
}

impl List {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let api = context.api()?;
        let run = self.run.as_deref().map(|id| api.id(id)).transpose()?;
        let with_schedules = run.is_none() && !self.parked;
        let only_schedules = self.schedules || self.workflow.is_some();
        let mut items = Vec::new();
        if with_schedules {
            let filter: Vec<_> = self
                .workflow
                .map(|name| ("workflow", name))
                .into_iter()
                .collect();
            let schedules = api.list_whole(&["schedules"], &filter, self.limit)?;
            items.extend(schedules.into_iter().map(in_list));
        }
        if !only_schedules {
            let run = run.into_iter().map(|id| ("run", id));
            let parked = self.parked.then(|| ("parked", "true".to_owned()));
            let filter: Vec<_> = run.chain(parked).collect();
            items.extend(api.list(&["triggers"], &filter, self.limit, &KEYS)?);
        }
        // Both lists are sorted, and the sort is stable.
        items.sort_by_cached_key(due_ms);
        items.truncate(self.limit as usize);
        let last = if self.parked { "reason" } else { "due" };
        let columns = ["trigger", "node", "type", "state", last];
        let output = &context.output;
        output.list(&items, || {
            columns_of(&items, &columns.map(|key| (key, key)))
        })?;
        Ok(Exit::Done)
    }
}

/// A schedule, as it is listed among triggers.
fn in_list(mut schedule: Value) -> Value {
    let mut item = serde_json::Map::new();
    for (key, of) in SCHEDULE_KEYS {
        item.insert(key.to_owned(), taken(&mut schedule, of));
    }
    Value::Object(item)
}

/// When an item is due, in epoch milliseconds; an item that is never due comes last.
fn due_ms(item: &Value) -> i64 {
    let due = item.get("due").and_then(Value::as_str);
    let due_ms = due.and_then(|due| windlass_model::file::instant_ms(due).ok());
    due_ms.unwrap_or(i64::MAX)
}

impl Show {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let api = context.api()?;
        let name = match Named::read(&api, &self.trigger)? {
            Named::Trigger(name) => name,
            Named::Schedule(name) => return schedules::show(context, &api, &name),
        };
        let shown = api.get(&["triggers", &name]);
        let mut shown = shown.map_err(|error| or_missing(error, || missing(&self.trigger)))?;
        text(&shown, "trigger")?;
        let item = match taken(&mut shown, "pending") {
            Value::Null => picked(shown, &["trigger", "run", "state"]),
            pending => {
                let mut item = picked(pending, &KEYS);
                let id = self.trigger.parse::<uuid::Uuid>();
                // An external trigger that the user named by its UUID is shown with that UUID.
                if let (Ok(id), Some(item)) = (id, item.as_object_mut()) {
                    item.insert("id".to_owned(), json!(id));
                }
                item
            }
        };
        context.output.show(&item, || members(&item, &ORDER))?;
        Ok(Exit::Done)
    }
}
