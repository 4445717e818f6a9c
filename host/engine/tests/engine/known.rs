//! Mistakes that are known before a run begins.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_engine::{Analysis, Facts, analyse};
use windlass_model::definition::{Edge, Node, NodeKind, UseRef, When};
use windlass_model::{Definition, limits};
use windlass_test_seeds::Seeds;

use crate::kit;

/// Node types for the tests.
struct Types {
    done: Vec<String>,
    several: Vec<String>,
    response: Value,
    open: Value,
}

impl Types {
    fn new() -> Self {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect();
        Self {
            done: names(&["done"]),
            several: names(&["done", "left", "right"]),
            response: json!({
                "type": "object",
                "properties": {
                    "status": { "type": "integer" },
                    "headers": { "additionalProperties": { "type": "string" } },
                    "body": {},
                },
                "additionalProperties": false,
            }),
            open: json!({ "properties": { "status": { "type": "integer" } } }),
        }
    }

    fn facts(&self, of: &UseRef) -> Option<Facts<'_>> {
        let (ports, output, suspends) = match of.to_string().as_str() {
            "t/get" => (&self.done, &self.response, false),
            "t/open" | "test/node" => (&self.done, &self.open, false),
            "t/port" => (&self.several, &self.open, false),
            "t/ask" => (&self.done, &self.open, true),
            _ => return None,
        };
        Some(Facts {
            ports,
            raw: vec!["raw".to_owned()],
            output,
            suspends,
        })
    }
}

fn analysed(definition: &Definition) -> Analysis {
    let types = Types::new();
    analyse(definition, &|of| types.facts(of))
}

fn definition(yaml: &str) -> Definition {
    let text = format!("workflow: known\n{yaml}");
    let read = windlass_model::file::read(&text, "known.yaml");
    assert!(
        read.diagnostics.is_empty(),
        "{:#?}\n{text}",
        read.diagnostics
    );
    read.definition.unwrap_or_default()
}

/// Each line of `expected` is `code place: message` for a mistake, and the same behind `warning`.
#[track_caller]
fn check(yaml: &str, expected: &str) {
    let analysis = analysed(&definition(yaml));
    let mut actual = String::new();
    let mistakes = analysis.mistakes.iter().map(|found| ("", found));
    let warnings = analysis.warnings.iter().map(|found| ("warning ", found));
    for (kind, found) in mistakes.chain(warnings) {
        let place = &found.place.pointer;
        let _ = writeln!(actual, "{kind}{} {place}: {}", found.code, found.message);
    }
    let expected: String = expected
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .flat_map(|line| [line, "\n"])
        .collect();
    assert_eq!(actual, expected, "{yaml}");
}

#[test]
fn an_output_is_null_before_its_node_and_beside_it() {
    check(
        r#"
nodes:
  a: { use: t/get, input: "{{ nodes.c.output }}" }
  b: { use: t/get, with: { raw: "{{ nodes.c.output }}" } }
  c: { use: t/get, input: "{{ nodes.c.output }}" }
edges: [a -> b, b -> c: nodes.c.output.status > 1]
output: "{{ nodes.c.output }}"
"#,
        "WL-D086 /nodes/a/input: `nodes.c.output` is always null here: node `c` runs only after node `a`
         WL-D086 /nodes/c/input: `nodes.c.output` is always null here: node `c` has not run before
         WL-D086 /edges/1: `nodes.c.output` is always null here: node `c` runs only after node `b`",
    );
    check(
        r#"
nodes:
  a: { use: t/port }
  b: { use: t/get }
  c: { use: t/get, input: "{{ nodes.b.output }}" }
  d: { use: t/get, input: "{{ nodes.b.output }}" }
  e: { use: t/get, input: "{{ nodes.b.output }} {{ nodes.c.output }} {{ nodes.d.output }}" }
edges:
  - a -> b: input.x
  - a -> c: else
  - a.left -> d
  - b -> e
  - c -> e
  - d -> e
"#,
        "WL-D086 /nodes/c/input: `nodes.b.output` is always null here: node `a` leads either to node `b` or to node `c`
         warning WL-D086 /nodes/d/input: `nodes.b.output` may be null here: node `d` does not wait for node `b`",
    );
    // A tested value is no mistake, and neither is a link.
    check(
        r#"
nodes:
  a: { use: t/get, input: "{{ nodes.c.output | default('') }}", with: { x: "{{ nodes.c.link }}" } }
  b: { use: t/get, input: "{{ 1 if nodes.c.output is none else nodes.c.output.status }}" }
  c: { use: t/get }
edges: [a -> b, b -> c]
"#,
        "",
    );
}

