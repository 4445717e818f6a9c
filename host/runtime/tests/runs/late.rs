//! Resumptions that arrive while their node run is not waiting: they are kept until it waits again,
//! and become dead letters if it never does.

use serde_json::{Value, json};
use windlass_model::stimulus::{Delivery, Stimulus};
use windlass_model::{Payload, RunId, RunNo, Status};
use windlass_store::Reader as _;

use crate::rig::{Running, Setup, json as read};

fn told(name: &str, run: RunId, input: &Value) -> Stimulus {
    Stimulus {
        name: name.to_owned(),
        matches: Value::Null,
        correlation: None,
        run: Some(run),
        input: Payload::of(input),
        delivery: Delivery::Resume,
        ttl_ms: 60_000,
        trace: None,
    }
}

/// A run that waits for `ask`, whose bookmark lasts; it waits `again` times after the first.
/// Another wait follows.
fn lasting(again: u32) -> String {
    format!(
        r#"
workflow: lasting
nodes:
  ask:
    use: steps/suspend
    with: {{ bookmarks: [ask], keep: true, again: {again} }}
    input: null
  hold: {{ event: over }}
edges: [ask -> hold]
output: "{{{{ nodes.ask.output.why.input }}}}"
"#
    )
}

/// A process with a run that waits.
fn waiting(workflow: &str) -> (Running, RunId, RunNo) {
    let setup = Setup {
        components: &["steps"],
        ..Setup::default()
    };
    let running = setup.start();
    let started = running.run(workflow);
    running.suspended(started.no);
    (running, started.id, started.no)
}

/// Resumes a run twice before it processes the first resumption.
fn tell_twice(running: &Running, id: RunId) {
    running.store.defer();
    for input in [json!("first"), json!("second")] {
        let sent = running.send(&told("ask", id, &input));
        assert_eq!(sent.resumed, [id], "the bookmark lasts");
    }
}

/// Ends the run, and returns its output.
fn end(running: &Running, id: RunId, no: RunNo) -> Value {
    let sent = running.send(&told("over", id, &Value::Null));
    assert_eq!(sent.resumed, [id]);
    running.until_carried_on("the run has ended", |store| {
        let row = store.run_by_no(no).unwrap().unwrap();
        row.status.is_final()
    });
    let result = running.ended(no);
    assert_eq!(result.status, Status::Completed, "{:?}", result.failure);
    read(&result.output.unwrap())
}

/// The number of bookmarks with this name.
fn bookmarks(store: &windlass_store::MemoryStore, name: &str) -> usize {
    let query = windlass_store::stimuli::BookmarkQuery {
        name: Some(name.to_owned()),
        limit: 10,
        ..Default::default()
    };
    store.bookmarks(&query).unwrap().len()
}

#[test]
fn a_bookmark_that_lasts_is_resumed_again_and_again() {
    let (running, id, no) = waiting(&lasting(1));
    tell_twice(&running, id);
    running.until_carried_on("both were heard", |store| bookmarks(store, "over") == 1);
    assert_eq!(running.letters(), [""; 0]);
    assert_eq!(end(&running, id, no), json!("second"));
}

#[test]
fn a_resumption_whose_wait_is_gone_is_a_stale_dead_letter() {
    let (running, id, no) = waiting(&lasting(0));
    tell_twice(&running, id);
    running.until_carried_on("the second is a dead letter", |store| {
        store.counts().unwrap().dead_letters == 1
    });
    assert_eq!(running.letters(), ["stale"]);
    running.until_carried_on("the run waits", |store| bookmarks(store, "over") == 1);
    assert_eq!(end(&running, id, no), json!("first"));
}

#[test]
fn a_resumption_that_the_end_of_its_run_overtakes_is_a_stale_dead_letter() {
    let workflow = lasting(0)
        .replace("  hold: { event: over }\n", "")
        .replace("edges: [ask -> hold]\n", "");
    let (running, id, no) = waiting(&workflow);
    tell_twice(&running, id);
    running.until_carried_on("the run has ended", |store| {
        let row = store.run_by_no(no).unwrap().unwrap();
        row.status.is_final()
    });
    assert_eq!(running.letters(), ["stale"]);
    let output = running.ended(no).output.unwrap();
    assert_eq!(read(&output), json!("first"));
}

#[test]
fn a_resumption_whose_branch_is_cancelled_at_the_same_time_is_a_stale_dead_letter() {
    let (running, id, no) = waiting(
        r#"
workflow: raced
nodes:
  a: { event: a }
  b: { event: b }
  first: { join: race, set: { first: 1 } }
edges: [a -> first, b -> first]
output: "{{ [nodes.a.output, nodes.b.output] }}"
"#,
    );
    running.store.defer();
    for name in ["a", "b"] {
        let sent = running.send(&told(name, id, &json!(name)));
        assert_eq!(sent.resumed, [id]);
    }
    running.until_carried_on("the run has ended", |store| {
        let row = store.run_by_no(no).unwrap().unwrap();
        row.status.is_final()
    });
    let output = read(&running.ended(no).output.unwrap());
    assert!(
        [json!(["a", null]), json!([null, "b"])].contains(&output),
        "one of them is heard: {output}"
    );
    assert_eq!(running.letters(), ["stale"], "and the other is not lost");
}
