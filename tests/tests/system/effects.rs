//! Commands and requests without effect are reported, and not silent: by exit codes, by problems,
//! and by deadlines in lists.

use serde_json::{Value, json};
use windlass_model::Status;
use windlass_tests::harness::{Place, Web};

const ID: &str = "018f0000-0000-7000-8000-000000000001";

/// Waits for an event, for two hours at most.
fn asks() -> Value {
    json!({
        "workflow": "asks",
        "nodes": {
            "ask": { "event": "approved", "wait-timeout": "2h" },
            "note": { "set": { "by": "{{ nodes.ask.output.by }}" } },
        },
        "edges": ["ask -> note"],
        "output": "{{ vars.by }}",
    })
}

/// The file of a workflow whose run waits in the store, without a process.
fn suspended(place: &Place) -> String {
    let file = place.workflow("asks", &asks()).display().to_string();
    let said = place.say(&["run", &file, "--id", ID, "--no-wait"]);
    assert_eq!(said.exit, Some(13), "{said:#?}");
    file
}

#[test]
fn a_run_that_was_resumed_goes_on_when_it_is_not_waited_for() {
    let place = Place::new(&[]);
    let file = suspended(&place);
    let again = ["run", &file, "--id", ID, "--no-wait"];
    assert_eq!(place.say(&again).exit, Some(13), "it still waits");
    place.ask(&["bookmark", "resume", "1", "--input", "by=ada"]);
    assert_eq!(place.ask(&again).trim(), "ada");
}

#[test]
fn lists_show_when_a_wait_ends_by_itself() {
    let place = Place::new(&[]);
    suspended(&place);
    let listed = place.say(&["-o", "json", "bookmark", "list"]).json();
    let expires = listed[0]["expires"].as_str().expect("the wait ends");
    let shown = place.say(&["-o", "json", "runs", "show", ID]).json();
    assert_eq!(shown["triggers"][0]["due"], expires);
    assert!(place.ask(&["bookmark", "list"]).contains(expires));
}

#[test]
fn an_event_without_effect_is_no_success() {
    let place = Place::new(&[]);
    let single = json!({
        "workflow": "single",
        "options": { "activation": "singleton" },
        "triggers": { "begin": { "event": "begin" } },
        "nodes": { "ask": { "event": "never" } },
    });
    let file = place.workflow("single", &single).display().to_string();
    place.ask(&["workflow", "publish", &file]);
    let said = place.say(&["event", "send", "unknown"]);
    assert_eq!(said.exit, Some(41), "{said:#?}");
    assert!(said.stdout.contains("dropped"), "{said:#?}");
    place.ask(&["event", "send", "unknown", "--delivery", "buffer"]);
    place.ask(&["event", "send", "begin"]);
    let said = place.say(&["event", "send", "begin"]);
    assert_eq!(said.exit, Some(40), "{said:#?}");
    assert!(said.stdout.contains("refused"), "{said:#?}");
}

#[test]
fn a_request_that_no_host_takes_is_no_success() {
    let place = Place::new(&[]);
    suspended(&place);
    let said = place.say(&["-o", "json", "runs", "cancel", ID]);
    assert_eq!(said.exit, Some(32), "{said:#?}");
    assert_eq!(said.json()["result"], "stored");
    assert!(said.stderr.contains("`windlass serve`"), "{said:#?}");
    assert_eq!(place.say(&["runs", "pause", ID]).exit, Some(32));
    let _serve = place.serve();
    assert_eq!(place.look().ended(ID).status, Status::Cancelled);
}

#[test]
fn a_wait_beyond_the_limit_is_refused_with_the_limit() {
    let place = Place::new(&[]).with("server.max-wait", "300ms");
    suspended(&place);
    let web = Web::serve(&place);
    let path = format!("/api/v1/runs/{ID}/result?wait=5m");
    let answer = web.ask("GET", &path, &[], "");
    assert_eq!(answer.problem(), (400, "WL-H018".to_owned()));
    let detail = answer.json()["detail"].to_string();
    assert!(detail.contains("300ms"), "{detail}");
    let path = format!("/api/v1/runs/{ID}/cancel?wait=301ms");
    assert_eq!(web.post(&path, &json!(null)).problem().0, 400);
    // The command line asks in pieces that the host allows.
    let server = format!("http://{}", web.address);
    let said = place.say(&["--server", &server, "runs", "result", ID, "--wait=700ms"]);
    assert_eq!(said.exit, Some(13), "{said:#?}");
}
