//! Nodes that wait for stimuli and for sub-workflows, and external triggers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use windlass_model::stimulus::{Delivery, Stimulus};
use windlass_model::{Class, Payload, RunId, Status};
use windlass_runtime::operations;
use windlass_store::external::Scheduled;
use windlass_store::letters::LetterQuery;
use windlass_store::read::RunQuery;
use windlass_store::stimuli::BookmarkQuery;
use windlass_store::{MemoryStore, Reader as _, Wrote};

use crate::rig::Setup;

const APPROVAL: &str = r#"
workflow: approval
nodes:
  ask: { event: approved, match: { order: 7 } }
output: "{{ nodes.ask.output }}"
"#;

fn approved(run: Option<RunId>, delivery: Delivery) -> Stimulus {
    Stimulus {
        name: "approved".to_owned(),
        matches: json!({ "order": 7 }),
        correlation: None,
        run,
        input: Payload::of(&json!({ "by": "me" })),
        delivery,
        ttl_ms: 60_000,
        trace: None,
    }
}

#[test]
fn a_stimulus_resumes_the_waiting_run() {
    let running = Setup::default().start();
    let started = running.run(APPROVAL);
    running.suspended(started.no);
    let sent = running.send(&approved(None, Delivery::StartAndResume));
    assert_eq!(sent.resumed, [started.id]);
    let result = running.ended(started.no);
    assert_eq!(result.status, Status::Completed);
    assert_eq!(output(&result), json!({ "by": "me" }));
    assert_eq!(running.store.counts().unwrap().bookmarks, 0);
}

/// A process that delivers a stimulus continues the resumed run itself: no claim finds the run.
#[test]
fn a_process_takes_the_runs_that_it_resumes_without_a_claim() {
    let running = Setup::default().start();
    let claimed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&claimed);
    running.store.set_witness(Some(Box::new(move |seen| {
        if let Some(Wrote::Claim(claims)) = seen.wrote {
            count.fetch_add(claims.runs.len(), Ordering::AcqRel);
        }
    })));
    let [local, _] = running.clients();
    for by_number in [false, true] {
        let started = running.run(APPROVAL);
        running.suspended(started.no);
        let query = BookmarkQuery {
            limit: 1,
            ..BookmarkQuery::default()
        };
        let bookmark = running.store.bookmarks(&query).unwrap()[0].no;
        let sent = running.io().block_on(async {
            match by_number {
                true => local.resume_bookmark(bookmark, Payload::null()).await,
                false => {
                    let stimulus = approved(None, Delivery::Resume);
                    local.send(operations::new_stimulus_id(), stimulus).await
                }
            }
        });
        assert_eq!(sent.unwrap().resumed, [started.id]);
        assert_eq!(running.ended(started.no).status, Status::Completed);
    }
    assert_eq!(claimed.load(Ordering::Acquire), 0);
}

#[test]
fn a_stimulus_that_comes_too_early_is_as_good_as_in_time() {
    let running = Setup::default().start();
    let sent = running.send(&approved(None, Delivery::Buffer));
    assert!(sent.buffered);
    let started = running.run(APPROVAL);
    assert_eq!(output(&running.ended(started.no)), json!({ "by": "me" }));
    assert_eq!(running.store.counts().unwrap().buffered, 0);
}

#[test]
fn a_node_that_is_not_resumed_in_time_fails() {
    let running = Setup::default().start();
    let started = running.run(
        r#"
workflow: impatient
nodes:
  ask: { event: never, wait-timeout: 20ms, on-error: route }
  late: { set: { late: "{{ nodes.ask.output.error.class }}" } }
edges: [ask.error -> late]
vars: { late: no }
output: "{{ vars.late }}"
"#,
    );
    assert_eq!(output(&running.ended(started.no)), json!("deadline"));
}

#[test]
fn a_cancelled_run_ends_all_its_waits() {
    let running = Setup::default().start();
    let started = running.run(APPROVAL);
    running.suspended(started.no);
    running.cancel(started.id);
    assert_eq!(running.ended(started.no).status, Status::Cancelled);
    assert_eq!(running.store.counts().unwrap().bookmarks, 0);
}

