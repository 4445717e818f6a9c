//! Grants apply to proved components, and not to files that only claim their name.

use std::path::Path;

use serde_json::{Value, json};
use windlass_model::{Class, Status};
use windlass_tests::harness::{Gate, Place, component, until};

fn read(name: &str) -> Vec<u8> {
    std::fs::read(component(name)).expect("a component can be read")
}

/// A component that differs in a section without meaning, like a new build.
fn built_anew(name: &str, mark: u8) -> Vec<u8> {
    let mut bytes = read(name);
    bytes.extend([0, 3, 1, b'x', mark]);
    bytes
}

/// Puts a file into place like `cp` followed by `mv`.
fn drop_in(place: &Place, name: &str, bytes: &[u8]) {
    let new = place.file("new", bytes);
    std::fs::rename(new, place.plugins().join(name)).expect("a file can be moved");
}

fn asking(node: &str, url: &str) -> Value {
    json!({
        "workflow": "asks",
        "nodes": { "it": { "use": node, "with": { "url": url } } },
    })
}

fn start(place: &Place, workflow: &Path) -> String {
    let file = workflow.display().to_string();
    place.ask(&["runs", "start", &file]).trim().to_owned()
}

/// The failure of a run of this workflow.
fn failure(place: &Place, workflow: &Value) -> windlass_model::Failure {
    let id = start(place, &place.workflow("fails", workflow));
    let run = place.look().ended(&id);
    assert_eq!(run.status, Status::Faulted);
    run.failure.expect("it says why")
}

/// The entry of a file's component in `plugin list`.
fn listed(place: &Place, file: &str) -> Value {
    let all: Value =
        serde_json::from_str(&place.ask(&["-o", "json", "plugin", "list"])).expect("it is JSON");
    let items = all.as_array().or_else(|| all["items"].as_array());
    let ends = |item: &&Value| {
        item["file"]
            .as_str()
            .is_some_and(|path| path.ends_with(file))
    };
    items
        .expect("a list")
        .iter()
        .find(ends)
        .expect("it is listed")
        .clone()
}

#[test]
fn a_file_that_calls_itself_http_gets_no_grants_of_http() {
    let gate = Gate::shut();
    gate.open();
    let place = Place::new(&[]).with("plugins.grants.http.http", &gate.grant());
    std::fs::write(place.library().join("http.wasm"), read("http")).expect("it is ours");
    let serve = place.serve();
    let workflow = asking("http/request", &gate.url());
    let id = start(&place, &place.workflow("real", &workflow));
    assert_eq!(place.look().ended(&id).status, Status::Completed);
    assert_eq!(listed(&place, "http.wasm")["proof"], "library");

    drop_in(&place, "http2.wasm", &read("impostor"));
    until("the host says what it does not give", || {
        let said = serve.stderr();
        said.contains("WL-P020") && said.contains("http2.wasm")
    });
    // The workflow gets the newest version of the package.
    let refused = failure(&place, &workflow);
    assert!(refused.message.contains("WL-P020"), "{refused}");
    let item = listed(&place, "http2.wasm");
    assert_eq!(
        (&item["version"], &item["proof"]),
        (&json!("1.9.9"), &json!("none"))
    );
    let doctor = place.say(&["doctor"]).stdout;
    assert!(doctor.contains("WL-P020"), "{doctor}");
    // The component also exports a consumer of every trigger, which was not called: the test ran as
    // expected.
}

