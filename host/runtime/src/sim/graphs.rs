//! Random workflows: chains, branches, joins of all kinds, cycles, retries, waits.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};
use windlass_model::{Clock, Digest};
use windlass_plugins::{Host, Options};
use windlass_store::rows::DefinitionRow;

use super::clock::SimClock;
use super::dice::Dice;
use super::{lists, starters};
use crate::catalog::{Catalog, Prepared};

/// The number of different workflows.
const POOL: u64 = 160;

/// The number of workflows, from the first, that nodes of the others call. They call no workflow
/// themselves, and no stimulus is sent to their runs alone.
pub(super) const CALLED: u64 = 24;

/// A stimulus that is sent once to each node that waits for it, matched by the node's number.
pub(super) const ONCE: &str = "once";

/// A stimulus that is sent repeatedly, to all waiting nodes.
pub(super) const OFTEN: &str = "often";

/// The description of the simulated guests.
const DESCRIPTION: &str = r#"{
    "windlass": 1, "package": "sim", "version": "1.0.0",
    "nodes": [{ "name": "work", "ports": ["done", "p", "q"], "suspends": true,
        "config": { "type": "object" }, "input": true, "output": true }],
    "consumer": { "types": ["*"], "routes": [] }
}"#;

/// The parts that all simulations in this process share, because making them again takes time.
pub(super) struct Pool {
    pub(super) host: Arc<Host>,
    pub(super) workflows: Vec<Arc<Prepared>>,
    /// Versions of published workflows.
    pub(super) published: Vec<Arc<Prepared>>,
    /// Keeps the runtime of the handle `io`, and the directories of the host.
    pub(super) tokio: tokio::runtime::Runtime,
    _dir: tempfile::TempDir,
}

pub(super) static ALL: LazyLock<Pool> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let clock: Arc<dyn Clock> = SimClock::new();
    let host = Host::start(Options::in_dir(dir.path()), clock, tokio.handle().clone()).unwrap();
    let plugin = host.double(DESCRIPTION.as_bytes()).unwrap();
    let catalog = Catalog::default();
    let workflows = (0..POOL).map(|at| workflow(at, &catalog, &host)).collect();
    let published = starters::all(&catalog, &host);
    // The host knows a plugin only while a reference to it exists.
    std::mem::forget(plugin);
    Pool {
        host,
        workflows,
        published,
        tokio,
        _dir: dir,
    }
});

/// The first valid workflow from this seed on.
fn workflow(at: u64, catalog: &Catalog, host: &Host) -> Arc<Prepared> {
    for attempt in 0..1_000 {
        let mut dice = Dice(at * 1_000_003 + attempt);
        let text = definition(at, &mut dice).to_string();
        let read = windlass_model::file::read(&text, "sim.json");
        let Some(canonical) = read
            .definition
            .is_some()
            .then(|| read.canonical())
            .flatten()
        else {
            panic!(
                "the simulation cannot write workflows: {:?} {text}",
                read.diagnostics
            );
        };
        let row = DefinitionRow {
            digest: Digest::of(&canonical),
            name: format!("w{at}"),
            json: canonical.into(),
        };
        if let Ok(prepared) = catalog.prepare(row, host) {
            return prepared;
        }
    }
    panic!("no workflow makes sense");
}

/// The workflow with this name.
pub(super) fn by_name(name: &str) -> Option<DefinitionRow> {
    let all = &ALL.workflows;
    let found = all.iter().find(|one| one.definition.name == name);
    found.map(|prepared| (*prepared.definition).clone())
}

