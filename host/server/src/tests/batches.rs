//! Batches over the API: a preview, a batch that the process carries out, and refusals.

use serde_json::{Value, json};

use super::*;

/// Starts runs that wait for ever.
fn started(rig: &Rig, workflow: &str, count: usize) {
    rig.publish_named(workflow, &json!({}));
    for _ in 0..count {
        let body = json!({ "workflow": workflow });
        let (status, run) = rig.call(Method::POST, "runs", Some(&body));
        assert!(status < 300, "{run}");
    }
}

/// The batch when it has ended.
fn ended(rig: &Rig, batch: &Value) -> Value {
    let path = format!("batches/{}", batch["batch"]);
    for _ in 0..10_000 {
        let (status, shown) = rig.call(Method::GET, &path, None);
        assert_eq!(status, 200, "{shown}");
        if shown["ended"].is_string() {
            return shown;
        }
        std::thread::yield_now();
    }
    panic!("the batch does not end: {batch}")
}

#[test]
fn many_runs_are_counted_cancelled_and_deleted() {
    let rig = Rig::new(Bounds::default());
    started(&rig, "many", 60);
    started(&rig, "other", 2);
    let runs = json!({ "workflow": "many" });
    let ask =
        |verb: &str, body: Value| rig.call(Method::POST, &format!("batches/{verb}"), Some(&body));
    let (status, preview) = ask("preview", json!({ "action": "cancel", "where": runs }));
    assert_eq!(status, 200, "{preview}");
    assert_eq!(
        (&preview["count"], &preview["exact"]),
        (&json!(60), &json!(true))
    );
    let examples = preview["examples"].as_array().unwrap();
    assert_eq!(examples.len(), 10);
    assert!(examples.iter().all(|run| run["workflow"] == "many"));
    let (status, batch) = ask("cancel", json!({ "where": runs }));
    assert_eq!(
        (status, &batch["action"]),
        (201, &json!("cancel")),
        "{batch}"
    );
    assert_eq!(batch["where"], runs);
    let done = ended(&rig, &batch);
    assert_eq!(
        (&done["standing"], &done["done"]),
        (&json!("done"), &json!(60)),
        "{done}"
    );
    let cancelled = || {
        let (_, page) = rig.call(Method::GET, "runs?status=cancelled&count=true", None);
        page["matching"]["count"].as_u64().unwrap()
    };
    while cancelled() < 60 {
        std::thread::yield_now();
    }
    let (status, batch) = ask("delete", json!({ "where": { "workflow": "many" } }));
    assert_eq!(status, 201, "{batch}");
    assert_eq!(ended(&rig, &batch)["done"], 60);
    let (_, page) = rig.call(Method::GET, "runs?count=true", None);
    assert_eq!(
        page["matching"]["count"], 2,
        "the other workflow is left alone"
    );
    let (_, listed) = rig.call(Method::GET, "batches?limit=1", None);
    assert_eq!(listed["items"][0]["action"], "delete");
    let (_, listed) = rig.call(
        Method::GET,
        &format!(
            "batches?limit=1&cursor={}",
            listed["next"].as_str().unwrap()
        ),
        None,
    );
    assert_eq!(listed["items"][0]["action"], "cancel");
    assert_eq!(listed["next"], Value::Null);
    let (status, stopped) = rig.call(Method::POST, "batches/1/stop", None);
    assert_eq!(
        (status, &stopped["standing"]),
        (200, &json!("done")),
        "it has ended before"
    );
}

#[test]
fn batches_without_a_condition_are_refused() {
    let rig = Rig::new(Bounds::default());
    let code = |verb: &str, body: Value| {
        let (status, problem) = rig.call(Method::POST, &format!("batches/{verb}"), Some(&body));
        (
            status,
            problem["code"].as_str().unwrap_or_default().to_owned(),
        )
    };
    assert_eq!(
        code("delete", json!({ "where": {} })),
        (422, "WL-R156".to_owned())
    );
    let running = json!({ "where": { "status": ["running"] } });
    assert_eq!(code("retry", running), (422, "WL-R156".to_owned()));
    assert_eq!(code("retry", json!({ "where": { "color": "red" } })).0, 422);
    assert_eq!(
        code("cancel", json!({ "where": { "since": "soon" } })).0,
        422
    );
    assert_eq!(rig.call(Method::GET, "batches/7", None).0, 404);
    assert_eq!(rig.call(Method::POST, "batches/x/stop", None).0, 400);
}
