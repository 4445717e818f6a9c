//! Bodies that arrive slowly, and answers that clients do not read: they stay within their budgets,
//! and leave room for others.

use serde_json::{Value, json};
use windlass_tests::harness::{Line, Place, Web, request, until};

/// Bytes of a large value.
const VALUE: usize = 3_000_000;

const MIB: u64 = 1024 * 1024;

/// As [`web_of`], with a result of one value.
fn web(settings: &[(&str, &str)]) -> (Place, Web, String) {
    web_of(VALUE, settings)
}

/// A host with a run whose result has so many bytes, and a hook that answers with a text of any size.
fn web_of(bytes: usize, settings: &[(&str, &str)]) -> (Place, Web, String) {
    let mut place = Place::new(&["echo"]).with("server.max-body", "8MiB");
    for (key, value) in settings {
        place = place.with(key, value);
    }
    let web = Web::serve(&place);
    web.publish(&json!({
        "workflow": "big",
        "nodes": { "a": { "end": null } },
        "output": "{{ input }}",
    }));
    web.publish(&json!({
        "workflow": "answers",
        "triggers": { "hook": { "http": {
            "method": "GET", "path": "/big", "respond": { "node": "a" },
        } } },
        "nodes": { "a": { "use": "echo/echo", "input": { "body": "{{ 'a' * (input.query.n | int) }}" } } },
    }));
    let id = web.start("big", &Value::from("x".repeat(bytes)));
    assert_eq!(web.result(&id)["status"], "completed");
    (place, web, format!("/api/v1/runs/{id}/result"))
}

fn metric(web: &Web, series: &str) -> u64 {
    let text = web.get_any("/metrics").body;
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    let value = line.and_then(|value| value.strip_prefix(' ')?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("{series} is not in\n{text}"))
}

/// A line of `/proc/PID/status` in bytes.
#[cfg(target_os = "linux")]
fn memory(web: &Web, line: &str) -> u64 {
    let path = format!("/proc/{}/status", web.process.pid());
    let text = std::fs::read_to_string(path).expect("the host lives");
    let value = text.lines().find_map(|it| it.strip_prefix(line));
    let value = value.and_then(|value| value.trim_start_matches(':').split_whitespace().next());
    let kib: u64 = value.and_then(|kib| kib.parse().ok()).expect("it has it");
    kib * 1024
}

