//! Back-pressure: triggers without room in flight stay in the store.

use serde_json::json;

use crate::rig::Setup;

#[test]
fn a_full_process_writes_successors_as_pending() {
    let ran = Setup {
        in_flight: 2,
        ..Setup::default()
    }
    .run(
        r#"
workflow: fan
nodes:
  begin: { set: { sum: 0 } }
  a: { set: { a: 1 } }
  b: { set: { b: 1 } }
  c: { set: { c: 1 } }
  d: { set: { d: 1 } }
  together: { set: { sum: "{{ vars.a + vars.b + vars.c + vars.d }}" } }
edges:
  - { from: begin, to: a }
  - { from: begin, to: b }
  - { from: begin, to: c }
  - { from: begin, to: d }
  - { from: a, to: together }
  - { from: b, to: together }
  - { from: c, to: together }
  - { from: d, to: together }
output: "{{ vars.sum }}"
"#,
    );
    assert_eq!(ran.output(), json!(4));
    let first = &ran.commits[0];
    let claimed: Vec<bool> = first
        .triggers
        .iter()
        .map(|trigger| trigger.claimed)
        .collect();
    assert_eq!(claimed, [true, true, false, false]);
}
