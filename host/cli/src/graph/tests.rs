//! Tests of the pictures.

use windlass_model::Definition;

use super::*;
use crate::output::Paint;

/// `a -> b: condition`, `a.port -> b: else`, one on each line; nodes are those named.
fn definition(edges: &str) -> Definition {
    let mut definition = Definition {
        name: "drawn".into(),
        ..Definition::default()
    };
    for line in edges.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (ends, when) = match line.split_once(": ") {
            Some((ends, "else")) => (ends, When::Else),
            Some((ends, condition)) => (ends, When::If(condition.into())),
            None => (line, When::Always),
        };
        let (from, to) = ends.split_once(" -> ").unwrap();
        let (from, port) = from.split_once('.').unwrap_or((from, "done"));
        for name in [from, to] {
            definition.nodes.entry(name.into()).or_insert_with(|| {
                Node::new(NodeKind::Set(BTreeMap::from([("x".into(), 1.into())])))
            });
        }
        definition.edges.push(Edge {
            id: line.into(),
            from: from.into(),
            port: port.into(),
            to: to.into(),
            when,
        });
    }
    definition
}

fn check(edges: &str, picture: &str) {
    let drawn = text(&definition(edges), Paint(false));
    let expected: String = picture
        .lines()
        .skip(1)
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(drawn, expected, "drawn:\n{drawn}");
}

#[test]
fn a_chain_is_one_rail() {
    check(
        "a -> b\n b -> c",
        "
●  a  set x
│
●  b  set x
│
●  c  set x",
    );
}

#[test]
fn branches_fork_and_joins_take_them_in() {
    check(
        "sum -> approve: total > 1000\n sum -> notify: else\n approve -> notify\n approve.error -> notify",
        "
●      sum      set x
│        → approve  if total > 1000
├─╮      → notify  else
● │    approve  set x
│ │      → notify
├─┼─╮    → notify  on error
├─┴─╯
●      notify   set x",
    );
}

#[test]
fn backward_edges_are_named_where_they_leave() {
    check(
        "a -> b\n b -> a: again\n b -> c: else",
        "
●  a  set x
│
●  b  set x
│    → c  else
│    ↺ a  if again
●  c  set x",
    );
}

#[test]
fn separate_parts_are_drawn_below_each_other() {
    check(
        "a -> b\n c -> d",
        "
●  c  set x
│
●  d  set x

●  a  set x
│
●  b  set x",
    );
}

#[test]
fn a_cycle_without_an_entry_is_drawn() {
    check(
        "a -> b\n b -> a",
        "
●  a  set x
│
●  b  set x
     ↺ a",
    );
}

#[test]
fn long_chains_do_not_exhaust_the_stack() {
    let edges: String = (0..9_999)
        .map(|at| format!("n{at} -> n{}\n", at + 1))
        .collect();
    let drawn = text(&definition(&edges), Paint(false));
    assert_eq!(drawn.lines().count(), 2 * 10_000 - 1);
}

#[test]
fn dot_and_mermaid_escape_their_special_characters() {
    let definition = definition("a -> b: x == \"<y>\"");
    assert!(dot(&definition).contains(r#""a" -> "b" [label="if x == \"<y>\""];"#));
    assert!(mermaid(&definition).contains("n_a -->|\"if x == &quot;&lt;y&gt;&quot;\"| n_b"));
}
