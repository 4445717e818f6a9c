//! What requests bring, and what pages in browsers may read.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use windlass_model::decimal::Decimal;

use super::*;

const JSON: (&str, &str) = ("content-type", "application/json");

/// An answer whose body was read.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) status: u16,
    headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answered {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let value = self.headers.get(name)?;
        Some(value.to_str().unwrap())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(super) fn problem(&self) -> (u16, String) {
        let code = self.json()["code"].as_str().unwrap().to_owned();
        (self.status, code)
    }
}

impl Rig {
    fn of_pages() -> Self {
        let callers = Callers {
            origins: vec!["https://shop.example".to_owned()],
            ..Callers::default()
        };
        Self::called_by(Bounds::default(), callers)
    }

    /// Sends a request to `localhost`.
    pub(super) fn send(
        &self,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answered {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("host", "localhost");
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        let request = request.body(body.into()).unwrap();
        let answered = routes::router(&self.app).oneshot(request);
        let (parts, body) = self.tokio.block_on(answered).unwrap().into_parts();
        let body = axum::body::to_bytes(body, 1 << 24);
        Answered {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: self.tokio.block_on(body).unwrap(),
        }
    }

    /// Sends a request with the token.
    pub(super) fn send_as_token(
        &self,
        of: (&str, &str),
        media: &str,
        body: impl Into<Body>,
    ) -> Answered {
        let bearer = format!("Bearer {TOKEN}");
        self.send(
            of,
            &[("authorization", &bearer), ("content-type", media)],
            body,
        )
    }

    pub(super) fn publish(&self, workflow: &Value) -> Value {
        let name = workflow["workflow"].as_str().unwrap();
        let path = format!("/api/v1/definitions/{name}");
        let answered = self.send_as_token(("PUT", &path), JSON.1, workflow.to_string());
        assert_eq!(answered.status, 200, "{answered:?}");
        answered.json()["warnings"].clone()
    }

    /// The input of the run that a request has started.
    fn input_of(&self, answered: &Answered) -> Value {
        assert_eq!(answered.status, 202, "{answered:?}");
        let id = answered.json()["started"][0].as_str().unwrap().to_owned();
        let run = self.send_as_token(("GET", &format!("/api/v1/runs/{id}")), "", "");
        run.json()["input"].clone()
    }
}

fn workflow(name: &str, triggers: Value) -> Value {
    json!({ "workflow": name, "triggers": triggers, "nodes": { "a": { "set": { "body": 1 } } } })
}

/// Every header of CORS.
fn cors(answered: &Answered) -> Vec<String> {
    let names = answered.headers.keys().map(|name| name.to_string());
    names
        .filter(|name| name.starts_with("access-control-"))
        .collect()
}

const LISTED: (&str, &str) = ("origin", "https://shop.example");
const FOREIGN: (&str, &str) = ("origin", "https://evil.example");

#[test]
fn a_listed_page_may_ask_and_read_and_no_other() {
    let rig = Rig::of_pages();
    rig.publish(&workflow("w", json!({ "h": { "http": { "path": "/x" } } })));
    let ask = [
        ("access-control-request-method", "POST"),
        (
            "access-control-request-headers",
            "content-type, x-a,authorization, bad name",
        ),
    ];
    for path in ["/hooks/x", "/api/v1/runs", "/events", "/resume/x"] {
        let preflight = rig.send(("OPTIONS", path), &[LISTED, ask[0], ask[1]], "");
        assert_eq!(preflight.status, 204, "{path} {preflight:?}");
        assert!(preflight.body.is_empty());
        assert_eq!(
            preflight.header("access-control-allow-origin"),
            Some(LISTED.1)
        );
        let methods = preflight.header("access-control-allow-methods").unwrap();
        assert!(methods.split(", ").any(|it| it == "POST"), "{methods}");
        let headers = preflight.header("access-control-allow-headers");
        assert_eq!(headers, Some("content-type, x-a, authorization"));
        assert_eq!(preflight.header("access-control-max-age"), Some("600"));
        assert!(
            !preflight
                .headers
                .contains_key("access-control-allow-credentials")
        );
        let vary = preflight.headers.get_all("vary").iter();
        let vary: Vec<_> = vary.map(|value| value.to_str().unwrap()).collect();
        assert!(
            vary.join(", ").split(", ").any(|it| it == "Origin"),
            "{vary:?}"
        );

        for origin in [
            FOREIGN,
            ("origin", "null"),
            ("origin", "http://shop.example"),
        ] {
            let refused = rig.send(("OPTIONS", path), &[origin, ask[0], ask[1]], "");
            assert!(refused.status >= 400, "{path} {refused:?}");
            assert_eq!(cors(&refused), Vec::<String>::new(), "{path}");
            assert_eq!(refused.header("vary"), Some("Origin"));
        }
    }
    let methods = |path: &str| {
        let preflight = rig.send(("OPTIONS", path), &[LISTED, ask[0]], "");
        preflight
            .header("access-control-allow-methods")
            .unwrap()
            .to_owned()
    };
    assert_eq!(methods("/api/v1/runs"), "POST, GET, HEAD");
    assert_eq!(methods("/hooks/x"), "GET, POST, PUT, PATCH, DELETE, HEAD");

    let bearer = format!("Bearer {TOKEN}");
    let token = ("authorization", bearer.as_str());
    for (of, headers, status) in [
        (("POST", "/hooks/x"), vec![JSON], 202),
        (("POST", "/hooks/none"), vec![JSON], 404),
        (("PUT", "/hooks/x"), vec![JSON], 405),
        (("GET", "/api/v1/runs"), vec![token], 200),
        (("GET", "/api/v1/runs"), vec![], 401),
        (("POST", "/api/v1/runs"), vec![token, JSON], 422),
        (("POST", "/api/v1/runs"), vec![token], 415),
        (("GET", "/nowhere"), vec![token], 404),
        (("OPTIONS", "/api/v1/runs"), vec![token], 405),
    ] {
        let mut headers = headers;
        headers.push(LISTED);
        let answered = rig.send(of, &headers, "{}");
        assert_eq!(answered.status, status, "{of:?} {answered:?}");
        let page = answered.header("access-control-allow-origin");
        assert_eq!(page, Some(LISTED.1), "{of:?}");
        assert!(
            !answered
                .headers
                .contains_key("access-control-allow-credentials")
        );
        headers.pop();
        headers.push(FOREIGN);
        let answered = rig.send(of, &headers, "{}");
        assert_eq!(cors(&answered), Vec::<String>::new(), "{of:?}");
        headers.pop();
        let answered = rig.send(of, &headers, "{}");
        assert_eq!(cors(&answered), Vec::<String>::new(), "{of:?}");
        assert_eq!(answered.header("vary"), Some("Origin"), "{of:?}");
    }
    let answered = rig.send(("PUT", "/hooks/x"), &[LISTED, JSON], "");
    assert_eq!(
        answered.header("access-control-expose-headers"),
        Some("allow")
    );
    // What changes something is checked again.
    let foreign = rig.send(("POST", "/hooks/x"), &[FOREIGN, JSON], "{}");
    assert_eq!(foreign.problem(), (403, "WL-H027".to_owned()));
    let foreign = rig.send(("POST", "/api/v1/runs"), &[FOREIGN, JSON, token], "{}");
    assert_eq!(foreign.problem(), (403, "WL-H027".to_owned()));
}

#[test]
fn without_listed_origins_no_page_is_answered() {
    let rig = Rig::new(Bounds::default());
    let ask = ("access-control-request-method", "POST");
    let preflight = rig.send(("OPTIONS", "/hooks/x"), &[LISTED, ask], "");
    assert_eq!(preflight.status, 405);
    for answered in [preflight, rig.send(("GET", "/api/v1/runs"), &[LISTED], "")] {
        assert_eq!(cors(&answered), Vec::<String>::new());
        assert_eq!(answered.header("vary"), None);
    }
}

#[test]
fn a_hook_names_its_methods_and_answers_head_for_get() {
    let rig = Rig::new(Bounds::default());
    let verify = json!({ "bearer": { "secret": "k" } });
    let triggers = json!({
        "get": { "http": { "path": "/x", "method": "GET" } },
        "put": { "http": { "path": "/x", "method": "PUT", "verify": verify } },
        "post": { "http": { "path": "/y/{id}" } },
    });
    rig.publish(&workflow("w", triggers));
    for (method, path, allow) in [
        ("POST", "/hooks/x", "GET, HEAD, PUT"),
        ("OPTIONS", "/hooks/x", "GET, HEAD, PUT"),
        ("TRACE", "/hooks/x", "GET, HEAD, PUT"),
        ("GET", "/hooks/y/1", "POST"),
        ("HEAD", "/hooks/y/1", "POST"),
    ] {
        let answered = rig.send((method, path), &[], "");
        assert_eq!(answered.header("allow"), Some(allow), "{method} {path}");
        assert_eq!(answered.status, 405);
    }
    let answered = rig.send(("DELETE", "/hooks/none"), &[], "");
    assert_eq!(answered.problem(), (404, "WL-H015".to_owned()));
    assert_eq!(answered.header("allow"), None);
    let answered = rig.send(("TRACE", "/hooks/none"), &[], "");
    assert_eq!(answered.problem(), (405, "WL-H003".to_owned()));
    assert_eq!(
        answered.header("allow"),
        Some("GET, POST, PUT, PATCH, DELETE")
    );
    let answered = rig.send(("HEAD", "/hooks/x"), &[], "");
    assert_eq!(answered.status, 202, "{answered:?}");
    let input = rig.input_of(&rig.send(("GET", "/hooks/x?a=1"), &[], ""));
    assert_eq!(input["method"], "GET");
}

#[test]
fn the_parts_of_a_request_reach_the_run() {
    let rig = Rig::new(Bounds::default());
    rig.publish(&workflow("w", json!({ "h": { "http": { "path": "/x" } } })));
    let send = |headers: &[(&str, &str)], body: &'static [u8]| {
        rig.input_of(&rig.send(("POST", "/hooks/x"), headers, body))
    };
    let links = [("link", "</a>"), ("link", "</b>"), ("x-one", "1")];
    let input = send(&links, b"");
    assert_eq!(input["headers"]["link"], json!(["</a>", "</b>"]));
    assert_eq!(input["headers"]["x-one"], "1");
    let media = |media: &'static str, body| send(&[("content-type", media)], body);
    let latin = "text/plain; charset=ISO-8859-1";
    assert_eq!(media(latin, b"caf\xe9")["body"], "café");
    assert_eq!(
        media(JSON.1, b"\xef\xbb\xbf{\"a\":1}")["body"],
        json!({ "a": 1 })
    );
    assert_eq!(
        media("image/png", b"\x89P")["body"],
        json!({ "base64": "iVA=" })
    );
    let form = media("application/x-www-form-urlencoded", b"a=1&b[]=2&a=3");
    assert_eq!(form["body"], json!({ "a": ["1", "3"], "b[]": "2" }));
    assert_eq!(form["raw"], "a=1&b[]=2&a=3");
    let parts = b"--b\r\nContent-Disposition: form-data; name=f; filename=x\r\n\r\nhi\r\n--b--";
    let multipart = media("multipart/form-data; boundary=b", parts);
    let file = json!({ "filename": "x", "content_type": null, "base64": "aGk=" });
    assert_eq!(multipart["body"], json!({ "f": file }));
    assert_eq!(multipart.get("raw"), None);

