//! Secrets reach only the destinations to which they are bound, by definitions that refer to them,
//! and do not appear in results.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_tests::harness::{Place, Said};

const SECRET: &str = "correct-horse/battery";

/// A server that records the heads of requests, and echoes each request in several encodings.
struct Echo {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Echo {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let heads = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&heads);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut seen = Vec::new();
                let mut buffer = [0; 4096];
                while !seen.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut buffer) {
                        Ok(read) if read > 0 => seen.extend_from_slice(&buffer[..read]),
                        _ => break,
                    }
                }
                let head = String::from_utf8_lossy(&seen).into_owned();
                let hex: String = seen.iter().map(|byte| format!("{byte:02x}")).collect();
                let body = json!({ "plain": head, "base64": STANDARD.encode(&seen), "hex": hex });
                let body = body.to_string();
                kept.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(head);
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                     content-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        Self { address, heads }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far.
    fn heads(&self) -> Vec<String> {
        let heads = self.heads.lock();
        heads.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn has_seen_the_secret(&self) -> bool {
        self.heads().iter().any(|head| head.contains(SECRET))
    }
}

/// A place whose plugin may send requests to both servers, and its secret to the first.
fn place(good: &Echo, other: &Echo) -> Place {
    let place = Place::new(&["http"]);
    place.file("mounted", format!("{SECRET}\n"));
    let config = format!(
        "[plugins.grants.http]\nhttp = [\"{0}\", \"{1}\"]\nsecrets = [\"price\"]\n\
         [secrets]\nprice = {{ file = \"mounted\", to = [\"{0}\"], workflows = [\"prices\"] }}\n",
        good.url(),
        other.url()
    );
    place.file("granted.toml", config);
    place
}

/// Runs a workflow that sends one request with these headers.
fn send(place: &Place, name: &str, to: &Echo, headers: &Value, input: &Value) -> Said {
    let workflow = json!({
        "workflow": name,
        "nodes": { "ask": { "use": "http/request@1", "with": { "url": to.url(), "headers": headers } } },
        "output": "{{ nodes.ask.output }}",
    });
    let file = place.workflow(name, &workflow);
    let (file, input) = (file.display().to_string(), input.to_string());
    let arguments = ["--config", "granted.toml", "run", &file, "--input", &input];
    place.say(&arguments)
}

#[test]
fn a_secret_that_a_definition_names_is_sent_and_does_not_come_back() {
    let (good, other) = (Echo::start(), Echo::start());
    let place = place(&good, &other);
    let literal = json!({ "authorization": { "secret": "price" } });
    let said = send(&place, "prices", &good, &literal, &json!({}));
    assert_eq!(said.exit, Some(0), "{said:#?}");
    assert!(good.has_seen_the_secret(), "{:?}", good.heads());
    for encoded in [
        SECRET.to_owned(),
        STANDARD.encode(SECRET).trim_end_matches('=').to_owned(),
        SECRET.bytes().map(|byte| format!("{byte:02x}")).collect(),
    ] {
        assert!(!said.stdout.contains(&encoded), "{said:#?}");
    }
    assert_eq!(
        said.stdout.matches("[secret price]").count(),
        3,
        "{said:#?}"
    );
    // The store does not contain it either.
    for file in ["store/windlass.db", "store/windlass.db-wal"] {
        let bytes = std::fs::read(place.path(file)).unwrap_or_default();
        let secret = SECRET.as_bytes();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret));
    }
}

#[test]
fn a_trace_shows_a_secret_by_its_name() {
    let (good, other) = (Echo::start(), Echo::start());
    let place = place(&good, &other);
    let headers = json!({ "authorization": { "secret": "price" } });
    for (record, source) in [("outputs", "recomputed"), ("inputs", "recorded")] {
        let ask = json!({ "use": "http/request@1", "input": { "a": "{{ input.n }}" },
            "with": { "url": "{{ input.url }}", "headers": headers } });
        let workflow = json!({ "workflow": "prices", "nodes": { "ask": ask },
            "options": { "record": record } });
        let file = place.workflow(record, &workflow).display().to_string();
        let input = json!({ "n": 1.50, "url": good.url() }).to_string();
        let said = place.say(&["--config", "granted.toml", "run", &file, "--input", &input]);
        assert_eq!(said.exit, Some(0), "{said:#?}");
        let list = place.ask(&["runs", "list", "--limit", "1", "-o", "json"]);
        let list: Value = serde_json::from_str(&list).expect("it is JSON");
        let id = list[0]["id"].as_str().expect("there is a run");
        let trace = place.ask(&["runs", "trace", id, "--inputs", "-o", "json"]);
        assert!(!trace.contains(SECRET), "{trace}");
        let trace: Value = serde_json::from_str(&trace).expect("it is JSON");
        let (with, input) = (&trace[0]["with"], &trace[0]["input"]);
        assert_eq!(
            (&with["source"], &input["source"]),
            (&json!(source), &json!(source)),
            "{trace}"
        );
        assert_eq!(with["value"]["headers"], headers);
        assert_eq!(input["value"], json!({ "a": 1.5 }));
        let text = place.ask(&["runs", "trace", id, "--inputs"]);
        assert!(
            text.contains(r#"{"secret":"price"}"#) && text.contains(r#"input {"a":1.5"#),
            "{text}"
        );
    }
    for file in ["store/windlass.db", "store/windlass.db-wal"] {
        let bytes = std::fs::read(place.path(file)).unwrap_or_default();
        let secret = SECRET.as_bytes();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret));
    }
}

