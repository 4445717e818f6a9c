//! `windlass plugin test` on components: what the suite finds, and how it reports it.

use serde_json::{Value, json};
use windlass_tests::harness::{Place, component};

/// The names of the tests with this end, without what follows the colon.
fn named(report: &Value, end: &str) -> Vec<String> {
    let cases = report.as_array().expect("it is a list").iter();
    let names = cases.filter(|case| case["end"] == end).map(|case| {
        let name = case["name"].as_str().expect("it has a name");
        name.split(':').next().unwrap_or(name).to_owned()
    });
    names.collect()
}

fn test(place: &Place, name: &str, more: &[&str]) -> (Option<i32>, Value) {
    let file = component(name).display().to_string();
    let said = place.say(&[&["-o", "json", "plugin", "test", &file], more].concat());
    let report = serde_json::from_str(&said.stdout);
    (
        said.exit,
        report.unwrap_or_else(|error| panic!("{error}: {said:#?}")),
    )
}

#[test]
fn a_component_that_keeps_the_rules_passes_the_suite() {
    let place = Place::new(&[]);
    for name in ["echo", "shout", "text"] {
        let (exit, report) = test(&place, name, &[]);
        assert_eq!(
            (exit, named(&report, "failed")),
            (Some(0), Vec::new()),
            "{name}: {report:#}"
        );
        assert!(named(&report, "passed").len() >= 8, "{name}: {report:#}");
    }
}

#[test]
fn a_component_that_remembers_its_calls_fails_where_it_matters() {
    let place = Place::new(&[]);
    let xml = place.path("report.xml");
    let junit = xml.display().to_string();
    let (exit, report) = test(&place, "counter", &["--junit", &junit]);
    assert_eq!(exit, Some(21));
    let expected = ["instances", "reuse", "deadline", "purity"];
    assert_eq!(named(&report, "failed"), expected, "{report:#}");
    let xml = std::fs::read_to_string(xml).expect("it is there");
    assert_eq!(xml.matches("<failure ").count(), expected.len(), "{xml}");
}

#[test]
fn an_example_fails_unless_the_result_is_the_expected_one() {
    let place = Place::new(&[]);
    let examples = place.path("examples");
    std::fs::create_dir(&examples).expect("a directory can be made");
    let write = |name: &str, example: &Value| {
        std::fs::write(examples.join(name), example.to_string()).expect("a file can be written");
    };
    let call = |text: &str| {
        json!({
            "node": "text-tools/shout",
            "input": { "text": "hello" },
            "expect": { "output": { "text": text } },
        })
    };
    write("right.json", &call("HELLO"));
    write("wrong.json", &call("hello"));
    write(
        "refused.json",
        &json!({ "node": "shout", "expect": { "error": "invalid" } }),
    );
    let folder = examples.display().to_string();
    let (exit, report) = test(&place, "shout", &["--examples", &folder]);
    assert_eq!(
        (exit, named(&report, "failed")),
        (Some(21), vec!["wrong".to_owned()])
    );
    let passed = named(&report, "passed");
    assert!(passed.contains(&"right".into()) && passed.contains(&"refused".into()));

    // A mistake in a file is told with its place.
    write("wrong.json", &json!({ "node": "shot" }));
    let file = component("shout").display().to_string();
    let said = place.say(&["plugin", "test", &file, "--examples", &folder]);
    assert_eq!(said.exit, Some(21));
    let told = said.stderr;
    assert!(
        told.contains("WL-U035") && told.contains("wrong.json"),
        "{told}"
    );
    assert!(told.contains("did you mean `shout`?"), "{told}");
}

#[test]
fn a_bench_measures_each_node_alone_at_once_and_in_fresh_instances() {
    let place = Place::new(&[]);
    let file = component("shout").display().to_string();
    let short = ["--seconds", "1", "--at-once", "3"];
    let bench = |file: &str, more: &[&str]| {
        let said =
            place.say(&[&["-o", "json", "plugin", "bench", file][..], &short, more].concat());
        let rows = serde_json::from_str::<Vec<Value>>(&said.stdout).unwrap_or_default();
        (said, rows)
    };
    let (said, rows) = bench(&file, &[]);
    let own: Vec<_> = rows
        .iter()
        .filter(|row| {
            row["node"]
                .as_str()
                .is_some_and(|node| node.starts_with("text-tools/"))
        })
        .map(|row| (row["manner"].as_str(), row["callers"].as_u64()))
        .collect();
    let manners = [("warm", 1), ("at-once", 3), ("fresh", 1)];
    let manners = manners.map(|(manner, callers)| (Some(manner), Some(callers)));
    assert_eq!(own, manners, "{said:#?}");
    for row in &rows {
        assert!(row["calls"].as_u64() > Some(10), "{row}");
        assert!(row["p50_us"].as_u64() <= row["p99_us"].as_u64(), "{row}");
        assert!(row["memory_bytes"].as_u64() > Some(0), "{row}");
    }
    let refused = place.say(&["plugin", "bench", &file, "--seconds", "0"]);
    assert_eq!(refused.exit, Some(2), "{refused:#?}");
    let none = place.say(&["plugin", "bench", "nowhere.wasm"]);
    assert!(none.stderr.contains("nowhere.wasm"), "{none:#?}");
    assert_ne!(none.exit, Some(0));
}
