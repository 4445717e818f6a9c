//! Runs that wait: they outlive the processes that execute them, and no stimulus is lost or
//! consumed twice.

use serde_json::{Value, json};
use windlass_model::{ExecutionStatus, Status};
use windlass_tests::harness::{Place, Process, Starter, until};

/// Waits for the approval of an order, and records who approved.
fn approval() -> Value {
    json!({
        "workflow": "approval",
        "nodes": {
            "ask": { "event": "approved", "match": { "order": 7 } },
            "note": { "use": "steps/effect", "input": "{{ nodes.ask.output }}" },
        },
        "edges": ["ask -> note"],
        "output": "{{ nodes.ask.output.by }}",
    })
}

const SEND: [&str; 7] = [
    "event",
    "send",
    "approved",
    "--match",
    r#"{"order": 7}"#,
    "--input",
    "by=ada",
];

fn send(place: &Place, delivery: &str) {
    place.ask(&[&SEND[..], &["--delivery", delivery]].concat());
}

/// A waiting run whose first process has ended.
fn suspended(place: &Place) -> (String, String) {
    let file = place.workflow("approval", &approval());
    let file = file.display().to_string();
    let id = "018f0000-0000-7000-8000-000000000001".to_owned();
    let said = place.say(&["run", &file, "--id", &id, "--no-wait"]);
    assert_eq!(said.exit, Some(13), "{said:#?}");
    (file, id)
}

/// Checks that a run has completed, with each node's side effect recorded once.
#[track_caller]
fn verify(place: &Place, id: &str, output: &Value) {
    let run = place.look().ended(id);
    assert_eq!(run.status, Status::Completed, "{:?}", run.failure);
    assert_eq!(place.look().output(&run), *output);
    let records = place.look().records(&run);
    let done = records
        .iter()
        .filter(|record| record.status == ExecutionStatus::Completed);
    let mut done: Vec<&str> = done.map(|record| record.node.as_str()).collect();
    let all = done.len();
    done.dedup();
    assert_eq!(done.len(), all, "{records:#?}");
    assert_eq!(
        place
            .look()
            .store()
            .counts()
            .expect("it can be read")
            .bookmarks,
        0
    );
}

#[test]
fn a_run_that_waits_goes_on_when_it_is_told_to() {
    let place = Place::new(&["steps"]);
    let file = place.workflow("approval", &approval());
    let mut run = place.start(&["run", &file.display().to_string()]);
    until("the run waits", || bookmarks(&place) == 1);
    until("it says what for", || {
        let said = run.stderr();
        said.contains("It waits for `approved` with {\"order\":7}")
            && said.contains("`windlass bookmark resume ")
    });
    send(&place, "resume");
    let (status, stdout, stderr) = run.output();
    assert!(status.success(), "{stderr}");
    assert_eq!(stdout.trim(), "ada");
}

#[test]
fn a_run_without_a_waiting_command_is_continued_by_a_server() {
    let place = Place::new(&["steps"]);
    let (_, id) = suspended(&place);
    send(&place, "resume");
    let _serve = place.serve();
    verify(&place, &id, &json!("ada"));
}

#[test]
fn a_run_that_waits_is_continued_by_the_same_command() {
    let place = Place::new(&["steps"]);
    let (file, id) = suspended(&place);
    let mut again = place.start(&["run", &file, "--id", &id]);
    place.until_member(&mut again);
    send(&place, "resume");
    let (status, stdout, stderr) = again.output();
    assert!(status.success(), "{stderr}");
    assert_eq!(stdout.trim(), "ada");
}

#[test]
fn a_stimulus_that_comes_while_the_host_dies_of_the_bookmark_is_not_lost() {
    let place = Place::new(&["steps"]);
    let id = Starter::of(&place)
        .start(&approval(), &json!({}))
        .expect("a run is written down")
        .to_string();
    die(place.serve_armed("before-bookmark=abort@1"));
    send(&place, "buffer");
    let _serve = place.serve();
    verify(&place, &id, &json!("ada"));
}

#[test]
fn a_death_between_the_end_of_a_child_and_the_wake_of_its_parent_loses_nothing() {
    let place = Place::new(&["steps"]);
    let child = json!({
        "workflow": "child",
        "nodes": { "work": { "use": "steps/effect" } },
        "output": "done",
    });
    let file = place.workflow("child", &child);
    place.ask(&["workflow", "publish", &file.display().to_string()]);
    let parent = json!({
        "workflow": "parent",
        "nodes": { "call": { "workflow": "child" } },
        "output": "{{ nodes.call.output }}",
    });
    let id = Starter::of(&place)
        .start(&parent, &json!({}))
        .expect("a run is written down")
        .to_string();
    die(place.serve_armed("child-ended=abort@1"));
    let _serve = place.serve();
    verify(&place, &id, &json!("done"));
    assert_eq!(place.look().runs().len(), 2, "one parent and one child");
}

#[test]
fn a_run_that_waits_can_be_cancelled() {
    let place = Place::new(&["steps"]);
    let (_, id) = suspended(&place);
    let _serve = place.serve();
    place.ask(&["runs", "cancel", &id]);
    let run = place.look().ended(&id);
    assert_eq!(run.status, Status::Cancelled);
    assert_eq!(bookmarks(&place), 0);
}

fn bookmarks(place: &Place) -> u64 {
    let counts = place.look().store().counts();
    counts.expect("the store can be read").bookmarks
}

fn die(mut armed: Process) {
    until("the host has died", || armed.ended().is_some());
}
