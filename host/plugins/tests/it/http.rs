//! Requests reach only the destinations that the operator allows.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use serde_json::{Value, json};
use windlass_model::secrets::Reference;
use windlass_plugins::{Grant, Grants, Returned, Secret, Secrets, Settings, Source};

use crate::rig::{Rig, call, output, proofs};

const SECRET: &str = "correct-horse-battery";

/// A server that answers every request with its own text, or redirects to the query of `/to?`.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut seen = Vec::new();
            let mut buffer = [0; 4096];
            while !seen.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(read) if read > 0 => seen.extend_from_slice(&buffer[..read]),
                    _ => break,
                }
            }
            let text = String::from_utf8_lossy(&seen).into_owned();
            let target = text.split(' ').nth(1).unwrap_or_default();
            let answer = match target.split_once("/to?") {
                Some((_, to)) => format!(
                    "HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                ),
                None => format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
                    text.len()
                ),
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

fn rig(grants: &[String]) -> Rig {
    bound(grants, grants)
}

/// A rig whose secrets may go to some of the permitted destinations.
fn bound(grants: &[String], to: &[String]) -> Rig {
    let to: Vec<Grant> = to.iter().map(|text| text.parse().unwrap()).collect();
    let grants = Grants {
        http: grants.iter().map(|grant| grant.parse().unwrap()).collect(),
        secrets: vec!["token".to_owned()],
        ..Grants::default()
    };
    let settings = Settings {
        grants,
        ..Settings::default()
    };
    Rig::with(|options| {
        options.settings = ["fetch", "sneaky"]
            .map(|name| {
                let settings = Settings {
                    proofs: proofs(name),
                    ..settings.clone()
                };
                (name.to_owned(), settings)
            })
            .into_iter()
            .collect::<BTreeMap<_, _>>();
        let secret = |name: &str, value: &str| {
            let secret = Secret {
                source: Source::Value(value.to_owned()),
                to: to.clone(),
                workflows: None,
            };
            (name.to_owned(), secret)
        };
        let all = [
            secret("token", SECRET),
            secret("other", "not granted at all"),
        ];
        options.secrets = Secrets::new(all.into()).unwrap();
    })
}

fn fetch(rig: &Rig, config: &Value) -> Returned<windlass_model::Outcome> {
    fetch_naming(rig, config, &["token", "other", "nonexistent"])
}

/// As `fetch`, for a definition that names these secrets literally.
fn fetch_naming(rig: &Rig, config: &Value, secrets: &[&str]) -> Returned<windlass_model::Outcome> {
    let mut call = call("fetch/fetch", config, &Value::Null);
    let reference = |&name: &&str| Reference {
        name: name.into(),
        prefix: "".into(),
        handle: name.into(),
    };
    call.cx.secrets = secrets.iter().map(reference).collect();
    rig.fiber(&rig.plugin("fetch"), call)
}

#[track_caller]
fn denied(rig: &Rig, url: &str) {
    let failure = fetch(rig, &json!({ "url": url, "redirects": 3 }))
        .result
        .unwrap_err();
    assert!(failure.message.contains("grant"), "{url}: {failure}");
}

#[test]
fn a_granted_address_is_reached() {
    let server = serve();
    let rig = rig(&[format!("http://{server}")]);
    let seen = output(fetch(
        &rig,
        &json!({ "url": format!("http://{server}/a?b#c") }),
    ));
    assert_eq!(seen["status"], json!(200));
    assert!(
        seen["body"]
            .as_str()
            .unwrap()
            .starts_with("GET /a?b HTTP/1.1\r\n")
    );
}

#[test]
fn nothing_else_is() {
    let server = serve();
    let port = server.port();
    let nothing = rig(&[]);
    denied(&nothing, &format!("http://{server}/"));
    let wide = rig(&[
        format!("http://*:{port}"),
        "http://*".to_owned(),
        "*".to_owned(),
    ]);
    // The name is granted, but its address is not.
    denied(&wide, &format!("http://localhost:{port}/"));
    for url in [
        "http://127.0.0.1/",
        "http://0x7f000001/",
        "http://[::1]/",
        "http://2130706433/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:10.0.0.1]/",
    ] {
        denied(&wide, url);
    }
}

#[test]
fn localhost_is_reached_where_it_is_named() {
    let port = serve().port();
    let rig = rig(&[format!("http://localhost:{port}")]);
    let seen = output(fetch(
        &rig,
        &json!({ "url": format!("http://localhost:{port}/") }),
    ));
    assert_eq!(seen["status"], json!(200));
}

#[test]
fn redirects_are_held_to_the_same_grants() {
    let (server, other) = (serve(), serve());
    let rig = rig(&[format!("http://{server}")]);
    let to = |place: &str| format!("http://{server}/to?{place}");
    denied(&rig, &to(&format!("http://{other}/")));
    denied(&rig, &to("http://169.254.169.254/"));
    let near = json!({ "url": to("/here"), "redirects": 1 });
    assert!(
        output(fetch(&rig, &near))["body"]
            .as_str()
            .unwrap()
            .starts_with("GET /here")
    );
    let none = json!({ "url": to("/here"), "redirects": 0 });
    assert_eq!(output(fetch(&rig, &none))["status"], json!(302));
}

#[test]
fn a_secret_reaches_the_server_and_never_the_guest() {
    let (server, other) = (serve(), serve());
    let rig = rig(&[format!("http://{server}"), format!("http://{other}")]);
    let config = json!({ "url": format!("http://{server}/"), "secret": "token" });
    let seen = output(fetch(&rig, &config)).to_string();
    assert!(seen.contains("[secret token]"), "{seen}");
    assert!(!seen.contains(SECRET));
    // The secret is not sent to another origin.
    let url = format!("http://{server}/to?http://{other}/");
    let config = json!({ "url": url, "secret": "token", "redirects": 1 });
    let seen = output(fetch(&rig, &config)).to_string();
    assert!(!seen.contains("authorization"), "{seen}");
}

#[test]
fn secrets_that_are_not_granted_look_as_if_there_were_none() {
    let server = serve();
    let rig = rig(&[format!("http://{server}")]);
    let ask = |secret: &str| {
        let config = json!({ "url": format!("http://{server}/"), "secret": secret });
        fetch(&rig, &config)
            .result
            .unwrap_err()
            .message
            .replace(secret, "_")
    };
    assert_eq!(ask("other"), ask("nonexistent"));
    let shown = format!("{:?}", rig.plugin("fetch"));
    assert!(!shown.contains(SECRET));
}

#[test]
fn a_secret_goes_only_where_it_is_named_and_bound() {
    let (server, other) = (serve(), serve());
    let both = [format!("http://{server}"), format!("http://{other}")];
    let rig = bound(&both, &both[..1]);
    let ask = |server: &std::net::SocketAddr, named: &[&str]| {
        let config = json!({ "url": format!("http://{server}/"), "secret": "token" });
        fetch_naming(&rig, &config, named).result
    };
    assert!(ask(&server, &["token"]).is_ok());
    // Data has named the secret, but no definition has.
    let by_data = ask(&server, &["other"]).unwrap_err();
    let elsewhere = ask(&other, &["token"]).unwrap_err();
    let behind = |message: &str| {
        message
            .split_once("/ needs")
            .map(|(_, rest)| rest.to_owned())
    };
    assert_eq!(behind(&by_data.message), behind(&elsewhere.message));
    assert!(by_data.message.contains("token"), "{by_data:?}");
}

#[test]
fn a_plugin_that_does_not_ask_gets_nothing() {
    let server = serve();
    let rig = rig(&[format!("http://{server}")]);
    let sneaky = rig.plugin("sneaky");
    let config = json!({ "url": format!("http://{server}/") });
    let failure = rig
        .fiber(&sneaky, call("sneaky/fetch", &config, &Value::Null))
        .result
        .unwrap_err();
    assert!(failure.message.contains("not granted"), "{failure}");
}

#[test]
fn malformed_requests_are_refused() {
    let rig = rig(&["*".to_owned()]);
    for url in [
        "",
        "file:///etc/passwd",
        "http://user:word@a.net/",
        "gopher://a.net/",
        "//a.net",
    ] {
        assert!(fetch(&rig, &json!({ "url": url })).result.is_err(), "{url}");
    }
}
