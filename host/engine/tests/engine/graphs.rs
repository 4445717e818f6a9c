//! Compiled graphs, and the messages about wrong ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;
use windlass_engine::{EdgeIx, LOOP_DEPTH};
use windlass_model::definition::{NodeKind, When};
use windlass_model::{Definition, limits};

use crate::kit;

/// Each line of `expected` is `code place: message`.
fn check_refused(graph: &str, expected: &str) {
    check_definition_refused(&kit::definition(graph), expected);
}

fn check_definition_refused(definition: &Definition, expected: &str) {
    let found = kit::compile(definition).err().unwrap_or_default();
    let mut actual = String::new();
    for diagnostic in found {
        let place = &diagnostic.place.pointer;
        let _ = write!(
            actual,
            "{} {place}: {}",
            diagnostic.code, diagnostic.message
        );
        if let Some(help) = &diagnostic.help {
            let _ = write!(actual, " [{help}]");
        }
        actual.push('\n');
    }
    let expected: String = expected
        .lines()
        .flat_map(|line| [line.trim(), "\n"])
        .collect();
    assert!(
        actual == expected,
        "expected\n{expected}\nbut it is\n{actual}"
    );
}

/// `backward` lists edges like `b>a`; `depths` lists the nodes in loops, each with the number of
/// loops around it.
fn check_loops(graph: &str, backward: &str, depths: &str) {
    let graph = kit::graph(graph);
    let name = |node| graph.node(node).map_or("", |plan| plan.name.as_str());
    let back: Vec<String> = graph
        .edges()
        .iter()
        .filter(|edge| edge.backward)
        .map(|edge| format!("{}>{}", name(edge.from), name(edge.to)))
        .collect();
    assert_eq!(back.join(" "), backward);
    let inside: Vec<String> = graph
        .nodes()
        .map(|(at, plan)| (plan, graph.loops_of(at).count()))
        .filter(|(_, depth)| *depth > 0)
        .map(|(plan, depth)| format!("{}{depth}", plan.name))
        .collect();
    assert_eq!(inside.join(" "), depths);
}

#[test]
fn nodes_are_numbered_by_name_and_edges_by_place() {
    let graph = kit::graph("z -> b\nz -> a\na -> c\nb -> c");
    let names: Vec<_> = graph
        .nodes()
        .map(|(at, plan)| (at.0, plan.name.as_str()))
        .collect();
    assert_eq!(names, [(0, "a"), (1, "b"), (2, "c"), (3, "z")]);
    let c = graph
        .find("c")
        .and_then(|at| graph.node(at))
        .expect("a node");
    assert_eq!(c.inbound, [EdgeIx(2), EdgeIx(3)]);
    assert!(c.gathers);
}

#[test]
fn loops_with_one_entry_have_their_backward_edges_at_the_header() {
    check_loops("s -> a\na -> b\nb -> a", "b>a", "a1 b1");
    check_loops("s -> a\na -> a", "a>a", "a1");
    check_loops(
        "s -> a\na -> b\nb -> c\nc -> b\nc -> a",
        "c>b c>a",
        "a1 b2 c2",
    );
    check_loops(
        "s -> c\nc -> b\nb -> a\na -> c\na -> b",
        "a>c a>b",
        "a2 b2 c1",
    );
}

#[test]
fn loops_with_several_entries_have_theirs_where_a_walk_by_name_returns() {
    check_loops(
        "b: join any\ns -> a\ns -> b\na -> b\nb -> a",
        "b>a",
        "a1 b1",
    );
    check_loops(
        "a: start\nx -> b\nb: join any\na -> b\nb -> a",
        "b>a",
        "a1 b1",
    );
}

#[test]
fn a_start_inside_a_cycle_is_its_entry() {
    check_loops("b: start\na -> b\nb -> a", "a>b", "a1 b1");
}

