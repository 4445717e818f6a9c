//! For-each: a scope for each item, and their outputs in the order of the list.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use windlass_model::{Body, Class, Payload, Status};
use windlass_runtime::BurstBounds;
use windlass_store::Reader as _;

use crate::rig::Setup;

/// Runs a workflow and compares its output.
fn check(workflow: &str, expected: &Value) {
    let ran = Setup::default().run(workflow);
    assert_eq!(ran.output(), *expected);
}

#[test]
fn items_come_out_in_the_order_of_the_list() {
    check(
        r#"
workflow: doubles
vars: { factor: 2, list: [3, 1, 2, 5, 4] }
nodes:
  each:
    for-each: "{{ vars.list }}"
    concurrency: 2
    nodes:
      double: { set: { doubled: "{{ item * vars.factor }}" } }
      named: { set: { named: "{{ [index, vars.doubled] }}" } }
    edges: [double -> named]
    output: "{{ vars.named }}"
output: "{{ nodes.each.output }}"
"#,
        &json!([[0, 6], [1, 2], [2, 4], [3, 10], [4, 8]]),
    );
}

#[test]
fn variables_that_an_item_assigns_are_its_own() {
    check(
        r#"
workflow: own
vars: { seen: outside }
nodes:
  each:
    for-each: [a, b]
    nodes:
      keep: { set: { seen: "{{ item }}" } }
    output: "{{ vars.seen }}"
output: "{{ [vars.seen, nodes.each.output] }}"
"#,
        &json!(["outside", ["a", "b"]]),
    );
}

#[test]
fn an_empty_list_comes_to_nothing() {
    check(
        r#"
workflow: empty
nodes:
  each:
    for-each: []
    nodes:
      keep: { set: { seen: "{{ item }}" } }
  after: { set: { after: 1 } }
edges: [each -> after]
output: "{{ [nodes.each.output, vars.after] }}"
"#,
        &json!([[], 1]),
    );
}

#[test]
fn lists_nest() {
    check(
        r#"
workflow: nested
nodes:
  outer:
    for-each: [[1, 2], [3]]
    nodes:
      inner:
        for-each: "{{ item }}"
        nodes:
          more: { set: { more: "{{ item + 10 }}" } }
        output: "{{ vars.more }}"
    output: "{{ nodes.inner.output }}"
output: "{{ nodes.outer.output }}"
"#,
        &json!([[11, 12], [13]]),
    );
}

#[test]
fn an_item_that_fails_comes_to_null_if_the_others_may_go_on() {
    check(
        r#"
workflow: lenient
nodes:
  each:
    for-each: [1, 2, 3]
    on-item-error: continue
    nodes:
      odd: { set: { odd: "{{ item }}" } }
      bad: { fail: "two is no good" }
    edges:
      - { from: odd, to: bad, when: "item == 2" }
    output: "{{ vars.odd }}"
output: "{{ nodes.each.output }}"
"#,
        &json!([1, null, 3]),
    );
}

#[test]
fn an_item_that_fails_fails_its_for_each() {
    let ran = Setup::default().run(
        r#"
workflow: strict
nodes:
  each:
    for-each: [1, 2, 3]
    nodes:
      bad: { fail: "{{ item }} is no good" }
"#,
    );
    assert_eq!(ran.result.status, Status::Faulted);
    let message = ran.result.failure.unwrap().message;
    assert!(message.contains("is no good"), "{message}");
}

#[test]
fn a_long_list_survives_changing_hands() {
    let mut setup = Setup::default();
    setup.burst.steps = 7;
    let ran = setup.run(
        r#"
workflow: long
vars: { list: [] }
nodes:
  make: { set: { list: "{{ range(100) | list }}" } }
  each:
    for-each: "{{ vars.list }}"
    concurrency: 3
    nodes:
      more: { set: { more: "{{ item + 1 }}" } }
    output: "{{ vars.more }}"
edges: [make -> each]
output: "{{ nodes.each.output | sum }}"
"#,
    );
    assert_eq!(ran.output(), json!(5_050));
    assert!(ran.row.epoch.0 > 5, "{:?}", ran.row.epoch);
}

