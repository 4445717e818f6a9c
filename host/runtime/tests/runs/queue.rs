//! A queued stimulus is sent once, or becomes a dead letter that can be replayed.

use serde_json::{Value, json};
use windlass_model::{Body, Payload};
use windlass_runtime::{Operations, Topology, operations};
use windlass_store::Reader as _;
use windlass_store::letters::{LetterQuery, Lettered};
use windlass_store::read::RunQuery;

use crate::rig::Setup;

/// More stimuli than a process sends in one round of the queue.
const MANY: usize = 2_000;

const STARTED: &str = "
workflow: started
triggers: { go: { event: go } }
nodes: { only: { set: { done: true } } }
";

#[test]
fn a_stimulus_that_two_processes_take_from_one_queue_starts_once() {
    let running = Setup::default().start();
    running.publish(STARTED);
    running.enqueue("go", MANY);
    let begun_ms = running.now_ms();
    let second = running.second(Topology::Local);
    running.wake();
    running.until("the queue is empty", |store| {
        store.counts().unwrap().queued == 0
    });
    let took_ms = running.now_ms() - begun_ms;
    running.until("all have ended", |store| {
        store.counts().unwrap().unfinished == 0
    });
    let counts = running.store.counts().unwrap();
    println!("{MANY} stimuli by two processes in {took_ms} ms: {counts:?}");
    assert_eq!(counts.runs, MANY as u64);
    assert_eq!(counts.dead_letters, 0);
    drop(second);
}

#[test]
fn a_large_event_of_the_queue_starts_runs_with_its_whole_input() {
    let running = Setup::default().start();
    running.publish(STARTED);
    running.publish(
        "
workflow: made
triggers: { go: { event: go, input: { size: '{{ event.input | length }}', of: '{{ event.name }}' } } }
nodes: { only: { set: { size: '{{ input.size }}', of: '{{ input.of }}' } } }
output: '{{ input }}'
",
    );
    let large = "x".repeat(200_000);
    let input = Payload::of(&json!(large));
    running.enqueue_with("go", 1, &input);
    running.wake();
    running.until("both have ended", |store| {
        let counts = store.counts().unwrap();
        assert_eq!(counts.dead_letters, 0);
        (counts.queued, counts.runs, counts.unfinished) == (0, 2, 0)
    });
    let query = RunQuery {
        limit: 10,
        ..RunQuery::default()
    };
    let runs = running.store.runs(&query).unwrap().into_iter();
    let inputs = runs.map(|run| {
        let input = running.store.input(run.no).unwrap().unwrap();
        let bytes = match input.body {
            Body::Inline(bytes) => bytes,
            Body::Blob(blob) => running.store.blob(blob).unwrap().unwrap(),
        };
        serde_json::from_slice(&bytes).unwrap()
    });
    let mut inputs: Vec<Value> = inputs.collect();
    inputs.sort_by_key(Value::is_string);
    let made = json!({ "size": 200_000, "of": "go" });
    assert_eq!(inputs, [made, json!(large)]);
}

#[test]
fn a_stimulus_that_cannot_be_sent_is_a_dead_letter_that_is_retried_once() {
    let strict = format!("{STARTED}input: {{ type: object }}\n");
    let running = Setup::default().start();
    running.publish(&strict);
    running.enqueue("go", 1);
    running.wake();
    let letters = |store: &windlass_store::MemoryStore| {
        let query = LetterQuery {
            limit: 10,
            ..LetterQuery::default()
        };
        store.dead_letters(&query).unwrap()
    };
    running.until("it is given up", |store| letters(store).len() == 1);
    assert_eq!(running.store.counts().unwrap().queued, 0);
    assert_eq!(running.store.counts().unwrap().runs, 0);
    let [dead] = &letters(&running.store)[..] else {
        panic!("there is one");
    };
    assert_eq!(dead.letter.reason, "failed");
    // The cause is repaired.
    running.publish(STARTED);
    let [local, detached] = running.clients();
    let replay = |client: &Operations| running.block_on(client.replay(dead.no)).unwrap();
    assert_eq!(replay(&local), Lettered::Done);
    running.until("it has started something", |store| {
        store.counts().unwrap().runs == 1
    });
    assert_eq!(replay(&detached), Lettered::Already);
    let purged = operations::purge_letters(&*running.store, i64::MAX, 10).unwrap();
    assert_eq!((purged, letters(&running.store).len()), (1, 0));
}

#[test]
fn all_that_has_expired_is_cleared_away_at_once() {
    let running = Setup::default().start();
    let late = windlass_model::Stimulus {
        name: "unheard".to_owned(),
        matches: serde_json::Value::Null,
        correlation: None,
        run: None,
        input: windlass_model::Payload::null(),
        delivery: windlass_model::Delivery::Buffer,
        ttl_ms: 1,
        trace: None,
    };
    for _ in 0..MANY {
        assert!(running.send(&late).resumed.is_empty());
    }
    running.wake();
    // With rounds only at their interval, this would take minutes.
    running.until("all are dead letters", |store| {
        let counts = store.counts().unwrap();
        (counts.buffered, counts.dead_letters) == (0, MANY as u64)
    });
}
