//! The HTTP API of a host: runs, events, webhooks, resume links, pauses and shutdowns.

use serde_json::{Value, json};
use windlass_store::stimuli::BookmarkQuery;
use windlass_tests::harness::{Gate, Line, Place, Signal, Web, until, until_some};

fn two() -> Value {
    json!({
        "workflow": "two",
        "triggers": { "hook": { "http": { "path": "/two" } } },
        "nodes": { "first": { "use": "echo/echo" }, "second": { "use": "echo/echo" } },
        "edges": ["first -> second"],
        "output": "{{ input }}",
    })
}

fn waits() -> Value {
    json!({
        "workflow": "waits",
        "nodes": { "ask": { "event": "approval", "match": { "order": 7 } } },
        "output": "{{ nodes.ask.output }}",
    })
}

fn web(workflows: &[Value]) -> (Place, Web) {
    let place = Place::new(&["echo"]);
    let web = Web::serve(&place);
    workflows.iter().for_each(|workflow| web.publish(workflow));
    (place, web)
}

fn code(code: &str, status: u16) -> (u16, String) {
    (status, code.to_owned())
}

/// A connection with an event stream.
fn follow(web: &Web, id: &str, headers: &[&str]) -> Line {
    let mut line = web.line();
    let path = format!("/api/v1/runs/{id}/events");
    let mut headers = headers.to_vec();
    headers.push("connection: close");
    line.send(windlass_tests::harness::request("GET", &path, &headers, "").as_bytes());
    line
}

/// All events of a stream until it ends, as their kinds and ids.
fn stream(web: &Web, id: &str, headers: &[&str]) -> Vec<(String, Option<i64>)> {
    events(&follow(web, id, headers).rest())
}

fn events(text: &str) -> Vec<(String, Option<i64>)> {
    let mut events = Vec::new();
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("event: ") {
            events.push((kind.to_owned(), None));
        } else if let Some(id) = line.strip_prefix("id: ")
            && let Some((_, last)) = events.last_mut()
        {
            *last = id.trim().parse().ok();
        }
    }
    events
}

#[test]
fn a_run_is_started_waited_for_and_looked_at() {
    let (_place, web) = web(&[two()]);
    let id = web.start("two", &json!({ "a": 1 }));
    let result = web.result(&id);
    assert_eq!(result["status"], "completed");
    assert_eq!(result["output"], json!({ "a": 1 }));
    let shown = web.get(&format!("/api/v1/runs/{id}"));
    assert_eq!(shown["input"], json!({ "a": 1 }));
    let runs = web.get(&format!("/api/v1/runs/{id}/executions?limit=1"));
    assert_eq!(runs["items"][0]["node"], "second", "the newest first");
    let next = runs["next"].as_str().expect("there is more");
    let runs = web.get(&format!(
        "/api/v1/runs/{id}/executions?limit=1&cursor={next}"
    ));
    assert_eq!(runs["items"][0]["node"], "first");
    assert!(runs["next"].is_null());
    let list = web.get("/api/v1/runs?status=completed&workflow=two");
    assert_eq!(list["items"][0]["id"], id);
    let missing = web.get_any("/api/v1/runs/0193c0de-7a1b-7c3d-8e4f-0123456789ab");
    assert_eq!(missing.problem(), code("WL-R072", 404));
}

