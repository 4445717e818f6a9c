//! Mistakes that are known before a run: all in one go, with the settings for a missing grant.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_tests::harness::Place;

const BASE: &str = r#"workflow: base
input: { type: object, properties: { n: { type: integer } }, additionalProperties: false }
vars: { currency: EUR }
nodes:
  a: { use: data/jq, with: { filter: ".x" } }
  b: { set: { n: "{{ input.n }}", c: "{{ vars.currency }}" } }
  c: { use: steps/note, with: { message: "hello" } }
  d: { use: echo/echo, input: "{{ nodes.a.output }}" }
  e: { wait: 1s }
  f: { use: echo/echo, on-error: route }
  g: { use: echo/echo, join: any }
  h: { use: text/template, with: { template: "{{ a }}" } }
edges:
  - a -> b
  - b -> c: input.n > 1
  - c -> d
  - d -> e
  - e -> f
  - f -> g
  - f.error -> g
  - g -> h
"#;

/// Mistakes: the text that is replaced, the text in its place, and the code of the mistake.
const MISTAKES: [(&str, &str, &str); 12] = [
    ("\".x\"", "\".x | lenth\"", "WL-D112"),
    ("{{ input.n }}", "{{ input.m }}", "WL-D087"),
    ("vars.currency", "vars.curency", "WL-D090"),
    ("message: \"hello\"", "lines: 3", "WL-D111"),
    ("{{ nodes.a.output }}", "{{ nodes.g.output }}", "WL-D086"),
    ("wait: 1s", "wait: 1 parsec", "WL-D010"),
    ("d: { use: echo/echo", "d: { use: echo/ecko", "WL-D110"),
    ("b -> c: input.n > 1", "b -> c: input.n >", "WL-D060"),
    ("- c -> d", "- c.left -> d", "WL-D081"),
    ("join: any", "joim: any", "WL-D003"),
    ("- e -> f", "- e => f", "WL-D008"),
    ("- g -> h", "- g -> hhhhh", "WL-D070"),
];

/// Whether a mistake hides another: without an edge, its ways are unknown.
fn hides(a: &str, b: &str) -> bool {
    let pair = [a, b];
    pair.contains(&"WL-D086") && (pair.contains(&"WL-D008") || pair.contains(&"WL-D070"))
}

/// The codes that the program tells about each of these files.
fn codes(place: &Place, files: &[String]) -> Vec<BTreeSet<String>> {
    let mut command = vec!["-o", "jsonl", "workflow", "validate"];
    command.extend(files.iter().map(String::as_str));
    let said = place.say(&command);
    let of = |line: &str| {
        let file: Value = serde_json::from_str(line).expect("a line is JSON");
        let listed = |key: &str| file[key].as_array().cloned().unwrap_or_default();
        let all = listed("diagnostics").into_iter().chain(listed("warnings"));
        all.filter_map(|found| found["code"].as_str().map(str::to_owned))
            .collect()
    };
    said.stdout.lines().map(of).collect()
}

