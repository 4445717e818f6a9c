//! The estimated weight of a prepared definition, and the memory that it takes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use serde_json::{Map, Value, json};

use super::{Catalog, bench, chain, row, workflow};

/// The allocator of the system, which counts what each thread has allocated.
struct Counting;

thread_local! {
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

/// What a block takes: a heap rounds it up to 16 bytes.
fn count(layout: Layout, sign: i64) {
    let bytes = i64::try_from(layout.size().next_multiple_of(16)).unwrap_or(i64::MAX);
    // A thread that ends has no count any more.
    let _ = LIVE.try_with(|live| live.set(live.get() + sign * bytes));
}

#[expect(unsafe_code, reason = "an allocator is one; it hands all calls on")]
// SAFETY: each method hands its arguments to the allocator of the system.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout, 1);
        // SAFETY: the caller keeps to the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(layout, -1);
        // SAFETY: the caller keeps to the contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The weight of a definition, and what it takes, in bytes.
fn measured(definition: &Value) -> (u64, u64) {
    let bench = bench();
    // Tables that the first definition fills for all.
    let catalog = Catalog::default();
    catalog
        .prepare(
            row(&chain(2, |_| json!({ "set": { "a": "{{ 1 }}" } }))),
            &bench.host,
        )
        .unwrap();
    // One thread does all of it, so that its counter sees all.
    catalog.heavy.run(|| {
        let before = LIVE.get();
        let prepared = catalog.prepare(row(definition), &bench.host).unwrap();
        let taken = LIVE.get() - before;
        (prepared.weight, u64::try_from(taken).unwrap())
    })
}

fn nodes(count: usize, node: impl Fn(usize) -> Value) -> Map<String, Value> {
    (0..count).map(|at| (format!("n{at}"), node(at))).collect()
}

#[test]
fn the_weight_of_a_definition_is_about_the_memory_that_it_takes() {
    let pattern =
        |at: usize| json!({ "type": "string", "pattern": format!("^[a-z]{{1,9}}{}$", at % 50) });
    let with = |name: &str, value: Value| {
        let mut whole = workflow(nodes(1, |_| json!({ "end": null })), Vec::new());
        whole[name] = value;
        whole
    };
    let properties = |count: usize, of: &dyn Fn(usize) -> Value| -> Value {
        (0..count).map(|at| (format!("p{at}"), of(at))).collect()
    };
    let cases = [
        (
            "a chain of nodes",
            chain(5_000, |_| json!({ "set": { "x": 1 } })),
        ),
        (
            "nodes without edges",
            workflow(nodes(9_000, |_| json!({ "end": null })), Vec::new()),
        ),
        (
            "nodes of a plugin",
            chain(
                2_000,
                |at| json!({ "use": "heavy/work", "with": { "n": at } }),
            ),
        ),
        (
            "a chain of expressions",
            chain(
                2_000,
                |at| json!({ "set": { "x": format!("{{{{ [input.a, {at}]|map('string')|join('-') }}}}") } }),
            ),
        ),
        (
            "one node of many expressions",
            workflow(
                nodes(1, |_| {
                    let set: Map<String, Value> = (0..10_000)
                        .map(|at| (format!("x{at}"), json!(format!("{{{{ {at} + input }}}}"))))
                        .collect();
                    json!({ "set": set })
                }),
                Vec::new(),
            ),
        ),
        (
            "a long text",
            workflow(
                nodes(1, |_| json!({ "set": { "x": "y".repeat(500_000) } })),
                Vec::new(),
            ),
        ),
        (
            "a long template",
            workflow(
                nodes(1, |_| json!({ "set": { "x": "y{{ input }}".repeat(300) } })),
                Vec::new(),
            ),
        ),
        (
            "constants",
            workflow(
                nodes(1, |_| json!({ "set": { "x": vec![0; 100_000] } })),
                Vec::new(),
            ),
        ),
        ("conditions", {
            let mut whole = chain(2_000, |_| json!({ "set": { "x": 1 } }));
            for edge in whole["edges"].as_array_mut().unwrap() {
                edge["when"] = "input.a.b == 17 and input.c".into();
            }
            whole
        }),
        (
            "bodies",
            chain(1_000, |at| {
                json!({
                    "for-each": "{{ input }}", "nodes": { format!("b{at}"): { "set": { "x": "{{ item }}" } } },
                })
            }),
        ),
        ("joins of many edges", {
            let mut edges = Vec::new();
            for from in 0..150 {
                edges.extend(
                    (150..300)
                        .map(|to| json!({ "from": format!("n{from}"), "to": format!("n{to}") })),
                );
            }
            workflow(
                nodes(300, |_| json!({ "set": { "x": 1 }, "join": "race" })),
                edges,
            )
        }),
        (
            "a schema of texts",
            with(
                "input",
                json!({ "properties": properties(1_900, &|_| json!({ "type": "string" })) }),
            ),
        ),
        (
            "a schema of patterns",
            with("input", json!({ "properties": properties(500, &pattern) })),
        ),
        (
            "a schema of choices",
            with("input", json!({ "enum": (0..30_000).collect::<Vec<_>>() })),
        ),
        (
            "variables",
            with("vars", properties(10_000, &|at| json!(at))),
        ),
    ];
    let mut wrong = Vec::new();
    for (name, definition) in cases {
        let (weight, taken) = measured(&definition);
        eprintln!("{name}: {weight} estimated, {taken} taken");
        if weight < taken / 2 || weight > taken * 2 {
            wrong.push(format!("{name}: {weight} estimated, {taken} taken"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
