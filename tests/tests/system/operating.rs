//! What an operator sees of failures: the log, the published workflows that cannot run, and changed
//! settings of a running host.

use serde_json::{Value, json};
use windlass_model::Status;
use windlass_tests::harness::{Gate, Place, Process, Signal, Web, until};

fn failing(name: &str) -> Value {
    json!({
        "workflow": name,
        "nodes": {
            "each": {
                "for-each": ["a"],
                "nodes": { "check": { "fail": "it is broken: \u{1b}[2J{{ item }}" } },
            },
        },
    })
}

/// The lines of the log with a text.
fn lines(serve: &Process, text: &str) -> Vec<String> {
    let said = serve.stderr();
    let found = said.lines().filter(|line| line.contains(text));
    found.map(str::to_owned).collect()
}

#[test]
fn a_run_that_faults_and_the_item_that_failed_are_a_line_of_the_log_each() {
    let place = Place::new(&["echo"]);
    let serve = place.serve();
    let file = place.workflow("bad", &failing("bad")).display().to_string();
    let id = place.ask(&["runs", "start", &file, "--correlation", "order-7"]);
    let id = id.trim();
    assert_eq!(place.look().ended(id).status, Status::Faulted);
    until("it is logged", || !lines(&serve, "run faulted").is_empty());
    let found = lines(&serve, id);
    let [item, run] = found.as_slice() else {
        panic!("{found:#?}");
    };
    let both = [
        "workflow=\"bad\"",
        "correlation=\"order-7\"",
        "attempt=1",
        "code=WL-R078",
        // The text of the node cannot control the terminal.
        "it is broken: ␛[2Ja",
    ];
    let of_item = ["WARN node failed", "node=\"check\"", "item=\"0\""];
    let of_run = ["WARN run faulted", "node=\"each\""];
    for (line, own) in [(item, &of_item[..]), (run, &of_run[..])] {
        for part in both.iter().chain(own) {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }
    let said = serve.stderr();
    assert!(!said.contains("windlass_"), "a module is named: {said}");
    let start = said.split("node failed").next().unwrap_or_default();
    assert!(
        start.lines().count() <= 4,
        "the start is few lines: {start}"
    );
}

#[test]
fn a_flood_of_failing_runs_is_a_few_lines_and_a_count() {
    let place = Place::new(&["echo"]);
    let web = Web::serve(&place);
    web.publish(&failing("flood"));
    web.publish(&failing("other"));
    let made = 200;
    let ids: Vec<String> = (0..made)
        .map(|_| web.start("flood", &Value::Null))
        .collect();
    let other = web.start("other", &Value::Null);
    for id in ids.iter().chain([&other]) {
        assert_eq!(web.result(id)["status"], "faulted");
    }
    let serve = &web.process;
    until("the last one is logged", || {
        !lines(serve, &other).is_empty()
    });
    until("the count is logged", || {
        let counts = lines(serve, "run faulted: more such lines were not written");
        let count = |line: &String| {
            let (_, count) = line.split_once("lines=")?;
            count.trim().parse::<usize>().ok()
        };
        let counted: usize = counts.iter().filter_map(count).sum();
        // The line of the report contains the text, too.
        let written = lines(serve, "run faulted ").len();
        counted + written == made + 1
    });
    let all = lines(serve, "run faulted");
    assert!(all.len() < made / 2, "{all:#?}");
}

#[test]
fn a_published_workflow_whose_plugin_is_gone_is_named_and_its_sender_comes_again() {
    let place = Place::new(&["echo"]);
    let web = Web::serve(&place);
    web.publish(&json!({
        "workflow": "hooked",
        "triggers": {
            "hook": { "http": { "path": "/order" } },
            "nightly": { "every": "1h" },
        },
        "nodes": { "a": { "use": "echo/echo" } },
    }));
    let send = || {
        web.ask(
            "POST",
            "/hooks/order",
            &["content-type: application/json"],
            "{}",
        )
    };
    assert_eq!(send().status, 202);
    let plugin = place.plugins().join("echo.wasm");
    let kept = std::fs::read_link(&plugin).expect("it is a link");
    std::fs::remove_file(&plugin).expect("it is ours");
    until("the host has seen it", || send().status != 202);
    let refused = send();
    assert_eq!(refused.problem(), (503, "WL-R111".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("30"));
    let logged = |text: &str| {
        let all = lines(&web.process, text);
        all.iter().filter(|line| line.contains("hooked")).count()
    };
    until("the log names the workflow", || {
        logged("a published workflow cannot run") == 1
    });
    let text = web.get_any("/metrics").body;
    assert!(
        text.contains("windlass_hook_requests_total{status=\"503\"} "),
        "{text}"
    );

    let address = format!("http://{}", web.address);
    let listed = place.ask(&["--server", &address, "workflow", "list"]);
    assert!(
        listed.contains("PROBLEM") && listed.contains("echo"),
        "{listed}"
    );
    let next = place.say(&["--server", &address, "trigger", "next", "hooked"]);
    assert!(
        next.stderr.contains("cannot run at these times"),
        "{next:?}"
    );
    assert!(next.stdout.contains("nightly"), "{next:?}");
    // Without a host, the commands look at the plugin folder.
    let listed = place.ask(&["workflow", "list"]);
    assert!(listed.contains("PROBLEM"), "{listed}");
    let doctor = place.say(&["doctor"]).stdout;
    assert!(doctor.contains("1 of 1 cannot run: hooked: "), "{doctor}");

    std::os::unix::fs::symlink(kept, &plugin).expect("a link can be made");
    until("the same request succeeds", || send().status == 202);
    until("the log says that it is over", || {
        logged("a published workflow can run again") == 1
    });
    let listed = place.ask(&["--server", &address, "workflow", "list"]);
    assert!(!listed.contains("PROBLEM"), "{listed}");
    let doctor = place.say(&["doctor"]).stdout;
    assert!(doctor.contains("1 published, and all can run"), "{doctor}");
}

#[test]
fn a_host_takes_changed_grants_at_sighup_and_names_settings_that_need_a_restart() {
    let gate = Gate::shut();
    gate.open();
    let place = Place::new(&["fetch"]);
    let settings = |more: &str| {
        let proof = "[plugins.grants.fetch]\nfile = \"fetch.wasm\"\n";
        place.file("windlass.toml", format!("{proof}{more}"));
    };
    settings("");
    place.ask(&["trust"]);
    let web = Web::serve(&place);
    web.publish(&json!({
        "workflow": "asks",
        "nodes": { "it": { "use": "fetch/fetch", "with": { "url": gate.url() } } },
        "options": { "retention": "1h" },
    }));
    let ends = || {
        let id = web.start("asks", &Value::Null);
        web.result(&id)["status"].clone()
    };
    assert_eq!(ends(), "faulted");
    settings(&format!(
        "http = [\"{}\"]\n[scheduler]\nmax-steps = 77777\n",
        gate.origin()
    ));
    place.ask(&["trust"]);
    web.process.signal(Signal::HUP);
    until("it says what it has taken", || {
        let said = lines(&web.process, "settings reloaded");
        said.iter().any(|line| {
            line.contains("applied=\"plugins.grants.fetch.http")
                && line.contains("restart=\"scheduler.max-steps\"")
        })
    });
    until("the grant applies", || ends() == "completed");

    // Without the grant, by the API.
    settings("");
    place.ask(&["trust"]);
    let done = web.post("/api/v1/admin/reload", &Value::Null).json();
    assert_eq!(
        done["settings"]["applied"],
        json!(["plugins.grants.fetch.http"])
    );
    assert_eq!(done["settings"]["restart"], json!([]));
    until("the grant is gone", || ends() == "faulted");
    settings("http = [\"no address\"]\n");
    place.ask(&["trust"]);
    let wrong = web.post("/api/v1/admin/reload", &Value::Null);
    assert_eq!(wrong.status, 422, "{wrong:?}");
}
