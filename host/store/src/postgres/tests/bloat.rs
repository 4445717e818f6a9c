//! What steps leave behind in the tables.

use std::sync::Arc;

use windlass_test_servers::PostgreSql;

use super::{InDatabase, in_database};
use crate::Write;
use crate::conformance::world::{Held, Member, batch, is_done};
use crate::postgres::PostgresStore;

/// Changes of the rows of a table, and those of them that wrote no index.
fn updates(url: &str, table: &str, at_least: u64) -> (u64, u64) {
    let server = PostgreSql::shared().unwrap().unwrap();
    let sql = format!(
        "select n_tup_upd || ' ' || n_tup_hot_upd from pg_stat_user_tables where relname = '{table}'"
    );
    // The server counts when it comes to it.
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
        // What comes due later each time is in no index as long as it is claimed.
        step.triggers[0].due_ms = i64::try_from(seq).unwrap();
        assert!(is_done(&member.commit(step)));
        held = held.next();
    }
    for table in ["trigger", "instance"] {
        let (all, hot) = updates(url, table, STEPS);
        assert!(hot * 100 >= all * 95, "{table}: {hot} of {all}");
    }
}

/// Instances that take steps side by side.
const CHAINS: usize = 50;

/// Steps of each, in one phase.
const STEPS: u64 = 100;

/// Takes steps, many in a group.
fn load(member: &Member, chains: &mut [Held]) {
    for seq in 0..STEPS {
        let step = |held: &Held| Write::Commit(Box::new(member.chained(held, 2 + seq)));
        let answers = batch(&*member.store, chains.iter().map(step).collect());
        assert!(answers.into_iter().all(|answer| is_done(&answer.unwrap())));
        chains.iter_mut().for_each(|held| *held = held.next());
    }
}

/// A server for nobody else: a transaction in any of its databases would keep old rows, too.
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

    /// Pages of the two tables, with those of their indexes.
    fn pages(&self) -> [u64; 2] {
        ["instance", "trigger"].map(|table| {
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

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (client, connection) = runtime
        .block_on(tokio_postgres::connect(alone.url(), tokio_postgres::NoTls))
        .unwrap();
    runtime.spawn(connection);
    let begin = "begin isolation level repeatable read; select count(*) from windlass.instance";
    runtime.block_on(client.batch_execute(begin)).unwrap();
    load(&member, &mut chains);
    let held_up = alone.pages();
    runtime.block_on(client.batch_execute("commit")).unwrap();

    alone.ask("vacuum windlass.instance");
    alone.ask("vacuum windlass.trigger");
    load(&member, &mut chains);
    let after = alone.pages();
    let steps = CHAINS as u64 * STEPS;
    eprintln!(
        "pages of instance and trigger after {steps} steps: {first:?}; after as many more: \
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
