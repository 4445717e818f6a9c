//! Inputs and outputs of calls, inline and on fibers.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_model::{Body, Class, Outcome, Payload};
use windlass_plugins::{CallMode, Disposition, Memory, MemoryError, Purity, Reason, Resumption};

use crate::rig::{Rig, bare, call, context, earn_trust, failure, output, trigger, vars};

#[test]
fn a_node_echoes_in_both_lanes() {
    let rig = Rig::new();
    let echo = rig.plugin("echo");
    assert_eq!(echo.purity, Purity::Pure, "{:?}", echo.imports);
    let input = json!({ "text": "ünïcode \u{1f980}", "n": [1, 2.5, null] });
    let make = || call("echo/echo", &Value::Null, &input);
    assert_eq!(output(rig.fiber(&echo, make())), input);
    earn_trust(&rig, &echo, make);
    let returned = echo.execute_inline(make());
    assert!(returned.memory_bytes > 0);
    assert_eq!(output(returned), input);
}

#[test]
fn first_party_plugins_are_pure_where_they_should_be() {
    let rig = Rig::new();
    let purity = |name| rig.plugin(name).purity;
    assert_eq!(purity("chain-executor"), Purity::Pure);
    assert_eq!(purity("data"), Purity::Pure);
    assert_eq!(purity("text"), Purity::Pure);
    assert_eq!(purity("http"), Purity::Effectful);
}

#[test]
fn the_chain_executor_gets_inline_after_sixteen_triggers() {
    let rig = Rig::new();
    let chain = rig.plugin("chain-executor");
    for _ in 0..16 {
        assert_eq!(chain.lane(), CallMode::Fiber);
        let returned = rig.io.block_on(Arc::clone(&chain).accept(trigger(None)));
        vars(returned.result.unwrap());
    }
    assert_eq!(chain.lane(), CallMode::Inline);
    vars(chain.accept_inline(trigger(None)).result.unwrap());
}

#[test]
fn a_consumer_can_say_everything_that_a_consumer_may() {
    let rig = Rig::new();
    let gate = rig.plugin("gate");
    let ask = |order: Value| {
        let payload = json!({ "gate": order });
        rig.io
            .block_on(Arc::clone(&gate).accept(trigger(Some(&payload))))
    };
    assert_eq!(ask(json!("handled")).result.unwrap(), Disposition::Handled);
    let later = ask(json!({ "later-ms": 50 })).result.unwrap();
    assert_eq!(later, Disposition::Later { after_ms: 50 });
    let reject = ask(json!({ "reject": "why" })).result.unwrap();
    match reject {
        Disposition::Reject(why) => assert_eq!(why.message, "why"),
        other => panic!("not rejected: {other:?}"),
    }
    failure(ask(json!({ "fail": "why" })), Class::Retryable, "WL-R039");
    failure(ask(json!("trap")), Class::Trap, "WL-R030");
    let executed = ask(json!({ "patch": { "a": 1 } }));
    assert_eq!(executed.logs[0].message, "looking");
    assert_eq!(vars(executed.result.unwrap()), Some(json!({ "a": 1 })));
}

#[test]
fn a_node_reads_its_context() {
    let rig = Rig::new();
    let steps = rig.plugin("steps");
    let returned = rig.fiber(&steps, call("steps/look", &json!({}), &json!(1)));
    assert_eq!(returned.progress, Some((0.5, "half way".to_owned())));
    let seen = output(returned);
    let instance = context().run.to_string();
    assert_eq!(seen["run"], json!(instance));
    assert_eq!(seen["workflow"], json!("flow"));
    assert_eq!(seen["node"], json!("step"));
    assert_eq!(seen["trigger"], json!(format!("{instance}/7")));
    assert_eq!(seen["attempt"], json!(2));
    assert_eq!(seen["idempotency-key"], json!(format!("{instance}/5/0")));
    assert_eq!(seen["correlation"], json!("order-1"));
    assert_eq!(seen["cancelled"], json!(false));
    let left = seen["deadline-ms"].as_i64().unwrap() - seen["now-ms"].as_i64().unwrap();
    assert!((9_000..=10_001).contains(&left), "{left}");
}

