//! Commands that only read give the same output over HTTP and on the store.

use serde_json::json;

use super::{Served, done, held};

#[test]
fn a_command_that_reads_gives_the_same_output_over_http_and_on_the_store() {
    let served = Served::new();
    let ended = served.run(&served.file("done", &done()));
    served.place.look().ended(&ended);
    let waits = served.waiting(&served.file("held", &held("held")));
    for command in [
        &["runs", "list"][..],
        &["runs", "list", "--limit", "1", "--status", "completed"],
        &["runs", "show", &ended],
        &["runs", "show", &waits[..30]],
        &["runs", "trace", &ended, "--outputs", "--logs"],
        &["runs", "result", &waits],
        &["runs", "exists", &waits],
        &["trigger", "list"],
        &["trigger", "show", &format!("{}:0", &waits[..35])],
        &["bookmark", "list", "--name", "over"],
        &["event", "list"],
        &["dead-letter", "list"],
        &["lock", "list", "--limit", "0"],
        &["workflow", "list", "--all"],
    ] {
        served.same(command);
    }
    for missing in [
        "018f0000-0000-7000-8000-000000000001",
        "018f0000",
        "zzz",
        "",
    ] {
        served.same(&["runs", "show", missing]);
        served.same(&["runs", "cancel", missing]);
        served.same(&["trigger", "show", missing]);
        served.same(&["workflow", "show", missing]);
    }
    served.same(&["dead-letter", "show", "7"]);
}

#[test]
fn plugins_of_a_host_are_listed_and_inspected() {
    let served = Served::new();
    let plugins = served.json(&["plugin", "list"]);
    let names = plugins.as_array().expect("a list").iter();
    let names: Vec<_> = names.map(|plugin| plugin["package"].clone()).collect();
    assert!(names.contains(&json!("echo")), "{names:?}");
    let echo = served.json(&["plugin", "inspect", "echo"]);
    assert_eq!(echo["nodes"][0]["id"], "echo/echo", "{echo}");
}