    let refused = |headers: &[(&str, &str)], body: &'static [u8]| {
        rig.send(("POST", "/hooks/x"), headers, body).problem()
    };
    let wrong = ("content-type", "multipart/form-data");
    assert_eq!(refused(&[wrong], b"x"), (400, "WL-H005".to_owned()));
    let unknown = ("content-type", "application/json; charset=nil");
    assert_eq!(refused(&[unknown], b"1"), (415, "WL-H004".to_owned()));
}

/// A case of `tests/cases/bodies.jsonl`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    about: String,
    headers: CaseHeaders,
    text: Option<String>,
    base64: Option<String>,
    /// A beginning, a text with the number of its repetitions, and an end.
    repeat: Option<(String, String, usize, String)>,
    /// The body in the input of the run.
    is: Option<Value>,
    /// The status, the code, and words of the detail.
    refused: Option<(u16, String, String)>,
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum CaseHeaders {
    ByName(std::collections::BTreeMap<String, String>),
    List(Vec<(String, String)>),
}

impl Case {
    fn body(&self) -> Vec<u8> {
        match (&self.text, &self.base64, &self.repeat) {
            (Some(text), None, None) => text.as_bytes().to_vec(),
            (None, Some(base64), None) => STANDARD.decode(base64).unwrap(),
            (None, None, Some((begin, part, times, end))) => {
                format!("{begin}{}{end}", part.repeat(*times)).into_bytes()
            }
            _ => panic!("{}: one of `text`, `base64` and `repeat`", self.about),
        }
    }
}

