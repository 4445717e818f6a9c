//! Faulty hosts, and commands that cannot be sent to a host.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::json;
use windlass_tests::harness::{Place, Said, Signal};

use super::{Served, TOKEN};

/// Every command that can be sent to a host, with the arguments that it needs.
const COMMANDS: &[&[&str]] = &[
    &["run", "w.yaml"],
    &["runs", "start", "w.yaml"],
    &["runs", "begin", ID],
    &["runs", "cancel", ID],
    &["runs", "pause", ID],
    &["runs", "unpause", ID],
    &["runs", "retry", ID],
    &["runs", "delete", ID, "--yes"],
    &["runs", "exists", ID],
    &["runs", "result", ID],
    &["runs", "list"],
    &["runs", "show", ID],
    &["runs", "trace", ID],
    &["trigger", "schedule", ID, "--node", "a"],
    &["trigger", "list"],
    &["trigger", "show", ID],
    &["trigger", "fire", ID],
    &["trigger", "reschedule", ID],
    &["trigger", "cancel", ID],
    &["trigger", "next", "w"],
    &["event", "send", "e"],
    &["bookmark", "list"],
    &["bookmark", "resume", "7"],
    &["dead-letter", "list"],
    &["dead-letter", "show", "7"],
    &["dead-letter", "replay", "7"],
    &["dead-letter", "delete", "7", "--yes"],
    &["dead-letter", "purge", "--yes"],
    &["workflow", "publish", "w.yaml"],
    &["workflow", "publish", "w"],
    &["workflow", "draft", "save", "w.yaml"],
    &["workflow", "draft", "list"],
    &["workflow", "draft", "show", "w"],
    &["workflow", "draft", "discard", "w"],
    &["workflow", "revert", "w", "1"],
    &["workflow", "list"],
    &["workflow", "show", "w"],
    &["workflow", "retract", "w"],
    &["workflow", "refresh"],
    &["workflow", "reload"],
    &["lock", "list"],
    &["plugin", "list"],
    &["plugin", "inspect", "p"],
];

const ID: &str = "018f0000-0000-7000-8000-000000000001";

/// Commands that need no member of the answer.
const CONTENT_WITH_NOTHING: &[&str] = &["cancel", "delete", "replay", "discard"];

fn place() -> Place {
    let place = Place::new(&[]);
    place.file("w.yaml", "workflow: w\nnodes: { a: { end: } }\n");
    place
}

fn ask(place: &Place, address: &str, token: &str, command: &[&str]) -> Said {
    let mut all = vec!["-o", "jsonl", "--server", address, "--token", token];
    all.extend(command);
    place.say(&all)
}

#[test]
fn without_the_token_nothing_is_done() {
    let served = Served::new();
    served
        .place
        .file("w.yaml", "workflow: w\nnodes: { a: { end: } }\n");
    let address = format!("http://{}", served.web.address);
    for command in COMMANDS {
        let said = ask(
            &served.place,
            &address,
            "fedcba98765432100123456789abcdef",
            command,
        );
        assert_eq!(said.exit, Some(31), "{command:?}: {said:?}");
        assert_eq!(said.error()["code"], "WL-C042", "{command:?}");
        assert_eq!(said.stdout, "", "{command:?}");
    }
    let said = ask(&served.place, &address, TOKEN, &["workflow", "list"]);
    assert_eq!((said.exit, said.stdout.as_str()), (Some(0), ""), "{said:?}");
}

#[test]
fn a_host_that_is_gone_is_said_to_be() {
    let mut served = Served::new();
    let address = format!("http://{}", served.web.address);
    served.web.process.signal(Signal::KILL);
    served.web.process.wait();
    let place = place();
    for command in COMMANDS {
        let said = ask(&place, &address, TOKEN, command);
        assert_eq!(said.exit, Some(30), "{command:?}: {said:?}");
        assert_eq!(said.error()["code"], "WL-C041", "{command:?}");
    }
}

