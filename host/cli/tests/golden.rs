//! Command line sessions: each file in `cases` is a session, with the output of the binary and its
//! exit code. `BLESS=1` writes them anew.
//!
//! A session consists of commands (`$ windlass …`), each followed by its stdout, then lines that
//! begin with `! ` for stderr, and `= CODE` if the exit code is not 0. It runs in an empty
//! directory with the files of `files` in it, and without the user's environment.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

/// Splits a line like a shell, with single quotes only.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Replaces the parts that differ from run to run.
fn redacted(text: &str, directory: &Path) -> String {
    let text = text.replace(&directory.display().to_string(), "[DIR]");
    text.replace(env!("CARGO_PKG_VERSION"), "[VERSION]")
}

fn run(line: &str, directory: &Path) -> String {
    let mut words = words(line);
    assert_eq!(words.remove(0), "windlass", "{line}");
    // Shell syntax for variables before the command would need more parsing than it is worth:
    // `env:NAME=VALUE` among the arguments sets one.
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command
        .current_dir(directory)
        .env_clear()
        .env("HOME", directory)
        .env("COLUMNS", "100");
    for word in words {
        match word
            .strip_prefix("env:")
            .and_then(|rest| rest.split_once('='))
        {
            Some((name, value)) => command.env(name, value),
            None => command.arg(word),
        };
    }
    let output = command.output().unwrap();
    let mut session = format!("$ {line}\n");
    session.push_str(&redacted(
        &String::from_utf8(output.stdout).unwrap(),
        directory,
    ));
    for line in redacted(&String::from_utf8(output.stderr).unwrap(), directory).lines() {
        writeln!(session, "{}", format!("! {line}").trim_end()).unwrap();
    }
    match output.status.code().unwrap() {
        0 => {}
        code => writeln!(session, "= {code}").unwrap(),
    }
    session
}

fn check(name: &str) {
    let path = here("cases").join(name).with_extension("txt");
    let expected = std::fs::read_to_string(&path).unwrap();
    let directory = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(here("files")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), directory.path().join(file.file_name())).unwrap();
    }
    let commands = expected.lines().filter_map(|line| line.strip_prefix("$ "));
    let sessions: Vec<_> = commands.map(|line| run(line, directory.path())).collect();
    let found = sessions.join("\n");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &found).unwrap();
    } else {
        assert!(
            found == expected,
            "{name} differs; run with BLESS=1 to accept:\n{found}"
        );
    }
}

macro_rules! cases {
    ($($test:ident: $name:literal;)*) => {
        $(#[test]
        fn $test() {
            check($name);
        })*

        #[test]
        fn every_case_is_run() {
            let mut files: Vec<_> = std::fs::read_dir(here("cases"))
                .unwrap()
                .map(|file| file.unwrap().path().file_stem().unwrap().to_owned())
                .collect();
            files.sort();
            let mut run = vec![$($name),*];
            run.sort_unstable();
            assert_eq!(files, run);
        }
    };
}

cases! {
    errors_of_the_command_line_name_what_was_meant: "usage";
    codes_are_explained: "explain";
    the_configuration_is_shown_with_its_origin: "config";
    workflows_are_drawn: "graph";
    every_mistake_of_a_file_is_reported: "validate";
    plugins_that_are_not_there_are_missed: "plugin";
    inputs_that_cannot_be_read_are_refused: "input";
    a_store_that_is_not_there_is_not_made: "no-store";
    what_is_not_there_is_not_found_and_what_was_not_confirmed_not_done: "publish";
    a_store_is_looked_after_where_there_is_one: "store";
}
