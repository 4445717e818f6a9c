//! `--server`: the requests of a command, and its output for each answer. The host is a listener
//! with prepared answers, so that every answer can be tested.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::thread::JoinHandle;

use serde_json::{Value, json};
use windlass_tests::harness::{Place, Said};

/// The first line, the token and the body of each request.
type Asked = Vec<(String, String, String)>;

/// Answers one request after the other, and returns the requests.
fn host(answers: Vec<(u16, Value)>) -> (String, JoinHandle<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let asked = std::thread::spawn(move || {
        let answers = answers.into_iter();
        let asked = answers.map(|(status, body)| {
            let (mut stream, _) = listener.accept().expect("a client connects");
            let mut lines = BufReader::new(stream.try_clone().expect("a stream"));
            let (mut first, mut token, mut length) = (String::new(), String::new(), 0);
            lines.read_line(&mut first).expect("a request");
            loop {
                let mut line = String::new();
                lines.read_line(&mut line).expect("a header");
                let line = line.trim_end().to_ascii_lowercase();
                if let Some(value) = line.strip_prefix("authorization: ") {
                    value.clone_into(&mut token);
                }
                if let Some(value) = line.strip_prefix("content-length: ") {
                    length = value.parse().expect("a length");
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut text = vec![0; length];
            lines.read_exact(&mut text).expect("a body");
            let body = body.to_string();
            write!(
                stream,
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n\
                 connection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .expect("it listens");
            let first = first.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
            (first, token, String::from_utf8(text).expect("text"))
        });
        asked.collect()
    });
    (address, asked)
}

/// Runs a command against a host with these answers. Returns its output and the requests.
fn ask(command: &[&str], answers: Vec<(u16, Value)>) -> (Said, Vec<String>) {
    let place = Place::new(&[]);
    let (address, asked) = host(answers);
    let mut arguments = vec!["-o", "jsonl", "--server", &address];
    arguments.extend(command);
    let said = place.say(&arguments);
    let asked = asked.join().expect("it was asked");
    (said, asked.into_iter().map(|(first, ..)| first).collect())
}

const ID: &str = "0193c0de-7a1b-7c3d-8e4f-0123456789ab";

#[test]
fn a_list_is_read_page_by_page_and_shown_as_from_a_store() {
    let run = |id: &str| {
        json!({
            "id": id, "workflow": "w", "definition": "sha256:1", "status": "running",
            "correlation": null, "tags": {}, "created": "2026-01-01T00:00:00Z", "finished": null,
            "failure": null, "parent": null,
        })
    };
    let first = json!({ "items": [run("1")], "next": "more" });
    let second = json!({ "items": [run("2")] });
    let command = ["runs", "list", "--status", "running", "--limit", "7"];
    let (said, asked) = ask(&command, vec![(200, first), (200, second)]);
    assert_eq!(said.exit, Some(0), "{said:?}");
    assert_eq!(
        asked,
        [
            "GET /api/v1/runs?status=running&limit=7",
            "GET /api/v1/runs?status=running&limit=6&cursor=more",
        ]
    );
    let shown: Vec<Value> = said
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(shown.len(), 2);
    let keys: Vec<&str> = shown[0]
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    let mut of_store = [
        "id",
        "workflow",
        "status",
        "correlation",
        "created",
        "finished",
        "failure",
        "parent",
        "tags",
    ];
    let mut keys = keys;
    keys.sort_unstable();
    of_store.sort_unstable();
    assert_eq!(keys, of_store);
}

/// Runs a command for people against a host with these answers.
fn ask_for_people(command: &[&str], answers: Vec<(u16, Value)>) -> (Said, Vec<String>) {
    let place = Place::new(&[]);
    let (address, asked) = host(answers);
    let said = place.say(&[&["--server", &address], command].concat());
    let asked = asked.join().expect("it was asked");
    (said, asked.into_iter().map(|(first, ..)| first).collect())
}

#[test]
fn a_list_says_how_many_runs_there_are_and_how_it_goes_on() {
    let run = |id: &str| {
        json!({
            "id": id, "workflow": "w", "status": "faulted", "correlation": "order 7",
            "tags": { "customer": "acme" }, "created": "2026-01-01T00:00:00Z",
            "finished": "2026-01-01T00:00:01Z",
            "failure": { "class": "permanent", "code": "WL-R001", "message": "no" },
        })
    };
    let page = json!({
        "items": [run("1"), run("2")], "next": "more", "searched_to": "2026-01-01T00:00:00Z",
        "matching": { "count": 212, "exact": true },
    });
    let command = [
        "runs",
        "list",
        "--limit",
        "2",
        "--tag",
        "customer=acme",
        "--failure",
        "WL-R001",
        "--since",
        "2026-01-01T00:00:00Z",
        "--parent",
        ID,
        "--cursor",
        "before",
    ];
    let (said, asked) = ask_for_people(&command, vec![(200, page)]);
    assert_eq!(said.exit, Some(0), "{said:?}");
    let expected = format!(
        "GET /api/v1/runs?since=2026-01-01T00%3A00%3A00Z&failure=WL-R001&parent={ID}\
        &tag=customer%3Dacme&count=true&limit=2&cursor=before"
    );
    assert_eq!(asked, [expected]);
    assert!(said.stdout.contains("order 7"), "{said:?}");
    assert!(said.stdout.contains("WL-R001"), "{said:?}");
    assert_eq!(said.stderr, "2 of 212 runs; more with `--cursor more`\n");
}

#[test]
fn a_list_without_a_run_ends_and_says_how_far_it_has_searched() {
    let empty = |at: u32| {
        let page = json!({
            "items": [], "next": format!("c{at}"), "searched_to": format!("2026-01-{at}T00:00:00Z"),
            "matching": { "count": 0, "exact": false },
        });
        (200, page)
    };
    let answers = (10..20).map(empty).collect();
    let command = ["runs", "list", "--status", "faulted"];
    let (said, asked) = ask_for_people(&command, answers);
    assert_eq!(said.exit, Some(0), "{said:?}");
    let last = "GET /api/v1/runs?status=faulted&limit=20&cursor=c18";
    assert_eq!(asked.last().map(String::as_str), Some(last));
    let note = "no run found; searched back to 2026-01-19T00:00:00Z; more with `--cursor c19`\n";
    assert_eq!(said.stderr, note);
}

#[test]
fn the_token_is_brought_and_the_event_is_sent() {
    let place = Place::new(&[]);
    let sent = json!({ "started": [ID], "resumed": [], "reserved": [], "buffered": false,
        "dropped": false, "more": false });
    let (address, asked) = host(vec![(200, sent)]);
    let mut command = place.windlass();
    command
        .env("WINDLASS_SERVER", &address)
        .env("WINDLASS_TOKEN", "hush-hush")
        .args(["event", "send", "paid", "--match", "{\"order\":7}"])
        .args(["--input", "amount=3"]);
    let output = command.output().expect("it runs");
    let said = String::from_utf8(output.stdout).expect("text");
    assert_eq!(said, format!("started  {ID}\n"));
    let asked = asked.join().expect("it was asked");
    let (first, token, body) = &asked[0];
    assert_eq!(first, "POST /api/v1/stimuli");
    assert_eq!(token, "bearer hush-hush");
    let body: Value = serde_json::from_str(body).expect("JSON");
    let request = json!({ "name": "paid", "match": { "order": 7 }, "input": { "amount": 3 },
        "ttl": "3600000ms" });
    assert_eq!(body, request);
}

#[test]
fn a_result_is_waited_for_and_decides_the_exit_code() {
    let outcome = |status: &str, done: bool, failure: Value| json!({ "id": ID, "status": status, "done": done, "output": null, "failure": failure });
    let failure = json!({ "class": "permanent", "code": "WL-R073", "message": "no" });
    let answers = vec![
        (202, outcome("running", false, Value::Null)),
        (200, outcome("faulted", true, failure)),
    ];
    let (said, asked) = ask(&["runs", "result", ID, "--wait"], answers);
    assert_eq!(said.exit, Some(10), "{said:?}");
    assert_eq!(said.error()["code"], "WL-R073");
    assert_eq!(asked.len(), 2);
    // After 3 s the command would say that no host has taken the run.
    for asked in asked {
        let wait = asked.strip_prefix(&format!("GET /api/v1/runs/{ID}/result?wait="));
        let wait = wait.and_then(|wait| wait.strip_suffix("ms"));
        let wait: u64 = wait.expect("it waits").parse().expect("a number");
        assert!((2_000..=3_000).contains(&wait), "{asked}");
    }
}

fn check_problem(status: u16, code: &str, exit: i32, expected: &str) {
    let problem = json!({ "type": "/errors/X", "title": "x", "status": status, "code": code,
        "detail": "it is so", "help": "do this" });
    let (said, _) = ask(&["runs", "cancel", ID], vec![(status, problem)]);
    assert_eq!(said.exit, Some(exit), "{status} {code}: {said:?}");
    assert_eq!(said.error()["code"], expected);
}

#[test]
fn problems_are_our_errors() {
    check_problem(401, "WL-H001", 31, "WL-C042");
    check_problem(404, "WL-R072", 41, "WL-R072");
    check_problem(409, "WL-R131", 40, "WL-R131");
    check_problem(422, "WL-H005", 2, "WL-H005");
    check_problem(503, "WL-H006", 30, "WL-H006");
}

#[test]
fn a_server_that_is_no_windlass_is_unreachable() {
    let (said, _) = ask(&["lock", "list"], vec![(200, json!({ "items": [] }))]);
    assert_eq!(said.exit, Some(0));
    let (said, _) = ask(&["lock", "list"], vec![(418, json!("teapot"))]);
    assert_eq!(said.exit, Some(30));
    let said = Place::new(&[]).say(&[
        "-o",
        "jsonl",
        "--server",
        "http://127.0.0.1:1",
        "lock",
        "list",
    ]);
    assert_eq!(said.exit, Some(30));
    assert_eq!(said.error()["code"], "WL-C041");
}

#[test]
fn commands_that_a_host_does_not_offer_are_refused_here() {
    let said = Place::new(&[]).say(&[
        "-o",
        "jsonl",
        "--server",
        "http://127.0.0.1:1",
        "store",
        "check",
    ]);
    assert_eq!(said.exit, Some(2));
    assert_eq!(said.error()["code"], "WL-C043");
}