#[test]
fn names_that_do_not_exist_are_reported_with_the_nearest() {
    check_refused(
        "start1 -> b: nodes.stat1.output > 1
         start1 -> nobody
         c: with {{nodes.d.output}}
         options: output nodes.b1.output",
        "WL-D061 /nodes/c/with: there is no node `d` [did you mean `b`?]
         WL-D061 /output: there is no node `b1` [did you mean `b`?]
         WL-D061 /edges/0: there is no node `stat1` [did you mean `start1`?]
         WL-D070 /edges/1/to: there is no node `nobody` [there are `b`, `c`, `start1`]",
    );
}

#[test]
fn a_workflow_has_to_begin_somewhere_and_to_reach_every_node() {
    check_refused(
        "",
        "WL-D072 /nodes: the workflow has no nodes [give it at least one]",
    );
    check_refused(
        "a -> b
         b -> a",
        "WL-D072 /nodes: the workflow begins nowhere: an edge leads to every node [write `start: true` at the node to begin with]",
    );
    check_refused(
        "a -> b
         c -> c",
        "WL-D073 /nodes/c: nothing leads to node `c` [lead an edge to it, or write `start: true` if the workflow begins there]",
    );
    check_refused(
        "b: start
         a: start
         a -> b",
        "WL-D080 /nodes/b/start: the workflow begins at node `b`, but node `a` leads there too",
    );
}

#[test]
fn else_needs_a_sibling_with_a_condition() {
    check_refused(
        "a -> b: else",
        "WL-D074 /edges/0: no other edge from `a` has a condition, so `else` has no meaning [leave `: else` out, or add an edge with a condition]",
    );
    check_refused(
        "a.p -> b
         a.p -> c: else",
        "WL-D074 /edges/1: another edge from `a.p` has no condition, so this `else` is never taken [give the other edge a condition, or leave `: else` out to take both]",
    );
    check_refused(
        "a -> b: true
         a -> c: else
         a -> d: else",
        "WL-D074 /edges/2: two edges from `a` are `else` [give one of them a condition]",
    );
}

#[test]
fn a_count_lies_within_the_number_of_edges() {
    check_refused(
        "a -> b
         b: join 2
         c: join 0
         a -> c",
        "WL-D075 /nodes/b/join: node `b` waits for 2 of its 1 edges
         WL-D075 /nodes/c/join: node `c` waits for 0 of its 1 edges",
    );
}

#[test]
fn no_join_waits_on_a_cycle_with_several_entries() {
    check_refused(
        "s -> a
         s -> b
         a -> b
         b -> a",
        "WL-D076 /nodes/b: node `b` waits for several edges on a cycle that can be entered in several places: the cycle is `a`, `b`, its entries are `a`, `b` [write `join: any`, `race` or `each` at the node, or let all edges enter at one node]",
    );
}

#[test]
fn policies_and_ports_have_to_make_sense() {
    check_refused(
        "a: retry 0 1 fixed
         a -> b
         b: route
         e: end
         b -> e
         e -> f
         f: fail
         f -> g
         g: wait
         g.late -> h
         g.error -> h",
        "WL-D077 /nodes/a/retry/max-attempts: the retry policy of node `a` allows no execution at all [`max-attempts` counts all executions: 1 is the first one alone]
         WL-D081 /nodes/b/on-error: node `b` routes its failures, but no edge takes them on [add an edge like `b.error -> …`]
         WL-D079 /edges/2: node `e` ends its branch, so nothing can come after it [leave the edge out, or the `end` node]
         WL-D081 /edges/3: node `f` always fails, so this edge is never taken [the path after a failure leaves by `f.error`]
         WL-D081 /edges/4: node `g` has no port `late`, only `done` and `error`
         WL-D081 /edges/5: node `g` does not route its failures, so this edge is never taken [write `on-error: route` at node `g`]",
    );
}

