//! Plugins in JavaScript and TypeScript, which `cargo xtask prepare` builds with the SDK in
//! `guest-sdk/js`: what needs the real host. The rest has the SDK's own tests.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use serde_json::{Value, json};
use windlass_tests::harness::{Place, javascript, until};

/// A place with the components of these plugins. None: they are not built, and need not be.
fn place(names: &[&str]) -> Option<Place> {
    let place = Place::new(&[]);
    for name in names {
        let to = place.plugins().join(name).with_extension("wasm");
        std::os::unix::fs::symlink(javascript(name)?, to).expect("a link can be made");
    }
    Some(place)
}

fn run(place: &Place, workflow: &Value, input: &Value) -> Value {
    let file = place.workflow("it", workflow).display().to_string();
    let input = input.to_string();
    let said = place.say(&["-o", "json", "run", &file, "--input", &input]);
    assert_eq!(said.exit, Some(0), "{said:#?}");
    said.json()["output"].take()
}

/// A workflow that is one node and gives its output.
fn one(node: &str, with: Value) -> Value {
    let node = json!({ "use": node, "with": with, "input": "{{ input }}" });
    json!({ "workflow": "it", "nodes": { "it": node }, "output": "{{ nodes.it.output }}" })
}

/// A workflow that is one node and gives its failure.
fn failing(node: &str) -> Value {
    json!({
        "workflow": "it",
        "nodes": {
            "it": { "use": node, "input": {}, "on-error": "route" },
            "failure": { "set": { "error": "{{ nodes.it.output.error }}" } },
        },
        "edges": [{ "from": "it", "to": "failure", "port": "error" }],
        "output": "{{ vars.error }}",
    })
}

#[test]
fn an_exception_has_the_file_and_the_line_of_its_author() {
    let Some(place) = place(&["script"]) else {
        return;
    };
    // The second is thrown in an asynchronous function.
    for node in ["script/bug", "script/rejects"] {
        let error = run(&place, &failing(node), &json!(null));
        let message = "TypeError: cannot read property 'name' of undefined";
        assert_eq!(error["message"], json!(message));
        let position = json!({ "source": "src/deep/broken.js", "line": 8, "column": 10 });
        assert_eq!(error["position"], position);
    }
}

#[test]
fn failures_keep_their_class_and_details() {
    let Some(place) = place(&["script"]) else {
        return;
    };
    let error = run(&place, &failing("script/refuses"), &json!(null));
    assert_eq!(error["class"], json!("invalid"));
    assert_eq!(error["details"], json!({ "orders": 0 }));
}

#[test]
fn timers_and_endless_promises_say_how_to_wait() {
    let Some(place) = place(&["script"]) else {
        return;
    };
    for (node, part) in [
        ("script/timer", "setTimeout does not exist in a plugin"),
        ("script/forever", "the promise is never settled"),
    ] {
        let error = run(&place, &failing(node), &json!(null));
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.contains(part), "{message}");
        assert!(message.contains("return again("), "{message}");
    }
}

#[test]
fn promises_settle_and_integers_stay_exact() {
    let Some(place) = place(&["script"]) else {
        return;
    };
    let promises = run(&place, &one("script/promises", json!({})), &json!(3));
    let expected = json!({ "seen": [1, 2, 3], "all": [1, 2, 3], "settled": "rejected" });
    assert_eq!(promises, expected);

    let wide = json!({ "above": 9_007_199_254_740_993_i64, "below": i64::MIN, "half": 0.5 });
    let echo = run(&place, &one("script/echo", json!({})), &wide);
    assert_eq!(echo, wide);
}

#[test]
fn globals_that_the_engine_lacks_are_there_and_differ_between_calls() {
    let Some(place) = place(&["script"]) else {
        return;
    };
    let twice = json!({
        "workflow": "it",
        "nodes": {
            "a": { "use": "script/globals" },
            "b": { "use": "script/globals" },
        },
        "output": ["{{ nodes.a.output }}", "{{ nodes.b.output }}"],
    });
    let output = run(&place, &twice, &json!(null));
    for it in [&output[0], &output[1]] {
        let url = "https://x.example:8443/a?b=c+d&f=%C3%A4#e";
        assert_eq!(it["url"], json!(url));
        assert_eq!(it["text"], json!("héllo 🎉"));
        assert_eq!(it["clone"], json!({ "a": [1, { "b": 2 }] }));
        assert_eq!(it["parsed"], json!("2026-01-02T03:04:05.000Z"));
        assert_eq!(it["bytes"], json!(true));
        // Not the moment at which the component was built.
        assert!(it["now"].as_u64() > Some(1_700_000_000_000), "{it}");
    }
    for name in ["uuid", "random"] {
        assert_ne!(output[0][name], output[1][name], "{name}");
    }
}

#[test]
fn a_node_polls_and_waits_with_its_state() {
    let Some(place) = place(&["script"]) else {
        return;
    };
    let output = run(&place, &one("script/waits", json!({})), &json!(null));
    let expected = json!({
        "reason": "expired",
        "bookmark": "paid",
        "phase": 4,
        "state": { "polls": 3 },
    });
    assert_eq!(output, expected);
}