#[test]
fn a_node_is_run_once_more_by_a_trigger_from_outside() {
    let running = Setup::default().start();
    let started = running.run(
        r#"
workflow: poked
vars: { seen: [] }
nodes:
  ask: { event: approved, match: { order: 7 } }
  note: { set: { seen: "{{ vars.seen + [vars.poke] }}" } }
edges:
  - { from: note, to: ask, when: "false" }
  - { from: ask, to: note, when: "false" }
output: "{{ vars.seen }}"
"#
        .replace("ask: {", "ask: { start: true,")
        .as_str(),
    );
    running.suspended(started.no);
    let new = operations::Schedule {
        id: None,
        run: started.id,
        node: "note".to_owned(),
        due_ms: None,
        payload: Some(object(&json!({ "poke": "once" }))),
        priority: 0,
    };
    assert_eq!(running.schedule(new), Scheduled::New);
    running.until("the node has run", |store| {
        !store.executions(started.no, None, 10).unwrap().is_empty()
            && store
                .vars(started.no, windlass_model::ScopeNo::ROOT)
                .unwrap()
                .iter()
                .any(|(name, value)| name == "seen" && crate::rig::json(value) == json!(["once"]))
    });
    running.send(&approved(None, Delivery::Resume));
    assert_eq!(output(&running.ended(started.no)), json!(["once"]));
}

#[test]
fn a_sub_workflow_reports_to_its_parent() {
    let running = Setup::default()
        .beside(
            "double",
            r#"
workflow: double
nodes:
  double: { set: { doubled: "{{ input * 2 }}" } }
output: "{{ vars.doubled }}"
"#,
        )
        .start();
    let started = running.run(
        r#"
workflow: parent
nodes:
  each:
    for-each: [1, 2, 3]
    nodes:
      call: { workflow: double, input: "{{ item }}" }
    output: "{{ nodes.call.output }}"
output: "{{ nodes.each.output }}"
"#,
    );
    assert_eq!(output(&running.ended(started.no)), json!([2, 4, 6]));
}

#[test]
fn a_sub_workflow_that_fails_fails_its_node() {
    let running = Setup::default()
        .beside(
            "broken",
            "workflow: broken\nnodes:\n  bad: { fail: out of order }\n",
        )
        .start();
    let started = running.run("workflow: parent\nnodes:\n  call: { workflow: broken }\n");
    let result = running.ended(started.no);
    assert_eq!(result.status, Status::Faulted);
    assert_eq!(result.failure.unwrap().message, "out of order");
}

#[test]
fn a_retry_of_a_sub_workflow_that_failed_starts_it_anew_and_the_attempts_end() {
    let broken = "workflow: broken\nnodes:\n  bad: { fail: out of order }\n";
    let running = Setup::default().beside("broken", broken).start();
    let retry = "{ max-attempts: 3, delay: 1ms, classes: [permanent, deadline] }";
    let started = running.run(&format!(
        "workflow: parent\nnodes:\n  call: {{ workflow: broken, retry: {retry} }}\n"
    ));
    let result = running.ended(started.no);
    assert_eq!(result.status, Status::Faulted);
    assert_eq!(result.failure.unwrap().message, "out of order");
    let children = running.store.children(started.no, None, 10).unwrap();
    assert_eq!(children.len(), 3, "one for each attempt");
    // A wait that is never answered is tried just as often.
    let event = "{ event: never, wait-timeout: 1ms";
    let started = running.run(&format!(
        "workflow: asks\nnodes:\n  ask: {event}, retry: {retry} }}\n"
    ));
    assert_eq!(running.ended(started.no).status, Status::Faulted);
    let rows = running.store.executions(started.no, None, 100).unwrap();
    let asked = rows.iter().filter(|row| row.failure.is_some());
    let mut attempts: Vec<u32> = asked.map(|row| row.attempt).collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [1, 2, 3]);
}

#[test]
fn a_condition_that_cannot_be_evaluated_is_recorded_with_its_consequence() {
    let running = Setup::default().start();
    let started = running.run(
        r#"
workflow: conditions
nodes:
  a:
    set: { x: 1 }
    retry: { max-attempts: 2, delay: 1ms, classes: [invalid] }
  b: { set: { y: 1 } }
edges:
  - a -> b: vars.missing.deep < 3
"#,
    );
    assert_eq!(running.ended(started.no).status, Status::Faulted);
    let mut rows = running.store.executions(started.no, None, 100).unwrap();
    rows.reverse();
    let statuses: Vec<&str> = rows.iter().map(|row| row.status.name()).collect();
    assert_eq!(statuses, ["waiting-retry", "failed"]);
}

