//! Locks in PostgreSQL.

use std::sync::Arc;

use windlass_test_servers::{Authority, PostgreSql};

use super::places::subject;
use crate::conformance::troubles::{self, Server};
use crate::conformance::{self, Subject, key, parts, take};

/// A subject with a database of its own on the server that all tests share.
fn shared() -> Option<Subject> {
    let server = PostgreSql::shared().expect("it starts")?;
    Some(subject("postgres", &server.database().expect("a database")))
}

crate::conformance!(shared());

fn with_server(
    disturb: impl Fn(&PostgreSql) + Send + Sync + 'static,
    case: impl AsyncFnOnce(&Subject, &Server),
) {
    conformance::run(async {
        let Some(postgres) = PostgreSql::for_test().expect("it starts") else {
            return;
        };
        let subject = subject("postgres", &postgres.url());
        let postgres = Arc::new(postgres);
        let (one, two, three) = (Arc::clone(&postgres), Arc::clone(&postgres), postgres);
        let server = Server {
            disturb: Box::new(move || disturb(&one)),
            stop: Box::new(move || two.stop().expect("it stops")),
            start: Box::new(move || three.start_again().expect("it starts")),
        };
        case(&subject, &server).await;
    });
}

#[test]
fn connections_that_are_terminated_free_nothing() {
    let terminate = |server: &PostgreSql| {
        assert!(server.terminate_connections().expect("it answers") > 0);
    };
    with_server(terminate, troubles::a_disturbance_frees_nothing);
}

#[test]
fn a_server_that_is_killed_and_restarted_frees_nothing() {
    let restart = |server: &PostgreSql| {
        server.kill().expect("it dies");
        server.start_again().expect("it starts");
    };
    with_server(restart, troubles::a_disturbance_frees_nothing);
}

#[test]
fn a_server_that_has_gone_is_named() {
    with_server(|_| {}, troubles::a_server_that_has_gone_is_named);
}

#[test]
fn a_database_that_is_not_there_is_refused() {
    conformance::run(async {
        let Some(server) = PostgreSql::shared().expect("it starts") else {
            return;
        };
        let url = server.url().replace("/postgres", "/nowhere");
        let subject = subject("postgres", &url);
        let asked = subject.provider().try_acquire(&key("x")).await;
        let error = asked.err().expect("an error");
        assert_eq!(error.code(), crate::codes::REFUSED);
        assert!(error.to_string().contains("nowhere"), "{error}");
    });
}

#[test]
fn the_table_has_a_row_for_each_held_lock() {
    conformance::run(async {
        let Some(server) = PostgreSql::shared().expect("it starts") else {
            return;
        };
        let url = server.database().expect("a database");
        let provider = subject("postgres", &url).provider();
        let count = || {
            let sql = "select count(*) from windlass.windlass_lock";
            server.execute_in(&url, sql).expect("it answers")
        };
        let held = take(&provider, &key("one")).await;
        assert_eq!(count(), "1");
        held.release().await.expect("it is released");
        assert_eq!(count(), "0");
    });
}

#[test]
fn an_address_that_cannot_be_used_is_refused_without_being_repeated() {
    conformance::run(async {
        for url in [
            "postgres://u:secret@host:port/d",
            "postgres://u:secret@host/d?sslmode=verify-full",
            "postgres://u:secret@host/d?sslrootcert=/nowhere",
        ] {
            let options = crate::PostgresOptions::new(url);
            assert!(!format!("{options:?}").contains("secret"), "{options:?}");
            let error = crate::postgres::open(&options, parts("x"));
            let error = error.err().expect("an error");
            assert_eq!(error.code(), crate::codes::SETTINGS);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    });
}

#[test]
fn a_server_that_is_not_trusted_is_refused() {
    conformance::run(async {
        let authorities = Authority::for_test().expect("openssl works");
        let stranger = Authority::for_test().expect("openssl works");
        let (Some(authority), Some(stranger)) = (authorities, stranger) else {
            return;
        };
        if !PostgreSql::is_installed() {
            return;
        }
        let server = PostgreSql::start_trusted_by(&authority).expect("it starts");
        let trusting = |authority: &Authority| {
            let certificate = authority.certificate();
            let url = server.url();
            subject(
                "postgres",
                &format!(
                    "{url}?sslmode=verify-full&sslrootcert={}",
                    certificate.display()
                ),
            )
        };
        let held = take(&trusting(&authority).provider(), &key("x")).await;
        held.release().await.expect("it is released");
        let asked = trusting(&stranger).provider().try_acquire(&key("x")).await;
        let error = asked.err().expect("an error");
        assert_eq!(error.code(), crate::codes::REFUSED, "{error}");
        assert!(error.to_string().contains("certificate"), "{error}");
    });
}
