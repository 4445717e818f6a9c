//! A store whose connections are encrypted.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use windlass_model::Code;
use windlass_test_servers::{Authority, PostgreSql};

use super::in_database;
use crate::Store as _;
use crate::codes;
use crate::conformance::world::Member;
use crate::postgres::PostgresStore;

#[test]
fn a_server_is_spoken_to_if_it_is_trusted() {
    let authority = Authority::for_test().unwrap();
    let stranger = Authority::for_test().unwrap();
    let (Some(authority), Some(stranger)) = (authority, stranger) else {
        return;
    };
    let harness = in_database();
    if harness.url.is_none() {
        return;
    }
    let server = PostgreSql::start_trusted_by(&authority).unwrap();
    let open = |url: &str| PostgresStore::open(url, harness.options());
    let by = |mode: &str, trusted: &Path| {
        format!("{}?{mode}sslrootcert={}", server.url(), trusted.display())
    };
    let plain = server.url();
    // The listener opens the last kind of connection.
    let works = |url: &str, encrypted: bool| {
        let (store, other) = (open(url).unwrap(), open(url).unwrap());
        let (sender, woken) = mpsc::channel();
        let listener = store.listen(Box::new(move |_| {
            let _ = sender.send(());
        }));
        Member::of(Arc::<PostgresStore>::clone(&other)).born();
        other.notify();
        woken.recv().unwrap();
        let sql = "select bool_and(ssl) from pg_stat_ssl join pg_stat_activity using (pid) \
            where application_name = 'windlass'";
        let shown = server.execute(sql).unwrap();
        assert_eq!(shown, if encrypted { "t" } else { "f" }, "{url}");
        drop(listener);
    };
    let refused = |url: &str, code: Code| {
        let error = open(url).map(|_| ()).unwrap_err();
        assert_eq!(error.code, code, "{url}: {error}");
        assert!(!error.transient && error.help.is_some(), "{error}");
        assert!(error.message.contains("certificate"), "{error}");
    };
    works(&plain, true);
    works(&format!("{plain}?sslmode=require"), true);
    works(&format!("{plain}?sslmode=disable"), false);
    let certificate = authority.certificate();
    works(&by("sslmode=verify-full&", &certificate), true);
    works(&by("sslmode=verify-ca&", &certificate), true);
    works(&by("", &certificate), true);
    let wrong = stranger.certificate();
    for mode in [
        "sslmode=verify-full&",
        "sslmode=verify-ca&",
        "sslmode=require&",
        "",
    ] {
        refused(&by(mode, &wrong), codes::TLS);
    }
    // The certificate is valid for 127.0.0.1 only.
    let other_name = by("sslmode=verify-full&", &certificate).replace("127.0.0.1", "localhost");
    refused(&other_name, codes::TLS);
    refused(&format!("{plain}?sslmode=verify-full"), codes::TLS);
    refused(
        &by("sslmode=verify-full&", Path::new("/nowhere")),
        codes::TLS,
    );
}

#[test]
fn no_error_shows_a_password() {
    let harness = in_database();
    for url in [
        "postgres://me:secret@127.0.0.1:1/nowhere",
        "postgres://me:sec/ret@127.0.0.1:1/nowhere",
        "postgres://me:secret@127.0.0.1:1:2/nowhere",
        "postgres://me:secret@127.0.0.1/nowhere?secret",
        "postgres://me:secret@127.0.0.1/nowhere?secret=1",
        "postgres://127.0.0.1:1/nowhere?password=secret&user=me",
        "postgres://me:secret@127.0.0.1:1/nowhere?sslmode=verify-full",
    ] {
        let error = PostgresStore::open(url, harness.options()).map(|_| ());
        let error = format!("{:?}", error.unwrap_err());
        let shown = ["secret", "ret@", "sec/"]
            .iter()
            .any(|part| error.contains(part));
        assert!(!shown, "{error}");
    }
    let Some(url) = harness.url.as_deref() else {
        return;
    };
    let url = url.replace("windlass@", "windlass:secret@");
    let store = PostgresStore::open(&url, harness.options()).unwrap();
    assert!(!store.place().contains("secret"), "{}", store.place());
}
