//! Runs that are exported from one store and imported into another, or back.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use windlass_model::stimulus::{Delivery, Stimulus};
use windlass_model::{Payload, RunId, Status};
use windlass_runtime::operations::{How, Imported};
use windlass_runtime::rebuilding::Rebuilt;
use windlass_runtime::transfer::{Accept, ImportTarget};
use windlass_runtime::{Error, Operations, StartRequest, Started};
use windlass_store::Reader as _;
use windlass_store::stimuli::BookmarkQuery;
use windlass_test_seeds::Seeds;

use crate::rig::{Running, Setup, definition, json as read};

const PATIENCE: Duration = Duration::from_secs(120);

const ASK: &str = r#"
workflow: ask
vars: { seen: 0 }
nodes:
  first: { set: { seen: "{{ input.a + 1 }}" } }
  ask: { event: answered }
  last: { set: { seen: "{{ vars.seen + nodes.ask.output }}" } }
edges: [first -> ask, ask -> last]
output: "{{ vars.seen }}"
"#;

/// Waits in the items of a list, at a timer, and at a half-decided join.
const MUCH: &str = r#"
workflow: much
vars: { early: null }
nodes:
  list:
    for-each: "{{ [1, 2, 3] }}"
    concurrency: 2
    nodes:
      ask: { event: answered }
      keep: { set: { late: "{{ nodes.ask.output }}" } }
    edges: [ask -> keep]
    output: "{{ item * nodes.ask.output }}"
  quick: { set: { early: "it was" } }
  pause: { wait: 1500ms }
  all: { set: { early: "{{ vars.early ~ ' early' }}" } }
edges: [quick -> all, pause -> all, list -> all]
output: "{{ [vars.early, nodes.list.output] }}"
"#;

const PARENT: &str = r#"
workflow: parent
nodes:
  call: { workflow: ask, input: { a: 1 } }
output: "{{ nodes.call.output }}"
"#;

