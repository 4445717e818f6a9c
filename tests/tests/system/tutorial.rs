//! The tutorial of plugin authors (`docs/tutorial-plugin.md`), typed as it stands: in an empty folder,
//! with an empty home, and with nothing of this repository but the program.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value};
use windlass_tests::harness::{Shell, program, typed, until};

/// What commands have to print.
const ANSWERS: [(&str, &str); 6] = [
    ("windlass plugin new greeter", "src/greet."),
    ("windlass plugin build greeter", "greeter.wasm is made"),
    ("windlass plugin test greeter", "0 failed, 0 skipped"),
    (
        "windlass plugin doc greeter",
        "{ \"greeting\": \"Good morning, Ada!\" }",
    ),
    ("windlass runs result", "Good morning, Ada!"),
    ("windlass runs result", "Good evening, Ada!"),
];

/// A cargo that compiles guests in the way of this machine, and everything else as ever.
fn cargo(directory: &Path) -> PathBuf {
    let variables = std::env::var("WINDLASS_GUEST_COMPILER").expect("`cargo xtask test` sets it");
    let variables: Map<String, Value> = serde_json::from_str(&variables).expect("it is JSON");
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let exports = variables.iter().map(|(name, value)| {
        let value = value.as_str().expect("it is a text");
        format!("export {name}={}; ", quoted(value))
    });
    let exports: String = exports.collect();
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *\" --target \"*) {exports};; esac\nexec cargo \"$@\"\n"
    );
    let file = directory.join("cargo-here");
    std::fs::write(&file, script.replace("; ;;", ";;")).expect("a file can be written");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&file, mode).expect("a mode can be set");
    file
}

/// A shell in an empty folder, which finds the program by its name.
fn shell(place: &Path) -> (Shell, PathBuf) {
    let (work, bin) = (place.join("work"), place.join("bin"));
    for directory in [&work, &bin] {
        std::fs::create_dir(directory).expect("a directory can be made");
    }
    std::fs::copy(program(), bin.join("windlass")).expect("a program can be copied");
    let path = std::env::var("PATH").expect("there is a path");
    let cargo = cargo(place);
    let shell = Shell::start(&work, &place.join("home"), |bash| {
        let target = std::env::var("WINDLASS_TARGET").expect("`cargo xtask test` sets it");
        bash.env("PATH", format!("{}:{path}", bin.display()))
            .env("CARGO", cargo)
            // The plugin shares its compiled libraries with the other guests of the tests.
            .env("CARGO_TARGET_DIR", format!("{target}/guests"))
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("npm_config_cache", format!("{target}/npm"))
            // Other tests compile as well.
            .env("WINDLASS_PLUGINS__COMPILE_TIMEOUT", "10m")
            // Other tests serve as well.
            .env("WINDLASS_SERVER__LISTEN", "127.0.0.1:0");
    });
    (shell, work)
}

/// Waits where a person would: until the host says so.
fn until_a_person_would_type(work: &Path, command: &str, builds: usize) {
    if !command.contains("windlass runs start") {
        return;
    }
    until("the host has taken the plugin", || {
        let log = std::fs::read_to_string(work.join("shop/serve.log")).unwrap_or_default();
        let loaded = |line: &&str| line.contains("INFO loaded") && line.contains("greeter.wasm");
        // The log does not name the plugins that are there when the host starts.
        log.lines().filter(loaded).count() + 1 >= builds
    });
    until("the workflow is published", || {
        let mut list = Command::new(program());
        list.current_dir(work.join("shop"))
            .args(["workflow", "list"]);
        let said = list.output().expect("the program can be run");
        String::from_utf8_lossy(&said.stdout).contains("morning")
    });
}

/// Types the tutorial, with changed commands.
fn type_(change: &dyn Fn(&str) -> String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let document = std::fs::read_to_string(root.join("docs/tutorial-plugin.md"));
    let document = document.expect("it can be read");
    let place = tempfile::tempdir().expect("a temporary directory can be made");
    let (mut shell, work) = shell(place.path());

    let (name, workflow) = document
        .split_once("```yaml\n# ")
        .and_then(|(_, rest)| rest.split_once('\n'))
        .expect("it shows a workflow with the name of its file");
    let workflow = workflow.split("```").next().unwrap_or_default();

    let (mut answers, mut starts) = (ANSWERS.iter().peekable(), 0);
    for command in &typed(&document) {
        let command = &change(command);
        if command.contains("windlass serve") {
            let file = work.join("shop").join(name);
            std::fs::write(file, workflow).expect("a file can be written");
        }
        starts += usize::from(command.contains("windlass runs start"));
        until_a_person_would_type(&work, command, starts);
        let said = shell.type_(command);
        if let Some((_, answer)) = answers.next_if(|(begin, _)| command.starts_with(begin)) {
            assert!(said.contains(answer), "`{command}` printed\n{said}");
        }
    }
    assert_eq!(answers.next(), None, "the tutorial has no such command");
}

/// Takes a minute: it compiles a guest, its tests, and the test kit.
#[test]
fn the_tutorial_of_plugin_authors_works_as_it_stands() {
    type_(&str::to_owned);
}

#[test]
fn the_tutorial_works_in_typescript() {
    let node = Command::new("node").arg("--version").output();
    if !node.is_ok_and(|node| node.status.success()) {
        let required = ["CI", "WINDLASS_REQUIRE_SERVERS"];
        let required = required.iter().any(|name| std::env::var_os(name).is_some());
        assert!(!required, "Node.js is missing");
        eprintln!("NOT RUN: the tutorial in TypeScript needs Node.js");
        return;
    }
    type_(&|command| {
        let files = "greeter/src/greet.ts greeter/test/greet.test.ts";
        let command = command.replace("greeter/src/greet.rs", files);
        command.replace("--lang rust", "--lang ts")
    });
}
