//! Locks in Redis.

use std::sync::Arc;

use windlass_test_servers::Redis;

use super::places::subject;
use crate::conformance::troubles::{self, Server};
use crate::conformance::{self, Subject, parts};

/// A subject with a prefix of its own on the server that all tests share.
fn shared() -> Option<Subject> {
    let url = Redis::shared().expect("it starts")?;
    let prefix = windlass_test_servers::unique();
    Some(subject("redis", &format!("{url}#{{{prefix}}}")))
}

crate::conformance!(shared());

fn with_server(case: impl AsyncFnOnce(&Subject, &Server)) {
    conformance::run(async {
        let Some(redis) = Redis::for_test().expect("it starts") else {
            return;
        };
        let subject = subject("redis", &format!("{}#{{test}}", redis.url()));
        let redis = Arc::new(redis);
        let (one, two, three) = (Arc::clone(&redis), Arc::clone(&redis), redis);
        let server = Server {
            disturb: Box::new(move || one.restart().expect("it restarts")),
            stop: Box::new(move || two.kill().expect("it dies")),
            start: Box::new(move || three.start_again().expect("it starts")),
        };
        case(&subject, &server).await;
    });
}

#[test]
fn a_server_that_is_killed_and_empty_loses_locks() {
    with_server(troubles::a_server_that_forgets_loses_locks);
}

#[test]
fn a_server_that_has_gone_is_named() {
    with_server(troubles::a_server_that_has_gone_is_named);
}

#[test]
fn an_address_that_cannot_be_used_is_refused_without_being_repeated() {
    conformance::run(async {
        for (url, why) in [
            ("http://:secret@host", "the URL of the locks is none"),
            (
                "rediss://:secret@host",
                "TLS to Redis (`rediss://`) is not built in",
            ),
        ] {
            let options = crate::RedisOptions::new(url);
            assert!(!format!("{options:?}").contains("secret"), "{options:?}");
            let error = crate::redis::open(&options, parts("x"));
            let error = error.err().expect("an error");
            assert_eq!(error.code(), crate::codes::SETTINGS);
            assert!(error.to_string().starts_with(why), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    });
}
