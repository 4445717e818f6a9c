//! Hosts whose database is not reachable when they start.

use windlass_test_servers::PostgreSql;
use windlass_tests::harness::{Place, until};

const WAITING: &str = "it is waited for";

/// A server that is stopped, and a place whose store is in it.
fn absent(patience: &str) -> Option<(PostgreSql, Place)> {
    let postgres = PostgreSql::for_test().expect("PostgreSQL starts")?;
    let url = postgres.database().expect("a database can be made");
    let url = url.replace("windlass@", "windlass:secret@");
    let place = Place::new(&[])
        .with("store.connect-timeout", patience)
        .with_database(&url);
    postgres.stop().expect("PostgreSQL stops");
    Some((postgres, place))
}

#[test]
fn a_host_that_is_started_before_its_database_waits_for_it() {
    let Some((postgres, place)) = absent("170s") else {
        return;
    };
    let mut host = place.start(&["serve"]);
    until("it says that it waits", || host.stderr().contains(WAITING));
    postgres.start_again().expect("PostgreSQL starts again");
    place.until_member(&mut host);
    let said = host.stderr();
    assert_eq!(said.matches(WAITING).count(), 1, "it is said once: {said}");
    assert!(!said.contains("secret"), "{said}");
}

#[test]
fn a_host_whose_database_does_not_come_ends_with_an_error() {
    let Some((_postgres, place)) = absent("300ms") else {
        return;
    };
    for (command, waits) in [(&["serve"][..], true), (&["runs", "list"], false)] {
        let said = place.say(&[&["-o", "jsonl"], command].concat());
        assert_eq!(said.exit, Some(50), "{said:#?}");
        assert_eq!(said.error()["code"], "WL-S030", "{said:#?}");
        assert_eq!(said.stderr.contains(WAITING), waits, "{said:#?}");
        assert!(!said.stderr.contains("secret"), "{said:#?}");
    }
}
