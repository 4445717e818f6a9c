//! Names, redirects, proxies and bodies, against servers on this machine.

mod bodies;
mod proxies;
mod redirects;

use std::io::{Read as _, Write as _};

use super::*;
use crate::grant::secrets::{Secret, Secrets, Source};
use crate::hold::budget::tests::account;
use crate::offer::http::policy::Roots;
use crate::offer::http::resolve::tests::{Still, silent};

const LOOKUPS: usize = 8;

fn request(url: String) -> Request {
    Request {
        method: "GET".to_owned(),
        url,
        headers: Vec::new(),
        body: None,
        timeout: None,
        max_redirects: None,
        max_response_bytes: None,
    }
}

/// A server that gives each connection the next answer, byte by byte as it is written here. The
/// requests come back in order: the head, and the body as far as it came with it.
fn serve(answers: Vec<Vec<u8>>) -> (SocketAddr, std::sync::mpsc::Receiver<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, requests) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut seen = Vec::new();
            let mut buffer = [0; 4096];
            while !seen.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(read) if read > 0 => seen.extend_from_slice(&buffer[..read]),
                    _ => break,
                }
            }
            let _ = sender.send(String::from_utf8_lossy(&seen).into_owned());
            let _ = stream.write_all(&answer);
        }
    });
    (address, requests)
}

/// An answer with status 200, these headers and this body.
fn answer(headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\n".to_vec();
    for header in headers {
        answer.extend(header.bytes());
        answer.extend(b"\r\n");
    }
    answer.extend(format!("content-length: {}\r\n\r\n", body.len()).bytes());
    answer.extend(body);
    answer
}

fn trace() -> TraceContext {
    TraceContext::sampled([7; 16], [8; 8]).with_state(["congo=t61"])
}

fn granted(grants: &[&str]) -> Grants {
    Grants {
        http: grants.iter().map(|grant| grant.parse().unwrap()).collect(),
        ..Grants::default()
    }
}

/// Fetches with these changes of the request, of the policy and of the memory in the budget.
fn fetch_as(
    url: String,
    change: impl Fn(&mut Request, &mut HttpPolicy),
    memory: u64,
) -> Result<Response, HttpError> {
    let parsed = Url::parse(&url).unwrap();
    let place = format!(
        "{}://{}",
        parsed.scheme(),
        &parsed[url::Position::BeforeHost..url::Position::AfterPort]
    );
    let mut request = request(url);
    let mut policy = HttpPolicy::default();
    change(&mut request, &mut policy);
    let client = Client::new(policy, Arc::new(Still::default())).unwrap();
    let grants = granted(&[&place]);
    let (mut account, mut charged) = (account(memory), 0);
    let mut ask = Ask {
        package: "http",
        grants_file: Some("windlass.toml"),
        bodies: Bodies {
            account: &mut account,
            charged: &mut charged,
        },
        grants: &grants,
        usable: Usable {
            secrets: &Secrets::default(),
            workflow: "",
            named: &[],
        },
        left: Duration::from_secs(60),
        trace: Some(trace()),
        requests: &mut 0,
        max_requests: 32,
        max_body: 1 << 20,
    };
    let tokio = tokio::runtime::Runtime::new().unwrap();
    tokio.block_on(client.fetch(request, &mut ask))
}

/// Fetches an answer from a server.
fn fetched(answer: Vec<u8>) -> Result<Response, HttpError> {
    let (address, _requests) = serve(vec![answer]);
    fetch_as(format!("http://{address}/"), |_, _| {}, 64 << 20)
}

async fn fetch(client: &Client, grants: &Grants, url: String) -> Result<Response, HttpError> {
    fetch_beside(&Secrets::default(), client, grants, url).await
}

