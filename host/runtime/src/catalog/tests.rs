//! The weights of prepared definitions, compared with the memory that they take, and the bound on
//! their sum.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use windlass_model::metrics::Metrics;
use windlass_model::{Clock, Digest};
use windlass_plugins::{Host, Options};
use windlass_store::rows::DefinitionRow;

use super::{Catalog, Prepared, prepare};
use crate::clock::SystemClock;
use crate::counting::held;

/// A plugin whose configuration has a schema.
const DESCRIPTION: &str = r#"{
    "windlass": 1, "package": "heavy", "version": "1.0.0",
    "nodes": [{ "name": "work", "ports": ["done"],
        "config": { "type": "object", "properties": { "n": { "type": "integer", "default": 1 } } },
        "input": true, "output": true }]
}"#;

struct Bench {
    host: Arc<Host>,
    _plugin: Arc<windlass_plugins::Plugin>,
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
        _plugin: plugin,
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

/// Prepares a definition, and counts the memory that it takes.
fn prepared(definition: &Value, host: &Host) -> (Prepared, u64) {
    let text = row(definition);
    let before = held();
    let row = DefinitionRow {
        json: bytes::Bytes::copy_from_slice(&text.json),
        ..text.clone()
    };
    let (parsed, pins) = prepare::resolve(&row, host).unwrap();
    let prepared = prepare::assemble(&parsed, row, pins, host).unwrap();
    drop(parsed);
    let counted = held() - before;
    (prepared, u64::try_from(counted).unwrap())
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

/// One node that assigns these values to variables.
fn assigning(values: impl Iterator<Item = Value>) -> Value {
    let set: Map<String, Value> = values
        .enumerate()
        .map(|(at, value)| (format!("v{at}"), value))
        .collect();
    chain(1, |_| json!({ "set": set }))
}

/// Definitions of many forms, small in their text and large in memory, or the other way round.
fn forms() -> Vec<(&'static str, Value)> {
    let mut zeros = "{{ [0".to_owned();
    for _ in 0..400 {
        zeros.push_str(",0");
    }
    zeros.push_str("] }}");
    let mut sum = "{{ input.a".to_owned();
    for at in 0..70 {
        write!(sum, " + vars.v{at}.some_member|default(1)").unwrap();
    }
    sum.push_str(" }}");
    let schema: Map<String, Value> = (0..2_000)
        .map(|at| {
            let part = json!({ "type": "string", "minLength": at % 7, "enum": ["a", "b"] });
            (format!("member{at}"), part)
        })
        .collect();
    let nested = (0..50).fold(
        json!({ "type": "integer" }),
        |inner, _| json!({ "type": "object", "properties": { "a": inner }, "required": ["a"] }),
    );
    let patterns: Vec<Value> = (0..40)
        .map(|at| json!({ "pattern": format!("^[a-z]{{{at}}}x+$") }))
        .collect();
    let mut with_schema = chain(1, |_| json!({ "set": { "a": 1 } }));
    with_schema["input"] = json!({ "type": "object", "properties": schema });
    let mut with_nested = chain(1, |_| json!({ "set": { "a": 1 } }));
    with_nested["input"] = nested;
    let mut with_patterns = chain(1, |_| json!({ "set": { "a": 1 } }));
    with_patterns["input"] = json!({ "allOf": patterns });
    let mut conditions = chain(2_000, |_| json!({ "set": { "a": 1 } }));
    for edge in conditions["edges"].as_array_mut().unwrap() {
        edge["when"] = json!("vars.a > 0 and input.kind == 'x'");
    }
    vec![
        ("one node", chain(1, |_| json!({ "set": { "a": 1 } }))),
        (
            "many nodes",
            chain(10_000, |_| json!({ "set": { "a": 1 } })),
        ),
        (
            "many calls",
            chain(
                5_000,
                |at| json!({ "workflow": format!("child{}", at % 9) }),
            ),
        ),
        ("many waits", chain(5_000, |_| json!({ "wait": "1s" }))),
        (
            "plugin nodes",
            chain(
                2_000,
                |_| json!({ "use": "heavy/work", "with": { "n": "{{ vars.n }}" } }),
            ),
        ),
        (
            "plugin defaults",
            chain(2_000, |_| json!({ "use": "heavy/work", "with": {} })),
        ),
        (
            "a large constant",
            assigning(std::iter::once(json!("x".repeat(1_000_000)))),
        ),
        (
            "large constants",
            assigning((0..1_000).map(|_| json!("x".repeat(1_000)))),
        ),
        (
            "paths",
            assigning((0..5_000).map(|_| json!("{{ input.a }}"))),
        ),
        ("lists of zeros", assigning((0..500).map(|_| json!(zeros)))),
        ("sums", assigning((0..200).map(|_| json!(sum)))),
        (
            "texts",
            assigning((0..2_000).map(|_| json!("Dear {{ input.name }}, it is {{ vars.v1 }}."))),
        ),
        (
            "expressions below each other",
            assigning(std::iter::once(json!(vec!["{{ vars.v0 }}"; 20_000]))),
        ),
        (
            "expressions below a long key",
            assigning(std::iter::once(
                json!({ "k".repeat(1_000): vec!["{{ vars.v0 }}"; 5_000] }),
            )),
        ),
        ("conditions", conditions),
        ("a wide schema", with_schema),
        ("a deep schema", with_nested),
        ("patterns", with_patterns),
    ]
}

#[test]
fn a_weight_is_what_a_definition_takes() {
    let bench = bench();
    // What is made once for all definitions counts for none.
    for (_, form) in forms() {
        drop(prepared(&form, &bench.host));
    }
    let mut wrong = String::new();
    for (name, form) in forms() {
        let text = form.to_string().len();
        let (prepared, counted) = prepared(&form, &bench.host);
        let weight = prepared.weight;
        let line = format!("{name}: {text} bytes of text, {counted} counted, {weight} estimated");
        println!("{line}");
        if weight < counted || weight > 3 * counted + 65_536 {
            writeln!(wrong, "{line}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
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
    assert_eq!(metrics.definitions_limit.get(), most);
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
