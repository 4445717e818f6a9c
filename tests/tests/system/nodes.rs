//! `windlass plugin doc`, and the pages of the library that it writes. `BLESS=1` writes them anew.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_tests::harness::{Listener, Place, component, response};

/// The packages of the library.
const LIBRARY: [&str; 7] = [
    "audit",
    "chain-executor",
    "data",
    "events",
    "http",
    "human",
    "text",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The shop to which the examples of `http` talk, in the order of their names. It is the proxy of the
/// host, which looks no name up.
fn shop() -> Listener {
    let json = ["content-type: application/json"];
    let order = br#"{ "id": 7, "total": 59.8 }"#;
    let missing = br#"{ "error": "there is no order 8" }"#;
    let answers = [
        response("200 OK", &json, order),
        response("404 Not Found", &json, missing),
        response("201 Created", &["location: /orders/9"], b""),
    ];
    Listener::start(move |number| answers.get(number).cloned())
}

/// The page of a package of the library, with the examples beside its sources.
fn written(place: &Place, package: &str) -> String {
    let examples = root().join("plugins").join(package).join("examples");
    let examples = examples.display().to_string();
    let said = place.say(&["plugin", "doc", package, "--examples", &examples]);
    assert_eq!(said.exit, Some(0), "{said:#?}");
    assert!(!said.stderr.contains("warning"), "{said:#?}");
    said.stdout
}

#[test]
fn the_pages_of_the_library_are_those_that_the_command_writes() {
    let shop = shop();
    let place = Place::new(&["audit", "data", "events", "http", "human", "text"])
        .with_http("http", r#"["http://shop.example"]"#)
        .with_proof("events")
        .with("plugins.grants.events.events", "true")
        .with_variable("HTTP_PROXY", &shop.origin());
    let pages = root().join("docs/nodes");
    let index = std::fs::read_to_string(root().join("docs/nodes.md")).expect("it can be read");
    for package in LIBRARY {
        let page = written(&place, package);
        for part in page.split("\n## ").skip(1) {
            assert!(part.contains("\n### Example: "), "no example in {part}");
        }
        let file = pages.join(package).with_extension("md");
        if std::env::var_os("BLESS").is_some() {
            std::fs::create_dir_all(&pages).expect("a directory can be made");
            std::fs::write(&file, &page).expect("a file can be written");
        }
        let there = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            there == page,
            "docs/nodes/{package}.md differs; run with BLESS=1 to accept:\n{page}"
        );
        assert!(
            index.contains(&format!("(nodes/{package}.md)")),
            "{package}"
        );
    }
    let files = std::fs::read_dir(&pages).expect("the folder is there");
    assert_eq!(
        files.count(),
        LIBRARY.len(),
        "each page is one of a package"
    );
    let asked: Vec<String> = shop.received().into_iter().map(|it| it.path).collect();
    let expected = ["orders/7?fields=id&fields=total", "orders/8", "orders"];
    assert_eq!(
        asked,
        expected.map(|path| format!("http://shop.example/{path}"))
    );
}

/// A node takes the members that its page has, and each has a text there.
#[test]
fn the_pages_of_the_library_have_each_member_of_with() {
    let place = Place::new(&["data", "events", "http", "human", "text"]);
    let mut seen = 0;
    for package in ["data", "events", "http", "human", "text"] {
        let file = root().join("docs/nodes").join(package).with_extension("md");
        let page = std::fs::read_to_string(file).expect("it can be read");
        let shown = place.ask(&["-o", "json", "plugin", "inspect", package, "--schemas"]);
        let shown: Value = serde_json::from_str(&shown).expect("it is JSON");
        for node in shown["nodes"].as_array().expect("a plugin has nodes") {
            let head = format!("## `{}`\n", node["id"].as_str().expect("it has an id"));
            let (_, section) = page.split_once(&head).expect("the page has each node");
            let section = section.split("\n### Input\n").next().unwrap_or_default();
            let fields = node["config"]["properties"].as_object();
            for (name, _) in fields.into_iter().flatten() {
                let row = format!("| `{name}` | ");
                let row = section.lines().find(|line| line.starts_with(&row));
                let row = row.unwrap_or_else(|| panic!("no row of {name} in {head}"));
                let about = row.trim_end_matches(" |").rsplit(" | ").next();
                assert!(about.is_some_and(|it| it.ends_with('.')), "{row}");
                seen += 1;
            }
        }
    }
    assert!(seen > 15, "the nodes have {seen} members");
}

#[test]
fn a_page_is_written_of_a_file_with_the_results_of_its_examples() {
    let place = Place::new(&["shout"]);
    let examples = place.path("examples");
    std::fs::create_dir(&examples).expect("a directory can be made");
    let write = |name: &str, text: &str| {
        let example = json!({
            "node": "shout",
            "input": { "text": "hello" },
            "expect": { "output": { "text": text } },
        });
        std::fs::write(examples.join(name), example.to_string()).expect("a file can be written");
    };
    write("right.json", "HELLO");
    write("wrong.json", "hello");
    let file = component("shout").display().to_string();
    let folder = examples.display().to_string();
    let (out, name) = (place.path("page.md"), "page.md");
    let doc = ["plugin", "doc", &file, "--examples", &folder];
    let said = place.say(&[&doc[..], &["--out", name]].concat());
    assert_eq!(
        (said.exit, said.stdout.as_str()),
        (Some(0), ""),
        "{said:#?}"
    );
    assert!(said.stderr.contains("page.md is written"), "{said:#?}");
    let warned = "the example wrong has another result: `output` has to be {\"text\":\"hello\"}";
    assert!(said.stderr.contains(warned), "{said:#?}");
    let page = std::fs::read_to_string(&out).expect("it is there");
    for part in [
        "# `text-tools`",
        "## `text-tools/shout`",
        "| `text` | text | yes |",
        "### Example: `wrong`",
        "{ \"text\": \"HELLO\" }",
    ] {
        assert!(page.contains(part), "no {part} in\n{page}");
    }

    // Of a package by its name, and as JSON. Without a folder there are no examples.
    assert_eq!(place.ask(&doc), page);
    let named = place.ask(&["-o", "json", "plugin", "doc", "text-tools"]);
    let named: Value = serde_json::from_str(&named).expect("it is JSON");
    let without = page.split("\n### Example").next().map(Value::from);
    assert_eq!(Some(&named["page"]), without.as_ref());

    let missing = place.say(&["plugin", "doc", "text-tolls"]);
    assert_eq!(missing.exit, Some(41), "{missing:#?}");
    assert!(missing.stderr.contains("ean `text-tools`?"), "{missing:#?}");
    let nowhere = place.say(&[&doc[..], &["--out", "no/page.md"]].concat());
    assert!(
        nowhere.stderr.contains("no/page.md cannot be written"),
        "{nowhere:#?}"
    );
    assert_ne!(nowhere.exit, Some(0));
    let remote = place.say(&["plugin", "doc", "data", "--server", "http://127.0.0.1:9"]);
    assert!(remote.stderr.contains("WL-C043"), "{remote:#?}");
}