/// As `fetch`, with these secrets.
async fn fetch_beside(
    secrets: &Secrets,
    client: &Client,
    grants: &Grants,
    url: String,
) -> Result<Response, HttpError> {
    let mut ask = Ask {
        package: "http",
        grants_file: Some("windlass.toml"),
        bodies: Bodies {
            account: &mut account(64 << 20),
            charged: &mut 0,
        },
        grants,
        usable: Usable {
            secrets,
            workflow: "",
            named: &[],
        },
        left: Duration::from_secs(600),
        trace: None,
        requests: &mut 0,
        max_requests: 1,
        max_body: 1024,
    };
    client.fetch(request(url), &mut ask).await
}

#[test]
fn a_request_names_the_trace_of_its_call_unless_the_guest_names_one() {
    use crate::bindings::host::windlass::http::http::{Header, HeaderValue};
    let own = |name: &str| Header {
        name: name.to_owned(),
        value: HeaderValue::Plain("own".to_owned()),
    };
    let parent = trace().to_string();
    for (given, sent) in [
        (None, [Some(&*parent), Some("congo=t61")]),
        (Some(own("TraceParent")), [Some("own"), None]),
        (Some(own("TraceState")), [Some(&*parent), Some("own")]),
    ] {
        let (address, requests) = serve(vec![answer(&[], b"")]);
        let change = |request: &mut Request, _: &mut HttpPolicy| {
            request.headers.extend(given.clone());
        };
        fetch_as(format!("http://{address}/"), change, 64 << 20).unwrap();
        let head = requests.recv().unwrap().to_lowercase();
        let of = |name: &str| {
            let values = head.lines().filter_map(|line| line.strip_prefix(name));
            values.collect::<Vec<_>>()
        };
        for (name, sent) in ["traceparent: ", "tracestate: "].into_iter().zip(sent) {
            assert_eq!(of(name), Vec::from_iter(sent), "{head}");
        }
    }
}

