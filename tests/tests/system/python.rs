//! Plugins in Python, which `cargo xtask prepare` builds with the SDK in `guest-sdk/python`: what needs
//! the real host. The rest has the SDK's own tests.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};
use windlass_tests::harness::{Place, python};

/// A place with the component of this plugin. None: it is not built, and need not be.
fn place(name: &str) -> Option<Place> {
    // The component is large, and this build of the compiler slow.
    let place = Place::new(&[]).with("plugins.compile-timeout", "10m");
    let (component, to) = (python(name)?, place.plugins().join(name));
    // One test compiles it, into the cache of all tests, and the others wait.
    let lock = File::create(component.with_extension("lock")).expect("a file can be made");
    lock.lock().expect("a file can be locked");
    std::os::unix::fs::symlink(component, to.with_extension("wasm")).expect("a link can be made");
    let said = place.say(&["plugin", "warm"]);
    assert_eq!(said.exit, Some(0), "{said:#?}");
    Some(place)
}

fn run_with(place: &Place, options: &[&str], workflow: &Value, input: &Value) -> Value {
    let file = place.workflow("it", workflow).display().to_string();
    let input = input.to_string();
    let arguments = [options, &["-o", "json", "run", &file, "--input", &input]].concat();
    let said = place.say(&arguments);
    assert_eq!(said.exit, Some(0), "{said:#?}");
    said.json()["output"].take()
}

fn run(place: &Place, workflow: &Value, input: &Value) -> Value {
    run_with(place, &[], workflow, input)
}

/// A workflow that is one node and gives its output.
fn one(node: &str, with: Value) -> Value {
    let node = json!({ "use": node, "with": with, "input": "{{ input }}" });
    json!({ "workflow": "it", "nodes": { "it": node }, "output": "{{ nodes.it.output }}" })
}

/// A workflow that runs these nodes, and gives the failure of each.
fn failing(nodes: &[&str]) -> Value {
    let (mut all, mut edges, mut output) = (json!({}), Vec::new(), Vec::new());
    for name in nodes {
        let failure = format!("{name}_failure");
        all[name] = json!({ "use": format!("script/{name}"), "input": 1, "on-error": "route" });
        let error = format!("{{{{ nodes.{name}.output.error }}}}");
        all[&failure] = json!({ "set": { *name: error } });
        edges.push(json!({ "from": name, "to": failure, "port": "error" }));
        output.push(format!("{{{{ vars.{name} }}}}"));
    }
    json!({ "workflow": "it", "nodes": all, "edges": edges, "output": output })
}

#[test]
fn exceptions_are_failures_with_the_file_and_the_line_of_their_author() {
    let Some(place) = place("script") else { return };
    let nodes = ["bug", "caused", "refuses", "leaves", "deep"];
    let errors = run(&place, &failing(&nodes), &json!(null));
    let position = json!({ "source": "src/deep/broken.py", "line": 8, "column": 18 });
    assert_eq!(
        errors[0]["message"],
        "TypeError: 'NoneType' object is not subscriptable"
    );
    assert_eq!(errors[0]["position"], position);
    let caused = "ValueError: no customer, caused by KeyError: 'customer'";
    assert_eq!(errors[1]["message"], caused);
    assert_eq!(errors[1]["position"]["source"], "src/plugin.py");
    assert_eq!(errors[2]["class"], "invalid");
    assert_eq!(errors[2]["details"], json!({ "orders": 0 }));
    assert_eq!(errors[3]["message"], "SystemExit: 3");
    let deep = errors[4]["message"].as_str().unwrap_or_default();
    assert!(deep.starts_with("RecursionError: "), "{deep}");
}

#[test]
fn values_stay_as_they_are_and_integers_exact() {
    let Some(place) = place("script") else { return };
    let wide = json!({ "above": 9_007_199_254_740_993_i64, "text": "héllo 🎉\u{0}", "half": 0.5 });
    let workflow = one("script/echo", json!({}));
    assert_eq!(run(&place, &workflow, &wide), wide);
}

#[test]
fn print_and_logging_are_in_the_log() {
    let Some(place) = place("script") else { return };
    let said = place.say(&["plugin", "call", "script/prints", "--input", "null"]);
    assert_eq!(said.exit, Some(0), "{said:#?}");
    let expected = [
        "info  to stdout",
        "warn  to stderr",
        "error 3 orders user=ada logger=shop",
        "info  without an end",
    ];
    let lines: Vec<&str> = said.stderr.lines().collect();
    assert!(lines.windows(4).any(|it| it == expected), "{}", said.stderr);
}