#[test]
fn the_line_that_the_host_names_lets_a_component_have_the_grants() {
    let gate = Gate::shut();
    gate.open();
    let place = Place::new(&["fetch"]).with("plugins.grants.fetch.http", &gate.grant());
    let workflow = asking("fetch/fetch", &gate.url());
    let host = place.serve();
    let refused = failure(&place, &workflow);
    assert!(refused.message.contains("WL-P020"), "{refused}");
    let said = host.stderr();
    let digest = said
        .split("digest = \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let digest = digest.expect("the host names the line").to_owned();
    drop(host);

    let place = place.with("plugins.grants.fetch.digest", &digest);
    let _host = place.serve();
    let id = start(&place, &place.workflow("granted", &workflow));
    assert_eq!(place.look().ended(&id).status, Status::Completed);
}

#[test]
fn a_consumer_without_a_grant_is_asked_nothing() {
    let place = Place::new(&["echo", "guard"]);
    let serve = place.serve();
    let workflow = json!({
        "workflow": "routed",
        "nodes": { "it": { "use": "echo/echo", "route": "guard" } },
    });
    let id = start(&place, &place.workflow("routed", &workflow));
    until("the trigger is put aside, and the host says why", || {
        serve.stderr().contains("is not granted to [WL-P021]")
    });
    assert!(!place.look().run(&id).status.is_final());
    drop(serve);
    let place = place.with_consumer("guard");
    let _serve = place.serve();
    let run = place.look().ended(&id);
    assert_eq!(
        run.failure.expect("the run failed without a failure").class,
        Class::Rejected
    );
}

#[test]
fn a_rebuilt_component_keeps_its_grant() {
    let gate = Gate::shut();
    gate.open();
    let place = Place::new(&[]).with_http("fetch", &gate.grant());
    let _serve = place.serve();
    let workflow = asking("fetch/fetch", &gate.url());
    let file = place.workflow("fetches", &workflow);
    for mark in 1..=2 {
        drop_in(&place, "fetch.wasm", &built_anew("fetch", mark));
        until("the new build is loaded", || {
            let said = place.say(&["workflow", "validate", &file.display().to_string()]);
            said.exit == Some(0) && listed(&place, "fetch.wasm")["proof"] == "file"
        });
        let id = start(&place, &file);
        assert_eq!(place.look().ended(&id).status, Status::Completed, "{mark}");
    }
    // The same component in another file of the folder is not proved by its file.
    std::fs::remove_file(place.plugins().join("fetch.wasm")).expect("it is ours");
    drop_in(&place, "other.wasm", &built_anew("fetch", 3));
    until("the other file is loaded", || {
        listed(&place, "other.wasm")["proof"] == "none"
    });
    until("runs that begin now get nothing", || {
        failure(&place, &workflow).message.contains("WL-P020")
    });
}

#[test]
fn a_file_of_a_project_that_is_not_trusted_gets_nothing_of_the_users_grants() {
    let place = Place::new(&["fetch"]);
    let project = place.path("project");
    let plugins = project.join(".windlass/plugins");
    std::fs::create_dir_all(&plugins).expect("it is ours");
    std::fs::write(plugins.join("fetch.wasm"), read("fetch")).expect("it is ours");
    let config = place.path("home/.config/windlass");
    std::fs::create_dir_all(&config).expect("it is ours");
    let grant = "[plugins.grants.fetch]\nhttp = [\"http://127.0.0.1:9\"]\nfile = \"fetch.wasm\"\n";
    std::fs::write(config.join("config.toml"), grant).expect("it is ours");
    let proof = || {
        let mut command = place.windlass();
        command
            .env_remove("WINDLASS_PLUGINS__DIRECTORY")
            .current_dir(&project);
        let output = command
            .args(["-o", "json", "plugin", "inspect", "fetch"])
            .output();
        let output = output.expect("the program starts");
        let shown: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        shown["proof"].clone()
    };
    assert_eq!(proof(), "none");
    // The same line in the project's own file refers to the project's own folder.
    std::fs::write(project.join("windlass.toml"), grant).expect("it is ours");
    assert_eq!(proof(), "none");
    let trust = project.display().to_string();
    place.ask(&["trust", &trust]);
    assert_eq!(proof(), "file");
}

#[test]
fn a_denied_component_is_not_called_by_runs_that_began_with_it() {
    let place = Place::new(&["steps"]);
    let host = place.serve();
    let workflow = json!({
        "workflow": "later",
        "nodes": {
            "pause": { "event": "go" },
            "it": { "use": "steps/effect" },
        },
        "edges": ["pause -> it"],
    });
    let id = start(&place, &place.workflow("later", &workflow));
    until("the run waits", || {
        place.look().run(&id).status == Status::Suspended
            || place.ask(&["bookmark", "list"]).contains("go")
    });
    let digest = listed(&place, "steps.wasm")["digest"]
        .as_str()
        .expect("a digest")
        .to_owned();
    drop(host);

    let place = place.with("plugins.deny", &format!("[\"{digest}\"]"));
    let host = place.serve();
    assert!(host.stderr().contains("WL-P023"), "the file is not loaded");
    place.ask(&["event", "send", "go"]);
    let run = place.look().ended(&id);
    assert_eq!(run.status, Status::Faulted);
    let failure = run.failure.expect("it says why");
    assert_eq!(failure.code.as_str(), "WL-P023", "{failure}");
    assert_eq!(failure.class, Class::Permanent);
}
