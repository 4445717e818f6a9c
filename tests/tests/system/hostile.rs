//! Plugins that misbehave. Each fails its own run, with the class and the code of its fault, and
//! other runs are not affected.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_model::Status;
use windlass_tests::harness::{Place, Starter, until};

/// Every component that loads, with its kinds of misbehaviour.
const COMPONENTS: [&str; 9] = [
    "echo",
    "hostile",
    "amplifier",
    "bad-discriminant",
    "bad-pointer",
    "bad-utf8",
    "realloc-loop",
    "table-bomb",
    "two-memories",
];

/// Kinds of harm, and the end of the harmed run: class and code, or completed.
const HARM: [(&str, &str, &str); 23] = [
    ("hostile/loop", "deadline", "WL-R032"),
    ("hostile/loop-calling", "deadline", "WL-R032"),
    ("hostile/memory", "limit", "WL-R033"),
    ("hostile/allocations", "limit", "WL-R033"),
    ("hostile/recursion", "trap", "WL-R030"),
    ("hostile/output", "limit", "WL-R033"),
    ("hostile/output bytes 8388608", "limit", "WL-R035"),
    ("hostile/not-json", "permanent", "WL-R045"),
    ("hostile/foreign-blob", "permanent", "WL-R045"),
    ("hostile/trap", "trap", "WL-R030"),
    ("hostile/panic", "trap", "WL-R030"),
    ("hostile/flood lines 20000", "", ""),
    ("hostile/long-line bytes 1048576", "", ""),
    ("hostile/progress lines 20000", "", ""),
    ("hostile/port", "invalid", "WL-R047"),
    ("hostile/suspend", "permanent", "WL-R045"),
    ("amplifier/run", "limit", "WL-R035"),
    ("bad-discriminant/run", "trap", "WL-R030"),
    ("bad-pointer/run", "trap", "WL-R030"),
    ("bad-utf8/run", "trap", "WL-R030"),
    ("realloc-loop/run", "deadline", "WL-R032"),
    ("table-bomb/run", "", ""),
    ("two-memories/run", "", ""),
];

/// Longer than any call takes that ends by itself.
const LONG: &str = "150s";

/// Concurrent harmless runs.
const INNOCENT: u64 = 200;

/// A workflow with one harmful node; `harm` is its type, optionally with an amount. An endless node
/// has a short time limit, and all others have a long one.
fn harmful(harm: &str, class: &str) -> Value {
    let mut words = harm.split(' ');
    let timeout = if class == "deadline" { "3s" } else { LONG };
    let mut it = json!({ "use": words.next(), "timeout": timeout });
    if let (Some(what), Some(amount)) = (words.next(), words.next()) {
        it["with"] = json!({ what: amount.parse::<u64>().expect("it is a number") });
    }
    json!({ "workflow": "harmful", "nodes": { "it": it } })
}

fn innocent() -> Value {
    json!({
        "workflow": "innocent",
        "nodes": { "a": { "use": "echo/echo" }, "b": { "use": "echo/echo" } },
        "edges": ["a -> b"],
    })
}

