//! People who answer questions of runs by the command line.

use serde_json::json;
use windlass_model::Status;
use windlass_tests::harness::{Place, until, until_some};

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
fn a_person_answers_by_the_bookmark_or_by_its_match() {
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

/// A workflow whose node fails, or is repaired.
fn sum(place: &Place, term: &str) -> String {
    let workflow = json!({
        "workflow": "sum",
        "nodes": {
            "first": { "set": { "n": 1 } },
            "add": { "set": { "sum": format!("{{{{ input.a + {term} }}}}") } },
        },
        "edges": ["first -> add"],
        "output": "{{ vars.sum }}",
    });
    place.workflow("sum", &workflow).display().to_string()
}

#[test]
fn a_failed_run_is_retried_with_the_repaired_workflow() {
    let place = Place::new(&[]);
    let _serve = place.serve();
    let file = sum(&place, "'x'");
    let id = place.ask(&["runs", "start", &file, "--input", "a=1"]);
    let id = id.trim();
    assert_eq!(place.look().ended(id).status, Status::Faulted);
    let retry = |more: &[&str]| place.say(&[&["runs", "retry", id, "--wait"][..], more].concat());
    let none = retry(&["--definition", "latest"]);
    assert_eq!(none.exit, Some(40), "{none:#?}");
    assert!(
        none.stderr.contains("No version of `sum` is published"),
        "{none:#?}"
    );
    place.ask(&["workflow", "publish", &sum(&place, "2")]);
    // A plain retry says that there is another version.
    let plain = retry(&[]);
    assert_eq!(plain.exit, Some(10), "{plain:#?}");
    assert!(
        plain.stderr.contains("Version 1 of `sum` is published"),
        "{plain:#?}"
    );
    for (wrong, exit) in [("newest", 2), ("7", 41)] {
        let said = retry(&["--definition", wrong]);
        assert_eq!(said.exit, Some(exit), "{said:#?}");
    }
    let done = retry(&["--definition", "latest"]);
    assert_eq!((done.exit, done.stdout.trim()), (Some(0), "3"), "{done:#?}");
    let said = "The run continues with version 1 of `sum`; changed nodes: add.";
    assert!(done.stderr.contains(said), "{done:#?}");
    let shown = place.say(&["-o", "json", "runs", "show", id]).json();
    let journal = shown["journal"].as_array().expect("it has a journal");
    let versions: Vec<_> = journal
        .iter()
        .map(|entry| &entry["detail"]["definition"]["version"])
        .filter(|version| version.is_number())
        .collect();
    assert_eq!(versions, [&json!(1)]);
}

#[test]
fn a_retry_names_the_differences_and_the_obstacles() {
    let place = Place::new(&[]);
    let _serve = place.serve();
    let publish = |nodes: serde_json::Value, edges: &[&str]| {
        let workflow = json!({ "workflow": "bill", "nodes": nodes, "edges": edges });
        let file = place.workflow("bill", &workflow).display().to_string();
        place.ask(&["workflow", "publish", &file]);
        file
    };
    let set = |value: &str| json!({ "set": { "n": value } });
    let file = publish(
        json!({ "first": set("1"), "add": set("{{ input.a + 'x' }}"), "legacy": set("2") }),
        &["first -> add", "add -> legacy"],
    );
    let id = place.ask(&["runs", "start", &file, "--input", "a=1"]);
    let id = id.trim();
    assert_eq!(place.look().ended(id).status, Status::Faulted);
    let retry = |more: &[&str]| place.say(&[&["runs", "retry", id, "--wait"][..], more].concat());

    publish(
        json!({ "first": set("1"), "sum": set("3") }),
        &["first -> sum"],
    );
    let refused = retry(&["--definition", "latest"]);
    assert_eq!(refused.exit, Some(40), "{refused:#?}");
    for part in ["WL-R132", "version 2 of `bill`", "node `add`", "--from"] {
        assert!(refused.stderr.contains(part), "{part}: {refused:#?}");
    }
    publish(
        json!({ "add": set("{{ input.a + 1 }}"), "fresh": set("3") }),
        &["add -> fresh"],
    );
    let refused = retry(&["--definition", "3"]);
    assert!(
        refused.stderr.contains("the edge that led to it"),
        "{refused:#?}"
    );
    // A start over from the node needs no edge.
    let done = retry(&["--definition", "3", "--from", "fresh"]);
    assert_eq!(done.exit, Some(0), "{done:#?}");
    let said = "The run continues with version 3 of `bill`; changed nodes: add; new nodes: fresh; \
                removed nodes: first, legacy; also changed: edges.";
    assert!(done.stderr.contains(said), "{done:#?}");
    // The removed nodes keep their names.
    let trace = place.say(&["-o", "json", "runs", "trace", id]).json();
    let executions = trace.as_array().expect("a list").iter();
    let nodes: Vec<_> = executions.map(|it| it["node"].clone()).collect();
    assert_eq!(nodes, ["first", "add", "fresh"], "{trace:#}");
    let shown = place.ask(&["runs", "show", id]);
    for part in ["retried", "\"removed_nodes\"", "\"legacy\""] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn a_command_that_waits_for_a_run_says_that_no_host_has_taken_it() {
    let place = Place::new(&[]);
    let serve = place.serve();
    let file = sum(&place, "'x'");
    let id = place.ask(&["runs", "start", &file, "--input", "a=1"]);
    let id = id.trim();
    assert_eq!(place.look().ended(id).status, Status::Faulted);
    drop(serve);
    for command in ["retry", "result"] {
        let said = place.say(&["runs", command, id, "--wait=4s"]);
        assert!(
            said.stderr.contains("No host has taken the run yet"),
            "{said:#?}"
        );
    }
    let watching = place.start(&["runs", "watch", id]);
    until("it says so", || {
        watching.stderr().contains("No host has taken the run yet")
    });
}
