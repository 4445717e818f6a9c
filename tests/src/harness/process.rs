//! A process under test.

use std::fmt::Write as _;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

use super::wait::{self, until_some};

/// A process that is killed when it is dropped, and whose output is shown if its test fails.
pub struct Process {
    name: String,
    child: Child,
    stdout: Output,
    stderr: Output,
}

/// The output of a process so far.
struct Output {
    text: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Output {
    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let for_reader = Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            let mut part = [0; 8192];
            while let Ok(length @ 1..) = pipe.read(&mut part) {
                for_reader
                    .lock()
                    .expect("no reader panics")
                    .extend_from_slice(&part[..length]);
            }
        });
        Self {
            text,
            reader: Some(reader),
        }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().expect("no reader panics")).into_owned()
    }

    /// All output, once the process is gone.
    fn whole(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("no reader panics");
        }
        self.so_far()
    }
}

impl Process {
    /// Starts it.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(name: &str, command: &mut Command) -> Self {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = child
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdout = Output::of(child.stdout.take().expect("it is piped"));
        let stderr = Output::of(child.stderr.take().expect("it is piped"));
        Self {
            name: name.to_owned(),
            child,
            stdout,
            stderr,
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its stderr so far.
    pub fn stderr(&self) -> String {
        self.stderr.so_far()
    }

    /// Its stdout so far.
    pub fn stdout(&self) -> String {
        self.stdout.so_far()
    }

    /// Sends it a signal, if it is not gone already.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let _ = kill_process(pid.expect("a process has an id"), signal);
    }

    /// Kills it, as a power cut would, and waits until it is gone.
    pub fn kill(mut self) {
        self.end();
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Waits until it has ended by itself.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn wait(&mut self) -> ExitStatus {
        let name = self.name.clone();
        until_some(&format!("{name} ends"), || self.ended())
    }

    /// Waits until it has ended by itself, and returns its whole output.
    ///
    /// # Panics
    ///
    /// If it does not end.
    pub fn output(&mut self) -> (ExitStatus, String, String) {
        let status = self.wait();
        (status, self.stdout.whole(), self.stderr.whole())
    }

    /// Waits until it is stopped, as by SIGSTOP.
    ///
    /// # Panics
    ///
    /// If it does not stop.
    pub fn until_stopped(&mut self) {
        let name = self.name.clone();
        until_some(&format!("{name} is stopped"), || {
            assert!(self.ended().is_none(), "{name} ended instead of stopping");
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).ok()?;
            // The name of the program is in brackets before its state.
            stat.rsplit(')')
                .next()?
                .trim_start()
                .starts_with('T')
                .then_some(())
        });
    }

    /// Lets it run for a while.
    pub fn run_for(&self, time: Duration) {
        wait::pass(time);
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
        if std::thread::panicking() {
            let mut text = String::new();
            for (stream, output) in [
                ("stdout", self.stdout.whole()),
                ("stderr", self.stderr.whole()),
            ] {
                let lines: Vec<&str> = output.lines().collect();
                let _ = writeln!(text, "--- {stream} of {} ---", self.name);
                for line in lines.iter().skip(lines.len().saturating_sub(60)) {
                    let _ = writeln!(text, "{line}");
                }
            }
            eprint!("{text}");
        }
    }
}