#[test]
fn every_harm_fails_its_own_run_alone() {
    let place = Place::new(&COMPONENTS)
        .with("plugins.limits.deadline", LONG)
        .with("plugins.quarantine-after", "0");
    let starter = Starter::of(&place);
    let start = |workflow: &Value| {
        starter
            .start(workflow, &json!({}))
            .expect("a run is written down")
            .to_string()
    };
    let mut harmed = BTreeMap::new();
    let mut innocents = Vec::new();
    for (harm, class, code) in HARM {
        harmed.insert(start(&harmful(harm, class)), (harm, class, code));
        innocents.extend((0..INNOCENT / 10).map(|_| start(&innocent())));
    }
    let _serve = place.serve();
    until("everything has ended", || place.look().unfinished() == 0);

    let mut wrong = Vec::new();
    for (id, (harm, class, code)) in &harmed {
        let run = place.look().run(id);
        let failure = run.failure.as_ref();
        let found = failure.map_or(("", ""), |it| (it.class.name(), it.code.as_str()));
        if found != (*class, *code) {
            wrong.push(format!(
                "{harm}: expected {class} {code}, found {found:?}: {failure:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for id in &innocents {
        assert_eq!(place.look().run(id).status, Status::Completed);
    }
}

#[test]
fn hundreds_of_endless_loops_delay_no_other_run() {
    const LOOPS: usize = 256;
    // The time limit of the loops is longer than the test waits.
    let place = Place::new(&["echo", "hostile"])
        .with("plugins.limits.deadline", "1h")
        .with("plugins.quarantine-after", "0");
    let starter = Starter::of(&place);
    let endless = json!({ "workflow": "endless", "nodes": { "it": { "use": "hostile/loop" } } });
    let start = |workflow: &Value| {
        starter
            .start(workflow, &json!({}))
            .expect("a run is written down")
            .to_string()
    };
    let loops: Vec<String> = (0..LOOPS).map(|_| start(&endless)).collect();
    let serve = place.serve();
    until("every loop is in the hands of the host", || {
        loops.iter().all(|id| place.look().run(id).owner.is_some())
    });
    let innocents: Vec<String> = (0..INNOCENT).map(|_| start(&innocent())).collect();
    for id in &innocents {
        let run = place.look().ended(id);
        assert_eq!(run.status, Status::Completed, "{run:#?}");
    }
    for id in &loops {
        let status = place.look().run(id).status;
        assert!(
            !status.is_final(),
            "a loop ended as {status} before the others had"
        );
    }
    drop(serve);
}

#[test]
fn components_that_cannot_be_loaded_are_named_and_the_others_work() {
    let broken = [
        ("describe-garbage", "WL-P008"),
        ("describe-loop", "WL-P007"),
        ("describe-other", "WL-P008"),
        ("garbage", "WL-P001"),
        ("start-loop", "WL-P007"),
        ("unknown-import", "WL-P006"),
        ("wrong-world", "WL-P005"),
    ];
    let names: Vec<&str> = broken
        .iter()
        .map(|(name, _)| *name)
        .chain(["steps"])
        .collect();
    let place = Place::new(&names);
    let serve = place.serve();
    for (name, code) in broken {
        until(&format!("the host says {code} about {name}"), || {
            let said = serve.stderr();
            said.lines()
                .any(|line| line.contains(&format!("{name}.wasm")) && line.contains(code))
        });
    }
    let workflow = json!({ "workflow": "one", "nodes": { "it": { "use": "steps/effect" } } });
    let file = place.workflow("one", &workflow).display().to_string();
    let id = place.ask(&["runs", "start", &file]);
    assert_eq!(place.look().ended(&id).status, Status::Completed);
}

#[test]
fn a_run_waits_for_a_consumer_that_is_missing() {
    let place = Place::new(&["steps"]);
    let consumer = place.library().join("chain-executor.wasm");
    let aside = place.path("aside.wasm");
    std::fs::rename(&consumer, &aside).expect("a file can be moved");
    let serve = place.serve();
    let workflow = json!({ "workflow": "one", "nodes": { "it": { "use": "steps/effect" } } });
    let file = place.workflow("one", &workflow).display().to_string();
    let id = place.ask(&["runs", "start", &file]);
    until("the run is put aside", || {
        let run = place.look().run(&id);
        place
            .look()
            .triggers(&run, windlass_model::TriggerState::Parked)
            == 1
    });
    std::fs::rename(&aside, &consumer).expect("a file can be moved");
    assert_eq!(place.look().ended(&id).status, Status::Completed);
    drop(serve);
}

#[test]
fn a_host_without_its_node_library_says_so() {
    let place = Place::new(&[]).with("plugins.library", "/nowhere/plugins");
    let serve = place.serve();
    let said = serve.stderr();
    let warning = said.lines().find(|line| line.contains("WARN"));
    let warning = warning.unwrap_or_else(|| panic!("no warning in {said}"));
    assert!(
        warning.contains("/nowhere/plugins is not a directory"),
        "{warning}"
    );
    assert!(warning.contains("Correct `library`"), "{warning}");
}
