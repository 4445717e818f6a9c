//! Requests of a stranger's page in a browser, or with a stranger's name for this machine.

use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use windlass_tests::harness::{Answer, Place, Process, Said, Signal, Web, until};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn web(settings: &[(&str, &str)]) -> (Place, Web) {
    let mut place = Place::new(&["echo"]);
    for (key, value) in settings {
        place = place.with(key, value);
    }
    let web = Web::serve(&place);
    (place, web)
}

/// Sends a request with all its headers.
fn ask(web: &Web, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let length = body.len();
    let request =
        format!("{method} {path} HTTP/1.1\r\n{headers}content-length: {length}\r\n\r\n{body}");
    let mut line = web.line();
    assert!(line.send(request.as_bytes()));
    line.answer().expect("an answer")
}

fn workflow() -> Value {
    json!({
        "workflow": "one",
        "triggers": { "in": { "http": { "method": "GET", "path": "/in" } } },
        "nodes": { "a": { "use": "echo/echo" } },
    })
}

const JSON: &str = "content-type: application/json";

#[test]
fn a_foreign_host_name_is_refused_without_a_token() {
    let (_place, web) = web(&[("server.hosts", "[\"flows.example\"]")]);
    web.publish(&workflow());
    let port = web.address.port();
    let status =
        |host: &str, path: &str| ask(&web, "GET", path, &[&format!("host: {host}")], "").status;
    for path in [
        "/api/v1/runs",
        "/metrics",
        "/hooks/in",
        "/resume/x",
        "/nowhere",
    ] {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "0.0.0.0",
            "10.1.2.3",
        ] {
            assert_eq!(status(host, path), 421, "{host} {path}");
        }
        for host in ["localhost", "127.0.0.1", "[::1]", "flows.example"] {
            let host = format!("{host}:{port}");
            assert_ne!(status(&host, path), 421, "{host} {path}");
        }
    }
    for path in ["/livez", "/readyz"] {
        assert_eq!(status("evil.example", path), 200, "{path}");
    }
    let put = ask(
        &web,
        "PUT",
        "/api/v1/definitions/one",
        &["host: evil.example", JSON],
        &workflow().to_string(),
    );
    assert_eq!(put.problem(), (421, "WL-H026".to_owned()));
    assert_eq!(web.get("/api/v1/definitions/one")["version"]["version"], 1);
}

#[test]
fn with_the_token_any_name_is_good() {
    let (_place, web) = web(&[("server.token", TOKEN)]);
    let host = "host: flows.example";
    let bearer = format!("authorization: Bearer {TOKEN}");
    let path = "/api/v1/runs";
    assert_eq!(ask(&web, "GET", path, &[host, &bearer], "").status, 200);
    assert_eq!(ask(&web, "GET", path, &[host], "").status, 401);
    // The request needs no token, so its name counts.
    assert_eq!(ask(&web, "GET", "/hooks/in", &[host], "").status, 421);
    assert_eq!(
        ask(&web, "GET", "/hooks/in", &[host, &bearer], "").status,
        404
    );
}