/// A listener that answers every request by this function.
fn host(answer: impl Fn(&mut std::net::TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a client connects");
            let mut bytes = [0; 65536];
            // One read of the request suffices to answer it.
            let _ = stream.read(&mut bytes);
            answer(&mut stream);
        }
    });
    address
}

/// Checks that each command reports an error, and not a bug, if a host always sends this answer.
fn check_garbage(answer: &'static [u8], but: &[&str]) {
    let place = place();
    let address = host(move |stream| drop(stream.write_all(answer)));
    for command in COMMANDS {
        if command.iter().any(|word| but.contains(word)) {
            continue;
        }
        let said = ask(&place, &address, TOKEN, command);
        assert_eq!(said.exit, Some(30), "{command:?}: {said:?}");
        assert_eq!(said.stdout, "", "{command:?}");
        let code = said.error()["code"].clone();
        assert!(
            code == "WL-C041" || code == "WL-C044",
            "{command:?}: {said:?}"
        );
    }
}

#[test]
fn garbage_is_no_answer() {
    check_garbage(b"", &[]);
    check_garbage(b"hello\r\n\r\n", &[]);
    check_garbage(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n<html>", &[]);
    check_garbage(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n[1", &[]);
    check_garbage(
        b"HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n",
        &[],
    );
    check_garbage(
        b"HTTP/1.1 500 No\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}",
        &[],
    );
    check_garbage(
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\n[[]]",
        CONTENT_WITH_NOTHING,
    );
}

#[test]
fn an_answer_without_end_is_left() {
    let address = host(|stream| {
        let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n[";
        let mut more = stream.write_all(head).is_ok();
        let megabyte = vec![b' '; 1 << 20];
        // Until the client closes the connection.
        while more {
            more = stream.write_all(&megabyte).is_ok();
        }
    });
    let said = ask(&place(), &address, TOKEN, &["runs", "list"]);
    assert_eq!(said.exit, Some(30), "{said:?}");
    assert_eq!(said.error()["code"], "WL-C044", "{said:?}");
}

#[test]
fn a_large_answer_is_shown_whole() {
    let run = json!({ "id": ID, "workflow": "x".repeat(20_000), "status": "running" });
    let page = json!({ "items": vec![run; 500] }).to_string();
    let address = host(move |stream| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", page.len());
        drop(stream.write_all(format!("{head}{page}").as_bytes()));
    });
    let said = ask(
        &place(),
        &address,
        TOKEN,
        &["runs", "list", "--limit", "500"],
    );
    assert_eq!(said.exit, Some(0), "{:?}", said.stderr);
    assert_eq!(said.stdout.lines().count(), 500);
    assert!(said.stdout.len() > 10_000_000);
}

#[test]
fn commands_for_this_machine_are_refused_and_commands_without_a_store_run_here() {
    let place = place();
    let address = "http://127.0.0.1:1";
    for command in [
        &["serve"][..],
        &["doctor", "--bundle"],
        &["store", "check"],
        &["plugin", "call", "data/jq"],
        &["run", "w.yaml", "--ephemeral"],
    ] {
        let said = ask(&place, address, TOKEN, command);
        assert_eq!(said.exit, Some(2), "{command:?}: {said:?}");
        assert_eq!(said.error()["code"], "WL-C043", "{command:?}");
    }
    for command in [
        &["explain", "WL-C043"][..],
        &["config", "show"],
        &["workflow", "validate", "w.yaml"],
        &["workflow", "graph", "w.yaml"],
    ] {
        let said = ask(&place, address, TOKEN, command);
        assert_eq!(said.exit, Some(0), "{command:?}: {said:?}");
    }
}

#[test]
fn a_name_that_leads_elsewhere_is_none() {
    let served = Served::new();
    for name in [
        ".", "..", "../runs", "a/b", "%2e%2e", "a?b=c", "a#b", "", " ", "é", "\u{7}",
    ] {
        for command in [["workflow", "show"], ["workflow", "retract"]] {
            let said = served.same(&[&command[..], &[name]].concat());
            assert_eq!(said.exit, Some(41), "{command:?} {name:?}: {said:?}");
        }
    }
}
