//! Resume links: how they are made, the form of their page, and when they end.

use std::process::Command;

use serde_json::{Value, json};
use windlass_model::Status;
use windlass_tests::harness::{Answer, Place, Process, Said, Web, until, until_some};

const FORM: &str = "content-type: application/x-www-form-urlencoded";
const BROWSER: &str = "accept: text/html";

/// Stores the link of a later node in a variable, and reaches that node afterwards.
fn asks(wait: &str) -> Value {
    json!({
        "workflow": "asks",
        "vars": { "link": null },
        "nodes": {
            "tell": { "set": { "link": "{{ nodes.ask.link }}" } },
            "ask": {
                "use": "human/confirm",
                "with": { "message": "Pay <b>5000</b>?" },
                "wait-timeout": wait,
                "on-error": "route",
            },
            "late": { "set": { "link": null } },
        },
        "edges": ["tell -> ask", "ask.error -> late"],
        "output": "{{ nodes.ask.output }}",
    })
}

/// A host, and a run of `asks` that waits, with its link.
fn asked(place: &Place, wait: &str) -> (Web, String, String) {
    let web = Web::serve(place);
    web.publish(&asks(wait));
    let id = web.start("asks", &Value::Null);
    until("the run waits", || !bookmarks(&web).is_empty());
    let shown = web.get(&format!("/api/v1/runs/{id}"));
    let link = path(&shown["vars"]["link"]);
    (web, id, link)
}

fn bookmarks(web: &Web) -> Vec<Value> {
    let listed = web.get("/api/v1/bookmarks?links=true");
    listed["items"].as_array().expect("a list").clone()
}

/// The path of a link: the port of the host is not known when the link is made.
#[track_caller]
fn path(link: &Value) -> String {
    let link = link.as_str().expect("a link");
    link[link.find("/resume/").expect("a link")..].to_owned()
}

#[track_caller]
fn check_gone(answer: &Answer) {
    assert_eq!(answer.problem(), (404, "WL-H011".to_owned()), "{answer:?}");
}

#[test]
fn a_workflow_sends_the_link_of_a_node_before_it_waits() {
    let place = Place::new(&["human"]);
    let (web, id, link) = asked(&place, "1h");
    let page = web.get_any(&link);
    assert_eq!(page.status, 200, "{page:?}");
    for wanted in [
        "Pay &lt;b&gt;5000&lt;/b&gt;?",
        "value=\"approve\"",
        "value=\"reject\"",
        "name=\"comment\"",
    ] {
        assert!(page.body.contains(wanted), "{wanted}: {}", page.body);
    }
    let answer = web.ask("POST", &link, &[FORM], "decision=approve&by=Ada+L&comment=");
    assert_eq!(answer.status, 200, "{answer:?}");
    let output = json!({ "decision": "approve", "by": "Ada L" });
    assert_eq!(web.result(&id)["output"], output);
    check_gone(&web.get_any(&link));
    check_gone(&web.ask("POST", &link, &[FORM], "decision=approve"));
}

#[test]
fn a_node_beside_the_one_that_waits_sends_the_link_of_that_wait() {
    let workflow = json!({
        "workflow": "beside",
        "nodes": {
            "ask": { "event": "answered" },
            "go": { "event": "go" },
            "tell": { "use": "echo/echo", "input": { "link": "{{ nodes.ask.link }}" } },
        },
        "edges": ["go -> tell"],
        "output": "{{ [nodes.ask.output, nodes.tell.output.link] }}",
    });
    let place = Place::new(&["echo"]);
    let web = Web::serve(&place);
    web.publish(&workflow);
    let id = web.start("beside", &Value::Null);
    until("both wait", || bookmarks(&web).len() == 2);
    web.post("/api/v1/stimuli", &json!({ "name": "go" }));
    let link = until_some("the link was sent", || {
        let runs = web.get(&format!("/api/v1/runs/{id}/executions"));
        let runs = runs["items"].as_array().expect("a list");
        let told = runs.iter().find(|run| run["node"] == "tell")?;
        Some(path(&told["output"]["link"]))
    });
    assert_eq!(web.get_any(&link).status, 200);
    let json = "content-type: application/json";
    let answer = web.ask("POST", &link, &[json], "7");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(web.result(&id)["output"][0], 7);
    check_gone(&web.get_any(&link));
}

