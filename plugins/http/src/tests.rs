//! Requests of workflows, against a fake server.

use super::*;
use windlass::http::{HeaderValue, HttpError};
use windlass::testkit::{Call, Report};

/// Status, headers and body, or the reason why there is no response.
type Answer = Result<(u16, &'static [(&'static str, &'static str)], &'static str), HttpError>;

fn call(config: Value, answer: Answer) -> Report<windlass::testkit::Outcome> {
    let answer = answer.map(|(status, headers, body)| Response {
        status,
        headers: headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        body: body.into(),
    });
    Call::new()
        .config(config)
        .http(move |_| answer.clone())
        .run::<Request>()
}

/// Checks the request that is sent: method, URL, headers and body.
#[track_caller]
fn check_request(config: Value, expected: Value) {
    let report = call(config, Ok((200, &[], "")));
    let request = match report.requests.as_slice() {
        [request] => request,
        other => panic!("{} requests, ended as {:?}", other.len(), report.outcome),
    };
    let headers: Vec<_> = request
        .headers
        .iter()
        .map(|header| match &header.value {
            HeaderValue::Plain(value) => format!("{}: {value}", header.name),
            HeaderValue::Secret(secret) => format!("{}: <{secret}>", header.name),
        })
        .collect();
    let body = request
        .body
        .as_ref()
        .map(|it| String::from_utf8_lossy(it.as_bytes()));
    let seen = json!([request.method, request.url, headers, body]);
    assert_eq!(seen, expected);
}

#[track_caller]
fn check_output(headers: &'static [(&str, &str)], body: &'static str, expected: Value) {
    let report = call(
        json!({ "url": "http://a.example" }),
        Ok((200, headers, body)),
    );
    assert_eq!(report.output()["body"], expected);
}

#[track_caller]
fn check_error(config: Value, answer: Answer, expected: Error) {
    assert_eq!(call(config, answer).error(), expected);
}

#[test]
fn a_request_follows_its_configuration() {
    check_request(
        json!({ "url": "https://a.example/x" }),
        json!(["GET", "https://a.example/x", [], null]),
    );
    check_request(
        json!({
            "url": "https://a.example/x?a=1#f",
            "query": { "q": "ä b", "n": [1, 2], "none": null },
            "headers": { "authorization": { "secret": "price-service" }, "x-n": 1 },
        }),
        json!([
            "GET",
            "https://a.example/x?a=1&n=1&n=2&q=%C3%A4+b#f",
            ["authorization: <price-service>", "x-n: 1"],
            null
        ]),
    );
}

#[test]
fn a_body_is_sent_with_its_media_type() {
    let sent = |body: Value, content_type: &str, bytes: &str| {
        let mut config = json!({ "method": "put", "url": "http://a.example" });
        config
            .as_object_mut()
            .unwrap()
            .extend(body.as_object().unwrap().clone());
        let header = format!("content-type: {content_type}");
        check_request(config, json!(["PUT", "http://a.example", [header], bytes]));
    };
    sent(
        json!({ "body": { "a": 1 } }),
        "application/json",
        "{\"a\":1}",
    );
    sent(json!({ "body": null }), "application/json", "null");
    sent(json!({ "body": "hi" }), "text/plain; charset=utf-8", "hi");
    sent(json!({ "json": "hi" }), "application/json", "\"hi\"");
    sent(
        json!({ "form": { "a": "b c", "d": true } }),
        "application/x-www-form-urlencoded",
        "a=b+c&d=true",
    );
}

#[test]
fn a_post_carries_the_idempotency_key_unless_it_has_one() {
    check_request(
        json!({ "method": "POST", "url": "http://a.example" }),
        json!([
            "POST",
            "http://a.example",
            ["idempotency-key: testkit-key"],
            null
        ]),
    );
    check_request(
        json!({ "method": "POST", "url": "http://a.example", "headers": { "Idempotency-Key": "k" } }),
        json!(["POST", "http://a.example", ["Idempotency-Key: k"], null]),
    );
}