#[test]
fn one_rule_is_enough_for_the_ports_of_a_node() {
    // Each of these edges may be taken.
    kit::graph(
        "f: fail, on error.details.n==1 continue, otherwise route
         f -> a
         f.error -> b",
    );
    check_refused(
        "a: on error.details.n==1 route, otherwise continue
         b: on error.details.n==1 continue
         b.error -> c
         c: fail, on error.details.n==1 route
         c -> d
         c.error -> d",
        "WL-D081 /nodes/a/on-error: node `a` routes its failures, but no edge takes them on [add an edge like `a.error -> …`]
         WL-D081 /edges/1: node `c` always fails, so this edge is never taken [the path after a failure leaves by `c.error`]",
    );
    check_refused(
        "a: retry 2 1 fixed, retry-when eror.class==1
         a: on error.kind==1 fail, on nodes.z.output fail, on item fail
         b: on error.details route
         b -> c: error.class=='trap'
         b.error -> d",
        "WL-D061 /nodes/a/retry/when: there is no `eror` in `eror.class==1` [did you mean `error`?]
         WL-D061 /nodes/a/on-error/0/when: `error` has no `kind` in `error.kind==1` [`error` has `class`, `code`, `message`, `details`]
         WL-D061 /nodes/a/on-error/1/when: there is no node `z` [did you mean `a`?]
         WL-D061 /nodes/a/on-error/2/when: `item` is only there inside of a for-each [the list of a for-each is at its `for-each`, and its `nodes` see the item]
         WL-D061 /edges/0: there is no `error` here in `error.class=='trap'` [`error` is there only in the conditions of `retry` and `on-error`]",
    );
}

#[test]
fn two_edges_cannot_have_one_id() {
    let mut definition = kit::definition("a -> b\na -> c");
    for edge in &mut definition.edges {
        edge.id = "same".into();
    }
    check_definition_refused(
        &definition,
        "WL-D071 /edges/1: two edges have the id `same` [leave one of them out, or give it an id of its own: `{ from: …, to: …, id: … }`]",
    );
}

/// A chain of `n` nodes, with additional edges by position.
fn chain(n: usize, more: impl Iterator<Item = (usize, usize)>) -> Definition {
    let mut definition = Definition::default();
    let name = |at: usize| format!("n{at:05}");
    for at in 0..n {
        definition.nodes.insert(name(at), kit::node());
    }
    let all = (1..n).map(|at| (at - 1, at)).chain(more);
    for (at, (from, to)) in all.enumerate() {
        let edge = kit::edge(at, &name(from), "done", &name(to), When::Always);
        definition.edges.push(edge);
    }
    definition
}

#[test]
fn size_is_bounded() {
    check_definition_refused(
        &chain(limits::NODES + 1, std::iter::empty()),
        "WL-D078 /nodes: there are 10001 nodes, which is more than 10000",
    );
    check_definition_refused(
        &chain(2, (0..limits::EDGES).map(|_| (0, 1))),
        "WL-D078 /edges: there are 50001 edges, which is more than 50000",
    );
    let mut variables = chain(1, std::iter::empty());
    let initial = (0..limits::VARIABLES).map(|at| (format!("v{at}"), json!(at)));
    variables.vars = initial.collect();
    assert!(kit::compile(&variables).is_ok());
    let another = BTreeMap::from([
        ("v0".to_owned(), json!(0)),
        ("another".to_owned(), json!(0)),
    ]);
    let node = variables.nodes.values_mut().next().expect("it has one");
    node.kind = NodeKind::Set(another);
    check_definition_refused(
        &variables,
        "WL-D078 : there are 10001 variables, which is more than 10000",
    );
}

#[test]
fn the_largest_graphs_compile_without_recursion() {
    let long = chain(limits::NODES, std::iter::empty());
    assert!(kit::compile(&long).is_ok());
    let n = limits::NODES;
    let round = chain(n, [(n - 1, 1)].into_iter());
    let round = kit::compile(&round).expect("one large loop compiles");
    assert_eq!(round.loops().len(), 1);
    let depth = LOOP_DEPTH as usize;
    let n = depth + 10;
    let nested = chain(n, (1..=depth).map(|at| (n - 1, at)));
    let nested = kit::compile(&nested).expect("nested loops compile");
    assert_eq!(nested.loops().len(), depth);
    check_definition_refused(
        &chain(n, (1..=depth + 2).map(|at| (n - 1, at))),
        "WL-D078 /edges: loops nest deeper than 1000",
    );
}

