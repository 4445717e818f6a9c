//! The limits of a host for HTTP clients.

use serde_json::{Value, json};
use windlass_tests::harness::{Line, Place, Web};

fn echo() -> Value {
    json!({ "workflow": "one", "nodes": { "a": { "use": "echo/echo" } } })
}

fn web(settings: &[(&str, &str)]) -> (Place, Web) {
    let mut place = Place::new(&["echo"]);
    for (key, value) in settings {
        place = place.with(key, value);
    }
    let web = Web::serve(&place);
    (place, web)
}

const JSON: &str = "content-type: application/json";

#[test]
fn a_token_is_wanted_where_there_is_one() {
    let token = "0123456789abcdef0123456789abcdef";
    let (_place, web) = web(&[("server.token", token)]);
    let status = |path: &str, given: Option<&str>| {
        let header = given.map(|given| format!("authorization: Bearer {given}"));
        let headers: Vec<&str> = header.iter().map(String::as_str).collect();
        web.ask("GET", path, &headers, "").status
    };
    for path in ["/api/v1/runs", "/metrics", "/api/openapi.json", "/nowhere"] {
        assert_eq!(status(path, None), 401, "{path}");
        assert_eq!(
            status(path, Some("0123456789abcdef0123456789abcdee")),
            401,
            "{path}"
        );
        assert_ne!(status(path, Some(token)), 401, "{path}");
    }
    for path in [
        "/livez",
        "/readyz",
        "/hooks/x",
        "/resume/x",
        "/errors/WL-H001",
    ] {
        assert_ne!(status(path, None), 401, "{path} needs none");
    }
    let answer = web.ask("GET", "/api/v1/runs", &[], "");
    assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    assert_eq!(answer.problem(), (401, "WL-H001".to_owned()));
}

#[test]
fn beyond_this_machine_a_token_is_demanded() {
    let check = |settings: &[(&str, &str)], code: &str| {
        let mut place = Place::new(&[]);
        for (key, value) in settings {
            place = place.with(key, value);
        }
        let said = place.say(&["-o", "jsonl", "serve"]);
        assert_eq!(said.error()["code"], code, "{said:#?}");
        assert_eq!(said.exit, Some(2), "{said:#?}");
    };
    check(&[("server.listen", "0.0.0.0:0")], "WL-H020");
    check(&[("server.listen", "[::]:0")], "WL-H020");
    check(&[("server.token", "short")], "WL-H022");
    check(&[("server.listen", "nowhere")], "WL-H022");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = taken.local_addr().expect("it has an address").to_string();
    check(&[("server.listen", &address)], "WL-H021");
}

#[test]
fn a_senseless_request_is_a_problem_and_never_more() {
    let (_place, web) = web(&[]);
    web.publish(&echo());
    let many = "a".repeat(2 * 1024 * 1024);
    let deep = format!(
        "{{\"workflow\": \"one\", \"input\": {}",
        "[".repeat(100_000)
    );
    for (method, path, header, body, status, code) in [
        ("POST", "/api/v1/runs", JSON, "{", 400, "WL-H005"),
        ("POST", "/api/v1/runs", JSON, deep.as_str(), 400, "WL-H005"),
        ("POST", "/api/v1/runs", JSON, "[]", 422, "WL-H005"),
        (
            "POST",
            "/api/v1/runs",
            JSON,
            r#"{"workflow":"one","x":1}"#,
            422,
            "WL-H005",
        ),
        (
            "POST",
            "/api/v1/runs",
            JSON,
            r#"{"workflow":"a\u0000"}"#,
            422,
            "WL-H005",
        ),
        (
            "POST",
            "/api/v1/runs",
            JSON,
            r#"{"workflow":"gone"}"#,
            404,
            "WL-R084",
        ),
        ("POST", "/api/v1/runs", JSON, many.as_str(), 413, "WL-H006"),
        (
            "POST",
            "/api/v1/runs",
            "content-type: text/plain",
            "{}",
            415,
            "WL-H004",
        ),
        ("POST", "/api/v1/runs", "x-none: 1", "{}", 415, "WL-H004"),
        ("GET", "/api/v1/runs?limit=0", JSON, "", 400, "WL-H008"),
        ("GET", "/api/v1/runs?limit=many", JSON, "", 400, "WL-H008"),
        ("GET", "/api/v1/runs?cursor=x", JSON, "", 400, "WL-H008"),
        ("GET", "/api/v1/runs?status=well", JSON, "", 400, "WL-H008"),
        (
            "GET",
            "/api/v1/runs?state=running",
            JSON,
            "",
            400,
            "WL-H008",
        ),
        (
            "GET",
            "/api/v1/runs?limit=1&Limit=2",
            JSON,
            "",
            400,
            "WL-H008",
        ),
        (
            "GET",
            "/api/v1/plugins?status=running",
            JSON,
            "",
            400,
            "WL-H008",
        ),
        ("GET", "/api/v1/runs/%ff", JSON, "", 400, "WL-H008"),
        (
            "GET",
            "/api/v1/dead-letters/9223372036854775808",
            JSON,
            "",
            400,
            "WL-H008",
        ),
        ("PATCH", "/api/v1/runs", JSON, "", 405, "WL-H003"),
        ("GET", "/nowhere", JSON, "", 404, "WL-H002"),
    ] {
        let answer = web.ask(method, path, &[header], body);
        assert_eq!(
            answer.problem(),
            (status, code.to_owned()),
            "{method} {path}"
        );
    }
    let allowed = web.ask("PATCH", "/api/v1/runs", &[], "");
    assert!(
        allowed
            .header("allow")
            .is_some_and(|allow| allow.contains("POST")),
        "{allowed:?}"
    );
    for garbage in ["\0\0\0\0\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n"] {
        let mut line = web.line();
        line.send(garbage.as_bytes());
        let said = line.rest();
        assert!(
            said.is_empty() || said.contains(" 400 "),
            "{garbage:?}: {said}"
        );
    }
    assert_eq!(web.get_any("/readyz").status, 200);
}

