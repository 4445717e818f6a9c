//! Published workflows, which schedules and stimuli start.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use windlass_model::Digest;
use windlass_plugins::Host;
use windlass_store::rows::DefinitionRow;

use super::dice::Dice;
use super::graphs::used;
use crate::catalog::{Catalog, Prepared};

/// The number of workflows with published versions, and of versions of each.
const WORKFLOWS: u64 = 3;
const VERSIONS: u64 = 4;

/// A stimulus that starts workflows, matched by a number below [`STARTS`].
pub(super) const START: &str = "start";
pub(super) const STARTS: u64 = 2;

/// Every version of every workflow.
pub(super) fn all(catalog: &Catalog, host: &Host) -> Vec<Arc<Prepared>> {
    let versions = (0..WORKFLOWS).flat_map(|at| (0..VERSIONS).map(move |version| (at, version)));
    let prepared = versions.map(|(at, version)| {
        let mut dice = Dice(900_001 + at * 1_009 + version);
        let text = definition(at, version, &mut dice).to_string();
        let read = windlass_model::file::read(&text, "sim.json");
        let canonical = read.canonical();
        let canonical = canonical.unwrap_or_else(|| panic!("{:?} {text}", read.diagnostics));
        let row = DefinitionRow {
            digest: Digest::of(&canonical),
            name: format!("p{at}"),
            json: canonical.into(),
        };
        catalog.prepare(row, host).unwrap()
    });
    prepared.collect()
}

fn definition(at: u64, version: u64, dice: &mut Dice) -> Value {
    let mut triggers = Map::new();
    if version != 3 {
        let mut tick = if dice.once_in(2) {
            json!({ "cron": dice.pick(&["*/10 * * * * *", "*/15 * * * * *", "* * * * *"]) })
        } else {
            json!({ "every": format!("{}s", dice.pick(&[5, 12, 40])) })
        };
        tick["overlap"] = json!(dice.pick(&["allow", "skip", "queue", "cancel-previous"]));
        if dice.once_in(2) {
            tick["misfire"] = json!({ "catch-up": dice.between(2, 4) });
        }
        triggers.insert("tick".to_owned(), tick);
    }
    if version != 0 {
        let word = json!({ "event": START, "match": dice.below(STARTS) });
        triggers.insert("word".to_owned(), word);
    }
    let mut nodes = json!({ "n0": used(dice), "n1": used(dice) });
    for node in ["n0", "n1"] {
        if nodes[node]["on-error"] == "route" {
            // No edge continues from this node's error.
            nodes[node]["on-error"] = json!("continue");
        }
    }
    json!({
        "workflow": format!("p{at}"), "vars": { "x": true, "y": 1 }, "triggers": triggers,
        "nodes": nodes, "edges": [{ "from": "n0", "to": "n1" }],
    })
}
