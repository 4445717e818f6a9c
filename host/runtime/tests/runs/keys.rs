//! Texts that are not valid keys are refused at the interface.

use serde_json::{Map, Value, json};
use windlass_model::limits::CORRELATION_BYTES;
use windlass_model::stimulus::{Delivery, Stimulus};
use windlass_model::{Payload, Status};
use windlass_runtime::operations::Schedule;
use windlass_runtime::{Error, StartRequest};
use windlass_store::Reader as _;

use crate::rig::{Setup, definition, json as read};

const PLAIN: &str = "workflow: plain\nnodes: { only: { set: { done: true } } }\n";

/// Correlation ids that no store keeps.
fn wrong() -> [String; 2] {
    ["a\0b".to_owned(), "x".repeat(CORRELATION_BYTES + 1)]
}

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().code().as_str().to_owned()
}

#[test]
fn a_run_with_an_invalid_correlation_is_not_started() {
    let running = Setup::default().start();
    for correlation in wrong() {
        for client in running.clients() {
            let request = StartRequest {
                workflow: definition(PLAIN).into(),
                input: Payload::null(),
                id: None,
                correlation: Some(correlation.clone()),
                trace: None,
            };
            let started = running.block_on(client.create_and_run(request));
            assert_eq!(code(started), "WL-R152");
        }
    }
    assert_eq!(running.store.counts().unwrap().unfinished, 0);
}

#[test]
fn a_stimulus_with_an_invalid_correlation_or_name_is_not_sent() {
    let running = Setup::default().start();
    let stimulus = |name: &str, correlation: Option<String>| Stimulus {
        name: name.to_owned(),
        matches: Value::Null,
        correlation,
        run: None,
        input: Payload::null(),
        delivery: Delivery::Buffer,
        ttl_ms: 1_000,
        trace: None,
    };
    for correlation in wrong() {
        let sent = running.try_send(&stimulus("e", Some(correlation)));
        assert_eq!(code(sent), "WL-R101");
    }
    for name in ["", "e\0", &"e".repeat(257)] {
        assert_eq!(code(running.try_send(&stimulus(name, None))), "WL-R101");
    }
}

#[test]
fn a_node_that_waits_with_an_invalid_key_fails() {
    let running = Setup::default().start();
    for (name, correlation) in [("{{ input }}", "c"), ("e", "{{ input }}")] {
        let workflow = format!(
            r#"
workflow: keys
nodes:
  ask: {{ event: "{name}", correlation: "{correlation}", on-error: route }}
  told: {{ set: {{ class: "{{{{ nodes.ask.output.error.class }}}}" }} }}
edges: [ask.error -> told]
output: "{{{{ vars.class }}}}"
"#
        );
        for text in wrong() {
            let started = running.run_on(&workflow, Payload::of(&json!(text)));
            let result = running.ended(started.no);
            assert_eq!(result.status, Status::Completed, "{:?}", result.failure);
            assert_eq!(read(&result.output.unwrap()), json!("invalid"));
        }
    }
}

#[test]
fn a_trigger_assigns_no_invalid_variable() {
    let running = Setup::default().start();
    let started = running.run("workflow: long\nnodes: { only: { wait: 1h } }\n");
    running.suspended(started.no);
    let [client, _] = running.clients();
    for name in ["v\0", &"v".repeat(257)] {
        let payload = Map::from_iter([(name.to_owned(), json!(1))]);
        let new = Schedule {
            id: None,
            run: started.id,
            node: "only".to_owned(),
            due_ms: None,
            payload: Some(payload),
            priority: 0,
        };
        assert_eq!(code(running.block_on(client.schedule(new))), "WL-R152");
    }
}
