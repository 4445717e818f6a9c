//! Batches on a store in memory, a page at a time, with a clock that the tests set.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use windlass_model::{BatchNo, Clock, Digest, Payload, RunId, Status, TriggerType};
use windlass_plugins::{Host, Options};
use windlass_store::rows::DefinitionRow;
use windlass_store::{MemoryStore, Reader as _};

use super::worker::{PAGE, page, turn};
use super::{Action, Batch, Selection, Standing, What};
use crate::error::Error;
use crate::operations::Operations;
use crate::starting::StartRequest;

/// A clock that only the test moves.
struct Still(AtomicI64);

impl Clock for Still {
    fn wall_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

struct Rig {
    clock: Arc<Still>,
    store: Arc<MemoryStore>,
    client: Operations,
    tokio: tokio::runtime::Runtime,
    _dir: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tokio = tokio::runtime::Runtime::new().unwrap();
        let clock = Arc::new(Still(AtomicI64::new(1_000_000)));
        let store = MemoryStore::new(Arc::clone(&clock) as _);
        let options = Options::in_dir(dir.path());
        let host = Host::start(options, Arc::clone(&clock) as _, tokio.handle().clone());
        let client = Operations::detached(
            Arc::clone(&store) as _,
            Arc::clone(&clock) as _,
            Arc::new(host.unwrap()),
        );
        Self {
            clock,
            store,
            client,
            tokio,
            _dir: dir,
        }
    }

    /// Creates runs that never begin.
    fn create(&self, workflow: &str, count: u32) -> Vec<RunId> {
        let file = format!("workflow: {workflow}\nnodes: {{ a: {{ set: {{ b: 1 }} }} }}\n");
        let read = windlass_model::file::read(&file, "test");
        let json = read.canonical().unwrap();
        let definition = DefinitionRow {
            digest: Digest::of(&json),
            name: workflow.to_owned(),
            json: json.into(),
        };
        let ids = (0..count).map(|_| {
            let request = StartRequest {
                workflow: definition.clone().into(),
                input: Payload::null(),
                id: None,
                correlation: None,
                trace: None,
            };
            let created = self.tokio.block_on(self.client.create(request));
            created.unwrap().id
        });
        ids.collect()
    }

    fn add(&self, what: What) -> Result<Batch, Error> {
        self.tokio.block_on(self.client.add_batch(what))
    }

    fn batch(&self, no: BatchNo) -> Batch {
        self.tokio.block_on(self.client.batch(no)).unwrap()
    }

    /// The standing, and the numbers of done and refused runs.
    fn stands(&self, no: BatchNo) -> (Standing, u64, u64) {
        let progress = self.batch(no).progress;
        (progress.standing, progress.done, progress.refused)
    }

    fn turn(&self) -> bool {
        turn(&self.client.inner, &|| false).unwrap()
    }

    fn cancels(&self, ids: &[RunId]) -> Vec<usize> {
        let count = |id: &RunId| {
            let no = self.store.run(*id).unwrap().unwrap().no;
            let triggers = self.store.triggers(no).unwrap();
            let cancels = triggers
                .iter()
                .filter(|row| row.kind == TriggerType::Cancel);
            cancels.count()
        };
        ids.iter().map(count).collect()
    }
}

fn of(workflow: &str) -> Selection {
    Selection {
        workflow: Some(workflow.to_owned()),
        ..Selection::default()
    }
}

fn cancel(workflow: &str) -> What {
    What::new(Action::Cancel, of(workflow)).unwrap()
}

#[test]
fn a_batch_goes_through_the_runs_that_match_a_page_at_a_time() {
    let rig = Rig::new();
    let (wanted, others) = (rig.create("w", 2 * PAGE + 7), rig.create("other", 3));
    let preview = rig.tokio.block_on(rig.client.preview_batch(cancel("w")));
    let preview = preview.unwrap();
    assert_eq!(
        (preview.count, preview.exact),
        (u64::from(2 * PAGE + 7), true)
    );
    assert_eq!(preview.examples.len(), 10);
    assert_eq!(rig.cancels(&wanted[..1]), [0], "a preview changes nothing");
    let no = rig.add(cancel("w")).unwrap().no;
    // Runs that are created later are none of the batch.
    rig.clock.0.fetch_add(5, Ordering::SeqCst);
    let later = rig.create("w", 2);
    for done in [PAGE, 2 * PAGE] {
        assert!(rig.turn());
        assert_eq!(rig.stands(no), (Standing::Working, done.into(), 0));
    }
    assert!(rig.turn());
    assert_eq!(rig.stands(no), (Standing::Done, (2 * PAGE + 7).into(), 0));
    assert!(rig.batch(no).ended_ms.is_some());
    assert!(!rig.turn(), "there is nothing more to do");
    assert!(rig.cancels(&wanted).iter().all(|cancels| *cancels == 1));
    assert_eq!(rig.cancels(&others), [0; 3]);
    assert_eq!(rig.cancels(&later), [0; 2]);
}

