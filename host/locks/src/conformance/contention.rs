//! Several processes that want the same lock.

use super::child::Process;
use super::{LONG, Subject};

/// How many processes.
const PROCESSES: usize = 4;

/// How often each takes the lock.
const ROUNDS: usize = 25;

/// Mutual exclusion, under contention.
pub async fn processes_exclude_each_other(subject: &Subject) {
    let Some(spawn) = &subject.spawn else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("count");
    let mut processes: Vec<Process> = (0..PROCESSES)
        .map(|_| Process::start(spawn(LONG)))
        .collect();
    for process in &mut processes {
        process.tell(&format!("contend contended {ROUNDS} {}", file.display()));
    }
    for process in &mut processes {
        assert_eq!(process.hear(), format!("counted {ROUNDS}"));
    }
    let count = std::fs::read_to_string(&file).expect("they have counted");
    assert_eq!(count, (PROCESSES * ROUNDS).to_string());
}
