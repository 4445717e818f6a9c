//! The names with `instance`, which are accepted for one release: commands, options, paths, members
//! of requests, expressions.

use serde_json::{Value, json};
use windlass_tests::harness::{Answer, Place, Web, until};

/// Waits for an event, and outputs its id by both names.
fn waits() -> Value {
    json!({
        "workflow": "waits",
        "nodes": { "ask": { "event": "answer" } },
        "output": "{{ [run.id, instance.id, instance.correlation] }}",
    })
}

/// Checks what an answer says of the path of its request.
#[track_caller]
fn check_successor(answer: &Answer, path: &str) {
    let deprecation = answer
        .header("deprecation")
        .expect("the path is deprecated");
    let since = deprecation.strip_prefix('@').map(str::parse::<i64>);
    assert!(matches!(since, Some(Ok(_))), "{deprecation}");
    let link = format!("<{path}>; rel=\"successor-version\"");
    assert_eq!(answer.header("link"), Some(link.as_str()));
}

#[test]
fn the_former_commands_do_as_the_present_ones() {
    let place = Place::new(&["echo"]);
    let _serve = place.serve();
    let file = place.workflow("waits", &waits()).display().to_string();
    let start = ["instance", "start", &file, "--create-only", "--correlation"];
    let id = place.ask(&[&start[..], &["c"]].concat()).trim().to_owned();
    place.ask(&["instance", "run", &id]);
    let waiting = ["-o", "json", "bookmark", "list", "--instance", &id];
    until("the run waits", || {
        place.say(&waiting).json()[0]["run"] == *id
    });
    place.ask(&["event", "send", "answer", "--instance", &id]);
    let output = place.ask(&["-o", "json", "instance", "result", &id, "--wait"]);
    let present = place.ask(&["-o", "json", "runs", "result", &id]);
    assert_eq!(output, present);
    let run = place.look().ended(&id);
    assert_eq!(place.look().output(&run), json!([id, id, "c"]));
    assert!(!place.ask(&["--help"]).contains("instance"));
}

#[test]
fn a_request_to_a_former_path_is_served_and_told_the_present_path() {
    let place = Place::new(&["echo"]);
    let web = Web::serve(&place);
    web.publish(&waits());
    let request = json!({ "workflow": "waits", "create_only": true });
    let started = web.post("/api/v1/instances", &request);
    assert_eq!(started.status, 201, "{started:?}");
    check_successor(&started, "/api/v1/runs");
    let id = started.json()["id"].as_str().expect("an id").to_owned();
    let begun = web.post(&format!("/api/v1/instances/{id}/run"), &Value::Null);
    assert_eq!(begun.status, 200, "{begun:?}");
    check_successor(&begun, &format!("/api/v1/runs/{id}/begin"));
    let happened = json!({ "name": "answer", "instance": id });
    assert_eq!(web.post("/api/v1/stimuli", &happened).status, 200);
    let result = web.get_any(&format!("/api/v1/instances/{id}/result?wait=60s"));
    assert_eq!(result.json()["output"], json!([id, id, null]), "{result:?}");
    let listed = web.get_any(&format!("/api/v1/instances/{id}/runs?limit=1"));
    check_successor(&listed, &format!("/api/v1/runs/{id}/executions"));
    assert_eq!(listed.json()["items"][0]["node"], "ask");
    let shown = web.get_any(&format!("/api/v1/instances/{id}"));
    assert_eq!(shown.json()["run"]["id"], *id, "answers have the new names");
    let present = web.get_any(&format!("/api/v1/runs/{id}"));
    assert_eq!(present.body, shown.body);
    assert_eq!(present.header("deprecation"), None);
    let missing = "/api/v1/bookmarks?instance=0193c0de-7a1b-7c3d-8e4f-0123456789ab";
    assert_eq!(web.get_any(missing).status, 404, "the filter is read");
}