#[test]
fn time_and_chance_are_those_of_the_host_and_files_are_not_there() {
    let Some(place) = place("script") else { return };
    let twice = json!({
        "workflow": "it",
        "nodes": { "a": { "use": "script/looks" }, "b": { "use": "script/looks" } },
        "output": ["{{ nodes.a.output }}", "{{ nodes.b.output }}"],
    });
    let first = run(&place, &twice, &json!(null));
    // In another process, so by another instance.
    let second = run(&place, &twice, &json!(null));
    for it in [&first[0], &first[1], &second[0]] {
        assert!(it["year"].as_u64() >= Some(2026), "{it}");
        assert!(it["now"].as_f64() > Some(1_700_000_000.0), "{it}");
        assert_eq!(it["elapsed"], true);
        assert_eq!((&it["parsed"], &it["late"]), (&json!(2), &json!("csv")));
        assert_eq!(it["environment"], 0, "{it}");
        assert_ne!(it["opened"], "opened");
    }
    for name in ["uuid", "random", "urandom"] {
        assert_ne!(first[0][name], first[1][name], "{name}");
        assert_ne!(first[0][name], second[0][name], "{name}");
    }
}

#[test]
fn a_node_polls_and_waits_with_its_state() {
    let Some(place) = place("script") else { return };
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
fn calls_that_sleep_do_not_stand_behind_each_other() {
    let Some(place) = place("script") else { return };
    // One after the other on a few processors, they would last longer than a call may.
    let all = json!({
        "for-each": "{{ range(32) }}",
        "concurrency": 32,
        "nodes": { "it": { "use": "script/sleeps", "input": 2 } },
        "output": "{{ nodes.it.output }}",
    });
    let workflow =
        json!({ "workflow": "it", "nodes": { "all": all }, "output": "{{ nodes.all.output }}" });
    let output = run(&place, &workflow, &json!(null));
    assert_eq!(output, json!(vec![true; 32]));
}

#[test]
fn memory_and_blobs_are_read_and_errors_of_the_host_have_codes() {
    let Some(place) = place("script") else { return };
    let input = json!({ "user": "ada" });
    let output = run(&place, &one("script/parts", json!({})), &input);
    let refused = json!(["permanent", "events.unavailable"]);
    let expected = json!({
        "size": 4, "read": [2, 3], "user": "ada", "refused": refused, "key": true, "attempt": 1,
    });
    assert_eq!(output, expected);
}

#[test]
fn a_consumer_decides_about_the_triggers_of_its_route() {
    let Some(place) = place("script") else { return };
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
    let Some(place) = place("letter") else { return };
    let misspelt = json!({ "text": "Dear $customer", "titel": "Hello" });
    let found = mistakes(&place, &one("letter/write", misspelt));
    assert!(found.contains("did you mean `title`?"), "{found}");
    let found = mistakes(&place, &one("letter/write", json!({ "text": "$name" })));
    assert!(found.contains("no order has $name"), "{found}");
}

#[test]
fn a_package_of_pypi_is_inside_of_a_component() {
    let Some(place) = place("letter") else { return };
    let workflow = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../examples/letter/letter.yaml"
    );
    let order = json!({ "customer": "Ada", "items": [{ "name": "Tea", "cents": 450 }] });
    let input = order.to_string();
    let said = place.say(&["-o", "json", "run", workflow, "--input", &input]);
    assert_eq!(said.exit, Some(0), "{said:#?}");
    let html = said.json()["output"].to_string();
    assert!(html.contains("<strong>4.50 €</strong>"), "{html}");
}

/// A service that answers one request, and sends its text to a test.
fn service() -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let (send, requests) = std::sync::mpsc::channel();
    // The thread ends with the process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if send.send(answer(&stream)).is_err() {
                return;
            }
        }
    });
    (format!("http://{address}"), requests)
}

fn answer(mut stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let lines = reader.by_ref().lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let length = head
        .iter()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length = length.and_then(|it| it.parse().ok()).unwrap_or_default();
    let mut body = vec![0; length];
    let _ = reader.read_exact(&mut body);
    let _ = stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 12\r\n\
          connection: close\r\n\r\n{\"id\":\"l-7\"}",
    );
    head.join("\n") + "\n\n" + &String::from_utf8_lossy(&body)
}

#[test]
fn a_letter_is_sent_with_a_secret_that_the_plugin_never_sees() {
    let Some(place) = place("letter") else { return };
    let (origin, requests) = service();
    place.file("mounted", "hidden\n");
    place.file(
        "granted.toml",
        format!(
            "[plugins]\ncompile-timeout = \"10m\"\n[plugins.grants.letter]\nhttp = [\"{origin}\"]\n\
             secrets = [\"MAIL\"]\nfile = \"letter.wasm\"\n\
             [secrets]\nMAIL = {{ file = \"mounted\", to = [\"{origin}\"], workflows = [\"it\"] }}\n"
        ),
    );
    let with = json!({ "url": origin, "key": { "secret": "MAIL" }, "tags": ["a b"] });
    let letter = json!({ "title": "Hello", "html": "<p>ä</p>" });
    let options = ["--config", "granted.toml"];
    let output = run_with(&place, &options, &one("letter/send", with), &letter);
    assert_eq!(output, json!({ "id": "l-7" }));
    let request = requests.recv().expect("it was asked");
    assert!(request.starts_with("POST /?tag=a+b "), "{request}");
    assert!(request.contains("authorization: hidden"), "{request}");
    assert!(
        request.ends_with("{\"title\":\"Hello\",\"html\":\"<p>ä</p>\"}"),
        "{request}"
    );
}