#[test]
fn a_run_shows_its_version_its_components_its_scopes_and_its_graph() {
    let lists = json!({
        "workflow": "lists",
        "nodes": {
            "each": {
                "for-each": "{{ input }}",
                "nodes": { "said": { "use": "echo/echo" }, "kept": { "set": { "a": 1 } } },
                "edges": ["said -> kept"],
            },
            "undo": { "set": { "b": 2 } },
            "last": { "workflow": "two", "compensate": "undo", "title": "The other one" },
        },
        "edges": [{ "from": "each", "to": "last", "when": "vars.a == 1" }],
        "vars": { "a": 1, "b": 0 },
    });
    let (_place, web) = web(&[two(), lists.clone()]);
    let id = web.start("lists", &json!(["x", "y"]));
    assert_eq!(web.result(&id)["status"], "completed");
    let mut newer = lists;
    newer["description"] = "newer".into();
    web.publish(&newer);
    let shown = web.get(&format!("/api/v1/runs/{id}"));
    assert_eq!(shown["version"], 1, "the run began with it");
    let plugins = web.get("/api/v1/plugins");
    let echo = plugins["items"].as_array().unwrap();
    let echo = echo.iter().find(|it| it["package"] == "echo").unwrap();
    let component = &shown["components"][0];
    assert_eq!(component["node_type"], "echo/echo");
    for member in ["package", "version", "digest"] {
        assert_eq!(component[member], echo[member], "{member}");
    }
    let executions = web.get(&format!("/api/v1/runs/{id}/executions?brief=true"));
    let executions = executions["items"].as_array().unwrap();
    let of = |node: &str| -> Vec<&Value> {
        let of = executions.iter().filter(|it| it["node"] == node);
        of.collect()
    };
    assert!(of("last").iter().all(|it| it.get("scope").is_none()));
    let lists: Vec<&Value> = of("each").iter().map(|it| &it["no"]).collect();
    for node in ["said", "kept"] {
        let mut items = Vec::new();
        for execution in of(node) {
            assert!(lists.contains(&&execution["scope"]["list"]), "{execution}");
            items.push(execution["scope"]["item"][0].as_u64().unwrap());
        }
        items.sort_unstable();
        assert_eq!(items, [0, 1], "{node}");
    }
    let digest = shown["run"]["definition"].as_str().unwrap();
    let stored = web.get(&format!("/api/v1/stored-definitions/{digest}?graph=true"));
    let of_run = web.get(&format!("/api/v1/runs/{id}/definition?graph=true"));
    assert_eq!(stored, of_run);
    let (_, bare) = digest.split_once(':').unwrap();
    let without = web.get(&format!("/api/v1/stored-definitions/{bare}"));
    assert_eq!(without["file"], stored["file"]);
    assert!(without.get("graph").is_none());
    let node = |name: &str, kind: &str, uses: Value, body: Value, entry: bool| {
        let title = (name == "last").then_some("The other one");
        json!({ "name": name, "kind": kind, "uses": uses, "body": body, "entry": entry, "title": title })
    };
    let none = Value::Null;
    let nodes = json!([
        node("each", "for-each", none.clone(), none.clone(), true),
        node("kept", "set", none.clone(), "each".into(), false),
        node("last", "workflow", "two".into(), none.clone(), false),
        node("said", "use", "echo/echo".into(), "each".into(), true),
        node("undo", "set", none.clone(), none, false),
    ]);
    assert_eq!(stored["graph"]["nodes"], nodes);
    let edges = &stored["graph"]["edges"];
    assert_eq!(edges[0]["from"], "each");
    assert_eq!(edges[0]["when"], "vars.a == 1");
    assert_eq!(edges[1]["to"], "kept");
    assert_eq!(
        (&edges[1]["port"], &edges[1]["when"]),
        (&"done".into(), &Value::Null)
    );
    for unknown in ["0".repeat(64), "none".to_owned()] {
        let missing = web.get_any(&format!("/api/v1/stored-definitions/{unknown}"));
        assert_eq!(missing.status, 404, "{unknown}");
    }
}

