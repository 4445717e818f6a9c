//! Plugins in Go: a project from an empty folder to a run, and the example that `cargo xtask prepare`
//! builds. This build of the compiler is slow on a module of Go, so each test has one.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use serde_json::{Value, json};
use windlass_tests::harness::{Place, go, go_variables, until};

/// Nodes beside those of the template.
const PARTS: &str = include_str!("../../go/parts.go");

/// Runs a command, however long it takes, to its successful end, and returns its stdout.
fn ran(place: &Place, arguments: &[&str]) -> String {
    let mut command = place.windlass();
    command.args(arguments);
    // The component is dropped into the folder of the host later.
    command.env("WINDLASS_PLUGINS__DIRECTORY", place.path("built"));
    let output = command.output().expect("the program can be run");
    let (told, said) = (&output.stdout, &output.stderr);
    let (told, said) = (String::from_utf8_lossy(told), String::from_utf8_lossy(said));
    assert!(output.status.success(), "{arguments:?}: {told}\n{said}");
    told.into_owned()
}

/// A workflow that is one node, and gives its output or the failure in `error`.
fn one(node: &str) -> Value {
    json!({
        "workflow": "it",
        "nodes": {
            "it": { "use": node, "input": "{{ input }}", "on-error": "route" },
            "failure": { "set": { "error": "{{ nodes.it.output.error }}" } },
        },
        "edges": [{ "from": "it", "to": "failure", "port": "error" }],
        "output": { "output": "{{ nodes.it.output }}", "error": "{{ vars.error | default(none) }}" },
    })
}

/// Starts a run on the host, and returns its output.
fn started(place: &Place, node: &str, input: &Value) -> Value {
    let file = place.workflow("it", &one(node)).display().to_string();
    let input = input.to_string();
    let id = place.ask(&["runs", "start", &file, "--input", &input]);
    let said = place.ask(&["-o", "json", "runs", "result", id.trim(), "--wait"]);
    serde_json::from_str::<Value>(&said).expect("it is JSON")["output"].take()
}

/// Replaces a text of a file that has it once.
fn edit(file: &Path, old: &str, new: &str) {
    let text = std::fs::read_to_string(file).expect("it can be read");
    assert_eq!(text.matches(old).count(), 1, "{text}");
    std::fs::write(file, text.replace(old, new)).expect("it can be written");
}

#[test]
fn a_project_is_made_changed_tested_dropped_in_and_used() {
    let Some(variables) = go_variables() else {
        return;
    };
    let mut place = Place::new(&[]).with("plugins.compile-timeout", "10m");
    for (name, value) in &variables {
        place = place.with_variable(name, value);
    }
    ran(
        &place,
        &["plugin", "new", "greeter", "--lang", "go", "--kind", "both"],
    );
    edit(
        &place.path("greeter/greet.go"),
        "person.Name == \"\"",
        "person.Name == \"\" || person.Name == \"Mallory\"",
    );
    place.file("greeter/parts.go", PARTS);
    let report = ran(&place, &["-o", "json", "plugin", "test", "greeter"]);
    let report: Value = serde_json::from_str(&report).expect("it is JSON");
    let cases = report.as_array().expect("it is a list");
    assert!(
        cases.iter().all(|case| case["end"] != "failed"),
        "{report:#}"
    );
    for suite in ["own", "examples", "conformance"] {
        let passed = |case: &&Value| case["suite"] == suite && case["end"] == "passed";
        assert!(cases.iter().any(|case| passed(&case)), "{report:#}");
    }

    let serve = place.serve();
    let built = place.path("built/greeter.wasm");
    std::fs::rename(built, place.plugins().join("greeter.wasm")).expect("a file can be moved");
    until("the host has loaded it", || {
        let said = serve.stderr();
        said.lines().any(|line| line.contains("greeter.wasm"))
    });
    let run = |node: &str, input: Value| started(&place, node, &input);
    let greeting = run("greeter/greet", json!({ "name": "Zoë" }));
    assert_eq!(
        greeting["output"],
        json!({ "greeting": "Hello, Zoë!" }),
        "{greeting}"
    );
    let refused = run("greeter/greet", json!({ "name": "Mallory" }));
    assert_eq!(refused["error"]["class"], "invalid", "{refused}");

    let bug = &run("greeter/bug", json!({}))["error"];
    assert_eq!(bug["message"], "panic: assignment to entry in nil map");
    let line = PARTS
        .lines()
        .position(|line| line.contains("the line of the panic"));
    let line = line.map_or(0, |line| line + 1);
    let position = json!({ "source": "parts.go", "line": line, "column": 1 });
    assert_eq!(bug["position"], position, "{bug}");

    let parts = &run("greeter/parts", json!({ "user": "ada" }))["output"];
    let expected = json!({
        "user": "ada", "size": 10, "read": "34", "refused": "events.unavailable", "key": "k",
        "attempt": 1, "none": [],
    });
    assert_eq!(parts, &expected);
    let wide = json!({ "above": 9_007_199_254_740_993_i64, "text": "héllo 🎉\u{0}", "half": 0.5 });
    assert_eq!(run("greeter/wide", wide.clone())["output"], wide);
    let waits = &run("greeter/waits", json!({}))["output"];
    let expected = json!({
        "reason": "expired", "bookmark": "paid", "phase": 4, "state": { "polls": 3 },
    });
    assert_eq!(waits, &expected);
}

