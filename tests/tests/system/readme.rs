//! The tour of `README.md`, typed as it stands: in a copy of the repository, with an empty home, by
//! a shell that reads one command at a time.
//!
//! The test waits where a person would: until the list shows a question before the question is
//! answered, and until the long run has begun before the host is killed.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use windlass_tests::harness::{program, until, until_within};

/// The commands that build and test everything. `.ci/run` calls the first two, and the third
/// measures for minutes.
const LONG: [&str; 3] = ["cargo xtask demo", "cargo xtask test", "cargo xtask bench"];

/// How long a command may take. Some compile the standard library, beside all other tests.
const COMPILING: Duration = Duration::from_secs(900);

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
    let commands = commands(&readme);
    let (long, commands): (Vec<_>, Vec<_>) = commands
        .into_iter()
        .partition(|command| LONG.iter().any(|long| command.starts_with(long)));
    assert_eq!(long.iter().collect::<BTreeSet<_>>().len(), LONG.len());

    let place = tempfile::tempdir().expect("a temporary directory can be made");
    let checkout = place.path().join("windlass");
    copy(&root, &checkout);
    let mut shell = Shell::start(&checkout, &place.path().join("home"));
    let mut answers = ANSWERS.iter().peekable();
    for command in &commands {
        shell.until_a_person_would_type(command);
        let said = shell.type_(command);
        if let Some((_, answer)) = answers.next_if(|(begin, _)| command.starts_with(begin)) {
            assert!(said.contains(answer), "`{command}` printed\n{said}");
        }
    }
    assert_eq!(answers.next(), None, "the README has no such command");
}

/// The commands of all shell blocks, each on one line or continued by a backslash.
fn commands(readme: &str) -> Vec<String> {
    let blocks = readme.split("```sh\n").skip(1);
    let blocks = blocks.filter_map(|rest| Some(rest.split_once("```")?.0));
    let text: String = blocks.collect();
    let mut commands = vec![String::new()];
    for line in text.lines() {
        // A comment is for readers; an interactive zsh would not accept it.
        let line = line.split("    #").next().unwrap_or_default();
        let last = commands.last_mut().expect("there is one");
        last.push_str(line);
        last.push('\n');
        if !line.ends_with('\\') {
            commands.push(String::new());
        }
    }
    commands.retain(|command| !command.trim().is_empty());
    commands
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

/// A shell with a terminal's habits: it reads one command at a time.
struct Shell {
    child: Child,
    stdin: ChildStdin,
    output: PathBuf,
    checkout: PathBuf,
    typed: usize,
}

impl Shell {
    fn start(checkout: &Path, home: &Path) -> Self {
        std::fs::create_dir(home).expect("a directory can be made");
        let output = home.with_extension("output");
        let file = std::fs::File::create(&output).expect("a file can be made");
        let own = std::env::home_dir().expect("there is a home");
        let mut bash = Command::new("bash");
        bash.current_dir(checkout).env_clear().env("HOME", home);
        for (name, default) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            let path = std::env::var_os(name).unwrap_or_else(|| own.join(default).into());
            bash.env(name, path);
        }
        for name in ["PATH", "WINDLASS_GUEST_TOOLCHAIN"] {
            if let Some(value) = std::env::var_os(name) {
                bash.env(name, value);
            }
        }
        // The build of the node shares its compiled libraries with the build of the tests.
        let target = std::env::var_os("WINDLASS_TARGET").expect("`cargo xtask test` sets it");
        bash.env("CARGO_TARGET_DIR", target);
        bash.stdin(Stdio::piped())
            .stdout(file.try_clone().expect("a file can be shared"))
            .stderr(file)
            .process_group(0);
        let mut child = bash.spawn().expect("bash is there");
        let stdin = child.stdin.take().expect("it is piped");
        let mut shell = Self {
            child,
            stdin,
            output,
            checkout: checkout.to_owned(),
            typed: 0,
        };
        // As an interactive shell has it.
        shell.type_("shopt -s expand_aliases\n");
        shell
    }

    /// Types a command, and returns what it printed.
    fn type_(&mut self, command: &str) -> String {
        self.typed += 1;
        let mark = format!("exit of {}: ", self.typed);
        let begin = self.so_far().len();
        writeln!(self.stdin, "{command}printf '%s%d\\n' '{mark}' $?").expect("the shell reads");
        until_within(COMPILING, &format!("`{}` ends", command.trim()), || {
            self.so_far()
                .get(begin..)
                .is_some_and(|said| said.contains(&mark))
        });
        let said = self.so_far().split_off(begin);
        assert!(
            said.contains(&format!("{mark}0\n")),
            "`{command}` printed\n{said}"
        );
        said
    }

    fn so_far(&self) -> String {
        let bytes = std::fs::read(&self.output).expect("the output can be read");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn until_a_person_would_type(&self, command: &str) {
        if command.starts_with("windlass bookmark list") {
            until("the question is in the list", || {
                self.ask(&["bookmark", "list", "-o", "jsonl"]).contains('{')
            });
        }
        if command.starts_with("kill -9") {
            until("the long run has begun", || {
                self.ask(&["runs", "list"]).contains("suspended")
            });
        }
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(program());
        command.current_dir(&self.checkout).args(arguments);
        let output = command.output().expect("the program can be run");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.so_far());
        }
        // The host that the tour starts is in the group of its shell.
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
    }
}
