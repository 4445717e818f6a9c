//! Another process that takes locks: its commands on stdin, and its answers.
//!
//! | command | action | answer |
//! |---|---|---|
//! | `take KEY` | takes the lock, waiting as long as necessary | `took TOKEN` |
//! | `release` | releases the last lock | `released` |
//! | `contend KEY ROUNDS FILE` | counts in a file, under the lock | `counted ROUNDS` |
//!
//! It prints `lost` when a lock is lost, and ends with its input.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};

use super::{PATIENCE, bridged};
use crate::key::Key;
use crate::provider::{HeldLock, LockProvider};

/// The prefix of its lines, which distinguishes them from others.
const MARK: &str = "child: ";

/// Executes the commands of its input. Must be called inside of a runtime.
pub async fn main(provider: Arc<dyn LockProvider>) {
    let provider = bridged(provider);
    let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut held: Option<Box<dyn HeldLock>> = None;
    while let Some(line) = told.recv().await {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["take", name] => {
                let taken = provider.acquire(&Key::run(name), PATIENCE).await;
                let taken = taken.expect("it answers").expect("its turn comes");
                let mut lost = taken.lost();
                say(&format!("took {}", taken.token()));
                tokio::spawn(async move {
                    lost.wait().await;
                    say("lost");
                });
                held = Some(taken);
            }
            ["release"] => {
                if let Some(held) = held.take() {
                    held.release().await.expect("it is released");
                }
                say("released");
            }
            ["contend", name, rounds, file] => {
                let rounds = rounds.parse().expect("a number");
                for _ in 0..rounds {
                    contend(&provider, &Key::run(name), Path::new(file)).await;
                }
                say(&format!("counted {rounds}"));
            }
            _ => panic!("it was told {line:?}"),
        }
    }
}

/// Increments the count in a way that fails if another process does so at the same time.
async fn contend(provider: &Arc<dyn LockProvider>, key: &Key, file: &Path) {
    let held = provider.acquire(key, PATIENCE).await.expect("it answers");
    let held = held.expect("its turn comes");
    let inside = file.with_extension("inside");
    std::fs::File::create_new(&inside).expect("no other process is inside");
    let count: u64 =
        std::fs::read_to_string(file).map_or(0, |text| text.parse().expect("a number"));
    tokio::task::yield_now().await;
    std::fs::write(file, (count + 1).to_string()).expect("it is written");
    std::fs::remove_file(&inside).expect("it is there");
    held.release().await.expect("it is released");
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    // The test harness may be in the middle of a line.
    writeln!(out, "\n{MARK}{text}")
        .and_then(|()| out.flush())
        .expect("the parent listens");
}

/// A process that runs [`main`], as its parent sees it.
pub(super) struct Process {
    child: Child,
    told: Option<ChildStdin>,
    says: BufReader<ChildStdout>,
}

impl Process {
    pub(super) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        Self {
            told: child.stdin.take(),
            says: BufReader::new(child.stdout.take().expect("its output")),
            child,
        }
    }

    pub(super) fn tell(&mut self, text: &str) {
        let told = self.told.as_mut().expect("its input");
        writeln!(told, "{text}").expect("it listens");
    }

    /// Its next answer.
    pub(super) fn hear(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.says.read_line(&mut line).expect("its output");
            assert!(read > 0, "it has ended");
            if let Some(text) = line.trim_end().strip_prefix(MARK) {
                return text.to_owned();
            }
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("an id");
        kill_process(Pid::from_raw(pid).expect("an id"), signal).expect("it is there");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
