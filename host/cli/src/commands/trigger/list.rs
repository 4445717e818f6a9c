//! `windlass trigger list` and `show`.

use clap::Args;
use serde_json::{Value, json};

use super::target::{missing, whole_name};
use crate::app::Context;
use crate::client::{picked, taken, text};
use crate::error::or_missing;
use crate::exit::Exit;
use crate::output::{columns_of, members};

/// The members of a trigger in a list.
const KEYS: [&str; 11] = [
    "trigger",
    "run",
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
const ORDER: [&str; 12] = {
    let [a, b, c, d, e, f, g, h, i, j, k] = KEYS;
    ["id", a, b, c, d, e, f, g, h, i, j, k]
};

/// The arguments of `trigger list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// All triggers of this run, given by its id or the beginning of it
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// How many triggers to list at most
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    limit: u32,
}

/// The arguments of `trigger show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The trigger: its UUID, or RUN:NUMBER as `trigger list` shows it
    trigger: String,
}

impl List {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let api = context.api()?;
        let run = self.run.as_deref().map(|id| api.id(id)).transpose()?;
        let filter: Vec<_> = run.into_iter().map(|id| ("run", id)).collect();
        let items = api.list(&["triggers"], &filter, self.limit, &KEYS)?;
        let columns = ["trigger", "node", "type", "state", "due"];
        let output = &context.output;
        output.list(&items, || {
            columns_of(&items, &columns.map(|key| (key, key)))
        })?;
        Ok(Exit::Done)
    }
}

impl Show {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let api = context.api()?;
        let name = whole_name(&api, &self.trigger)?;
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
