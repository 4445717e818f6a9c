//! A run has a bounded number of descendants, and none that begins after its cancellation.

use serde_json::json;
use windlass_model::stimulus::{Delivery, Stimulus};
use windlass_model::{Class, Payload, RunNo, Status};
use windlass_store::letters::LetterQuery;
use windlass_store::rows::RunRow;
use windlass_store::{MemoryStore, Reader as _};

use crate::rig::{Running, Setup};

/// A workflow that calls itself twice.
const BOMB: &str = "
workflow: bomb
nodes:
  a: { workflow: bomb }
  b: { workflow: bomb }
";

/// The runs of a tree without its root.
fn descendants(store: &MemoryStore, root: RunNo) -> Vec<RunRow> {
    let mut found = Vec::new();
    let mut todo = vec![root];
    while let Some(no) = todo.pop() {
        let children = store.children(no, None, u32::MAX).unwrap();
        todo.extend(children.iter().map(|row| row.no));
        found.extend(children);
    }
    found
}

fn have_ended(store: &MemoryStore, root: RunNo) -> bool {
    let all = descendants(store, root);
    all.iter().all(|row| row.status.is_final())
}

#[test]
fn a_workflow_that_starts_itself_is_stopped_at_the_bound() {
    let setup = Setup {
        max_descendants: 40,
        ..Setup::default()
    };
    let running = setup.beside("bomb", BOMB).start();
    let started = running.run(BOMB);
    let result = running.ended(started.no);
    assert_eq!(result.status, Status::Faulted);
    let failure = result.failure.unwrap();
    assert_eq!(failure.class, Class::Limit, "{failure:?}");
    assert_eq!(failure.code.to_string(), "WL-S026", "{failure:?}");
    running.until("all have ended", |store| have_ended(store, started.no));
    // Those at the bound fail, and the others are cancelled with their parents.
    let born = descendants(&running.store, started.no).len();
    assert!((1..=40).contains(&born), "{born}");
}

#[test]
fn a_workflow_bounds_the_trees_of_its_runs() {
    const ROOT: &str = "
workflow: root
options: { descendants: 3, incidents: continue }
nodes:
  all: { for-each: [1, 2, 3, 4, 5], concurrency: 1, on-item-error: continue, nodes: { one: { workflow: leaf } } }
";
    let leaf = "
workflow: leaf
options: { descendants: 1 }
nodes:
  done: { set: { x: 1 } }
";
    let running = Setup::default().beside("leaf", leaf).start();
    let started = running.run(ROOT);
    running.ended(started.no);
    assert_eq!(descendants(&running.store, started.no).len(), 3);
}

fn until_grown(running: &Running, root: RunNo, count: usize) {
    running.until("the tree has grown", |store| {
        descendants(store, root).len() >= count
    });
}

#[test]
fn nothing_is_born_after_a_cancellation() {
    let running = Setup {
        max_descendants: 100_000,
        ..Setup::default()
    }
    .beside("bomb", BOMB)
    .start();
    let started = running.run(BOMB);
    until_grown(&running, started.no, 200);
    running.cancel(started.id);
    let born = descendants(&running.store, started.no).len();
    assert_eq!(running.ended(started.no).status, Status::Cancelled);
    running.until("all have ended", |store| have_ended(store, started.no));
    assert_eq!(descendants(&running.store, started.no).len(), born);
}

#[test]
fn a_cancelled_run_is_undone_by_sub_workflows() {
    const ROOT: &str = "
workflow: root
nodes:
  book: { set: { booked: true }, compensate: refund }
  later: { wait: 1h }
  refund: { workflow: outer }
edges: [book -> later]
";
    let outer = "
workflow: outer
nodes:
  call: { workflow: inner }
";
    let inner = "
workflow: inner
nodes:
  done: { set: { x: 1 } }
";
    let setup = Setup::default().beside("outer", outer);
    let running = setup.beside("inner", inner).start();
    let started = running.run(ROOT);
    running.suspended(started.no);
    running.cancel(started.id);
    assert_eq!(running.ended(started.no).status, Status::Cancelled);
    let born = descendants(&running.store, started.no);
    assert_eq!(born.len(), 2);
    assert!(
        born.iter().all(|row| row.status == Status::Completed),
        "{born:?}"
    );
}

/// All runs have ended and no stimulus waits.
fn is_quiet(store: &MemoryStore) -> bool {
    let counts = store.counts().unwrap();
    (counts.queued, counts.unfinished) == (0, 0)
}

/// The classes and codes of the failures of all dead letters.
fn refusals(store: &MemoryStore) -> Vec<(Class, String)> {
    let letters = store.dead_letters(&LetterQuery {
        limit: u32::MAX,
        ..LetterQuery::default()
    });
    let failures = letters.unwrap().into_iter().map(|row| {
        let failure = row.letter.failure.unwrap();
        (failure.class, failure.code.to_string())
    });
    failures.collect()
}

#[test]
fn a_workflow_that_starts_itself_by_events_is_stopped_at_the_bound() {
    const SPREADING: &str = "
workflow: spreading
triggers:
  first: { event: spread, match: { n: 0 } }
  second: { event: spread, match: { n: 1 } }
nodes:
  tell: { use: teller/tell, with: { send: 2, name: spread, data: 1, then: done } }
";
    let setup = Setup {
        components: &["teller"],
        max_descendants: 40,
        ..Setup::default()
    };
    let running = setup.start();
    running.publish(SPREADING);
    let started = running.run(SPREADING);
    running.ended(started.no);
    running.until("the events are delivered", is_quiet);
    assert_eq!(running.store.counts().unwrap().runs, 41);
    // Each run sends two events, and 40 of them have started a run.
    let limit = (Class::Limit, "WL-S026".to_owned());
    assert_eq!(refusals(&running.store), vec![limit; 42]);
    // An event from outside begins another tree.
    running.enqueue("spread", 1);
    running.until("the event is delivered", is_quiet);
    assert_eq!(
        running.store.counts().unwrap().runs,
        41,
        "it has another match"
    );
    let sent = running.send(&Stimulus {
        name: "spread".to_owned(),
        matches: json!({ "n": 1 }),
        correlation: None,
        run: None,
        input: Payload::null(),
        delivery: Delivery::Start,
        ttl_ms: 0,
        trace: None,
    });
    assert_eq!(sent.started.len(), 1);
    running.until("the second tree is full", is_quiet);
    assert_eq!(running.store.counts().unwrap().runs, 41 + 41);
}

#[test]
fn incidents_that_cause_incidents_are_stopped_at_the_bound() {
    const BROKEN: &str = "
workflow: broken
triggers:
  again: { event: again, match: { n: 0 } }
vars: { zero: 0 }
nodes:
  fails: { set: { x: '{{ 1 // vars.zero }}' } }
";
    const HANDLER: &str = "
workflow: handler
triggers:
  any: { event: incident }
nodes:
  again: { use: teller/tell, with: { send: 1, name: again, data: 1, then: done } }
";
    let running = Setup {
        components: &["teller"],
        max_descendants: 9,
        ..Setup::default()
    }
    .start();
    running.publish(BROKEN);
    running.publish(HANDLER);
    let started = running.run(BROKEN);
    assert_eq!(running.ended(started.no).status, Status::Faulted);
    running.until("the incidents are handled", is_quiet);
    let runs = running.store.counts().unwrap().runs;
    assert_eq!(
        runs, 10,
        "the first run, and in turn a handler and what it starts"
    );
}