#[test]
fn timeouts_sizes_and_redirects_reach_the_host() {
    let config = json!({ "url": "http://a.example", "timeout": "5s", "max-response-bytes": 9 });
    let report = call(config, Ok((200, &[], "")));
    let request = report.requests.first().unwrap();
    assert_eq!(request.timeout, Some(5_000));
    assert_eq!(request.max_response_bytes, Some(9));
    assert_eq!(request.max_redirects, Some(10));

    for (text, ms) in [("1m30s", 90_000), ("PT5S", 5_000), ("2d", 172_800_000)] {
        let config = json!({ "url": "http://a.example", "timeout": text });
        let report = call(config, Ok((200, &[], "")));
        assert_eq!(report.requests.first().unwrap().timeout, Some(ms), "{text}");
    }

    let config = json!({ "url": "http://a.example", "follow-redirects": false });
    let report = call(config, Ok((200, &[], "")));
    assert_eq!(report.requests.first().unwrap().max_redirects, None);
}

#[test]
fn a_response_is_parsed_if_it_says_that_it_is_json() {
    check_output(
        &[("Content-Type", "application/json; charset=utf-8")],
        "[1]",
        json!([1]),
    );
    check_output(
        &[("content-type", "application/problem+json")],
        "{}",
        json!({}),
    );
    check_output(&[("content-type", "text/html")], "<p>", json!("<p>"));
    check_output(&[], "[1]", json!("[1]"));
    check_output(&[("content-type", "application/json")], "", json!(null));
}

/// The body as a value, of a response with these headers.
#[track_caller]
fn decoded(headers: &[(&str, &str)], body: &[u8]) -> Result<Value> {
    body::decode(&Response {
        status: 200,
        headers: headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        body: body.to_vec(),
    })
}

#[test]
fn bytes_that_are_no_text_are_kept() {
    let base64 = |text: &str| json!({ "base64": text });
    for (headers, body, expected) in [
        (
            vec![("content-type", "image/png")],
            b"\x89PNG".as_slice(),
            base64("iVBORw=="),
        ),
        (vec![], b"caf\xe9", base64("Y2Fm6Q==")),
        (vec![], b"\xef\xbb\xbfa", json!("a")),
        (
            vec![("content-type", "application/json")],
            b"\xef\xbb\xbf[1]",
            json!([1]),
        ),
        (
            vec![("content-type", "application/octet-stream")],
            b"text",
            json!("text"),
        ),
        (
            vec![("content-type", "text/plain; Charset=\"UTF-8\"")],
            b"a",
            json!("a"),
        ),
        // A charset that the host could not decode, though the bytes look like UTF-8.
        (
            vec![("content-type", "text/plain; charset=utf-32")],
            b"a\0\0\0",
            base64("YQAAAA=="),
        ),
        (vec![("content-encoding", "identity")], b"a", json!("a")),
        (vec![("content-encoding", "compress")], b"", json!(null)),
    ] {
        assert_eq!(decoded(&headers, body), Ok(expected), "{headers:?}");
    }
}

#[test]
fn unreadable_bodies_are_named() {
    let fails = |headers: &[(&str, &str)], body: &[u8], expected: &str| {
        let failed = decoded(headers, body).unwrap_err();
        assert!(matches!(failed, Error::Permanent(_)), "{failed:?}");
        assert!(failed.message().contains(expected), "{}", failed.message());
    };
    fails(
        &[("content-encoding", "compress")],
        b"x",
        "content coding \"compress\"",
    );
    let utf32 = [("content-type", "application/json; charset=utf-32")];
    fails(&utf32, b"1\0\0\0", "charset \"utf-32\"");
    fails(
        &[("content-type", "application/json")],
        b"{",
        "but it is not JSON",
    );
    // The status is what failed, and not the body.
    check_error(
        json!({ "url": "http://a.example" }),
        Ok((404, &[("content-encoding", "compress")], "x")),
        Error::permanent("GET http://a.example answered 404, where 2xx was expected: x")
            .details(json!({ "status": 404 })),
    );
}

#[test]
fn repeated_headers_are_joined_unless_that_loses_their_bounds() {
    let headers = &[
        ("Vary", "a"),
        ("vary", "b"),
        ("Set-Cookie", "a=1; Expires=Wed, 09 Jun 2027 10:18:14 GMT"),
        ("set-cookie", "b=2"),
        ("www-authenticate", "Digest a=1, b=2"),
    ];
    let report = call(json!({ "url": "http://a.example" }), Ok((200, headers, "")));
    assert_eq!(
        report.output()["headers"],
        json!({
            "vary": "a, b",
            "set-cookie": ["a=1; Expires=Wed, 09 Jun 2027 10:18:14 GMT", "b=2"],
            "www-authenticate": ["Digest a=1, b=2"],
        })
    );
}

