//! Runs that are exported from one store and imported into another, by the command line and over
//! HTTP.

use serde_json::{Value, json};
use windlass_model::Status;
use windlass_tests::harness::{Answer, Place, Web, until_some};

const APPROVAL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../examples/approval/approval.yaml"
);

/// Two hosts, the second of which trusts the key with which the first one signs.
fn trusting(components: &[&str]) -> (Place, Place) {
    let here = Place::new(components);
    let shown = here.say(&["-o", "json", "keys", "show"]).json();
    let public = shown["keys"][0]["public"].as_str().expect("a key");
    let there = Place::new(components).with("keys.trusted", &json!([public]).to_string());
    (here, there)
}

/// A run that waits for a person's answer.
fn asked(place: &Place) -> String {
    let order = r#"{"order":7,"total":5000}"#;
    let id = place.ask(&["runs", "start", APPROVAL, "--input", order]);
    let id = id.trim().to_owned();
    bookmark(place, &id);
    id
}

/// The number of the bookmark at which a run waits.
fn bookmark(place: &Place, id: &str) -> String {
    let listed = until_some("a person is asked", || {
        let listed = place
            .say(&["-o", "json", "bookmark", "list", "--run", id])
            .json();
        listed.get(0).cloned()
    });
    listed["no"].to_string()
}

#[track_caller]
fn check_answered(place: &Place, id: &str) {
    let no = bookmark(place, id);
    let answer = r#"{"decision":"approve","by":"ada"}"#;
    place.ask(&["bookmark", "resume", &no, "--input", answer]);
    let run = place.look().ended(id);
    assert_eq!(run.status, Status::Completed, "{:?}", run.failure);
    assert_eq!(place.look().output(&run), json!({ "decision": "approve" }));
}

#[test]
fn a_run_that_is_exported_goes_on_in_a_new_store() {
    let (here, there) = trusting(&["human", "text"]);
    let serve = here.serve();
    let id = asked(&here);
    let file = here.path("run.json");
    let file = file.to_str().expect("a path that is text");
    here.ask(&["runs", "export", &id, "--file", file]);
    drop(serve);
    // The import needs only the file and the components, and no host.
    assert_eq!(
        there.ask(&["runs", "import", file]).trim(),
        format!("{id} new")
    );
    assert_eq!(
        there.ask(&["runs", "import", file]).trim(),
        format!("{id} already")
    );
    let copied = there.ask(&["-o", "json", "runs", "import", file, "--new-id"]);
    let copied: Value = serde_json::from_str(&copied).expect("JSON");
    let copy = copied["id"].as_str().expect("an id").to_owned();
    assert_ne!(copy, id);
    let _serve = there.serve();
    check_answered(&there, &id);
    check_answered(&there, &copy);
    // A finished run can be imported back into its original store.
    let again = there.ask(&["runs", "import", file, "--replace"]);
    assert_eq!(again.trim(), format!("{id} replaced"));
    check_answered(&there, &id);
}

#[test]
fn a_run_that_cannot_be_imported_is_refused_by_its_code() {
    let place = Place::new(&["human", "text"]);
    let _serve = place.serve();
    let id = asked(&place);
    let document = place.ask(&["runs", "export", &id]);
    let file = place.path("run.json");
    let name = file.to_str().expect("a path that is text").to_owned();
    let check = |text: &str, arguments: &[&str], code: &str, exit: i32| {
        std::fs::write(&file, text).expect("it can be written");
        let command = [&["runs", "import", name.as_str()], arguments].concat();
        let said = place.say(&command);
        assert_eq!(said.exit, Some(exit), "{}", said.stderr);
        assert!(said.stderr.contains(code), "{}", said.stderr);
    };
    check(&document, &[], "WL-R137", 40);
    check("{}", &["--replace"], "WL-R134", 2);
    let newer = document.replacen("\"windlass-export\":2", "\"windlass-export\":9", 1);
    check(&newer, &["--replace"], "WL-R135", 2);
    check_answered(&place, &id);
}