#[test]
fn a_page_of_a_stranger_changes_nothing() {
    let (_place, web) = web(&[("server.origins", "[\"https://shop.example\"]")]);
    web.publish(&workflow());
    let host = format!("host: localhost:{}", web.address.port());
    let own = format!("origin: http://localhost:{}", web.address.port());
    let pages = [
        "origin: https://evil.example",
        "origin: http://localhost:3000",
        "origin: null",
        "sec-fetch-site: cross-site",
        "sec-fetch-site: same-site",
    ];
    let id = web.start("one", &json!({}));
    let requests = [
        ("PUT", "/api/v1/definitions/one".to_owned()),
        ("DELETE", "/api/v1/definitions/one".to_owned()),
        ("POST", "/api/v1/admin/pause".to_owned()),
        ("POST", "/api/v1/admin/unpause".to_owned()),
        ("POST", "/api/v1/admin/reload".to_owned()),
        ("POST", format!("/api/v1/runs/{id}/cancel")),
        ("POST", "/events".to_owned()),
        ("POST", "/resume/x".to_owned()),
        ("GET", "/hooks/in".to_owned()),
        ("POST", "/nowhere".to_owned()),
    ];
    for (method, path) in &requests {
        for page in pages {
            let answer = ask(&web, method, path, &[&host, page], "");
            assert_eq!(
                answer.problem(),
                (403, "WL-H027".to_owned()),
                "{path} {page}"
            );
        }
    }
    let runs = web.get("/api/v1/runs")["items"].as_array().map(Vec::len);
    assert_eq!(runs, Some(1), "no hook has begun one");
    // Reading changes nothing, and a browser does not show the answer to other pages.
    let get = ask(&web, "GET", "/api/v1/runs", &[&host, pages[0]], "");
    assert_eq!(get.status, 200);
    assert_eq!(get.header("access-control-allow-origin"), None);
    // The host's own pages, a person, and a listed page.
    let shop = "origin: https://shop.example";
    for good in [
        own.as_str(),
        "sec-fetch-site: same-origin",
        "sec-fetch-site: none",
        shop,
    ] {
        assert_eq!(
            ask(&web, "GET", "/hooks/in", &[&host, good], "").status,
            202,
            "{good}"
        );
    }
}

#[test]
fn with_the_token_hooks_and_events_are_called_from_pages_and_the_rest_is_not() {
    let (_place, web) = web(&[("server.token", TOKEN)]);
    let bearer = format!("authorization: Bearer {TOKEN}");
    let headers = ["host: localhost", "origin: https://evil.example", &bearer];
    let status = |path: &str| ask(&web, "POST", path, &headers, "").status;
    assert_eq!(status("/hooks/in"), 404);
    assert_ne!(status("/events"), 403);
    assert_eq!(status("/api/v1/admin/pause"), 403);
}

#[test]
fn a_host_makes_its_token_where_the_command_line_finds_it() {
    let place = Place::new(&["echo"]).with("server.token", "auto");
    let web = Web::serve(&place);
    let file = place.path(&format!(
        "home/.local/state/windlass/tokens/127.0.0.1-{}",
        web.address.port()
    ));
    until("the token is written", || file.exists());
    let token = std::fs::read_to_string(&file).expect("it can be read");
    assert_eq!(token.len(), 64, "{token}");
    let mode = std::fs::metadata(&file)
        .expect("a file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(web.ask("GET", "/api/v1/runs", &[], "").status, 401);
    let bearer = format!("authorization: Bearer {token}");
    assert_eq!(web.ask("GET", "/api/v1/runs", &[&bearer], "").status, 200);
    let address = format!("http://localhost:{}", web.address.port());
    place.ask(&["--server", &address, "runs", "list"]);
    // Only the host gets the token: no proxy, and no other program on its port of another address.
    let mut command = place.windlass();
    command
        .args(["--server", &address, "runs", "list"])
        .env("http_proxy", "http://127.0.0.1:1");
    let said = Said::of(&mut Process::start("behind a proxy", &mut command));
    assert_eq!(said.exit, Some(0), "{said:#?}");
    let other = TcpListener::bind(("127.0.0.2", web.address.port())).expect("it is free");
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().expect("a client connects");
        let mut request = [0; 4096];
        let length = stream.read(&mut request).expect("a request");
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let elsewhere = format!("http://127.0.0.2:{}", web.address.port());
    let said = place.say(&["--server", &elsewhere, "runs", "list"]);
    assert_ne!(said.exit, Some(0), "{said:#?}");
    let heard = heard.join().expect("it is heard");
    assert!(heard.starts_with("GET /api/v1/runs"), "{heard}");
    assert!(!heard.contains(&token), "{heard}");
    let mut process = web.process;
    assert!(!process.stderr().contains(&token), "the log has no token");
    process.signal(Signal::TERM);
    process.wait();
    assert!(!file.exists(), "it goes with the host");
    let shown = place.with("server.token", TOKEN).ask(&["config", "show"]);
    assert!(
        !shown.contains(TOKEN) && shown.contains("(hidden)"),
        "{shown}"
    );
}