#[test]
fn an_answer_that_does_not_fit_keeps_the_link() {
    let place = Place::new(&["human"]);
    let (web, id, link) = asked(&place, "1h");
    let no = bookmarks(&web)[0]["no"].clone();
    let page = web.ask("POST", &link, &[FORM, BROWSER], "decision=perhaps&by=Ada");
    assert_eq!(page.status, 422, "{page:?}");
    for wanted in ["role=\"alert\"", "/decision", "value=\"Ada\""] {
        assert!(page.body.contains(wanted), "{wanted}: {}", page.body);
    }
    let json = "content-type: application/json";
    for wrong in ["{\"decision\":\"perhaps\"}", "{}", "7", ""] {
        let answer = web.ask("POST", &link, &[json], wrong);
        assert_eq!(answer.problem(), (422, "WL-R160".to_owned()), "{wrong}");
    }
    let said = place.say(&["bookmark", "resume", &no.to_string(), "--input", "{}"]);
    assert_eq!(said.exit, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("WL-R160"), "{}", said.stderr);
    let still: Vec<_> = bookmarks(&web).iter().map(|of| of["no"].clone()).collect();
    assert_eq!(still, [no], "the same wait goes on");
    let answer = web.ask("POST", &link, &[json], "{\"decision\":\"reject\"}");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(web.result(&id)["output"]["decision"], "reject");
}

#[test]
fn each_item_of_a_list_has_a_link_of_its_own() {
    let workflow = json!({
        "workflow": "lists",
        "nodes": { "each": {
            "for-each": "{{ [1, 2] }}",
            "concurrency": 2,
            "nodes": {
                "tell": { "use": "echo/echo", "input": { "link": "{{ nodes.ask.link }}" } },
                "ask": { "event": "answered", "match": "{{ item }}" },
            },
            "edges": ["tell -> ask"],
            "output": "{{ [item, nodes.ask.output.of] }}",
        } },
        "output": "{{ nodes.each.output }}",
    });
    let place = Place::new(&["echo"]);
    let web = Web::serve(&place);
    web.publish(&workflow);
    let id = web.start("lists", &Value::Null);
    until("both items wait", || bookmarks(&web).len() == 2);
    let runs = web.get(&format!("/api/v1/runs/{id}/executions"));
    let runs = runs["items"].as_array().expect("a list");
    let mut links: Vec<_> = runs
        .iter()
        .filter(|run| run["node"] == "tell")
        .map(|run| path(&run["output"]["link"]))
        .collect();
    links.sort_unstable();
    links.dedup();
    assert_eq!(links.len(), 2, "{runs:#?}");
    let json = "content-type: application/json";
    for (at, link) in links.iter().enumerate() {
        let answer = web.ask("POST", link, &[json], &format!("{{\"of\":{at}}}"));
        assert_eq!(answer.status, 200, "{answer:?}");
        check_gone(&web.get_any(link));
    }
    let output = web.result(&id)["output"].clone();
    let mut answers: Vec<_> = output.as_array().expect("a list").clone();
    answers.sort_by_key(|pair| pair[1].as_u64());
    assert_eq!((&answers[0][1], &answers[1][1]), (&json!(0), &json!(1)));
    assert_ne!(answers[0][0], answers[1][0], "each link is for its item");
}

