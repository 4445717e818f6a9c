//! Hostile HTTP clients: the host refuses them, and serves all others.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_tests::harness::{Line, Place, Web, until, until_some};

const JSON: &str = "content-type: application/json";

/// The time limit of answers to other clients, under any load: far longer than they need.
const SOON: Duration = Duration::from_secs(90);

fn echo() -> Value {
    json!({
        "workflow": "one",
        "nodes": { "a": { "use": "echo/echo" } },
        "output": "{{ nodes.a.output }}",
    })
}

fn web(settings: &[(&str, &str)]) -> (Place, Web) {
    let mut place = Place::new(&["echo"]);
    for (key, value) in settings {
        place = place.with(key, value);
    }
    let web = Web::serve(&place);
    web.publish(&echo());
    (place, web)
}

/// Checks that another client is served, and soon.
#[track_caller]
fn verify(web: &Web) {
    let begun = now();
    let id = web.start("one", &json!({ "a": 1 }));
    let path = format!("/api/v1/runs/{id}/result");
    // Without a waiting request: the watching clients may use the whole pool.
    let result = until_some("the run has ended", || {
        let result = web.get_any(&path);
        (result.status == 200).then(|| result.json())
    });
    assert_eq!(result["output"], json!({ "a": 1 }));
    assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
}

#[expect(clippy::disallowed_methods, reason = "a test measures")]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn a_body_of_a_hundred_megabytes_is_refused_before_it_has_come() {
    const MEGABYTES: usize = 100;
    let (_place, web) = web(&[]);
    let megabyte = vec![b' '; 1 << 20];
    let sized = format!("content-length: {}", MEGABYTES << 20);
    for framing in [sized.as_str(), "transfer-encoding: chunked"] {
        let mut line = web.line();
        let head = format!(
            "POST /api/v1/stimuli HTTP/1.1\r\nhost: localhost\r\n{JSON}\r\n{framing}\r\n\r\n"
        );
        assert!(line.send(head.as_bytes()));
        let mut sent = 0;
        for _ in 0..MEGABYTES {
            let whole = match framing.starts_with("transfer") {
                true => line.send(b"100000\r\n") && line.send(&megabyte) && line.send(b"\r\n"),
                false => line.send(&megabyte),
            };
            sent += usize::from(whole);
            if !whole {
                break;
            }
        }
        // A client that continues to send may be unable to read the answer.
        if let Some(answer) = line.answer() {
            assert_eq!(answer.problem(), (413, "WL-H006".to_owned()));
        }
        assert!(sent < MEGABYTES, "it was cut off: {sent} MB were taken");
    }
    verify(&web);
}

#[test]
fn definitions_that_would_fill_the_memory_or_the_stack_are_mistakes() {
    let (_place, web) = web(&[]);
    let bomb = "workflow: one\nvars:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned()
        + &(1..30)
            .map(|at| {
                let before = format!("*a{}, ", at - 1).repeat(10);
                format!("  a{at}: &a{at} [{before}]\n")
            })
            .collect::<String>()
        + "nodes: { a: { end: } }\n";
    let deep = format!("workflow: one\nvars: {{ a: {} }}\n", "[".repeat(200_000));
    let indented: String = (0..800)
        .map(|at| format!("{}a:\n", " ".repeat(at)))
        .collect();
    let wide = format!(
        "workflow: one\nnodes: {{ {} }}\n",
        "a: { end: }, ".repeat(50_000)
    );
    let json = "[".repeat(900_000);
    for (media, text) in [
        ("application/yaml", &bomb),
        ("application/yaml", &deep),
        ("application/yaml", &indented),
        ("application/yaml", &wide),
        ("application/json", &json),
    ] {
        let media = format!("content-type: {media}");
        let put = web.ask("PUT", "/api/v1/definitions/one", &[&media], text);
        assert_eq!(put.status, 422, "{:.200}: {put:?}", text);
        let draft = web.ask("PUT", "/api/v1/drafts/one", &[&media], text);
        assert!(
            [200, 422].contains(&draft.status),
            "{:.200}: {draft:?}",
            text
        );
    }
    let nested = format!("{{\"definition\": {}", "{\"a\":".repeat(100_000));
    let answer = web.ask("POST", "/api/v1/runs", &[JSON], &nested);
    assert_eq!(answer.problem(), (400, "WL-H005".to_owned()));
    verify(&web);
}

