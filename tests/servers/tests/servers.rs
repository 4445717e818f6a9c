//! The guarantees of the servers for tests.

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use windlass_test_servers::{PostgreSql, Redis};

fn listens(url: &str) -> bool {
    let address = url.rsplit(['/', '@']).find(|part| part.contains(':'));
    address.is_some_and(|address| TcpStream::connect(address).is_ok())
}

#[test]
fn postgres_keeps_committed_data_over_a_kill_and_a_restart() {
    let Some(server) = PostgreSql::for_test().expect("it starts") else {
        return;
    };
    let url = server.database().expect("a database");
    server
        .execute_in(&url, "create table t as select 7 as n")
        .expect("a table");
    server.kill().expect("it dies");
    assert!(!listens(&server.url()));
    server.start_again().expect("it starts again");
    assert_eq!(
        server.execute_in(&url, "select n from t").expect("a row"),
        "7"
    );
    server.restart().expect("it restarts");
    assert_eq!(
        server.execute_in(&url, "select n from t").expect("a row"),
        "7"
    );
}

#[test]
fn postgres_ends_connections() {
    let Some(server) = PostgreSql::for_test().expect("it starts") else {
        return;
    };
    assert_eq!(server.terminate_connections().expect("it answers"), 0);
    assert_eq!(server.execute("show fsync").expect("it answers"), "on");
}

#[test]
fn redis_is_empty_after_a_kill() {
    let Some(server) = Redis::for_test().expect("it starts") else {
        return;
    };
    assert!(listens(&server.url()));
    server.kill().expect("it dies");
    assert!(!listens(&server.url()));
    server.start_again().expect("it starts again");
    server.empty().expect("it answers");
}

/// Set in the process that [`servers_end_with_the_process_that_started_them`] starts.
const CHILD: &str = "WINDLASS_TEST_SERVERS_CHILD";

#[test]
fn servers_end_with_the_process_that_started_them() {
    if Redis::for_test().expect("it starts").is_none() {
        return;
    }
    if std::env::var_os(CHILD).is_some() {
        let redis = Redis::start().expect("it starts");
        println!("\nurl {}", redis.url());
        loop {
            std::thread::park();
        }
    }
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "servers_end_with_the_process_that_started_them",
            "--exact",
            "--nocapture",
        ])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let output = BufReader::new(child.stdout.take().expect("its output"));
    let url = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| Some(line.strip_prefix("url ")?.to_owned()))
        .expect("it says where its server is");
    assert!(listens(&url));
    child.kill().expect("it dies");
    child.wait().expect("it is over");
    while listens(&url) {
        std::thread::yield_now();
    }
}