#[test]
fn a_later_round_sees_the_outputs_of_an_earlier_one() {
    check(
        r#"
nodes:
  a: { use: t/get, join: any, input: "{{ nodes.b.output }}" }
  b: { use: t/port, input: "{{ nodes.b.output }}" }
  c: { use: t/get, repeat: { max: 2 }, input: "{{ nodes.c.output }}" }
edges: [a -> b, b.left -> a, b -> c]
"#,
        "",
    );
    // The second item of `each` may see what the first has left.
    check(
        r#"
nodes:
  a: { use: t/get }
  b: { use: t/get }
  c: { use: t/get, join: each, input: "{{ nodes.d.output }}" }
  d: { use: t/get }
  s: { use: t/get }
edges: [s -> a, s -> b, a -> c, b -> c, c -> d]
"#,
        "warning WL-D086 /nodes/c/input: `nodes.d.output` may be null here: node `c` does not wait for node `d`",
    );
}

#[test]
fn a_body_sees_the_nodes_before_its_for_each() {
    check(
        r#"
nodes:
  a: { use: t/get }
  f:
    for-each: "{{ nodes.z.output.body }}"
    nodes:
      x: { use: t/get, input: "{{ nodes.a.output }} {{ nodes.z.output }} {{ nodes.y.output }}" }
      y: { use: t/get, input: "{{ nodes.f.output }} {{ nodes.x.output }}" }
    edges: [x -> y]
    output: "{{ nodes.x.output }} {{ nodes.y.output }} {{ nodes.z.output }}"
  z: { use: t/get, input: "{{ nodes.f.output[0] }}" }
edges: [a -> f, f -> z]
"#,
        "WL-D086 /nodes/f/for-each: `nodes.z.output` is always null here: node `z` runs only after node `f`
         WL-D086 /nodes/f/nodes/x/input: `nodes.z.output` is always null here: node `z` runs only after node `f`
         WL-D086 /nodes/f/nodes/x/input: `nodes.y.output` is always null here: node `y` runs only after node `x`
         WL-D086 /nodes/f/nodes/y/input: `nodes.f.output` is always null here: node `f` has not run before
         WL-D086 /nodes/f/output: `nodes.z.output` is always null here: node `z` runs only after node `f`",
    );
}

#[test]
fn variables_that_nothing_sets_are_warned_about() {
    check(
        r#"
vars: { a: 1 }
nodes:
  s: { set: { b: "{{ vars.a + vars.bb }}" } }
  t: { use: t/get, input: "{{ vars.b }} {{ vars.c | default(1) }}" }
edges: [s -> t: vars.d == 1]
"#,
        "warning WL-D090 /nodes/s/set/b: nothing sets the variable `bb`, so reading it fails
         warning WL-D090 /edges/0: nothing sets the variable `d`, so reading it fails",
    );
}

