//! Dead row versions and page reads that steps cause.

use std::sync::Arc;

use windlass_test_servers::PostgreSql;

use super::{InDatabase, in_database};
use crate::Store as _;
use crate::conformance::world::{DONE, Held, Member, batch_of};
use crate::postgres::PostgresStore;
use crate::rows::Created;
use crate::write::{Commit, Leave};

/// The number of row updates of a table, and the number of those that wrote no index.
fn updates(url: &str, table: &str, at_least: u64) -> (u64, u64) {
    let server = PostgreSql::shared().unwrap().unwrap();
    let sql = format!(
        "select n_tup_upd || ' ' || n_tup_hot_upd from pg_stat_user_tables where relname = '{table}'"
    );
    // The server updates its counters with a delay.
    loop {
        let counts = server.execute_in(url, &sql).unwrap();
        let (all, hot) = counts.split_once(' ').unwrap();
        let (all, hot): (u64, u64) = (all.parse().unwrap(), hot.parse().unwrap());
        if all >= at_least {
            return (all, hot);
        }
    }
}

#[test]
fn a_chain_of_steps_writes_no_index() {
    const STEPS: u64 = 400;
    let harness = in_database();
    let Some(url) = harness.url.as_deref() else {
        return;
    };
    let store = harness.store();
    let member = Member::of(Arc::<PostgresStore>::clone(&store));
    let mut held = member.born();
    for seq in 0..STEPS {
        let mut step = member.chained(&held, seq + 2);
        // The due time grows with each step; no index contains it while the trigger is claimed.
        step.triggers[0].due_ms = i64::try_from(seq).unwrap();
        assert_eq!(member.commit(step), DONE);
        held = held.next();
    }
    for table in ["trigger", "run"] {
        let (all, hot) = updates(url, table, STEPS);
        assert!(hot * 100 >= all * 95, "{table}: {hot} of {all}");
    }
}

/// Instances whose steps alternate.
const CHAINS: usize = 50;

/// Steps of each run in one phase.
const STEPS: u64 = 100;

/// Commits steps, many in one group.
fn load(member: &Member, chains: &mut [Held]) {
    for seq in 0..STEPS {
        let steps = chains.iter().map(|held| member.chained(held, 2 + seq));
        for answer in batch_of(&*member.store, steps) {
            assert_eq!(answer.unwrap(), DONE);
        }
        chains.iter_mut().for_each(|held| *held = held.next());
    }
}

/// A server of its own: a transaction in any of its databases would keep old row versions.
struct Alone {
    server: PostgreSql,
    database: InDatabase,
}

impl Alone {
    fn start() -> Option<Self> {
        let server = PostgreSql::for_test().unwrap()?;
        let database = InDatabase {
            clock: Arc::default(),
            url: Some(server.database().unwrap()),
        };
        Some(Self { server, database })
    }

    fn url(&self) -> &str {
        self.database.url.as_deref().unwrap()
    }

    fn ask(&self, sql: &str) -> String {
        self.server.execute_in(self.url(), sql).unwrap()
    }

    /// Pages of the two tables, including their indexes.
    fn pages(&self) -> [u64; 2] {
        ["run", "trigger"].map(|table| {
            let sql = format!("select pg_total_relation_size('windlass.{table}') / 8192");
            self.ask(&sql).parse().unwrap()
        })
    }
}

#[test]
fn steps_leave_nothing_behind_that_is_not_taken_again() {
    let Some(alone) = Alone::start() else {
        return;
    };
    let member = Member::join(&alone.database);
    let mut chains: Vec<Held> = (0..CHAINS).map(|_| member.born()).collect();
    load(&member, &mut chains);
    let first = alone.pages();
    load(&member, &mut chains);
    let steady = alone.pages();

    let snapshot = alone.server.hold_snapshot(alone.url()).unwrap();
    load(&member, &mut chains);
    let held_up = alone.pages();
    drop(snapshot);

    alone.ask("vacuum windlass.run");
    alone.ask("vacuum windlass.trigger");
    load(&member, &mut chains);
    let after = alone.pages();
    let steps = CHAINS as u64 * STEPS;
    eprintln!(
        "pages of run and trigger after {steps} steps: {first:?}; after as many more: \
         {steady:?}; while a transaction does not end: {held_up:?}; after it: {after:?}"
    );
    for table in [0, 1] {
        assert!(steady[table] <= first[table] + 8, "dead rows pile up");
        assert!(
            after[table] <= held_up[table] + 8,
            "room is not taken again"
        );
    }
}

/// Runs that are in progress at the same time.
const RUNS: usize = 24;

/// Steps of each run before its last one.
const RUN_STEPS: u64 = 20;

impl Alone {
    /// Pages of the store's tables and indexes that statements have read so far.
    fn buffers(&self) -> u64 {
        let gone = "select count(*) = 0 from pg_stat_activity where application_name = 'windlass'";
        // The server adds a connection's counters when the connection ends.
        while self.ask(gone) != "t" {}
        let sql = "select coalesce(sum(heap_blks_hit + heap_blks_read \
            + coalesce(idx_blks_hit, 0) + coalesce(idx_blks_read, 0)), 0) \
            from pg_statio_user_tables where schemaname = 'windlass'";
        self.ask(sql).parse().unwrap()
    }

    /// Repeatedly starts, steps and ends runs, with a new process for each round. Returns the
    /// number of pages read for each group of writes.
    fn buffers_per_group(&self, rounds: u64) -> u64 {
        let before = self.buffers();
        let store = self.database.store();
        let member = Member::of(Arc::<PostgresStore>::clone(&store));
        let commit = |steps: Vec<Commit>| {
            for answer in batch_of(&*member.store, steps) {
                assert_eq!(answer.unwrap(), DONE);
            }
        };
        for _ in 0..rounds {
            let mut new: Vec<_> = (0..RUNS).map(|_| member.draft(1)).collect();
            for new in &mut new {
                new.owner = Some(member.incarnation);
                new.triggers[0].claimed = true;
            }
            let mut held: Vec<Held> = new.iter().map(Held::born).collect();
            for answer in batch_of(&*member.store, new) {
                assert_eq!(answer.unwrap(), Ok(Created::New));
            }
            for seq in 0..RUN_STEPS {
                let step = |held: &Held| member.chained(held, seq + 2);
                commit(held.iter().map(step).collect());
                held.iter_mut().for_each(|held| *held = held.next());
            }
            commit(held.iter().map(|held| member.last(held)).collect());
            assert!(member.claim_all(i64::MAX - 1).is_empty());
            assert_eq!(member.reap(u32::MAX), 0);
        }
        member.write(Leave {
            incarnation: member.incarnation,
        });
        store.close();
        (self.buffers() - before) / (rounds * (RUN_STEPS + 2))
    }
}

#[test]
fn an_open_transaction_makes_no_step_dearer_than_the_one_before() {
    const ROUNDS: u64 = 3;
    let Some(alone) = Alone::start() else {
        return;
    };
    // The first round creates the tables and the rows that are written only once.
    alone.buffers_per_group(1);
    let _snapshot = alone.server.hold_snapshot(alone.url()).unwrap();
    let first = alone.buffers_per_group(ROUNDS);
    alone.buffers_per_group(ROUNDS * 10);
    // From here on the server's statistics say that the tables are almost empty.
    alone.ask("vacuum analyze");
    let last = alone.buffers_per_group(ROUNDS);
    eprintln!("pages for each group of {RUNS} steps: {first}, and {last} after ten times as many");
    assert!(last * 2 <= first * 3, "{first} and {last}");
}
