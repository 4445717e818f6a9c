//! Answers that clients do not read: they stay within their budget, and leave room for others.

use serde_json::{Value, json};
use windlass_tests::harness::{Line, Place, Web, request, until};

/// Bytes of the input and of the output of a run.
const VALUE: usize = 3_000_000;

const MIB: u64 = 1024 * 1024;

/// A host with a run whose description is twice the value, and a hook that answers with the value.
fn web(settings: &[(&str, &str)]) -> (Place, Web, String) {
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
    let id = web.start("big", &Value::from("x".repeat(VALUE)));
    assert_eq!(web.result(&id)["status"], "completed");
    (place, web, format!("/api/v1/runs/{id}"))
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
fn answers_that_nobody_reads_stay_within_their_budget() {
    let (_place, web, run) = web(&[("server.answers", "64MiB")]);
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
    assert_eq!(read["output"].as_str().map(str::len), Some(VALUE));
}

#[test]
fn a_client_that_reads_nothing_is_cut_off_and_a_slow_one_is_not() {
    let (_place, web, run) = web(&[("server.stall-timeout", "1500ms")]);
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
        assert!(answer.body.len() > 2 * VALUE);
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