#[test]
fn members_that_a_schema_rules_out_are_mistakes() {
    check(
        r#"
input:
  type: object
  properties:
    lines: { type: array, items: { type: object, properties: { sku: { type: string } }, additionalProperties: false } }
  additionalProperties: false
nodes:
  f:
    for-each: "{{ input.lines }}"
    nodes:
      x: { set: { s: "{{ item.sku }} {{ item.skus }}" } }
  g: { use: t/get, on-error: route, input: "{{ input.line }} {{ input.lines.sku }} {{ input.lines[0].sku }}" }
  h: { use: t/open, input: "{{ nodes.g.output.statsu }} {{ nodes.g.output.error.code }} {{ nodes.f.output.x }}" }
  i: { set: { x: "{{ nodes.h.output.stat }} {{ nodes.g.output.headers.x }} {{ nodes.g.output.status.x }}" } }
  j: { set: { x: "{{ nodes.i.output.y }} {{ nodes.i.output.x }}" } }
  e: { end: }
edges: [f -> g, g -> h, h -> i, i -> j, g.error -> e]
"#,
        "WL-D087 /nodes/g/input: `input` has no member `line`
         WL-D087 /nodes/g/input: `input.lines` is a list and has no member `sku`
         WL-D087 /nodes/h/input: `nodes.g.output` has no member `statsu`
         WL-D087 /nodes/h/input: `nodes.f.output` is a list and has no member `x`
         WL-D087 /nodes/i/set/x: `nodes.g.output.status` is a number and has no member `x`
         WL-D087 /nodes/j/set/x: `nodes.i.output` has no member `y`
         WL-D087 /nodes/f/nodes/x/set/s: `input.lines[…]` has no member `skus`
         warning WL-D087 /nodes/i/set/x: the schema of `nodes.h.output` declares no member `stat`",
    );
}

#[test]
fn a_cycle_needs_an_edge_that_may_not_be_taken() {
    let endless = "nothing ends the cycle of the nodes `a`, `b`";
    check(
        "nodes: { s: { set: {} }, a: { set: {} }, b: { set: {} } }\nedges: [s -> a, a -> b, b -> a]",
        &format!("WL-D088 /edges/2: {endless}: no edge leaves it, and its edges have no condition"),
    );
    check(
        "nodes: { s: { set: {} }, a: { use: t/get }, b: { wait: 1s }, c: { end: } }
edges: [s -> a, a -> b, b -> a, b -> c: input.x]",
        &format!(
            "warning WL-D088 /edges/2: {endless}: all edges whose condition is true are taken, and the edges of the cycle have none"
        ),
    );
    for ended in [
        "nodes: { s: { set: {} }, a: { use: t/get }, b: { wait: 1s } }\nedges: [s -> a, a -> b, b -> a: input.x]",
        "nodes: { s: { set: {} }, a: { use: t/get }, b: { event: more } }\nedges: [s -> a, a -> b, b -> a]",
        "nodes: { s: { set: {} }, a: { use: t/ask }, b: { set: {} } }\nedges: [s -> a, a -> b, b -> a]",
        "nodes: { s: { set: {} }, a: { use: t/port }, b: { set: {} } }\nedges: [s -> a, a.left -> b, b -> a]",
        "nodes: { s: { set: {} }, a: { set: {} }, b: { wait: 1s, first: true }, c: { end: } }
edges: [s -> a, a -> b, b -> c: input.x, b -> a]",
        "nodes: { s: { set: {} }, a: { use: t/get, on-error: route }, b: { wait: 1s }, c: { end: } }
edges: [s -> a, a -> b, b -> a, a.error -> c]",
        "nodes: { s: { set: {} }, a: { set: {} }, b: { wait: 1s }, c: { end: { terminate: true } } }
edges: [s -> a, a -> b, b -> a, b -> c: input.x]",
        "options: { timeout: 1h }\nnodes: { s: { set: {} }, a: { set: {} }, b: { wait: 1s } }\nedges: [s -> a, a -> b, b -> a]",
    ] {
        check(ended, "");
    }
}

#[test]
fn nodes_that_no_edge_connects_are_warned_about() {
    check(
        "nodes: { a: { set: {} }, b: { set: {} }, c: { set: {} }, d: { set: {} } }\nedges: [a -> b, c -> d]",
        "warning WL-D089 /nodes/c: no edge connects node `c`, with 1 more after it, with the rest, so it begins at once, side by side with `a`",
    );
    for meant in [
        "nodes: { a: { set: {} }, b: { set: {} } }",
        "nodes: { a: { set: {} }, b: { set: {} }, c: { set: {} } }\nedges: [a -> b, c -> b]",
        "nodes: { a: { set: {}, start: true }, b: { set: {} }, c: { set: {}, start: true } }\nedges: [a -> b]",
    ] {
        check(meant, "");
    }
}

