//! The text contains the recorded values, and the page in `docs` lists all metrics.

use std::fmt::Write as _;
use std::path::Path;

use super::series::{MAX_HISTOGRAMS, MAX_TALLIES};
use super::{ALL, About, BUDGETS, Metrics, RunEvent};
use crate::{ExecutionStatus, TriggerType};

#[track_caller]
fn check(metrics: &Metrics, expected: &str) {
    let text = metrics.text();
    assert!(text.contains(expected), "{expected} is not in\n{text}");
}

#[test]
fn counters_and_gauges_are_shown_as_they_are() {
    let metrics = Metrics::default();
    metrics.lease_lost.add(3);
    metrics.triggers_due.set(7);
    metrics.triggers_due.set(2);
    check(&metrics, "# TYPE windlass_lease_lost_total counter\n");
    check(&metrics, "\nwindlass_lease_lost_total 3\n");
    check(&metrics, "\nwindlass_triggers{state=\"due\"} 2\n");
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
    for us in [0, 50, 51, 1_500_000, u64::from(u32::MAX)] {
        metrics.commit.record(us);
    }
    let bucket = |bound: &str, count: u64| {
        let line = format!("windlass_commit_seconds_bucket{{le=\"{bound}\"}} {count}\n");
        check(&metrics, &line);
    };
    bucket("0.00005", 2);
    bucket("0.00025", 3);
    bucket("0.5", 3);
    bucket("2.5", 4);
    bucket("300", 4);
    bucket("+Inf", 5);
    check(&metrics, "windlass_commit_seconds_sum 4296.467396\n");
    check(&metrics, "windlass_commit_seconds_count 5\n");
    metrics.commit_batch.record(3);
    check(&metrics, "windlass_commit_batch_size_bucket{le=\"4\"} 1\n");
    check(&metrics, "windlass_commit_batch_size_sum 3\n");
}

#[test]
fn runs_are_counted_by_workflow_and_end() {
    let metrics = Metrics::default();
    let mail = metrics.runs("mail");
    mail.add(RunEvent::Started as usize, 1);
    // Threads count in places of their own, and the text has their sum.
    std::thread::scope(|threads| {
        for _ in 0..10 {
            threads.spawn(|| metrics.runs("mail").add(RunEvent::Faulted as usize, 2));
        }
    });
    metrics.runs("bill").add(RunEvent::Suspended as usize, 1);
    check(
        &metrics,
        "\nwindlass_runs_started_total{workflow=\"mail\"} 1\n",
    );
    let end = "windlass_runs_finished_total{workflow=\"mail\",outcome=";
    check(&metrics, &format!("\n{end}\"faulted\"}} 20\n"));
    check(&metrics, &format!("\n{end}\"completed\"}} 0\n"));
    check(
        &metrics,
        "\nwindlass_runs_suspended_total{workflow=\"bill\"} 1\n",
    );
    check(
        &metrics,
        "\nwindlass_runs_suspended_total{workflow=\"mail\"} 0\n",
    );
}

#[test]
fn executions_are_counted_by_workflow_node_and_outcome() {
    let metrics = Metrics::default();
    let sum = metrics.executions("bill", "sum");
    sum.add(ExecutionStatus::WaitingRetry as usize, 3);
    let line = "windlass_executions_total{workflow=\"bill\",node=\"sum\",outcome=";
    check(&metrics, &format!("\n{line}\"waiting-retry\"}} 3\n"));
    check(&metrics, &format!("\n{line}\"failed\"}} 0\n"));
    let text = metrics.text();
    assert!(!text.contains(&format!("{line}\"cancelled\"")), "{text}");
}

#[test]
fn requests_to_hooks_are_counted_by_status() {
    let metrics = Metrics::default();
    for status in [202, 503, 202, 7, 999] {
        metrics.http.hooks.add(status);
    }
    check(
        &metrics,
        "\nwindlass_hook_requests_total{status=\"202\"} 2\n",
    );
    check(
        &metrics,
        "\nwindlass_hook_requests_total{status=\"503\"} 1\n",
    );
    assert_eq!(
        metrics
            .text()
            .matches("\nwindlass_hook_requests_total")
            .count(),
        2
    );
}

#[test]
fn the_process_has_the_names_of_all_exporters() {
    let metrics = Metrics::default();
    metrics.process.cpu_us.set(1_500_000);
    metrics.process.started_ms.set(1_700_000_000_250);
    check(&metrics, "\nprocess_cpu_seconds_total 1.5\n");
    check(&metrics, "\nprocess_start_time_seconds 1700000000.25\n");
    let version = env!("CARGO_PKG_VERSION");
    check(
        &metrics,
        &format!("windlass_build_info{{version=\"{version}\","),
    );
    // A number that the system does not give is no 0.
    assert!(!metrics.text().contains("\nprocess_threads "));
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
        "trigger_execution_seconds_bucket{type=\"retry\",node=\"sum\",le=\"0.00025\"} 1\n",
    );
}

#[test]
fn the_number_of_series_is_bounded() {
    let metrics = Metrics::default();
    for n in 0..MAX_HISTOGRAMS + 5 {
        metrics.plugin_call(&format!("p{n}")).record(1);
    }
    for n in 0..MAX_TALLIES + 7 {
        metrics.executions("w", &format!("n{n}")).add(0, 1);
    }
    check(
        &metrics,
        "\nwindlass_executions_total{workflow=\"other\",node=\"other\",outcome=\"completed\"} 7\n",
    );
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
A counter by workflow, or by workflow and node, tells 1,000 of them apart, and a histogram 200 label values; further ones are counted under `other`.
Counters are those of one process and begin at 0 with it: sum them over the members of a cluster.
The gauges of the store are the same at each member: take one of them, as with `max`.

`examples/monitoring` has [alert rules](../examples/monitoring/alerts.yaml) and a [dashboard for Grafana](../examples/monitoring/dashboard.json) that use these names; [operating.md](operating.md) explains them.

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

/// The metrics that an expression of Prometheus names, each with the names of its labels.
fn selectors(text: &str) -> Vec<(&str, Vec<&str>)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let prefixes = ["windlass_", "process_", "trigger_execution_"];
    let starts = prefixes
        .iter()
        .flat_map(|prefix| text.match_indices(prefix));
    for (at, _) in starts {
        if text[..at].ends_with(is_word) {
            continue;
        }
        let rest = &text[at..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let inside = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let inside = inside.map_or("", |(inside, _)| inside);
        let labels = inside
            .split(',')
            .filter_map(|part| part.split(['=', '!']).next());
        found.push((name, labels.filter(|label| !label.is_empty()).collect()));
    }
    found
}

#[test]
fn the_alert_rules_and_the_dashboard_use_metrics_and_labels_that_there_are() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/monitoring");
    for file in ["alerts.yaml", "dashboard.json"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let found = selectors(&text);
        assert!(found.len() > 10, "{file}: {found:?}");
        for (name, labels) in found {
            let of = |about: &About| {
                let rest = name.strip_prefix(about.name)?;
                let is_part =
                    about.kind == "histogram" && ["_bucket", "_sum", "_count"].contains(&rest);
                (rest.is_empty() || is_part).then_some(*about)
            };
            let about = all().find_map(|about| of(&about));
            let about = about.unwrap_or_else(|| panic!("{file}: there is no metric {name}"));
            // Prometheus adds the first two.
            let known = ["job", "instance"];
            for label in labels {
                let is_known = known.contains(&label) || about.labels.contains(&label);
                assert!(is_known, "{file}: {name} has no label {label}");
            }
        }
    }
}
