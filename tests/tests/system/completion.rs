//! The schema for editors: it knows the node types of the library and of the project, takes every
//! example, and refuses a member that a plugin does not take.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_model::file::read;
use windlass_tests::harness::{Place, component, until};

const LIBRARY: [&str; 5] = ["data", "events", "http", "human", "text"];

const FILE: &str = ".windlass/workflow.schema.json";

fn validator(schema: &Value) -> jsonschema::Validator {
    let options = jsonschema::options().offline();
    options.build(schema).expect("it is a schema")
}

/// The workflow files below a directory of the repository.
fn workflows(directory: &str, is_one: fn(&str) -> bool) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut found, mut directories) = (Vec::new(), vec![root.join(directory)]);
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("it can be read") {
            let path = entry.expect("it can be read").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && !["node_modules", "target"].contains(&&*name) {
                directories.push(path);
            } else if name.ends_with(".yaml") && is_one(&name) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The canonical JSON of a file; none: it is no right workflow.
fn canonical(file: &Path) -> Option<Value> {
    let text = std::fs::read_to_string(file).expect("it can be read");
    let read = read(&text, &file.to_string_lossy());
    read.definition.as_ref()?;
    serde_json::from_slice(&read.canonical()?).ok()
}

#[test]
fn the_schema_takes_every_example_and_refuses_a_wrong_member() {
    let place = Place::new(&LIBRARY);
    let schema: Value = serde_json::from_str(&place.ask(&["workflow", "schema"])).expect("JSON");
    let validator = validator(&schema);
    let good = workflows("host/model/tests/cases", |name| name.starts_with("good-"));
    let examples = workflows("examples", |_| true);
    let mut checked = 0;
    for file in good.iter().chain(&examples) {
        let Some(workflow) = canonical(file) else {
            // A configuration of another program, or an example of mistakes.
            continue;
        };
        let found = validator.validate(&workflow).err().map(|it| it.to_string());
        assert_eq!(found, None, "{}", file.display());
        checked += 1;
    }
    assert!(checked > 18, "{checked} files");
    let with = |node: &str, with: Value| {
        let node = json!({ "use": node, "with": with });
        validator.is_valid(&json!({ "workflow": "w", "nodes": { "a": node } }))
    };
    assert!(with("http/request", json!({ "url": "{{ input.url }}" })));
    assert!(!with(
        "http/request",
        json!({ "url": "http://a.example", "methd": "GET" })
    ));
    assert!(!with("http/request@1", json!({ "url": 7 })));
    assert!(with("text/template@1", json!("{{ input }}")));
    assert!(!with("text/template@1", json!({ "tempalte": "x" })));
    assert!(with("other/node", json!({ "x": 1 })));
    let offered = schema["$defs"]["Node"]["properties"]["use"]["anyOf"].to_string();
    for node in ["data/jq", "http/request", "human/confirm", "text/template"] {
        assert!(
            offered.contains(&format!("\"{node}\"")),
            "{node}: {offered}"
        );
    }
}

#[test]
fn init_writes_it_and_dev_refreshes_it_when_a_plugin_comes() {
    let place = Place::new(&[]).with("plugins.directory", "plugins");
    let plugins = place.path("project/plugins");
    std::fs::create_dir_all(&plugins).expect("a directory can be made");
    std::fs::copy(component("text"), plugins.join("text.wasm")).expect("it can be copied");
    place.ask(&["init", "project"]);
    let file = place.path("project").join(FILE);
    let read = || std::fs::read_to_string(&file).expect("the project has it");
    assert!(read().contains("\"text/template\""), "{}", read());
    assert!(!read().contains("\"echo/echo\""));
    let dev = place.start(&["dev", "project"]);
    let to = place.path("project/plugins/echo.wasm");
    std::fs::copy(component("echo"), to).expect("it can be copied");
    until("the schema has its node type", || {
        read().contains("\"echo/echo\"")
    });
    drop(dev);
    // The same, as the command prints it.
    let said = place
        .windlass()
        .args(["workflow", "schema"])
        .current_dir(place.path("project"))
        .output();
    let said = said.expect("it can be started");
    assert!(said.status.success(), "{said:?}");
    assert_eq!(
        String::from_utf8_lossy(&said.stdout).trim_end(),
        read().trim_end()
    );
    // A project without the file gets none.
    std::fs::remove_file(&file).expect("it can be removed");
    let mut dev = place.start(&["-o", "jsonl", "dev", "project"]);
    until("it is ready", || dev.stdout().contains("\"ready\""));
    dev.signal(windlass_tests::harness::Signal::TERM);
    dev.wait();
    assert!(!file.exists());
}
