//! Plugins in C: a project that `windlass plugin new` makes and its author changes, and the plugin of the
//! examples, which `cargo xtask prepare` builds.

use std::path::Path;

use serde_json::{Value, json};
use windlass_tests::harness::{Listener, Place, c, clang, response, until, zig};

/// A place in which the program finds a compiler for C. None: it is not installed, and need not be.
fn place() -> Option<Place> {
    let (programs, cache) = zig()?;
    let path = std::env::var("PATH").expect("there is a path");
    let path = format!("{}:{path}", programs.display());
    let place = Place::new(&[])
        .with("plugins.compile-timeout", "10m")
        .with_variable("PATH", &path)
        .with_variable("ZIG_GLOBAL_CACHE_DIR", &cache.display().to_string());
    Some(place)
}

/// Says a command that has to succeed.
#[track_caller]
fn ask(place: &Place, arguments: &[&str]) -> Value {
    let said = place.say(&[&["-o", "json"][..], arguments].concat());
    assert_eq!(said.exit, Some(0), "{said:#?}");
    said.json()
}

/// Replaces a text of a file, which has to have it.
#[track_caller]
fn edit(file: &Path, old: &str, new: &str) {
    let text = std::fs::read_to_string(file).expect("a file can be read");
    assert!(text.contains(old), "{} has no `{old}`", file.display());
    std::fs::write(file, text.replace(old, new)).expect("a file can be written");
}

/// The workflow of one node.
fn one(node: &str, with: Value) -> Value {
    let node = json!({ "use": node, "with": with, "input": "{{ input }}" });
    json!({ "workflow": "it", "nodes": { "it": node }, "output": "{{ nodes.it.output }}" })
}

#[test]
fn a_new_project_is_tested_built_and_used_by_a_running_host() {
    let Some(place) = place() else { return };
    ask(
        &place,
        &["plugin", "new", "greeter", "--lang", "c", "--kind", "both"],
    );
    let project = place.path("greeter");
    for file in ["src/greet.c", "test/greet.c", "examples/greet.json"] {
        edit(&project.join(file), "Hello, ", "Good morning, ");
    }
    let serve = place.serve();
    // It also puts the component into the folder of the host.
    let cases = ask(&place, &["plugin", "test", "greeter"]);
    let cases = cases.as_array().expect("a report is a list");
    let passed = cases.iter().filter(|case| case["end"] == "passed").count();
    assert!(passed >= 15, "{cases:#?}");

    // In a folder of another name, without the files of the first build, the bytes are the same.
    let moved = place.path("moved");
    std::fs::rename(&project, &moved).expect("a folder can be renamed");
    std::fs::remove_dir_all(moved.join("build")).expect("a folder can be deleted");
    let built = ask(&place, &["plugin", "build", "moved"]);
    assert_eq!(
        (&built["changed"], &built["pure"]),
        (&json!(false), &json!(true))
    );
    assert!(built["bytes"].as_u64() < Some(100 << 10), "{built:#}");

    until("the host has loaded the plugin", || {
        let said = serve.stderr();
        let mut lines = said.lines();
        lines.any(|line| line.contains("INFO loaded") && line.contains("greeter.wasm"))
    });
    let file = place.workflow("it", &one("greeter/greet", json!({})));
    let file = file.display().to_string();
    let id = place.ask(&["runs", "start", &file, "--input", "name=Zoë"]);
    let said = place.ask(&["-o", "json", "runs", "result", id.trim(), "--wait"]);
    let said: Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!(said["output"], json!({ "greeting": "Good morning, Zoë!" }));
}

#[test]
fn a_source_in_cpp_is_built_and_its_mistake_keeps_the_old_component() {
    let Some(place) = place() else { return };
    ask(&place, &["plugin", "new", "broken", "--lang", "c"]);
    let source = place.path("broken/src/greet.cc");
    std::fs::rename(source.with_extension("c"), &source).expect("a file can be renamed");
    edit(&source, "wl_text name =", "auto name =");
    ask(&place, &["plugin", "build", "broken"]);
    edit(&source, "return wl_invalid", "retrun wl_invalid");
    let said = place.say(&["plugin", "build", "broken"]);
    assert_eq!(said.exit, Some(21), "{said:#?}");
    assert!(said.stderr.contains("src/greet.cc:7:"), "{}", said.stderr);
    let input = json!({ "name": "Ada" }).to_string();
    let called = ask(
        &place,
        &["plugin", "call", "broken/greet", "--input", &input],
    );
    assert_eq!(called["output"]["greeting"], "Hello, Ada!");
}

#[test]
fn clang_of_debian_builds_and_tests_a_project_with_its_own_libc() {
    let Some(path) = clang() else { return };
    let place = Place::new(&[])
        .with("plugins.compile-timeout", "10m")
        .with_variable("PATH", path);
    ask(
        &place,
        &["plugin", "new", "greeter", "--lang", "c", "--kind", "both"],
    );
    let source = place.path("greeter/src/greet.c");
    edit(
        &source,
        "#include \"plugin.h\"",
        "#include <stdio.h>\n#include \"plugin.h\"",
    );
    edit(
        &source,
        "  wl_text name =",
        "  printf(\"%.2f\\n\", 2.5);\n  wl_text name =",
    );
    let cases = ask(&place, &["plugin", "test", "greeter"]);
    let cases = cases.as_array().expect("a report is a list");
    let passed = cases.iter().filter(|case| case["end"] == "passed").count();
    assert!(passed >= 15, "{cases:#?}");
    let built = ask(&place, &["plugin", "build", "greeter"]);
    assert_eq!(built["pure"], json!(true));
    assert!(built["bytes"].as_u64() < Some(100 << 10), "{built:#}");
    let call = ["plugin", "call", "greeter/greet", "--input", "name=Ada"];
    let said = place.say(&[&["-o", "json"][..], &call].concat());
    assert_eq!(said.json()["output"]["greeting"], "Hello, Ada!");
    assert!(said.stderr.contains("2.50"), "{said:#?}");
}