#[test]
fn a_slow_sender_is_cut_off_and_delays_no_other() {
    let (_place, web) = web(&[("server.timeout", "500ms"), ("server.connections", "40")]);
    // So many connections would leave no room for others, if they were not cut off.
    let mut slow: Vec<Line> = (0..40).map(|_| web.line()).collect();
    for line in &mut slow {
        assert!(line.send(b"GET /api/v1/runs HTTP/1.1\r\nx-slow: "));
    }
    assert_eq!(web.get_any("/livez").status, 200);
    for line in &mut slow {
        assert_eq!(line.rest(), "", "it is cut off without an answer");
    }
    let mut body = web.line();
    body.send(b"POST /api/v1/stimuli HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{");
    let answer = body.answer().expect("it is answered");
    assert_eq!(answer.problem(), (408, "WL-H007".to_owned()));
}

#[test]
fn a_thousand_requests_at_once_are_all_answered() {
    let (_place, web) = web(&[]);
    web.publish(&echo());
    let json = json!({ "workflow": "one" }).to_string();
    let address = web.address;
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let ask = || {
            let mut line = Line::to(address);
            line.ask("POST", "/api/v1/runs", &[JSON], &json).status
        };
        let asked: Vec<_> = (0..1000).map(|_| scope.spawn(ask)).collect();
        let answers = asked.into_iter().map(|one| one.join());
        answers.map(|one| one.expect("each is answered")).collect()
    });
    let made = statuses.iter().filter(|status| **status == 201).count();
    let other: Vec<u16> = statuses
        .iter()
        .copied()
        .filter(|it| ![201, 503].contains(it))
        .collect();
    assert!(
        other.is_empty(),
        "started, or told to come again: {other:?}"
    );
    assert!(made >= 500, "{made} of 1000 were started");
    windlass_tests::harness::until("what was started has ended", || {
        let list = web.get("/api/v1/runs?status=pending,running&limit=1");
        list["items"] == json!([])
    });
    let text = web.get_any("/metrics").body;
    let begun = format!("\nwindlass_runs_started_total{{workflow=\"one\"}} {made}\n");
    assert!(text.contains(&begun), "as many as were told so: {made}");
}

#[test]
fn a_request_has_one_host_and_a_valid_one() {
    let (_place, web) = web(&[("server.hosts", "[\"a\", \"a.b\"]")]);
    let status = |version: &str, path: &str, hosts: &str| {
        let mut line = web.line();
        let head = format!("GET {path} HTTP/{version}\r\n{hosts}\r\n");
        assert!(line.send(head.as_bytes()));
        let answer = line.answer().expect("it is answered");
        if answer.status == 400 {
            assert_eq!(answer.problem(), (400, "WL-H023".to_owned()), "{hosts:?}");
        }
        answer.status
    };
    for path in ["/livez", "/readyz", "/metrics", "/api/v1/runs"] {
        for hosts in ["host: a\r\n", "host: [::1]:7433\r\n", "host: a.b:80\r\n"] {
            assert_eq!(status("1.1", path, hosts), 200, "{path} {hosts:?}");
        }
        for hosts in [
            "",
            "host: a\r\nhost: a\r\n",
            "host: a\r\nHOST: b\r\n",
            "host:\r\n",
            "host: a, b\r\n",
            "host: http://a/\r\n",
            "host: user@a\r\n",
            "host: a:port\r\n",
        ] {
            assert_eq!(status("1.1", path, hosts), 400, "{path} {hosts:?}");
        }
        // Before 1.1 the header is optional, but a host without a token requires one of its own
        // names.
        let named = if path.ends_with("z") { 200 } else { 421 };
        assert_eq!(status("1.0", path, ""), named, "{path} by HTTP/1.0");
        assert_eq!(
            status("1.0", path, "host: a\r\n"),
            200,
            "{path} by HTTP/1.0"
        );
        let two = "host: a\r\nhost: b\r\n";
        assert_eq!(status("1.0", path, two), 400, "{path} by HTTP/1.0");
    }
    for path in ["/hooks/x", "/resume/x", "/errors/WL-H001", "/nowhere"] {
        assert_eq!(status("1.1", path, ""), 400, "{path}");
    }
}
