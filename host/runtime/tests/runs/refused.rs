//! A store that cannot hold the data of a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use serde_json::json;
use windlass_model::{Class, ExecutionStatus, Status, TriggerState};
use windlass_store::memory::Fault;
use windlass_store::{Reader as _, Write};

use crate::rig::{Running, Setup, json as read};

/// A workflow that outputs the failure of a node.
const ROUTED: &str = r#"
workflow: routed
nodes:
  bad: { set: { kept: 1 }, on-error: route }
  told: { set: { class: "{{ nodes.bad.output.error.class }}", code: "{{ nodes.bad.output.error.code }}" } }
edges: [bad.error -> told]
output: "{{ [vars.class, vars.code] }}"
"#;

/// A process whose store refuses these writes, and the number of refusals.
fn refusing(refuses: impl Fn(&Write) -> bool + Send + 'static) -> (Running, Arc<AtomicU32>) {
    let running = Setup::default().start();
    let refused = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&refused);
    running.store.set_faults(Some(Box::new(move |write| {
        let refuses = refuses(write);
        count.fetch_add(u32::from(refuses), Ordering::Relaxed);
        refuses.then_some(Fault::Refused)
    })));
    (running, refused)
}

#[test]
fn a_step_that_the_store_refuses_three_times_fails_and_the_workflow_goes_on() {
    let kept = |write: &Write| match write {
        Write::Commit(commit) => commit.vars.iter().any(|(_, name, _)| name == "kept"),
        _ => false,
    };
    let (running, refused) = refusing(kept);
    let started = running.run(ROUTED);
    let result = running.ended(started.no);
    assert_eq!(result.status, Status::Completed, "{:?}", result.failure);
    let output = read(&result.output.unwrap());
    assert_eq!(output, json!(["invalid", "WL-R151"]));
    assert_eq!(refused.load(Ordering::Relaxed), 3);
}

#[test]
fn a_run_of_which_the_store_takes_nothing_is_faulted() {
    let executed = |write: &Write| match write {
        Write::Commit(commit) => commit
            .executions
            .iter()
            .any(|run| run.status != ExecutionStatus::Cancelled),
        _ => false,
    };
    let (running, refused) = refusing(executed);
    let started = running.run(ROUTED);
    let result = running.ended(started.no);
    assert_eq!(result.status, Status::Faulted);
    let failure = result.failure.unwrap();
    assert_eq!(failure.class, Class::Invalid);
    assert_eq!(failure.code.as_str(), "WL-R151");
    assert!(failure.message.contains("WL-S010"), "{failure}");
    assert_eq!(refused.load(Ordering::Relaxed), 6);
}

#[test]
fn a_trigger_that_cannot_even_fault_its_run_is_parked_and_others_go_on() {
    let first = AtomicI64::new(0);
    let (running, refused) = refusing(move |write| match write {
        Write::Commit(commit) => {
            let no = commit.fence.run.0;
            let known = first.compare_exchange(0, no, Ordering::Relaxed, Ordering::Relaxed);
            known.map_or_else(|known| known == no, |_| true)
        }
        _ => false,
    });
    let started = running.run(ROUTED);
    running.until("the trigger is parked", |store| {
        let rows = store.triggers(started.no).unwrap();
        rows.iter().all(|row| row.state == TriggerState::Parked)
    });
    assert_eq!(refused.load(Ordering::Relaxed), 9);
    let other = running.run("workflow: other\nnodes: { only: { set: { done: true } } }\n");
    assert_eq!(running.ended(other.no).status, Status::Completed);
}

#[test]
fn a_run_whose_trigger_cannot_be_parked_either_is_left_alone() {
    let (running, refused) = refusing(|write| matches!(write, Write::Commit(_) | Write::Park(_)));
    let started = running.run(ROUTED);
    running.until("it was tried twelve times", |_| {
        refused.load(Ordering::Relaxed) == 12
    });
    // Another run passes through the same scheduler, and this one is not changed.
    let other = running.run(ROUTED);
    running.until("the other was tried twelve times", |_| {
        refused.load(Ordering::Relaxed) == 24
    });
    for no in [started.no, other.no] {
        let row = running.store.run_by_no(no).unwrap().unwrap();
        assert!(row.owner.is_some() && !row.status.is_final(), "{row:?}");
    }
}
