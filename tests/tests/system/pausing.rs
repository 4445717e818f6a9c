//! Hosts that are paused: one, and several on one store.

use serde_json::{Value, json};
use windlass_tests::harness::{Place, Signal, Web, until};

fn two() -> Value {
    json!({
        "workflow": "two",
        "triggers": { "hook": { "http": { "path": "/two" } } },
        "nodes": { "first": { "use": "echo/echo" }, "second": { "use": "echo/echo" } },
        "edges": ["first -> second"],
    })
}

fn web(workflows: &[Value]) -> (Place, Web) {
    let place = Place::new(&["echo"]);
    let web = serve(&place, workflows);
    (place, web)
}

fn serve(place: &Place, workflows: &[Value]) -> Web {
    let web = Web::serve(place);
    workflows.iter().for_each(|workflow| web.publish(workflow));
    web
}

fn code(code: &str, status: u16) -> (u16, String) {
    (status, code.to_owned())
}

#[test]
fn a_pause_takes_nothing_in_begins_nothing_and_outlives_a_restart() {
    let (place, web) = web(&[two()]);
    let file = place.workflow("two", &two()).display().to_string();
    let answer = web.post("/api/v1/admin/pause", &json!({ "persist": true }));
    assert_eq!(
        (answer.status, &answer.json()["paused"]),
        (200, &json!(true))
    );
    let check = |web: &Web| {
        let request = json!({ "workflow": "two" });
        let refused = web.post("/api/v1/runs", &request);
        assert_eq!(refused.problem(), code("WL-R085", 503));
        assert!(refused.header("retry-after").is_some());
        assert_eq!(web.post("/hooks/two", &Value::Null).status, 503);
        assert_eq!(web.get_any("/readyz").problem(), code("WL-R085", 503));
        assert_eq!(web.get_any("/livez").status, 200);
        assert_eq!(
            web.get("/api/v1/runs")["next"],
            Value::Null,
            "reading goes on"
        );
    };
    check(&web);
    let id = place.ask(&["runs", "start", &file]);
    web.process.signal(Signal::TERM);
    let Web { mut process, .. } = web;
    assert!(process.wait().success());
    let web = Web::serve(&place);
    check(&web);
    let waiting = web.get(&format!("/api/v1/runs/{}/executions", id.trim()));
    assert_eq!(
        waiting["items"],
        json!([]),
        "it was looked for at the start, and left"
    );
    let answer = web.ask("POST", "/api/v1/admin/unpause", &[], "");
    assert_eq!(
        (answer.status, &answer.json()["paused"]),
        (200, &json!(false))
    );
    assert_eq!(web.result(id.trim())["status"], "completed");
    assert_eq!(web.get_any("/readyz").status, 200);
    let now = web.start("two", &Value::Null);
    assert_eq!(web.result(&now)["status"], "completed");
}

fn pause(web: &Web, persist: bool) {
    let answer = web.post("/api/v1/admin/pause", &json!({ "persist": persist }));
    assert_eq!(answer.status, 200, "{answer:?}");
}

fn unpause(web: &Web) {
    let answer = web.ask("POST", "/api/v1/admin/unpause", &[], "");
    assert_eq!(answer.status, 200, "{answer:?}");
}

fn ready(web: &Web) -> u16 {
    web.get_any("/readyz").status
}

#[test]
fn a_pause_that_is_written_down_is_that_of_every_process_and_any_of_them_ends_it() {
    check_pause_of_all(&Place::new(&["echo"]));
}

#[test]
fn a_pause_in_a_database_is_that_of_every_host_of_the_cluster() {
    if let Some(place) = Place::of_cluster(&["echo"]) {
        check_pause_of_all(&place);
    }
}

fn check_pause_of_all(place: &Place) {
    let first = serve(place, &[two()]);
    let second = Web::serve(place);
    let file = place.workflow("two", &two()).display().to_string();
    for (here, there) in [(&first, &second), (&second, &first)] {
        pause(here, true);
        until("the other one has heard of it", || ready(there) == 503);
        let shown = there.get("/api/v1/admin/pause");
        assert_eq!(shown["since"], here.get("/api/v1/admin/pause")["since"]);
        assert_eq!(shown["persist"], true);
        let id = place.ask(&["runs", "start", &file]);
        // No host claims it, although each has scanned the store meanwhile.
        for web in [here, there] {
            let claims = || web.get_any("/metrics").body;
            assert!(
                claims().contains("windlass_triggers{state=\"due\"} 1"),
                "it is due"
            );
        }
        let runs = there.get(&format!("/api/v1/runs/{}/executions", id.trim()));
        assert_eq!(runs["items"], json!([]));
        unpause(there);
        until("the other one goes on, too", || ready(here) == 200);
        assert_eq!(there.result(id.trim())["status"], "completed");
    }
}

#[test]
fn a_pause_of_one_process_holds_for_it_alone_and_no_other_one_ends_it() {
    let (place, first) = web(&[two()]);
    let second = Web::serve(&place);
    pause(&first, false);
    assert_eq!(ready(&first), 503);
    let id = second.start("two", &Value::Null);
    assert_eq!(second.result(&id)["status"], "completed");
    assert_eq!(ready(&second), 200);
    // The pause of one host outlasts a pause of all.
    pause(&second, true);
    until("it is everybody's", || {
        first.get("/api/v1/admin/pause")["persist"] == true
    });
    unpause(&second);
    until("it is its own again", || {
        first.get("/api/v1/admin/pause")["persist"] == false
    });
    assert_eq!(ready(&first), 503);
    unpause(&first);
    assert_eq!(ready(&first), 200);
}
