//! Commands that only read.

use serde_json::json;

use super::{Both, done, held};

#[test]
fn what_is_looked_at_is_shown_the_same() {
    let both = Both::new();
    let (id, other) = both.two_runs(&both.file("done", &done()));
    for id in [&id, &other] {
        both.place.look().ended(id);
    }
    let (waits, also) = both.two_runs(&both.file("held", &held("held")));
    both.until_waiting(&waits);
    both.until_waiting(&also);
    both.same(&["instance", "list"]);
    both.same(&["instance", "list", "--limit", "3", "--status", "completed"]);
    both.same(&["instance", "list", "--workflow", "held"]);
    both.same(&["instance", "list", "--workflow", "nowhere"]);
    for id in [&id, &waits, &other[..30].to_owned()] {
        both.same(&["instance", "show", id]);
        both.same(&["instance", "trace", id, "--outputs", "--logs"]);
        both.same(&["instance", "trace", id, "--limit", "1"]);
        both.same(&["instance", "result", id]);
        both.same(&["instance", "exists", id]);
        both.same(&["trigger", "list", "--instance", id]);
        both.same(&["bookmark", "list", "--instance", id]);
    }
    both.same(&["trigger", "list"]);
    both.same(&["trigger", "show", &format!("{}:0", &waits[..35])]);
    both.same(&["bookmark", "list"]);
    both.same(&[
        "bookmark",
        "list",
        "--name",
        "over",
        "--correlation",
        "none",
    ]);
    both.same(&["dead-letter", "list"]);
    both.same(&["lock", "list", "--limit", "0"]);
    let nowhere = "018f0000-0000-7000-8000-000000000001";
    for missing in [nowhere, "018f0000", "zzz", ""] {
        both.same(&["instance", "exists", missing]);
        both.same(&["instance", "show", missing]);
        both.same(&["instance", "cancel", missing]);
        both.same(&["trigger", "show", missing]);
        both.same(&["trigger", "list", "--instance", missing]);
        both.same(&["workflow", "show", missing]);
    }
    both.same(&["dead-letter", "show", "7"]);
    let plugins = both.asked(&["-o", "json", "plugin", "list"]).json();
    let names = plugins.as_array().expect("a list").iter();
    let names: Vec<_> = names.map(|plugin| plugin["package"].clone()).collect();
    assert!(names.contains(&json!("echo")), "{names:?}");
    let echo = both
        .asked(&["-o", "json", "plugin", "inspect", "echo"])
        .json();
    assert_eq!(echo["nodes"][0]["id"], "echo/echo", "{echo}");
}