#[test]
fn lists_give_new_links_for_the_same_wait() {
    let place = Place::new(&["human"]);
    let (web, id, sent) = asked(&place, "1h");
    let of_api = path(&bookmarks(&web)[0]["link"]);
    let list = ["-o", "json", "bookmark", "list"];
    let of_command = place.say(&[&list[..], &["--links"]].concat()).json();
    let of_command = path(&of_command[0]["link"]);
    for link in [&sent, &of_api, &of_command] {
        assert_eq!(web.get_any(link).status, 200, "{link}");
    }
    let plain = place.say(&list).json();
    assert!(plain[0].get("link").is_none(), "{plain}");
    let plain = web.get("/api/v1/bookmarks");
    assert!(plain["items"][0].get("link").is_none(), "{plain}");
    let (_, token) = of_command.rsplit_once('/').expect("a link");
    place.ask(&["bookmark", "resume", token, "--input", "decision=approve"]);
    assert_eq!(web.result(&id)["output"]["decision"], "approve");
    for link in [&sent, &of_api, &of_command] {
        check_gone(&web.get_any(link));
    }
}

#[test]
fn a_link_ends_with_its_wait() {
    let place = Place::new(&["human"]);
    let (web, id, link) = asked(&place, "2s");
    assert_eq!(web.result(&id)["status"], Status::Completed.name());
    check_gone(&web.get_any(&link));
    check_gone(&web.ask("POST", &link, &[FORM], "decision=approve"));
}

#[test]
fn a_link_is_good_for_as_long_as_its_key_is_in_the_keyring() {
    let place = Place::new(&["human"]);
    let (web, _, link) = asked(&place, "1h");
    drop(web);
    let shown = || place.say(&["-o", "json", "keys", "show"]).json();
    let old = shown()["keys"][0]["key"]
        .as_str()
        .expect("a key")
        .to_owned();
    let refused = place.say(&["keys", "remove", &old]);
    assert!(refused.stderr.contains("WL-C011"), "{}", refused.stderr);
    place.ask(&["keys", "rotate"]);
    let web = Web::serve(&place);
    assert_eq!(web.get_any(&link).status, 200, "an older key verifies");
    place.ask(&["keys", "remove", &old]);
    // The running host notices it.
    until("the link ends", || web.get_any(&link).status != 200);
    check_gone(&web.get_any(&link));
    drop(web);
    let web = Web::serve(&place);
    check_gone(&web.get_any(&link));
}

/// A command with another keyring than that of its user.
fn with_keyring(place: &Place, keyring: &str, arguments: &[&str]) -> Said {
    let mut command: Command = place.windlass();
    command.args(arguments).env("WINDLASS_KEYRING", keyring);
    Said::of(&mut Process::start(&arguments.join(" "), &mut command))
}

#[test]
fn a_copy_of_the_store_makes_no_links_without_the_keyring() {
    let here = Place::new(&["human"]);
    let (web, _, link) = asked(&here, "1h");
    let copy = here.path("copy.db").display().to_string();
    let keyring = here.path("copy.keyring").display().to_string();
    here.ask(&["store", "backup", &copy, "--keyring", &keyring]);
    drop(web);
    let again = here.say(&["store", "backup", "b.db", "--keyring", &keyring]);
    assert!(again.stderr.contains("WL-C011"), "{}", again.stderr);
    assert!(!here.path("b.db").exists(), "nothing is copied by half");
    let secret = std::fs::read_to_string(&keyring).expect("it is there");
    let secret = secret.split_whitespace().last().expect("a key").to_owned();
    let bytes = std::fs::read(&copy).expect("it is there");
    let found = bytes
        .windows(secret.len())
        .any(|window| window == secret.as_bytes());
    assert!(!found, "the store has no key");
    let there = Place::new(&["human"]);
    let said = there.ask(&["store", "restore", &copy]);
    assert!(said.contains("windlass keys learn"), "{said}");
    let web = Web::serve(&there);
    check_gone(&web.get_any(&link));
    drop(web);
    there.ask(&["keys", "learn", &keyring]);
    let web = Web::serve(&there);
    assert_eq!(web.get_any(&link).status, 200);
}