#[test]
fn cancelling_travels_down_to_the_children() {
    let running = Setup::default().beside("approval", APPROVAL).start();
    let started = running.run("workflow: parent\nnodes:\n  call: { workflow: approval }\n");
    running.until("the child waits", |store| {
        store.counts().unwrap().bookmarks == 1
    });
    running.cancel(started.id);
    assert_eq!(running.ended(started.no).status, Status::Cancelled);
    running.until("the child has ended", |store| {
        let counts = store.counts().unwrap();
        counts.unfinished == 0 && counts.bookmarks == 0
    });
}

#[test]
fn a_sub_workflow_that_takes_too_long_fails_its_node_and_is_cancelled() {
    let running = Setup::default().beside("approval", APPROVAL).start();
    for bound in ["timeout", "total-timeout", "wait-timeout"] {
        let call = format!("{{ workflow: approval, {bound}: 30ms }}");
        let started = running.run(&format!("workflow: parent\nnodes:\n  call: {call}\n"));
        let failure = running.ended(started.no).failure.unwrap();
        assert_eq!(failure.class, Class::Deadline, "{bound}: {failure:?}");
    }
    running.until("the children have ended", |store| {
        let counts = store.counts().unwrap();
        counts.unfinished == 0 && counts.bookmarks == 0
    });
}

#[test]
fn workflows_that_call_each_other_end_somewhere() {
    let call = "workflow: endless\nnodes:\n  call: { workflow: endless }\n";
    let running = Setup::default().beside("endless", call).start();
    let started = running.run(call);
    let result = running.ended(started.no);
    assert_eq!(result.status, Status::Faulted);
    let message = result.failure.unwrap().message;
    assert!(message.contains("32 deep"), "{message}");
}

#[test]
fn a_run_that_faults_is_announced() {
    let running = Setup::default().start();
    let waits = running.run(
        r#"
workflow: alarm
nodes:
  hear: { event: incident }
output: "{{ nodes.hear.output.node }}: {{ nodes.hear.output.failure.message }}"
"#,
    );
    running.suspended(waits.no);
    let bad = running.run("workflow: bad\nnodes:\n  bad: { fail: it is broken }\n");
    assert_eq!(running.ended(bad.no).status, Status::Faulted);
    assert_eq!(output(&running.ended(waits.no)), json!("bad: it is broken"));
    let letters = running.store.dead_letters(&LetterQuery {
        limit: 10,
        ..LetterQuery::default()
    });
    assert!(letters.unwrap().is_empty());
}

#[test]
fn a_child_and_its_parent_that_fault_are_announced_once() {
    const CHILD: &str = "workflow: child\nnodes:\n  bad: { fail: it is broken }\n";
    const ALARM: &str = r#"
workflow: alarm
triggers:
  any: { event: incident }
nodes:
  tell: { set: { from: "{{ input.workflow }}", why: "{{ input.failure.message }}" } }
output: "{{ nodes.tell.output }}"
"#;
    let running = Setup::default().beside("child", CHILD).start();
    running.publish(ALARM);
    let handles = "{ workflow: child, on-error: continue }";
    let handled = running.run(&format!("workflow: handles\nnodes:\n  call: {handles}\n"));
    assert_eq!(running.ended(handled.no).status, Status::Completed);
    let parent = running.run("workflow: parent\nnodes:\n  call: { workflow: child }\n");
    assert_eq!(running.ended(parent.no).status, Status::Faulted);
    let alarms = |store: &MemoryStore| {
        let query = RunQuery {
            workflow: Some("alarm".to_owned()),
            limit: 10,
            ..RunQuery::default()
        };
        store.runs(&query).unwrap()
    };
    running.until("the alarm is over", |store| {
        let counts = store.counts().unwrap();
        let queued = counts.queued + counts.buffered;
        queued == 0 && counts.unfinished == 0 && !alarms(store).is_empty()
    });
    let alarms = alarms(&running.store);
    assert_eq!(alarms.len(), 1, "{alarms:?}");
    let told = output(&running.ended(alarms[0].no));
    assert_eq!(told, json!({ "from": "parent", "why": "it is broken" }));
}

fn output(result: &windlass_runtime::RunResult) -> Value {
    assert_eq!(result.status, Status::Completed, "{:?}", result.failure);
    crate::rig::json(result.output.as_ref().unwrap())
}

fn object(value: &Value) -> serde_json::Map<String, Value> {
    value.as_object().unwrap().clone()
}