#[test]
fn a_compiler_that_is_missing_is_named_with_its_installation() {
    let bare = Place::new(&[]);
    ask(&bare, &["plugin", "new", "greeter", "--lang", "c"]);
    let tools = bare.path("tools");
    std::fs::create_dir(&tools).expect("a folder can be made");
    for tool in ["make", "sh"] {
        let path = std::env::var_os("PATH").expect("there is a path");
        let mut found = std::env::split_paths(&path).map(|folder| folder.join(tool));
        let Some(found) = found.find(|file| file.is_file()) else {
            eprintln!("NOT RUN: there is no {tool}");
            return;
        };
        std::os::unix::fs::symlink(found, tools.join(tool)).expect("a link can be made");
    }
    let bare = bare.with_variable("PATH", &tools.display().to_string());
    let said = bare.say(&["plugin", "build", "greeter"]);
    assert_eq!(said.exit, Some(21), "{said:#?}");
    assert!(said.stderr.contains("pip install ziglang"), "{said:#?}");
}

/// A place with the module of this plugin. None: it is not built, and need not be.
fn with(name: &str) -> Option<Place> {
    let place = Place::new(&[]);
    let to = place.plugins().join(name).with_extension("wasm");
    std::os::unix::fs::symlink(c(name)?, to).expect("a link can be made");
    Some(place)
}

fn run(place: &Place, workflow: &Value, input: &Value) -> Value {
    let file = place.workflow("it", workflow).display().to_string();
    ask(place, &["run", &file, "--input", &input.to_string()])["output"].take()
}

#[test]
fn the_functions_of_the_host_answer_a_node_in_c() {
    let Some(place) = with("script") else { return };
    let input = json!({ "user": "ada" });
    let expected = json!({
        "size": 4, "part": "\u{0}b", "user": "ada", "none": true, "refused": "events.unavailable",
        "path": "memory.invalid-path", "run": 36, "node": "it", "workflow": "it", "attempt": 1,
        "keyed": true, "correlation": false, "in-time": true, "chance": true, "clock": true,
        "cancelled": false,
    });
    assert_eq!(
        run(&place, &one("script/look", json!({})), &input),
        expected
    );
    let wide = json!({ "above": 9_007_199_254_740_993_i64, "text": "héllo 🎉\u{0}", "half": 0.5 });
    assert_eq!(run(&place, &one("script/echo", json!({})), &wide), wide);
    let polled = run(&place, &one("script/poll", json!({})), &json!(null));
    assert_eq!(polled, json!({ "polls": 3 }));
}

#[test]
fn a_request_of_a_node_in_c_is_sent_and_its_answer_is_read() {
    let listener = Listener::start(|_| {
        let headers = ["content-type: text/plain", "X-Id: 7"];
        Some(response("200 OK", &headers, b"body"))
    });
    let Some(place) = with("script") else { return };
    let place = place.with_http("script", &format!("[{:?}]", listener.origin()));
    let with = json!({ "url": format!("{}/a?b=c", listener.origin()) });
    let file = place.workflow("it", &one("script/reach", with));
    let input = json!({ "order": 7 }).to_string();
    let said = place.say(&[
        "-o",
        "json",
        "run",
        &file.display().to_string(),
        "--input",
        &input,
    ]);
    // The request and the blob of its answer went well; events are not granted.
    let text = said.stdout + &said.stderr;
    assert!(text.contains("events.unavailable"), "{text}");
    let received = listener.received();
    assert_eq!(received[0].body, b"{\"order\":7}");
    assert_eq!(received[0].header("content-type"), Some("application/json"));
    assert_eq!(received[0].header("authorization"), Some("none"));
}

#[test]
fn a_consumer_in_c_decides_about_the_triggers_of_its_route() {
    let Some(place) = with("script") else { return };
    let place = place.with_consumer("script");
    let mut workflow = one("script/echo", json!({}));
    workflow["nodes"]["it"]["route"] = json!("script");
    workflow["output"] = json!("{{ vars.accepted }}");
    assert_eq!(run(&place, &workflow, &json!(1)), json!("start"));
}

#[test]
fn the_plugin_of_the_examples_takes_its_ports() {
    let Some(place) = with("iban") else { return };
    let workflow = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/iban/iban.yaml");
    let output = |iban: &str| {
        let input = json!({ "iban": iban }).to_string();
        ask(&place, &["run", workflow, "--input", &input])["output"].take()
    };
    assert_eq!(
        output("DE89 3704 0044 0532 0130 00"),
        "booked DE89370400440532013000"
    );
    assert_eq!(output("GB82WEST12345698765432"), "asked again");
    assert_eq!(ask(&place, &["plugin", "inspect", "iban"])["pure"], true);
}

#[test]
fn a_check_in_c_finds_a_mistake_before_a_run() {
    let Some(place) = with("iban") else { return };
    let file = place.workflow("it", &one("iban/check", json!({ "country": "US" })));
    let said = place.say(&["workflow", "validate", &file.display().to_string()]);
    assert_ne!(said.exit, Some(0), "{said:#?}");
    let text = said.stderr + &said.stdout;
    assert!(text.contains("US has no IBAN"), "{text}");
}