#[test]
fn a_host_that_lacks_the_key_of_its_cluster_does_not_join() {
    let place = Place::new(&["echo"])
        .with("cluster.enabled", "true")
        .with("cluster.allow-local-locks", "true");
    let serve = place.serve();
    let own = place.ask(&["keys", "show", "--secret"]);
    let other = Place::new(&[]).ask(&["keys", "show", "--secret"]);
    let refused = with_keyring(&place, &other, &["serve"]);
    assert_eq!(refused.exit, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("WL-R164"), "{}", refused.stderr);
    assert!(refused.stderr.contains("keys adopt"), "{}", refused.stderr);
    drop(serve);
    // A host that has the key among its older ones may join, although its newest key differs.
    let both = [own.as_str(), other.as_str()].concat();
    let joins = |keyring: &str| {
        let mut command = place.windlass();
        command.arg("serve").env("WINDLASS_KEYRING", keyring);
        let mut process = Process::start("serve", &mut command);
        place.until_member(&mut process);
    };
    joins(&both);
    joins(&other);
    assert!(place.say(&["serve"]).stderr.contains("WL-R164"));
    place.ask(&["keys", "adopt"]);
    drop(place.serve());
}

#[test]
fn only_a_token_of_the_host_finds_the_waiting_node() {
    let place = Place::new(&["human"]);
    let (web, id, link) = asked(&place, "1h");
    let token = &link["/resume/".len()..];
    let shorter = &token[..token.len() - 1];
    for token in [
        shorter,
        &format!("{token}A"),
        &token.to_ascii_lowercase(),
        &"A".repeat(60),
        &"A".repeat(43),
        &"A".repeat(5_000),
        id.as_str(),
        "..",
        "%00",
    ] {
        let answer = web.get_any(&format!("/resume/{token}"));
        assert!((400..500).contains(&answer.status), "{token}: {answer:?}");
    }
    let waits = until_some("it waits", || bookmarks(&web).pop());
    assert_eq!(waits["run"], id.as_str());
    assert_eq!(web.get_any(&link).status, 200);
}

/// A workflow that goes on by one answer, or by any.
fn decides(edges: &Value) -> Value {
    json!({
        "workflow": "decides",
        "vars": { "went": "nowhere" },
        "nodes": {
            "ask": { "use": "human/confirm", "with": { "message": "Really?" } },
            "yes": { "set": { "went": "yes" } },
        },
        "edges": edges,
        "output": "{{ vars.went }}",
    })
}

#[test]
fn an_answer_takes_only_the_edges_that_name_it() {
    let place = Place::new(&["human"]);
    let web = Web::serve(&place);
    let put = |edges: &Value| {
        let json = "content-type: application/json";
        let path = "/api/v1/definitions/decides";
        web.ask("PUT", path, &[json], &decides(edges).to_string())
    };
    for edge in [
        "ask -> yes",
        "ask.done -> yes",
        "ask -> yes: input.total > 5",
    ] {
        let answer = put(&json!([edge]));
        assert_eq!(answer.status, 422, "{edge}: {answer:?}");
        let found = answer.json()["errors"][0].clone();
        assert_eq!(found["code"], "WL-D096", "{edge}: {found}");
        let told = found["detail"].as_str().unwrap();
        assert!(told.contains("`approved` or `rejected`"), "{edge}: {told}");
    }
    for edge in ["ask.approve -> yes", "ask.nothing -> yes"] {
        let found = put(&json!([edge])).json()["errors"][0].clone();
        assert_eq!(found["code"], "WL-D081", "{edge}: {found}");
        let help = found["help"].as_str().unwrap();
        assert!(help.contains("`approved`, `rejected`"), "{edge}: {help}");
    }
    for (edge, decision, went) in [
        ("ask.approved -> yes", "approve", "yes"),
        ("ask.approved -> yes", "reject", "nowhere"),
        ("ask.rejected -> yes", "approve", "nowhere"),
        ("ask.* -> yes", "approve", "yes"),
        ("ask.* -> yes", "reject", "yes"),
    ] {
        assert_eq!(put(&json!([edge])).status, 200, "{edge}");
        let id = web.start("decides", &Value::Null);
        until("the run waits", || !bookmarks(&web).is_empty());
        let answer = json!({
            "name": "human.confirm",
            "match": { "run": id, "node": "ask" },
            "input": { "decision": decision },
        });
        web.post("/api/v1/stimuli", &answer);
        assert_eq!(web.result(&id)["output"], went, "{edge} {decision}");
    }
}
