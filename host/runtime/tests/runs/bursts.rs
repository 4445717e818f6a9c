//! Bursts are bounded.

use serde_json::json;
use windlass_runtime::BurstBounds;
use windlass_store::Reader as _;

use crate::rig::Setup;

/// Counts to `to`, one node for each number.
fn counting(to: u32) -> String {
    format!(
        r#"
workflow: counting
vars: {{ count: 0 }}
nodes:
  step: {{ start: true, set: {{ count: "{{{{ vars.count + 1 }}}}" }} }}
edges:
  - {{ from: step, to: step, when: "vars.count < {to}" }}
output: "{{{{ vars.count }}}}"
"#
    )
}

#[test]
fn a_run_is_given_back_after_its_share_of_steps_and_goes_on() {
    let burst = BurstBounds {
        steps: 4,
        ..BurstBounds::default()
    };
    let ran = Setup {
        burst,
        ..Setup::default()
    }
    .run(&counting(10));
    assert_eq!(ran.output(), json!(10));
    let released: Vec<bool> = ran.commits.iter().map(|commit| commit.release).collect();
    let expected: Vec<bool> = (1..=10).map(|step| step == 4 || step == 8).collect();
    assert_eq!(released, expected);
    for commit in ran.commits.iter().filter(|commit| commit.release) {
        assert!(commit.triggers.iter().all(|trigger| !trigger.claimed));
    }
    // The run is created with the first burst, and claimed again for each burst after it.
    assert_eq!(ran.row.epoch.0, ran.commits[0].fence.epoch.0 + 2);
}

#[test]
fn a_run_within_its_share_is_never_given_back() {
    let ran = Setup::default().run(&counting(10));
    assert_eq!(ran.output(), json!(10));
    assert!(ran.commits.iter().all(|commit| !commit.release));
}

#[test]
fn branches_of_a_burst_that_is_over_all_end_once() {
    let burst = BurstBounds {
        steps: 2,
        ..BurstBounds::default()
    };
    let ran = Setup {
        burst,
        ..Setup::default()
    }
    .run(
        r#"
workflow: branches
nodes:
  a: { set: { a: 1 } }
  b: { set: { b: 1 } }
  c: { set: { c: 1 } }
  a2: { set: { a2: 1 } }
  b2: { set: { b2: 1 } }
  c2: { set: { c2: 1 } }
edges:
  - { from: a, to: a2 }
  - { from: b, to: b2 }
  - { from: c, to: c2 }
output: "{{ vars }}"
"#,
    );
    let expected = json!({ "a": 1, "b": 1, "c": 1, "a2": 1, "b2": 1, "c2": 1 });
    assert_eq!(ran.output(), expected);
    assert_eq!(
        ran.commits
            .iter()
            .map(|commit| commit.executions.len())
            .sum::<usize>(),
        6
    );
}

#[test]
fn pure_nodes_share_a_flush() {
    let workflow = r#"
workflow: together
nodes:
  a: { set: { a: 1 } }
  b: { set: { b: "{{ vars.a + 1 }}" } }
  c: { set: { c: "{{ vars.b + 1 }}" } }
edges: [a -> b, b -> c]
output: "{{ vars.c }}"
"#;
    // A trigger written after the end of a burst begins only once it is claimed, so no burst may
    // end here.
    let burst = BurstBounds {
        time_ms: 600_000,
        ..BurstBounds::default()
    };
    let setup = Setup {
        burst,
        ..Setup::default()
    };
    let running = setup.start();
    running.store.defer();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| running.run(workflow));
        // None of the three steps is written, and all have been executed.
        running.until("every node has run", |store| {
            store.carry_on_to_step();
            store.deliver(usize::MAX);
            store.deferred_steps() == 3
        });
        let started = run.join().unwrap();
        running.until("the run has ended", |store| {
            store.carry_on(usize::MAX);
            store.deliver(usize::MAX);
            let row = store.run_by_no(started.no).unwrap();
            row.is_some_and(|row| row.status.is_final())
        });
        let result = running.ended(started.no);
        assert_eq!(crate::rig::json(&result.output.unwrap()), json!(3));
    });
}