#[test]
fn a_mistake_is_found_before_anything_runs() {
    let found = |config: Value| windlass::testkit::check::<Request>(config);
    let url = "https://a.example/x?y=1";
    for config in [
        json!({ "url": url }),
        json!({ "url": "http://[::1]:8080/a@b", "timeout": "1m30s", "method": "purge" }),
        json!({ "url": "HTTPS://a.example", "headers": { "x-a": 1, "b": { "secret": "s" } } }),
        json!({ "url": url, "expect": [200, 404, 999], "form": { "a": [1, null] } }),
        json!({ "url": url, "headers": { "authorization": "Basic\tabc~ !" }, "json": null }),
        json!({}),
    ] {
        assert_eq!(found(config.clone()), [], "{config}");
    }
    let finds = |change: Value, member: &str, expected: &str| {
        let mut config = json!({ "url": url });
        let change = change.as_object().unwrap().clone();
        config.as_object_mut().unwrap().extend(change);
        let findings = found(config.clone());
        let [finding] = findings.as_slice() else {
            panic!("{config}: {findings:?}");
        };
        assert_eq!(finding.pointer.as_deref().unwrap_or(""), member, "{config}");
        assert!(
            finding.message.contains(expected),
            "{config}: {}",
            finding.message
        );
        assert!(!finding.message.contains("hunter2"), "{}", finding.message);
    };
    for (wrong, why) in [
        ("1 s", "is not a duration"),
        ("5", "has no unit"),
        ("1.5s", "is not a duration"),
        ("-5s", "is negative"),
        ("99999999w", "at most `36600d`"),
        ("P1Y", "has years or months"),
        ("", "is not a duration"),
    ] {
        finds(json!({ "timeout": wrong }), "/timeout", why);
    }
    finds(json!({ "timeout": "0s" }), "/timeout", "without any time");
    finds(json!({ "method": "GET /" }), "/method", "is no method");
    finds(json!({ "method": "" }), "/method", "is no method");
    finds(json!({ "method": "connect" }), "/method", "is not offered");
    finds(json!({ "url": "/x" }), "/url", "no absolute address");
    finds(
        json!({ "url": "a.example/x" }),
        "/url",
        "no absolute address",
    );
    finds(
        json!({ "url": "ftp://a.example" }),
        "/url",
        "neither http nor https",
    );
    finds(json!({ "url": "http://" }), "/url", "has no host");
    finds(
        json!({ "url": "http://a.example:99999" }),
        "/url",
        "is malformed",
    );
    finds(json!({ "url": "http://a b/" }), "/url", "is malformed");
    finds(
        json!({ "url": "http://bob:hunter2@a.example/" }),
        "/url",
        "\"http://a.example/\"",
    );
    finds(
        json!({ "url": "http://bob:hun/hunter2@a.example/" }),
        "/url",
        "is malformed",
    );
    finds(
        json!({ "headers": { "a b": "1" } }),
        "/headers/a b",
        "no name of a header",
    );
    finds(
        json!({ "headers": { "a": "1\n2" } }),
        "/headers/a",
        "no header may have",
    );
    finds(
        json!({ "headers": { "a": "é" } }),
        "/headers/a",
        "no header may have",
    );
    finds(json!({ "expect": [200, 99] }), "/expect", "the status 99");
    finds(json!({ "json": 1, "body": null }), "", "only one of");
    finds(json!({ "query": { "a": { "b": 1 } } }), "/query", "query.a");
    finds(json!({ "form": { "a": [[]] } }), "/form", "form.a");
}

#[test]
fn a_body_that_is_only_known_in_a_run_counts_as_one() {
    let configuration = Configuration {
        config: json!({ "url": "http://a.example", "form": { "a": 1 } }),
        unknown: vec!["/json/b".to_owned()],
    };
    let found = Request::check(&configuration);
    assert!(
        found.len() == 1 && found[0].message.contains("only one of"),
        "{found:?}"
    );
}

#[test]
fn no_failure_repeats_a_user_or_a_password() {
    let url = json!({ "url": "http://bob:hunter2@a.example/x?token=abc#f" });
    let answers: [Answer; 3] = [
        Ok((500, &[], "")),
        Err(HttpError::Invalid(
            "credentials do not belong into an address".to_owned(),
        )),
        Err(HttpError::Timeout),
    ];
    for answer in answers {
        let error = call(url.clone(), answer).error();
        let message = error.message();
        assert!(message.contains("GET http://a.example/x "), "{message}");
        for hidden in ["bob", "hunter2", "abc"] {
            assert!(!message.contains(hidden), "{message}");
        }
    }
}