#[test]
fn an_edge_to_a_misspelt_node_counts_as_meant() {
    check(
        r#"
nodes:
  first: { use: t/get, input: "{{ nodes.second.output }}" }
  second: { use: t/get }
edges: [first -> secnd]
"#,
        "WL-D086 /nodes/first/input: `nodes.second.output` is always null here: node `second` runs only after node `first`",
    );
    check(
        r#"
nodes:
  first: { use: t/get, input: "{{ nodes.second.output }}" }
  second: { use: t/get }
edges: [first -> elsewhere]
"#,
        "",
    );
}

/// The largest definition: a chain with edges across, in which every node reads another's output.
#[test]
fn the_largest_definition_is_analysed() {
    let mut definition = Definition {
        name: "large".to_owned(),
        ..Definition::default()
    };
    let name = |at: usize| format!("n{at:05}");
    for at in 0..limits::NODES {
        let reads = name((at * 7_919 + 1) % limits::NODES);
        let value = json!(format!("{{{{ nodes.{reads}.output }}}}"));
        let kind = NodeKind::Set([("x".to_owned(), value)].into());
        definition.nodes.insert(name(at), Node::new(kind));
    }
    let mut edge = |from: usize, to: usize| {
        if from < to && to < limits::NODES && definition.edges.len() < limits::EDGES {
            let at = definition.edges.len();
            definition
                .edges
                .push(kit::edge(at, &name(from), "done", &name(to), When::Always));
        }
    };
    for at in 0..limits::NODES {
        edge(at, at + 1);
        for far in [13, 1_009, 4_001, 9_001] {
            edge(at, at + far);
        }
    }
    let analysis = analysed(&definition);
    // Most read what comes later. Not all are told.
    assert_eq!(analysis.warnings.len(), 100);
    assert!(!analysis.mistakes.is_empty());
}

/// Whether a way leads from `x` to `y` that does not go through `without`.
fn leads(edges: &[(usize, usize)], from: &[usize], to: usize, without: Option<usize>) -> bool {
    let mut seen = [false; 16];
    let mut todo: Vec<usize> = from
        .iter()
        .copied()
        .filter(|at| Some(*at) != without)
        .collect();
    while let Some(at) = todo.pop() {
        if at == to {
            return true;
        }
        if std::mem::replace(&mut seen[at], true) {
            continue;
        }
        let next = edges
            .iter()
            .filter(|(from, to)| *from == at && Some(*to) != without);
        todo.extend(next.map(|(_, to)| *to));
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(Seeds::USUAL.cases()))]

    /// On graphs without cycles, the order is as an exhaustive search finds it.
    #[test]
    fn the_order_is_that_of_all_ways(pairs in prop::collection::vec((0..9_usize, 0..9_usize), 0..18)) {
        let edges: Vec<(usize, usize)> = pairs.into_iter().filter(|(from, to)| from < to).collect();
        let mut definition = Definition { name: "order".to_owned(), ..Definition::default() };
        let name = |at: usize| format!("n{at:02}");
        for at in 0..9 {
            let reads: serde_json::Map<String, Value> = (0..9)
                .filter(|other| *other != at)
                .map(|other| (name(other), json!(format!("{{{{ nodes.{}.output }}}}", name(other)))))
                .collect();
            let mut node = Node::new(NodeKind::Set([("x".to_owned(), Value::Object(reads))].into()));
            node.start = at == 0;
            definition.nodes.insert(name(at), node);
        }
        let mut listed: Vec<Edge> = Vec::new();
        for (from, to) in &edges {
            listed.push(kit::edge(listed.len(), &name(*from), "done", &name(*to), When::Always));
        }
        definition.edges = listed;
        let analysis = analysed(&definition);
        let roots: Vec<usize> =
            (0..9).filter(|at| *at == 0 || edges.iter().all(|(_, to)| to != at)).collect();
        let told = |list: &[windlass_model::Diagnostic], x: usize, y: usize| {
            let place = format!("/nodes/{}/set/x/{}", name(y), name(x));
            list.iter().any(|found| found.place.pointer == place)
        };
        // At most 100 of each are told, in the order of the places.
        let full = analysis.mistakes.len() == 100 || analysis.warnings.len() == 100;
        for x in 0..9 {
            for y in (0..9).filter(|y| *y != x && !full) {
                let before = leads(&edges, &[x], y, None);
                let after = !leads(&edges, &roots, x, Some(y));
                prop_assert_eq!(told(&analysis.mistakes, x, y), after && !before, "{} read at {}", x, y);
                prop_assert_eq!(told(&analysis.warnings, x, y), !after && !before, "{} read at {}", x, y);
            }
        }
    }
}

