//! A store whose reads fail for a while.

use windlass_model::stimulus::{Delivery, Stimulus};
use windlass_model::{Payload, Status};
use windlass_store::Reader as _;
use windlass_store::read::RunQuery;

use crate::rig::Setup;

#[test]
fn a_run_whose_definition_is_out_of_reach_for_a_while_is_not_put_aside() {
    let running = Setup::default().start();
    running.publish(
        "
workflow: called
triggers: { go: { event: call } }
nodes: { only: { set: { done: true } } }
",
    );
    running.store.set_unread(2);
    let sent = running.send(&Stimulus {
        name: "call".to_owned(),
        matches: serde_json::Value::Null,
        correlation: None,
        run: None,
        input: Payload::null(),
        delivery: Delivery::Start,
        ttl_ms: 0,
        trace: None,
    });
    assert_eq!(sent.started.len(), 1);
    running.until("the run has ended", |store| {
        running.wake();
        let runs = store.runs(&RunQuery {
            limit: 2,
            ..Default::default()
        });
        let runs = runs.unwrap();
        runs.len() == 1 && runs[0].status == Status::Completed
    });
}