/// Connections that ask and read nothing.
fn deaf(web: &Web, count: usize, path: &str) -> Vec<Line> {
    let asked = request("GET", path, &[], "");
    let ask = |_| {
        let mut line = web.line();
        assert!(line.send(asked.as_bytes()));
        line
    };
    (0..count).map(ask).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn unread_answers_stay_within_their_budget() {
    let (_place, web, run) = web_of(2 * VALUE, &[("server.answers", "64MiB")]);
    let limit = metric(&web, "windlass_http_answers_limit_bytes");
    let before = memory(&web, "VmHWM");
    let lines = deaf(&web, 150, &run);
    until("answers are given up or refused", || {
        let given_up = metric(&web, "windlass_http_answers_given_up_total");
        given_up + metric(&web, "windlass_http_answers_refused_total") > 20
    });
    // Small answers have their own room.
    for path in ["/livez", "/readyz", "/metrics", "/api/v1/runs"] {
        assert_eq!(web.get_any(path).status, 200, "{path}");
    }
    web.start("big", &json!(1));
    let peak = metric(&web, "windlass_http_answers_peak_bytes");
    assert!(peak <= limit && limit < 101 * MIB, "{peak} of {limit}");
    let grown = memory(&web, "VmHWM") - before;
    // 150 answers of 6 MB are 900 MB.
    assert!(grown < 350 * MIB, "{grown}");
    drop(lines);
    until("all is returned", || {
        metric(&web, "windlass_http_answers_bytes") < MIB
    });
    let read = web.get(&run);
    assert_eq!(read["output"].as_str().map(str::len), Some(2 * VALUE));
}

#[test]
fn large_data_of_a_run_are_left_out_and_are_where_the_answer_says() {
    let place = Place::new(&[]).with("server.max-body", "8MiB");
    let web = Web::serve(&place);
    web.publish(&json!({
        "workflow": "large",
        "nodes": {
            "a": { "set": { "a": "{{ 'a' * 900000 }}", "b": "{{ 'b' * 300000 }}", "c": 3 } },
            "b": { "set": { "d": "{{ 'd' * 1600000 }}" } },
        },
        "edges": ["a -> b"],
        "output": "{{ 'o' * 1500000 }}",
    }));
    let input = Value::from("i".repeat(1_200_000));
    let id = web.start("large", &input);
    assert_eq!(web.result(&id)["status"], "completed");
    let of = |last: &str| format!("/api/v1/runs/{id}{last}");
    let length = |value: &Value| value.as_str().map(str::len);

    let shown = web.get(&of(""));
    assert_eq!(length(&shown["vars"]["a"]), Some(900_000));
    assert_eq!(shown["vars"]["c"], 3);
    assert_eq!(
        (&shown["input"], &shown["output"]),
        (&Value::Null, &Value::Null)
    );
    let left_out = json!([
        { "member": "input", "bytes": 1_200_002, "path": of("/input") },
        { "member": "output", "bytes": 1_500_002, "path": of("/result") },
        { "member": "vars", "name": "b", "bytes": 300_002, "path": of("/vars") },
        { "member": "vars", "name": "d", "bytes": 1_600_002, "path": of("/vars") },
    ]);
    assert_eq!(shown["left_out"], left_out);
    assert_eq!(web.get(&of("/input"))["input"], input);
    let names = |page: &Value| {
        let items = page["items"].as_array().expect("it has items").iter();
        let names = items.map(|item| item["name"].as_str().unwrap_or_default().to_owned());
        names.collect::<Vec<_>>()
    };
    let vars = web.get(&of("/vars?limit=3"));
    assert_eq!(names(&vars), ["a", "b", "c"]);
    assert_eq!(length(&vars["items"][1]["value"]), Some(300_000));
    let next = vars["next"].as_str().expect("there is more");
    let vars = web.get(&of(&format!("/vars?cursor={next}")));
    assert_eq!(names(&vars), ["d"]);
    assert_eq!(vars.get("next"), None);
    let journal = web.get(&of("/journal?limit=1"));
    assert_eq!(journal["items"][0], shown["journal"][0]);

    // Rows over the bytes of a page come on several pages, and none is missing.
    let drafts = |n: usize| format!("/api/v1/drafts/draft{n}");
    for n in 0..6 {
        let text = json!({ "workflow": format!("draft{n}"), "nodes": "x".repeat(900_000) });
        let json = ["content-type: application/json"];
        let saved = web.ask("PUT", &drafts(n), &json, &text.to_string());
        assert_eq!(saved.status, 200, "{saved:?}");
    }
    let (mut found, mut pages, mut cursor) = (0, 0, String::new());
    loop {
        let page = web.get(&format!("/api/v1/drafts?cursor={cursor}"));
        found += page["items"].as_array().map_or(0, Vec::len);
        pages += 1;
        match page["next"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(found, 6);
    assert!(pages > 1);
}

#[test]
fn a_client_that_reads_nothing_is_cut_off_and_a_slow_one_is_not() {
    let (_place, web, run) = web_of(2 * VALUE, &[("server.stall-timeout", "1500ms")]);
    let mut lines = deaf(&web, 2, &run);
    let mut slow = lines.remove(1);
    let mut read = Vec::new();
    until("the other is given up", || {
        // Each part that is read begins the time anew.
        read.extend(slow.read_some(64 * 1024));
        metric(&web, "windlass_http_answers_given_up_total") == 1
    });
    let rest = slow.rest();
    assert!(read.len() + rest.len() > 2 * VALUE);
    let cut = lines.remove(0).rest();
    assert!(cut.len() < 2 * VALUE, "{}", cut.len());
}

#[test]
fn a_connection_holds_one_answer_however_many_requests_it_sends() {
    let (_place, web, run) = web(&[]);
    let mut line = web.line();
    let many = request("GET", &run, &[], "").repeat(20);
    assert!(line.send(many.as_bytes()));
    until("an answer is held", || {
        metric(&web, "windlass_http_answers_bytes") > 4 * MIB
    });
    for _ in 0..20 {
        let held = metric(&web, "windlass_http_answers_bytes");
        assert!(held < 17 * MIB, "{held}");
    }
    for _ in 0..20 {
        let answer = line.answer().expect("each request is answered");
        assert!(answer.body.len() > VALUE);
    }
}

#[test]
fn an_answer_of_a_node_has_its_own_bound() {
    let (_place, web, _) = web(&[("server.max-answer", "100KiB")]);
    let asked = |n: usize| web.get_any(&format!("/hooks/big?n={n}"));
    let answer = asked(100 * 1024);
    assert_eq!((answer.status, answer.body.len()), (200, 100 * 1024));
    let refused = asked(100 * 1024 + 1);
    assert_eq!(refused.problem(), (502, "WL-H048".to_owned()));
    assert!(refused.body.contains("max-answer"), "{}", refused.body);
}

#[test]
fn bodies_stay_within_their_budget_and_small_ones_do_not_wait() {
    let (place, web, run) = web(&[("server.bodies", "4MiB")]);
    let metric = |name: &str| metric(&web, &format!("windlass_http_bodies_{name}"));
    assert_eq!(metric("limit_bytes"), 4 * MIB);
    let body = format!("\"{}\"", "x".repeat(VALUE));
    let body = format!("{{\"workflow\":\"big\",\"input\":{body}}}");
    let whole = request(
        "POST",
        "/api/v1/runs",
        &["content-type: application/json"],
        &body,
    );
    let most = whole.len() - 10;
    let lines: Vec<Line> = (0..4)
        .map(|_| {
            let mut line = web.line();
            // The host answers some of them before it has read them.
            let _ = line.send(whole.as_bytes()[..most].as_ref());
            line
        })
        .collect();
    until("requests without room are refused", || {
        metric("refused_total") >= 2
    });
    assert!(metric("bytes") > MIB);
    // Small ones are not charged.
    web.start("big", &json!("y".repeat(60_000)));
    assert_eq!(web.get_any("/livez").status, 200);
    // The command line shows the same.
    let address = web.address.to_string();
    let said = place.say(&[
        "-o",
        "json",
        "--server",
        &format!("http://{address}"),
        "doctor",
    ]);
    let budgets = said.json()[0]["budgets"].clone();
    let budgets = budgets.as_array().expect("a table");
    let bodies = budgets
        .iter()
        .find(|budget| budget["name"] == "http_bodies");
    let bodies = bodies.expect("it is one");
    assert_eq!(bodies["limit"], 4 * MIB);
    assert!(
        bodies["peak"].as_u64().is_some_and(|peak| peak > MIB),
        "{bodies}"
    );
    let text = place
        .say(&["--server", &format!("http://{address}"), "doctor"])
        .stdout;
    assert!(
        text.contains("in use") && text.contains("4MiB  bodies of requests"),
        "{text}"
    );
    drop(lines);
    until("all is returned", || metric("bytes") == 0);
    assert!(metric("peak_bytes") <= 4 * MIB);
    let mut line = web.line();
    assert!(line.send(whole.as_bytes()));
    assert_eq!(line.answer().expect("there is room").status, 201);
    assert!(web.get(&run)["output"].is_string());
}
