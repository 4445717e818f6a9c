//! A shell that types the commands of a document, as a reader would.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::wait::until_within;

/// How long a command may take. Some compile the standard library, beside all other tests.
const COMPILING: Duration = Duration::from_secs(900);

/// The commands of all shell blocks of a document, each on one line or continued by a backslash.
///
/// # Panics
///
/// Never.
pub fn typed(document: &str) -> Vec<String> {
    let blocks = document.split("```sh\n").skip(1);
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

/// A shell with a terminal's habits: it reads one command at a time.
pub struct Shell {
    child: Child,
    stdin: ChildStdin,
    output: PathBuf,
    typed: usize,
}

impl Shell {
    /// Starts a shell in a directory, with an empty home, which is made, and without the user's
    /// environment but for the toolchain of Rust.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(directory: &Path, home: &Path, configure: impl FnOnce(&mut Command)) -> Self {
        std::fs::create_dir(home).expect("a directory can be made");
        let output = home.with_extension("output");
        let file = std::fs::File::create(&output).expect("a file can be made");
        let own = std::env::home_dir().expect("there is a home");
        let mut bash = Command::new("bash");
        bash.current_dir(directory).env_clear().env("HOME", home);
        for (name, default) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            let path = std::env::var_os(name).unwrap_or_else(|| own.join(default).into());
            bash.env(name, path);
        }
        for name in ["PATH", "WINDLASS_GUEST_TOOLCHAIN"] {
            if let Some(value) = std::env::var_os(name) {
                bash.env(name, value);
            }
        }
        configure(&mut bash);
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
            typed: 0,
        };
        // As an interactive shell has it.
        shell.type_("shopt -s expand_aliases\n");
        shell
    }

    /// Types a command, and returns what it printed.
    ///
    /// # Panics
    ///
    /// If it fails, or does not end.
    pub fn type_(&mut self, command: &str) -> String {
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

    /// Its whole output so far.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    pub fn so_far(&self) -> String {
        let bytes = std::fs::read(&self.output).expect("the output can be read");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.so_far());
        }
        // The host that a document starts is in the group of its shell.
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
    }
}
