//! `windlass lock list`, and the messages of a host when the lock provider fails.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_locks::{FileOptions, Key, Parts, Settings};
use windlass_runtime::SystemClock;
use windlass_tests::harness::{Gate, Place, until};

fn listed(place: &Place) -> Vec<Value> {
    let list: Value = serde_json::from_str(&place.ask(&["lock", "list", "-o", "json"]))
        .expect("the list is JSON");
    list.as_array().expect("it is a list").clone()
}

/// A workflow that needs no plugin.
fn sets() -> Value {
    json!({ "workflow": "sets", "nodes": { "set": { "set": { "done": true } } } })
}

#[test]
fn the_owner_of_a_run_holds_its_lock() {
    let gate = Gate::shut();
    let place = Place::new(&["fetch"]).with_http("fetch", &gate.grant());
    let node = json!({ "use": "fetch/fetch", "with": { "url": gate.url() }, "timeout": "170s" });
    let gated = json!({ "workflow": "gated", "nodes": { "gate": node } });
    let file = place.workflow("gated", &gated);
    let host = place.serve();
    let id = place.ask(&["runs", "start", &file.display().to_string()]);
    let key = format!("workflow-instance:{}", id.trim());
    until("the run is at the gate", || gate.asked() > 0);
    let list = listed(&place);
    let lock = list.iter().find(|lock| lock["key"] == key.as_str());
    let lock = lock.expect("the run is in the list");
    assert_eq!(lock["owner"], format!("serve {}", host.pid()));
    gate.open();
    until("the run is given back", || listed(&place).is_empty());
}

#[test]
fn a_lock_of_the_configured_provider_is_listed_while_it_is_held() {
    let place = Place::new(&[]).with("locks.provider", "file");
    let file = place.workflow("sets", &sets());
    place.ask(&["run", &file.display().to_string()]);
    assert!(listed(&place).is_empty());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let directory = place.store().with_file_name("locks");
    let parts = Parts {
        clock: Arc::new(SystemClock::new()),
        runtime: runtime.handle().clone(),
        owner: "a test".to_owned(),
        metrics: Arc::default(),
    };
    let provider = windlass_locks::open(&Settings::File(FileOptions { directory }), parts);
    let provider = provider.expect("it opens");
    let held = runtime.block_on(provider.try_acquire(&Key::reload()));
    let held = held.expect("it answers").expect("it is free");
    let list = listed(&place);
    assert_eq!(list.len(), 1);
    assert_eq!(list[0]["key"], "definitions-reloader");
    assert_eq!(list[0]["owner"], "a test");
    assert_eq!(list[0]["token"], held.token());
    runtime.block_on(held.release()).expect("it is released");
    assert!(listed(&place).is_empty());
}

#[test]
fn locks_that_cannot_be_reached_are_named() {
    let place = Place::new(&[])
        .with("locks.provider", "redis")
        .with("locks.url", "redis://127.0.0.1:1");
    let file = place.workflow("sets", &sets());
    place.ask(&["run", &file.display().to_string()]);
    let said = place.say(&["-o", "jsonl", "lock", "list"]);
    assert_eq!(said.exit, Some(50));
    assert_eq!(said.error()["code"], "WL-L002");
}
