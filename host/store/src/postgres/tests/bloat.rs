//! What steps leave behind in the tables.

use std::sync::Arc;

use windlass_test_servers::PostgreSql;

use super::in_database;
use crate::conformance::world::{Member, is_done};
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
