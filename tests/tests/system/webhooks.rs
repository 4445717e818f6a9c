//! Webhooks on a real host: which requests start a run, the input of the run, and the answer to the
//! sender.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_model::mac;
use windlass_tests::harness::{Answer, Place, Web, until};

const JSON: &str = "content-type: application/json";

/// Keys of the length that HMAC keys of the host have.
const OLD: &str = "old-key-old-key-old-key-old-key!";
const NEW: &str = "new-key-new-key-new-key-new-key!";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn web(settings: &[(&str, &str)], workflows: &[Value]) -> (Place, Web) {
    let mut place = Place::new(&["echo"]);
    for (name, key) in [("old", OLD), ("new", NEW)] {
        let file = place.path(name);
        fs::write(&file, key).expect("a file can be written");
        let source = format!(
            "{{ file = {:?} }}",
            file.to_str().expect("the path is Unicode")
        );
        place = place.with(&format!("secrets.{name}"), &source);
    }
    for (key, value) in settings {
        place = place.with(key, value);
    }
    let web = Web::serve(&place);
    let token = format!("authorization: Bearer {TOKEN}");
    for workflow in workflows {
        let name = workflow["workflow"].as_str().expect("it has a name");
        let path = format!("/api/v1/definitions/{name}");
        let answer = web.ask("PUT", &path, &[JSON, &token], &workflow.to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    (place, web)
}

/// A workflow with one trigger that returns its input.
fn echo(name: &str, http: Value) -> Value {
    json!({
        "workflow": name,
        "triggers": { "hook": { "http": http } },
        "nodes": { "a": { "use": "echo/echo" } },
        "output": "{{ nodes.a.output }}",
    })
}

fn github(name: &str, secrets: &[&str]) -> Value {
    let verify = json!({ "github": { "secrets": secrets } });
    echo(name, json!({ "path": "/github", "verify": verify }))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends a body with the signature of `signed` by a key.
fn deliver(web: &Web, key: &str, (signed, body): (&str, &str), id: &str) -> Answer {
    let key = key.as_bytes().try_into().expect("a key has 32 bytes");
    let tag = hex(&mac::tag(key, &[signed.as_bytes()]));
    let signature = format!("x-hub-signature-256: sha256={tag}");
    let id = format!("x-github-delivery: {id}");
    web.ask("POST", "/hooks/github", &[JSON, &signature, &id], body)
}

fn runs(web: &Web) -> usize {
    web.get("/api/v1/runs")["items"]
        .as_array()
        .expect("it is a list")
        .len()
}

fn code(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[test]
fn only_a_signed_request_starts_a_verified_workflow() {
    let (_place, web) = web(&[], &[github("signed", &["new"])]);
    let body = r#"{"a": 1}"#;
    let refused = code(401, "WL-H045");
    for (key, signed) in [(OLD, body), (NEW, r#"{"a":1}"#), (NEW, ""), (OLD, "")] {
        let answer = deliver(&web, key, (signed, body), "1");
        assert_eq!(answer.problem(), refused, "{key} {signed}");
    }
    assert_eq!(web.post("/hooks/github", &json!(1)).problem(), refused);
    let empty = web.ask(
        "POST",
        "/hooks/github",
        &["x-hub-signature-256: sha256="],
        "",
    );
    assert_eq!(empty.problem(), refused);
    // A stimulus of the API that looks like the request matches no trigger.
    let like = json!({ "name": "windlass.http", "match": { "method": "POST", "path": "/github" } });
    let sent = web.post("/api/v1/stimuli", &like).json();
    assert_eq!(sent["started"], json!([]), "{sent}");
    assert_eq!(runs(&web), 0);

    let answer = deliver(&web, NEW, (body, body), "1");
    assert_eq!(answer.status, 202, "{answer:?}");
    let started = answer.json()["started"].clone();
    assert_eq!(started.as_array().map(Vec::len), Some(1), "{started}");
    let output = &web.result(started[0].as_str().unwrap())["output"];
    assert_eq!(output["body"], json!({ "a": 1 }));
}

/// GitHub sends JSON in a form by default, and signs the form.
#[test]
fn a_signed_form_is_the_json_in_it() {
    let plain = echo("plain", json!({ "path": "/github" }));
    let (_place, web) = web(&[], &[github("signed", &["new"]), plain]);
    let form = "payload=%7B%22ref%22%3A%22main%22%2C%22n%22%3A9007199254740993%7D";
    let tag = hex(&mac::tag(
        NEW.as_bytes().try_into().unwrap(),
        &[form.as_bytes()],
    ));
    let signature = format!("x-hub-signature-256: sha256={tag}");
    let media = "content-type: application/x-www-form-urlencoded";
    let answer = web
        .ask("POST", "/hooks/github", &[media, &signature], form)
        .json();
    let bodies = answer["started"].as_array().unwrap().iter().map(|id| {
        let output = &web.result(id.as_str().unwrap())["output"];
        assert_eq!(output["raw"], form);
        output["body"].clone()
    });
    let bodies: Vec<Value> = bodies.collect();
    let payload = json!({ "ref": "main", "n": 9_007_199_254_740_993_u64 });
    assert_eq!(bodies.len(), 2);
    assert!(bodies.contains(&payload), "{bodies:?}");
    assert!(
        bodies.iter().any(|body| body["payload"].is_string()),
        "the unverified one"
    );

    let unsigned = web.ask("POST", "/hooks/github", &[media], form).json();
    assert_eq!(unsigned["started"].as_array().map(Vec::len), Some(1));
}

/// A page of another origin cannot make a signature and cannot send a bearer token; the browser
/// adds a password by itself.
#[test]
fn a_page_of_another_origin_starts_a_trigger_with_a_signature_or_a_token() {
    let bearer = json!({ "bearer": { "secret": "new" } });
    let basic = json!({ "basic": { "user": "shop", "secret": "new" } });
    let workflows = [
        github("signed", &["new"]),
        echo("plain", json!({ "path": "/github" })),
        echo("token", json!({ "path": "/token", "verify": bearer })),
        echo("password", json!({ "path": "/password", "verify": basic })),
    ];
    let (_place, web) = web(&[], &workflows);
    let page = "origin: https://shop.example";
    let ask = |path: &str, header: &str| web.ask("POST", path, &[page, JSON, header], "{}");
    let tag = hex(&mac::tag(NEW.as_bytes().try_into().unwrap(), &[b"{}"]));

    let signed = ask(
        "/hooks/github",
        &format!("x-hub-signature-256: sha256={tag}"),
    );
    assert_eq!(signed.status, 202, "{signed:?}");
    let started = signed.json()["started"].clone();
    assert_eq!(
        started.as_array().map(Vec::len),
        Some(1),
        "not the plain one"
    );
    let token = ask("/hooks/token", &format!("authorization: Bearer {NEW}"));
    assert_eq!(token.status, 202, "{token:?}");

    let unsigned = ask("/hooks/github", "x-hub-signature-256: sha256=00");
    assert_eq!(unsigned.problem(), code(401, "WL-H045"));
    let password = STANDARD.encode(format!("shop:{NEW}"));
    let password = format!("authorization: Basic {password}");
    let refused = ask("/hooks/password", &password);
    assert_eq!(refused.problem(), code(403, "WL-H027"));
    assert_eq!(runs(&web), 2);
    let own = web.ask("POST", "/hooks/password", &[JSON, &password], "{}");
    assert_eq!(own.status, 202, "{own:?}");
}

/// One trigger of a path cannot start its workflow: the sender gets an error and repeats the
/// delivery, and the other triggers have started theirs once.
#[test]
fn a_trigger_that_cannot_start_keeps_no_other_from_it() {
    let mut picky = github("a-picky", &["new"]);
    picky["input"] = json!({ "properties": { "body": { "required": ["never"] } } });
    let plain = echo("plain", json!({ "path": "/github" }));
    let (_place, web) = web(&[], &[picky, github("signed", &["new"]), plain]);
    for _ in 0..2 {
        let answer = deliver(&web, NEW, ("{}", "{}"), "1");
        assert_eq!(answer.problem(), code(400, "WL-R070"));
        assert_eq!(runs(&web), 2, "the plain one and the signed one");
    }
}

#[test]
fn each_workflow_of_one_path_verifies_for_itself() {
    let plain = echo("plain", json!({ "path": "/github" }));
    let workflows = [github("signed", &["new"]), github("other", &["old"]), plain];
    let (_place, web) = web(&[], &workflows);
    let stranger = "stranger-stranger-stranger-key-!";
    for (key, id, wanted) in [
        (NEW, "1", &["plain", "signed"][..]),
        (OLD, "2", &["other", "plain"]),
        (stranger, "3", &["plain"]),
        (NEW, "4", &["plain", "signed"]),
    ] {
        let answer = deliver(&web, key, ("{}", "{}"), id).json();
        let ids = answer["started"].as_array().unwrap();
        let name = |id: &Value| {
            let run = web.get(&format!("/api/v1/runs/{}", id.as_str().unwrap()));
            run["run"]["workflow"].as_str().unwrap().to_owned()
        };
        let mut names: Vec<String> = ids.iter().map(name).collect();
        names.sort();
        assert_eq!(names, wanted, "{id}");
    }
}

#[test]
fn a_delivery_that_comes_again_is_answered_with_its_first_run() {
    let (_place, web) = web(&[], &[github("signed", &["new"])]);
    let body = r#"{"order": 7}"#;
    let first = deliver(&web, NEW, (body, body), "1").json();
    assert_eq!(first.get("existed"), None, "{first}");
    for _ in 0..3 {
        let again = deliver(&web, NEW, (body, body), "1");
        assert_eq!(again.status, 202, "{again:?}");
        assert_eq!(again.json()["started"], first["started"]);
        assert_eq!(again.json()["existed"], true);
    }
    // A new version of the workflow does not make it a new delivery.
    let mut newer = github("signed", &["new"]);
    newer["description"] = json!("newer");
    web.publish(&newer);
    let again = deliver(&web, NEW, (body, body), "1").json();
    assert_eq!(again["started"], first["started"]);
    assert_eq!(runs(&web), 1);
    for (body, id) in [(body, "2"), (r#"{"order": 8}"#, "1")] {
        let other = deliver(&web, NEW, (body, body), id).json();
        assert_ne!(other["started"], first["started"], "{body} {id}");
    }
    assert_eq!(runs(&web), 3);
}

#[test]
fn a_key_is_rotated_without_a_refused_delivery() {
    let (place, web) = web(&[], &[github("signed", &["new", "old"])]);
    for (key, body) in [(OLD, "1"), (NEW, "2")] {
        assert_eq!(deliver(&web, key, (body, body), "1").status, 202, "{key}");
    }
    // The file of a secret changes, and the host takes the new value.
    let newest = "newest-newest-newest-newest-key!";
    fs::write(place.path("new"), newest).unwrap();
    until("the new value verifies", || {
        deliver(&web, newest, ("3", "3"), "1").status == 202
    });
    let refused = code(401, "WL-H045");
    assert_eq!(deliver(&web, NEW, ("4", "4"), "1").problem(), refused);
    // A new version without the old key refuses the old key at once.
    web.publish(&github("signed", &["new"]));
    assert_eq!(deliver(&web, OLD, ("5", "5"), "1").problem(), refused);
    // A missing secret verifies nothing, and the operator sees the difference in the log.
    web.publish(&github("signed", &["missing"]));
    let broken = code(503, "WL-H046");
    assert_eq!(deliver(&web, NEW, ("6", "6"), "1").problem(), broken);
    until("the log names the secret", || {
        web.process.stderr().contains("missing")
    });
}

#[test]
fn a_node_answers_the_sender() {
    let answers = |path: &str, node: Value| {
        json!({
            "workflow": path.trim_start_matches('/'),
            "triggers": { "ask": { "http": {
                "path": path, "respond": { "node": "answer", "within": "30s" },
            } } },
            "nodes": { "answer": node, "later": { "use": "echo/echo" } },
            "edges": ["answer -> later"],
        })
    };
    let price = answers(
        "/price",
        json!({ "set": {
            "status": 201, "headers": { "X-Price": "5" }, "body": { "for": "{{ input.body }}" },
        } }),
    );
    let cookie = answers(
        "/cookie",
        json!({ "set": { "headers": { "set-cookie": "a=b" } } }),
    );
    let mut broken = answers("/broken", json!({ "fail": "no price" }));
    // A node that always fails, without a successor.
    broken["edges"] = json!([]);
    let mut slow = answers("/slow", json!({ "wait": "1h" }));
    slow["triggers"]["ask"]["http"]["respond"]["within"] = json!("100ms");
    let (_place, web) = web(&[], &[price, cookie, broken, slow]);
    let answer = web.post("/hooks/price", &json!("bread"));
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.json(), json!({ "for": "bread" }));
    assert_eq!(answer.header("x-price"), Some("5"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    let policy = answer.header("content-security-policy");
    assert_eq!(policy, Some("sandbox; default-src 'none'"));
    for path in ["/hooks/cookie", "/hooks/broken"] {
        let answer = web.post(path, &json!(1));
        assert_eq!(answer.problem(), code(502, "WL-H048"), "{path}");
        assert_eq!(answer.header("set-cookie"), None);
    }
    let mut bytes = answers("/bytes", json!({ "set": { "body": { "base64": "aGkA" } } }));
    bytes["triggers"]["ask"]["http"]["method"] = json!("GET");
    web.publish(&bytes);
    let answer = web.ask("GET", "/hooks/bytes", &[], "");
    assert_eq!((answer.status, answer.body.as_str()), (200, "hi\0"));
    let media = answer.header("content-type");
    assert_eq!(media, Some("application/octet-stream"));
    let head = web.ask("HEAD", "/hooks/bytes", &[], "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.header("content-length"), Some("3"));
    assert_eq!(head.header("content-type"), media);
    let answer = web.post("/hooks/slow", &json!(1));
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.json()["started"].as_array().map(Vec::len), Some(1));

    let nowhere = json!({ "respond": { "node": "nowhere" }, "path": "/x" });
    let wrong = web.ask(
        "PUT",
        "/api/v1/definitions/wrong",
        &[JSON],
        &echo("wrong", nowhere).to_string(),
    );
    assert_eq!(wrong.status, 422, "{wrong:?}");
    assert_eq!(wrong.json()["errors"][0]["code"], "WL-D171");
}

#[test]
fn a_trigger_with_a_constant_answer_is_checked_before_it_is_published() {
    let (_place, web) = web(&[], &[]);
    let put = |set: Value| {
        let workflow = json!({
            "workflow": "answers",
            "triggers": { "ask": { "http": { "path": "/ask", "respond": { "node": "answer" } } } },
            "nodes": { "answer": { "set": set } },
        });
        let path = "/api/v1/definitions/answers";
        web.ask("PUT", path, &[JSON], &workflow.to_string())
    };
    for (set, place) in [
        (json!({ "status": 99 }), "/nodes/answer/set/status"),
        (json!({ "status": "200" }), "/nodes/answer/set/status"),
        (json!({ "status": 200.5 }), "/nodes/answer/set/status"),
        (json!({ "headers": [] }), "/nodes/answer/set/headers"),
        (
            json!({ "headers": { "X-A": true, "X-B": "{{ input.body }}" } }),
            "/nodes/answer/set/headers/X-A",
        ),
        (json!({ "state": 1 }), "/nodes/answer/set/state"),
        (
            json!({ "status": "{{ 90 + 9 }}" }),
            "/nodes/answer/set/status",
        ),
        (
            json!({ "headers": { "a b": "x" } }),
            "/nodes/answer/set/headers/a b",
        ),
        (
            json!({ "headers": { "X-A": "x\ny" } }),
            "/nodes/answer/set/headers/X-A",
        ),
        (
            json!({ "headers": { "X-A": ["x", "é"] } }),
            "/nodes/answer/set/headers/X-A",
        ),
        (
            json!({ "body": { "base64": "?" } }),
            "/nodes/answer/set/body",
        ),
        (
            json!({ "status": 204, "body": "x" }),
            "/nodes/answer/set/body",
        ),
    ] {
        let answer = put(set.clone());
        assert_eq!(answer.status, 422, "{set}: {answer:?}");
        let found = answer.json()["errors"][0].clone();
        assert_eq!(found["code"], "WL-D175", "{set}: {found}");
        assert_eq!(found["pointer"], place, "{set}: {found}");
    }
    let fits = json!({
        "status": 503, "headers": { "Retry-After": 5, "X-B": "{{ input.body }}", "Location": "/é" },
        "body": "later",
    });
    assert_eq!(put(fits).status, 200);
    let answer = web.post("/hooks/ask", &json!("b"));
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (503, Some("5"))
    );
}

#[test]
fn parameters_of_the_path_reach_the_run_and_literal_parts_win() {
    let workflows = [
        echo("any", json!({ "path": "/orders/{id}/{part}" })),
        echo("lines", json!({ "path": "/orders/{id}/lines" })),
        echo("new", json!({ "path": "/orders/new/{part}" })),
        echo("plain", json!({ "path": "/orders/new/lines" })),
        echo(
            "get",
            json!({ "method": "GET", "path": "/orders/{id}/lines" }),
        ),
    ];
    let (_place, web) = web(&[], &workflows);
    for (path, workflow, params) in [
        ("7/parts", "any", json!({ "id": "7", "part": "parts" })),
        ("7/lines", "lines", json!({ "id": "7" })),
        ("new/parts", "new", json!({ "part": "parts" })),
        ("new/lines", "plain", Value::Null),
        ("a%20%252F/lines", "lines", json!({ "id": "a %2F" })),
    ] {
        let answer = web.post(
            &format!("/hooks/orders/{path}?a=1&a=2&b=3&wait=60s"),
            &json!(1),
        );
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let answer = answer.json();
        assert_eq!(answer["output"]["params"], params, "{path}");
        assert_eq!(
            answer["output"]["query"],
            json!({ "a": ["1", "2"], "b": "3" })
        );
        let id = answer["id"].as_str().unwrap();
        let run = web.get(&format!("/api/v1/runs/{id}"));
        assert_eq!(run["run"]["workflow"], workflow, "{path}");
    }
    for path in [
        "7",
        "7/",
        "7/lines/",
        "7/lines/1",
        "/lines",
        "./lines",
        "../lines",
        "a%2Fb/lines",
        "%00/lines",
        "%2e%2E/lines",
        "%ff/lines",
        "%4/lines",
    ] {
        let answer = web.post(&format!("/hooks/orders/{path}"), &json!(1));
        assert_eq!(answer.problem(), code(404, "WL-H015"), "{path}");
    }
}

/// A workflow whose input is made of the request.
fn order() -> Value {
    let integer = json!({ "type": "integer" });
    json!({
        "workflow": "order",
        "input": {
            "type": "object",
            "required": ["customer", "id"],
            "additionalProperties": false,
            "properties": {
                "customer": { "type": "string" },
                "id": integer,
                "tags": { "type": "array" },
                "limit": { "type": "integer", "maximum": 100 },
                "note": { "type": "string", "default": "none" },
            },
        },
        "triggers": { "placed": {
            "http": {
                "path": "/orders/{id}",
                "params": { "properties": { "id": integer } },
                "query": { "properties": {
                    "limit": { "type": "integer", "default": 10 },
                    "tag": { "type": "array", "items": { "type": ["integer", "boolean"] }, "default": [] },
                } },
            },
            "input": {
                "customer": "{{ request.body.customer }}",
                "id": "{{ request.params.id }}",
                "limit": "{{ request.query.limit }}",
                "tags": "{{ request.query.tag }}",
            },
        } },
        "nodes": { "a": { "use": "echo/echo" } },
        "output": "{{ nodes.a.output }}",
    })
}

#[test]
fn a_trigger_makes_the_input_of_the_request() {
    let (_place, web) = web(&[], &[order()]);
    let send = |path: &str, body: &str| {
        let answer = web.ask("POST", &format!("/hooks/orders/{path}"), &[JSON], body);
        (answer.status, answer.json())
    };
    for (path, expected) in [
        (
            "7",
            json!({ "customer": "Ada", "id": 7, "limit": 10, "tags": [], "note": "none" }),
        ),
        (
            "-9223372036854775808?limit=20&tag=1&tag=true",
            json!({ "customer": "Ada", "id": i64::MIN, "limit": 20, "tags": [1, true], "note": "none" }),
        ),
        (
            "8?tag=3",
            json!({ "customer": "Ada", "id": 8, "limit": 10, "tags": [3], "note": "none" }),
        ),
    ] {
        let (status, answer) = send(path, r#"{"customer": "Ada"}"#);
        assert_eq!(status, 202, "{path}: {answer}");
        let id = answer["started"][0].as_str().unwrap();
        assert_eq!(web.result(id)["output"], expected, "{path}");
        let run = web.get(&format!("/api/v1/runs/{id}"));
        assert_eq!(run["input"], expected, "{path}");
    }
    let before = runs(&web);
    for (path, body, place) in [
        ("seven", r#"{"customer": "Ada"}"#, "/params/id"),
        ("7.5", r#"{"customer": "Ada"}"#, "/params/id"),
        (
            "99999999999999999999",
            r#"{"customer": "Ada"}"#,
            "/params/id",
        ),
        ("7?limit=", r#"{"customer": "Ada"}"#, "/query/limit"),
        (
            "7?limit=1&limit=2",
            r#"{"customer": "Ada"}"#,
            "/query/limit",
        ),
        ("7?limit=0x10", r#"{"customer": "Ada"}"#, "/query/limit"),
        ("7?tag=yes", r#"{"customer": "Ada"}"#, "/query/tag/0"),
        ("7?limit=101", r#"{"customer": "Ada"}"#, "/limit"),
        ("7", r#"{"customer": 5}"#, "/customer"),
        ("7", r#"{"name": "Ada"}"#, "/triggers/placed/input/customer"),
        ("7", "", "/triggers/placed/input/customer"),
        ("7", "[]", "/triggers/placed/input/customer"),
    ] {
        let (status, answer) = send(path, body);
        assert_eq!(status, 400, "{path} {body}: {answer}");
        assert_eq!(answer["code"], "WL-R070", "{path} {body}");
        assert_eq!(
            answer["errors"][0]["pointer"], place,
            "{path} {body}: {answer}"
        );
    }
    assert_eq!(runs(&web), before, "nothing was started");
}

#[test]
fn a_trigger_that_can_start_nothing_is_not_published() {
    let (_place, web) = web(&[], &[]);
    let put = |workflow: &Value| {
        let path = "/api/v1/definitions/order";
        web.ask("PUT", path, &[JSON], &workflow.to_string()).json()
    };
    let check = |change: &dyn Fn(&mut Value), place: &str, message: &str| {
        let mut workflow = order();
        change(&mut workflow);
        let answer = put(&workflow);
        let found = &answer["errors"][0];
        assert_eq!(found["code"], "WL-D174", "{answer}");
        assert_eq!(found["pointer"], place, "{answer}");
        let told = found["detail"].as_str().unwrap();
        assert!(told.contains(message), "{answer}");
    };
    let trigger = |workflow: &mut Value, change: &dyn Fn(&mut Value)| {
        change(&mut workflow["triggers"]["placed"]);
    };
    check(
        &|it| trigger(it, &|it| drop(it.as_object_mut().unwrap().remove("input"))),
        "/triggers/placed/http",
        "the property `customer` is missing",
    );
    check(
        &|it| {
            trigger(it, &|it| {
                drop(it["input"].as_object_mut().unwrap().remove("id"))
            })
        },
        "/triggers/placed/input",
        "the property `id` is missing",
    );
    check(
        &|it| {
            trigger(it, &|it| {
                it["input"]["id"] = json!("order {{ request.params.id }}")
            })
        },
        "/triggers/placed/input/id",
        "`id` is a text, where a whole number is wanted",
    );
    check(
        &|it| {
            trigger(it, &|it| {
                drop(it["http"].as_object_mut().unwrap().remove("params"))
            })
        },
        "/triggers/placed/input/id",
        "`id` is a text, where a whole number is wanted",
    );
    check(
        &|it| trigger(it, &|it| it["input"]["extra"] = json!(5)),
        "/triggers/placed/input",
        "there is no property `extra`",
    );
    check(
        &|it| {
            trigger(it, &|it| {
                it["input"]["id"] = json!("{{ request.params.ID }}")
            })
        },
        "/triggers/placed/input/id",
        "no parameter `ID`",
    );
    let mut unknown = order();
    trigger(&mut unknown, &|it| {
        it["input"]["id"] = json!("{{ input.id }}");
    });
    let answer = put(&unknown);
    assert_eq!(
        answer["errors"][0]["pointer"], "/triggers/placed/input/id",
        "{answer}"
    );
    let mut fits = order();
    fits["triggers"]["all"] = json!({ "http": { "path": "/all" }, "input": "{{ request.body }}" });
    assert_eq!(put(&fits)["version"], 1);
}

#[test]
fn numbers_of_any_size_reach_a_node_as_they_were_sent() {
    let (place, web) = web(&[], &[echo("numbers", json!({ "path": "/numbers" }))]);
    let numbers = "[123456789012345678901234567890, 9007199254740993, 0.10]";
    let body = format!("{{\"n\": {numbers}}}");
    let answer = web.ask("POST", "/hooks/numbers", &[JSON], &body);
    let id = answer.json()["started"][0].as_str().unwrap().to_owned();
    web.result(&id);
    let (look, store) = (place.look(), place.look().store());
    let runs = store.executions(look.run(&id).no, None, 10).unwrap();
    let given = runs[0].output.as_ref().unwrap().inline().unwrap();
    let given = String::from_utf8(given.to_vec()).unwrap();
    assert!(given.contains(numbers), "{given}");
}

#[test]
fn a_stranger_waits_for_no_run() {
    let plain = echo("plain", json!({ "path": "/plain" }));
    let respond = json!({ "node": "a", "within": "30s" });
    let answers = json!({
        "workflow": "answers",
        "triggers": { "hook": { "http": { "path": "/answers", "respond": respond } } },
        "nodes": { "a": { "set": { "body": "here" } } },
    });
    let (_place, web) = web(&[("server.token", TOKEN)], &[plain, answers]);
    let token = format!("authorization: Bearer {TOKEN}");
    let path = "/hooks/plain?wait=60s";
    let refused = web.ask("POST", path, &[JSON], "1");
    assert_eq!(refused.problem(), code(403, "WL-H047"));
    let list = web.ask("GET", "/api/v1/runs", &[&token], "").json();
    assert_eq!(list["items"], json!([]), "nothing was started");
    assert_eq!(web.ask("POST", path, &[JSON, &token], "1").status, 200);
    assert_eq!(web.ask("POST", "/hooks/plain", &[JSON], "1").status, 202);
    let answer = web.ask("POST", "/hooks/answers?wait=20s", &[JSON], "1");
    assert_eq!((answer.status, answer.body.as_str()), (200, "here"));
}
