//! `windlass runs show`.

use clap::Args;
use serde_json::Value;

use crate::app::Context;
use crate::client::{picked, taken, text};
use crate::exit::Exit;
use crate::output::members;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The id of the run, or its beginning
    id: String,
}

/// The members of a run, in the order in which they are shown.
const ORDER: [&str; 19] = [
    "id",
    "workflow",
    "version",
    "definition",
    "components",
    "status",
    "correlation",
    "tags",
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
    "left_out",
];

impl Arguments {
    pub(super) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let api = context.api()?;
        let item = whole(api.get(&["runs", &api.id(&self.id)?])?);
        text(&item, "id")?;
        context
            .output
            .show(&item, || members(&for_people(&item), &ORDER))?;
        Ok(Exit::Done)
    }
}

/// A run whose tags are on one line.
fn for_people(run: &Value) -> Value {
    let mut run = run.clone();
    if let Some(Value::Object(tags)) = run.get("tags") {
        let all = tags.iter().map(|(name, value)| match value {
            Value::String(text) => format!("{name}={text}"),
            other => format!("{name}={other}"),
        });
        let line = all.collect::<Vec<_>>().join(", ");
        if let Some(run) = run.as_object_mut() {
            match line.is_empty() {
                true => drop(run.remove("tags")),
                false => drop(run.insert("tags".to_owned(), line.into())),
            }
        }
    }
    run
}

/// A run with all its parts, as one document.
fn whole(mut shown: Value) -> Value {
    let mut item = taken(&mut shown, "run");
    if let (Some(item), Some(shown)) = (item.as_object_mut(), shown.as_object_mut()) {
        for (key, value) in std::mem::take(shown) {
            if key != "run" {
                item.insert(key, value);
            }
        }
        if let Some(Value::Array(triggers)) = item.get_mut("triggers") {
            for trigger in triggers {
                *trigger = picked(
                    trigger.take(),
                    &["node", "type", "state", "reason", "due", "attempt"],
                );
            }
        }
    }
    picked(item, &ORDER)
}
