//! A host under a supervisor, as systemd or a container runtime starts it: messages about its
//! state, a token from a file, and a health check without curl.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use windlass_tests::harness::{Place, Process, Said, Signal, until_some};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The next message that is no sign of life.
fn heard(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 256];
    loop {
        let length = socket.recv(&mut bytes).expect("the host says something");
        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
        if text != "WATCHDOG=1" {
            return text;
        }
    }
}

#[test]
fn a_supervisor_hears_of_a_host_and_asks_for_its_health() {
    let place = Place::new(&[]);
    let socket = UnixDatagram::bind(place.path("notify")).expect("a socket can be bound");
    let patience = Some(Duration::from_secs(60));
    socket
        .set_read_timeout(patience)
        .expect("a time can be set");
    let token = place.file("token", format!("{TOKEN}\n"));
    let private = std::fs::Permissions::from_mode(0o400);
    std::fs::set_permissions(&token, private).expect("a mode can be set");
    let mut command = place.windlass();
    command
        .arg("serve")
        .env("WINDLASS_SERVER__TOKEN_FILE", &token)
        .env("NOTIFY_SOCKET", place.path("notify"))
        .env("WATCHDOG_USEC", "50000");
    let mut host = Process::start("serve", &mut command);
    assert_eq!(heard(&socket), "READY=1");
    let mut bytes = [0; 256];
    let length = socket.recv(&mut bytes).expect("a host is alive");
    assert_eq!(&bytes[..length], b"WATCHDOG=1");

    let server = until_some("it says where it listens", || {
        let text = host.stderr();
        let (_, address) = text.split_once("address=")?;
        Some(format!("http://{}", address.split_whitespace().next()?))
    });
    let ask = |token: &str, words: &[&str]| -> Said {
        let mut command: Command = place.windlass();
        command
            .args(["--server", &server])
            .args(words)
            .env("WINDLASS_TOKEN", token);
        Said::of(&mut Process::start(&words.join(" "), &mut command))
    };
    let healthy = ask("", &["health"]);
    assert_eq!(healthy.exit, Some(0), "{healthy:#?}");
    assert_eq!(healthy.stdout, "ready\n");
    let stranger = ask("another token of that length", &["runs", "list"]);
    assert_eq!(stranger.exit, Some(31), "{stranger:#?}");
    let user = ask(TOKEN, &["runs", "list"]);
    assert_eq!(user.exit, Some(0), "{user:#?}");

    host.signal(Signal::TERM);
    assert_eq!(heard(&socket), "STOPPING=1\nEXTEND_TIMEOUT_USEC=60000000");
    assert!(host.wait().success());
    let sick = ask("", &["health"]);
    assert_eq!(sick.exit, Some(30), "{sick:#?}");
}