#[test]
fn a_body_is_read_as_its_sender_means_it_or_refused() {
    let rig = Rig::new(Bounds {
        body_bytes: 1 << 23,
        ..Bounds::default()
    });
    rig.publish(&workflow("w", json!({ "h": { "http": { "path": "/x" } } })));
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/cases/bodies.jsonl"
    );
    let cases = std::fs::read_to_string(path).unwrap();
    let mut wrong = Vec::new();
    for line in cases.lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let headers: Vec<(&str, &str)> = match &case.headers {
            CaseHeaders::ByName(all) => all.iter().map(|(a, b)| (&**a, &**b)).collect(),
            CaseHeaders::List(all) => all.iter().map(|(a, b)| (&**a, &**b)).collect(),
        };
        let answered = rig.send(("POST", "/hooks/x"), &headers, case.body());
        let is_right = match (&case.is, &case.refused) {
            (Some(is), None) => answered.status == 202 && rig.input_of(&answered)["body"] == *is,
            (None, Some((status, code, words))) => {
                let problem = answered.json();
                answered.status == *status
                    && problem["code"] == **code
                    && problem["detail"].as_str().unwrap().contains(words)
            }
            _ => panic!("{}: one of `is` and `refused`", case.about),
        };
        if !is_right {
            let got = match answered.status {
                202 => rig.input_of(&answered)["body"].clone(),
                _ => answered.json(),
            };
            let got: String = got.to_string().chars().take(300).collect();
            wrong.push(format!("{}: {} {got}", case.about, answered.status));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_number_of_an_event_keeps_its_digits() {
    let rig = Rig::new(Bounds::default());
    let taken = json!({ "n": "{{ event.input.data.n }}", "x": "{{ event.input.x }}" });
    rig.publish(&workflow("w", json!({ "e": { "event": "t" } })));
    let made = json!({ "e": { "event": "t", "input": taken } });
    rig.publish(&workflow("made", made));
    let attributes = r#""specversion":"1.0","id":"1","source":"/s","type":"t""#;
    let inputs = |sent: &Value| {
        let started = sent["started"].as_array().unwrap();
        let inputs = started.iter().map(|id| {
            let path = format!("/api/v1/runs/{}", id.as_str().unwrap());
            let run = rig.send_as_token(("GET", &path), "", "");
            run.json()["input"].clone()
        });
        let is_whole = |input: &Value| input.get("specversion").is_some();
        let (whole, made): (Vec<Value>, Vec<Value>) = inputs.partition(is_whole);
        assert_eq!((whole.len(), made.len()), (1, 1), "{sent}");
        (whole[0].clone(), made[0].clone())
    };
    for number in [
        "9007199254740993",
        "18446744073709551616",
        "-123456789012345678901234567890",
        "0.1000000000000000055511151231257827",
        "12345678901234567890.5",
        "1.10",
        "-0.0",
        "1e+400",
    ] {
        let exact: Value = serde_json::from_str(number).unwrap();
        let structured = format!(r#"{{{attributes},"x":{number},"data":{{"n":{number}}}}}"#);
        let send = |media: &str, body: String| {
            let answered = rig.send_as_token(("POST", "/events"), media, body);
            assert_eq!(answered.status, 202, "{number}: {answered:?}");
            answered.json()
        };
        let one = send("application/cloudevents+json", structured.clone());
        let batch = send(
            "application/cloudevents-batch+json",
            format!("[{structured}]"),
        );
        for sent in [&one, &batch["events"][0]["sent"]] {
            let (whole, made) = inputs(sent);
            assert_eq!((&whole["x"], &whole["data"]["n"]), (&exact, &exact));
            assert_eq!(whole["x"].to_string(), number);
            let (n, x) = (made["n"].to_string(), made["x"].to_string());
            assert_eq!(Decimal::read(&n), Decimal::read(number), "{n} {number}");
            assert_eq!(n, x);
        }
        let bearer = format!("Bearer {TOKEN}");
        let headers = [
            ("authorization", bearer.as_str()),
            JSON,
            ("ce-specversion", "1.0"),
            ("ce-id", "1"),
            ("ce-source", "/s"),
            ("ce-type", "t"),
            ("ce-x", number),
        ];
        let body = format!(r#"{{"n":{number}}}"#);
        let binary = rig.send(("POST", "/events"), &headers, body);
        assert_eq!(binary.status, 202, "{binary:?}");
        let (whole, _) = inputs(&binary.json());
        // An attribute in a header is a text.
        assert_eq!((&whole["x"], &whole["data"]["n"]), (&json!(number), &exact));
    }
}

#[test]
fn a_header_with_two_values_is_refused_by_its_name() {
    let rig = Rig::new(Bounds::default());
    let verify = json!({ "hmac": { "secret": "s", "header": "x-sign", "delivery": "x-id" } });
    let triggers = json!({
        "plain": { "http": { "path": "/x" } },
        "signed": { "http": { "path": "/signed", "verify": verify } },
        "github": { "http": { "path": "/github", "verify": { "github": { "secret": "s" } } } },
    });
    rig.publish(&workflow("w", triggers));
    let start = json!({ "workflow": "w", "input": 1 }).to_string();
    let file = "workflow: w\nnodes: { a: { set: { b: 1 } } }\n";
    let event = json!({ "specversion": "1.0", "id": "1", "source": "/s", "type": "t" }).to_string();
    let run = format!("/api/v1/runs/{}/events", uuid::Uuid::nil());
    let yaml = ("content-type", "application/yaml");
    for (of, media, body, name, values) in [
        (
            ("POST", "/api/v1/runs"),
            JSON,
            &*start,
            "idempotency-key",
            ["a", "b"],
        ),
        (
            ("POST", "/api/v1/runs"),
            JSON,
            &start,
            "authorization",
            ["", "Bearer x"],
        ),
        (
            ("POST", "/api/v1/runs"),
            JSON,
            &start,
            "content-type",
            ["", "text/plain"],
        ),
        (
            ("PUT", "/api/v1/definitions/w"),
            yaml,
            file,
            "if-match",
            ["\"a\"", "\"b\""],
        ),
        (
            ("PUT", "/api/v1/definitions/w"),
            yaml,
            file,
            "if-none-match",
            ["*", "\"b\""],
        ),
        (
            ("PUT", "/api/v1/drafts/w"),
            yaml,
            file,
            "if-match",
            ["1", "2"],
        ),
        (("GET", &run), JSON, "", "last-event-id", ["1", "2"]),
        (
            ("POST", "/hooks/x"),
            JSON,
            "1",
            "content-type",
            ["", "text/plain"],
        ),
        (
            ("POST", "/hooks/x"),
            JSON,
            "1",
            "authorization",
            ["", "Basic eDp5"],
        ),
        (("POST", "/hooks/signed"), JSON, "1", "x-sign", ["a", "b"]),
        (("POST", "/hooks/signed"), JSON, "1", "x-id", ["a", "b"]),
        (
            ("POST", "/hooks/github"),
            JSON,
            "1",
            "x-hub-signature-256",
            ["a", "b"],
        ),
        (("POST", "/events"), JSON, &event, "ce-id", ["a", "b"]),
        (
            ("POST", "/events"),
            JSON,
            &event,
            "content-type",
            ["", "text/plain"],
        ),
    ] {
        let bearer = format!("Bearer {TOKEN}");
        let mut headers = vec![("authorization", bearer.as_str()), media];
        headers.extend(
            values
                .iter()
                .filter(|it| !it.is_empty())
                .map(|it| (name, *it)),
        );
        let refused = rig.send(of, &headers, body.to_owned());
        assert_eq!(
            refused.problem(),
            (400, "WL-H008".to_owned()),
            "{of:?} {name}"
        );
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(&format!("`{name}`")), "{name}: {detail}");
    }
    // Equal values are one.
    let key = ("idempotency-key", "a");
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("authorization", bearer.as_str()), JSON, JSON, key, key];
    let started = rig.send(("POST", "/api/v1/runs"), &headers, start);
    assert_eq!(started.status, 201, "{started:?}");
}

#[test]
fn a_trigger_makes_the_input_of_an_event() {
    let rig = Rig::new(Bounds::default());
    let mut made = workflow(
        "w",
        json!({
            "e": {
                "event": "paid",
                "match": { "shop": "berlin" },
                "input": {
                    "total": "{{ event.input.total }}",
                    "who": "{{ event.correlation }}",
                    "of": "{{ event.name }} {{ event.match.shop }}",
                },
            },
        }),
    );
    made["input"] = json!({
        "type": "object",
        "required": ["total"],
        "properties": { "total": { "type": "integer" }, "limit": { "default": 10 } },
    });
    rig.publish(&made);
    let send = |total: &str| {
        let body = format!(
            r#"{{"name":"paid","match":{{"shop":"berlin"}},"correlation":"c","input":{{"total":{total}}}}}"#
        );
        rig.send_as_token(("POST", "/api/v1/stimuli"), JSON.1, body)
    };
    let sent = send("123456789012345678901234567890");
    assert_eq!(sent.status, 200, "{sent:?}");
    let id = sent.json()["started"][0].as_str().unwrap().to_owned();
    let run = rig
        .send_as_token(("GET", &format!("/api/v1/runs/{id}")), "", "")
        .json();
    let total: Value = serde_json::from_str("123456789012345678901234567890").unwrap();
    let wanted = json!({ "total": total, "who": "c", "of": "paid berlin", "limit": 10 });
    assert_eq!(run["input"], wanted);
    let unfit = send("\"5\"");
    assert_eq!(unfit.problem(), (422, "WL-R070".to_owned()), "{unfit:?}");
    let missing = rig.send_as_token(
        ("POST", "/api/v1/stimuli"),
        JSON.1,
        r#"{"name":"paid","match":{"shop":"berlin"},"input":5}"#,
    );
    assert_eq!(
        missing.problem(),
        (422, "WL-R070".to_owned()),
        "{missing:?}"
    );
    let problem = missing.json().to_string();
    assert!(problem.contains("/triggers/e/input"), "{problem}");

    for (change, place, words) in [
        (json!({ "total": "{{ event.name }}" }), "/total", "a text"),
        (
            json!({ "total": "shop {{ event.match.shop }}" }),
            "/total",
            "a text",
        ),
        (
            json!({ "total": "{{ event.match }}" }),
            "/total",
            "an object",
        ),
        (
            json!({ "total": "{{ event.correlation }}" }),
            "/total",
            "null",
        ),
        (
            json!({ "limit": "{{ event.input.total }}" }),
            "",
            "`total` is missing",
        ),
        (json!({ "total": 1.5 }), "/total", "expected integer"),
        (json!("{{ event.name }}"), "", "the whole is a text"),
    ] {
        let mut wrong = made.clone();
        wrong["triggers"]["e"]["input"] = change.clone();
        let path = "/api/v1/definitions/w";
        let refused = rig.send_as_token(("PUT", path), JSON.1, wrong.to_string());
        assert_eq!(refused.status, 422, "{change}: {refused:?}");
        let found = &refused.json()["errors"][0];
        assert_eq!(found["code"], "WL-D174", "{change}: {found}");
        assert_eq!(
            found["pointer"],
            format!("/triggers/e/input{place}"),
            "{change}"
        );
        assert!(
            found["detail"].as_str().unwrap().contains(words),
            "{change}: {found}"
        );
    }
    for (expression, words) in [
        ("{{ event.inputs.total }}", "`event` has no `inputs`"),
        ("{{ request.body }}", "there is no `request` here"),
        ("{{ input.total }}", "`input`"),
    ] {
        let mut wrong = made.clone();
        wrong["triggers"]["e"]["input"] = json!({ "total": expression });
        let path = "/api/v1/definitions/w";
        let refused = rig.send_as_token(("PUT", path), JSON.1, wrong.to_string());
        assert_eq!(refused.status, 422, "{expression}: {refused:?}");
        let found = refused.json()["errors"].to_string();
        assert!(found.contains(words), "{expression}: {found}");
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_small_body_does_not_become_a_large_one() {
    let rig = Rig::new(Bounds {
        body_bytes: 10_000,
        ..Bounds::default()
    });
    rig.publish(&workflow("w", json!({ "h": { "http": { "path": "/x" } } })));
    let bearer = format!("Bearer {TOKEN}");
    let send = |path: &str, coding: &str, body: Vec<u8>| {
        let coding = ("content-encoding", coding);
        rig.send(
            ("POST", path),
            &[("authorization", &bearer), JSON, coding],
            body,
        )
    };
    let text = format!("\"{}\"", "a".repeat(9_998));
    let sent = send("/hooks/x", "gzip", gzip(text.as_bytes()));
    assert_eq!(
        rig.input_of(&sent)["body"].as_str().map(str::len),
        Some(9_998)
    );
    for path in [
        "/hooks/x",
        "/events",
        "/api/v1/stimuli",
        "/api/v1/runs/import",
    ] {
        let large = send(path, "gzip", gzip(&[b' '; 10_001]));
        assert_eq!(large.problem(), (413, "WL-H006".to_owned()), "{path}");
        let unknown = send(path, "compress", b"{}".to_vec());
        assert_eq!(unknown.problem(), (415, "WL-H004".to_owned()), "{path}");
        assert!(
            unknown.json()["detail"]
                .as_str()
                .unwrap()
                .contains("`compress`")
        );
        assert_eq!(
            unknown.header("accept-encoding"),
            Some("gzip, deflate, br, zstd")
        );
        let broken = send(path, "gzip", b"{}".to_vec());
        assert_eq!(broken.problem(), (400, "WL-H005".to_owned()), "{path}");
    }
    let stimulus = send(
        "/api/v1/stimuli",
        "gzip",
        gzip(b"\xef\xbb\xbf{\"name\":\"a\"}"),
    );
    assert_eq!(stimulus.status, 200, "{stimulus:?}");
    let plain = send("/api/v1/stimuli", "identity", b"{\"name\":\"a\"}".to_vec());
    assert_eq!(plain.status, 200, "{plain:?}");
}

#[test]
fn a_request_wants_an_object_and_says_so() {
    let rig = Rig::new(Bounds::default());
    let ask = |body: &str| {
        let answered = rig.send_as_token(("POST", "/api/v1/runs"), JSON.1, body.to_owned());
        let detail = answered.json()["detail"].as_str().unwrap().to_owned();
        (answered.problem(), detail)
    };
    for body in [
        "[]",
        " [\"w\", null, null, null, null, false, null, null]",
        "5",
        "\"w\"",
        "null",
    ] {
        let (problem, detail) = ask(body);
        assert_eq!(problem, (422, "WL-H005".to_owned()), "{body}");
        assert!(detail.contains("object"), "{body}: {detail}");
        assert!(
            !detail.contains("Start") && !detail.contains("elements"),
            "{detail}"
        );
    }
    let deep = format!("{{\"input\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let (problem, detail) = ask(&deep);
    assert_eq!(problem, (400, "WL-H005".to_owned()));
    assert!(detail.contains("127 levels"), "{detail}");
}

#[test]
fn a_batch_is_checked_as_a_whole_and_sent_one_by_one() {
    let rig = Rig::new(Bounds::default());
    let event = |id: &str, kind: &str| json!({ "specversion": "1.0", "id": id, "source": "/s", "type": kind, "subject": "café" });
    let cafe = json!({ "e": { "event": "paid", "match": { "subject": "café" } } });
    rig.publish(&workflow("w", cafe));
    let ask = |events: &Value| {
        let media = "application/cloudevents-batch+json; charset=utf-8";
        rig.send_as_token(("POST", "/events"), media, events.to_string())
    };
    let runs = || {
        let runs = rig.send_as_token(("GET", "/api/v1/runs"), "", "").json();
        runs["items"].as_array().unwrap().len()
    };
    let batch = ask(&json!([
        event("1", "paid"),
        event("2", "other"),
        event("3", "paid")
    ]));
    assert_eq!(batch.status, 202, "{batch:?}");
    let events = batch.json()["events"].clone();
    let started = |at: usize| events[at]["sent"]["started"].as_array().unwrap().len();
    assert_eq!((started(0), started(1), started(2)), (1, 0, 1), "{events}");
    assert_eq!(events[1]["id"], "2");
    assert_eq!(runs(), 2);
    assert_eq!(batch.json()["started"].as_array().map(Vec::len), Some(2));
    let none = ask(&json!([])).json();
    assert_eq!(
        (&none["events"], &none["dropped"]),
        (&json!([]), &json!(true))
    );

    let refused = (422, "WL-H016".to_owned());
    for wrong in [
        json!([event("4", "paid"), {}]),
        json!([event("4", "paid"), 1]),
    ] {
        let answered = ask(&wrong);
        assert_eq!(answered.problem(), refused, "{wrong}");
        assert!(
            answered.json()["detail"]
                .as_str()
                .unwrap()
                .contains("event 1 of the batch")
        );
    }
    let many: Vec<_> = (0..257).map(|id| event(&id.to_string(), "paid")).collect();
    assert_eq!(ask(&json!(many)).problem(), refused);
    assert_eq!(runs(), 2, "nothing of a refused batch is sent");
    for (media, wrong, detail) in [
        (
            "application/cloudevents-batch+json",
            json!({}),
            "the batch is no list of events",
        ),
        (
            "application/cloudevents-batch+json",
            json!("x"),
            "the batch is no list of events",
        ),
        (
            "application/cloudevents+json",
            json!([event("5", "paid")]),
            "the event is a list: a batch has the media type `application/cloudevents-batch+json`",
        ),
        (
            "application/cloudevents+json",
            json!(7),
            "the event is no object",
        ),
    ] {
        let answered = rig.send_as_token(("POST", "/events"), media, wrong.to_string());
        assert_eq!(answered.problem(), refused, "{wrong}");
        assert_eq!(answered.json()["detail"], detail);
    }

    let media = "application/cloudevents+xml";
    let other = rig.send_as_token(("POST", "/events"), media, "<a/>");
    assert_eq!(other.problem(), (415, "WL-H004".to_owned()));
    assert!(
        other.json()["detail"]
            .as_str()
            .unwrap()
            .contains("`application/cloudevents+json`")
    );

    let bearer = format!("Bearer {TOKEN}");
    let attributes = [
        ("authorization", bearer.as_str()),
        ("content-type", "image/png"),
        ("ce-specversion", "1.0"),
        ("ce-id", "9"),
        ("ce-source", "/s"),
        ("ce-type", "paid"),
        ("ce-subject", "caf%C3%A9"),
    ];
    let png = b"\x89PNG\r\n\x1a\n\0\xff";
    let input = rig.input_of(&rig.send(("POST", "/events"), &attributes, &png[..]));
    assert_eq!(input["data_base64"], "iVBORw0KGgoA/w==");
    assert_eq!(input["subject"], "café");
    assert_eq!(input.get("data"), None);
    let mut twice = attributes.to_vec();
    twice.push(("ce-id", "10"));
    let twice = rig.send(("POST", "/events"), &twice, "").problem();
    assert_eq!(twice, (400, "WL-H008".to_owned()));
}

#[test]
fn an_event_that_this_host_fails_to_send_ends_its_batch() {
    let rig = Rig::new(Bounds::default());
    rig.publish(&workflow("w", json!({ "e": { "event": "paid" } })));
    let event =
        |id: &str| json!({ "specversion": "1.0", "id": id, "source": "/s", "type": "paid" });
    rig.app.drain();
    let batch = json!([event("1"), event("2")]).to_string();
    let media = "application/cloudevents-batch+json";
    let answered = rig.send_as_token(("POST", "/events"), media, batch.clone());
    assert_eq!(answered.status, 503);
    assert_eq!(
        answered.json().get("events"),
        None,
        "the gate has refused it"
    );

    let rig = Rig::new(Bounds::default());
    rig.publish(&workflow("w", json!({ "e": { "event": "paid" } })));
    rig.store.set_faults(Some(Box::new(|_| Some(Fault::Full))));
    let answered = rig.send_as_token(("POST", "/events"), media, batch);
    let problem = answered.json();
    assert_eq!(answered.status, 503, "{problem}");
    assert!(answered.headers.contains_key("retry-after"));
    assert_eq!(problem["events"].as_array().map(Vec::len), Some(2));
    assert_eq!(problem["events"][1]["problem"]["code"], problem["code"]);
    rig.store.set_faults(None);
}

#[test]
fn a_second_answer_to_one_request_is_published_with_a_warning() {
    let rig = Rig::new(Bounds::default());
    let answers = |name: &str, path: &str, verify: Option<&str>| {
        let mut http = json!({ "path": path, "respond": { "node": "a" } });
        if let Some(secret) = verify {
            http["verify"] = json!({ "github": { "secret": secret } });
        }
        workflow(name, json!({ "h": { "http": http } }))
    };
    let codes = |warnings: Value| -> Vec<String> {
        let warnings = warnings.as_array().unwrap().clone();
        let codes = warnings
            .iter()
            .map(|it| it["code"].as_str().unwrap().to_owned());
        codes.filter(|code| code != "WL-D172").collect()
    };
    assert_eq!(
        codes(rig.publish(&answers("one", "/a/{x}", None))),
        Vec::<String>::new()
    );
    let warnings = rig.publish(&answers("two", "/a/{y}", None));
    let detail = warnings[0]["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.contains("`one`") && detail.contains("POST /a/{y}"),
        "{detail}"
    );
    assert_eq!(warnings[0]["pointer"], "/triggers/h/http/respond");
    assert_eq!(codes(warnings), ["WL-D173"]);
    let none = Vec::<String>::new();
    assert_eq!(codes(rig.publish(&answers("three", "/b/{y}", None))), none);
    assert_eq!(codes(rig.publish(&answers("three", "/a/b", None))), none);
    let plain = workflow("four", json!({ "h": { "http": { "path": "/a/{z}" } } }));
    assert_eq!(codes(rig.publish(&plain)), none);
    assert_eq!(codes(rig.publish(&answers("five", "/v", Some("k")))), none);
    assert_eq!(codes(rig.publish(&answers("six", "/v", Some("l")))), none);
    assert_eq!(
        codes(rig.publish(&answers("seven", "/v", Some("k")))),
        ["WL-D173"]
    );
    let http = json!({ "http": { "path": "/c", "respond": { "node": "a" } } });
    let twice = workflow("twice", json!({ "g": http, "h": http }));
    assert_eq!(codes(rig.publish(&twice)), ["WL-D173", "WL-D173"]);
}