#[test]
fn an_unexpected_status_fails_by_its_kind() {
    let url = json!({ "url": "http://a.example/x?token=1" });
    let says = |status: u16, excerpt: &str| {
        format!("GET http://a.example/x answered {status}, where 2xx was expected: {excerpt}")
    };
    check_error(
        url.clone(),
        Ok((404, &[], "gone")),
        Error::permanent(says(404, "gone")).details(json!({ "status": 404, "body": "gone" })),
    );
    check_error(
        url.clone(),
        Ok((503, &[], "")),
        Error::retryable(says(503, "")).details(json!({ "status": 503, "body": null })),
    );
    for status in [408, 425, 500, 599] {
        check_error(
            url.clone(),
            Ok((status, &[], "")),
            Error::retryable(says(status, "")).details(json!({ "status": status, "body": null })),
        );
    }
    check_error(
        url.clone(),
        Ok((429, &[("Retry-After", "7")], "")),
        Error::retryable(says(429, ""))
            .details(json!({ "status": 429, "body": null }))
            .after(Duration::from_secs(7)),
    );
    // The test kit's clock stands at 22:13:20 of that day.
    check_error(
        url,
        Ok((503, &[("retry-after", "Tue, 14 Nov 2023 22:13:50 GMT")], "")),
        Error::retryable(says(503, ""))
            .details(json!({ "status": 503, "body": null }))
            .after(Duration::from_secs(30)),
    );
}

#[test]
fn an_expected_status_is_no_failure() {
    let config = json!({ "url": "http://a.example", "expect": [404] });
    assert_eq!(
        call(config.clone(), Ok((404, &[], ""))).output()["status"],
        json!(404)
    );
    check_error(
        config,
        Ok((200, &[], "")),
        Error::permanent("GET http://a.example answered 200, where 404 was expected: ")
            .details(json!({ "status": 200, "body": null })),
    );
    // A long body is no part of the details.
    let long = "x".repeat(5_000).leak();
    let failed = call(json!({ "url": "http://a.example" }), Ok((500, &[], long))).error();
    let details = failed.failure().and_then(|failure| failure.details.clone());
    assert_eq!(details, Some(json!({ "status": 500 })));
}

#[test]
fn no_response_fails_by_its_reason() {
    let url = json!({ "url": "http://a.example/x?token=1" });
    let check = |given: HttpError, expected| check_error(url.clone(), Err(given), expected);
    let x = "GET http://a.example/x";
    check(
        HttpError::Timeout,
        Error::retryable(format!("{x} got no answer in time")),
    );
    check(
        HttpError::Unreachable("refused".to_owned()),
        Error::retryable(format!("{x} could not be reached: refused")),
    );
    check(
        HttpError::Denied("no grant".to_owned()),
        Error::permanent(format!("{x} is not granted: no grant")),
    );
    check(
        HttpError::NoSecret("s".to_owned()),
        Error::permanent(format!(
            "{x} needs the secret s, which is unknown, not granted, or not for this request"
        )),
    );
    check(
        HttpError::Invalid("no host".to_owned()),
        Error::invalid(format!("{x} is malformed: no host")),
    );
}

#[test]
fn a_wrong_configuration_is_invalid_before_anything_is_sent() {
    let check = |config: Value, expected: &str| {
        let report = call(config, Ok((200, &[], "")));
        assert!(report.requests.is_empty());
        match report.error() {
            Error::Invalid(failure) => {
                assert!(failure.message.contains(expected), "{}", failure.message);
            }
            other => panic!("the error is not `invalid` but {other:?}"),
        }
    };
    check(json!({}), "\"url\" is a required property");
    check(
        json!({ "url": "http://a.example", "ulr": 1 }),
        "'ulr' was unexpected",
    );
    check(
        json!({ "url": "http://a.example", "timeout": "5 weeks" }),
        "is not a duration",
    );
    check(
        json!({ "url": "http://a.example", "json": 1, "body": 1 }),
        "only one of",
    );
    check(
        json!({ "url": "http://a.example", "query": { "a": {} } }),
        "query.a",
    );
    check(
        json!({ "url": "http://a.example", "headers": { "a": { "secrets": "b" } } }),
        "headers/a",
    );
}
