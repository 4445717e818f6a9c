//! Plugins in C and Go: core modules as the compilers of these languages write them, which
//! `cargo xtask prepare` builds from `tests/foreign`, dropped into the folder of plugins.

use serde_json::{Value, json};
use windlass_tests::harness::{Place, Said, foreign};

/// A place with this module in its folder. None: it is not built, and need not be.
fn place(name: &str) -> Option<Place> {
    // The module of Go is large, and this build of the compiler slow.
    let place = Place::new(&[]).with("plugins.compile-timeout", "10m");
    let to = place.plugins().join(name).with_extension("wasm");
    std::os::unix::fs::symlink(foreign(name)?, to).expect("a link can be made");
    Some(place)
}

fn call(place: &Place, node: &str, input: &Value) -> Said {
    let input = input.to_string();
    place.say(&["-o", "json", "plugin", "call", node, "--input", &input])
}

#[track_caller]
fn output(said: &Said) -> Value {
    assert_eq!(said.exit, Some(0), "{said:#?}");
    said.json()["output"].take()
}

fn run(place: &Place, node: &str, input: &Value) -> Value {
    let workflow = json!({
        "workflow": "it",
        "nodes": { "it": { "use": node, "input": "{{ input }}" } },
        "output": "{{ nodes.it.output }}",
    });
    let file = place.workflow("it", &workflow).display().to_string();
    let input = input.to_string();
    let said = place.say(&["-o", "json", "run", &file, "--input", &input]);
    output(&said)
}

/// Asserts that what a call says contains these texts.
#[track_caller]
fn says(place: &Place, node: &str, texts: &[&str]) {
    let said = format!("{:?}", call(place, node, &json!(null)));
    for text in texts {
        assert!(said.contains(text), "{said}");
    }
}

#[track_caller]
fn is_pure(place: &Place, package: &str) {
    let said = place.say(&["-o", "json", "plugin", "inspect", package]);
    assert_eq!(said.exit, Some(0), "{said:#?}");
    assert_eq!(said.json()["pure"], json!(true), "{said:#?}");
}

#[test]
fn a_module_in_c_prints_looks_and_waits() {
    let Some(place) = place("c") else { return };
    is_pure(&place, "c");
    assert_eq!(run(&place, "c/prints", &json!(null)), json!("printed"));
    let lines = ["printed 1", "2.50", "3 without an end"];
    says(&place, "c/prints", &lines);
    let looks = output(&call(&place, "c/looks", &json!(null)));
    assert_eq!(looks["file"], json!(false));
    assert_eq!(looks["stdin"], json!(-1));
    assert_eq!(looks["terminal"], json!(1));
    assert_eq!(looks["variables"], json!(0));
    assert_eq!(looks["home"], json!(false));
    let times = output(&call(&place, "c/times", &json!(null)));
    assert_eq!(times["slept"], json!(true));
    assert_eq!(times["random"], json!(true));
    assert_eq!(times["beyond"], json!(0));
    assert!(times["second"].as_i64() > Some(1_700_000_000));
    let stderr = "the end of its stderr: nothing works";
    says(&place, "c/aborts", &[stderr]);
    says(&place, "c/exits", &["ended its program with the status 3"]);
}

#[test]
fn a_module_in_go_prints_looks_and_waits() {
    let Some(place) = place("go") else { return };
    is_pure(&place, "go");
    let upper = run(&place, "go/upper", &json!({ "text": "grün" }));
    assert_eq!(upper, json!("GRÜN"));
    let looks = output(&call(&place, "go/looks", &json!(null)));
    assert_eq!(looks["file"], json!(true), "a file cannot be read");
    assert_eq!(looks["variables"], json!(0));
    assert_eq!(looks["random"], json!(true));
    assert!(looks["second"].as_i64() > Some(1_700_000_000));
    let sleeps = output(&call(&place, "go/sleeps", &json!(null)));
    assert_eq!(sleeps, json!(true));
    let panic = "the end of its stderr: panic: assignment to entry in nil map";
    says(&place, "go/panics", &[panic]);
    says(&place, "go/exits", &["ended its program with the status 3"]);
}
