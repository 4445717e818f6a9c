//! Guests that send and schedule, and consumers that reject, delay or keep external triggers.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_model::stimulus::{Delivery, Stimulus};
use windlass_model::{Payload, RunId, ScopeNo, Status, TriggerType};
use windlass_runtime::operations;
use windlass_store::external::Scheduled;
use windlass_store::rows::TriggerRow;
use windlass_store::stimuli::BookmarkQuery;
use windlass_store::{MemoryStore, Reader as _};

use crate::rig::{Running, Setup, json as read};

fn start(components: &'static [&'static str]) -> Running {
    let setup = Setup {
        components,
        ..Setup::default()
    };
    setup.start()
}

const LISTENING: &str = r#"
workflow: listening
nodes:
  first: { event: told, match: { n: 0 } }
  second: { event: told, match: { n: 1 } }
output: "{{ [nodes.first.output, nodes.second.output] }}"
"#;

fn telling(then: &str) -> String {
    format!(
        r#"
workflow: telling
nodes:
  tell:
    use: teller/tell
    with: {{ send: 2, name: told, data: {{ by: teller }}, then: {then} }}
    on-error: continue
output: "{{{{ nodes.tell.output }}}}"
"#
    )
}

#[test]
fn stimuli_of_a_guest_are_delivered_once() {
    let running = start(&["teller"]);
    let waits = running.run(LISTENING);
    running.suspended(waits.no);
    let told = running.run(&telling("done"));
    let output = running.ended(told.no).output.unwrap();
    assert_eq!(read(&output), json!(["ok", "ok"]));
    let heard = running.ended(waits.no).output.unwrap();
    assert_eq!(
        read(&heard),
        json!([{ "by": "teller" }, { "by": "teller" }])
    );
    running.until("the queue is empty", |store| {
        store.counts().unwrap().queued == 0
    });
    assert_eq!(running.letters(), [""; 0]);
}

#[test]
fn stimuli_of_a_guest_that_fails_vanish() {
    let running = start(&["teller"]);
    let waits = running.run(LISTENING);
    running.suspended(waits.no);
    for then in ["fail", "trap"] {
        let failed = running.run(&telling(then));
        assert_eq!(running.ended(failed.no).status, Status::Completed);
    }
    let counts = running.store.counts().unwrap();
    assert_eq!((counts.queued, counts.bookmarks), (0, 2), "{counts:?}");
}

/// Waits until the run is over; only an external trigger runs `work`.
const HELD: &str = r#"
workflow: held
vars: { x: 0 }
nodes:
  hold: { event: over }
  work: { route: gate, set: { x: "{{ vars.x + vars.by }}" } }
edges: [{ from: hold, to: work, when: "false" }]
output: "{{ vars.x }}"
"#;

#[test]
fn a_trigger_that_a_guest_schedules_runs_its_node() {
    let running = start(&["teller", "gate"]);
    let workflow = HELD.replace(
        "nodes:\n",
        "nodes:\n  tell: { use: teller/tell, with: { schedule: 3, name: work, data: { by: 2 } } }\n",
    );
    let started = running.run(&workflow);
    running.until("three triggers have run", |store| {
        let vars = store.vars(started.no, ScopeNo::ROOT).unwrap();
        let x = vars.iter().find(|(name, _)| name == "x");
        x.is_some_and(|(_, x)| read(x) == json!(6))
    });
    over(&running, started.id);
    assert_eq!(read(&running.ended(started.no).output.unwrap()), json!(6));
}

fn over(running: &Running, id: RunId) {
    let sent = running.send(&Stimulus {
        name: "over".to_owned(),
        matches: Value::Null,
        correlation: None,
        run: Some(id),
        input: Payload::null(),
        delivery: Delivery::Buffer,
        ttl_ms: 60_000,
        trace: None,
    });
    assert!(sent.resumed == [id] || sent.buffered, "{sent:?}");
}

/// A held run, and a trigger for it whose payload tells the consumer what to do and which stimuli
/// to send. Returns when the trigger is due.
fn ordered(running: &Running, order: &Value) -> (windlass_runtime::Started, i64) {
    let started = running.run(HELD);
    running.suspended(started.no);
    let due_ms = running.now_ms();
    let payload = json!({ "gate": order, "by": 1, "tell": order });
    let new = operations::Schedule {
        id: None,
        run: started.id,
        node: "work".to_owned(),
        due_ms: Some(due_ms),
        payload: payload.as_object().cloned(),
        priority: 0,
    };
    assert_eq!(running.schedule(new), Scheduled::New);
    (started, due_ms)
}