#[test]
fn memory_and_blobs_are_read_and_errors_of_the_host_have_codes() {
    let Some(place) = place(&["script"]) else {
        return;
    };
    let output = run(
        &place,
        &one("script/parts", json!({})),
        &json!({ "user": "ada" }),
    );
    let refused = json!(["permanent", "events.unavailable"]);
    let expected = json!({ "size": 4, "read": [2, 3], "user": "ada", "refused": refused });
    assert_eq!(output, expected);
}

#[test]
fn a_consumer_decides_about_the_triggers_of_its_route() {
    let Some(place) = place(&["script"]) else {
        return;
    };
    let place = place.with_consumer("script");
    let mut workflow = one("script/echo", json!({}));
    workflow["nodes"]["it"]["route"] = json!("script");
    workflow["output"] = json!("{{ vars.accepted }}");
    assert_eq!(run(&place, &workflow, &json!(1)), json!("start"));
}

/// What `workflow validate` says about a workflow with mistakes.
fn mistakes(place: &Place, workflow: &Value) -> String {
    let file = place.workflow("it", workflow).display().to_string();
    let said = place.say(&["workflow", "validate", &file]);
    assert_ne!(said.exit, Some(0), "{said:#?}");
    said.stderr + &said.stdout
}

#[test]
fn types_and_checks_find_mistakes_before_a_run() {
    let Some(place) = place(&["script", "quote"]) else {
        return;
    };
    let checked = mistakes(&place, &one("script/checked", json!({ "pattern": "" })));
    assert!(checked.contains("the pattern is empty"), "{checked}");
    let misspelt = mistakes(&place, &one("quote/best", json!({ "carrier": ["x"] })));
    assert!(misspelt.contains("did you mean `carriers`?"), "{misspelt}");
}

#[test]
fn a_component_in_javascript_is_dropped_in_and_uses_a_package_of_npm() {
    let Some(component) = javascript("slug") else {
        return;
    };
    let place = Place::new(&[]);
    let serve = place.serve();
    let new = place.file("new", std::fs::read(component).expect("it can be read"));
    std::fs::rename(new, place.plugins().join("slug.wasm")).expect("a file can be moved");
    until("the host has loaded it", || {
        serve
            .stderr()
            .lines()
            .any(|line| line.contains("slug.wasm"))
    });
    let inspected = place.ask(&["plugin", "inspect", "slug"]);
    assert!(inspected.contains("pure"), "{inspected}");
    assert!(!inspected.contains("wasi:"), "{inspected}");
    let workflow = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/slug/slug.yaml");
    let workflow = workflow.display().to_string();
    let id = place.ask(&["runs", "start", &workflow, "--input", "title=Über uns"]);
    let said = place.ask(&["-o", "json", "runs", "result", id.trim(), "--wait"]);
    let result: Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!(result["output"], json!("uber_uns"));
}

/// A carrier that answers each request with this price, and sends the head of each to a test.
fn carrier(cents: u32) -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let origin = format!(
        "http://{}",
        listener.local_addr().expect("it has an address")
    );
    let (send, heads) = std::sync::mpsc::channel();
    // The thread ends with the process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let head = answer(&stream, cents);
            if send.send(head).is_err() {
                return;
            }
        }
    });
    (origin, heads)
}

fn answer(mut stream: &TcpStream, cents: u32) -> String {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let body = json!({ "cents": cents }).to_string();
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    );
    head.join("\n")
}

#[test]
fn typescript_asks_two_services_with_a_secret_that_it_never_sees() {
    let Some(place) = place(&["quote"]) else {
        return;
    };
    let ((dear, _dear), (cheap, heads)) = (carrier(520), carrier(390));
    place.file("mounted", "hidden\n");
    let granted = json!([dear, cheap]);
    place.file(
        "granted.toml",
        format!(
            "[plugins.grants.quote]\nhttp = {granted}\nsecrets = [\"CARRIERS\"]\nfile = \"quote.wasm\"\n\
             [secrets]\nCARRIERS = {{ file = \"mounted\", to = {granted}, workflows = [\"it\"] }}\n"
        ),
    );
    let with = json!({ "carriers": [dear, cheap], "key": { "secret": "CARRIERS" } });
    let file = place
        .workflow("it", &one("quote/best", with))
        .display()
        .to_string();
    let parcel = json!({ "grams": 500, "country": "DE" }).to_string();
    let said = place.say(&[
        "--config",
        "granted.toml",
        "-o",
        "json",
        "run",
        &file,
        "--input",
        &parcel,
    ]);
    assert_eq!(said.exit, Some(0), "{said:#?}");
    let expected = json!({ "carrier": cheap, "cents": 390 });
    assert_eq!(said.json()["output"], expected);
    let head = heads.recv().expect("it was asked");
    assert!(head.starts_with("GET /?grams=500&to=DE "), "{head}");
    assert!(head.contains("authorization: hidden"), "{head}");
}
