//! The console: its page and its files, and sessions.

use std::io::Read as _;

use serde_json::json;

use super::requests::Answered;
use super::*;

const JSON: (&str, &str) = ("content-type", "application/json");
const OWN: (&str, &str) = ("origin", "http://localhost");
const FOREIGN: (&str, &str) = ("origin", "https://evil.example");

/// A day, which is longer than a session.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Rig {
    fn page(&self, path: &str, headers: &[(&str, &str)]) -> Answered {
        self.send(("GET", path), headers, "")
    }

    /// The cookie of a new session, as a browser sends it.
    fn login(&self, headers: &[(&str, &str)]) -> String {
        let headers = [&[JSON], headers].concat();
        let body = json!({ "token": TOKEN }).to_string();
        let answered = self.send(("POST", "/ui/session"), &headers, body);
        assert_eq!(answered.status, 204, "{answered:?}");
        let cookie = answered.header("set-cookie").unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }
}

#[test]
fn each_address_of_the_console_has_its_page_without_a_token() {
    let rig = Rig::new(Bounds::default());
    for (path, base) in [
        ("/ui/", "./"),
        ("/ui/runs", "./"),
        ("/ui/runs?status=faulted", "./"),
        ("/ui/runs/85e816d2-0ca8-8547-9c5b-628fca6ffca2", "../"),
        ("/ui/runs/%3Cscript%3E", "../"),
        ("/ui/schedules", "./"),
        ("/ui/dead-letters", "./"),
        ("/ui/plugins", "./"),
        ("/ui/plugins/shop?version=1.0.0", "../"),
        ("/ui/host", "./"),
    ] {
        let page = rig.page(path, &[]);
        assert_eq!(page.status, 200, "{path}");
        assert_eq!(
            page.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        let text = String::from_utf8(page.body.to_vec()).unwrap();
        assert!(text.contains(&format!("<base href=\"{base}\">")), "{path}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self' 'sha256-"));
        assert!(policy.ends_with("frame-ancestors 'none'"), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "same-origin"),
            ("cache-control", "no-cache"),
        ] {
            assert_eq!(page.header(name), Some(value), "{path}");
        }
        let tag = page.header("etag").unwrap().to_owned();
        let again = rig.page(path, &[("if-none-match", &tag)]);
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
    }
    for path in ["/", "/ui"] {
        let answered = rig.page(path, &[]);
        assert_eq!(answered.status, 302, "{path}");
        assert_eq!(answered.header("location"), Some("ui/"), "{path}");
    }
}

#[test]
fn unknown_addresses_of_the_console_are_not_found() {
    let rig = Rig::new(Bounds::default());
    for path in [
        "/ui/nowhere",
        "/ui/runs/a/b",
        "/ui/%2e%2e/api/v1/runs",
        "/ui/runs/",
    ] {
        let page = rig.page(path, &[]);
        assert_eq!(page.status, 404, "{path}");
        assert_eq!(
            page.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        assert!(page.header("content-security-policy").is_some(), "{path}");
    }
    for path in [
        "/ui/app/nothing.js",
        "/ui/app/index.html",
        "/ui/app/../main.js",
        "/ui/app/%2e%2e/x",
    ] {
        let answered = rig.page(path, &[]);
        assert_eq!(answered.status, 404, "{path}");
    }
    // The console takes nothing but sessions.
    let posted = rig.send(("POST", "/ui/runs"), &[JSON], "{}");
    assert_eq!(posted.status, 401, "{posted:?}");
    let posted = rig.send_as_token(("POST", "/ui/runs"), JSON.1, "{}");
    assert_eq!(posted.status, 405, "{posted:?}");
}

#[test]
fn each_file_is_sent_packed_or_plain_and_once() {
    let rig = Rig::new(Bounds::default());
    for file in windlass_console::File::all() {
        let path = format!("/ui/app/{}", file.name);
        let packed = rig.page(&path, &[("accept-encoding", "br, gzip;q=0.9")]);
        assert_eq!(packed.status, 200, "{path}");
        assert_eq!(packed.header("content-encoding"), Some("gzip"));
        assert_eq!(packed.header("content-type"), Some(file.media));
        assert_eq!(packed.header("vary"), Some("accept-encoding"));
        let mut unpacked = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(&packed.body[..]);
        reader.read_to_end(&mut unpacked).unwrap();
        for coding in ["identity", "gzip;q=0", ""] {
            let plain = rig.page(&path, &[("accept-encoding", coding)]);
            assert_eq!(plain.header("content-encoding"), None, "{path} {coding}");
            assert_eq!(plain.body, unpacked, "{path}");
        }
        let tag = packed.header("etag").unwrap();
        for known in [tag.to_owned(), format!("\"x\", W/{tag}")] {
            let again = rig.page(&path, &[("if-none-match", &known)]);
            assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
            assert_eq!(again.header("etag"), Some(tag));
        }
        assert_eq!(rig.page(&path, &[("if-none-match", "\"x\"")]).status, 200);
    }
}

#[test]
fn the_console_has_the_names_of_its_host_alone() {
    let rig = Rig::new(Bounds::default());
    let asked = |path: &str, host: &str| {
        let request = Request::builder().uri(path).header("host", host);
        rig.answered(request).status().as_u16()
    };
    for path in [
        "/",
        "/ui/",
        "/ui/runs/x",
        "/ui/app/main.js",
        "/ui/session",
        "/ui/nowhere",
    ] {
        assert_eq!(asked(path, "evil.example"), 421, "{path}");
        assert_ne!(asked(path, "localhost:7433"), 421, "{path}");
    }
}

#[test]
fn a_session_begins_with_the_token_and_opens_the_api() {
    let rig = Rig::new(Bounds::default());
    for body in ["{\"token\":\"wrong\"}", "{\"token\":\"\"}"] {
        let refused = rig.send(("POST", "/ui/session"), &[JSON], body);
        assert_eq!(refused.problem(), (401, "WL-H001".to_owned()));
        assert_eq!(refused.header("set-cookie"), None);
    }
    let state = |headers: &[(&str, &str)]| rig.page("/ui/session", headers).json();
    assert_eq!(state(&[]), json!({ "needed": true, "open": false }));

    let body = json!({ "token": TOKEN }).to_string();
    let answered = rig.send(("POST", "/ui/session"), &[JSON, OWN], body);
    let set = answered.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("Secure") && !set.contains(TOKEN), "{set}");
    let cookie = set.split(';').next().unwrap();
    assert_eq!(rig.page("/api/v1/runs", &[]).status, 401);
    assert_eq!(rig.page("/api/v1/runs", &[("cookie", cookie)]).status, 200);
    let several = format!("other=1; {cookie}; more=2");
    assert_eq!(
        rig.page("/api/v1/runs", &[("cookie", &several)]).status,
        200
    );
    assert_eq!(
        state(&[("cookie", cookie)]),
        json!({ "needed": true, "open": true })
    );

    // Over TLS the cookie does not leave TLS.
    let body = json!({ "token": TOKEN }).to_string();
    let secure = [JSON, ("origin", "https://localhost")];
    let answered = rig.send(("POST", "/ui/session"), &secure, body);
    assert!(answered.header("set-cookie").unwrap().contains("; Secure"));
}

