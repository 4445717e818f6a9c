//! Several processes maintain the same definitions at the same time, and files are removed.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_locks::{FileOptions, Key, Parts, Settings};
use windlass_runtime::SystemClock;
use windlass_store::published::{PublicationQuery, ScheduleQuery};
use windlass_tests::harness::{Place, Web, until};

/// The number of workflows.
const WORKFLOWS: usize = 12;

/// The number of processes that do so at the same time.
const PROCESSES: usize = 3;

/// The rounds of each process.
const ROUNDS: usize = 4;

fn workflow(name: &str) -> Value {
    json!({
        "workflow": name,
        "triggers": {
            "paid": { "event": "paid", "match": { "of": name } },
            "sent": { "event": "sent" },
            "hourly": { "every": "1h" },
        },
        "nodes": { "only": { "set": { "done": true } } },
    })
}

/// The rows of the trigger index and of the schedules, by workflow and key, with their numbers.
fn rows(place: &Place) -> Vec<(String, String, i64)> {
    let store = place.look().store();
    let mut rows = Vec::new();
    for at in 0..WORKFLOWS {
        let bindings = store.bindings_of(&format!("w{at}"));
        for row in bindings.expect("the index can be read") {
            rows.push((row.workflow, row.binding.key, row.no.0));
        }
    }
    let schedules = store.schedules(&ScheduleQuery {
        limit: 1_000,
        ..ScheduleQuery::default()
    });
    for row in schedules.expect("schedules can be read") {
        rows.push((row.workflow, row.key, row.no.0));
    }
    rows.sort();
    rows
}

fn versions(place: &Place) -> usize {
    let store = place.look().store();
    let query = PublicationQuery {
        retracted: true,
        limit: 10_000,
        ..PublicationQuery::default()
    };
    store
        .publications(&query)
        .expect("versions can be read")
        .len()
}

#[test]
fn processes_that_index_the_same_definitions_leave_one_set_of_rows() {
    let place = Place::new(&[]);
    let files: Vec<String> = (0..WORKFLOWS)
        .map(|at| {
            let name = format!("w{at}");
            place
                .workflow(&name, &workflow(&name))
                .display()
                .to_string()
        })
        .collect();
    // All publish the same definition for the first time at the same moment.
    let mut publish = vec!["workflow", "publish"];
    publish.extend(files.iter().map(String::as_str));
    let mut publishing: Vec<_> = (0..PROCESSES).map(|_| place.start(&publish)).collect();
    for process in &mut publishing {
        let (status, _, stderr) = process.output();
        assert_eq!(status.code(), Some(0), "{stderr}");
    }
    let before = rows(&place);
    assert_eq!((before.len(), versions(&place)), (3 * WORKFLOWS, WORKFLOWS));
    let mut done = 0;
    for _ in 0..ROUNDS {
        let mut refreshing: Vec<_> = (0..PROCESSES)
            .map(|at| match at {
                0 => place.start(&["workflow", "refresh"]),
                1 => place.start(&["workflow", "refresh", "w0", "w1", "w2"]),
                _ => place.start(&publish),
            })
            .collect();
        for process in &mut refreshing {
            let (status, _, stderr) = process.output();
            assert_eq!(status.code(), Some(0), "{stderr}");
            done += 1;
        }
        assert_eq!(rows(&place), before, "every row keeps its number");
    }
    let left = place
        .look()
        .store()
        .upkeep(10)
        .expect("requests can be read");
    println!(
        "{PROCESSES} processes, {done} times: {WORKFLOWS} workflows, {} versions, {} rows, {} requests left",
        versions(&place),
        before.len(),
        left.len()
    );
    assert_eq!((versions(&place), left), (WORKFLOWS, Vec::new()));
}