#[test]
fn an_order_of_values_of_different_kinds_is_known_where_the_kinds_are() {
    let nodes = "nodes: { a: { use: t/get }, b: { set: { x: 1 } } }";
    let about = |head: &str, condition: &str, expected: &str| {
        let yaml = format!("{head}\n{nodes}\nedges: [{{ from: a, to: b, when: \"{condition}\" }}]");
        let line = match expected {
            "" => String::new(),
            kinds => format!("WL-D093 /edges/0: `{condition}` fails in every run: {kinds}"),
        };
        check(&yaml, &line);
    };
    let order = |op: &str, a: &str, b: &str| {
        format!("`{op}` orders values of one kind, and these are {a} and {b}")
    };
    let schema = "input: { properties: { qty: { type: string }, n: { type: integer }, \
                  price: { type: ['number', 'null'] }, either: { type: [string, integer] }, \
                  list: { type: array, items: { type: string } } } }";
    about(schema, "input.qty > 100", &order(">", "a text", "a number"));
    about(
        schema,
        "100 <= input.qty",
        &order("<=", "a number", "a text"),
    );
    about(
        schema,
        "input.list[0] < input.n",
        &order("<", "a text", "a number"),
    );
    about(
        schema,
        "input.qty is gt(input.n)",
        &order("gt", "a text", "a number"),
    );
    about(
        schema,
        "nodes.a.output.status >= '500'",
        &order(">=", "a number", "a text"),
    );
    about(
        schema,
        "nodes.a.output.headers.x < 5",
        &order("<", "a text", "a number"),
    );
    about(schema, "input.qty - 1", "`-` takes two numbers");
    about(
        schema,
        "trigger.attempt < '3'",
        &order("<", "a number", "a text"),
    );
    for good in [
        "input.n > 100",
        "input.price > 100",
        "input.either > 100",
        "(input.qty | int) > 100",
        "input.qty > '100'",
        "input.list[0] < 'x'",
        "input.qty == 100",
        "nodes.a.output.body > 5",
    ] {
        about(schema, good, "");
    }
    let hook = "triggers: { h: { http: { path: '/a/{id}' } } }";
    for part in [
        "query.total",
        "query['total']",
        "headers['x-n']",
        "params.id",
        "query.n[0]",
    ] {
        let condition = format!("input.{part} > 100");
        let found = order(">", "a text", "a number");
        about(hook, &condition, &found);
    }
    for good in [
        "(input.query.total | int) > 100",
        "input.query.total > '100'",
        "input.body.total > 100",
        "input.query.total == 100",
    ] {
        about(hook, good, "");
    }
    let event = "triggers: { h: { http: { path: /a } }, e: { event: x } }";
    about(event, "input.body.total > 100", "");
    check(
        &format!(
            "{event}\n{nodes}\nedges: [{{ from: a, to: b, when: \"input.query.total > 100\" }}]"
        ),
        &format!(
            "warning WL-D093 /edges/0: `input.query.total > 100` fails in every run that the trigger \
             `h` starts: {}",
            order(">", "a text", "a number")
        ),
    );
    about("", "input.query.total > 100", "");
}
