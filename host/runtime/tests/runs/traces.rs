//! The trace of a run: nodes see it, and children and the runs of its events continue it.

use serde_json::json;
use windlass_model::stimulus::{Delivery, Stimulus};
use windlass_model::{Payload, TraceContext};
use windlass_runtime::{Operations, StartRequest};
use windlass_store::Reader as _;
use windlass_store::read::RunQuery;
use windlass_store::rows::RunRow;

use crate::rig::{Running, Setup, definition};

const TRACED: &str = "
workflow: traced
nodes:
  look: { use: steps/look }
  call: { workflow: called }
  tell: { use: teller/tell, with: { send: 1, name: told, data: 1, then: done } }
edges: [look -> call, call -> tell]
output: '{{ nodes.look.output[\"trace-parent\"] }}'
";

const CALLED: &str = "
workflow: called
nodes: { look: { use: steps/look } }
";

const TOLD: &str = "
workflow: told
triggers: { told: { event: told, match: { n: 0 } } }
nodes: { look: { use: steps/look } }
";

fn setup() -> Setup {
    Setup {
        components: &["steps", "teller"],
        ..Setup::default()
    }
    .beside("called", CALLED)
}

fn context() -> TraceContext {
    TraceContext::read("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .unwrap()
        .with_state(["congo=t61"])
}

fn all(running: &Running) -> Vec<RunRow> {
    let query = RunQuery {
        limit: 100,
        ..RunQuery::default()
    };
    running.store.runs(&query).unwrap()
}

fn started(running: &Running, trace: Option<TraceContext>) -> Option<String> {
    let request = StartRequest {
        workflow: definition(TRACED).into(),
        input: Payload::null(),
        id: None,
        correlation: None,
        trace,
    };
    let client = Operations::local(&running.runtime);
    let started = running.block_on(client.create_and_run(request)).unwrap();
    let output = running.ended(started.no).output.unwrap();
    let seen: serde_json::Value = serde_json::from_slice(output.inline().unwrap()).unwrap();
    seen.as_str().map(str::to_owned)
}

#[test]
fn a_trace_is_seen_by_nodes_and_continued_by_children_and_by_runs_of_events() {
    for trace in [None, Some(context())] {
        let running = setup().start();
        running.publish(TOLD);
        let seen = started(&running, trace.clone());
        assert_eq!(seen, trace.as_ref().map(ToString::to_string));
        running.until("the event has started its run", |store| {
            store.counts().unwrap().runs == 3
        });
        for row in all(&running) {
            assert_eq!(row.trace, trace, "{row:?}");
        }
    }
}

#[test]
fn a_stimulus_from_outside_gives_its_trace_to_the_runs_that_it_starts() {
    let running = setup().start();
    running.publish(TOLD);
    let sent = running.send(&Stimulus {
        name: "told".to_owned(),
        matches: json!({ "n": 0 }),
        correlation: None,
        run: None,
        input: Payload::null(),
        delivery: Delivery::Start,
        ttl_ms: 0,
        trace: Some(context()),
    });
    let row = running.store.run(sent.started[0]).unwrap().unwrap();
    assert_eq!(row.trace, Some(context()));
}

#[test]
fn a_start_that_is_repeated_in_another_trace_is_the_same_start() {
    let running = setup().start();
    let mut request = StartRequest {
        workflow: definition(CALLED).into(),
        input: Payload::null(),
        id: Some(windlass_model::RunId(uuid::Uuid::from_u128(7))),
        correlation: None,
        trace: Some(context()),
    };
    let client = Operations::local(&running.runtime);
    let first = running
        .block_on(client.create_and_run(request.clone()))
        .unwrap();
    request.trace = None;
    let again = running.block_on(client.create_and_run(request)).unwrap();
    assert_eq!((first.no, again.existing.is_some()), (again.no, true));
}
