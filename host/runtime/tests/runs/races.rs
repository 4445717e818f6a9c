//! Workflows are published while runs start: every run has exactly one version, and an allowed one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::{Value, json};
use windlass_model::stimulus::{Delivery, Stimulus};
use windlass_model::{Payload, RunId, Status};
use windlass_runtime::{Operations, StartRequest};
use windlass_store::Reader as _;

use crate::rig::{Running, Setup, json as read};

/// The number of runs started by name, and by a stimulus.
const STARTS: u128 = 2_000;

/// A version outputs its number, and starts at a stimulus.
fn version(number: u32) -> String {
    format!(
        r#"
workflow: changing
triggers:
  go: {{ event: go }}
nodes:
  one: {{ set: {{ first: {number} }} }}
  two: {{ set: {{ second: {number} }} }}
edges: [one -> two]
vars: {{ first: 0, second: 0 }}
output: "{{{{ [vars.first, vars.second] }}}}"
"#
    )
}

/// Starts the published version, as every start by name does.
fn start(running: &Running, client: &Operations, id: u128) -> RunId {
    let published = running.store.published("changing").unwrap().unwrap();
    let definition = running.store.definition(published.definition).unwrap();
    let request = StartRequest {
        workflow: definition
            .unwrap_or_else(|| panic!("{published:?} names nothing"))
            .into(),
        input: Payload::null(),
        id: Some(RunId(uuid::Uuid::from_u128(id))),
        correlation: None,
        trace: None,
    };
    running.block_on(client.create_and_run(request)).unwrap().id
}

fn go() -> Stimulus {
    Stimulus {
        name: "go".to_owned(),
        matches: json!(null),
        correlation: None,
        run: None,
        input: Payload::null(),
        delivery: Delivery::Start,
        ttl_ms: 0,
        trace: None,
    }
}

/// Starts the published version by a stimulus. A publisher without pauses may interfere again and
/// again: then the stimulus is refused, and sent again.
fn tell(running: &Running, refused: &AtomicU32) -> Vec<RunId> {
    loop {
        match running.try_send(&go()) {
            Ok(sent) => return sent.started,
            Err(error) => assert_eq!(error.code().as_str(), "WL-R102", "{error}"),
        }
        refused.fetch_add(1, Ordering::SeqCst);
    }
}

/// The version of a run's definition.
fn made_of(running: &Running, id: RunId) -> u64 {
    let [client, _] = running.clients();
    let patience = std::time::Duration::from_secs(20);
    let ended = running.block_on(client.result(id, patience)).unwrap();
    let result = ended.result.unwrap_or_else(|| panic!("{id} does not end"));
    assert_eq!(result.status, Status::Completed, "{:?}", result.failure);
    let output: [Value; 2] = serde_json::from_value(read(&result.output.unwrap())).unwrap();
    let row = running.store.run(id).unwrap().unwrap();
    let definition = running.store.definition(row.definition).unwrap().unwrap();
    let [first, last] = output;
    let number = first.as_u64().unwrap();
    assert_eq!(last, first, "one version from its begin to its end");
    let text = String::from_utf8(definition.json.to_vec()).unwrap();
    assert!(
        text.contains(&format!("\"first\":{number}")),
        "it is pinned to it: {text}"
    );
    assert!(running.store.pins(row.pins).unwrap().is_some());
    number
}

/// Ends the publishing, even if the starts fail.
struct Until<'a>(&'a AtomicBool);

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_start_that_races_a_publish_gets_one_published_version() {
    let running = Setup::default().start();
    let [client, other] = running.clients();
    running.publish(&version(1));
    let (published, over) = (AtomicU32::new(1), AtomicBool::new(false));
    let (refused, begun) = (AtomicU32::new(0), AtomicU32::new(0));
    let starting = |by: &(dyn Fn(u128) -> Vec<RunId> + Sync)| {
        let mut started = Vec::new();
        for round in 0..STARTS {
            let before = published.load(Ordering::SeqCst);
            let ids = by(round);
            begun.fetch_add(1, Ordering::SeqCst);
            // The publisher publishes a version before it counts it, so one more may exist.
            let after = published.load(Ordering::SeqCst) + 1;
            started.extend(ids.into_iter().map(|id| (id, before, after)));
        }
        started
    };
    let started = std::thread::scope(|scope| {
        let until = Until(&over);
        let publishing = scope.spawn(|| {
            let mut number = 1;
            while !over.load(Ordering::SeqCst) {
                number += 1;
                running.publish(&version(number));
                published.store(number, Ordering::SeqCst);
                // A start has to succeed before the next version.
                let before = begun.load(Ordering::SeqCst);
                while begun.load(Ordering::SeqCst) == before && !over.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            }
        });
        let by_name = scope.spawn(|| {
            starting(&|round| {
                let client = if round % 4 == 3 { &other } else { &client };
                vec![start(&running, client, 1_000_000 + round)]
            })
        });
        let by_stimulus = scope.spawn(|| starting(&|_| tell(&running, &refused)));
        let started = [by_name.join().unwrap(), by_stimulus.join().unwrap()];
        drop(until);
        publishing.join().unwrap();
        started
    });
    let mut ends = BTreeMap::<_, u32>::new();
    for (how, started) in ["by name", "by a stimulus"].into_iter().zip(started) {
        assert_eq!(started.len() as u128, STARTS, "each starts one run {how}");
        for (id, before, after) in started {
            let number = made_of(&running, id);
            let allowed = u64::from(before)..=u64::from(after);
            assert!(allowed.contains(&number), "{number} is not in {allowed:?}");
            let which = if number == u64::from(before) {
                "before"
            } else {
                "after"
            };
            *ends.entry((how, which)).or_default() += 1;
        }
    }
    let versions = published.load(Ordering::SeqCst);
    assert!(versions > 100, "{versions} versions are no race");
    // A refused stimulus has started no run.
    assert_eq!(u128::from(running.store.counts().unwrap().runs), 2 * STARTS);
    println!("publish racing start: {versions} versions, {ends:?}, {refused:?} refused");
}