fn start(running: &Running, workflow: &str, id: u128) -> Started {
    let request = StartRequest {
        workflow: definition(workflow).into(),
        input: Payload::json(r#"{"a":1}"#),
        id: Some(RunId(uuid::Uuid::from_u128(id))),
        correlation: None,
        trace: None,
    };
    let [client, _] = running.clients();
    running.block_on(client.create_and_run(request)).unwrap()
}

fn waiting(running: &Running, id: u128) -> Started {
    let started = start(running, ASK, id);
    running.until("it waits", |store| {
        let row = store.run(started.id).unwrap().unwrap();
        row.status == Status::Suspended && row.owner.is_none()
    });
    started
}

fn answer(run: Option<RunId>) -> Stimulus {
    Stimulus {
        name: "answered".to_owned(),
        matches: json!(null),
        correlation: None,
        run,
        input: Payload::json("40"),
        delivery: Delivery::Resume,
        ttl_ms: 1_000,
        trace: None,
    }
}

fn export(running: &Running, id: RunId) -> Bytes {
    let [_, client] = running.clients();
    running.block_on(client.export(id)).unwrap()
}

fn import(running: &Running, document: &Bytes, place: ImportTarget) -> Result<Imported, Error> {
    let [_, client] = running.clients();
    running.block_on(client.import(document.clone(), place, Accept::Unsigned))
}

fn output(running: &Running, id: RunId) -> Value {
    let [client, _] = running.clients();
    let ended = running.block_on(client.result(id, PATIENCE)).unwrap();
    let result = ended.result.unwrap_or_else(|| panic!("{id} does not end"));
    assert_eq!(result.status, Status::Completed, "{:?}", result.failure);
    read(&result.output.unwrap())
}

#[test]
fn a_run_goes_on_in_another_store() {
    let (here, there) = (Setup::default().start(), Setup::default().start());
    let started = waiting(&here, 7);
    let document = export(&here, started.id);
    let imported = import(&there, &document, ImportTarget::Free).unwrap();
    assert_eq!(
        (imported.id, imported.how, imported.status),
        (started.id, How::New, Status::Suspended)
    );
    assert_eq!(there.send(&answer(None)).resumed, [started.id]);
    assert_eq!(output(&there, started.id), json!(42));
    // The history is exported with the run, and continues.
    let row = there.store.run(started.id).unwrap().unwrap();
    let runs = there.store.executions(row.no, None, 10).unwrap();
    assert_eq!(runs.len(), 4, "{runs:?}");
    let kinds = there.store.journal(row.no).unwrap();
    assert!(kinds.iter().any(|entry| entry.kind == "imported"));
    // The exported run itself is unchanged.
    assert_eq!(here.send(&answer(None)).resumed, [started.id]);
    assert_eq!(output(&here, started.id), json!(42));
    // A run that is over can be exported, too.
    let document = export(&here, started.id);
    let copy = RunId(uuid::Uuid::from_u128(70));
    import(&there, &document, ImportTarget::As(copy)).unwrap();
    assert_eq!(output(&there, copy), json!(42));
}

#[test]
fn waits_of_a_run_move_with_it() {
    let (here, there) = (Setup::default().start(), Setup::default().start());
    let started = start(&here, MUCH, 7);
    here.until("its items wait", |store| {
        store.counts().unwrap().bookmarks == 2
    });
    here.suspended(started.no);
    let document = export(&here, started.id);
    import(&there, &document, ImportTarget::Free).unwrap();
    for running in [&here, &there] {
        let mut answered = 0;
        while answered < 3 {
            running.until("an item waits", |store| {
                store.counts().unwrap().bookmarks > 0
            });
            answered += running.send(&answer(Some(started.id))).resumed.len();
        }
        let expected = json!(["it was early", [40, 80, 120]]);
        assert_eq!(output(running, started.id), expected);
    }
}

#[test]
fn a_bookmark_of_an_imported_run_is_resumed_by_a_token_of_its_store() {
    let (here, there) = (Setup::default().start(), Setup::default().start());
    let started = waiting(&here, 7);
    let document = export(&here, started.id);
    let text = String::from_utf8(document.to_vec()).unwrap();
    assert!(!text.contains("token"), "{text}");
    import(&there, &document, ImportTarget::Free).unwrap();
    let copy = RunId(uuid::Uuid::from_u128(8));
    import(&there, &document, ImportTarget::As(copy)).unwrap();
    let query = BookmarkQuery {
        limit: 10,
        ..BookmarkQuery::default()
    };
    let bookmarks = there.store.bookmarks(&query).unwrap();
    assert_eq!(bookmarks.len(), 2);
    let [client, _] = there.clients();
    for bookmark in bookmarks {
        let resume = client.resume_bookmark(bookmark.no, Payload::json("1"));
        let sent = there.block_on(resume).unwrap();
        assert_eq!(sent.resumed, [bookmark.run_id]);
        assert_eq!(output(&there, bookmark.run_id), json!(3));
    }
}

#[test]
fn a_run_goes_where_it_may() {
    let running = Setup::default().start();
    let started = waiting(&running, 7);
    let document = export(&running, started.id);
    let taken = import(&running, &document, ImportTarget::Free).unwrap_err();
    assert_eq!(taken.code().as_str(), "WL-R137", "{taken}");
    let how = |place| import(&running, &document, place).unwrap().how;
    assert_eq!(how(ImportTarget::Replace), How::Replaced);
    assert_eq!(how(ImportTarget::Replace), How::Already);
    let copy = RunId(uuid::Uuid::from_u128(8));
    assert_eq!(how(ImportTarget::As(copy)), How::New);
    assert_eq!(how(ImportTarget::As(copy)), How::Already);
    let counts = running.store.counts().unwrap();
    assert_eq!((counts.bookmarks, counts.unfinished), (2, 2));
    assert_eq!(running.send(&answer(None)).resumed.len(), 2);
    for id in [started.id, copy] {
        assert_eq!(output(&running, id), json!(42));
    }
    // The run is imported back into its store, and can be answered again.
    assert_eq!(how(ImportTarget::Replace), How::Replaced);
    assert_eq!(running.send(&answer(None)).resumed, [started.id]);
    assert_eq!(output(&running, started.id), json!(42));
    let [client, _] = running.clients();
    assert!(running.block_on(client.delete(copy, PATIENCE)).unwrap());
    let deleted = import(&running, &document, ImportTarget::As(copy)).unwrap_err();
    assert!(matches!(deleted, Error::Deleted(_)), "{deleted}");
}

#[test]
fn families_are_not_torn_apart() {
    let running = Setup::default().beside("ask", ASK).start();
    let parent = start(&running, PARENT, 7);
    running.until("the child waits", |store| {
        store.counts().unwrap().bookmarks == 1
    });
    running.suspended(parent.no);
    let child = running.store.children(parent.no, None, 1).unwrap()[0].id;
    let [client, _] = running.clients();
    for id in [parent.id, child] {
        let refused = running.block_on(client.export(id)).unwrap_err();
        assert_eq!(refused.code().as_str(), "WL-R133", "{refused}");
    }
    running.send(&answer(None));
    assert_eq!(output(&running, parent.id), json!(42));
    let there = Setup::default().start();
    for id in [parent.id, child] {
        let document = export(&running, id);
        let client = there.trusting(&running);
        let imported = client.import(document, ImportTarget::Free, Accept::Signed);
        there.block_on(imported).unwrap();
        assert_eq!(output(&there, id), json!(42));
    }
}

#[track_caller]
fn check_refused(document: &Value, code: &str) {
    let running = Setup::default().start();
    let bytes = Bytes::from(document.to_string());
    for place in [ImportTarget::Free, ImportTarget::Replace] {
        let refused = import(&running, &bytes, place).unwrap_err();
        assert_eq!(refused.code().as_str(), code, "{refused}: {document}");
    }
    let counts = running.store.counts().unwrap();
    assert_eq!((counts.runs, counts.triggers, counts.executions), (0, 0, 0));
}

#[test]
fn malformed_exports_are_refused_and_change_nothing() {
    let running = Setup::default().start();
    let started = waiting(&running, 7);
    let mut good: Value = serde_json::from_slice(&export(&running, started.id)).unwrap();
    // Every change to the document breaks the signature.
    let good = good["document"].take();
    let [_, client] = running.clients();
    for bytes in [
        "",
        "nothing",
        "[]",
        "{}",
        "\"x\"",
        "\u{0}",
        "{\"windlass-export\":\"1\"}",
    ] {
        let bytes = Bytes::from_static(bytes.as_bytes());
        let refused = running
            .block_on(client.import(bytes, ImportTarget::Free, Accept::Unsigned))
            .unwrap_err();
        assert_eq!(refused.code().as_str(), "WL-R134", "{refused}");
    }
    let with = |pointer: &str, value: Value| {
        let mut changed = good.clone();
        *changed
            .pointer_mut(pointer)
            .unwrap_or_else(|| panic!("{pointer}: {good}")) = value;
        changed
    };
    check_refused(&with("/windlass-export", json!(3)), "WL-R135");
    let in_envelope = |document: Value| {
        let signature = "untrusted comment: none\nRUQ=\n";
        json!({ "windlass-export": 2, "document": document, "signature": signature })
    };
    check_refused(&in_envelope(good.clone()), "WL-R134");
    check_refused(&with("/windlass-export", json!(2)), "WL-R134");
    let absent = json!(format!("sha256:{}", "0".repeat(64)));
    for (pointer, value) in [
        ("/run/workflow", json!("another")),
        ("/run/status", json!("completed")),
        ("/run/status", json!("running")),
        ("/run/epoch", json!(-1)),
        ("/run/version", json!(i64::MAX)),
        ("/run/finished-ms", json!(1)),
        ("/run/input", json!({ "text": "{" })),
        ("/run/input", json!({ "text": "1", "base64": "MQ==" })),
        (
            "/run/input",
            json!({ "blob": { "digest": absent, "size": 1 } }),
        ),
        ("/run/input", json!({ "anything": 1 })),
        ("/run/parent", json!(started.id)),
        ("/definition/digest", absent.clone()),
        ("/definition/json", json!("{}")),
        ("/pins/json", json!("{}")),
        ("/state", json!("")),
        ("/state", json!("AAAA")),
        ("/state", json!("%")),
        ("/scopes", json!([{ "scope": 1, "state": "AgA=" }])),
        ("/vars/0/scope", json!(9)),
        ("/triggers", json!([])),
        ("/triggers/0/row/seq", json!(1_000_000)),
        ("/triggers/0/row/node", json!(77)),
        ("/triggers/0/row/type", json!("pause")),
        ("/triggers/0/row/type", json!("child")),
        ("/triggers/0/row/payload", json!("e30=")),
        ("/triggers/0/row/detail", json!("/////w==")),
        (
            "/triggers/0/name",
            json!({ "id": started.id, "request": absent, "closed": false }),
        ),
        ("/bookmarks/0/trigger", json!(12345)),
        ("/bookmarks/0/match", json!("{ }")),
        ("/bookmarks/0/name", json!("")),
        ("/bookmarks/0/metadata", json!("{")),
        (
            "/journal",
            json!([{ "at-ms": 1, "kind": "x", "detail": "no" }]),
        ),
        (
            "/journal",
            json!([{ "at-ms": 1, "kind": "event", "detail": "{}" }]),
        ),
        ("/records", json!([])),
        ("/records/0/node", json!(77)),
        ("/blobs", json!([{ "digest": absent, "content": "" }])),
    ] {
        check_refused(&with(pointer, value), "WL-R134");
    }
    // The components of the run have to be present.
    let mut other = good.clone();
    let definition = good["definition"]["json"].as_str().unwrap();
    let definition = definition.replace(r#"{"event":"answered"}"#, r#"{"use":"nobody/has-this"}"#);
    let set = |at: &mut Value, json: String| {
        *at = json!({ "digest": windlass_model::Digest::of(json.as_bytes()), "json": json });
    };
    set(&mut other["definition"], definition);
    let pins = json!({ "windlass": 1, "uses": { "nobody/has-this": absent } });
    set(&mut other["pins"], pins.to_string());
    let refused = import(
        &running,
        &Bytes::from(other.to_string()),
        ImportTarget::Replace,
    );
    let refused = refused.unwrap_err();
    assert_eq!(refused.code().as_str(), "WL-R136", "{refused}");
    assert_eq!(running.send(&answer(None)).resumed, [started.id]);
    assert_eq!(output(&running, started.id), json!(42));
}

#[test]
fn a_run_without_all_its_events_is_imported_and_is_not_replayed() {
    let (here, there) = (Setup::default().start(), Setup::default().start());
    there.has_forged_runs.store(true, Ordering::Relaxed);
    let started = waiting(&here, 7);
    let mut whole: Value = serde_json::from_slice(&export(&here, started.id)).unwrap();
    let whole = whole["document"].take();
    assert!(whole["records"][0]["event"].is_string(), "{whole:#}");
    let [client, _] = there.clients();
    let rebuilt = |document: Value| {
        let copy = ImportTarget::As(windlass_runtime::new_run_id());
        let imported = import(&there, &Bytes::from(document.to_string()), copy);
        let row = there.store.run(imported.unwrap().id).unwrap().unwrap();
        there.block_on(client.replay_run(row.no)).unwrap().unwrap()
    };
    assert!(matches!(
        rebuilt(whole.clone()),
        Rebuilt::Same { events: 1.. }
    ));
    let mut without = whole.clone();
    without.as_object_mut().unwrap().remove("events");
    let mut damaged = whole.clone();
    damaged["records"][0]["event"] = json!("AAAA");
    let mut foreign = whole.clone();
    foreign["events"] = json!([whole["records"][0]["event"]]);
    for document in [without, damaged, foreign] {
        let rebuilt = rebuilt(document);
        assert!(matches!(rebuilt, Rebuilt::Unknown(_)), "{rebuilt:?}");
    }
}

#[test]
fn any_bytes_in_a_run_never_panic() {
    let here = Setup::default().start();
    here.has_forged_runs.store(true, Ordering::Relaxed);
    let started = waiting(&here, 7);
    let good = export(&here, started.id).to_vec();
    let mut refused = 0;
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..400_u128 {
        let mut bad = good.clone();
        for _ in 0..=round % 3 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let at = usize::try_from(seed).unwrap_or_default() % bad.len();
            bad[at] = (seed >> 40) as u8;
        }
        let copy = RunId(uuid::Uuid::from_u128(1_000 + round));
        match import(&here, &Bytes::from(bad), ImportTarget::As(copy)) {
            Ok(_) => {}
            Err(error) => {
                refused += 1;
                assert!(error.code().as_str().starts_with("WL-"), "{error}");
                assert!(here.store.run(copy).unwrap().is_none());
            }
        }
    }
    assert!(refused > 200, "{refused}");
    // A correct document is imported after all of these.
    import(&here, &Bytes::from(good), ImportTarget::Replace).unwrap();
    assert!(
        here.send(&answer(Some(started.id)))
            .resumed
            .contains(&started.id)
    );
    assert_eq!(output(&here, started.id), json!(42));
}

/// How often an import meets a running run.
const RACES: Seeds = Seeds::new(500, 1_000);

/// A run is answered, runs and ends while a user imports an older export of it at the same moment:
/// one of the two comes first.
///
/// Takes half a minute: the race is run some hundred times.
#[test]
fn an_import_that_races_a_burst_is_before_it_or_after_it_or_refused() {
    let running = Setup::default().start();
    let clients: [Operations; 2] = running.clients();
    let mut ends = BTreeMap::<_, u32>::new();
    for round in RACES.range().map(u128::from) {
        let started = waiting(&running, 10_000 + round);
        let id = started.id;
        let document = export(&running, id);
        // An import that changes nothing is no race: the run has moved on before.
        let client = &clients[usize::from(round % 4 == 3)];
        let (sent, imported) = std::thread::scope(|scope| {
            let sent = scope.spawn(|| running.send(&answer(Some(id))));
            let imported =
                running.block_on(client.import(document, ImportTarget::Replace, Accept::Signed));
            (sent.join().unwrap(), imported)
        });
        assert_eq!(sent.resumed, [id], "the run waited all the time");
        let how = match imported {
            Ok(imported) => {
                assert_eq!(imported.how, How::Replaced);
                "replaced"
            }
            Err(error) => {
                assert_eq!(error.code().as_str(), "WL-R137", "{error}");
                "refused"
            }
        };
        let mut end = "ended";
        if how == "replaced" {
            let row = running.store.run(id).unwrap().unwrap();
            let waits = || running.store.counts().unwrap().bookmarks == 1;
            if !row.status.is_final() && waits() {
                // The import came after the answer, which became a dead letter or was used by the
                // replaced run.
                end = "answered again";
                assert_eq!(running.send(&answer(Some(id))).resumed, [id]);
            }
        }
        assert_eq!(output(&running, id), json!(42), "{how}, {end}");
        let row = running.store.run(id).unwrap().unwrap();
        assert_eq!(running.store.executions(row.no, None, 10).unwrap().len(), 4);
        assert_eq!(running.store.counts().unwrap().unfinished, 0);
        *ends.entry((how, end)).or_default() += 1;
    }
    println!("import racing a burst: {ends:?}");
}