#[test]
fn a_run_moves_from_one_host_to_another_by_http() {
    let (here, there) = trusting(&["human", "text"]);
    let (from, to) = (Web::serve(&here), Web::serve(&there));
    let id = asked(&here);
    let shown = from.get_any(&format!("/api/v1/runs/{id}/export"));
    assert_eq!(shown.status, 200, "{shown:?}");
    let import = |web: &Web, query: &str| {
        let path = format!("/api/v1/runs/import{query}");
        web.ask(
            "POST",
            &path,
            &["content-type: application/json"],
            &shown.body,
        )
    };
    let check = |answer: &Answer, status: u16, result: &str| {
        let said = answer.json();
        assert_eq!((answer.status, &said["result"]), (status, &json!(result)));
        assert_eq!(said["id"], id.as_str());
    };
    check(&import(&to, ""), 201, "new");
    check(&import(&to, ""), 200, "already");
    check_answered(&there, &id);
    // The run exists in its original store.
    assert_eq!(import(&from, "").problem(), (409, "WL-R137".to_owned()));
    check(&import(&to, "?replace=true"), 201, "replaced");
    // The same, by the command line of a user who has neither of the stores.
    let (far, near) = (Place::new(&[]), format!("http://{}", to.address));
    let file = far.path("run.json");
    let file = file.to_str().expect("a path that is text");
    let origin = format!("http://{}", from.address);
    far.ask(&["--server", &origin, "runs", "export", &id, "--file", file]);
    let import = ["--server", &near, "runs", "import", file];
    let refused = far.say(&import);
    assert_eq!(refused.exit, Some(40), "it was exported anew: {refused:?}");
    let said = far.ask(&[&import[..], &["--replace"]].concat());
    assert_eq!(said.trim(), format!("{id} replaced"));
    check_answered(&there, &id);
}

/// The origin of a run's history in `runs show` and the API.
fn imported(place: &Place, web: &Web, id: &str) -> Value {
    let shown = place.say(&["-o", "json", "runs", "show", id]).json();
    let answered = web.get(&format!("/api/v1/runs/{id}"));
    assert_eq!(shown["imported"], answered["imported"]);
    shown["imported"].clone()
}

#[test]
fn a_run_that_no_known_key_has_signed_needs_a_permission_and_is_marked() {
    let (here, stranger) = (
        Place::new(&["human", "text"]),
        Place::new(&["human", "text"]),
    );
    let (from, web) = (Web::serve(&stranger), Web::serve(&here));
    let id = asked(&stranger);
    let document = from.get_any(&format!("/api/v1/runs/{id}/export")).body;
    let file = here.file("run.json", &document);
    let file = file.to_str().expect("a path that is text");
    let refused = here.say(&["runs", "import", file]);
    assert_eq!(refused.exit, Some(2), "{}", refused.stderr);
    for wanted in ["WL-R162", "--unsigned", "trusted"] {
        assert!(refused.stderr.contains(wanted), "{}", refused.stderr);
    }
    let import = |query: &str| {
        let path = format!("/api/v1/runs/import{query}");
        let json = "content-type: application/json";
        web.ask("POST", &path, &[json], &document)
    };
    assert_eq!(import("").problem(), (422, "WL-R162".to_owned()));
    assert_eq!(here.look().store().counts().expect("it can").runs, 0);
    let server = format!("http://{}", web.address);
    let remote = ["--server", &server, "runs", "import", file];
    let refused = here.say(&remote);
    assert!(refused.stderr.contains("WL-R162"), "{}", refused.stderr);
    let said = here.ask(&[&remote[..], &["--unsigned"]].concat());
    assert_eq!(said.trim(), format!("{id} new"));
    assert_eq!(imported(&here, &web, &id), "unsigned");
    assert_eq!(import("?unsigned=true").status, 200, "it is there already");
    let text = here.ask(&["runs", "show", &id]);
    assert!(text.contains("unsigned"), "{text}");
    // The mark stays, although this host signs its exports.
    let again = web.get_any(&format!("/api/v1/runs/{id}/export")).body;
    here.file("run.json", &again);
    let said = here.ask(&["runs", "import", file, "--replace"]);
    assert_eq!(said.trim(), format!("{id} replaced"));
    assert_eq!(imported(&here, &web, &id), "unsigned");
}

