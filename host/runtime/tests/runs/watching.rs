//! Clients that wait for runs, in the process of the run and in others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use windlass_model::stimulus::{Delivery, Stimulus};
use windlass_model::{Payload, RunId, Status};
use windlass_runtime::{Operations, StartRequest, Topology};
use windlass_store::stimuli::BookmarkQuery;
use windlass_store::{MemoryStore, Reader as _};

use crate::rig::{Running, Setup, definition};

/// Longer than any test takes.
const FOR_EVER: Duration = Duration::from_secs(3_600);

/// How long a test waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(120);

const ASKS: &str = r#"
workflow: asks
nodes:
  ask: { event: answered }
  then: { set: { x: 1 } }
edges: [ask -> then]
output: "{{ nodes.ask.output }}"
"#;

fn answered(run: RunId) -> Stimulus {
    Stimulus {
        name: "answered".to_owned(),
        matches: json!(null),
        correlation: None,
        run: Some(run),
        input: Payload::json("42"),
        delivery: Delivery::Resume,
        ttl_ms: 60_000,
        trace: None,
    }
}

/// Starts a run, which waits.
fn start(running: &Running, id: u128) -> RunId {
    let [local, _] = running.clients();
    let id = RunId(uuid::Uuid::from_u128(id));
    let request = StartRequest {
        workflow: definition(ASKS).into(),
        input: Payload::json("null"),
        id: Some(id),
        correlation: None,
        trace: None,
    };
    running.block_on(local.create_and_run(request)).unwrap();
    id
}

fn is_asked(store: &MemoryStore, id: RunId) -> bool {
    let query = BookmarkQuery {
        run: store.run(id).unwrap().map(|row| row.no),
        limit: 1,
        ..BookmarkQuery::default()
    };
    !store.bookmarks(&query).unwrap().is_empty()
}

/// The reads of the head of a run, and of the versions of many, through a handle.
fn count_reads(store: &MemoryStore) -> [Arc<AtomicUsize>; 2] {
    let counts = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let [heads, versions] = counts.clone();
    store.set_read_witness(Some(Box::new(move |name| {
        let count = match name {
            "run" => &heads,
            "versions" => &versions,
            _ => return,
        };
        count.fetch_add(1, Ordering::SeqCst);
    })));
    counts
}

#[test]
fn a_thousand_waiting_clients_read_each_run_twice_and_then_nothing() {
    let running = Setup::default().start();
    let ids: Vec<RunId> = (1..=10).map(|id| start(&running, id)).collect();
    for id in &ids {
        running.until("it waits", |store| is_asked(store, *id));
    }
    let [_, client] = running.clients();
    let [heads, versions] = count_reads(running.elsewhere());
    let waits: Vec<_> = (0..1_000)
        .map(|at| {
            let (client, id) = (client.clone(), ids[at % ids.len()]);
            (running.io()).spawn(async move { client.result(id, FOR_EVER).await })
        })
        .collect();
    // Two looks at all of the runs together.
    running.until("the process looks", |_| {
        versions.load(Ordering::SeqCst) >= 2
    });
    running.until("all wait", |_| heads.load(Ordering::SeqCst) >= 2_000);
    let looks = versions.load(Ordering::SeqCst);
    running.until("the process looks", |_| {
        versions.load(Ordering::SeqCst) > looks
    });
    assert_eq!(heads.load(Ordering::SeqCst), 2_000);
    for id in ids {
        running.send(&answered(id));
    }
    for wait in waits {
        let standing = running.block_on(wait).unwrap().unwrap();
        assert_eq!((standing.status, standing.done), (Status::Completed, true));
    }
}

/// The process of the client had the run when the wait began, and told no end.
#[test]
fn a_wait_ends_though_the_run_goes_on_in_another_process() {
    let running = Setup::default().start();
    let second = running.second(Topology::Local);
    let elsewhere = Operations::local(&second);
    for round in 1..=20 {
        let [local, _] = running.clients();
        let id = start(&running, round);
        let wait = (running.io()).spawn(async move { local.result(id, FOR_EVER).await });
        running.until("it waits", |store| is_asked(store, id));
        let sent = elsewhere.send(
            windlass_runtime::operations::new_stimulus_id(),
            answered(id),
        );
        assert_eq!(running.block_on(sent).unwrap().resumed, [id]);
        let wait = async { tokio::time::timeout(PATIENCE, wait).await };
        let standing = running.block_on(wait).expect("it waits in vain");
        assert_eq!(standing.unwrap().unwrap().status, Status::Completed);
    }
}

#[test]
fn a_client_that_follows_a_run_is_told_of_each_version_and_of_the_end() {
    let running = Setup::default().start();
    for (client, id) in running.clients().into_iter().zip([1, 2]) {
        let id = start(&running, id);
        running.until("it waits", |store| is_asked(store, id));
        let first = running.block_on(client.result(id, Duration::ZERO)).unwrap();
        assert!(!first.done);
        let old = windlass_model::Version(first.version.0 - 1);
        let at_once = running.block_on(client.news(id, old, FOR_EVER)).unwrap();
        assert_eq!(at_once.version, first.version);
        let (mut seen, mut done) = (first.version, false);
        running.send(&answered(id));
        while !done {
            let news = client.news(id, seen, FOR_EVER);
            let wait = async { tokio::time::timeout(PATIENCE, news).await };
            let news = running.block_on(wait).expect("no news").unwrap();
            assert!(news.version > seen);
            (seen, done) = (news.version, news.done);
        }
    }
}