#[test]
fn a_session_does_not_help_another_page_or_another_name() {
    let rig = Rig::new(Bounds::default());
    let foreign = [JSON, FOREIGN];
    let body = json!({ "token": TOKEN }).to_string();
    let refused = rig.send(("POST", "/ui/session"), &foreign, body);
    assert_eq!(refused.problem(), (403, "WL-H027".to_owned()));

    let cookie = rig.login(&[OWN]);
    let with = ("cookie", &*cookie);
    let pause = ("POST", "/api/v1/admin/unpause");
    assert_eq!(rig.send(pause, &[with, OWN], "").status, 200);
    for page in [
        FOREIGN,
        ("sec-fetch-site", "cross-site"),
        ("origin", "null"),
    ] {
        assert_eq!(rig.send(pause, &[with, page], "").status, 403, "{page:?}");
    }
    let named = Request::builder()
        .uri("/api/v1/runs")
        .header("host", "evil.example");
    assert_eq!(rig.answered(named.header("cookie", &cookie)).status(), 421);
    // The cookie of another port of this machine is that of another host.
    let port = Request::builder()
        .uri("/api/v1/runs")
        .header("host", "localhost:81");
    assert_eq!(rig.answered(port.header("cookie", &cookie)).status(), 401);
}

#[test]
fn a_session_ends_by_logout_by_time_and_with_any_change() {
    let rig = Rig::new(Bounds::default());
    let runs = |cookie: &str| rig.page("/api/v1/runs", &[("cookie", cookie)]).status;
    let (first, second) = (rig.login(&[]), rig.login(&[]));
    assert_ne!(first, second);
    let left = rig.send(("DELETE", "/ui/session"), &[("cookie", &first), OWN], "");
    assert_eq!(left.status, 204);
    assert!(left.header("set-cookie").unwrap().contains("Max-Age=0"));
    // A copy of the cookie is of no use.
    assert_eq!(runs(&first), 401);
    assert_eq!(runs(&second), 200);
    // A logout without a session is one, too.
    assert_eq!(rig.send(("DELETE", "/ui/session"), &[], "").status, 204);
    let foreign = rig.send(
        ("DELETE", "/ui/session"),
        &[("cookie", &second), FOREIGN],
        "",
    );
    assert_eq!(foreign.status, 403);
    assert_eq!(runs(&second), 200);

    let (name, value) = second.split_once('=').unwrap();
    for other in [
        format!("{name}={}", &value[1..]),
        format!("{name}=A{}", &value[1..]),
        format!("{name}="),
        format!("{name}={value}; {name}={value}"),
        format!("x{name}={value}"),
    ] {
        if other != second {
            assert_eq!(runs(&other), 401, "{other}");
        }
    }
    rig.clock.go_on(DAY / 2 - Duration::from_secs(1));
    assert_eq!(runs(&second), 200);
    rig.clock.go_on(Duration::from_secs(1));
    assert_eq!(runs(&second), 401);
}
