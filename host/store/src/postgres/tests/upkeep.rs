//! Checks and migrations of a whole store.

use super::{InDatabase, in_database};
use crate::conformance::Harness as _;
use crate::conformance::waiting::stimulus;
use crate::conformance::world::{DONE, Member};
use crate::postgres::PostgresStore;
use crate::upkeep::RULES;

/// Damages a store, and checks the findings.
#[track_caller]
fn check(database: &InDatabase, sql: &str, rules: &[&str]) {
    let Some(url) = &database.url else { return };
    let server = windlass_test_servers::PostgreSql::shared().unwrap();
    let sql = format!("set search_path to windlass; {sql}");
    server.unwrap().execute_in(url, &sql).unwrap();
    let findings = PostgresStore::check(url, &database.options()).unwrap();
    let found: Vec<_> = findings.into_iter().map(|finding| finding.rule).collect();
    assert_eq!(found, rules, "{sql}");
}

#[test]
fn contradictions_in_the_tables_are_found() {
    let database = in_database();
    if !database.is_there() {
        return;
    }
    let member = Member::join(&database);
    member.create(member.draft(2));
    let held = member.born();
    assert_eq!(member.commit(member.chained(&held, 2)), DONE);
    member.waiting("paid");
    assert!(
        member
            .send(stimulus("early", windlass_model::Delivery::Buffer))
            .buffered
    );
    check(&database, "", &[]);
    let objects = ["the database has the tables and indexes of its layout alone"];
    for (sql, back) in [
        (
            "create rule r as on delete to execution do instead nothing",
            "drop rule r on execution",
        ),
        ("create view v as select 1", "drop view v"),
    ] {
        check(&database, sql, &objects);
        check(&database, back, &[]);
    }
    check(
        &database,
        "update run set owner = null",
        &["a claimed trigger belongs to a run that has an owner"],
    );
    check(
        &database,
        "update bookmark set trigger = 1; update definition set json = ''; delete from execution",
        &[
            "a claimed trigger belongs to a run that has an owner",
            "the newest record of a run is there",
            "a bookmark names a row of its run",
            "content has the digest that names it",
        ],
    );
}

#[test]
fn every_rule_can_be_asked_of_an_empty_store() {
    let database = in_database();
    if let Some(url) = &database.url {
        let options = database.options();
        let refused = PostgresStore::check(url, &options).unwrap_err();
        assert_eq!(refused.code.to_string(), "WL-S018", "nothing is laid out");
        let before = PostgresStore::migrate(url, &options).unwrap();
        assert_eq!(before.found, 0);
        let after = PostgresStore::layout(url, &options).unwrap();
        assert_eq!(after.found, before.current);
        assert_eq!(PostgresStore::migrate(url, &options).unwrap(), after);
        assert_eq!(PostgresStore::check(url, &options).unwrap(), []);
        assert!(!RULES.is_empty());
    }
}
