//! A failed attempt leaves only its record.

use serde_json::json;
use windlass_model::{Class, ExecutionStatus, ScopeNo, Status};
use windlass_store::Reader as _;
use windlass_store::write::Commit;

use crate::rig::{Running, Setup, json as read};

#[test]
fn a_failed_attempt_assigns_nothing() {
    let ran = Setup::default().run(
        r#"
workflow: refuted
nodes:
  assign: { set: { kept: 1 } }
  refuted: { set: { lost: "text" } }
  after: { set: { more: 1 } }
edges:
  - { from: assign, to: refuted }
  - { from: refuted, to: after, when: "vars.lost.missing > 3" }
"#,
    );
    assert_eq!(ran.result.status, Status::Faulted);
    let last = ran.commits.last().unwrap();
    assert_eq!(last.executions[0].status, ExecutionStatus::Failed);
    assert!(last.vars.is_empty(), "{:?}", last.vars);
    let kept = ran.store.vars(ran.row.no, ScopeNo::ROOT).unwrap();
    let names: Vec<&str> = kept.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["kept"]);
}

/// A run of this workflow with one node of a plugin that crashes in other nodes.
fn hostile(running: &Running, workflow: &str, node: &str) -> windlass_runtime::RunResult {
    let text = format!(
        r#"
workflow: {workflow}
nodes:
  harm: {{ use: hostile/{node}, with: {{ lines: 1 }} }}
output: "{{{{ nodes.harm.output }}}}"
"#
    );
    let started = running.run(&text);
    running.ended(started.no)
}

/// A process in which one workflow has crashed a plugin up to the limit.
fn quarantined() -> Running {
    let setup = Setup {
        components: &["hostile"],
        quarantine_after: Some(1),
        ..Setup::default()
    };
    let running = setup.start();
    let crashed = hostile(&running, "crashing", "trap");
    assert_eq!(crashed.failure.unwrap().code.as_str(), "WL-R030");
    running
}

#[test]
fn crashes_under_one_workflow_do_not_touch_runs_of_another() {
    let running = quarantined();
    let before = running.commits().len();
    let innocent = hostile(&running, "innocent", "flood");
    assert_eq!(read(&innocent.output.unwrap()), json!(null));
    let put_off = |commit: &Commit| commit.executions.is_empty();
    assert!(!running.commits()[before..].iter().any(put_off));
}

#[test]
fn a_call_that_a_quarantine_delays_is_made_afterwards_and_is_one_attempt() {
    let running = quarantined();
    let before = running.commits().len();
    let delayed = hostile(&running, "crashing", "flood");
    assert_eq!(read(&delayed.output.unwrap()), json!(null));
    let commits = running.commits().split_off(before);
    let (last, delays) = commits.split_last().unwrap();
    assert_eq!((last.executions[0].attempt, last.executions.len()), (1, 1));
    assert!(!delays.is_empty());
    for delay in delays {
        assert!(delay.executions.is_empty());
        assert!(delay.triggers[0].due_ms > delay.at_ms && !delay.triggers[0].claimed);
    }
}

/// The members of `error` at the output of the node `failing`.
fn output_of_error(fail: &str) -> serde_json::Value {
    let text = format!(
        r#"
workflow: routed
nodes:
  failing: {{ fail: {fail}, on-error: route }}
  after: {{ end: {{ output: "{{{{ nodes.failing.output.error }}}}" }} }}
edges: [failing.error -> after]
"#
    );
    let ran = Setup::default().run(&text);
    assert_eq!(ran.result.status, Status::Completed);
    read(&ran.result.output.unwrap())
}

#[test]
fn the_output_of_the_port_error_always_has_details() {
    let plain = output_of_error("no");
    let expected = json!({
        "class": "permanent", "code": "WL-R078", "message": "no", "details": null,
    });
    assert_eq!(plain, expected);
    let detailed = output_of_error("{ message: no, data: { status: 404, of: [\"{{ 1 + 1 }}\"] } }");
    assert_eq!(detailed["details"], json!({ "status": 404, "of": [2] }));
    assert_eq!(detailed["message"], "no");
}

#[test]
fn the_details_of_a_failed_node_are_those_of_its_run() {
    let ran = Setup::default().run(
        r#"
workflow: detailed
vars: { status: 503 }
nodes:
  failing: { fail: { message: "got {{ vars.status }}", data: { status: "{{ vars.status }}" } } }
"#,
    );
    let failure = ran.result.failure.unwrap();
    assert_eq!(failure.message, "got 503");
    assert_eq!(failure.details.unwrap().as_str(), r#"{"status":503}"#);
    let stored = ran.row.failure.unwrap();
    assert_eq!(
        stored.details.unwrap().value(),
        Some(json!({ "status": 503 }))
    );
    let last = ran.commits.last().unwrap();
    let recorded = last.executions[0].failure.as_ref().unwrap();
    assert!(recorded.details.is_some());
    let incident = last.journal.iter().find(|row| row.kind == "incident");
    let detail: serde_json::Value = serde_json::from_slice(&incident.unwrap().detail).unwrap();
    assert_eq!(detail["failure"]["details"], json!({ "status": 503 }));
}

#[test]
fn data_that_is_too_large_is_a_failure_of_class_limit_with_the_message() {
    let ran = Setup::default().run(
        r#"
workflow: large
nodes:
  failing: { fail: { message: "this matters", data: "{{ range(9000) | list }}" } }
"#,
    );
    let failure = ran.result.failure.unwrap();
    assert_eq!(failure.class, Class::Limit);
    assert_eq!(failure.code.as_str(), "WL-R086");
    assert!(failure.message.ends_with("this matters"), "{failure}");
    assert!(failure.details.is_none());
}

#[test]
fn details_pass_from_items_and_sub_workflows_to_their_nodes() {
    let running = Setup::default().start();
    running.publish(
        r#"
workflow: inner
nodes: { failing: { fail: { message: no, data: { at: "{{ input }}" } } } }
"#,
    );
    let text = r#"
workflow: outer
nodes:
  each:
    for-each: [1, 2, 3]
    concurrency: 1
    nodes:
      call: { workflow: inner }
    on-error:
      - { when: "error.details.at == 1", do: route }
  after: { set: { at: "{{ nodes.each.output.error.details.at }}" } }
edges: [each.error -> after]
output: "{{ vars.at }}"
"#;
    let started = running.run(text);
    let ended = running.ended(started.no);
    assert_eq!(ended.status, Status::Completed, "{:?}", ended.failure);
    assert_eq!(read(&ended.output.unwrap()), json!(1));
}

#[test]
fn conditions_about_a_failure_see_the_values_from_before_the_execution() {
    let ran = Setup::default().run(
        r#"
workflow: before
vars: { n: 1 }
nodes:
  again:
    set: { n: "{{ vars.n + 1 }}" }
    retry: { max-attempts: 5, delay: 1ms, classes: [invalid], when: "trigger.attempt < 3 and vars.n == 1" }
    on-error:
      - { when: "error.code == 'WL-R001' and trigger.attempt == 3 and vars.n == 1", do: continue }
  after: { wait: 1ms }
edges:
  - again -> after: vars.n.missing.member > 0 or nodes.again.output is none
"#,
    );
    // Each attempt is refuted by the condition of its edge, and so is the one that is passed over.
    let failure = ran.result.failure.unwrap();
    assert_eq!(failure.code.as_str(), "WL-R001");
    let attempts = ran.commits.iter().flat_map(|commit| &commit.executions);
    let attempts: Vec<u32> = attempts.map(|row| row.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
}
