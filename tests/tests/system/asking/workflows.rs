//! Definitions and drafts.

use serde_json::{Value, json};

use super::Both;

fn daily(name: &str, hour: u32) -> Value {
    json!({
        "workflow": name,
        "triggers": {
            "daily": { "cron": format!("30 {hour} * * *"), "timezone": "Europe/Berlin" },
            "paid": { "event": "paid", "match": { "of": name } },
        },
        "nodes": { "only": { "set": { "done": true } } },
    })
}

#[test]
fn what_is_published_is_published_and_shown_the_same() {
    let both = Both::new();
    let mine = both.file("mine", &daily("mine", 3));
    let yours = both.file("yours", &daily("yours", 3));
    let alike = |before: &[&str], after: &[&str]| {
        let of = |name| [before, &[name], after].concat();
        let (direct, asked) = (both.direct(&of("mine")), both.asked(&of("yours")));
        assert_eq!(direct.exit, asked.exit, "{before:?}: {direct:?} {asked:?}");
        let renamed = asked.stdout.replace("yours", "mine");
        assert_eq!(
            super::masked(&direct.stdout),
            super::masked(&renamed),
            "{before:?}"
        );
    };
    let publish = |mine: &str, yours: &str| {
        for format in ["text", "jsonl"] {
            let direct = both.direct(&["-o", format, "workflow", "publish", mine]);
            let asked = both.asked(&["-o", format, "workflow", "publish", yours]);
            assert_eq!((direct.exit, asked.exit), (Some(0), Some(0)), "{asked:?}");
            assert_eq!(direct.stdout, asked.stdout.replace("yours", "mine"));
        }
    };
    publish(&mine, &yours);
    both.same(&["workflow", "list"]);
    both.same(&["workflow", "show", "yours"]);
    both.same(&["trigger", "next", "yours", "--count", "9"]);
    both.same(&["trigger", "next", "yours", "daily"]);
    both.same(&["trigger", "next", "yours", "none"]);
    both.same(&["trigger", "next", "nobodys"]);
    both.same(&["trigger", "next", &yours, "--count", "2"]);
    publish(
        &both.file("mine", &daily("mine", 4)),
        &both.file("yours", &daily("yours", 4)),
    );
    both.same(&["workflow", "list", "--all"]);
    both.same(&["workflow", "show", "yours", "--version", "1"]);
    both.same(&["workflow", "show", "yours", "--version", "9"]);
    alike(&["workflow", "revert"], &["1"]);
    alike(&["-o", "json", "workflow", "revert"], &["2"]);
    alike(&["workflow", "revert"], &["7"]);
    for (name, ask) in [("mine", true), ("yours", false), ("yours", true)] {
        let command = ["-o", "json", "workflow", "revert", name, "1", "--draft"];
        let said = match ask {
            true => both.asked(&command),
            false => both.direct(&command),
        };
        let mut item = said.json();
        assert!(item["draft"].is_u64(), "{said:?}");
        item["draft"] = Value::Null;
        let expected = json!({ "workflow": name, "reverted_to": 1, "draft": null });
        assert_eq!(item, expected);
    }
    both.same(&["workflow", "draft", "show", "yours"]);
    alike(&["workflow", "draft", "discard"], &[]);
    both.same(&["workflow", "list", "--all"]);
    alike(&["workflow", "refresh"], &[]);
    alike(&["-o", "json", "workflow", "refresh"], &["none"]);
    both.twice(&["workflow", "refresh"]);
    both.twice(&["workflow", "refresh", "none"]);
    alike(&["workflow", "retract"], &[]);
    alike(&["workflow", "retract"], &[]);
    both.same(&["workflow", "list"]);
    let wrong = json!({ "workflow": "wrong", "nodes": { "a": { "use": "echo/none" } } });
    let wrong = both.file("wrong", &wrong);
    let publish = ["workflow", "publish", &wrong];
    let (direct, asked) = both.alike(&publish, &publish);
    assert_eq!(direct.stderr, asked.stderr, "it is shown in the text");
    let (direct, asked) = both.twice(&publish);
    assert_eq!(direct.stderr, asked.stderr);
    both.same(&["workflow", "validate", &wrong]);
    both.same(&["workflow", "graph", &mine]);
}

#[test]
fn a_draft_is_saved_and_published_the_same() {
    let both = Both::new();
    let wrong = "workflow: yours\nnodes: { a: { ende: } }\n";
    let wrong = both.place.file("wrong.yaml", wrong).display().to_string();
    let good = "workflow: yours\nnodes: { a: { end: } }\n";
    let good = both.place.file("good.yaml", good).display().to_string();
    let save = |file: &str, more: &[&str]| {
        let command = [&["workflow", "draft", "save", file], more].concat();
        let json = [&["-o", "json"], &command[..]].concat();
        let (direct, asked) = (both.direct(&json), both.asked(&json));
        assert_eq!(direct.exit, asked.exit, "{direct:?} {asked:?}");
        if direct.exit == Some(0) {
            let (mut direct, mut asked) = (direct.json(), asked.json());
            assert!(asked["revision"].as_u64() > direct["revision"].as_u64());
            for said in [&mut direct, &mut asked] {
                said["revision"] = Value::Null;
            }
            assert_eq!(direct, asked);
        }
        let (direct, asked) = (both.direct(&command), both.asked(&command));
        assert_eq!(direct.stderr, asked.stderr, "{command:?}");
    };
    save(&wrong, &[]);
    both.same(&["workflow", "draft", "list"]);
    both.same(&["workflow", "draft", "show", "yours"]);
    let publish = ["workflow", "publish", "yours"];
    let (direct, asked) = both.alike(&publish, &publish);
    assert_eq!(direct.stderr, asked.stderr, "it is shown in the text");
    save(&good, &["--name", "yours"]);
    save(&good, &["--name", "mine"]);
    save(&good, &["--over", "0"]);
    both.same(&["workflow", "draft", "discard", "yours", "--revision", "1"]);
    assert_eq!(both.asked(&publish).stdout, "yours version 1: published\n");
    both.same(&["workflow", "draft", "show", "yours"]);
    both.same(&["workflow", "draft", "discard", "yours"]);
    both.same(&publish);
}

#[test]
fn files_are_read_again_the_same() {
    let both = Both::new();
    let reload = ["workflow", "reload"];
    both.twice(&reload);
    both.place.file(
        "definitions/a.yaml",
        "workflow: a\nnodes: { a: { end: } }\n",
    );
    let first = both.asked(&["-o", "json", "workflow", "reload"]);
    assert_eq!(first.json()["published"][0]["workflow"], "a", "{first:?}");
    both.twice(&reload);
    both.alike(&reload, &reload);
    both.place.file(
        "definitions/b.yaml",
        "workflow: b\nnodes: { a: { ende: } }\n",
    );
    let said = both.twice(&reload).1;
    assert_eq!(said.exit, Some(20), "{said:?}");
}
