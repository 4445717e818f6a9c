//! Execution of repetition, critical sections and compensation.

use serde_json::json;
use windlass_model::Status;
use windlass_store::Reader as _;

use crate::rig::{Setup, json as read};

#[test]
fn a_node_is_repeated_until_it_is_enough() {
    let ran = Setup::default().run(
        r#"
workflow: repeated
vars: { count: 0 }
nodes:
  step:
    set: { count: "{{ vars.count + 1 }}" }
    repeat: { max: 10, until: "vars.count >= 4" }
output: "{{ vars.count }}"
"#,
    );
    assert_eq!(ran.output(), json!(4));
}

#[test]
fn nodes_of_one_critical_section_run_one_after_the_other() {
    let ran = Setup::default().run(
        r#"
workflow: exclusive
vars: { sum: 0 }
nodes:
  a: { mutex: sum, set: { sum: "{{ vars.sum + 1 }}" } }
  b: { mutex: sum, set: { sum: "{{ vars.sum + 10 }}" } }
  c: { mutex: sum, set: { sum: "{{ vars.sum + 100 }}" } }
output: "{{ vars.sum }}"
"#,
    );
    assert_eq!(ran.output(), json!(111));
    let most = ran.commits.iter().map(|commit| commit.triggers.len()).max();
    assert_eq!(most, Some(1));
}

#[test]
fn completed_nodes_are_compensated_when_the_run_faults() {
    let ran = Setup::default().run(
        r#"
workflow: undone
vars: { log: [] }
nodes:
  book: { set: { log: "{{ vars.log + ['book'] }}" }, compensate: cancel_booking }
  pay: { set: { log: "{{ vars.log + ['pay'] }}" }, compensate: refund }
  ship: { fail: "out of stock" }
  cancel_booking: { set: { log: "{{ vars.log + ['cancel'] }}" } }
  refund: { set: { log: "{{ vars.log + ['refund'] }}" } }
edges: [book -> pay, pay -> ship]
"#,
    );
    assert_eq!(ran.result.status, Status::Faulted);
    let vars = ran
        .store
        .vars(ran.row.no, windlass_model::ScopeNo::ROOT)
        .unwrap();
    let log = vars.iter().find(|(name, _)| name == "log").unwrap();
    assert_eq!(read(&log.1), json!(["book", "pay", "refund", "cancel"]));
}