#[test]
fn a_body_sees_the_nodes_around_it_and_no_node_sees_into_it() {
    check_refused(
        "options: output nodes.x.output
         a -> f
         f| x: with {{nodes.a.output}}
         f| x -> y
         f| y: with {{item}}
         b: with {{nodes.y.output}}
         a -> b
         a -> c
         c: with {{index}}",
        "WL-D061 /nodes/b/with: node `y` is inside of for-each `f`, which cannot be seen into [hand it out as the `output` of the for-each]
         WL-D061 /nodes/c/with: `index` is only there inside of a for-each [the list of a for-each is at its `for-each`, and its `nodes` see the item]
         WL-D061 /output: node `x` is inside of for-each `f`, which cannot be seen into [hand it out as the `output` of the for-each]",
    );
}

#[test]
fn edges_stay_in_their_body_and_every_body_begins_somewhere() {
    let mut definition = kit::definition(
        "a -> b
         a -> f
         f| x -> y",
    );
    definition.edges[0].to = "y".into();
    check_definition_refused(
        &definition,
        "WL-D070 /edges/0/to: node `y` is in another body, and edges lead nowhere else [a body gets data from outside by its `item`, and returns data by its `output`]",
    );
    check_refused(
        "f| x -> y
         f| y -> x",
        "WL-D072 /nodes/f/nodes: the body of for-each `f` begins nowhere: an edge leads to every node [write `start: true` at the node to begin with]",
    );
    check_refused(
        "f: each 1",
        "WL-D072 /nodes/f/nodes: the body of for-each `f` has no nodes [give it at least one]",
    );
}

#[test]
fn names_are_unique_over_all_bodies() {
    check_refused(
        "a -> f
         f| a -> x",
        "WL-D082 /nodes/f/nodes/a: another node is called `a`, too [names are unique in the whole workflow, for-each bodies included]
         WL-D070 /nodes/f/edges/0/from: node `a` is in another body, and edges lead nowhere else [a body gets data from outside by its `item`, and returns data by its `output`]",
    );
}

#[test]
fn options_of_a_node_that_make_no_sense_are_refused() {
    check_refused(
        "a: repeat 0
         b: repeat",
        "WL-D083 /nodes/a/repeat: the repetition allows no execution at all [give it `max`, the executions in total, or `until`, an expression]
         WL-D083 /nodes/b/repeat: nothing ends the repetition [give it `max`, the executions in total, or `until`, an expression]",
    );
    check_refused(
        "f: mutex m
         f| g| x: mutex m",
        "WL-D084 /nodes/f/nodes/g/nodes/x/mutex: node `x` waits for `m`, which the for-each `f` around it keeps until all its items are done: it would wait for ever [give one of them another key]",
    );
    check_refused(
        "a: undo b
         b: undo d
         a -> c
         c: undo c
         d:
         e: undo x
         f| x:
         f| z:
         g: undo nobody",
        "WL-D085 /nodes/b/compensate: node `b` undoes another, so it is not undone itself
         WL-D085 /nodes/c/compensate: node `c` undoes another, so it is not undone itself
         WL-D085 /nodes/c: node `c` undoes another, but edges lead to it or from it [it runs after the rest is over, by itself]
         WL-D085 /nodes/e/compensate: node `x` is inside of a for-each, whose items are gone by then [put it at the top level]
         WL-D085 /nodes/g/compensate: there is no node `nobody`",
    );
}

/// The warnings about waits in critical sections, one per line.
fn check_warned(graph: &str, expected: &str) {
    let definition = kit::definition(graph);
    assert!(kit::compile(&definition).is_ok(), "a warning is no mistake");
    let suspends = |of: &windlass_model::definition::UseRef| of.name == "waiting";
    let mut actual = String::new();
    for warning in windlass_engine::warnings(&definition, &suspends) {
        let pointer = &warning.place.pointer;
        let _ = writeln!(actual, "{} {pointer}: {}", warning.code, warning.message);
    }
    let expected: String = expected
        .lines()
        .flat_map(|line| [line.trim(), "\n"])
        .collect();
    assert_eq!(actual, expected);
}

