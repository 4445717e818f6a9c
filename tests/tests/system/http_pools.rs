//! Separate pools, connections and rates: the load of some clients leaves room for others.

use serde_json::{Value, json};
use windlass_tests::harness::{Answer, Line, Place, Web, request, until};

const JSON: &str = "content-type: application/json";

/// A host with a hook whose runs end, and one whose runs wait.
fn web(settings: &[(&str, &str)]) -> (Place, Web) {
    let mut place = Place::new(&["echo"]);
    for (key, value) in settings {
        place = place.with(key, value);
    }
    let web = Web::serve(&place);
    web.publish(&json!({
        "workflow": "quick",
        "triggers": { "hook": { "http": { "method": "POST", "path": "/quick" } } },
        "nodes": { "a": { "end": null } },
        "output": "{{ input.body }}",
    }));
    web.publish(&json!({
        "workflow": "waits",
        "triggers": { "hook": { "http": { "method": "POST", "path": "/waits" } } },
        "nodes": { "ask": { "event": "go" } },
    }));
    (place, web)
}

/// The head of a request whose body never arrives.
fn slow(path: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{JSON}\r\ncontent-length: 1000\r\n\r\n{{")
}

/// Checks that health, metrics and the API are answered.
#[track_caller]
fn verify(web: &Web) {
    for path in ["/livez", "/readyz", "/metrics", "/api/v1/runs"] {
        let answer = web.get_any(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
}

/// The value of a series in the metrics.
fn metric(web: &Web, series: &str) -> u64 {
    read(&web.get_any("/metrics").body, series)
}

#[track_caller]
fn read(text: &str, series: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    let value = line.and_then(|value| value.trim().parse().ok());
    value.unwrap_or_else(|| panic!("{series} is not in\n{text}"))
}

#[test]
fn a_hook_that_is_not_there_is_answered_before_its_body_has_come() {
    let (_place, web) = web(&[("server.hooks", "4")]);
    let writes = metric(&web, "windlass_commit_batch_size_sum ");
    let mut lines: Vec<Line> = (0..200).map(|_| web.line()).collect();
    for line in &mut lines {
        assert!(line.send(slow("/hooks/nothing").as_bytes()));
    }
    for line in &mut lines {
        // The answer comes although the body never arrives.
        let answer = line.answer().expect("it is answered");
        assert_eq!(answer.problem(), (404, "WL-H015".to_owned()));
    }
    // If the body has arrived with the request, the connection is kept.
    let mut line = web.line();
    for _ in 0..3 {
        let answer = line.ask("POST", "/hooks/nothing", &[JSON], "{\"a\": 1}");
        assert_eq!(answer.problem(), (404, "WL-H015".to_owned()));
    }
    assert_eq!(line.ask("GET", "/livez", &[], "").status, 200);
    let written = metric(&web, "windlass_commit_batch_size_sum ") - writes;
    // Leases are renewed meanwhile.
    assert!(written < 200, "nothing was written for them: {written}");
    verify(&web);
}

#[test]
fn slow_hooks_take_nothing_from_the_api() {
    let (_place, web) = web(&[
        ("server.hooks", "4"),
        ("server.body-rate", "0B"),
        ("server.timeout", "10m"),
    ]);
    let mut lines: Vec<Line> = (0..4).map(|_| web.line()).collect();
    for line in &mut lines {
        assert!(line.send(slow("/hooks/quick").as_bytes()));
    }
    until("all slots are taken", || {
        metric(&web, "windlass_http_slots_used{pool=\"hooks\"} ") == 4
    });
    verify(&web);
    let full = web.ask("POST", "/hooks/quick", &[JSON], "1");
    assert_eq!(full.problem(), (503, "WL-H009".to_owned()));
    assert_eq!(full.header("retry-after"), Some("1"));
    assert!(full.body.contains("`hooks`"), "it names the pool: {full:?}");
    assert!(metric(&web, "windlass_http_refused_total{pool=\"hooks\"} ") > 0);
    drop(lines);
    until("there is room again", || {
        web.ask("POST", "/hooks/quick", &[JSON], "1").status == 202
    });
}

#[test]
fn a_body_that_comes_too_slowly_is_cut_off_long_before_the_time_is_over() {
    let (_place, web) = web(&[("server.timeout", "10m"), ("server.body-rate", "1MiB")]);
    let mut line = web.line();
    assert!(line.send(slow("/hooks/quick").as_bytes()));
    let answer = line.answer().expect("it is answered");
    assert_eq!(answer.problem(), (408, "WL-H007".to_owned()));
}

#[test]
fn waiting_hooks_leave_room_for_streams_and_for_other_waits() {
    let (_place, web) = web(&[("server.hooks-waiting", "8")]);
    let ask = request("POST", "/hooks/waits?wait=1m", &[JSON], "1");
    let mut lines: Vec<Line> = (0..8).map(|_| web.line()).collect();
    for line in &mut lines {
        assert!(line.send(ask.as_bytes()));
    }
    until("all wait", || {
        metric(&web, "windlass_http_slots_used{pool=\"hooks-waiting\"} ") == 8
    });
    let runs = |web: &Web| {
        let list = web.get("/api/v1/runs?limit=100");
        list["items"].as_array().map_or(0, Vec::len)
    };
    until("each has its run", || runs(&web) == 8);
    let used = metric(&web, "windlass_http_slots_used{pool=\"hooks\"} ");
    assert_eq!(used, 0, "those who wait have given their slots back");
    let full = web.ask("POST", "/hooks/waits?wait=1m", &[JSON], "1");
    assert_eq!(full.problem(), (429, "WL-H009".to_owned()));
    assert!(full.body.contains("`hooks-waiting`"), "{full:?}");
    assert_eq!(runs(&web), 8, "what is refused has started nothing");
    // Requests, streams and waiting API requests have their own pools.
    let quick = web.ask("POST", "/hooks/quick", &[JSON], "1");
    assert_eq!(quick.status, 202, "{quick:?}");
    let id = web.start("waits", &Value::Null);
    let mut stream = web.line();
    let path = format!("/api/v1/runs/{id}/events");
    assert!(stream.send(request("GET", &path, &[], "").as_bytes()));
    assert_eq!(stream.read_line().as_deref(), Some("HTTP/1.1 200 OK"));
    let path = format!("/api/v1/runs/{id}/result?wait=1ms");
    assert_eq!(web.get_any(&path).status, 202);
    verify(&web);
    assert_eq!(
        web.post("/api/v1/stimuli", &json!({ "name": "go" })).status,
        200
    );
    for line in &mut lines {
        assert_eq!(line.answer().map(|answer| answer.status), Some(200));
    }
}

#[test]
fn silent_connections_are_closed_for_clients_that_ask() {
    let (_place, web) = web(&[
        ("server.connections", "40"),
        ("server.timeout", "10m"),
        ("server.header-timeout", "10m"),
    ]);
    // A stream is open from before.
    let id = web.start("waits", &Value::Null);
    let mut stream = web.line();
    let path = format!("/api/v1/runs/{id}/events");
    assert!(stream.send(request("GET", &path, &[], "").as_bytes()));
    assert_eq!(stream.read_line().as_deref(), Some("HTTP/1.1 200 OK"));
    let mut silent: Vec<Line> = Vec::new();
    for at in 0..400 {
        let mut line = web.line();
        let begun: &[u8] = match at % 3 {
            0 => b"",
            1 => b"GET /api/v1/runs HTTP/1.1\r\nx-slow: ",
            _ => b"\r\n",
        };
        assert!(line.send(begun));
        silent.push(line);
        if at % 40 == 0 {
            verify(&web);
        }
    }
    verify(&web);
    assert!(metric(&web, "windlass_http_connections_evicted_total ") >= 400 - 50);
    assert!(metric(&web, "windlass_http_connections ") <= 50);
    assert_eq!(silent[0].rest(), "", "the oldest was closed");
    // The stream carried a request all the time.
    assert_eq!(
        web.post("/api/v1/stimuli", &json!({ "name": "go" })).status,
        200
    );
    let end = std::iter::from_fn(|| stream.read_line()).any(|line| line == "event: end");
    assert!(end);
}

#[test]
fn connections_that_all_carry_requests_leave_some_for_health() {
    let (_place, web) = web(&[
        ("server.connections", "8"),
        ("server.body-rate", "0B"),
        ("server.timeout", "10m"),
    ]);
    let mut lines = Vec::new();
    // One connection for all scrapes: others would be idle for a moment after their answers.
    let mut scraper = web.line();
    for at in 1..=8 {
        let mut line = web.line();
        assert!(line.send(slow("/hooks/quick").as_bytes()));
        lines.push(line);
        // One after the other: a connection whose request has not been read yet is idle.
        until("the request is worked on", || {
            let text = scraper.ask("GET", "/metrics", &[], "").body;
            read(&text, "windlass_http_slots_used{pool=\"hooks\"} ") == at
        });
    }
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(web.get_any(path).status, 200, "{path}");
    }
    let refused = web.get_any("/api/v1/runs");
    assert_eq!(refused.problem(), (503, "WL-H009".to_owned()));
    drop(lines);
    until("there is room again", || {
        web.get_any("/api/v1/runs").status == 200
    });
}

fn call(web: &Web, path: &str, headers: &[&str]) -> Answer {
    let headers = [headers, &[JSON]].concat();
    web.ask("POST", path, &headers, "1")
}

#[test]
fn a_hook_is_called_no_more_often_than_it_may() {
    let (_place, web) = web(&[("server.hook-rate", "1/h"), ("server.hook-burst", "2")]);
    for _ in 0..2 {
        assert_eq!(call(&web, "/hooks/quick", &[]).status, 202);
    }
    let limited = call(&web, "/hooks/quick", &[]);
    assert_eq!(limited.problem(), (429, "WL-H024".to_owned()));
    let wait = limited
        .header("retry-after")
        .and_then(|wait| wait.parse().ok());
    assert!(
        wait.is_some_and(|wait: u64| (1..=3600).contains(&wait)),
        "{limited:?}"
    );
    assert_eq!(call(&web, "/hooks/waits", &[]).status, 202, "another hook");
    // An unknown hook has no rate of its own.
    for _ in 0..5 {
        assert_eq!(call(&web, "/hooks/nothing", &[]).status, 404);
    }
    assert_eq!(metric(&web, "windlass_http_limited_total{by=\"hook\"} "), 1);
    verify(&web);
}

#[test]
fn the_rate_of_a_client_holds_for_every_claimed_address() {
    let rate = [("server.client-rate", "1/h"), ("server.client-burst", "2")];
    let (_place, web) = web(&rate);
    assert_eq!(
        call(&web, "/hooks/quick", &["x-forwarded-for: 1.1.1.1"]).status,
        202
    );
    assert_eq!(
        call(&web, "/hooks/nothing", &["x-forwarded-for: 2.2.2.2"]).status,
        404
    );
    for path in ["/hooks/quick", "/hooks/nothing", "/resume/x"] {
        let limited = call(&web, path, &["x-forwarded-for: 3.3.3.3"]);
        assert_eq!(limited.problem(), (429, "WL-H025".to_owned()), "{path}");
    }
    assert_eq!(
        metric(&web, "windlass_http_limited_total{by=\"client\"} "),
        3
    );
    verify(&web);
}

#[test]
fn clients_behind_trusted_proxies_are_told_apart() {
    let (_place, web) = web(&[
        ("server.client-rate", "1/h"),
        (
            "server.trusted-proxies",
            "[\"127.0.0.0/8\", \"10.0.0.0/8\"]",
        ),
    ]);
    let one = |value: &str| {
        let header = format!("x-forwarded-for: {value}");
        call(&web, "/hooks/nothing", &[&header]).status
    };
    assert_eq!(one("1.1.1.1"), 404);
    assert_eq!(one("1.1.1.1"), 429);
    assert_eq!(one("9.9.9.9, 1.1.1.1"), 429, "what the client wrote itself");
    assert_eq!(one("1.1.1.1, 10.0.0.7"), 429, "through a second proxy");
    assert_eq!(one("2.2.2.2"), 404);
    assert_eq!(one("2001:db8:0:1::1"), 404);
    assert_eq!(one("2001:db8:0:1:ffff::9"), 429, "of the same network");
    assert_eq!(one("2001:db8:0:2::1"), 404);
}

#[test]
fn proxies_are_networks() {
    let place = Place::new(&[]).with("server.trusted-proxies", "[\"10.0.0.0/33\"]");
    let said = place.say(&["-o", "jsonl", "serve"]);
    assert_eq!(said.error()["code"], "WL-H022", "{said:#?}");
    assert_eq!(said.exit, Some(2), "{said:#?}");
}