#[test]
fn hostile_names_lead_to_no_other_resource() {
    let (_place, web) = web(&[]);
    for name in [
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e",
        "..",
        "a%0d%0aset-cookie:%20b",
        "%e2%80%ae",
        "%f0%9f%92%a9",
        "%1b%5b31m",
        "a%3bb",
        &"x".repeat(1025),
        &"y".repeat(60_000),
    ] {
        for path in [
            "/api/v1/definitions/",
            "/api/v1/drafts/",
            "/api/v1/plugins/",
            "/api/v1/runs/",
            "/api/v1/triggers/",
            "/api/v1/dead-letters/",
            "/errors/",
            "/resume/",
            "/hooks/",
        ] {
            let answer = web.get_any(&format!("{path}{name}"));
            let status = answer.status;
            assert!(
                [400, 404, 405, 414, 422, 431].contains(&status),
                "{path}{name:.40}: {answer:?}"
            );
            assert_eq!(answer.header("set-cookie"), None);
        }
    }
    let odd = "\u{202e}\u{1f4a9}\u{1b}[31m\r\n\t\u{7f}é";
    let request = json!({ "workflow": "one", "input": { odd: odd }, "correlation": odd });
    let answer = web.post("/api/v1/runs", &request);
    assert_eq!(answer.status, 201, "{answer:?}");
    let id = answer.json()["id"].as_str().unwrap_or_default().to_owned();
    assert_eq!(web.result(&id)["output"], json!({ odd: odd }));
    let shown = web.get(&format!("/api/v1/runs/{id}"));
    assert_eq!(shown["run"]["correlation"], odd);
    let sent = json!({ "name": odd, "match": { odd: 1 }, "input": odd, "delivery": "buffer" });
    assert_eq!(web.post("/api/v1/stimuli", &sent).status, 200);
    verify(&web);
}

#[test]
fn a_client_that_does_not_read_its_answer_is_cut_off() {
    let (_place, web) = web(&[
        ("server.timeout", "5s"),
        ("server.connections", "8"),
        ("server.max-body", "8MiB"),
    ]);
    let large = json!({
        "workflow": "large",
        "nodes": { "a": { "end": null } },
        "output": "{{ input }}",
    });
    web.publish(&large);
    // Two of these exceed the socket buffers of both sides.
    let id = web.start("large", &json!("x".repeat(7 << 20)));
    assert_eq!(web.result(&id)["status"], "completed");
    let path = format!("/api/v1/runs/{id}");
    let mut unread: Vec<Line> = (0..8).map(|_| web.line()).collect();
    for line in &mut unread {
        let request = windlass_tests::harness::request("GET", &path, &[], "");
        assert!(line.send(request.as_bytes()));
    }
    // This connection is accepted only when one of them is closed.
    assert_eq!(web.get_any("/livez").status, 200);
    drop(unread);
}

#[test]
fn watchers_are_bounded_and_delay_no_request() {
    const ROOM: usize = 300;
    let room = ROOM.to_string();
    let (place, web) = web(&[("server.streams", &room)]);
    let waits = json!({ "workflow": "waits", "nodes": { "ask": { "event": "go" } } });
    web.publish(&waits);
    let id = web.start("waits", &Value::Null);
    let path = format!("/api/v1/runs/{id}/events");
    let mut watching: Vec<Line> = (0..ROOM).map(|_| web.line()).collect();
    for line in &mut watching {
        let request = windlass_tests::harness::request("GET", &path, &[], "");
        assert!(line.send(request.as_bytes()));
        assert_eq!(line.read_line().as_deref(), Some("HTTP/1.1 200 OK"));
    }
    let further = web.get_any(&path);
    assert_eq!(further.problem(), (429, "WL-H009".to_owned()));
    // Another process writes all the time, and each notification wakes all streams.
    let other = Web::serve(&place);
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| {
            for _ in 0..200 {
                other.start("one", &Value::Null);
            }
        });
        while !busy.is_finished() {
            verify(&web);
        }
    });
    let sent = json!({ "name": "go" });
    assert_eq!(web.post("/api/v1/stimuli", &sent).status, 200);
    for mut line in watching {
        let end = std::iter::from_fn(|| line.read_line()).any(|line| line == "event: end");
        assert!(end, "each hears of the end");
    }
    until("there is room again", || {
        let mut line = web.line();
        line.send(windlass_tests::harness::request("GET", &path, &[], "").as_bytes());
        line.read_line().as_deref() == Some("HTTP/1.1 200 OK")
    });
}

#[test]
fn one_key_is_one_run_at_two_hosts_at_once() {
    const EACH: usize = 48;
    let (place, first) = web(&[]);
    let second = Web::serve(&place);
    for round in 0..5 {
        let key = format!("idempotency-key: k{round}");
        let request = json!({ "workflow": "one", "input": round }).to_string();
        let ask = |web: &Web| web.ask("POST", "/api/v1/runs", &[JSON, &key], &request);
        let answers: Vec<_> = std::thread::scope(|scope| {
            let all = (0..EACH).map(|at| match at % 2 {
                0 => scope.spawn(|| ask(&first)),
                _ => scope.spawn(|| ask(&second)),
            });
            let all: Vec<_> = all.collect();
            all.into_iter()
                .map(|one| one.join().expect("it does not panic"))
                .collect()
        });
        let made = answers.iter().filter(|answer| answer.status == 201);
        assert_eq!(made.count(), 1, "{answers:?}");
        let same = answers.iter().map(|answer| answer.json()["id"].clone());
        let mut same: Vec<String> = same.map(|id| id.to_string()).collect();
        same.dedup();
        assert_eq!(same.len(), 1, "{answers:?}");
    }
    let all = until_some("all have ended", || {
        let list = first.get("/api/v1/runs?status=completed");
        let ended = list["items"].as_array()?.len();
        (ended == 5).then_some(ended)
    });
    assert_eq!(all, 5);
    assert_eq!(
        first.get("/api/v1/runs")["items"].as_array().map(Vec::len),
        Some(5)
    );
}
