//! A node that dies while it holds runs: the others take over each of them. Those on its machine
//! notice its death with their next scan; those on other machines do so with the first scan after
//! the end of its lease, and not before, by the database's own clock.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_model::{ExecutionStatus, Status};
use windlass_test_servers::PostgreSql;
use windlass_tests::harness::{Gate, Place, Process, Signal, Starter, until};

/// Runs that wait at the gate when their node dies.
const HELD: usize = 24;

/// The lease, in milliseconds.
const LEASE_MS: i64 = 10_000;
/// The scan interval, in milliseconds.
const SCAN_MS: i64 = 1_000;

/// The additional time of a machine under other load, in milliseconds: a takeover after more than
/// that means that the death was not noticed.
const SLACK_MS: i64 = 30_000;

/// Records which host takes over a run, and when.
const NOTE: &str = "
    create table public.taken (no bigint, owner bigint, epoch bigint, at_ms bigint);
    create function public.note() returns trigger language plpgsql as $$ begin
        insert into public.taken values (new.no, new.owner, new.epoch,
            (extract(epoch from clock_timestamp()) * 1000)::bigint);
        return null;
    end $$;
    create trigger note after update on windlass.run for each row
        when (new.epoch > old.epoch) execute function public.note()";

/// A run that waits at a gate.
fn gated(gate: &Gate) -> Value {
    json!({
        "workflow": "gated",
        "nodes": {
            "gate": { "use": "fetch/fetch", "with": { "url": gate.url() }, "timeout": "170s" },
        },
    })
}

/// Takes half a minute: leases have to run out.
#[test]
fn runs_of_a_dead_node_are_taken_over_within_its_lease_and_a_scan() {
    let Some(postgres) = PostgreSql::for_test().expect("PostgreSQL starts") else {
        return;
    };
    check(&postgres, 1, Machine::Another);
    check(&postgres, 2, Machine::Another);
}

#[test]
fn runs_of_a_dead_node_are_taken_over_on_its_machine_long_before_the_end_of_its_lease() {
    let Some(postgres) = PostgreSql::for_test().expect("PostgreSQL starts") else {
        return;
    };
    check(&postgres, 2, Machine::Same);
}

/// Where the node that dies seems to run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Machine {
    Same,
    /// Another one: the other nodes do not see its lock file.
    Another,
}

impl Machine {
    /// The lease, in milliseconds. On one machine nothing waits for it, however slow the machine is.
    fn lease_ms(self) -> i64 {
        match self {
            Self::Same => 20 * LEASE_MS,
            Self::Another => LEASE_MS,
        }
    }
}

/// Kills a node that holds runs, while so many other nodes serve.
fn check(postgres: &PostgreSql, others: usize, machine: Machine) {
    let lease_ms = machine.lease_ms();
    let url = postgres.database().expect("a database can be made");
    let gate = Gate::shut();
    let place = Place::new(&["fetch"])
        .with("cluster.enabled", "true")
        .with_http("fetch", &gate.grant())
        .with("scheduler.lease", &format!("{lease_ms}ms"))
        .with("scheduler.scan-interval", &format!("{SCAN_MS}ms"))
        .with("scheduler.near-horizon", "4s")
        .with_database(&url);
    let starter = Starter::of(&place);
    postgres.execute_in(&url, NOTE).expect("it is noted");
    let database = Database { postgres, url };
    let start = |_| {
        let id = starter.start(&gated(&gate), &json!({ "n": 1 }));
        id.expect("a run is written down").to_string()
    };
    let runs: Vec<String> = (0..HELD).map(start).collect();
    let mut command = place.windlass();
    command.arg("serve");
    if machine == Machine::Another {
        command.env("XDG_STATE_HOME", place.path("another"));
    }
    let victim = Process::start("the node that dies", &mut command);
    until("one node holds all of them", || {
        gate.asked() >= HELD && database.held(victim.pid()).len() == HELD
    });
    // The others start before the death, and find no work.
    let nodes: Vec<Process> = (0..others).map(|_| place.serve()).collect();
    database.kill(victim, others, machine);
    gate.open();
    until("everything has ended", || place.look().unfinished() == 0);
    for id in runs {
        let run = place.look().run(&id);
        assert_eq!(run.status, Status::Completed, "{run:#?}");
        let records = place.look().records(&run);
        let done: Vec<_> = records.iter().map(|it| (&*it.node, it.status)).collect();
        assert_eq!(
            done,
            [("gate", ExecutionStatus::Completed)],
            "it is recorded once"
        );
    }
    drop(nodes);
}

struct Database<'a> {
    postgres: &'a PostgreSql,
    url: String,
}

impl Database<'_> {
    /// Rows of numbers.
    fn rows(&self, sql: &str) -> Vec<Vec<i64>> {
        let text = self.postgres.execute_in(&self.url, sql);
        let text = text.expect("the database answers");
        let rows = text.lines().map(|line| {
            let columns = line.split('|').map(str::parse);
            columns.collect::<Result<_, _>>().expect("numbers")
        });
        rows.collect()
    }

    /// The runs that a process holds, with their epochs.
    fn held(&self, pid: u32) -> BTreeMap<i64, i64> {
        let sql = format!(
            "select no, epoch from windlass.run where owner = \
             (select max(incarnation) from windlass.member where pid = {pid})"
        );
        let rows = self.rows(&sql);
        rows.iter().map(|row| (row[0], row[1])).collect()
    }

    /// Kills a node, and checks when its runs are taken over.
    fn kill(&self, mut victim: Process, others: usize, machine: Machine) {
        let lease_ms = machine.lease_ms();
        let pid = victim.pid();
        // Stopped first, so that its runs do not change while they are read.
        victim.signal(Signal::STOP);
        victim.until_stopped();
        let held = self.held(pid);
        let sql = format!(
            "select incarnation, until_ms, (extract(epoch from clock_timestamp()) * 1000)::bigint \
             from windlass.member where pid = {pid}"
        );
        let member = self.rows(&sql).pop().expect("it is a member");
        let (dead, until_ms, died_ms) = (member[0], member[1], member[2]);
        victim.kill();
        assert_eq!(held.len(), HELD);
        assert!(until_ms <= died_ms + lease_ms, "its lease is no longer");
        let mut taken = BTreeMap::new();
        until("everything is taken up", || {
            let rows = self.rows("select no, owner, epoch, at_ms from public.taken");
            let next = rows
                .into_iter()
                .filter(|row| held.get(&row[0]) == Some(&(row[2] - 1)));
            taken = next.map(|row| (row[0], (row[1], row[3]))).collect();
            taken.len() == HELD
        });
        assert!(taken.values().all(|(owner, _)| *owner != dead));
        let times = taken.values().map(|(_, at_ms)| *at_ms);
        let (first, last) = (times.clone().min(), times.max());
        let (first, last) = first.zip(last).expect("something was held");
        eprintln!(
            "takeover by {others} node(s): {HELD} runs of a dead one, the first taken up {} ms after \
             the end of its lease and the last {} ms after it, {} ms after its death (lease {lease_ms} ms, \
             scan interval {SCAN_MS} ms)",
            first - until_ms,
            last - until_ms,
            last - died_ms,
        );
        if machine == Machine::Same {
            assert!(last < until_ms, "nothing waits for the lease");
            return;
        }
        assert!(first >= until_ms, "a live lease keeps its run");
        assert!(
            last <= until_ms + SCAN_MS + SLACK_MS,
            "another host claims the run"
        );
    }
}
