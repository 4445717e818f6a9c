//! Requests through a proxy.

use super::*;
use crate::offer::http::proxy::Proxies;

/// A proxy on this machine, with user and password.
fn through(proxy: SocketAddr) -> Proxies {
    through_except(proxy, "")
}

fn through_except(proxy: SocketAddr, direct: &str) -> Proxies {
    Proxies::of(|name| match name {
        "ALL_PROXY" => Some(format!("http://bob:hunter2@{proxy}")),
        "NO_PROXY" => Some(direct.to_owned()),
        _ => None,
    })
}

/// Fetches through a proxy. The host's own lookup knows two names.
fn fetch_through(proxies: Proxies, grants: &[&str], url: &str) -> Result<Response, HttpError> {
    let lookup = |name: &str| match name {
        "public.test" => Ok(vec![([192, 0, 3, 1], 0).into()]),
        "inside.test" => Ok(vec![([10, 0, 0, 1], 0).into()]),
        "here.test" => Ok(vec![([127, 0, 0, 1], 0).into()]),
        _ => Ok(Vec::new()),
    };
    let policy = HttpPolicy {
        proxies,
        ..HttpPolicy::default()
    };
    let client = Client::with(Box::new(lookup), policy, Arc::new(Still::default())).unwrap();
    let tokio = tokio::runtime::Runtime::new().unwrap();
    tokio.block_on(fetch(&client, &granted(grants), url.to_owned()))
}

#[test]
fn the_proxy_gets_the_whole_address_and_its_credentials() {
    let (proxy, requests) = serve(vec![answer(&[], b"ok"); 2]);
    for url in ["http://public.test/a?b", "http://unknown.test/a?b"] {
        let host = url.split('/').nth(2).unwrap();
        let response = fetch_through(through(proxy), &["http://*"], url).unwrap();
        assert_eq!(response.status, 200);
        let request = requests.recv().unwrap();
        let begin = format!("GET {url} HTTP/1.1\r\n");
        assert!(request.starts_with(&begin), "{request}");
        let lower = request.to_ascii_lowercase();
        assert!(lower.contains(&format!("host: {host}\r\n")), "{request}");
        assert!(request.contains("Basic Ym9iOmh1bnRlcjI="), "{request}");
    }
}

#[test]
fn a_tunnel_leads_to_a_server_that_speaks_tls() {
    let refusal = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n".to_vec();
    let (proxy, requests) = serve(vec![refusal]);
    match fetch_through(through(proxy), &["*"], "https://public.test/secret-path") {
        Err(HttpError::Unreachable(why)) => assert_eq!(
            why,
            format!("no connection to `public.test` through the proxy `{proxy}`")
        ),
        other => panic!("{other:?}"),
    }
    let request = requests.recv().unwrap();
    assert!(
        request.starts_with("CONNECT public.test:443 HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(request.contains("Basic Ym9iOmh1bnRlcjI="), "{request}");
    assert!(!request.contains("secret-path"), "{request}");
}

#[test]
fn a_proxy_is_no_way_around_the_grants() {
    let (proxy, requests) = serve(vec![answer(&[], b"ok"); 2]);
    let denied = |grants: &[&str], url: &str| {
        let denied = fetch_through(through(proxy), grants, url);
        assert!(
            matches!(denied, Err(HttpError::Denied(_))),
            "{url}: {denied:?}"
        );
    };
    denied(&["http://public.test"], "http://unknown.test/");
    denied(&["http://*"], "http://10.0.0.1/");
    denied(&["http://*"], "http://169.254.169.254/latest");
    // The host knows that this name leads inside.
    denied(&["http://*"], "http://inside.test/");
    assert!(requests.try_recv().is_err(), "the proxy got no request");
    for grant in ["http://inside.test private", "http://10.0.0.1"] {
        let url = format!("{}/", grant.trim_end_matches(" private"));
        assert_eq!(
            fetch_through(through(proxy), &[grant], &url)
                .unwrap()
                .status,
            200
        );
        assert!(requests.recv().unwrap().starts_with(&format!("GET {url} ")));
    }
}

#[test]
fn hosts_that_need_no_proxy_are_reached_directly() {
    let (server, requests) = serve(vec![answer(&[], b"ok"); 2]);
    let nobody = "127.0.0.1:9".parse().unwrap();
    let port = server.port();
    let url = format!("http://here.test:{port}/x");
    let grant = format!("http://here.test:{port} private");
    let direct = fetch_through(through_except(nobody, "other.test,.TEST"), &[&grant], &url);
    assert_eq!(direct.unwrap().status, 200);
    assert!(requests.recv().unwrap().starts_with("GET /x "));
    // This machine is another one for the proxy.
    let url = format!("http://{server}/x");
    let direct = fetch_through(through(nobody), &[&format!("http://{server}")], &url);
    assert_eq!(direct.unwrap().status, 200);
    assert!(requests.recv().unwrap().starts_with("GET /x "));
}

#[test]
fn a_redirect_chooses_its_way_anew() {
    let to_inside = b"HTTP/1.1 302 Found\r\nlocation: http://inside.test/\r\n\
        content-length: 0\r\nconnection: close\r\n\r\n";
    let (proxy, requests) = serve(vec![to_inside.to_vec(), answer(&[], b"ok")]);
    let policy = HttpPolicy {
        proxies: through(proxy),
        ..HttpPolicy::default()
    };
    let lookup = |name: &str| match name {
        "inside.test" => Ok(vec![([10, 0, 0, 1], 0).into()]),
        _ => Ok(Vec::new()),
    };
    let client = Client::with(Box::new(lookup), policy, Arc::new(Still::default())).unwrap();
    let mut request = request("http://unknown.test/".to_owned());
    request.max_redirects = Some(3);
    let grants = granted(&["http://*"]);
    let mut ask = Ask {
        package: "http",
        grants_file: None,
        bodies: Bodies {
            account: &mut account(64 << 20),
            charged: &mut 0,
        },
        grants: &grants,
        usable: Usable {
            secrets: &Secrets::default(),
            workflow: "",
            named: &[],
        },
        left: Duration::from_secs(60),
        trace: None,
        requests: &mut 0,
        max_requests: 8,
        max_body: 1024,
    };
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let denied = tokio.block_on(client.fetch(request, &mut ask));
    assert!(matches!(denied, Err(HttpError::Denied(_))), "{denied:?}");
    assert_eq!(requests.try_iter().count(), 1);
}

#[test]
fn a_proxy_that_cannot_be_used_is_named_by_its_variable() {
    let proxies = |value: &str| {
        let value = value.to_owned();
        Proxies::of(move |name| (name == "HTTP_PROXY").then(|| value.clone()))
    };
    match fetch_through(
        proxies("socks5://bob:hunter2@p:1"),
        &["http://*"],
        "http://public.test/",
    ) {
        Err(HttpError::Other(why)) => assert_eq!(
            why,
            "the proxy that the variable HTTP_PROXY names cannot be used: it speaks SOCKS, and only \
             HTTP is spoken with a proxy (WL-P024)"
        ),
        other => panic!("{other:?}"),
    }
    match fetch_through(
        proxies("bob:hunter2@gone.test"),
        &["http://*"],
        "http://public.test/",
    ) {
        Err(HttpError::Unreachable(why)) => {
            assert_eq!(why, "the proxy `gone.test` has no address");
        }
        other => panic!("{other:?}"),
    }
}
