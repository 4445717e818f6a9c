//! `--server`: every command that can be sent to a host has the same output when a real host
//! answers over HTTP as when the API answers in the command's own process, on the store.

mod looking;
mod runs;
mod triggers;
mod troubles;
mod workflows;

use serde_json::{Value, json};
use windlass_tests::harness::{Place, Said, Web, until};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A host that serves, and its store.
struct Both {
    place: Place,
    web: Web,
}

impl Both {
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

    /// Runs a command on the store.
    fn direct(&self, command: &[&str]) -> Said {
        self.place.say(command)
    }

    /// Runs a command against the host.
    fn asked(&self, command: &[&str]) -> Said {
        let address = format!("http://{}", self.web.address);
        let mut all = vec!["--server", &address, "--token", TOKEN];
        all.extend(command);
        self.place.say(&all)
    }

    /// Runs a command that only reads, both ways, and checks that the output is the same, errors
    /// included.
    #[track_caller]
    fn same(&self, command: &[&str]) -> Said {
        let command = [&["-o", "jsonl"], command].concat();
        let (direct, asked) = (self.direct(&command), self.asked(&command));
        assert_eq!(direct.exit, asked.exit, "{command:?}: {direct:?} {asked:?}");
        assert_eq!(direct.stdout, asked.stdout, "{command:?}");
        let code = |said: &Said| {
            let error: Value = serde_json::from_str(&said.stderr).unwrap_or_default();
            error["error"]["code"].clone()
        };
        assert_eq!(code(&direct), code(&asked), "{direct:?} {asked:?}");
        asked
    }

    /// Runs two similar commands, one on the store and one against the host, and checks that their
    /// outputs are the same except for ids and times. Returns both.
    #[track_caller]
    fn alike(&self, direct: &[&str], asked: &[&str]) -> (Said, Said) {
        let (first, second) = (self.direct(direct), self.asked(asked));
        let what = format!("{direct:?}: {first:?}\n{asked:?}: {second:?}");
        assert_eq!(first.exit, second.exit, "{what}");
        assert_eq!(masked(&first.stdout), masked(&second.stdout), "{what}");
        (first, second)
    }

    /// Runs one command both ways, and checks that the outputs are the same except for ids and
    /// times.
    #[track_caller]
    fn twice(&self, command: &[&str]) -> (Said, Said) {
        let json = [&["-o", "jsonl"], command].concat();
        self.alike(&json, &json)
    }

    fn file(&self, name: &str, workflow: &Value) -> String {
        self.place.workflow(name, workflow).display().to_string()
    }

    /// Starts a run each way.
    fn two_runs(&self, file: &str) -> (String, String) {
        let (direct, asked) = self.twice(&["instance", "start", file, "--input", "by=1"]);
        let id = |said: &Said| said.json()["id"].as_str().expect("an id").to_owned();
        (id(&direct), id(&asked))
    }

    fn until_waiting(&self, id: &str) {
        until("the run waits", || {
            self.place.look().run(id).status == windlass_model::Status::Suspended
        });
    }
}

/// A text whose ids and times are masked.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    let mut word = String::new();
    for c in text.chars().chain(['\n']) {
        if c.is_ascii_alphanumeric() || "-:.+".contains(c) {
            word.push(c);
            continue;
        }
        let (id, rest) = word.split_at(word.len().min(36));
        if id.len() == 36 && id.bytes().filter(|byte| *byte == b'-').count() == 4 {
            masked.push_str("ID");
            masked.push_str(
                rest.split(|c: char| c.is_ascii_digit())
                    .next()
                    .unwrap_or(""),
            );
        } else if word.starts_with("20") && word.ends_with('Z') {
            masked.push_str("TIME");
        } else {
            masked.push_str(&word);
        }
        masked.push(c);
        word.clear();
    }
    masked
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
