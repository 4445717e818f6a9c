//! Batches that a process carries out beside its runs.

use std::sync::Arc;

use windlass_model::{BatchNo, Payload, Status};
use windlass_runtime::operations::batches::{Action, Batch, Selection, Standing, What};
use windlass_runtime::{Operations, Started};
use windlass_store::Reader as _;

use crate::rig::{Running, Setup};

/// Fails until its input is mended, or until it continues with the second version.
const FAILS: &str = "
workflow: fails
nodes: { a: { set: { tried: true } }, b: { fail: 'not yet' } }
edges: [a -> b]
";

const MENDED: &str = "
workflow: fails
nodes: { a: { set: { tried: true } }, b: { set: { done: true } } }
edges: [a -> b]
";

const RUNS: usize = 70;

struct Batches(Running, Vec<Started>);

impl Batches {
    /// A process with runs that have failed, and one more that has failed and is of another workflow.
    fn new() -> Self {
        let running = Setup::default().start();
        let failed: Vec<Started> = (0..RUNS).map(|_| running.run(FAILS)).collect();
        for run in &failed {
            assert_eq!(running.ended(run.no).status, Status::Faulted);
        }
        Self(running, failed)
    }

    fn carried_out(&self, action: Action, runs: Selection) -> Batch {
        let Self(running, _) = self;
        let client = Operations::local(&running.runtime);
        let what = What::new(action, runs).unwrap();
        let no: BatchNo = running.block_on(client.add_batch(what)).unwrap().no;
        running.until("the batch has ended", |store| {
            let row = store.batch(no).unwrap().unwrap();
            row.ended_ms.is_some()
        });
        running.block_on(client.batch(no)).unwrap()
    }

    /// How often a run was retried.
    fn retries(&self, run: &Started) -> usize {
        let journal = self.0.store.journal(run.no).unwrap();
        journal.iter().filter(|row| row.kind == "retried").count()
    }
}

fn of_fails() -> Selection {
    Selection {
        workflow: Some("fails".to_owned()),
        ..Selection::default()
    }
}

#[test]
fn each_run_that_failed_is_retried_once() {
    let batches = Batches::new();
    let Batches(running, failed) = &batches;
    let other = running.run("{ workflow: other, nodes: { a: { fail: 'no' } } }");
    running.ended(other.no);
    let retry = Action::Retry {
        from: None,
        definition: None,
    };
    let batch = batches.carried_out(retry, of_fails());
    let progress = batch.progress;
    assert_eq!(progress.standing, Standing::Done, "{progress:?}");
    assert_eq!((progress.done, progress.refused), (RUNS as u64, 0));
    for run in failed {
        running.ended(run.no);
        assert_eq!(
            batches.retries(run),
            1,
            "it has failed again, and is left alone"
        );
    }
    assert_eq!(batches.retries(&other), 0);
}

#[test]
fn a_batch_retries_with_another_version_and_keeps_some_refusals() {
    let batches = Batches::new();
    let Batches(running, failed) = &batches;
    let latest = || Action::Retry {
        from: None,
        definition: Some(windlass_runtime::operations::batches::Version::Latest),
    };
    let batch = batches.carried_out(latest(), of_fails());
    let progress = batch.progress;
    assert_eq!((progress.done, progress.refused), (0, RUNS as u64));
    assert_eq!(progress.refusals.len(), 10, "some of them are kept");
    let refusal = &progress.refusals[0];
    assert!(refusal.message.contains("`fails`"), "{refusal:?}");
    running.publish(MENDED);
    let batch = batches.carried_out(latest(), of_fails());
    assert_eq!(
        (batch.progress.done, batch.progress.refused),
        (RUNS as u64, 0)
    );
    for run in failed {
        assert_eq!(running.ended(run.no).status, Status::Completed);
    }
}

#[test]
fn a_batch_cancels_open_runs_and_deletes_ended_ones() {
    let batches = Batches::new();
    let Batches(running, failed) = &batches;
    let waits = "{ workflow: waits, nodes: { a: { event: never } } }";
    let waiting = running.run_on(waits, Payload::null());
    running.suspended(waiting.no);
    let waits = || Selection {
        workflow: Some("waits".to_owned()),
        ..Selection::default()
    };
    let none = batches.carried_out(Action::Delete, waits());
    assert_eq!(
        (none.progress.done, none.progress.refused),
        (0, 0),
        "it goes on"
    );
    let batch = batches.carried_out(Action::Cancel, waits());
    assert_eq!((batch.progress.done, batch.progress.refused), (1, 0));
    assert_eq!(running.ended(waiting.no).status, Status::Cancelled);
    let batch = batches.carried_out(Action::Delete, of_fails());
    assert_eq!(
        (batch.progress.done, batch.progress.refused),
        (RUNS as u64, 0)
    );
    let store = Arc::clone(&running.store);
    assert!(
        failed
            .iter()
            .all(|run| store.run(run.id).unwrap().is_none())
    );
    assert!(store.run(waiting.id).unwrap().is_some());
}
