//! The control-flow patterns of Russell, ter Hofstede, van der Aalst and Mulyar (2006). Each runs
//! as described in its folder in `tests/cases/patterns`, and is shown in `docs/patterns.md`.
//!
//! A folder has a `workflow.yaml` and a `runs.json`: a list of runs. A run has its `input`, stimuli
//! that are sent `early`, before the run begins, or that are to `send` once it waits, and the
//! expected result: `status`, and optionally `output`, `trace` (the completed nodes, in order),
//! `after` (the nodes that completed before another one) and `ran` (how often a node completed).

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use windlass_model::stimulus::{Delivery, Stimulus};
use windlass_model::{ExecutionStatus, Payload, RunId};
use windlass_store::rows::RunRow;
use windlass_store::{MemoryStore, Reader as _};

use crate::rig::{Setup, json};

/// The patterns, by number from 1.
const PATTERNS: usize = 43;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folders with their workflows, in order.
fn cases() -> Vec<(String, PathBuf, String)> {
    let mut cases: Vec<_> = fs::read_dir(repository().join("tests/cases/patterns"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let workflow = fs::read_to_string(path.join("workflow.yaml")).unwrap();
            (name, path, workflow)
        })
        .collect();
    cases.sort();
    cases
}

/// The completed nodes, in the order of their completion.
fn trace(store: &MemoryStore, row: &RunRow) -> Vec<String> {
    let no = row.no;
    let row = store.definition(row.definition).unwrap().unwrap();
    let definition = windlass_model::file::read_canonical(&row.json).unwrap();
    let mut names: Vec<_> = definition.all_nodes().iter().map(|node| node.1).collect();
    names.sort_unstable();
    let mut runs = store.executions(no, None, u32::MAX).unwrap();
    runs.reverse();
    runs.iter()
        .filter(|run| run.status == ExecutionStatus::Completed)
        .map(|run| {
            let name = names.get(usize::try_from(run.node).unwrap());
            (*name.unwrap()).to_owned()
        })
        .collect()
}

fn list<'a>(expected: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    let list = expected.get(key).and_then(Value::as_array);
    list.into_iter().flatten()
}

/// A stimulus from a folder, addressed to the run if there is one.
fn stimulus(written: &Value, run: Option<RunId>) -> Stimulus {
    let delivery: Delivery = serde_json::from_value(written["delivery"].clone()).unwrap();
    Stimulus {
        name: written["name"].as_str().unwrap().to_owned(),
        matches: written["match"].clone(),
        correlation: None,
        run,
        input: Payload::of(&written["input"]),
        delivery,
        ttl_ms: 60_000,
        trace: None,
    }
}

#[track_caller]
fn check(name: &str, workflow: &str, expected: &Value) {
    let input = &expected["input"];
    // A workflow that calls itself can find itself.
    let running = Setup::default().beside(name, workflow).start();
    for early in list(expected, "early") {
        running.send(&stimulus(early, None));
    }
    let started = running.run_on(workflow, Payload::of(input));
    for sent in list(expected, "send") {
        running.suspended(started.no);
        running.send(&stimulus(sent, Some(started.id)));
    }
    let result = running.ended(started.no);
    let row = running.store.run(started.id).unwrap().unwrap();
    let trace = trace(&running.store, &row);
    let told = format!("{name} on {input}: {:?}, {trace:?}", result.failure);
    assert_eq!(result.status.name(), expected["status"], "{told}");
    if let Some(output) = expected.get("output") {
        assert_eq!(json(result.output.as_ref().unwrap()), *output, "{told}");
    }
    if let Some(order) = expected.get("trace") {
        assert_eq!(serde_json::json!(trace), *order, "{told}");
    }
    let position = |node: &str| trace.iter().position(|one| one == node);
    let later = expected.get("after").and_then(Value::as_object);
    for (node, earlier) in later.into_iter().flatten() {
        for earlier in earlier.as_array().unwrap() {
            let earlier = position(earlier.as_str().unwrap());
            assert!(
                earlier.is_some() && earlier < position(node),
                "{node} of {told}"
            );
        }
    }
    let counts = expected.get("ran").and_then(Value::as_object);
    for (node, count) in counts.into_iter().flatten() {
        let found = trace.iter().filter(|one| *one == node).count();
        assert_eq!(serde_json::json!(found), *count, "{node} of {told}");
    }
}

#[test]
fn each_pattern_runs_as_its_folder_says() {
    let cases = cases();
    assert!(cases.len() >= 20, "the folders are there");
    for (name, path, workflow) in cases {
        let runs = fs::read_to_string(path.join("runs.json")).unwrap();
        let runs: Vec<Value> = serde_json::from_str(&runs).unwrap();
        assert!(!runs.is_empty(), "{name} is run");
        for run in &runs {
            // The name of a workflow is the name of its folder without the number.
            check(name.get(3..).unwrap(), &workflow, run);
        }
    }
}

/// The page has a section for each pattern, in order. A section that names a folder shows its
/// workflow word for word, and each folder is named by one section.
#[test]
fn the_page_shows_the_workflows_of_the_folders() {
    let file = repository().join("docs/patterns.md");
    let page = fs::read_to_string(&file).unwrap();
    let mut sections = page.split("\n## ");
    let mut blessed = sections.next().unwrap().to_owned();
    let mut folders = cases();
    let mut count = 0;
    for section in sections {
        count += 1;
        let title = section.lines().next().unwrap();
        let number: usize = title.split('.').next().unwrap().parse().unwrap();
        assert_eq!(number, count, "patterns are in order: {title}");
        let said = section.lines().nth(2).unwrap_or_default();
        let answers = ["**Supported", "**In part", "**Not supported"];
        assert!(
            answers.iter().any(|answer| said.starts_with(answer)),
            "{title}: {said}"
        );
        let prefix = format!("{number:02}-");
        let (own, others): (Vec<_>, Vec<_>) = folders
            .into_iter()
            .partition(|(name, ..)| name.starts_with(&prefix));
        folders = others;
        let text = section.split("\n```yaml\n").next().unwrap().trim_end();
        assert!(
            !own.is_empty() || !said.starts_with("**Supported"),
            "{title} is shown by a folder"
        );
        blessed.push_str(&format!("\n## {text}\n"));
        for (_, _, workflow) in own {
            blessed.push_str(&format!("\n```yaml\n{workflow}```\n"));
        }
    }
    assert_eq!(count, PATTERNS);
    assert!(folders.is_empty(), "folders without a section: {folders:?}");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, &blessed).unwrap();
    }
    assert!(
        page == blessed || std::env::var_os("BLESS").is_some(),
        "docs/patterns.md is stale: run this test with BLESS=1"
    );
}