/// The external triggers of the run.
fn external(store: &MemoryStore, started: &windlass_runtime::Started) -> Vec<TriggerRow> {
    let mut rows = store.triggers(started.no).unwrap();
    rows.retain(|row| row.kind == TriggerType::Timer);
    rows
}

#[test]
fn a_trigger_from_outside_that_is_turned_away_is_a_dead_letter_and_harms_no_run() {
    let running = start(&["gate"]);
    let (started, _) = ordered(&running, &json!({ "reject": "not today" }));
    running.until("it is a dead letter", |store| {
        store.counts().unwrap().dead_letters == 1
    });
    assert_eq!(running.letters(), ["rejected"]);
    assert!(external(&running.store, &started).is_empty());
    over(&running, started.id);
    assert_eq!(read(&running.ended(started.no).output.unwrap()), json!(0));
}

const HEARING: &str = r#"
workflow: hearing
nodes:
  hear: { event: gate.saw }
output: "{{ nodes.hear.output }}"
"#;

#[test]
fn stimuli_of_a_consumer_go_with_its_decision() {
    for order in [
        json!({ "patch": { "by": 2 } }),
        json!("handled"),
        json!({ "reject": "not today" }),
    ] {
        let running = start(&["gate"]);
        let waits = running.run(HEARING);
        running.suspended(waits.no);
        ordered(&running, &order);
        let heard = running.ended(waits.no).output.unwrap();
        assert_eq!(read(&heard), order);
    }
}

#[test]
fn stimuli_of_a_consumer_vanish_if_it_or_the_node_fails() {
    let running = start(&["gate"]);
    let waits = running.run(HEARING);
    running.suspended(waits.no);
    let (started, due_ms) = ordered(&running, &json!({ "fail": "ask again" }));
    running.until("it is put off", |store| {
        let rows = external(store, &started);
        rows.len() == 1 && rows[0].due_ms > due_ms
    });
    let (started, _) = ordered(&running, &json!({ "patch": { "by": "no number" } }));
    assert_eq!(running.ended(started.no).status, Status::Faulted);
    running.until("what was sent is delivered", |store| {
        store.counts().unwrap().queued == 0
    });
    let waiting = running.store.bookmarks(&BookmarkQuery {
        name: Some("gate.saw".to_owned()),
        limit: 10,
        ..BookmarkQuery::default()
    });
    assert_eq!(waiting.unwrap().len(), 1, "no stimulus has arrived");
}

#[test]
fn a_trigger_from_outside_that_its_consumer_handles_runs_nothing() {
    let running = start(&["gate"]);
    let (started, _) = ordered(&running, &json!("handled"));
    running.until("it is used up", |store| {
        external(store, &started).is_empty()
    });
    assert_eq!(running.letters(), [""; 0]);
    over(&running, started.id);
    assert_eq!(read(&running.ended(started.no).output.unwrap()), json!(0));
}

#[test]
fn a_consumer_that_hangs_loses_no_trigger_and_prevents_no_cancellation() {
    let setup = Setup {
        components: &["gate"],
        deadline: Duration::from_secs(1),
        ..Setup::default()
    };
    let running = setup.start();
    let (started, due_ms) = ordered(&running, &json!("hang"));
    running.until("it is put off", |store| {
        let rows = external(store, &started);
        rows.len() == 1 && rows[0].due_ms > due_ms
    });
    running.cancel(started.id);
    assert_eq!(running.ended(started.no).status, Status::Cancelled);
}

#[test]
fn a_consumer_that_keeps_failing_is_asked_ever_more_rarely() {
    let running = start(&["gate"]);
    let (started, _) = ordered(&running, &json!({ "fail": "ask again" }));
    // After the first failure it waits a second at most, and after the second one at least 1.5.
    let now_ms = || running.now_ms();
    running.until("it waits longer than at first", |store| {
        let rows = external(store, &started);
        rows.len() == 1 && rows[0].due_ms > now_ms() + 1_200
    });
    running.cancel(started.id);
    assert_eq!(running.ended(started.no).status, Status::Cancelled);
}