/// Checks that a for-each ends at its time limit, regardless of the waits of its items.
fn bounded(bound: &str, on_error: &str, inside: &str) {
    let setup = Setup::default().beside(
        "waiting",
        "workflow: waiting\nnodes:\n  ask: { event: never }\n",
    );
    let ran = setup.run(&format!(
        r#"
workflow: bounded
nodes:
  each:
    for-each: [1, 2, 3]
    concurrency: 2
    {bound}
    on-item-error: {on_error}
    nodes:
      inside: {inside}
"#
    ));
    assert_eq!(ran.result.status, Status::Faulted, "{bound} of {inside}");
    let failure = ran.result.failure.unwrap();
    assert_eq!(failure.class, Class::Deadline, "{failure:?}");
}

#[test]
fn a_for_each_is_given_up_when_its_time_is_over() {
    bounded("timeout: 30ms", "fail", "{ event: never }");
    bounded("total-timeout: 30ms", "fail", "{ wait: 1h }");
    bounded("timeout: 30ms", "continue", "{ event: never }");
    bounded("timeout: 30ms", "fail", "{ workflow: waiting }");
    let nested = "{ for-each: [1], nodes: { deep: { event: never } } }";
    bounded("timeout: 30ms", "fail", nested);
}

#[test]
fn a_value_that_is_no_list_is_named_with_its_node() {
    for (value, kind) in [
        ("null", "the value null"),
        ("text", "a text"),
        ("7", "a number"),
        ("true", "a boolean"),
        ("{ a: 1 }", "a map"),
    ] {
        let ran = Setup::default().run(&format!(
            "
workflow: none
vars: {{ list: {value} }}
nodes:
  each:
    for-each: \"{{{{ vars.list }}}}\"
    nodes: {{ it: {{ set: {{ a: 1 }} }} }}
"
        ));
        let failure = ran.result.failure.as_ref().unwrap();
        assert_eq!(failure.class, Class::Invalid);
        let message = format!("node `each`: a for-each works on a list, and `for-each` has {kind}");
        assert_eq!(failure.message, message);
    }
}

#[test]
fn a_list_beyond_the_limit_of_executions_fails_before_its_first_item() {
    let workflow = |count: u32| {
        format!(
            "
workflow: long
nodes:
  each:
    for-each: \"{{{{ range({count}) }}}}\"
    nodes: {{ it: {{ set: {{ a: 1 }} }} }}
"
        )
    };
    // The process allows 10,000 executions; one makes the list and one collects the outputs.
    let ran = Setup::default().run(&workflow(10_000));
    assert_eq!(ran.result.status, Status::Faulted);
    let failure = ran.result.failure.as_ref().unwrap();
    assert_eq!(failure.code.as_str(), "WL-R005");
    assert!(
        failure
            .message
            .contains("the list of node `each` has 10000 items"),
        "{}",
        failure.message
    );
    assert!(ran.commits.len() < 10, "{}", ran.commits.len());
    let ran = Setup::default().run(&workflow(100));
    assert_eq!(ran.result.status, Status::Completed);
}

