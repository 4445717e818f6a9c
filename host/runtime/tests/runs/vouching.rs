//! Which imports are accepted, which ids they may not take, and the mark that they leave.

use bytes::Bytes;
use serde_json::{Value, json};
use uuid::Builder;
use windlass_model::{Digest, Payload, RunId};
use windlass_runtime::operations::Imported;
use windlass_runtime::transfer::{Accept, ImportTarget, Origin, Seal};
use windlass_runtime::{Error, StartRequest};
use windlass_store::Reader as _;

use crate::rig::{Running, Setup, definition};

const STEP: &str = r#"
workflow: step
nodes:
  only: { set: { x: 1 } }
vars: { x: null }
output: "{{ vars.x }}"
"#;

fn request(id: RunId) -> StartRequest {
    StartRequest {
        workflow: definition(STEP).into(),
        input: Payload::json("1"),
        id: Some(id),
        correlation: None,
        trace: None,
    }
}

/// A random id, as hosts give it to runs without a name.
fn drawn() -> RunId {
    windlass_runtime::new_run_id()
}

/// An id as a host derives it from an idempotency key.
fn of_key(key: &str) -> RunId {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&Digest::of(key.as_bytes()).0[..16]);
    RunId(Builder::from_custom_bytes(bytes).into_uuid())
}

/// A run that has ended, as its host exports it.
fn exported(running: &Running, id: RunId) -> Bytes {
    let [client, _] = running.clients();
    let started = running.block_on(client.create_and_run(request(id)));
    running.ended(started.unwrap().no);
    running.block_on(client.export(id)).unwrap()
}

/// The document in a file without its signature, which is version 1.
fn bare(file: &Bytes) -> Value {
    let mut file: Value = serde_json::from_slice(file).unwrap();
    assert_eq!(file.get("windlass-export"), Some(&2.into()));
    file.get_mut("document").map(Value::take).unwrap()
}

fn import(
    running: &Running,
    document: &Bytes,
    place: ImportTarget,
    accept: Accept,
) -> Result<Imported, Error> {
    let [client, _] = running.clients();
    running.block_on(client.import(document.clone(), place, accept))
}

fn origin(running: &Running, id: RunId) -> Option<Origin> {
    let row = running.store.run(id).unwrap().unwrap();
    Origin::of(&running.store.journal(row.no).unwrap())
}

#[track_caller]
fn check_code<T: std::fmt::Debug>(answer: Result<T, Error>, code: &str) {
    let error = answer.unwrap_err();
    assert_eq!(error.code().as_str(), code, "{error}");
}

#[test]
fn a_signed_run_of_a_known_key_is_imported_and_another_is_refused() {
    let (here, there) = (Setup::default().start(), Setup::default().start());
    let id = drawn();
    let file = exported(&here, id);
    check_code(
        import(&there, &file, ImportTarget::Free, Accept::Signed),
        "WL-R162",
    );
    let public = here.exports().own().unwrap();
    let client = there.trusting(&here);
    let imported = there.block_on(client.import(file.clone(), ImportTarget::Free, Accept::Signed));
    assert_eq!(imported.unwrap().seal, Seal::Signed(public[0].name()));
    let said = origin(&there, id).unwrap().to_string();
    assert_eq!(said, format!("signed by {}", public[0].name()));
    // A run that returns to its store is signed by the key of its own host.
    import(&here, &file, ImportTarget::Replace, Accept::Signed).unwrap();
    assert_eq!(origin(&here, id).unwrap().to_string(), said);
}

#[test]
fn any_changed_byte_of_a_signed_run_breaks_its_signature() {
    let here = Setup::default().start();
    let file = exported(&here, drawn());
    let text = String::from_utf8(file.to_vec()).unwrap();
    let document = bare(&file).to_string();
    let begin = text.find("\"document\":").unwrap() + "\"document\":".len();
    for at in (begin..begin + document.len()).step_by(7) {
        let mut changed = file.to_vec();
        changed[at] ^= 1;
        let changed = Bytes::from(changed);
        let refused =
            import(&here, &changed, ImportTarget::As(drawn()), Accept::Signed).unwrap_err();
        let code = refused.code();
        assert!(
            ["WL-R162", "WL-R134"].contains(&code.as_str()),
            "{at}: {refused}"
        );
    }
    for (from, to) in [
        ("\"epoch\":", "\"epoch\": "),
        ("\"text\":\"1\"", "\"text\":\"2\""),
    ] {
        let changed = Bytes::from(text.replacen(from, to, 1));
        assert_ne!(changed, file);
        check_code(
            import(&here, &changed, ImportTarget::As(drawn()), Accept::Signed),
            "WL-R162",
        );
    }
    // A document without its envelope has no signature.
    let bare = Bytes::from(document);
    check_code(
        import(&here, &bare, ImportTarget::Replace, Accept::Signed),
        "WL-R162",
    );
}