#[test]
fn a_removed_file_retracts_its_workflow() {
    let place = Place::new(&[]).with("definitions.directory", "watched");
    std::fs::create_dir(place.path("watched")).expect("it is not there");
    let file = |name: &str| place.path(&format!("watched/{name}.json"));
    let write = |name: &str, workflow: &Value| {
        std::fs::write(file(name), workflow.to_string()).expect("it can be written");
    };
    let is_published = |name: &str| {
        let row = place.look().store().published(name);
        row.expect("it can be read").is_some()
    };
    for name in ["w0", "w1", "w2"] {
        write(name, &workflow(name));
    }
    let serve = place.serve();
    until("all are published", || {
        ["w0", "w1", "w2"].into_iter().all(is_published)
    });
    std::fs::remove_file(file("w0")).expect("it is there");
    until("it is taken back", || !is_published("w0"));
    assert!(is_published("w1") && is_published("w2"));
    serve.kill();
    // A workflow whose file is removed while no host runs is retracted by the next host.
    std::fs::remove_file(file("w1")).expect("it is there");
    let serve = place.serve();
    until("it is taken back", || !is_published("w1"));
    assert!(is_published("w2"));
    serve.kill();
}

#[test]
fn a_reload_during_another_is_in_progress_and_waits_for_the_next_look() {
    let place = Place::new(&[])
        .with("cluster.enabled", "true")
        .with("cluster.allow-local-locks", "true")
        .with("locks.provider", "file")
        .with("definitions.directory", "watched");
    std::fs::create_dir(place.path("watched")).expect("it is not there");
    let web = Web::serve(&place);
    web.publish(&workflow("w0"));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let parts = Parts {
        clock: Arc::new(SystemClock::new()),
        runtime: runtime.handle().clone(),
        owner: "another process".to_owned(),
        metrics: Arc::default(),
    };
    let directory = place.store().with_file_name("locks");
    let provider = windlass_locks::open(&Settings::File(FileOptions { directory }), parts);
    let provider = provider.expect("it opens");
    let requests = || place.look().store().upkeep(10).expect("they can be read");
    let asked = [
        ("/api/v1/admin/refresh", json!({}), Key::refresh_all()),
        (
            "/api/v1/admin/refresh",
            json!({ "names": ["w0"] }),
            Key::refresh("w0"),
        ),
        ("/api/v1/admin/reload", Value::Null, Key::reload()),
    ];
    for (path, request, key) in asked {
        let held = runtime.block_on(async {
            loop {
                // The host itself takes the lock now and then.
                if let Some(held) = provider.try_acquire(&key).await.expect("it answers") {
                    break held;
                }
                tokio::task::yield_now().await;
            }
        });
        let refused = web.post(path, &request);
        assert_eq!(
            refused.problem(),
            (409, "WL-D144".to_owned()),
            "{path} {request}"
        );
        assert_eq!(requests().len(), 1, "it is written down: {path} {request}");
        runtime.block_on(held.release()).expect("it is released");
        // The next request carries out both.
        until("the upkeep is free", || {
            web.post(path, &request).status == 200
        });
        assert_eq!(requests(), Vec::new(), "{path} {request}");
    }
}

#[test]
fn a_host_logs_the_warnings_about_a_file_that_it_publishes() {
    let place = Place::new(&[]);
    let directory = place.path("workflows");
    std::fs::create_dir(&directory).expect("a directory can be made");
    let place = place.with("definitions.directory", &directory.display().to_string());
    let text = json!({
        "workflow": "often",
        "triggers": { "tick": { "cron": "*/90 * * * *" } },
        "nodes": { "only": { "set": { "done": true } } },
    });
    std::fs::write(directory.join("often.json"), text.to_string()).expect("a file can be written");
    let serve = place.serve();
    until("the warning is logged", || {
        let log = serve.stderr();
        let lines = log.lines();
        lines
            .clone()
            .any(|line| line.contains("published workflow=\"often\""))
            && lines
                .clone()
                .any(|line| line.contains("WARN") && line.contains("WL-D124"))
    });
}