#[test]
fn a_thousand_fetches_from_a_silent_name_server_leave_the_threads_to_others() {
    // Other blocking work, like the reads of the API, would queue behind the lookups.
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(LOOKUPS)
        .enable_all()
        .build()
        .unwrap();
    let (lookup, heard, release) = silent();
    let policy = HttpPolicy {
        timeout: Duration::from_secs(600),
        connect_timeout: Duration::from_secs(600),
        concurrency: 4,
        lookups: LOOKUPS,
        ..HttpPolicy::default()
    };
    let client = Client::with(lookup, policy, Arc::new(Still::default())).unwrap();
    let client = Arc::new(client);
    let grants = Arc::new(Grants {
        http: ["*", "http://127.0.0.1:9"]
            .map(|grant| grant.parse().unwrap())
            .into(),
        ..Grants::default()
    });
    let mut fetches = tokio::task::JoinSet::new();
    for at in 0..1_000 {
        let (client, grants) = (Arc::clone(&client), Arc::clone(&grants));
        let url = format!("https://n{at}.test/");
        let fetch = async move { fetch(&client, &grants, url).await };
        fetches.spawn_on(fetch, tokio.handle());
    }
    for _ in 0..LOOKUPS {
        heard.recv().unwrap();
    }
    // Other work finds a thread, and a request without a lookup is sent.
    let other = tokio.spawn_blocking(|| "done");
    assert_eq!(tokio.block_on(other).unwrap(), "done");
    let sent = tokio.block_on(fetch(&client, &grants, "http://127.0.0.1:9/".to_owned()));
    match sent {
        Err(HttpError::Unreachable(said)) => assert_eq!(said, "no connection to `127.0.0.1`"),
        other => panic!("{other:?}"),
    }
    // Beyond the slots, no request waits for the name server.
    for _ in LOOKUPS..1_000 {
        match tokio.block_on(fetches.join_next()).unwrap().unwrap() {
            Err(HttpError::Unreachable(said)) => {
                assert!(
                    said.contains("does not answer the lookups of other names"),
                    "{said}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(fetches.len(), LOOKUPS);
    assert!(
        heard.try_recv().is_err(),
        "no more are looked up than may be"
    );
    drop(release);
    while let Some(fetched) = tokio.block_on(fetches.join_next()) {
        match fetched.unwrap() {
            Err(HttpError::Unreachable(said)) => {
                assert!(said.ends_with("has no address"), "{said}")
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn headers_are_without_secrets() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut seen = Vec::new();
        let mut buffer = [0; 1024];
        while !seen.ends_with(b"\r\n\r\n") {
            let read = stream.read(&mut buffer).unwrap();
            assert!(read > 0, "the request ends");
            seen.extend_from_slice(&buffer[..read]);
        }
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\
            x-hunter2hunter2: 1\r\nsaid: hunter2hunter2\r\n\r\n";
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let secret = Secret {
        source: Source::Value("hunter2hunter2".to_owned()),
        to: Vec::new(),
        workflows: None,
    };
    let secrets = Secrets::new([("token".to_owned(), secret)].into()).unwrap();
    let client = Client::new(HttpPolicy::default(), Arc::new(Still::default())).unwrap();
    let place = format!("http://{address}");
    let grants = Grants {
        http: vec![place.parse().unwrap()],
        ..Grants::default()
    };
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let fetched = fetch_beside(&secrets, &client, &grants, format!("{place}/"));
    let headers = tokio.block_on(fetched).unwrap().headers;
    server.join().unwrap();
    assert!(headers.contains(&("said".to_owned(), "[secret token]".to_owned())));
    assert!(!format!("{headers:?}").contains("hunter2"), "{headers:?}");
}

#[test]
fn the_addresses_of_a_name_are_checked_each_time() {
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let lookup = |name: &str| {
        let address = match name {
            "mixed.test" => vec![[10, 0, 0, 1], [169, 254, 169, 254]],
            _ => vec![[127, 0, 0, 1]],
        };
        Ok(address.into_iter().map(|it| (it, 0).into()).collect())
    };
    let client = Client::with(
        Box::new(lookup),
        HttpPolicy::default(),
        Arc::new(Still::default()),
    );
    let client = client.unwrap();
    let grants = Grants {
        http: vec!["*".parse().unwrap()],
        ..Grants::default()
    };
    for name in ["mixed.test", "inside.test"] {
        let url = format!("https://{name}/");
        match tokio.block_on(fetch(&client, &grants, url)) {
            Err(HttpError::Denied(said)) => assert!(said.contains("is not public"), "{said}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_certificate_of_an_unknown_authority_is_named_as_the_reason() {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    let Some(authority) = windlass_test_servers::Authority::for_test().unwrap() else {
        return;
    };
    let (certificate, key) = authority.issue().unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let chain = CertificateDer::pem_file_iter(certificate).unwrap();
    let settings = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(
            chain.map(Result::unwrap).collect(),
            PrivateKeyDer::from_pem_file(key).unwrap(),
        )
        .unwrap();
    let settings = Arc::new(settings);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("https://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            let mut tls = rustls::ServerConnection::new(Arc::clone(&settings)).unwrap();
            // The client ends the first handshake.
            if tls.complete_io(&mut stream).is_ok() {
                let mut buffer = [0; 1024];
                let mut tls = rustls::Stream::new(&mut tls, &mut stream);
                assert!(tls.read(&mut buffer).unwrap() > 0);
                let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
                tls.write_all(answer).unwrap();
            }
        }
    });
    let grants = Grants {
        http: vec![place.parse().unwrap()],
        ..Grants::default()
    };
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let ask = |roots: Roots| {
        let policy = HttpPolicy {
            roots,
            ..HttpPolicy::default()
        };
        let client = Client::new(policy, Arc::new(Still::default())).unwrap();
        tokio.block_on(fetch(&client, &grants, format!("{place}/")))
    };
    let own = std::fs::read(authority.certificate()).unwrap();
    match ask(Roots::System) {
        Err(HttpError::Unreachable(said)) => {
            let expected = "the certificate of `127.0.0.1` is refused: its authority is not known;";
            assert!(said.starts_with(expected), "{said}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(ask(Roots::Only(own)).unwrap().status, 204);
    server.join().unwrap();
}
