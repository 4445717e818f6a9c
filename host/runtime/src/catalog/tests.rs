//! The bound on the weight of prepared definitions.

mod weights;

use std::sync::Arc;

use serde_json::{Map, Value, json};
use windlass_model::metrics::Metrics;
use windlass_model::{Clock, Digest};
use windlass_plugins::{Host, Options};
use windlass_store::rows::DefinitionRow;

use super::Catalog;
use crate::clock::SystemClock;

/// A plugin whose configuration has a schema.
const DESCRIPTION: &str = r#"{
    "windlass": 1, "package": "heavy", "version": "1.0.0",
    "nodes": [{ "name": "work", "ports": ["done"],
        "config": { "type": "object", "properties": { "n": { "type": "integer", "default": 1 } } },
        "input": true, "output": true }]
}"#;

struct Bench {
    host: Arc<Host>,
    plugin: Arc<windlass_plugins::Plugin>,
    _tokio: tokio::runtime::Runtime,
    _dir: tempfile::TempDir,
}

fn bench() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let host = Host::start(Options::in_dir(dir.path()), clock, tokio.handle().clone()).unwrap();
    let plugin = host.double(DESCRIPTION.as_bytes()).unwrap();
    Bench {
        host,
        plugin,
        _tokio: tokio,
        _dir: dir,
    }
}

fn row(definition: &Value) -> DefinitionRow {
    let read = windlass_model::file::read(&definition.to_string(), "w.json");
    assert!(
        read.diagnostics.is_empty(),
        "{:?}",
        read.diagnostics.first()
    );
    let canonical = read.canonical().unwrap();
    DefinitionRow {
        digest: Digest::of(&canonical),
        name: "heavy".into(),
        json: canonical.into(),
    }
}

fn workflow(nodes: Map<String, Value>, edges: Vec<Value>) -> Value {
    json!({ "workflow": "heavy", "nodes": nodes, "edges": edges })
}

/// Nodes in a chain.
fn chain(count: usize, node: impl Fn(usize) -> Value) -> Value {
    let nodes = (0..count).map(|at| (format!("n{at}"), node(at))).collect();
    let edges =
        (1..count).map(|to| json!({ "from": format!("n{}", to - 1), "to": format!("n{to}") }));
    workflow(nodes, edges.collect())
}

/// Definitions of the same weight, more than fit.
fn many(count: usize) -> Vec<DefinitionRow> {
    let text = |at| {
        chain(
            1,
            |_| json!({ "set": { "a": format!("{at}{}", "x".repeat(100_000)) } }),
        )
    };
    (0..count).map(|at| row(&text(at))).collect()
}

#[test]
fn definitions_are_kept_within_the_bound_and_the_one_used_longest_ago_goes_first() {
    let bench = bench();
    let rows = many(10);
    let weight = Catalog::default()
        .prepare(rows[0].clone(), &bench.host)
        .unwrap()
        .weight;
    let metrics = Arc::new(Metrics::default());
    let most = 4 * weight + weight / 2;
    let catalog = Catalog::new(most, Arc::clone(&metrics));
    assert_eq!(metrics.definitions.limit(), most);
    let is_there = |at: usize| catalog.current(rows[at].digest, &bench.host).is_some();
    for row in &rows[..4] {
        catalog.prepare(row.clone(), &bench.host).unwrap();
    }
    assert_eq!(metrics.definitions.get(), 4 * weight);
    // The first is used again, and so the second goes.
    assert!(is_there(0));
    catalog.prepare(rows[4].clone(), &bench.host).unwrap();
    assert!(!is_there(1));
    for at in [0, 2, 3, 4] {
        assert!(is_there(at), "{at}");
    }
    for row in &rows {
        catalog.prepare(row.clone(), &bench.host).unwrap();
        assert!(metrics.definitions.get() <= most);
    }
}

#[test]
fn a_definition_in_use_stays_and_counts() {
    let bench = bench();
    let rows = many(6);
    let weight = Catalog::default()
        .prepare(rows[0].clone(), &bench.host)
        .unwrap()
        .weight;
    let metrics = Arc::new(Metrics::default());
    let catalog = Catalog::new(2 * weight, Arc::clone(&metrics));
    let used: Vec<_> = rows[..3]
        .iter()
        .map(|row| catalog.prepare(row.clone(), &bench.host).unwrap())
        .collect();
    assert_eq!(metrics.definitions.get(), 3 * weight);
    // They are found, and not prepared again.
    for prepared in &used {
        let again = catalog.prepare((*prepared.definition).clone(), &bench.host);
        assert!(Arc::ptr_eq(prepared, &again.unwrap()));
    }
    // Another one has no room: it stays for as long as it is used.
    drop(catalog.prepare(rows[3].clone(), &bench.host).unwrap());
    drop(catalog.prepare(rows[4].clone(), &bench.host).unwrap());
    assert!(catalog.current(rows[3].digest, &bench.host).is_none());
    assert_eq!(metrics.definitions.get(), 4 * weight);
    drop(used);
    drop(catalog.prepare(rows[5].clone(), &bench.host).unwrap());
    assert_eq!(metrics.definitions.get(), 2 * weight);
}

