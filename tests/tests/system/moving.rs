//! Runs that are exported here and imported there, by the command line and by HTTP.

use serde_json::{Value, json};
use windlass_model::Status;
use windlass_tests::harness::{Answer, Place, Web, until_some};

const APPROVAL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../examples/approval/approval.yaml"
);

/// A run that asks somebody.
fn asked(place: &Place) -> String {
    let order = r#"{"order":7,"total":5000}"#;
    let id = place.ask(&["instance", "start", APPROVAL, "--input", order]);
    let id = id.trim().to_owned();
    bookmark(place, &id);
    id
}

/// The number of the bookmark at which a run waits.
fn bookmark(place: &Place, id: &str) -> String {
    let listed = until_some("somebody is asked", || {
        let listed = place
            .say(&["-o", "json", "bookmark", "list", "--instance", id])
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
    let (here, there) = (
        Place::new(&["human", "text"]),
        Place::new(&["human", "text"]),
    );
    let serve = here.serve();
    let id = asked(&here);
    let file = here.path("run.json");
    let file = file.to_str().expect("a path that is text");
    here.ask(&["instance", "export", &id, "--file", file]);
    drop(serve);
    // Nothing but the file and the components is needed there, and no host.
    assert_eq!(
        there.ask(&["instance", "import", file]).trim(),
        format!("{id} new")
    );
    assert_eq!(
        there.ask(&["instance", "import", file]).trim(),
        format!("{id} already")
    );
    let copied = there.ask(&["-o", "json", "instance", "import", file, "--new-id"]);
    let copied: Value = serde_json::from_str(&copied).expect("JSON");
    let copy = copied["id"].as_str().expect("an id").to_owned();
    assert_ne!(copy, id);
    let _serve = there.serve();
    check_answered(&there, &id);
    check_answered(&there, &copy);
    // What is over can be put back to where it was.
    let again = there.ask(&["instance", "import", file, "--replace"]);
    assert_eq!(again.trim(), format!("{id} replaced"));
    check_answered(&there, &id);
}

#[test]
fn what_cannot_be_imported_is_refused_by_its_code() {
    let place = Place::new(&["human", "text"]);
    let _serve = place.serve();
    let id = asked(&place);
    let document = place.ask(&["instance", "export", &id]);
    let file = place.path("run.json");
    let name = file.to_str().expect("a path that is text").to_owned();
    let check = |text: &str, arguments: &[&str], code: &str, exit: i32| {
        std::fs::write(&file, text).expect("it can be written");
        let command = [&["instance", "import", name.as_str()], arguments].concat();
        let said = place.say(&command);
        assert_eq!(said.exit, Some(exit), "{}", said.stderr);
        assert!(said.stderr.contains(code), "{}", said.stderr);
    };
    check(&document, &[], "WL-R137", 40);
    check("{}", &["--replace"], "WL-R134", 2);
    let newer = document.replacen("\"windlass-export\":1", "\"windlass-export\":9", 1);
    check(&newer, &["--replace"], "WL-R135", 2);
    check_answered(&place, &id);
}

#[test]
fn a_run_moves_from_one_host_to_another_by_http() {
    let (here, there) = (
        Place::new(&["human", "text"]),
        Place::new(&["human", "text"]),
    );
    let (from, to) = (Web::serve(&here), Web::serve(&there));
    let id = asked(&here);
    let shown = from.get_any(&format!("/api/v1/instances/{id}/export"));
    assert_eq!(shown.status, 200, "{shown:?}");
    let import = |web: &Web, query: &str| {
        let path = format!("/api/v1/instances/import{query}");
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
    // Where it comes from, it is there.
    assert_eq!(import(&from, "").problem(), (409, "WL-R137".to_owned()));
    check(&import(&to, "?replace=true"), 201, "replaced");
    // The same, by the command line of somebody who has neither of the stores.
    let (far, near) = (Place::new(&[]), format!("http://{}", to.address));
    let file = far.path("run.json");
    let file = file.to_str().expect("a path that is text");
    let origin = format!("http://{}", from.address);
    far.ask(&[
        "--server", &origin, "instance", "export", &id, "--file", file,
    ]);
    let import = ["--server", &near, "instance", "import", file];
    let refused = far.say(&import);
    assert_eq!(refused.exit, Some(40), "it was exported anew: {refused:?}");
    let said = far.ask(&[&import[..], &["--replace"]].concat());
    assert_eq!(said.trim(), format!("{id} replaced"));
    check_answered(&there, &id);
}