#[test]
fn a_run_that_no_known_key_has_signed_is_marked_for_good() {
    let (here, there) = (Setup::default().start(), Setup::default().start());
    let id = drawn();
    let mut document = bare(&exported(&here, id));
    // The journal claims that a known key has signed an earlier import.
    let known = there.exports().own().unwrap()[0].name().to_string();
    document["journal"] = json!([{
        "at-ms": 1,
        "kind": "imported",
        "detail": json!({ "document": Digest::of(b"x"), "from": id, "key": known }).to_string(),
    }]);
    let forged = Bytes::from(document.to_string());
    let imported = import(&there, &forged, ImportTarget::Free, Accept::Unsigned).unwrap();
    assert_eq!(imported.seal, Seal::Absent);
    assert_eq!(origin(&there, id), Some(Origin::Unsigned));
    // This host signs the next export, and the signed document contains the mark.
    let [client, _] = there.clients();
    let again = there.block_on(client.export(id)).unwrap();
    let copy = drawn();
    import(&there, &again, ImportTarget::As(copy), Accept::Signed).unwrap();
    assert_eq!(origin(&there, copy), Some(Origin::Unsigned));
    let again = there.block_on(client.export(copy)).unwrap();
    import(&there, &again, ImportTarget::Replace, Accept::Signed).unwrap();
    assert_eq!(origin(&there, copy), Some(Origin::Unsigned));
}

#[test]
fn an_import_takes_no_id_that_a_start_derives() {
    let (here, there) = (Setup::default().start(), Setup::default().start());
    let key = of_key("order 7");
    let file = exported(&here, key);
    let forged = Bytes::from(bare(&file).to_string());
    let child = RunId(Builder::from_custom_bytes([7; 16]).into_uuid());
    let free = Bytes::from(bare(&exported(&here, drawn())).to_string());
    for (document, place) in [
        (&forged, ImportTarget::Free),
        (&forged, ImportTarget::Replace),
        (&free, ImportTarget::As(key)),
        (&free, ImportTarget::As(child)),
    ] {
        check_code(import(&there, document, place, Accept::Unsigned), "WL-R163");
    }
    assert!(there.store.run(key).unwrap().is_none());
    // A copy of a signed run also cannot take the id of an idempotency key that was not its own.
    let other = exported(&here, drawn());
    check_code(
        import(
            &here,
            &other,
            ImportTarget::As(of_key("order 8")),
            Accept::Signed,
        ),
        "WL-R163",
    );
    // A run that a known key has signed keeps its idempotency key.
    import(&here, &file, ImportTarget::Replace, Accept::Signed).unwrap();
    let [client, _] = here.clients();
    let again = here.block_on(client.create_and_run(request(key))).unwrap();
    assert!(again.existing.is_some());
}

#[test]
fn a_start_is_never_answered_with_a_run_that_no_known_key_has_signed() {
    let (here, there) = (Setup::default().start(), Setup::default().start());
    let id = drawn();
    let document = bare(&exported(&here, id));
    let forged = Bytes::from(document.to_string());
    import(&there, &forged, ImportTarget::Free, Accept::Unsigned).unwrap();
    let [client, _] = there.clients();
    let start = there.block_on(client.create_and_run(request(id)));
    assert!(matches!(start, Err(Error::Conflict { .. })), "{start:?}");
    // A start request also does not find a copy.
    let copy = drawn();
    let file = here.block_on(here.clients()[0].export(id)).unwrap();
    import(&here, &file, ImportTarget::As(copy), Accept::Signed).unwrap();
    let start = here.block_on(here.clients()[0].create_and_run(request(copy)));
    assert!(matches!(start, Err(Error::Conflict { .. })), "{start:?}");
}

#[test]
fn impossible_times_are_refused_with_any_signature() {
    let here = Setup::default().start();
    let good = bare(&exported(&here, drawn()));
    let hour_ms = 3_600_000;
    let future = here.now_ms() + hour_ms;
    let long_ago = here.now_ms() - 100 * hour_ms;
    for (pointer, value) in [
        ("/exported-ms", json!(future)),
        ("/run/created-ms", json!(future)),
        ("/run/created-ms", json!(-1)),
        ("/run/created-ms", json!(i64::MIN)),
        ("/run/finished-ms", json!(future)),
        ("/run/finished-ms", json!(i64::MAX)),
        ("/run/finished-ms", json!(long_ago)),
        ("/records/0/started-ms", json!(future)),
        ("/records/0/started-ms", json!(long_ago)),
        ("/records/0/took-us", json!(u64::MAX)),
        (
            "/journal",
            json!([{ "at-ms": future, "kind": "x", "detail": "{}" }]),
        ),
    ] {
        let mut document = good.clone();
        *document.pointer_mut(pointer).unwrap() = value;
        let text = document.to_string();
        let signature = here
            .exports()
            .sign(text.as_bytes(), "")
            .unwrap()
            .to_string();
        let file = format!(
            "{{\"windlass-export\":2,\"document\":{text},\"signature\":{}}}",
            json!(signature)
        );
        check_code(
            import(
                &here,
                &Bytes::from(file),
                ImportTarget::As(drawn()),
                Accept::Signed,
            ),
            "WL-R134",
        );
    }
}