#[test]
fn a_node_that_may_wait_long_in_a_critical_section_is_warned_about() {
    check_warned(
        "a: mutex m, event go
         b: mutex m
         c: mutex m, use waiting
         d: mutex m, call other
         e: mutex m, pause 1h
         f: mutex m, pause 59s
         g: mutex m, event go, wait-timeout 1000
         h: mutex m, call other, total 1000",
        "WL-D165 /nodes/a/mutex: node `a` keeps the mutex `m` while it waits for the event `go`; until then these do not begin: `b`, `c`, `d`, `e`, `f` and 2 more
         WL-D165 /nodes/c/mutex: node `c` keeps the mutex `m` while it waits for the resumption of `test/waiting`; until then these do not begin: `a`, `b`, `d`, `e`, `f` and 2 more
         WL-D165 /nodes/d/mutex: node `d` keeps the mutex `m` while it waits for the workflow `other`; until then these do not begin: `a`, `b`, `c`, `e`, `f` and 2 more
         WL-D165 /nodes/e/mutex: node `e` keeps the mutex `m` while it waits for `1h`; until then these do not begin: `a`, `b`, `c`, `d`, `f` and 2 more",
    );
    // The node is alone in its section, so it delays no other node.
    check_warned("a: mutex m, event go", "");
    check_warned(
        "f: each 2
         f| a: mutex m, event go",
        "WL-D165 /nodes/f/nodes/a/mutex: node `a` keeps the mutex `m` while it waits for the event `go`; until then these do not begin: other executions of `a`",
    );
    check_warned(
        "f: mutex m, each 2
         f| a: event go
         b: mutex m, repeat 3 60000",
        "WL-D165 /nodes/b/mutex: node `b` keeps the mutex `m` while it waits for the next round of its `repeat`; until then these do not begin: `f`
         WL-D165 /nodes/f/mutex: node `f` keeps the mutex `m` while it waits in node `a` for the event `go`; until then these do not begin: `b`",
    );
}

#[test]
fn an_edge_from_a_node_that_decides_names_the_answer() {
    let definition = kit::definition(
        "ask -> a
         ask.done -> b: vars.x
         ask.* -> c
         ask.yes -> d
         ask.yess -> e
         ask.maybe -> f
         again.no -> g
         again: continue
         any.no -> h
         any.* -> i
         any: continue",
    );
    let declared = ["yes".to_owned(), "no".to_owned()];
    let found = windlass_engine::ports(&definition, &|_| Some(&declared));
    let told: Vec<String> = found
        .iter()
        .map(|it| {
            let help = it.help.as_deref().unwrap_or_default();
            format!("{} {}: {} [{help}]", it.code, it.place.pointer, it.message)
        })
        .collect();
    let decides = |to: &str| {
        format!(
            "node `ask` (`test/node`) decides, so an edge from it names the answer: `yes` or `no` \
             [write `ask.yes -> {to}` or `ask.no -> {to}`, or `ask.* -> {to}` to go on after any \
             answer]"
        )
    };
    assert_eq!(
        told,
        [
            format!("WL-D096 /edges/0: {}", decides("a")),
            format!("WL-D096 /edges/1: {}", decides("b")),
            "WL-D081 /edges/4: node `ask` (`test/node`) has no port `yess` [did you mean `ask.yes`? \
             it has `error` and `yes`, `no`]"
                .to_owned(),
            "WL-D081 /edges/5: node `ask` (`test/node`) has no port `maybe` [it has `error` and \
             `yes`, `no`]"
                .to_owned(),
            "WL-D096 /nodes/again/on-error: node `again` continues after a failure, but each of its \
             edges needs an answer [write `on-error: route` and an edge from `again.error`, or an \
             edge from `again.*`]"
                .to_owned(),
        ]
    );
    let several = ["done".to_owned(), "yes".to_owned(), "no".to_owned()];
    let plain = kit::definition("ask -> a");
    assert!(windlass_engine::ports(&plain, &|_| Some(&several)).is_empty());
}
