//! Runs that are started by the name of their workflow, and watched.

use serde_json::{Value, json};
use windlass_tests::harness::{Place, Web, until_some};

fn workflow(ends: &Value) -> Value {
    json!({
        "workflow": "named",
        "nodes": { "first": { "use": "steps/effect" }, "last": ends },
        "edges": ["first -> last"],
        "output": "{{ input.word }}",
    })
}

#[test]
fn a_published_workflow_is_run_by_its_name_without_a_host() {
    let place = Place::new(&["steps"]);
    // Without a store there is nothing of this name, and no store is made.
    let said = place.say(&["run", "named", "-o", "jsonl"]);
    assert_eq!(
        (said.exit, &said.error()["code"]),
        (Some(41), &json!("WL-U011"))
    );
    assert!(!place.store().exists());
    let file = place.workflow("file", &workflow(&json!({ "use": "steps/effect" })));
    place.ask(&["workflow", "publish", &file.display().to_string()]);
    let id = "0193c0de-7a1b-7c3d-8e4f-0123456789ab";
    let named = ["run", "named", "--input", "word=one", "--id", id];
    assert_eq!(place.ask(&named).trim(), "one");
    // The same request is the same run, also after another version was published.
    let other = workflow(&json!({ "fail": "no" }));
    let other = place.workflow("other", &other).display().to_string();
    place.ask(&["workflow", "publish", &other]);
    assert_eq!(place.ask(&named).trim(), "one");
    let failed = place.say(&["run", "named", "--input", "word=one"]);
    assert_eq!(failed.exit, Some(10), "{failed:#?}");
    // A temporary store has no published workflow.
    let said = place.say(&["run", "named", "--ephemeral", "-o", "jsonl"]);
    assert_eq!(
        (said.exit, &said.error()["code"]),
        (Some(2), &json!("WL-U001"))
    );
}

#[test]
fn a_run_is_started_by_name_and_watched_on_the_store_and_through_the_host() {
    let place = Place::new(&["steps"]);
    let web = Web::serve(&place);
    let server = format!("http://{}", web.address);
    let wait = json!({ "event": "go", "match": "{{ input.word }}" });
    web.publish(&workflow(&wait));
    for through in [vec![], vec!["--server", &server]] {
        let start = ["runs", "start", "named", "--input", "word=one"];
        let id = place.ask(&[&start[..], &through].concat());
        let id = id.trim();
        let watching = ["runs", "watch", id, "-o", "jsonl"];
        let mut watching = place.start(&[&watching[..], &through].concat());
        let lines = || -> Vec<Value> {
            let said = watching.stdout();
            let whole = said
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok());
            whole.collect()
        };
        // The first execution is printed while the run goes on.
        let first = until_some("the first execution is printed", || {
            lines().first().cloned()
        });
        assert_eq!(
            (&first["node"], &first["status"]),
            (&json!("first"), &json!("completed"))
        );
        place.ask(&["event", "send", "go", "--match", "\"one\"", "--run", id]);
        let (status, stdout, stderr) = watching.output();
        assert_eq!(status.code(), Some(0), "{stderr}");
        let lines: Vec<Value> = stdout
            .lines()
            .map(|line| serde_json::from_str(line).expect("each line is JSON"))
            .collect();
        // Each execution once, and the outcome at the end.
        let of = |node: &str| lines.iter().filter(|line| line["node"] == node).count();
        assert_eq!(of("first"), 1, "{stdout}");
        assert!(of("last") >= 1, "{stdout}");
        let end = lines.last().expect("there are lines");
        assert_eq!(
            (&end["status"], &end["output"]),
            (&json!("completed"), &json!("one"))
        );
        assert_eq!(end["id"], json!(id));
    }
    web.publish(&workflow(&json!({ "fail": "no" })));
    for through in [vec![], vec!["--server", &server]] {
        let start = ["runs", "start", "named", "--input", "word=one", "--watch"];
        let said = place.say(&[&start[..], &through].concat());
        assert_eq!(said.exit, Some(10), "{said:#?}");
        for part in ["first", "last", "WL-R078"] {
            assert!(said.stderr.contains(part), "{said:#?}");
        }
        let unknown = ["runs", "start", "unknown", "-o", "jsonl"];
        let said = place.say(&[&unknown[..], &through].concat());
        assert_eq!(
            (said.exit, &said.error()["code"]),
            (Some(41), &json!("WL-U011"))
        );
    }
}