#[test]
fn a_parked_trigger_says_why_it_cannot_run() {
    let routed = json!({
        "workflow": "routed",
        "nodes": { "it": { "use": "echo/echo", "route": "nowhere" } },
    });
    let (place, web) = web(&[two(), routed]);
    assert!(
        web.get("/api/v1/triggers?parked=true")["items"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    let ids = [(); 3].map(|()| web.start("routed", &json!({})));
    until("all are parked", || {
        let list = web.get("/api/v1/triggers?parked=true");
        list["items"].as_array().unwrap().len() == ids.len()
    });
    let first = web.get("/api/v1/triggers?parked=true&limit=2");
    let next = first["next"].as_str().expect("there is more");
    let second = web.get(&format!(
        "/api/v1/triggers?parked=true&limit=2&cursor={next}"
    ));
    let of = |page: &Value| page["items"].as_array().unwrap().clone();
    let all = [of(&first), of(&second)].concat();
    let mut found: Vec<_> = all.iter().map(|it| it["run"].as_str().unwrap()).collect();
    let mut wanted: Vec<_> = ids.iter().map(String::as_str).collect();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    for parked in &all {
        let reason = parked["reason"].as_str().unwrap();
        assert!(reason.contains("on the route `nowhere`"), "{reason}");
    }
    let shown = web.get(&format!("/api/v1/runs/{}", ids[0]));
    assert_eq!(shown["triggers"][0]["reason"], all[0]["reason"]);
    let listed = place.ask(&["trigger", "list", "--parked"]);
    assert!(listed.contains("on the route `nowhere`"), "{listed}");
    let both = web.get_any(&format!("/api/v1/triggers?parked=true&run={}", ids[0]));
    assert_eq!(both.status, 400);
}

#[test]
fn a_stream_follows_a_run_to_its_end_and_goes_on_where_it_was_broken_off() {
    let (_place, web) = web(&[waits()]);
    let id = web.start("waits", &Value::Null);
    let happened = json!({ "name": "approval", "match": { "order": 7 }, "input": 5, "run": id });
    let followed = std::thread::scope(|scope| {
        let follower = scope.spawn(|| stream(&web, &id, &[]));
        until("the run waits", || {
            let list = web.get("/api/v1/bookmarks");
            list["items"][0]["run"] == *id
        });
        assert_eq!(web.post("/api/v1/stimuli", &happened).status, 200);
        follower.join().expect("it does not panic")
    });
    let nodes: Vec<i64> = followed.iter().filter_map(|(_, id)| *id).collect();
    assert_eq!(nodes.len(), 2, "it waited, and went on: {followed:?}");
    assert_eq!(followed.last(), Some(&("end".to_owned(), None)));
    let again = stream(&web, &id, &[&format!("last-event-id: {}", nodes[0])]);
    let later: Vec<i64> = again.iter().filter_map(|(_, id)| *id).collect();
    assert_eq!(later, nodes[1..], "{again:?}");
    assert_eq!(again.last(), Some(&("end".to_owned(), None)));
}

/// Each process numbers its executions by itself. The numbers of a process that joined earlier are
/// smaller, also for its later executions.
#[test]
fn a_stream_continues_with_executions_of_another_process() {
    const ID: &str = "0193c0de-7a1b-7c3d-8e4f-0123456789ab";
    let place = Place::new(&["steps"]);
    let web = Web::serve(&place);
    let workflow = json!({
        "workflow": "relay",
        "nodes": {
            "first": { "use": "steps/effect" },
            "ask": { "event": "go" },
            "second": { "use": "steps/effect" },
        },
        "edges": ["first -> ask", "ask -> second"],
    });
    let file = place.workflow("relay", &workflow).display().to_string();
    let run = place.start(&["run", &file, "--id", ID]);
    until("the run waits", || {
        web.get("/api/v1/bookmarks")["items"][0]["run"] == *ID
    });
    let mut line = follow(&web, ID, &[]);
    let mut text = String::new();
    while text.matches("\nid: ").count() < 2 {
        text += &line.read_line().expect("it goes on");
        text.push('\n');
    }
    run.kill();
    let happened = json!({ "name": "go", "run": ID });
    assert_eq!(web.post("/api/v1/stimuli", &happened).status, 200);
    text += &line.rest();

    let nodes: Vec<i64> = events(&text).iter().filter_map(|(_, id)| *id).collect();
    assert_eq!(
        nodes.len(),
        4,
        "two before it was killed, and two behind: {text}"
    );
    assert!(nodes[2] < nodes[1], "another goes on: {nodes:?}");
    assert_eq!(events(&text).last(), Some(&("end".to_owned(), None)));
    for (at, last) in nodes.iter().enumerate() {
        let again = stream(&web, ID, &[&format!("last-event-id: {last}")]);
        let later: Vec<i64> = again.iter().filter_map(|(_, id)| *id).collect();
        assert_eq!(later, nodes[at + 1..], "{again:?}");
    }
}

#[test]
fn one_key_is_one_run_however_often_and_at_once_it_is_asked_for() {
    let (_place, web) = web(&[two()]);
    let json = "content-type: application/json";
    let ask = |key: &str, body: &Value| {
        let key = format!("idempotency-key: {key}");
        web.ask("POST", "/api/v1/runs", &[json, &key], &body.to_string())
    };
    let request = json!({ "workflow": "two", "input": 1 });
    let answers: Vec<_> = std::thread::scope(|scope| {
        let asked = (0..8).map(|_| scope.spawn(|| ask("order-17", &request)));
        let asked: Vec<_> = asked.collect();
        let answers = asked.into_iter().map(|one| one.join());
        answers.map(|one| one.expect("it does not panic")).collect()
    });
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    assert_eq!(made, 1, "{answers:?}");
    let ids: Vec<Value> = answers
        .iter()
        .map(|answer| answer.json()["id"].clone())
        .collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let other = ask("order-17", &json!({ "workflow": "two", "input": 2 }));
    assert_eq!(other.problem(), code("WL-H014", 409));
    // No other request takes the place of a key: its run has an id that no client chooses.
    let chosen = json!({ "workflow": "two", "input": 3, "id": ids[0] });
    let refused = web.ask("POST", "/api/v1/runs", &[json], &chosen.to_string());
    assert_eq!(refused.problem(), code("WL-R163", 422));
    // The request is the same, although a new version was published.
    let mut newer = two();
    newer["description"] = json!("newer");
    web.publish(&newer);
    assert_eq!(ask("order-17", &request).status, 200);
    let list = web.get("/api/v1/runs");
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_webhook_starts_the_workflow_bound_to_it() {
    let (_place, web) = web(&[two()]);
    let answer = web.post("/hooks/two?shop=berlin&wait=60s", &json!({ "order": 5 }));
    assert_eq!(answer.status, 200, "{answer:?}");
    let given = &answer.json()["output"];
    assert_eq!(given["method"], "POST");
    assert_eq!(given["path"], "/two");
    assert_eq!(given["query"], json!({ "shop": "berlin" }));
    assert_eq!(given["body"], json!({ "order": 5 }));
    assert_eq!(given["headers"]["content-type"], "application/json");
    let answer = web.ask("POST", "/hooks/two", &[], "plain");
    assert_eq!(answer.status, 202, "{answer:?}");
    let id = answer.json()["started"][0]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert_eq!(web.result(&id)["output"]["body"], "plain");
    let other = web.ask("GET", "/hooks/two", &[], "");
    assert_eq!(other.problem(), code("WL-H003", 405));
    assert_eq!(other.header("allow"), Some("POST"));
    let answer = web.ask("POST", "/hooks/two/three", &[], "");
    assert_eq!(answer.problem(), code("WL-H015", 404));
    assert_eq!(
        web.ask("DELETE", "/api/v1/definitions/two", &[], "").json()["version"],
        1
    );
    assert_eq!(web.ask("POST", "/hooks/two", &[], "").status, 404);
}

#[test]
fn a_cloud_event_is_taken_structured_and_binary() {
    let workflow = json!({
        "workflow": "billing",
        "triggers": {
            "any": { "event": "order.placed" },
            "berlin": { "event": "order.placed", "match": { "source": "/berlin" } },
        },
        "nodes": { "a": { "use": "echo/echo" } },
        "output": "{{ input }}",
    });
    let (_place, web) = web(&[workflow]);
    let event = json!({ "specversion": "1.0", "id": "1", "source": "/berlin",
        "type": "order.placed", "data": { "order": 5 } });
    let structured = "content-type: application/cloudevents+json";
    let answer = web.ask("POST", "/events", &[structured], &event.to_string());
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.json()["started"].as_array().map(Vec::len), Some(2));
    let binary = [
        "content-type: application/json",
        "ce-specversion: 1.0",
        "ce-id: 2",
        "ce-source: /paris",
        "ce-type: order.placed",
    ];
    let answer = web.ask("POST", "/events", &binary, r#"{"order":6}"#).json();
    let id = answer["started"][0].as_str().unwrap_or_default().to_owned();
    let given = &web.result(&id)["output"];
    assert_eq!(given["source"], "/paris");
    assert_eq!(given["data"], json!({ "order": 6 }));
    let answer = web.ask("POST", "/events", &[structured], r#"{"id":"1"}"#);
    assert_eq!(answer.problem(), code("WL-H016", 422));
}

#[test]
fn a_resume_link_asks_and_only_its_button_resumes() {
    let (place, web) = web(&[waits()]);
    let id = web.start("waits", &Value::Null);
    let store = place.look().store();
    until_some("the run waits", || {
        let query = BookmarkQuery {
            limit: 1,
            ..BookmarkQuery::default()
        };
        store.bookmarks(&query).ok()?.pop()
    });
    let listed = web.get("/api/v1/bookmarks?links=true");
    let link = listed["items"][0]["link"].as_str().expect("a link");
    let link = &link[link.find("/resume/").expect("a path")..];
    for _ in 0..3 {
        let page = web.get_any(link);
        assert_eq!(page.status, 200);
        assert!(page.body.contains("<form method=\"post\">"), "{page:?}");
        assert_eq!(page.header("referrer-policy"), Some("same-origin"));
    }
    assert_eq!(
        web.ask("HEAD", link, &["connection: close"], "").status,
        200
    );
    let list = web.get("/api/v1/bookmarks");
    assert_eq!(
        list["items"].as_array().map(Vec::len),
        Some(1),
        "it still waits"
    );
    let form = "content-type: application/x-www-form-urlencoded";
    let answer = web.ask("POST", link, &[form], "answer=yes&by=Ada+L");
    assert_eq!(answer.status, 200, "{answer:?}");
    let output = json!({ "answer": "yes", "by": "Ada L" });
    assert_eq!(web.result(&id)["output"], output);
    assert_eq!(
        web.ask("POST", link, &[], "").problem(),
        code("WL-H011", 404)
    );
    assert_eq!(web.get_any(link).status, 404);
}

#[test]
fn definitions_are_changed_only_as_expected() {
    let (_place, web) = web(&[two()]);
    let shown = web.get_any("/api/v1/definitions/two");
    let tag = shown.header("etag").expect("there is one").to_owned();
    let put = |headers: &[&str], body: &str| {
        let mut all = vec!["content-type: application/yaml"];
        all.extend(headers);
        web.ask("PUT", "/api/v1/definitions/two", &all, body)
    };
    let newer = "workflow: two\nnodes: { a: { end: } }\n";
    let none = put(&["if-none-match: *"], newer);
    assert_eq!(none.problem(), code("WL-H013", 412));
    let good = put(&[&format!("if-match: {tag}")], newer);
    assert_eq!(
        (good.status, &good.json()["version"]),
        (200, &json!(2)),
        "{good:?}"
    );
    let late = put(&[&format!("if-match: {tag}")], newer);
    assert_eq!(late.problem(), code("WL-H013", 412));
    let broken = put(&[], "workflow: two\nnodes: { a: { ende: } }\n");
    assert_eq!(broken.status, 422);
    assert!(
        broken.json()["errors"][0]["pointer"].is_string(),
        "{broken:?}"
    );
    let other = put(&[], "workflow: three\nnodes: { a: { end: } }\n");
    assert_eq!(other.problem(), code("WL-H005", 422));
}

#[test]
fn versions_that_two_hosts_publish_at_once_are_never_lost() {
    check_counting(&Place::new(&["echo"]));
}

#[test]
fn versions_that_two_hosts_publish_at_once_in_a_database_are_never_lost() {
    if let Some(place) = Place::of_cluster(&["echo"]) {
        check_counting(&place);
    }
}

/// Checks that two hosts on one store lose no update: each increments a number in one definition,
/// with the revision that it has read.
fn check_counting(place: &Place) {
    const EACH: u32 = 40;
    let first = Web::serve(place);
    first.publish(&two());
    let second = Web::serve(place);
    let counting = |web: &Web| {
        let mut refused = 0;
        let mut counted = 0;
        while counted < EACH {
            let shown = web.get_any("/api/v1/definitions/two");
            let tag = shown.header("etag").expect("there is one").to_owned();
            let mut newer = shown.json()["file"].clone();
            let text = newer["description"].as_str().unwrap_or("0");
            let count: u32 = text.parse().expect("a number");
            newer["description"] = json!((count + 1).to_string());
            let json = "content-type: application/json";
            let over = format!("if-match: {tag}");
            let path = "/api/v1/definitions/two";
            let answer = web.ask("PUT", path, &[json, &over], &newer.to_string());
            match answer.status {
                200 => counted += 1,
                _ => {
                    assert_eq!(answer.problem(), code("WL-H013", 412));
                    refused += 1;
                }
            }
        }
        refused
    };
    let refused: u32 = std::thread::scope(|scope| {
        let all = [&first, &second, &first, &second].map(|web| scope.spawn(|| counting(web)));
        let all = all.into_iter().map(|one| one.join());
        all.map(|one| one.expect("it does not panic")).sum()
    });
    let shown = first.get("/api/v1/definitions/two");
    assert_eq!(shown["file"]["description"], (4 * EACH).to_string());
    assert_eq!(shown["version"]["version"], 4 * EACH + 1);
    eprintln!("{} were published, {refused} refused", 4 * EACH);
}

#[test]
fn a_draft_is_saved_with_its_mistakes_and_published_without() {
    let (_place, web) = web(&[]);
    let ask = |method: &str, path: &str, headers: &[&str], body: &str| {
        let mut all = vec!["content-type: application/yaml"];
        all.extend(headers);
        web.ask(method, &format!("/api/v1/drafts/two{path}"), &all, body)
    };
    let wrong = ask(
        "PUT",
        "",
        &["if-none-match: *"],
        "workflow: two\nnodes: { a: { ende: } }\n",
    );
    assert_eq!(wrong.status, 200, "{wrong:?}");
    assert!(
        wrong.json()["problems"][0]["detail"].is_string(),
        "{wrong:?}"
    );
    let tag = wrong.header("etag").expect("there is one").to_owned();
    assert_eq!(ask("POST", "/publish", &[], "").status, 422);
    let good = "workflow: two\nnodes: { a: { end: } }\n";
    let saved = ask("PUT", "", &[&format!("if-match: {tag}")], good);
    assert_eq!(saved.json()["problems"], json!([]), "{saved:?}");
    let late = ask("PUT", "", &[&format!("if-match: {tag}")], good);
    assert_eq!(late.status, 409, "{late:?}");
    let published = ask("POST", "/publish", &[], "");
    assert_eq!(
        (published.status, &published.json()["version"]),
        (200, &json!(1))
    );
    assert_eq!(ask("GET", "", &[], "").problem(), code("WL-H011", 404));
    assert_eq!(web.get("/api/v1/drafts")["items"], json!([]));
    assert!(web.get("/api/v1/locks")["items"].is_array());
}

#[test]
fn a_draining_host_refuses_new_work_and_finishes_running_work() {
    let gate = Gate::shut();
    let place = Place::new(&["fetch"]).with_http("fetch", &gate.grant());
    let web = Web::serve(&place);
    let node = json!({ "use": "fetch/fetch", "with": { "url": gate.url() }, "timeout": "170s" });
    web.publish(&json!({ "workflow": "gated", "nodes": { "gate": node } }));
    let id = web.start("gated", &Value::Null);
    gate.until_asked(1);
    web.process.signal(Signal::TERM);
    let refused = until_some("it takes nothing in", || {
        let refused = web.post("/api/v1/runs", &json!({ "workflow": "gated" }));
        (refused.status == 503).then_some(refused)
    });
    assert_eq!(refused.problem(), code("WL-R079", 503));
    assert!(refused.header("retry-after").is_some());
    assert_eq!(web.get_any("/readyz").status, 503);
    assert_eq!(web.get_any("/livez").status, 200, "it is still there");
    gate.open();
    let Web { mut process, .. } = web;
    let (status, _, said) = process.output();
    assert!(status.success(), "{said}");
    assert!(said.contains("drained"), "{said}");
    let run = place.look().run(&id);
    assert_eq!(place.look().records(&run).len(), 1, "what ran is finished");
}