/// Runs a workflow over a list, as JSON text. Returns its output, and how often the store read a whole
/// blob and a part of one.
fn read_over(workflow: &str, list: &str, setup: &Setup) -> (String, usize, usize) {
    let running = setup.start();
    let reads = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let witness = Arc::clone(&reads);
    running.store.set_read_witness(Some(Box::new(move |reader| {
        let [whole, parts] = &*witness;
        let counted = match reader {
            "blob" => whole,
            "blob_part" => parts,
            _ => return,
        };
        counted.fetch_add(1, Ordering::Relaxed);
    })));
    let started = running.run_on(workflow, Payload::json(list.to_owned()));
    let result = running.ended(started.no);
    assert_eq!(result.status, Status::Completed, "{:?}", result.failure);
    running.store.set_read_witness(None);
    let row = running.store.run(result.id).unwrap().unwrap();
    let changes_hands = setup.burst.steps < BurstBounds::default().steps;
    assert!(!changes_hands || row.epoch.0 > 5, "{:?}", row.epoch);
    let output = running.store.output(started.no).unwrap().unwrap();
    let text = match &output.body {
        Body::Inline(bytes) => bytes.clone(),
        Body::Blob(blob) => running.store.blob(*blob).unwrap().unwrap(),
    };
    let [whole, parts] = &*reads;
    (
        String::from_utf8(text.to_vec()).unwrap(),
        whole.load(Ordering::Relaxed),
        parts.load(Ordering::Relaxed),
    )
}

#[test]
fn items_are_equal_whether_their_list_is_read_whole_or_in_pages() {
    let large = format!("\"{}\"", "ü😀\\\"],[".repeat(9_000));
    let kinds = [
        "123456789012345678901234567890.123456789",
        "-0.0",
        "1e400",
        "\"ü😀 \\u0000 \\\"]\"",
        "[[1,[],{}],[\",\"]]",
        "{\"a\":{\"b\":[null]}}",
        "\"\"",
        "null",
        &large,
    ];
    let items: Vec<&str> = (0..270).map(|at| kinds[at % kinds.len()]).collect();
    for (between, concurrency, body) in [
        (",", 1, "a: { set: { y: 1 } }"),
        (" ,\n\t", 7, "a: { set: { y: 1 } }"),
        (", ", 1_000, "a: { wait: 20ms }"),
    ] {
        let list = format!(" [{}]\n", items.join(between));
        let workflow = format!(
            r#"
workflow: pages
nodes:
  each:
    for-each: "{{{{ input }}}}"
    concurrency: {concurrency}
    nodes:
      {body}
    output: "{{{{ item }}}}"
output: "{{{{ nodes.each.output }}}}"
"#
        );
        let wanted = format!("[{}]", items.join(","));
        let (whole, _, parts) = read_over(&workflow, &list, &Setup::default());
        assert!(whole == wanted, "{body}");
        assert_eq!(parts, 0, "there is room for the list");
        let mut setup = Setup {
            run_data_bytes: 0,
            ..Setup::default()
        };
        let (paged, blobs, parts) = read_over(&workflow, &list, &setup);
        assert!(paged == wanted, "{body}");
        assert!(parts > 20, "{blobs} {parts}");
        // A run that is given back is claimed without data in memory, as after a crash.
        setup.burst.steps = 7;
        let (paged, blobs, parts) = read_over(&workflow, &list, &setup);
        assert!(paged == wanted, "{body}");
        assert!(parts > 20, "{blobs} {parts}");
    }
}

#[test]
fn loops_over_one_list_share_its_places() {
    let workflow = r#"
workflow: shared
nodes:
  outer:
    for-each: "{{ range(30) | list }}"
    concurrency: 30
    nodes:
      inner:
        for-each: "{{ input }}"
        concurrency: 2
        nodes:
          one: { set: { y: 1 } }
        output: "{{ item | length }}"
    output: "{{ nodes.inner.output | sum }}"
output: "{{ nodes.outer.output | unique }}"
"#;
    let item = format!("\"{}\"", "x".repeat(40_000));
    let list = format!("[{}]", [item.as_str(); 10].join(","));
    let setup = Setup {
        run_data_bytes: 0,
        ..Setup::default()
    };
    let (output, blobs, parts) = read_over(workflow, &list, &setup);
    assert_eq!(output, "[400000]");
    assert!(blobs < 30, "the list is read whole {blobs} times");
    assert!(parts >= 5, "{parts}");
}
