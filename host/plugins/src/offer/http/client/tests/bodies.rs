//! Bodies of responses, as servers send them, and as they should not.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Checks the body, and the headers that describe it.
#[track_caller]
fn check(headers: &[&str], body: &[u8], expected: Content, described: &[(&str, &str)]) {
    let response = fetched(answer(headers, body)).unwrap();
    let same = match (&response.body, &expected) {
        (Content::Text(text), Content::Text(expected)) => text == expected,
        (Content::Bytes(bytes), Content::Bytes(expected)) => bytes == expected,
        _ => false,
    };
    assert!(same, "{headers:?}: {:?}, not {expected:?}", response.body);
    let names = ["content-type", "content-encoding", "content-length"];
    let found: Vec<(&str, &str)> = response
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .filter(|(name, _)| names.contains(name))
        .collect();
    assert_eq!(found, described, "{headers:?}");
}

fn text(text: &str) -> Content {
    Content::Text(text.to_owned())
}

fn bytes(bytes: &[u8]) -> Content {
    Content::Bytes(bytes.to_vec())
}

#[track_caller]
fn fails(headers: &[&str], body: &[u8], expected: &str) {
    let failed = fetched(answer(headers, body)).unwrap_err();
    let shown = format!("{failed:?}");
    assert!(shown.contains(expected), "{headers:?}: {shown}");
}

#[test]
fn a_coded_body_is_inflated_for_the_guest() {
    let json = "content-type: application/json";
    let plain = [("content-type", "application/json")];
    let coded = gzip(b"{\"a\":1}");
    check(
        &[json, "content-encoding: gzip"],
        &coded,
        text("{\"a\":1}"),
        &plain,
    );
    let twice = gzip(&coded);
    check(
        &[json, "content-encoding: gzip, gzip"],
        &twice,
        text("{\"a\":1}"),
        &plain,
    );
    let two = [json, "content-encoding: gzip", "content-encoding: gzip"];
    check(&two, &twice, text("{\"a\":1}"), &plain);
    let length = [
        ("content-type", "application/json"),
        ("content-length", "7"),
    ];
    let identity = [length[0], ("content-encoding", "identity"), length[1]];
    check(
        &[json, "content-encoding: identity"],
        b"{\"a\":1}",
        text("{\"a\":1}"),
        &identity,
    );
    check(
        &["content-encoding: gzip"],
        &gzip(b"\x89PNG"),
        bytes(b"\x89PNG"),
        &[],
    );
}

#[test]
fn a_coding_that_the_host_does_not_know_is_left_to_the_guest() {
    let described = [
        ("content-type", "text/plain"),
        ("content-encoding", "compress"),
        ("content-length", "1"),
    ];
    let headers = ["content-type: text/plain", "content-encoding: compress"];
    check(&headers, b"x", bytes(b"x"), &described);
    // A part of a coded body.
    let part = b"HTTP/1.1 206 Partial Content\r\ncontent-encoding: gzip\r\n\
        content-length: 2\r\nconnection: close\r\n\r\nxy";
    let response = fetched(part.to_vec()).unwrap();
    assert!(matches!(response.body, Content::Bytes(bytes) if bytes == b"xy"));
    assert!(
        response
            .headers
            .contains(&("content-encoding".to_owned(), "gzip".to_owned()))
    );
    // An answer without a body has nothing to inflate.
    let empty = ["content-encoding: gzip"];
    check(
        &empty,
        b"",
        bytes(b""),
        &[("content-encoding", "gzip"), ("content-length", "0")],
    );
}