#[test]
fn a_signed_run_says_whose_key_signed_it_and_one_changed_byte_is_noticed() {
    let (here, there) = trusting(&["human", "text"]);
    let serve = here.serve();
    let id = asked(&here);
    let document = here.ask(&["runs", "export", &id]);
    drop(serve);
    let web = Web::serve(&there);
    let changed = document.replacen("5000", "5001", 1);
    assert_ne!(changed, document);
    let file = there.file("run.json", &changed);
    let file = file.to_str().expect("a path that is text");
    let refused = there.say(&["runs", "import", file]);
    assert!(refused.stderr.contains("WL-R162"), "{}", refused.stderr);
    there.file("run.json", &document);
    there.ask(&["runs", "import", file]);
    let shown = here.say(&["-o", "json", "keys", "show"]).json();
    let name = shown["keys"][0]["signs_as"].as_str().expect("a name");
    assert_eq!(imported(&there, &web, &id), format!("signed by {name}"));
}

#[test]
fn an_import_takes_no_idempotency_key() {
    let place = Place::new(&["echo"]);
    let web = Web::serve(&place);
    web.publish(&json!({
        "workflow": "pay",
        "nodes": { "a": { "use": "echo/echo", "input": "{{ input }}" } },
        "output": "{{ nodes.a.output }}",
    }));
    let start = |key: &str| {
        let request = json!({ "workflow": "pay", "input": 1 }).to_string();
        let headers = [
            "content-type: application/json",
            &format!("idempotency-key: {key}"),
        ];
        web.ask("POST", "/api/v1/runs", &headers, &request)
    };
    let first = start("order-7");
    assert_eq!(first.status, 201, "{first:?}");
    let id = first.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(web.result(&id)["output"], 1);
    let export = web.get_any(&format!("/api/v1/runs/{id}/export")).body;
    let mut forged: Value = serde_json::from_str(&export).expect("JSON");
    let forged = forged["document"].take().to_string();
    // The run is deleted, and a forged run of the key is imported before the key is used again.
    let other = Place::new(&["echo"]);
    let (before, web_of_other) = (
        forged.replacen("\"text\":\"1\"", "\"text\":\"2\"", 1),
        Web::serve(&other),
    );
    let json = "content-type: application/json";
    let path = "/api/v1/runs/import?unsigned=true";
    for document in [&forged, &before] {
        let answer = web_of_other.ask("POST", path, &[json], document);
        assert_eq!(answer.problem(), (422, "WL-R163".to_owned()), "{answer:?}");
        let to = format!("{path}&as={id}");
        let answer = web_of_other.ask("POST", &to, &[json], document);
        assert_eq!(answer.problem(), (422, "WL-R163".to_owned()), "{answer:?}");
        let replaced = web.ask("POST", &format!("{path}&replace=true"), &[json], document);
        assert_eq!(
            replaced.problem(),
            (422, "WL-R163".to_owned()),
            "{replaced:?}"
        );
    }
    // An export that the host has signed is imported under its key.
    let path = "/api/v1/runs/import?replace=true";
    let replaced = web.ask("POST", path, &[json], &export);
    assert_eq!(replaced.status, 201, "{replaced:?}");
    let again = start("order-7");
    assert_eq!(again.status, 200, "{again:?}");
    assert_eq!(again.json()["existed"], true);
}

#[test]
fn a_run_that_uses_a_denied_component_is_not_imported() {
    let (here, there) = trusting(&["human", "text"]);
    let serve = here.serve();
    let id = asked(&here);
    let document = here.ask(&["runs", "export", &id]);
    drop(serve);
    let exported: Value = serde_json::from_str(&document).expect("JSON");
    let pins = exported["document"]["pins"]["json"].as_str().expect("text");
    let pins: Value = serde_json::from_str(pins).expect("JSON");
    let digest = pins["uses"]["human/confirm@1"].as_str().expect("a digest");
    let there = there.with("plugins.deny", &json!([digest]).to_string());
    let file = there.file("run.json", &document);
    let file = file.to_str().expect("a path that is text");
    for arguments in [&[][..], &["--unsigned"], &["--new-id"]] {
        let command = [&["runs", "import", file], arguments].concat();
        let refused = there.say(&command);
        assert_eq!(refused.exit, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains("WL-R165"), "{}", refused.stderr);
    }
}
