//! Several processes that use one store at the same time, and their deaths.

use serde_json::json;
use windlass_model::Status;
use windlass_tests::harness::{Gate, Place, until};

#[test]
fn the_work_of_all_processes_on_one_store_ends_once() {
    let gate = Gate::shut();
    let place = Place::new(&["fetch", "steps"]).with_http("fetch", &gate.grant());
    let workflow = json!({
        "workflow": "gated",
        "nodes": {
            "before": { "use": "steps/effect" },
            "gate": { "use": "fetch/fetch", "with": { "url": gate.url() }, "timeout": "170s" },
            "after": { "use": "steps/effect" },
        },
        "edges": ["before -> gate", "gate -> after"],
    });
    let file = place.workflow("gated", &workflow).display().to_string();
    let id = "0193c0de-7a1b-7c3d-8e4f-0123456789ab";

    // A `run` that is killed during its work, beside a `serve` with work of its own.
    let serve = place.serve();
    let run = place.start(&["run", &file, "--id", id]);
    let starts: Vec<_> = (0..4)
        .map(|_| place.start(&["runs", "start", &file]))
        .collect();
    let mut ids = vec![id.to_owned()];
    for mut start in starts {
        let (status, stdout, stderr) = start.output();
        assert_eq!(status.code(), Some(0), "{stderr}");
        ids.push(stdout.trim().to_owned());
    }
    gate.until_asked(5);
    let owner = |id: &str| place.look().run(id).owner;
    assert_ne!(
        owner(&ids[0]),
        owner(&ids[1]),
        "`run` keeps its own work to itself"
    );
    run.kill();
    // The `serve` takes over the work of the `run`, and sends its requests to the gate.
    gate.until_asked(6);
    assert_eq!(
        owner(&ids[0]),
        owner(&ids[1]),
        "`serve` has what the killed `run` had"
    );
    serve.kill();

    let _serve = place.serve();
    gate.open();
    until("everything has ended", || place.look().unfinished() == 0);
    let mut keys = std::collections::BTreeSet::new();
    for id in &ids {
        let run = place.look().run(id);
        assert_eq!(run.status, Status::Completed, "{run:#?}");
        let records = place.look().records(&run);
        let nodes: Vec<&str> = records.iter().map(|record| record.node.as_str()).collect();
        assert_eq!(
            nodes,
            ["before", "gate", "after"],
            "each node is recorded once"
        );
        for record in records.iter().filter(|record| record.node != "gate") {
            assert!(
                keys.insert(record.output.clone()),
                "an effect is recorded twice"
            );
        }
    }
    assert_eq!(
        place.look().runs().len(),
        ids.len(),
        "nothing else was started"
    );
}

#[test]
fn processes_that_open_a_new_store_at_once_all_get_it() {
    let place = Place::new(&["steps"]);
    let workflow = json!({ "workflow": "one", "nodes": { "it": { "use": "steps/effect" } } });
    let file = place.workflow("one", &workflow).display().to_string();
    let mut runs: Vec<_> = (0..6).map(|_| place.start(&["run", &file])).collect();
    for run in &mut runs {
        let (status, _, stderr) = run.output();
        assert_eq!(status.code(), Some(0), "{stderr}");
    }
    let statuses: Vec<Status> = place.look().runs().iter().map(|run| run.status).collect();
    assert_eq!(statuses, [Status::Completed; 6]);
}