#[test]
fn a_batch_stops_with_the_page_that_it_works_on() {
    let rig = Rig::new();
    rig.create("w", 3 * PAGE);
    let stop = |no| rig.client.inner.stop_batch(no).unwrap().progress.standing;
    // Between two pages.
    let no = rig.add(cancel("w")).unwrap().no;
    assert!(rig.turn());
    assert_eq!(stop(no), Standing::Stopping);
    assert_eq!(stop(no), Standing::Stopping);
    assert!(rig.turn());
    assert_eq!(rig.stands(no), (Standing::Stopped, PAGE.into(), 0));
    assert_eq!(stop(no), Standing::Stopped);
    // In the middle of one, by another process.
    let no = rig.add(cancel("w")).unwrap().no;
    let looks = Cell::new(0);
    let during = || {
        looks.set(looks.get() + 1);
        if looks.get() == 3 {
            assert_eq!(stop(no), Standing::Stopping);
        }
        false
    };
    assert!(turn(&rig.client.inner, &during).unwrap());
    assert_eq!(rig.stands(no), (Standing::Stopped, PAGE.into(), 0));
    assert!(!rig.turn());
    assert!(
        rig.client
            .inner
            .stop_batch(BatchNo(99))
            .unwrap_err()
            .is_missing()
    );
}

#[test]
fn a_page_is_repeated_if_its_process_dies() {
    let rig = Rig::new();
    let ids = rig.create("w", PAGE + 1);
    let batch = rig.add(cancel("w")).unwrap();
    let mut lost = batch.progress.clone();
    page(&rig.client.inner, &batch, &mut lost, &|| false).unwrap();
    assert_eq!(lost.done, u64::from(PAGE));
    assert_eq!(rig.stands(batch.no), (Standing::Working, 0, 0));
    while rig.turn() {}
    let (standing, done, _) = rig.stands(batch.no);
    assert_eq!((standing, done), (Standing::Done, (PAGE + 1).into()));
    assert!(rig.cancels(&ids).iter().all(|cancels| *cancels >= 1));
}

#[test]
fn a_process_that_ends_leaves_the_rest_of_its_page() {
    let rig = Rig::new();
    let ids = rig.create("w", 9);
    let no = rig.add(cancel("w")).unwrap().no;
    let looks = Cell::new(0);
    let ends = || {
        looks.set(looks.get() + 1);
        looks.get() > 4
    };
    assert!(!turn(&rig.client.inner, &ends).unwrap());
    assert_eq!(rig.stands(no), (Standing::Working, 4, 0));
    while rig.turn() {}
    assert_eq!(rig.stands(no), (Standing::Done, 9, 0));
    assert_eq!(rig.cancels(&ids), [1; 9]);
}

#[test]
fn a_batch_names_runs_that_its_operation_concerns() {
    let refused = |action: Action, runs: Selection| match What::new(action, runs) {
        Err(Error::Refused { message, help, .. }) => (message, help.unwrap_or_default()),
        other => panic!("it is not refused: {other:?}"),
    };
    let (message, _) = refused(Action::Delete, Selection::default());
    assert!(message.contains("delete all runs"), "{message}");
    let running = Selection {
        statuses: vec![Status::Running.name().to_owned()],
        ..of("w")
    };
    let (message, help) = refused(Action::Delete, running.clone());
    assert!(message.contains("`running`"), "{message}");
    assert!(help.contains("completed, faulted, cancelled"), "{help}");
    assert!(What::new(Action::Cancel, running).is_ok());
    let rig = Rig::new();
    let orphans = Selection {
        parent: Some(RunId(uuid::Uuid::from_u128(5))),
        ..Selection::default()
    };
    let what = What::new(Action::Cancel, orphans).unwrap();
    assert!(rig.add(what).unwrap_err().is_missing());
}

#[test]
fn few_batches_go_on_at_a_time() {
    let rig = Rig::new();
    let numbers: Vec<_> = (0..windlass_store::batches::WORKING)
        .map(|_| rig.add(cancel("w")).unwrap().no)
        .collect();
    let refused = rig.add(cancel("w")).unwrap_err();
    assert_eq!(refused.code(), crate::codes::TOO_MANY_BATCHES);
    while rig.turn() {}
    for no in numbers {
        assert_eq!(rig.stands(no), (Standing::Done, 0, 0));
    }
    rig.add(cancel("w")).unwrap();
}
