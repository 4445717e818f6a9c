//! The threads of a host, as the system lists them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;
use windlass_tests::harness::{Place, Signal, Web};

/// The bytes of a name that Linux keeps.
const NAME_BYTES: usize = 15;

/// The beginning of the second cell of a thread that a library names: several threads may share
/// such a name.
const OF_A_LIBRARY: &str = "of a library";

/// The table of threads in ARCHITECTURE.md: the names, and whether a library gives them.
fn listed() -> Vec<(String, bool)> {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../ARCHITECTURE.md");
    let page = std::fs::read_to_string(page).expect("it is there");
    let (_, table) = page.split_once("\n| thread | does |\n").expect("a table");
    let rows = table
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    rows.flat_map(|row| {
        let mut cells = row.trim_matches('|').split(" | ");
        let (names, does) = (cells.next().unwrap_or_default(), cells.next());
        let library = does.is_some_and(|does| does.trim().starts_with(OF_A_LIBRARY));
        let names = names.split('`').skip(1).step_by(2);
        names.map(move |name| (name.to_owned(), library))
    })
    .collect()
}

/// Whether a thread has the name of a row, in which `N` stands for a number.
fn is_named(name: &str, row: &str) -> bool {
    match row.strip_suffix('N') {
        Some(stem) => name
            .strip_prefix(stem)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|it| it.is_ascii_digit())),
        None => name == row.get(..NAME_BYTES).unwrap_or(row),
    }
}

#[test]
fn each_thread_of_a_host_is_listed_and_has_a_name_of_its_own() {
    let place = Place::new(&["echo"]);
    let mut host = Web::serve(&place);
    host.publish(&json!({ "workflow": "one", "nodes": { "first": { "use": "echo/echo" } } }));
    let id = host.start("one", &json!(null));
    host.result(&id);
    let tasks = format!("/proc/{}/task", host.process.pid());
    let mut threads: BTreeMap<String, u32> = BTreeMap::new();
    for task in std::fs::read_dir(tasks).expect("it runs") {
        // A thread of tokio's pool may end meanwhile.
        let name = task.and_then(|task| std::fs::read_to_string(task.path().join("comm")));
        if let Ok(name) = name {
            *threads.entry(name.trim().to_owned()).or_default() += 1;
        }
    }
    let listed = listed();
    for (name, count) in &threads {
        let row = listed.iter().find(|(row, _)| is_named(name, row));
        let (_, library) = row.unwrap_or_else(|| panic!("`{name}` is not listed"));
        assert!(
            *count == 1 || *library,
            "{count} threads are called `{name}`"
        );
    }
    for name in [
        "scheduler",
        "schedules",
        "queue",
        "pause",
        "plugin-folders",
        "definitions",
    ] {
        assert!(threads.contains_key(name), "no `{name}` in {threads:?}");
    }
    host.process.signal(Signal::TERM);
    assert!(host.process.wait().success());
}
