//! The tour of `README.md`, typed as it stands: in a copy of the repository, with an empty home, by
//! a shell that reads one command at a time.
//!
//! The test waits where a person would: until the list shows a question before the question is
//! answered, and until the long run has begun before the host is killed.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use windlass_tests::harness::{Shell, program, typed, until};

/// The commands that build and test everything. `.ci/run` calls the first two, and the third
/// measures for minutes.
const LONG: [&str; 3] = ["cargo xtask demo", "cargo xtask test", "cargo xtask bench"];

/// What commands have to print.
const ANSWERS: [(&str, &str); 10] = [
    ("cargo xtask guests", "shout.wasm"),
    ("windlass runs result \"$id\" --wait", "HELLO ADA"),
    ("windlass runs result \"$id\" --wait", "1548008755920"),
    ("windlass runs trace", "step_60"),
    ("curl http://127.0.0.1:7433/api/v1/runs ", "\"id\""),
    (
        "curl \"http://127.0.0.1:7433/api/v1/runs/$id",
        "1548008755920",
    ),
    ("windlass run examples/hello", "Hello Ada"),
    ("windlass bookmark list", "http://127.0.0.1:7433/"),
    ("windlass runs result \"$id\" --wait", "approve"),
    ("windlass runs list", "shop"),
];

/// Takes minutes: the shell compiles two guests with the standard library, and waits where a person
/// would.
#[test]
fn every_command_of_the_readme_works_as_it_stands() {
    // The commands name the default address. Nothing else of the tests uses it.
    if let Err(error) = TcpListener::bind("127.0.0.1:7433") {
        let required = ["CI", "WINDLASS_REQUIRE_SERVERS"];
        let required = required.iter().any(|name| std::env::var_os(name).is_some());
        assert!(!required, "port 7433 is taken: {error}");
        eprintln!("NOT RUN: the tour of the README needs port 7433: {error}");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("it can be read");
    let commands = typed(&readme);
    let (long, commands): (Vec<_>, Vec<_>) = commands
        .into_iter()
        .partition(|command| LONG.iter().any(|long| command.starts_with(long)));
    assert_eq!(long.iter().collect::<BTreeSet<_>>().len(), LONG.len());

    let place = tempfile::tempdir().expect("a temporary directory can be made");
    let checkout = place.path().join("windlass");
    copy(&root, &checkout);
    let mut shell = Shell::start(&checkout, &place.path().join("home"), |bash| {
        // The build of the node shares its compiled libraries with the build of the tests.
        let target = std::env::var_os("WINDLASS_TARGET").expect("`cargo xtask test` sets it");
        bash.env("CARGO_TARGET_DIR", target);
    });
    let mut answers = ANSWERS.iter().peekable();
    for command in &commands {
        until_a_person_would_type(&checkout, command);
        let said = shell.type_(command);
        if let Some((_, answer)) = answers.next_if(|(begin, _)| command.starts_with(begin)) {
            assert!(said.contains(answer), "`{command}` printed\n{said}");
        }
    }
    assert_eq!(answers.next(), None, "the README has no such command");
}

/// Copies the files of the repository, without ignored ones, and puts the program where the build
/// leaves it.
fn copy(root: &Path, to: &Path) {
    let mut list = Command::new("git");
    list.args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let list = list.current_dir(root).output().expect("git is there");
    assert!(list.status.success(), "{list:?}");
    for name in String::from_utf8_lossy(&list.stdout).split_terminator('\0') {
        let (from, to) = (root.join(name), to.join(name));
        if from.is_file() {
            let directory = to.parent().expect("a file is in a directory");
            std::fs::create_dir_all(directory).expect("a directory can be made");
            std::fs::copy(from, to).expect("a file can be copied");
        }
    }
    let built = to.join("target/debug");
    std::fs::create_dir_all(&built).expect("a directory can be made");
    std::fs::copy(program(), built.join("windlass")).expect("a program can be copied");
}

fn until_a_person_would_type(checkout: &Path, command: &str) {
    if command.starts_with("windlass bookmark list") {
        until("the question is in the list", || {
            ask(checkout, &["bookmark", "list", "-o", "jsonl"]).contains('{')
        });
    }
    if command.starts_with("kill -9") {
        until("the long run has begun", || {
            ask(checkout, &["runs", "list"]).contains("suspended")
        });
    }
}

fn ask(checkout: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(program());
    command.current_dir(checkout).args(arguments);
    let output = command.output().expect("the program can be run");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