#[test]
fn a_hostile_body_fails_and_costs_no_more_than_its_bound() {
    let gzip_of = |body: &[u8]| (["content-encoding: gzip"], gzip(body));
    let (headers, bomb) = gzip_of(&vec![0; 64 << 20]);
    fails(&headers, &bomb, "TooLarge(1048576)");
    let (headers, whole) = gzip_of(b"some text");
    fails(
        &headers,
        &whole[..whole.len() - 1],
        "no whole body in the content coding `gzip`",
    );
    fails(
        &headers,
        b"{\"a\":1}",
        "no whole body in the content coding `gzip`",
    );
    for coding in ["br", "zstd"] {
        let header = format!("content-encoding: {coding}");
        fails(
            &[&header],
            b"\xff\xff\xff\xff{}",
            &format!("content coding `{coding}`"),
        );
    }
    // There is memory for the coded body, and none for the inflated one.
    let (address, _requests) = serve(vec![answer(&headers, &gzip(&vec![0; 1 << 20]))]);
    let failed = fetch_as(format!("http://{address}/"), |_, _| {}, 600 << 10);
    match failed {
        Err(HttpError::Other(why)) => assert!(why.contains("no memory"), "{why}"),
        other => panic!("{other:?}"),
    }
    // The bound of the request counts what the guest gets.
    let (address, _requests) = serve(vec![answer(&headers, &gzip(&[0; 1000]))]);
    let bounded = |request: &mut Request, _: &mut HttpPolicy| {
        request.max_response_bytes = Some(999);
    };
    let failed = fetch_as(format!("http://{address}/"), bounded, 64 << 20);
    assert!(
        matches!(failed, Err(HttpError::TooLarge(999))),
        "{failed:?}"
    );
    // A body that ends early.
    let mut cut = answer(&["content-type: text/plain"], b"0123456789");
    cut.truncate(cut.len() - 3);
    match fetched(cut) {
        Err(HttpError::Unreachable(why)) => assert!(why.ends_with("broke"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_text_of_any_charset_is_given_in_utf8() {
    check(
        &["content-type: text/plain; charset=ISO-8859-1"],
        b"caf\xe9",
        text("café"),
        &[("content-type", "text/plain; charset=utf-8")],
    );
    check(
        &["content-type: application/json;charset=utf-16le"],
        b"{\0}\0",
        text("{}"),
        &[("content-type", "application/json; charset=utf-8")],
    );
    check(
        &["content-type: application/json"],
        b"\xff\xfe{\0}\0",
        text("{}"),
        &[("content-type", "application/json; charset=utf-8")],
    );
    // A byte order mark is no part of the text.
    check(
        &["content-type: application/json"],
        b"\xef\xbb\xbf{}",
        text("{}"),
        &[
            ("content-type", "application/json"),
            ("content-length", "5"),
        ],
    );
    // Bytes that are no text in their charset stay as they are.
    for (headers, body) in [
        (
            "content-type: text/plain; charset=utf-32",
            b"a\0\0\0".as_slice(),
        ),
        ("content-type: text/plain", b"caf\xe9"),
        ("content-type: image/png", b"\x89PNG"),
        ("content-type: application/octet-stream", b"text"),
        ("x: y", b"text"),
    ] {
        let response = fetched(answer(&[headers], body)).unwrap();
        assert!(
            matches!(response.body, Content::Bytes(bytes) if bytes == body),
            "{headers}"
        );
    }
    // Three bytes for each of the body, which may be too many.
    let euros = vec![0x80; 400_000];
    fails(
        &["content-type: text/plain; charset=windows-1252"],
        &euros,
        "TooLarge(1048576)",
    );
}

#[test]
fn a_secret_is_removed_from_each_form_of_a_response() {
    let utf16: Vec<u8> = "hunter2hunter2"
        .bytes()
        .flat_map(|byte| [byte, 0])
        .collect();
    let secret = Secret {
        source: Source::Value("hunter2hunter2".to_owned()),
        to: Vec::new(),
        workflows: None,
    };
    let secrets = Secrets::new([("token".to_owned(), secret)].into()).unwrap();
    for (headers, body) in [
        (
            ["content-encoding: gzip", "content-type: text/plain"],
            gzip(b"hunter2hunter2"),
        ),
        (
            ["x: y", "content-type: text/plain; charset=utf-16le"],
            utf16,
        ),
        (
            ["content-encoding: gzip", "content-type: image/png"],
            gzip(b"hunter2hunter2"),
        ),
    ] {
        let (address, _requests) = serve(vec![answer(&headers, &body)]);
        let client = Client::new(HttpPolicy::default(), Arc::new(Still::default())).unwrap();
        let place = format!("http://{address}");
        let grants = granted(&[&place]);
        let tokio = tokio::runtime::Runtime::new().unwrap();
        let fetched = fetch_beside(&secrets, &client, &grants, format!("{place}/"));
        let body = match tokio.block_on(fetched).unwrap().body {
            Content::Text(text) => text.into_bytes(),
            Content::Bytes(bytes) => bytes,
        };
        assert_eq!(
            String::from_utf8(body).unwrap(),
            "[secret token]",
            "{headers:?}"
        );
    }
}

#[test]
fn no_header_is_dropped_for_its_bytes() {
    let raw = b"HTTP/1.1 200 OK\r\nx-latin: caf\xe9\r\nx-utf: caf\xc3\xa9\r\n\
        set-cookie: a=1; Expires=Wed, 09 Jun 2027 10:18:14 GMT\r\nset-cookie: b=2\r\n\
        content-length: 0\r\nconnection: close\r\n\r\n";
    let headers = fetched(raw.to_vec()).unwrap().headers;
    for (name, value) in [
        ("x-latin", "café"),
        ("x-utf", "café"),
        ("set-cookie", "a=1; Expires=Wed, 09 Jun 2027 10:18:14 GMT"),
        ("set-cookie", "b=2"),
    ] {
        assert!(
            headers.contains(&(name.to_owned(), value.to_owned())),
            "{headers:?}"
        );
    }
}

#[test]
fn a_request_names_the_host_unless_it_names_itself() {
    let sent = |headers: &[(&str, &str)]| {
        let (address, requests) = serve(vec![answer(&[], b"")]);
        let with = |request: &mut Request, _: &mut HttpPolicy| {
            let header = |(name, value): &(&str, &str)| {
                use crate::bindings::host::windlass::http::http::{Header, HeaderValue};
                Header {
                    name: (*name).to_owned(),
                    value: HeaderValue::Plain((*value).to_owned()),
                }
            };
            request.headers = headers.iter().map(header).collect();
        };
        fetch_as(format!("http://{address}/"), with, 64 << 20).unwrap();
        requests.recv().unwrap().to_ascii_lowercase()
    };
    let own = concat!("user-agent: windlass/", env!("CARGO_PKG_VERSION"), "\r\n");
    assert!(sent(&[]).contains(own));
    let named = sent(&[("User-Agent", "shop/1")]);
    assert!(named.contains("user-agent: shop/1\r\n"), "{named}");
    assert_eq!(named.matches("user-agent").count(), 1);
}
