//! Names and values from outside that try to control a terminal, or to begin another line of a list
//! or of the log.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::{Value, json};
use windlass_tests::harness::{Place, Said, until};

/// Moves the cursor, sets the title of the window, turns the direction of the text around, and
/// begins other lines.
const HOSTILE: &str = "\u{1b}]0;t\u{7}\u{1b}[2J\u{9b}1m\u{202e}x\nrow\ty\rz\u{7f}";

/// A file name that does the same.
const NAME: &str = "bad\nnext\u{1b}[2J\u{202e}";

/// Asserts that a text has no characters with an effect. A message of several lines may have tabs,
/// a list has none.
#[track_caller]
fn assert_clean(what: &[&str], text: &str) {
    let is_list = what.last() == Some(&"list");
    let hidden = |c: char| match c {
        '\n' => false,
        '\t' => is_list,
        c => c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c),
    };
    assert!(!text.chars().any(hidden), "{what:?}: {text:?}");
}

/// A workflow file, which may have such characters only as escapes.
fn escaped(workflow: &Value) -> String {
    let mut text = String::new();
    for unit in workflow.to_string().encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte @ b' '..=b'~') => text.push(char::from(byte)),
            _ => drop(write!(text, "\\u{unit:04x}")),
        }
    }
    text
}

fn text_of(item: &Value, key: &str) -> String {
    let text = item[key].as_str();
    text.unwrap_or_else(|| panic!("no {key}: {item:#}"))
        .to_owned()
}

/// The commands that list things, as the reference of the command line has them.
fn lists() -> Vec<Vec<&'static str>> {
    let reference = include_str!("../../../docs/cli.md");
    let commands = reference.lines().filter_map(|line| {
        let command = line.strip_prefix("## `windlass ")?.strip_suffix('`')?;
        command
            .ends_with(" list")
            .then(|| command.split(' ').collect())
    });
    commands.collect()
}

