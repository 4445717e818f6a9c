//! Migrations, and schemas that are refused.

use std::sync::Arc;

use windlass_test_servers::PostgreSql;

use super::{InDatabase, in_database};
use crate::conformance::upgrading::{Versions, upgrading};
use crate::conformance::world::{LEASE_MS, Member};
use crate::postgres::{PostgresOptions, PostgresStore};
use crate::read::Reader as _;
use crate::sql::layout::{Kind, Step};
use crate::upkeep::{Finding, Layout};
use crate::write::Fenced;
use crate::{Result, Store, codes};

#[test]
fn many_that_open_at_once_lay_it_out_once() {
    let harness = in_database();
    if harness.url.is_none() {
        return;
    }
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let member = Member::of(harness.store());
                member.born();
            });
        }
    });
    let store = harness.store();
    assert_eq!(store.counts().unwrap().runs, 6);
}

#[test]
fn a_layout_that_is_cut_off_leaves_nothing() {
    let harness = in_database();
    let Some(url) = harness.url.clone() else {
        return;
    };
    let server = PostgreSql::shared().unwrap().unwrap();
    // A migration that is cut off before its end, because the connection is lost.
    let cut = format!(
        "begin; create schema windlass; set search_path to windlass; \
         create table layout (version bigint primary key); {} \
         select pg_terminate_backend(pg_backend_pid())",
        include_str!("../schema.sql")
    );
    assert!(server.execute_in(&url, &cut).is_err());
    let schemas = "select count(*) from pg_namespace where nspname = 'windlass'";
    assert_eq!(server.execute_in(&url, schemas).unwrap(), "0");
    Member::of(harness.store()).born();
}

#[test]
fn a_foreign_database_is_refused() {
    let harness = in_database();
    let Some(url) = harness.url.clone() else {
        return;
    };
    let server = PostgreSql::shared().unwrap().unwrap();
    let check = |url: &str, code: windlass_model::Code| {
        let refused = PostgresStore::open(url, harness.options()).map(|_| ());
        let error = refused.unwrap_err();
        assert_eq!(error.code, code, "{url}: {error}");
        assert!(error.help.is_some(), "{error}");
    };
    let foreign = "create schema windlass; create table windlass.theirs (a int)";
    server.execute_in(&url, foreign).unwrap();
    check(&url, codes::NOT_LAID_OUT);
    let newer = "drop table windlass.theirs; \
        create table windlass.layout (version bigint primary key); \
        insert into windlass.layout values (1000)";
    server.execute_in(&url, newer).unwrap();
    check(&url, codes::NEWER);
    check(
        "postgres://windlass@127.0.0.1:1/nowhere",
        codes::UNREACHABLE,
    );
    check("mysql://somewhere", codes::BAD_URL);
    check(&format!("{url}_and_more"), codes::NO_DATABASE);
    check(&format!("{url}?sslmode=require"), codes::TLS);
    check(&format!("{url}?sslmode=verify-full"), codes::TLS);
}

#[test]
fn a_replica_is_told_from_its_primary() {
    let Some(server) = PostgreSql::for_test().unwrap() else {
        return;
    };
    let url = server.database().unwrap();
    let harness = in_database();
    let open = || PostgresStore::open(&url, harness.options());
    drop(open().unwrap());
    server.become_replica().unwrap();
    let refused = open().err().unwrap();
    assert_eq!(refused.code, codes::READ_ONLY, "{refused:?}");
}

#[test]
fn schemas_are_stores_of_their_own() {
    let harness = in_database();
    let Some(url) = harness.url.as_deref() else {
        return;
    };
    let open = |schema: &str| {
        let options = PostgresOptions {
            schema: schema.to_owned(),
            ..harness.options()
        };
        PostgresStore::open(url, options).unwrap()
    };
    let (one, other) = (open("one"), open("the \"other\""));
    Member::of(Arc::<PostgresStore>::clone(&one)).born();
    assert_eq!(one.counts().unwrap().runs, 1);
    assert_eq!(other.counts().unwrap().runs, 0);
}

impl InDatabase {
    /// The options of a program that knows further steps.
    fn knowing(&self, further: &'static [Step]) -> PostgresOptions {
        PostgresOptions {
            further,
            ..self.options()
        }
    }
}

impl Versions for InDatabase {
    fn open_as(&self, further: &'static [Step]) -> Result<Arc<dyn Store>> {
        let options = self.knowing(further);
        Ok(PostgresStore::open(self.url.as_deref().unwrap(), options)?)
    }

    fn open_unmigrated(&self, further: &'static [Step]) -> Result<Arc<dyn Store>> {
        let options = PostgresOptions {
            migrates: false,
            ..self.knowing(further)
        };
        Ok(PostgresStore::open(self.url.as_deref().unwrap(), options)?)
    }

    fn layout_as(&self, further: &'static [Step]) -> Layout {
        let options = self.knowing(further);
        PostgresStore::layout(self.url.as_deref().unwrap(), &options).unwrap()
    }

    fn check_as(&self, further: &'static [Step]) -> Result<Vec<Finding>> {
        let options = self.knowing(further);
        PostgresStore::check(self.url.as_deref().unwrap(), &options)
    }

    fn migrate_as(&self, further: &'static [Step]) -> Result<Layout> {
        let options = self.knowing(further);
        PostgresStore::migrate(self.url.as_deref().unwrap(), &options)
    }

    fn layouts(&self) -> (i64, i64) {
        let number = |sql: &str| self.ask(sql).trim().parse().unwrap();
        (
            number("select max(version) from windlass.layout"),
            number("select layout from windlass.requirement"),
        )
    }
}

upgrading!(in_database);

#[test]
fn a_member_whose_lease_runs_out_at_a_breaking_step_is_a_member_no_more() {
    const BREAKING: &[Step] = &[Step {
        sql: "",
        kind: Kind::Breaking,
    }];
    let harness = in_database();
    if harness.url.is_none() {
        return;
    }
    let stopped = Member::of(harness.store());
    let held = stopped.born();
    // The database's own clock runs on meanwhile.
    harness.clock.advance(LEASE_MS / 2);
    let early = harness.open_as(BREAKING).err().unwrap();
    assert_eq!(early.code, codes::MEMBERS_BEHIND);
    harness.clock.advance(LEASE_MS);
    let new = Member::of(harness.open_as(BREAKING).unwrap());
    assert_eq!(stopped.commit(stopped.last(&held)), Err(Fenced));
    assert_eq!(new.reap(10), 1);
    assert_eq!(new.claim_all(20).len(), 1);
}
