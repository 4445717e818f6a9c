//! A failed attempt leaves only its record.

use serde_json::json;
use windlass_model::{ExecutionStatus, ScopeNo, Status};
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
