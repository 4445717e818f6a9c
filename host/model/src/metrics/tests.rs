//! The text contains the recorded values, and the page in `docs` lists all metrics.

use std::fmt::Write as _;
use std::path::Path;

use super::series::MAX_SERIES;
use super::{ALL, About, BUDGETS, Metrics};
use crate::TriggerType;

#[track_caller]
fn check(metrics: &Metrics, expected: &str) {
    let text = metrics.text();
    assert!(text.contains(expected), "{expected} is not in\n{text}");
}

#[test]
fn counters_and_gauges_are_shown_as_they_are() {
    let metrics = Metrics::default();
    metrics.runs_started.add(3);
    metrics.triggers_due.set(7);
    metrics.triggers_due.set(2);
    check(&metrics, "# TYPE windlass_runs_started_total counter\n");
    check(&metrics, "\nwindlass_runs_started_total 3\n");
    check(&metrics, "\nwindlass_triggers_due 2\n");
}

#[test]
fn pools_are_told_apart_by_name() {
    let metrics = Metrics::default();
    let hooks = &metrics.http.pools[2];
    hooks.all.set(5);
    hooks.used.add(3);
    hooks.used.sub(1);
    metrics.http.clients_limited.add(4);
    check(&metrics, "\nwindlass_http_slots{pool=\"hooks\"} 5\n");
    check(&metrics, "\nwindlass_http_slots_used{pool=\"hooks\"} 2\n");
    check(
        &metrics,
        "\nwindlass_http_refused_total{pool=\"hooks-waiting\"} 0\n",
    );
    check(&metrics, "\nwindlass_http_limited_total{by=\"client\"} 4\n");
}

#[test]
fn a_histogram_counts_values_up_to_the_bound() {
    let metrics = Metrics::default();
    for us in [0, 10, 11, 1_500_000, u64::from(u32::MAX)] {
        metrics.commit.record(us);
    }
    check(
        &metrics,
        "windlass_commit_seconds_bucket{le=\"0.00001\"} 2\n",
    );
    check(
        &metrics,
        "windlass_commit_seconds_bucket{le=\"0.000025\"} 3\n",
    );
    check(&metrics, "windlass_commit_seconds_bucket{le=\"1\"} 3\n");
    check(&metrics, "windlass_commit_seconds_bucket{le=\"5\"} 4\n");
    check(&metrics, "windlass_commit_seconds_bucket{le=\"300\"} 4\n");
    check(&metrics, "windlass_commit_seconds_bucket{le=\"+Inf\"} 5\n");
    check(&metrics, "windlass_commit_seconds_sum 4296.467316\n");
    check(&metrics, "windlass_commit_seconds_count 5\n");
    metrics.commit_batch.record(3);
    check(&metrics, "windlass_commit_batch_size_bucket{le=\"4\"} 1\n");
    check(&metrics, "windlass_commit_batch_size_sum 3\n");
}

#[test]
fn executions_are_told_apart_by_type_and_node() {
    let metrics = Metrics::default();
    metrics.execution(TriggerType::Next, "sum").record(100);
    metrics.execution(TriggerType::Next, "sum").record(100);
    metrics.execution(TriggerType::Retry, "sum").record(100);
    let of = |labels: &str, count: u64| {
        check(
            &metrics,
            &format!("trigger_execution_seconds_count{{{labels}}} {count}\n"),
        );
    };
    of("type=\"next\",node=\"sum\"", 2);
    of("type=\"retry\",node=\"sum\"", 1);
    check(
        &metrics,
        "trigger_execution_seconds_bucket{type=\"retry\",node=\"sum\",le=\"0.0001\"} 1\n",
    );
}

#[test]
fn the_number_of_series_is_bounded() {
    let metrics = Metrics::default();
    for n in 0..MAX_SERIES + 5 {
        metrics.plugin_call(&format!("p{n}")).record(1);
    }
    check(
        &metrics,
        "windlass_plugin_call_seconds_count{plugin=\"p0\"} 1\n",
    );
    check(
        &metrics,
        "windlass_plugin_call_seconds_count{plugin=\"other\"} 5\n",
    );
}

#[test]
fn labels_cannot_break_the_format() {
    let metrics = Metrics::default();
    metrics.plugin_call("a\"b\\c\nd").record(1);
    check(&metrics, "{plugin=\"a\\\"b\\\\c\\nd\"} 1\n");
}

fn all() -> impl Iterator<Item = About> {
    let budgets = BUDGETS.into_iter().flat_map(|budget| budget.metrics);
    ALL.into_iter().chain(budgets)
}

#[test]
fn a_budget_shows_its_use_its_bound_and_its_peak() {
    let metrics = Metrics::default();
    metrics.run_data.set_limit(9);
    metrics.run_data.add(5);
    metrics.run_data.add(2);
    metrics.run_data.sub(4);
    metrics.definitions.set(8);
    metrics.definitions.set(1);
    check(&metrics, "\nwindlass_run_data_bytes 3\n");
    check(&metrics, "\nwindlass_run_data_limit_bytes 9\n");
    check(&metrics, "\nwindlass_run_data_peak_bytes 7\n");
    check(&metrics, "\nwindlass_definitions_bytes 1\n");
    check(&metrics, "\nwindlass_definitions_peak_bytes 8\n");
    for (n, (about, budget)) in (1..).zip(BUDGETS.iter().zip(metrics.budgets())) {
        budget.set_limit(n);
        check(
            &metrics,
            &format!("\nwindlass_{}_limit_bytes {n}\n", about.name),
        );
    }
}

#[test]
fn each_metric_is_in_the_text_once() {
    let text = Metrics::default().text();
    for about in all() {
        let head = format!("# TYPE {} {}\n", about.name, about.kind);
        assert_eq!(text.matches(&head).count(), 1, "{}", about.name);
    }
    assert_eq!(text.matches("# TYPE ").count(), all().count());
}

fn page() -> String {
    let mut page = String::from(PREFACE);
    for about in all() {
        let labels = match about.labels.join("`, `") {
            none if none.is_empty() => none,
            some => format!("`{some}`"),
        };
        let (name, kind, help) = (about.name, about.kind, about.help);
        let _ = writeln!(page, "| `{name}` | {kind} | {labels} | {help} |");
    }
    page
}

const PREFACE: &str = "\
# Metrics

`windlass serve` answers `GET /metrics` with the metrics of the process, in the text format of Prometheus; where the server has a token, the scrape needs it, too.
`windlass serve --metrics FILE` and `windlass run --metrics FILE` write the same to a file.
The file is replaced as a whole every few seconds and once more at the end, so a reader never sees half of it; the textfile collector of the node exporter reads it unchanged.

Times are in seconds.
A label never names a run or a trigger: those are in the log.
Of a metric with labels there are 2,000 series at most, and further label values are counted under `other`.

| name | kind | labels | says |
|---|---|---|---|
";

#[test]
fn the_checked_in_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = page();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(there, page, "BLESS=1 writes docs/metrics.md anew");
}
