//! People who answer questions of runs by the command line.

use serde_json::json;
use windlass_model::Status;
use windlass_tests::harness::{Place, until_some};

/// A run that waits for a person's answer, and the number of its bookmark.
fn asked(place: &Place) -> (String, String) {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../examples/approval/approval.yaml"
    );
    let order = r#"{"order":7,"total":5000}"#;
    let id = place.ask(&["runs", "start", file, "--input", order]);
    let id = id.trim().to_owned();
    let listed = until_some("a person is asked", || {
        let listed = place
            .say(&["-o", "json", "bookmark", "list", "--run", &id])
            .json();
        listed.get(0).cloned()
    });
    assert_eq!(listed["metadata"]["message"], "Order 7 is over 1000: 5000");
    (id, listed["no"].to_string())
}

#[track_caller]
fn check_decided(place: &Place, id: &str, decision: &str) {
    let run = place.look().ended(id);
    assert_eq!(run.status, Status::Completed, "{:?}", run.failure);
    assert_eq!(place.look().output(&run), json!({ "decision": decision }));
}

#[test]
fn a_person_answers_by_the_bookmark_or_by_what_it_is_about() {
    let place = Place::new(&["human", "text"]);
    let _serve = place.serve();
    let (id, no) = asked(&place);
    let answer = r#"{"decision":"approve","by":"ada"}"#;
    place.ask(&["bookmark", "resume", &no, "--input", answer]);
    check_decided(&place, &id, "approve");

    let (id, _) = asked(&place);
    let answer = r#"{"decision":"reject"}"#;
    let about = r#"{"order":7}"#;
    place.ask(&[
        "event",
        "send",
        "human.confirm",
        "--match",
        about,
        "--input",
        answer,
    ]);
    check_decided(&place, &id, "reject");
}

#[test]
fn after_an_answer_that_is_none_the_question_stands() {
    let place = Place::new(&["human", "text"]);
    let _serve = place.serve();
    let (id, no) = asked(&place);
    let refused = place.say(&["bookmark", "resume", &no, "--input", "decision=perhaps"]);
    assert!(refused.stderr.contains("WL-R160"), "{}", refused.stderr);
    let event = |input: &str| {
        let about = r#"{"order":7}"#;
        let name = ["event", "send", "human.confirm"];
        place.say(&[&name[..], &["--match", about, "--input", input]].concat())
    };
    let refused = event("decision=perhaps");
    assert_eq!(refused.exit, Some(2), "{refused:#?}");
    assert!(refused.stderr.contains("WL-R160"), "{refused:#?}");
    assert!(refused.stderr.contains("/decision"), "{refused:#?}");
    let listed = place.say(&["-o", "json", "bookmark", "list", "--run", &id]);
    assert_eq!(
        listed.json()[0]["no"].to_string(),
        no,
        "it still waits there"
    );
    let taken = event("decision=approve");
    assert_eq!(taken.exit, Some(0), "{taken:#?}");
    check_decided(&place, &id, "approve");
}
