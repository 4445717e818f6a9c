//! The host, its plugins and the versions of its workflows, as the console shows them.

use serde_json::{Value, json};
use windlass_plugins::Folders;

use super::*;

fn items(rig: &Rig, path: &str) -> Vec<Value> {
    let (status, page) = rig.call(Method::GET, path, None);
    assert_eq!(status, 200, "{page}");
    page["items"].as_array().unwrap().clone()
}

#[test]
fn a_host_shows_its_version_its_store_and_its_budgets() {
    let rig = Rig::new(Bounds::default());
    rig.app.options.metrics.run_data.set_limit(100);
    rig.app.options.metrics.run_data.add(30);
    rig.app.options.metrics.run_data.sub(20);
    rig.clock.go_on(Duration::from_secs(60));
    let (status, shown) = rig.call(Method::GET, "admin/host", None);
    assert_eq!(status, 200, "{shown}");
    assert_eq!(shown["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(shown["store"], "memory");
    assert_eq!(shown["started"], "2027-01-15T08:00:00Z");
    let budgets = shown["budgets"].as_array().unwrap();
    let data = budgets.iter().find(|it| it["name"] == "run_data").unwrap();
    let none = json!({ "due": 0, "pending": 0, "parked": 0, "dead_letters": 0 });
    assert_eq!(shown["waiting"], none);
    let read = ["used", "peak", "limit"].map(|key| data[key].clone());
    assert_eq!(read, [json!(10), json!(30), json!(100)]);
}

#[test]
fn the_members_of_a_store_are_listed_and_one_answers() {
    let mut rig = Rig::new(Bounds::default());
    let members = items(&rig, "admin/members");
    assert_eq!(members.len(), 1, "{members:?}");
    assert_eq!(members[0]["name"], "test");
    assert_eq!(members[0]["own"], true);
    assert_eq!(members[0]["pid"], std::process::id());
    // A command on the store is no host.
    let options = options(&rig);
    rig.app = App::new(options);
    assert_eq!(items(&rig, "admin/members")[0]["own"], false);
}

/// The options of a rig, without a runtime.
fn options(rig: &Rig) -> Options {
    let of = &rig.app.options;
    Options {
        listen: of.listen,
        token: of.token.clone(),
        callers: of.callers.clone(),
        public_url: None,
        bounds: of.bounds,
        store: Arc::clone(&of.store),
        store_place: None,
        resources: Arc::clone(&of.resources),
        runtime: None,
        clock: Arc::clone(&of.clock),
        metrics: Arc::default(),
        live_feed: LiveFeed::new(),
        page: |_| None,
        reload: None,
    }
}

#[test]
fn files_that_are_no_plugins_are_listed_until_they_are_gone() {
    let rig = Rig::new(Bounds::default());
    let host = rig.app.resources().plugins().unwrap();
    let place = tempfile::tempdir().unwrap();
    let mut folders = Folders::new(vec![place.path().to_owned()]);
    let mut look = || folders.look(&host, &mut |_| {});
    let names = ["a.wasm", "b.wasm"].map(|name| place.path().join(name));
    for name in &names {
        std::fs::write(name, "no component").unwrap();
    }
    look();
    let failed = items(&rig, "plugin-failures");
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert_eq!(failed[0]["file"], names[0].display().to_string());
    assert!(failed[0]["code"].as_str().unwrap().starts_with("WL-P"));
    assert!(!failed[0]["message"].as_str().unwrap().is_empty());
    assert_eq!(failed[0]["kept"], Value::Null);
    let (_, page) = rig.call(Method::GET, "plugin-failures?limit=1", None);
    let next = page["next"].as_str().unwrap();
    let rest = items(&rig, &format!("plugin-failures?cursor={next}"));
    assert_eq!(rest, failed[1..]);
    std::fs::remove_file(&names[0]).unwrap();
    look();
    assert_eq!(items(&rig, "plugin-failures"), failed[1..]);
}

#[test]
fn versions_of_one_workflow_are_listed_a_page_at_a_time() {
    let rig = Rig::new(Bounds::default());
    for every in ["1d", "2d", "3d"] {
        rig.publish_named("one", &json!({ "slow": { "every": every } }));
        rig.publish_named("other", &json!({ "slow": { "every": every } }));
    }
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("definitions?workflow=one&retracted=true&limit=2&cursor={cursor}");
        let (_, page) = rig.call(Method::GET, &path, None);
        for item in page["items"].as_array().unwrap() {
            found.push((item["workflow"].clone(), item["version"].clone()));
        }
        match page["next"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(
        found,
        [3, 2, 1].map(|version| (json!("one"), json!(version)))
    );
    assert_eq!(items(&rig, "definitions?workflow=one").len(), 1);
    let (_, page) = rig.call(Method::GET, "definitions?retracted=true&limit=1", None);
    let cursor = page["next"].as_str().unwrap();
    let path = format!("definitions?workflow=other&retracted=true&cursor={cursor}");
    let (status, problem) = rig.call(Method::GET, &path, None);
    assert_eq!(status, 400, "a cursor of another list: {problem}");
}
