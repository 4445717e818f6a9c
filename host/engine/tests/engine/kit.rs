//! Graphs as text, and runs driven by hand.
//!
//! A graph is written as lines: `a -> b`, `a.port -> b: condition`, `a -> b: else` for edges,
//! and `a: key value, key value` for what a node has besides its name.

use std::collections::BTreeMap;

use serde_json::json;
use windlass_engine::expr::Values;
use windlass_engine::{Command, Cx, Event, Graph, MAX_STEPS, Open, OpenRow, State};
use windlass_model::definition::{
    Backoff, Edge, Incidents, Join, Node, NodeKind, OnError, Options, Retry, UseRef, When,
};
use windlass_model::{Class, Definition, Diagnostic};

pub(crate) fn node() -> Node {
    Node::new(NodeKind::Use {
        node_type: UseRef {
            package: "test".into(),
            name: "node".into(),
            requirement: None,
        },
        with: json!({}),
    })
}

pub(crate) fn edge(at: usize, from: &str, port: &str, to: &str, when: When) -> Edge {
    Edge {
        id: format!("e{at}"),
        from: from.into(),
        port: port.into(),
        to: to.into(),
        when,
    }
}

pub(crate) fn definition(text: &str) -> Definition {
    let mut definition = Definition {
        name: "test".into(),
        ..Definition::default()
    };
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.split_once(" -> ") {
            Some((from, to)) => {
                let (from, port) = from.split_once('.').unwrap_or((from, "done"));
                let (to, when) = match to.split_once(": ") {
                    None => (to, When::Always),
                    Some((to, "else")) => (to, When::Else),
                    Some((to, text)) => (to, When::If(text.to_owned())),
                };
                for name in [from, to] {
                    if name != "nobody" {
                        definition.nodes.entry(name.to_owned()).or_insert_with(node);
                    }
                }
                let at = definition.edges.len();
                definition.edges.push(edge(at, from, port, to, when));
            }
            None => {
                let (name, keys) = line.split_once(':').expect("a node line has a colon");
                for key in keys.split(',').map(str::trim).filter(|key| !key.is_empty()) {
                    set(&mut definition, name, key);
                }
                if name != "options" {
                    definition.nodes.entry(name.to_owned()).or_insert_with(node);
                }
            }
        }
    }
    definition
}

fn set(definition: &mut Definition, name: &str, key: &str) {
    let mut words = key.split_whitespace();
    let key = words.next().expect("a key");
    let mut next = || words.next().expect("a value");
    if name == "options" {
        let Options {
            incidents,
            timeout_ms,
            ..
        } = &mut definition.options;
        match key {
            "continue" => *incidents = Incidents::Continue,
            "timeout" => *timeout_ms = Some(next().parse().expect("a number")),
            "output" => definition.output = Some(json!(format!("{{{{ {} }}}}", next()))),
            _ => panic!("no option {key}"),
        }
        return;
    }
    let node = definition.nodes.entry(name.to_owned()).or_insert_with(node);
    match key {
        "join" => {
            node.join = match next() {
                "all-active" => Join::AllActive,
                "all" => Join::All,
                "any" => Join::Any,
                "race" => Join::Race,
                "each" => Join::Each,
                count => Join::Count(count.parse().expect("a count")),
            }
        }
        "first" => node.first = true,
        "start" => node.start = true,
        "end" => {
            node.kind = NodeKind::End {
                terminate: false,
                output: Some(json!(1)),
            }
        }
        "terminate" => {
            node.kind = NodeKind::End {
                terminate: true,
                output: None,
            }
        }
        "fail" => node.kind = NodeKind::Fail(json!("no")),
        "wait" => node.kind = NodeKind::Wait(json!("1s")),
        "with" => {
            let NodeKind::Use { with, .. } = &mut node.kind else {
                panic!("not a use")
            };
            *with = json!(next());
        }
        "continue" => node.on_error = OnError::Continue,
        "route" => node.on_error = OnError::Route,
        "total" => node.total_timeout_ms = Some(next().parse().expect("a number")),
        "retry" => {
            node.retry = Some(Retry {
                max_attempts: next().parse().expect("a number"),
                delay_ms: next().parse().expect("a number"),
                backoff: match next() {
                    "fixed" => Backoff::Fixed,
                    _ => Backoff::Exponential,
                },
                max_delay_ms: 1000,
                jitter: words.next() == Some("jitter"),
                classes: vec![Class::Retryable, Class::Deadline],
            });
        }
        _ => panic!("no key {key}"),
    }
}

pub(crate) fn compile(definition: &Definition) -> Result<Graph, Vec<Diagnostic>> {
    Graph::compile(definition, &|_| Vec::new())
}

pub(crate) fn graph(text: &str) -> Graph {
    compile(&definition(text)).expect("the graph compiles")
}

/// Truth values for `vars.…` in conditions.
pub(crate) fn values(vars: &BTreeMap<String, bool>) -> Values {
    let mut values = Values::new();
    for (name, value) in vars {
        values
            .var(name, value.to_string().as_bytes())
            .expect("a variable");
    }
    values
}

/// Applies an event as a host would that crashes before every step and reads back what it
/// stored.
pub(crate) fn step(
    graph: &Graph,
    state: &mut State,
    event: Event,
    now_ms: i64,
    random: u64,
    values: &Values,
) -> Result<Vec<Command>, windlass_engine::Stale> {
    state.drain_scopes();
    let before = state.clone();
    *state = reread(graph, state);
    assert_eq!(*state, before, "what is read back is what was stored");
    let cx = Cx {
        now_ms,
        random,
        values,
        max_steps: MAX_STEPS,
    };
    let commands = windlass_engine::apply(graph, state, event, &cx);
    if commands.is_err() {
        assert_eq!(*state, before, "a stale event changes nothing");
    }
    commands
}

pub(crate) fn reread(graph: &Graph, state: &State) -> State {
    let mut read = State::decode(graph, &state.encode(), []).expect("the head can be read");
    for open in state.open.values() {
        let Open {
            seq,
            node,
            kind,
            attempt,
            due_ms,
            ..
        } = *open;
        let due_ms = due_ms.unwrap_or(-1);
        let row = OpenRow {
            seq,
            node: node.0,
            kind,
            attempt,
            due_ms,
        };
        let open = Open::decode_detail(graph, row, &open.encode_detail());
        read.restore(graph, open.expect("the trigger can be read"));
    }
    read
}