#[test]
fn a_prefix_stands_before_a_secret_and_a_reference_in_a_text_is_told() {
    let (good, other) = (Echo::start(), Echo::start());
    let place = place(&good, &other);
    let prefixed = json!({
        "authorization": { "secret": "price", "prefix": "Bearer " },
        "x-key": { "secret": "price" },
    });
    let said = send(&place, "prices", &good, &prefixed, &json!({}));
    assert_eq!(said.exit, Some(0), "{said:#?}");
    let head = good.heads().remove(0).to_ascii_lowercase();
    assert!(
        head.contains(&format!("authorization: bearer {SECRET}\r\n")),
        "{head}"
    );
    assert!(head.contains(&format!("x-key: {SECRET}\r\n")), "{head}");
    assert!(!said.stdout.contains(SECRET), "{said:#?}");
    let text = json!({ "authorization": "Bearer { secret: price }" });
    let said = send(&place, "prices", &good, &text, &json!({}));
    assert!(said.stderr.contains("WL-D168"), "{said:#?}");
    let help = "{ secret: price, prefix: \"Bearer \" }";
    assert!(said.stderr.contains(help), "{said:#?}");
}

#[test]
fn data_names_no_secret() {
    let (good, other) = (Echo::start(), Echo::start());
    let place = place(&good, &other);
    let by_data = json!({ "x-copy": "{{ input.value }}" });
    let beside = json!({ "authorization": { "secret": "price" }, "x-copy": "{{ input.value }}" });
    let within = json!({ "x-copy": { "secret": "{{ input.value.secret }}" } });
    for headers in [by_data, beside, within] {
        let input = json!({ "value": { "secret": "price" } });
        let said = send(&place, "prices", &good, &headers, &input);
        assert_eq!(said.exit, Some(10), "{said:#?}");
        assert!(said.stderr.contains("price"), "{said:#?}");
    }
    assert_eq!(good.heads(), Vec::<String>::new());
}

#[test]
fn a_secret_goes_to_its_destinations_and_for_its_workflows() {
    let (good, other) = (Echo::start(), Echo::start());
    let place = place(&good, &other);
    let literal = json!({ "authorization": { "secret": "price" } });
    let elsewhere = send(&place, "prices", &other, &literal, &json!({}));
    let by_another = send(&place, "others", &good, &literal, &json!({}));
    for said in [elsewhere, by_another] {
        assert_eq!(said.exit, Some(10), "{said:#?}");
    }
    assert_eq!(good.heads(), Vec::<String>::new());
    assert_eq!(other.heads(), Vec::<String>::new());
}

/// A workflow is checked without the values of secrets, and what it lacks is told with the settings.
#[test]
fn a_workflow_is_checked_without_values_of_secrets() {
    let place = Place::new(&["http"]);
    let settings = "[secrets]\nother = { env = \"WINDLASS_TEST_NEVER_SET\" }\n";
    let trusted = |text: &str| {
        place.file("windlass.toml", text);
        place.ask(&["trust"]);
    };
    trusted(settings);
    place.file(
        "plain.yaml",
        "workflow: plain\nnodes: { a: { set: { b: 1 } } }\n",
    );
    let valid = place.say(&["workflow", "validate", "plain.yaml"]);
    assert_eq!(valid.exit, Some(0), "{valid:?}");
    assert!(
        valid.stderr.contains("WINDLASS_TEST_NEVER_SET"),
        "{valid:?}"
    );
    let node = "{ use: http/request, with: { url: 'https://a.example/x', headers: { x: { secret: no-such } } } }";
    place.file(
        "asks.yaml",
        format!("workflow: asks\nnodes: {{ a: {node} }}\n"),
    );
    let said = place.say(&["workflow", "validate", "asks.yaml"]).stderr;
    for text in [
        "WL-D172",
        "this host has no secret `no-such`",
        "no-such = { env = \"NO_SUCH\", to = [\"https://a.example\"] }",
        "[plugins.grants.http]",
        "secrets = [\"no-such\"]",
    ] {
        assert!(said.contains(text), "{text}: {said}");
    }
}