#[test]
fn of_two_mistakes_each_is_told() {
    let place = Place::new(&["echo", "steps", "data", "text"]);
    let (mut files, mut expected) = (Vec::new(), Vec::new());
    let mut file = |mistakes: &[usize]| {
        let mut text = BASE.to_owned();
        let mut wanted = BTreeSet::new();
        for at in mistakes {
            let (from, to, code) = MISTAKES[*at];
            assert!(text.contains(from), "{from}");
            text = text.replacen(from, to, 1);
            wanted.insert(code.to_owned());
        }
        let path = place.file(&format!("case{}.yaml", files.len()), text);
        files.push(path.display().to_string());
        expected.push(wanted);
    };
    file(&[]);
    for (first, (_, _, code)) in MISTAKES.iter().enumerate() {
        file(&[first]);
        for (second, (_, _, other)) in MISTAKES.iter().enumerate().skip(first + 1) {
            if !hides(code, other) {
                file(&[first, second]);
            }
        }
    }
    let found = codes(&place, &files);
    assert_eq!(found.len(), expected.len());
    let mut wrong = Vec::new();
    for ((file, expected), found) in files.iter().zip(&expected).zip(&found) {
        if expected != found {
            wrong.push(format!("{file}: expected {expected:?}, found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn publishing_and_starting_tell_the_mistakes_of_all_stages() {
    let place = Place::new(&["echo", "steps", "data", "text"]);
    let mut text = BASE.to_owned();
    let mut wanted = BTreeSet::new();
    // Of the plugin, of the analysis, of the form.
    for at in [0, 1, 5] {
        let (from, to, code) = MISTAKES[at];
        text = text.replacen(from, to, 1);
        wanted.insert(code.to_owned());
    }
    let file = place.file("wrong.yaml", &text).display().to_string();
    for command in [["workflow", "publish"].as_slice(), &["run"]] {
        let said = place.say(&[&["-o", "jsonl"], command, &[&file]].concat());
        assert_eq!(said.exit, Some(20), "{said:#?}");
        let error = said.error();
        let found = error["diagnostics"].as_array().cloned().unwrap_or_default();
        let placed = found.iter().all(|it| it["line"].is_number());
        assert!(placed, "{error:#}");
        let codes = found.iter().filter_map(|it| it["code"].as_str());
        let codes: BTreeSet<String> = codes.map(str::to_owned).collect();
        assert_eq!(codes, wanted, "{command:?}: {error:#}");
    }
}

#[test]
fn a_missing_library_is_told_with_its_setting() {
    let place = Place::new(&["echo"]);
    let workflow = json!({
        "workflow": "filter",
        "nodes": { "a": { "use": "data/jq", "with": { "filter": "." } } },
    });
    let file = place.workflow("filter", &workflow).display().to_string();
    let empty = tempfile::tempdir().expect("a folder can be made");
    let empty = empty.path().display().to_string();
    for (folder, why) in [
        ("/nowhere", "/nowhere is not a directory"),
        (&empty, "has no such component"),
    ] {
        let setting = format!("plugins.library={folder}");
        let validate = ["workflow", "validate", &file, "--set", &setting];
        let said = place.say(&[&["-o", "jsonl"], &validate[..]].concat());
        assert_eq!(said.exit, Some(20), "{said:#?}");
        let found = &said.json()["diagnostics"][0];
        assert_eq!(found["code"], "WL-D110", "{said:#?}");
        let help = found["help"].as_str().unwrap_or_default();
        assert!(
            help.starts_with("`data` is a part of the node library:"),
            "{help}"
        );
        assert!(help.contains(why), "{help}");
    }
}

#[test]
fn a_request_without_a_grant_is_told_before_and_after_with_the_settings() {
    let place = Place::new(&["http"]);
    let workflow = json!({
        "workflow": "fetch",
        "nodes": { "get": { "use": "http/request", "with": { "url": "http://127.0.0.1:9/x/{{ run.id }}" } } },
    });
    let file = place.workflow("fetch", &workflow).display().to_string();
    let said = place.say(&["-o", "jsonl", "workflow", "validate", &file]);
    assert_eq!(said.exit, Some(0), "{said:#?}");
    let warning = &said.json()["warnings"][0];
    assert_eq!(warning["code"], "WL-D092", "{said:#?}");
    let settings = "[plugins.grants.http]\nhttp = [\"http://127.0.0.1:9\"]";
    let help = warning["help"].as_str().unwrap_or_default();
    assert!(help.contains(settings), "{help}");

    let said = place.say(&["run", &file]);
    assert_eq!(said.exit, Some(10), "{said:#?}");
    assert!(said.stderr.contains("WL-D092"), "{}", said.stderr);
    let needed = "the section [plugins.grants.http] needs `http = [\"http://127.0.0.1:9\"]`";
    assert!(said.stderr.contains(needed), "{}", said.stderr);

    // With the settings, the request is sent, and nothing listens there.
    let granted = [
        "run",
        &file,
        "--set",
        "plugins.grants.http.http=[\"http://127.0.0.1:9\"]",
    ];
    let said = place.say(&granted);
    assert!(!said.stderr.contains("is not granted"), "{}", said.stderr);
}

#[test]
fn a_child_is_known_by_its_file_or_by_its_publication() {
    let place = Place::new(&["echo"]);
    let parent =
        |child: &str| json!({ "workflow": "parent", "nodes": { "a": { "workflow": child } } });
    let file = place
        .workflow("parent", &parent("child-flwo"))
        .display()
        .to_string();
    place.file(
        "other.yaml",
        "workflow: child-flow\nnodes: { a: { use: echo/echo } }\n",
    );
    let validated = |file: &str| {
        place
            .say(&["-o", "jsonl", "workflow", "validate", file])
            .json()
    };
    let warning = &validated(&file)["warnings"][0];
    assert_eq!(warning["code"], "WL-D091", "{warning}");
    assert_eq!(warning["help"], "did you mean `child-flow`?");
    let file = place
        .workflow("parent", &parent("child-flow"))
        .display()
        .to_string();
    assert_eq!(
        validated(&file)["warnings"],
        json!([]),
        "it is in a file beside"
    );
}
