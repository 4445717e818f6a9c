//! The metrics of a process while it runs workflows.

use crate::rig::Setup;

#[test]
fn a_run_is_counted_and_its_executions_are_measured() {
    let ran = Setup::default().run(
        r#"
workflow: two
nodes:
  first: { set: { n: 1 } }
  second: { set: { n: 2 } }
edges: [first -> second]
"#,
    );
    let has = |line: &str| {
        let metrics = &ran.metrics;
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    };
    has("\nwindlass_runs_started_total{workflow=\"two\"} 1\n");
    let finished = "\nwindlass_runs_finished_total{workflow=\"two\",outcome=";
    has(&format!("{finished}\"completed\"}} 1\n"));
    has(&format!("{finished}\"faulted\"}} 0\n"));
    let second = "\nwindlass_executions_total{workflow=\"two\",node=\"second\",outcome=";
    has(&format!("{second}\"completed\"}} 1\n"));
    has(&format!("{second}\"failed\"}} 0\n"));
    has("\ntrigger_execution_seconds_count{type=\"start\",node=\"first\"} 1\n");
    has("\ntrigger_execution_seconds_count{type=\"next\",node=\"second\"} 1\n");
    has("\nwindlass_plugin_call_seconds_count{plugin=\"chain-executor\"} 2\n");
    has("\nwindlass_triggers{state=\"due\"} 0\n");
    has("\nwindlass_triggers{state=\"claimed\"} 0\n");
    has("\nprocess_cpu_seconds_total ");
    has("\nprocess_resident_memory_bytes ");
    has("\nwindlass_lease_lost_total 0\n");
}
