//! `--server`: each command, carried out by a real host over HTTP.
//!
//! Against a store the same handlers answer in the process of the command, and the cases of
//! `host/cli/tests` cover those. `reading` compares the two for the commands that only read.

mod reading;
mod runs;
mod triggers;
mod troubles;
mod workflows;

use serde_json::{Value, json};
use windlass_tests::harness::{Place, Said, Web, until};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A host that serves, and its store.
struct Served {
    place: Place,
    web: Web,
}

impl Served {
    fn new() -> Self {
        let place = Place::new(&["echo", "steps", "gate"])
            .with_consumer("gate")
            .with("server.token", TOKEN);
        let definitions = place.path("definitions");
        std::fs::create_dir(&definitions).expect("a directory can be made");
        let place = place.with("definitions.directory", &definitions.display().to_string());
        let web = Web::serve(&place);
        Self { place, web }
    }

    /// Runs a command against the host.
    fn said(&self, command: &[&str]) -> Said {
        let address = format!("http://{}", self.web.address);
        let mut all = vec!["--server", &address, "--token", TOKEN];
        all.extend(command);
        self.place.say(&all)
    }

    /// Runs a command against the host that ends with this code.
    #[track_caller]
    fn exits(&self, code: i32, command: &[&str]) -> Said {
        let said = self.said(command);
        assert_eq!(said.exit, Some(code), "{command:?}: {said:?}");
        said
    }

    /// The JSON that a successful command prints.
    #[track_caller]
    fn json(&self, command: &[&str]) -> Value {
        self.exits(0, &[&["-o", "json"], command].concat()).json()
    }

    /// Runs a command that only reads against the host and on the store, and checks that the
    /// output is the same, errors included.
    #[track_caller]
    fn same(&self, command: &[&str]) -> Said {
        let command = [&["-o", "jsonl"], command].concat();
        let (direct, asked) = (self.place.say(&command), self.said(&command));
        assert_eq!(direct.exit, asked.exit, "{command:?}: {direct:?} {asked:?}");
        assert_eq!(direct.stdout, asked.stdout, "{command:?}");
        let code = |said: &Said| {
            let error: Value = serde_json::from_str(&said.stderr).unwrap_or_default();
            error["error"]["code"].clone()
        };
        assert_eq!(code(&direct), code(&asked), "{direct:?} {asked:?}");
        asked
    }

    fn file(&self, name: &str, workflow: &Value) -> String {
        self.place.workflow(name, workflow).display().to_string()
    }

    /// Starts a run of a file.
    fn run(&self, file: &str) -> String {
        let started = self.json(&["runs", "start", file, "--input", "by=1"]);
        started["id"].as_str().expect("an id").to_owned()
    }

    /// Starts a run of a file, and waits until it waits.
    fn waiting(&self, file: &str) -> String {
        let id = self.run(file);
        self.until_waiting(&id);
        id
    }

    fn until_waiting(&self, id: &str) {
        until("the run waits", || {
            self.place.look().run(id).status == windlass_model::Status::Suspended
        });
    }
}

fn done() -> Value {
    json!({
        "workflow": "done",
        "nodes": { "first": { "use": "echo/echo" }, "second": { "use": "echo/echo" } },
        "edges": ["first -> second"],
        "output": "{{ input }}",
    })
}

/// Waits for an event; a node beside it is for external triggers.
fn held(name: &str) -> Value {
    json!({
        "workflow": name,
        "vars": { "x": 0 },
        "nodes": {
            "hold": { "event": "over", "match": { "of": name } },
            "work": { "route": "gate", "set": { "x": "{{ vars.x + 1 }}" } },
        },
        "edges": [{ "from": "hold", "to": "work", "when": "false" }],
        "output": "{{ vars.x }}",
    })
}