/// A service that answers one request with a rate, and sends the head of the request to the test.
fn rates() -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let (send, heads) = std::sync::mpsc::channel();
    // The thread ends with the process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if send.send(answer(&stream)).is_err() {
                return;
            }
        }
    });
    (format!("http://{address}"), heads)
}

fn answer(mut stream: &TcpStream) -> String {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let _ = stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 12\r\n\
          connection: close\r\n\r\n{\"rate\":1.5}",
    );
    head.join("\n")
}

#[test]
fn the_example_checks_reads_csv_and_asks_with_a_secret_that_it_never_sees() {
    let Some(module) = go("ledger") else { return };
    let place = Place::new(&[]).with("plugins.compile-timeout", "10m");
    let to = place.plugins().join("ledger.wasm");
    std::os::unix::fs::symlink(module, to).expect("a link can be made");
    let (origin, heads) = rates();
    place.file("mounted", "hidden\n");
    place.file(
        "granted.toml",
        format!(
            "[plugins.grants.ledger]\nhttp = [\"{origin}\"]\nsecrets = [\"RATES\"]\n\
             file = \"ledger.wasm\"\n[secrets]\n\
             RATES = {{ file = \"mounted\", to = [\"{origin}\"], workflows = [\"it\"] }}\n"
        ),
    );
    let run = |workflow: &str, input: &Value| {
        let (input, json) = (input.to_string(), ["-o", "json"]);
        let more = [
            "--config",
            "granted.toml",
            "run",
            workflow,
            "--input",
            &input,
        ];
        let mut command = place.windlass();
        let output = command.args(json).args(more).output();
        let output = output.expect("the program can be run");
        assert!(output.status.success(), "{output:?}");
        let said: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        said["output"].clone()
    };
    let ledger = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../examples/ledger/ledger.yaml"
    );
    let statement = json!({ "statement": "account,amount\na,12.50\na,-2\n" });
    let balances = json!([{ "account": "a", "cents": 1050 }]);
    assert_eq!(run(ledger, &statement), balances);

    let mut convert = one("ledger/convert");
    convert["nodes"]["it"]["with"] =
        json!({ "url": origin, "to": "USD", "key": { "secret": "RATES" } });
    let file = place.workflow("it", &convert).display().to_string();
    let converted = run(&file, &json!({ "cents": 333 }));
    assert_eq!(converted["output"], json!({ "cents": 500 }), "{converted}");
    let head = heads.recv().expect("it was asked").to_lowercase();
    assert!(head.starts_with("get /?to=usd "), "{head}");
    assert!(head.contains("authorization: hidden"), "{head}");

    let mut wrong = one("ledger/sum");
    wrong["nodes"]["it"]["with"] = json!({ "account": "x", "amount": "x" });
    let file = place.workflow("it", &wrong).display().to_string();
    let said = place.say(&["workflow", "validate", &file]);
    assert_ne!(said.exit, Some(0), "{said:#?}");
    let text = format!("{}{}", said.stdout, said.stderr);
    assert!(text.contains("one column cannot be both"), "{text}");
}