#[test]
fn errors_of_nodes_keep_their_class() {
    let rig = Rig::new();
    let steps = rig.plugin("steps");
    for (name, class, code) in [
        ("invalid", Class::Invalid, "WL-R038"),
        ("retryable", Class::Retryable, "WL-R039"),
        ("permanent", Class::Permanent, "WL-R040"),
        ("cancelled", Class::Cancelled, "WL-R037"),
        ("other", Class::Permanent, "WL-R041"),
    ] {
        let config = json!({ "class": name, "message": "a\u{1b}b" });
        let returned = rig.fiber(&steps, call("steps/fail", &config, &Value::Null));
        let failure = failure(returned, class, code);
        assert!(!failure.message.contains('\u{1b}'));
    }
    let config = json!({ "until": 9, "after-ms": 5 });
    let returned = rig.fiber(&steps, call("steps/flaky", &config, &Value::Null));
    assert_eq!(returned.logs.len(), 1);
    assert_eq!(returned.result.unwrap_err().retry_after_ms, Some(5));
}

#[test]
fn a_node_that_polls_gets_its_state_back() {
    let rig = Rig::new();
    let steps = rig.plugin("steps");
    let config = json!({ "times": 1, "after-ms": 7 });
    let first = rig.fiber(&steps, call("steps/poll", &config, &Value::Null));
    let Outcome::Again(again) = first.result.unwrap() else {
        panic!("not again")
    };
    assert_eq!(again.after_ms, 7);
    let mut second = call("steps/poll", &config, &Value::Null);
    second.cx.phase = 1;
    second.cx.resumption = Some(Arc::new(Resumption {
        reason: Reason::Again,
        state: again.state,
    }));
    assert_eq!(output(rig.fiber(&steps, second)), json!(1));
}

#[test]
fn a_suspension_carries_its_bookmarks() {
    let rig = Rig::new();
    let steps = rig.plugin("steps");
    let config = json!({ "bookmarks": ["a", "b"], "match": { "id": 1 }, "expires-ms": 1000 });
    let returned = rig.fiber(&steps, call("steps/suspend", &config, &json!("in")));
    let Outcome::Suspend(suspension) = returned.result.unwrap() else {
        panic!("not suspended")
    };
    assert_eq!(suspension.bookmarks.len(), 2);
    assert_eq!(suspension.bookmarks[0].matches, json!({ "id": 1 }));
    assert!(suspension.bookmarks[0].expires_ms.is_some());
    assert_eq!(
        suspension.state,
        Some(Payload::of(&json!({ "input": "in" })))
    );
}

#[test]
fn memory_is_read_by_path() {
    struct Vars;
    impl Memory for Vars {
        fn get(&self, path: &str) -> Result<Option<Payload>, MemoryError> {
            Ok((path == "vars.a").then(|| Payload::of(&json!([1]))))
        }
    }
    let rig = Rig::new();
    let steps = rig.plugin("steps");
    assert_eq!(steps.lane(), CallMode::Fiber);
    let get = |path: &str| {
        let mut call = call("steps/memory", &json!({ "path": path }), &Value::Null);
        call.cx.memory = Some(Arc::new(Vars));
        rig.fiber(&steps, call)
    };
    assert_eq!(output(get("vars.a")), json!([1]));
    assert_eq!(output(get("vars.b")), Value::Null);
    assert!(get("etc.passwd").result.is_err());
}

#[test]
fn a_blob_that_is_passed_on_stays_a_blob_and_a_foreign_one_is_refused() {
    let rig = Rig::new();
    let echo = rig.plugin("echo");
    let blob = windlass_model::BlobRef {
        digest: windlass_model::Digest::of(b"elsewhere"),
        size: 9_000_000,
    };
    let mut by_reference = bare("echo/echo");
    by_reference.input = Payload {
        content_type: None,
        body: Body::Blob(blob),
    };
    let Outcome::Done(done) = rig.fiber(&echo, by_reference).result.unwrap() else {
        panic!("not done")
    };
    assert_eq!(done.output.body, Body::Blob(blob));
    let hostile = rig.plugin("hostile");
    let returned = rig.fiber(&hostile, bare("hostile/foreign-blob"));
    failure(returned, Class::Permanent, "WL-R045");
}

#[test]
fn a_payload_that_is_no_json_is_refused() {
    let rig = Rig::new();
    let hostile = rig.plugin("hostile");
    failure(
        rig.fiber(&hostile, bare("hostile/not-json")),
        Class::Permanent,
        "WL-R045",
    );
    failure(
        rig.fiber(&hostile, bare("hostile/suspend")),
        Class::Permanent,
        "WL-R045",
    );
}

#[test]
fn a_plugin_is_called_only_for_its_exports() {
    let rig = Rig::new();
    let echo = rig.plugin("echo");
    let returned = rig.io.block_on(Arc::clone(&echo).accept(trigger(None)));
    failure(returned, Class::Permanent, "WL-R046");
    let steps = rig.plugin("steps");
    failure(
        steps.execute_inline(bare("steps/look")),
        Class::Permanent,
        "WL-R046",
    );
}
