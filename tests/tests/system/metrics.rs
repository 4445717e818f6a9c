//! The metrics of a process, in the file of `--metrics`.

use serde_json::{Value, json};
use windlass_test_servers::promtool;
use windlass_tests::harness::{Place, Signal, until};

fn two() -> Value {
    json!({
        "workflow": "two",
        "nodes": { "first": { "use": "echo/echo" }, "second": { "use": "echo/echo" } },
        "edges": ["first -> second"],
    })
}

#[test]
fn the_metrics_file_of_a_run_counts_its_work() {
    let place = Place::new(&["echo"]);
    let (workflow, file) = (place.workflow("two", &two()), place.path("metrics.prom"));
    let (workflow, to) = (workflow.display().to_string(), file.display().to_string());
    place.ask(&["run", &workflow, "--metrics", &to]);
    let text = std::fs::read_to_string(&file).expect("the file is there");
    let has = |line: &str| assert!(text.contains(line), "{line} is not in\n{text}");
    has("\nwindlass_runs_started_total{workflow=\"two\"} 1\n");
    has("\ntrigger_execution_seconds_count{type=\"start\",node=\"first\"} 1\n");
    has("\ntrigger_execution_seconds_count{type=\"next\",node=\"second\"} 1\n");
    has("\nwindlass_plugin_call_seconds_count{plugin=\"echo\"} 2\n");
    has("\nwindlass_triggers{state=\"due\"} 0\n");
    has("\nwindlass_dead_letters 0\n");
    let commits = text
        .lines()
        .find_map(|line| line.strip_prefix("windlass_commit_seconds_count "))
        .and_then(|count| count.parse::<u64>().ok());
    assert!(commits.is_some_and(|commits| commits >= 2), "{text}");
}

#[test]
fn the_checker_of_prometheus_accepts_the_metrics_and_the_alert_rules() {
    let place = Place::new(&["echo"]);
    let (workflow, file) = (place.workflow("two", &two()), place.path("metrics.prom"));
    let (workflow, to) = (workflow.display().to_string(), file.display().to_string());
    place.ask(&["run", &workflow, "--metrics", &to]);
    let text = std::fs::read_to_string(&file).expect("the file is there");
    promtool(&["check", "metrics"], &text).unwrap();
    let rules = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../examples/monitoring/alerts.yaml"
    );
    promtool(&["check", "rules", rules], "").unwrap();
    let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/cases/monitoring/alerts.yaml");
    promtool(&["test", "rules", cases], "").unwrap();
}

#[test]
fn the_file_of_a_host_is_there_from_the_start_and_after_its_end() {
    let place = Place::new(&["echo"]);
    let file = place.path("metrics.prom");
    let to = file.display().to_string();
    let mut serve = place.start(&["serve", "--metrics", &to]);
    place.until_member(&mut serve);
    until("the file is there", || file.is_file());
    let workflow = place.workflow("two", &two()).display().to_string();
    let id = place.ask(&["runs", "start", &workflow]);
    place.look().ended(&id);
    serve.signal(Signal::TERM);
    assert!(serve.wait().success());
    let text = std::fs::read_to_string(&file).expect("the file is there");
    assert!(
        text.contains("\nwindlass_runs_started_total{workflow=\"two\"} 1\n"),
        "{text}"
    );
}

#[test]
fn a_file_that_cannot_be_written_is_refused() {
    let place = Place::new(&["echo"]);
    let workflow = place.workflow("two", &two()).display().to_string();
    let to = place.path("nowhere/metrics.prom").display().to_string();
    let said = place.say(&["-o", "jsonl", "run", &workflow, "--metrics", &to]);
    assert_eq!(said.error()["code"], json!("WL-U020"));
}
