//! Nodes that open further scopes or runs: for-each nodes over a few items, with nodes that work,
//! wait and fail in their bodies, and sub-workflows.

use serde_json::{Map, Value, json};

use super::dice::Dice;
use super::graphs::{CALLED, OFTEN, used};

/// The properties that a node keeps when no guest runs it any more.
fn bare(node: &Value) -> Value {
    let kept = ["join", "first", "on-error", "total-timeout"];
    let kept = kept.iter().filter_map(|key| {
        let value = node.get(*key)?;
        Some(((*key).to_owned(), value.clone()))
    });
    Value::Object(kept.collect::<Map<_, _>>())
}

/// Turns a node into a for-each.
pub(super) fn instead(node: &mut Value, name: &str, dice: &mut Dice) {
    let mut each = bare(node);
    let (first, second) = (format!("{name}_a"), format!("{name}_b"));
    let items: Vec<u64> = (0..dice.below(5)).collect();
    each["for-each"] = json!(items);
    each["concurrency"] = json!(dice.between(1, 3));
    each["on-item-error"] = json!(dice.pick(&["fail", "continue"]));
    let mut nodes = Map::new();
    nodes.insert(first.clone(), used(dice));
    nodes.insert(second.clone(), inner(dice));
    each["nodes"] = Value::Object(nodes);
    let mut edges = vec![json!({ "from": first, "to": second })];
    if dice.once_in(4) {
        edges[0]["when"] = json!("index > 0");
    }
    each["edges"] = json!(edges);
    each["output"] = json!("{{ [item, vars.y] }}");
    *node = each;
}

/// The second node of a body.
fn inner(dice: &mut Dice) -> Value {
    match dice.below(8) {
        0 => json!({ "wait": format!("{}ms", dice.between(1, 20_000)) }),
        1 => json!({ "set": { "y": "{{ item }}" } }),
        2 => json!({ "event": OFTEN }),
        3 => json!({ "fail": "simulated" }),
        _ => used(dice),
    }
}

/// Turns a node into a call of another workflow.
pub(super) fn call(node: &mut Value, dice: &mut Dice) {
    let mut call = bare(node);
    call["workflow"] = json!(format!("w{}", dice.below(CALLED)));
    if dice.once_in(4) {
        call["wait-timeout"] = json!(format!("{}ms", dice.between(1, 60_000)));
    }
    *node = call;
}
