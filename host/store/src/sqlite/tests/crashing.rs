//! Processes that are killed while they write.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use windlass_model::{RunNo, Version};

use super::on_disk;
use crate::conformance::TestClock;
use crate::conformance::world::{DONE, Held, Member, batch_of};
use crate::sqlite::{SqliteOptions, SqliteStore};
use crate::write::Leave;
use crate::{Reader as _, Store};

const PATH: &str = "WINDLASS_STORE_TEST_CRASH";

/// Runs this same test in a child process, which then takes the other branch.
pub(super) fn child_of(test: &str, variable: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(variable, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Commits steps of several chains forever, and prints each acknowledged step.
fn commit_for_ever(path: &Path) {
    let store = SqliteStore::open(path, SqliteOptions::new(Arc::<TestClock>::default())).unwrap();
    let member = Member::of(store);
    let mut chains: Vec<Held> = (0..8).map(|_| member.born()).collect();
    let mut last_runs = vec![None; chains.len()];
    for seq in 2.. {
        let mut steps = Vec::new();
        for (held, last_execution) in chains.iter().zip(&mut last_runs) {
            let mut step = member.chained(held, seq);
            step.executions[0].previous = *last_execution;
            *last_execution = Some(step.executions[0].no);
            steps.push(step);
        }
        let answers = batch_of(&*member.store, steps);
        let mut out = std::io::stdout().lock();
        for (held, answer) in chains.iter_mut().zip(answers) {
            assert_eq!(answer.unwrap(), DONE);
            *held = held.next();
            writeln!(out, "ACK {} {}", held.fence.run, held.fence.version).unwrap();
        }
        out.flush().unwrap();
    }
}

#[test]
fn acknowledged_steps_survive_a_kill() {
    if let Some(path) = std::env::var_os(PATH) {
        return commit_for_ever(Path::new(&path));
    }
    let disk = on_disk();
    let mut acknowledged = HashMap::new();
    for lines in [8, 40, 200] {
        let test = "sqlite::tests::crashing::acknowledged_steps_survive_a_kill";
        let mut child = child_of(test, PATH, &disk.path());
        let mut read = 0;
        for line in BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok)
        {
            // The test harness prints to the same output.
            let Some((_, ack)) = line.split_once("ACK ") else {
                continue;
            };
            let (run, version) = ack.split_once(' ').unwrap();
            let key = RunNo(run.parse().unwrap());
            acknowledged.insert(key, Version(version.parse().unwrap()));
            read += 1;
            if read == lines {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(read >= lines);

        let store = disk.store();
        let member = Member::of(Arc::clone(&store) as Arc<dyn Store>);
        assert_eq!(
            member.reap(1000),
            8,
            "its lock tells at once that it is dead"
        );
        assert_eq!(member.claim_all(i64::MAX).len() % 8, 0);
        for (no, version) in &acknowledged {
            let row = member.head(*no);
            assert!(row.version >= *version, "{no} is at {}", row.version);
            let runs = store.executions(*no, None, u32::MAX).unwrap();
            assert_eq!(runs.len() as i64, row.version.0, "each step has its record");
        }
        let incarnation = member.incarnation;
        member.write(Leave { incarnation });
        store.close();
        let check = rusqlite::Connection::open(disk.path()).unwrap();
        let sound: String = check
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(sound, "ok");
    }
    assert_eq!(acknowledged.len(), 3 * 8);
}

/// Publishes one version and then another, and dies in between.
#[test]
fn a_death_in_the_middle_of_publishing_leaves_the_version_before() {
    use crate::conformance::publishing::{draft, publish};

    const DIES: &str = "WINDLASS_STORE_TEST_PUBLISH";
    if let Some(path) = std::env::var_os(DIES) {
        let options = SqliteOptions::new(Arc::<TestClock>::default());
        let member = Member::of(SqliteStore::open(path, options).unwrap());
        publish(&member, draft("one"));
        publish(&member, draft("two"));
        panic!("it should have died");
    }
    let disk = on_disk();
    let test =
        "sqlite::tests::crashing::a_death_in_the_middle_of_publishing_leaves_the_version_before";
    let died = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(DIES, disk.path())
        .env("WINDLASS_FAILPOINTS", "publish=abort@2")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&died),
        Some(6),
        "{died}"
    );
    let member = Member::of(disk.store());
    let current = member.store.published("orders").unwrap().unwrap();
    assert_eq!(
        (current.version, current.definition),
        (1, draft("one").definition.digest)
    );
    let bindings = member.store.bindings_of("orders").unwrap();
    assert_eq!(bindings.len(), 2);
    assert_eq!(publish(&member, draft("two")), (2, false));
    let after = member.store.bindings_of("orders").unwrap();
    let numbers =
        |rows: &[crate::published::BindingRow]| rows.iter().map(|row| row.no).collect::<Vec<_>>();
    assert_eq!(numbers(&after), numbers(&bindings));
}