#[test]
fn no_list_and_no_log_line_can_be_forged() {
    let place = Place::new(&["echo"]).with("definitions.directory", "watched");
    for directory in ["watched/below", "plugins/below"] {
        std::fs::create_dir_all(place.path(directory)).expect("it can be made");
    }
    place.file(&format!("watched/{NAME}.yaml"), "workflow: 7");
    let bytes = std::ffi::OsStr::from_bytes(b"\xff\n\x1b[2J.yaml");
    std::fs::write(place.path("watched").join(bytes), "workflow: a").expect("it can be written");
    place.file("watched/other.YML", "");
    place.file("watched/below/a.yaml", "");
    place.file("plugins/below/a.wasm", "");
    place.file("plugins/other.WASM", "");
    let serve = place.serve();
    place.file(&format!("plugins/{NAME}.wasm"), "none");
    // The event that is sent below has another match, and so does not resume this run.
    let waiting = json!({
        "workflow": "waiting",
        "description": HOSTILE,
        "nodes": { "it": {
            "title": HOSTILE,
            "event": "{{ input }}",
            "match": "{{ { input: [input] } }}",
            "correlation": "{{ input }}",
        } },
    });
    let waiting = place.file("waiting.json", escaped(&waiting));
    let failing = json!({
        "workflow": "failing",
        "nodes": { "it": { "fail": { "message": "{{ input }}", "data": { "it": "{{ input }}" } } } },
    });
    let failing = place.workflow("failing", &failing).display().to_string();
    let echo = json!({ "workflow": "echo", "nodes": { "it": { "set": { "a": 1 } } }, "output": "{{ input }}" });
    let echo = place.workflow("echo", &echo).display().to_string();
    let waiting = waiting.display().to_string();
    place.ask(&["workflow", "publish", &waiting]);
    place.ask(&["workflow", "draft", "save", &waiting]);
    let input = json!(HOSTILE).to_string();
    let start = |file: &str| {
        let id = place.ask(&[
            "runs",
            "start",
            file,
            "--correlation",
            HOSTILE,
            "--input",
            &input,
        ]);
        id.trim().to_owned()
    };
    let (ended, run, failed) = (start(&echo), start(&waiting), start(&failing));
    let matches = json!({ HOSTILE: HOSTILE }).to_string();
    place.ask(&[
        "event",
        "send",
        HOSTILE,
        "--match",
        &matches,
        "--correlation",
        HOSTILE,
        "--delivery",
        "buffer",
        "--input",
        &input,
    ]);
    place.look().ended(&ended);
    place.look().ended(&failed);
    until("the run waits", || {
        place.say(&["-o", "json", "bookmark", "list"]).json()[0].is_object()
    });
    let letter = place.say(&["event", "send", HOSTILE, "--run", &ended, "--input", &input]);
    assert_clean(&["event", "send"], &letter.stdout);

    let mut commands = lists();
    assert!(commands.len() >= 9, "{commands:?}");
    let trigger = ["-o", "json", "trigger", "list", "--run", &run];
    let trigger = text_of(&place.say(&trigger).json()[0], "trigger");
    let letter = place.say(&["-o", "json", "dead-letter", "list"]).json();
    let letter = letter[0]["no"].to_string();
    for id in [&ended, &failed] {
        commands.push(vec!["runs", "show", id]);
        commands.push(vec!["runs", "trace", id, "--logs", "--outputs"]);
        commands.push(vec!["runs", "watch", id]);
    }
    commands.push(vec!["runs", "show", &run]);
    commands.push(vec!["runs", "trace", &run]);
    commands.push(vec!["runs", "result", &failed]);
    commands.push(vec!["trigger", "show", &trigger]);
    commands.push(vec!["dead-letter", "show", &letter]);
    commands.push(vec!["workflow", "show", "waiting"]);
    commands.push(vec!["workflow", "draft", "list"]);
    commands.push(vec!["plugin", "inspect", "echo"]);
    commands.push(vec!["doctor"]);
    for command in &commands {
        let said = place.say(command);
        // The output of a run is a document, which is exact in a pipe.
        match command.as_slice() {
            ["runs", "watch", id] if *id == ended => {
                assert_eq!(said.stdout, format!("{HOSTILE}\n"));
            }
            _ => assert_clean(command, &said.stdout),
        }
        assert_clean(command, &said.stderr);
        // As JSON, each line is one document, and the exit code is the same.
        let lines = place.say(&[&["-o", "jsonl"][..], &command[..]].concat());
        assert_eq!(lines.exit, said.exit, "{command:?}: {lines:#?}");
        for line in lines.stdout.lines() {
            let read = serde_json::from_str::<Value>(line);
            assert!(read.is_ok(), "{command:?}: {line:?}");
        }
        // Locks need a cluster, and plugins that cannot be loaded are told apart from the table.
        let counts = !matches!(command[0], "lock" | "plugin");
        if counts && command.last() == Some(&"list") {
            let json = place
                .say(&[&["-o", "json"][..], &command[..]].concat())
                .json();
            let rows = json.as_array().map_or(0, Vec::len);
            let lines = said.stdout.lines().count();
            assert_eq!(lines, rows + 1, "{command:?}: {}", said.stdout);
        }
    }
    // Documents and JSON are exact.
    let listed = place.say(&["-o", "json", "event", "list"]).json();
    assert_eq!(listed[0]["name"], HOSTILE);
    assert_eq!(listed[0]["match"][HOSTILE], HOSTILE);
    let shown = place.say(&["-o", "json", "runs", "show", &run]).json();
    assert_eq!(shown["correlation"], HOSTILE);
    let Said { stdout, .. } = place.say(&["runs", "result", &ended]);
    assert_eq!(stdout, format!("{HOSTILE}\n"));

    // A name does not begin another line of the log, and ignored files are named once.
    until("the plugin is reported", || {
        let log = serve.stderr();
        log.lines()
            .any(|line| line.contains("bad␊next") && line.contains("<U+202E>.wasm"))
    });
    let log = serve.stderr();
    assert_clean(&["serve"], &log);
    assert!(!log.lines().any(|line| line.starts_with("next")), "{log}");
    let found = |line: &str| line.contains("bad␊next") && line.contains("<U+202E>.yaml");
    assert!(log.lines().any(found), "{log}");
    for ignored in [
        "watched/other.YML",
        "watched/below",
        "its path is not UTF-8",
        "plugins/other.WASM",
        "plugins/below",
    ] {
        assert_eq!(log.matches(ignored).count(), 1, "{ignored}: {log}");
    }
}