fn definition(at: u64, dice: &mut Dice) -> Value {
    let n = dice.between(1, 9);
    let shape = dice.below(4);
    let mut nodes = Map::new();
    let mut edges = Vec::new();
    let mut leads = vec![false; usize::try_from(n).unwrap()];
    let mut edge = |from: u64, to: u64, plain: bool, dice: &mut Dice| {
        leads[usize::try_from(from).unwrap()] = true;
        let port = if plain {
            "done"
        } else {
            *dice.pick(&["done", "done", "done", "p", "q"])
        };
        let mut edge = json!({
            "id": format!("e{}", edges.len()), "from": format!("n{from}"), "port": port,
            "to": format!("n{to}"),
        });
        if !plain && dice.once_in(4) {
            edge["when"] = json!(dice.pick(&["vars.x", "vars.y > 0", "else"]));
        }
        edges.push(edge);
    };
    for to in 1..n {
        let (from, plain) = match shape {
            0 => (to - 1, true),
            1 => (to.saturating_sub(dice.between(1, 3)), true),
            _ => (dice.below(to), false),
        };
        edge(from, to, plain, dice);
    }
    let more = if shape == 0 { 0 } else { dice.below(6) };
    for _ in 0..more {
        let (a, b) = (dice.below(n), dice.below(n));
        if a != b {
            edge(a.min(b), a.max(b), shape == 1, dice);
        }
    }
    if shape == 3 {
        for _ in 0..dice.between(1, 2) {
            edge(dice.below(n), dice.below(n), false, dice);
        }
    }
    for (name, leads) in (0..n).zip(&leads) {
        let mut node = node(*leads, dice);
        let called = at < CALLED;
        if shape < 2 && !called && dice.once_in(4) {
            // The node runs at most once, and exactly one stimulus is sent for it.
            node = json!({ "event": ONCE, "match": name });
        } else if dice.once_in(12) {
            node = json!({ "event": OFTEN });
            if dice.once_in(2) {
                node["wait-timeout"] = json!(format!("{}ms", dice.between(1, 30_000)));
            }
        }
        if shape < 2 {
            // A join that never runs its node twice.
            node["join"] = json!("all-active");
        }
        if node.get("use").is_some() && dice.once_in(5) {
            lists::instead(&mut node, &format!("n{name}"), dice);
        } else if node.get("use").is_some() && !called && dice.once_in(6) {
            lists::call(&mut node, dice);
        }
        nodes.insert(format!("n{name}"), node);
    }
    let mut options = Map::new();
    if dice.once_in(3) {
        options.insert("incidents".into(), json!("continue"));
    }
    if dice.once_in(8) {
        options.insert(
            "timeout".into(),
            json!(format!("{}ms", dice.between(100, 120_000))),
        );
    }
    json!({
        "workflow": format!("w{at}"), "vars": { "x": true, "y": 1 },
        "nodes": nodes, "edges": edges, "options": options,
        "output": dice.pick(&[json!(null), json!("{{ vars.y }}"), json!({ "x": "{{ vars.x }}" })]),
    })
}

fn node(leads: bool, dice: &mut Dice) -> Value {
    let mut node = match dice.below(20) {
        0..2 => json!({ "wait": format!("{}ms", dice.between(1, 90_000)) }),
        2 => json!({ "set": { "y": "{{ vars.y + 1 }}" } }),
        3 => json!({ "set": { "x": dice.once_in(2) } }),
        4 if !leads => json!({ "end": { "terminate": dice.once_in(2), "output": 1 } }),
        5 if !leads && dice.once_in(2) => json!({ "fail": "simulated" }),
        _ => used(dice),
    };
    let join = dice.pick(&[
        "all-active",
        "all-active",
        "all",
        "any",
        "race",
        "each",
        "count",
    ]);
    node["join"] = if *join == "count" {
        json!({ "count": dice.between(1, 2) })
    } else {
        json!(join)
    };
    if dice.once_in(8) {
        node["first"] = json!(true);
    }
    node
}

/// A node that a guest runs.
pub(super) fn used(dice: &mut Dice) -> Value {
    let mut node = json!({ "use": "sim/work" });
    if dice.once_in(3) {
        node["with"] = json!({ "y": "{{ vars.y }}" });
    }
    if dice.once_in(2) {
        node["retry"] = json!({
            "max-attempts": dice.between(2, 4), "delay": format!("{}ms", dice.between(1, 3_000)),
            "backoff": dice.pick(&["fixed", "exponential"]), "jitter": dice.once_in(2),
            "classes": ["retryable", "deadline", "trap"],
        });
        if dice.once_in(3) {
            let conditions = ["error.details.n != 1", "vars.x", "error.details.n + 'x'"];
            node["retry"]["when"] = json!(dice.pick(&conditions));
        }
    }
    if dice.once_in(5) {
        node["timeout"] = json!(format!("{}ms", dice.between(10, 20_000)));
    }
    if dice.once_in(8) {
        node["total-timeout"] = json!(format!("{}ms", dice.between(10, 60_000)));
    }
    if dice.once_in(3) {
        node["on-error"] = json!(dice.pick(&["continue", "route"]));
    } else if dice.once_in(4) {
        node["on-error"] = json!([
            { "when": "error.class == 'trap'", "do": "fail" },
            { "when": "error.details.n == 2 or vars.y > 3", "do": "continue" },
        ]);
    }
    node
}