#[test]
fn definitions_beyond_the_bound_count_among_the_states_of_runs_until_runs_leave() {
    let bench = bench();
    let rows = many(5);
    let weight = Catalog::default()
        .prepare(rows[0].clone(), &bench.host)
        .unwrap()
        .weight;
    let metrics = Arc::new(Metrics::default());
    metrics.run_states.set_limit(4 * weight);
    let catalog = Catalog::new(2 * weight, Arc::clone(&metrics));
    let store = windlass_store::MemoryStore::new(Arc::new(SystemClock::new()));
    let prepare = |at: usize| catalog.prepare(rows[at].clone(), &bench.host).unwrap();
    let two = (prepare(0), prepare(1));
    assert_eq!((metrics.run_states.get(), catalog.was_over()), (0, false));
    let third = prepare(2);
    assert_eq!(metrics.run_states.get(), weight);
    assert_eq!(catalog.trim(), weight, "all are used");
    // A known one is found although there is no room.
    let again = catalog.load_if(
        &|_| false,
        &*store,
        &bench.host,
        rows[0].digest,
        two.0.pins.digest,
    );
    assert!(again.unwrap().is_some());
    let more = [prepare(3), prepare(4)];
    assert_eq!(catalog.trim(), 3 * weight);
    let counted = metrics.run_states.get();
    assert_eq!(counted, 2 * weight, "the other half is for states");
    drop((third, more));
    assert_eq!((catalog.trim(), metrics.run_states.get()), (0, 0));
    assert!(!catalog.was_over());
    assert!(catalog.current(rows[2].digest, &bench.host).is_none());
    drop(two);
    assert_eq!(metrics.definitions.get(), 2 * weight, "it stays for later");
}

#[test]
fn a_replaced_component_is_kept_for_as_long_as_runs_use_it() {
    let bench = bench();
    let catalog = Catalog::default();
    let uses = |package: &str| json!({ "use": format!("{package}/work") });
    let prepare = |package: &str| {
        let row = row(&chain(1, |_| uses(package)));
        catalog.prepare(row, &bench.host).unwrap()
    };
    let is_known = |package: &str| {
        let digest = row(&chain(1, |_| uses(package))).digest;
        catalog.kept.lock().latest(digest).is_some()
    };
    let second = DESCRIPTION.replace("\"heavy\"", "\"second\"");
    let second = bench.host.double(second.as_bytes()).unwrap();
    let (first, other) = (prepare("heavy"), prepare("second"));
    let registry = bench.host.registry();
    let removed = registry.remove(std::path::Path::new("heavy@1.0.0"));
    assert!(removed.is_some_and(|removed| removed.digest == bench.plugin.digest));
    catalog.forget_replaced(&bench.host);
    assert!(is_known("heavy"), "a run uses it");
    drop(first);
    drop(other);
    catalog.forget_replaced(&bench.host);
    assert!(!is_known("heavy"));
    assert!(is_known("second"), "{}", second.digest);
}

#[test]
fn a_route_without_a_consumer_is_a_warning() {
    let bench = bench();
    let warnings = |route: &str| {
        let node = json!({ "set": { "x": 1 }, "route": route });
        let row = row(&chain(1, |_| node.clone()));
        let definition = windlass_model::file::read_canonical(&row.json).unwrap();
        let found = super::check(&definition, &bench.host, None).warnings;
        let found = found.into_iter().map(|it| {
            let help = it.help.unwrap_or_default();
            (it.code.to_string(), it.place.pointer, help)
        });
        found.collect::<Vec<_>>()
    };
    let found = warnings("nowhere");
    let [(code, place, help)] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(
        (code.as_str(), place.as_str()),
        ("WL-D094", "/nodes/n0/route")
    );
    assert!(help.contains("no plugin here consumes"), "{help}");
    let consumer = r#"{
        "windlass": 1, "package": "minutes", "version": "1.0.0",
        "consumer": { "types": ["*"], "routes": ["minuted"] }
    }"#;
    let _consumer = bench.host.double(consumer.as_bytes()).unwrap();
    assert_eq!(warnings("minuted"), []);
    assert!(warnings("minutes")[0].2.contains("`minuted`"));
}
