//! The states of runs in memory have a budget: runs leave, and nothing fails.

use windlass_model::{Body, Status};
use windlass_store::{MemoryStore, Reader as _};

use crate::rig::{Running, Setup};

/// Calls `wide` 40 times at once.
const MANY: &str = r#"
workflow: many
nodes:
  each:
    for-each: "{{ range(40) | list }}"
    concurrency: 40
    nodes:
      call: { workflow: wide, input: "{{ item }}" }
    output: "{{ nodes.call.output }}"
output: "{{ nodes.each.output }}"
"#;

/// Opens 60 scopes in one step.
const WIDE: &str = r#"
workflow: wide
nodes:
  each:
    for-each: "{{ range(60) | list }}"
    concurrency: 60
    nodes:
      one: { set: { y: 1 } }
    output: "{{ item }}"
output: "{{ (nodes.each.output | sum) + input }}"
"#;

/// As `wide`, but each item waits.
const LONG: &str = r#"
workflow: wide
nodes:
  each:
    for-each: "{{ range(60) | list }}"
    concurrency: 60
    nodes:
      one: { wait: 1h }
"#;

/// What two runs of `wide` take.
const LITTLE: u64 = 200_000;

/// What the runs in memory may take with that budget: steps of two shards, and the last run of a claim,
/// are more. All runs of `wide` together take five times as much.
const MOST: u64 = 4 * LITTLE;

fn running(wide: &str, run_state_bytes: u64) -> Running {
    let setup = Setup {
        run_state_bytes,
        ..Setup::default()
    };
    setup.beside("wide", wide).start()
}

/// A metric of the process.
fn metric(running: &Running, name: &str) -> u64 {
    let text = running.runtime.metrics();
    let lines = text.lines();
    let mut found = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.next().unwrap().parse().unwrap()
}

fn is_empty(running: &Running) {
    running.until("no run is in memory", |_| {
        metric(running, "windlass_run_states_bytes") == 0
    });
}

#[test]
fn many_large_runs_take_turns_within_the_budget() {
    let mut peaks = Vec::new();
    for budget in [0, LITTLE, 64 << 20] {
        let running = running(WIDE, budget);
        let started = running.run(MANY);
        let result = running.ended(started.no);
        assert_eq!(result.status, Status::Completed, "{result:?}");
        let output = running.store.output(started.no).unwrap().unwrap();
        let Body::Inline(text) = output.body else {
            panic!("it is small");
        };
        let sums: Vec<u64> = serde_json::from_slice(&text).unwrap();
        let wanted: Vec<u64> = (0..40).map(|n| (0..60).sum::<u64>() + n).collect();
        assert_eq!(sums, wanted);
        peaks.push(metric(&running, "windlass_run_states_peak_bytes"));
        is_empty(&running);
    }
    let [_, little, all] = peaks[..] else {
        panic!("{peaks:?}");
    };
    assert!(little <= MOST, "{peaks:?}");
    assert!(all > MOST, "without a budget it is more: {peaks:?}");
}

/// The runs are large already when they are claimed, each with one control trigger.
#[test]
fn large_runs_that_are_cancelled_are_claimed_a_few_at_a_time() {
    let running = running(LONG, LITTLE);
    let started = running.run(MANY);
    let waiting = |store: &MemoryStore| {
        let children = store.children(started.no, None, 100).unwrap();
        children.len() == 40
            && children
                .iter()
                .all(|row| row.status == Status::Suspended && row.owner.is_none())
    };
    running.until("all items wait", waiting);
    let id = running.store.run_by_no(started.no).unwrap().unwrap().id;
    running.cancel(id);
    running.until("all have ended", |store| {
        let children = store.children(started.no, None, 100).unwrap();
        children.iter().all(|row| row.status == Status::Cancelled)
    });
    let peak = metric(&running, "windlass_run_states_peak_bytes");
    assert!(peak <= MOST, "{peak}");
    is_empty(&running);
}
