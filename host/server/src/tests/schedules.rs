//! Schedules over the API, with a planner that runs.

use axum::body::Body;
use serde_json::{Value, json};

use super::*;

impl Rig {
    /// The status and the body of the answer to a request with the token.
    pub(super) fn call(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let request = Request::builder()
            .method(method)
            .uri(format!("/api/v1/{path}"))
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json");
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let answered = routes::router(&self.app).oneshot(request.body(body).unwrap());
        let (parts, body) = self.tokio.block_on(answered).unwrap().into_parts();
        let body = axum::body::to_bytes(body, 1 << 20);
        let body = self.tokio.block_on(body).unwrap();
        let body = serde_json::from_slice(&body).unwrap_or_default();
        (parts.status.as_u16(), body)
    }

    pub(super) fn publish_named(&self, name: &str, triggers: &Value) {
        let file = json!({
            "workflow": name,
            "triggers": triggers,
            "nodes": { "only": { "event": "over" } },
        });
        let path = format!("definitions/{name}");
        let (status, answer) = self.call(Method::PUT, &path, Some(&file));
        assert_eq!(status, 200, "{answer}");
    }

    fn schedules(&self, query: &str) -> Vec<Value> {
        let (status, page) = self.call(Method::GET, &format!("schedules?{query}"), None);
        assert_eq!(status, 200, "{page}");
        page["items"].as_array().unwrap().clone()
    }
}

#[test]
fn schedules_of_all_workflows_are_listed_and_named() {
    let rig = Rig::new(Bounds::default());
    let yearly = json!({ "cron": "0 0 1 1 *", "timezone": "Europe/Berlin" });
    rig.publish_named(
        "late",
        &json!({ "yearly": yearly, "slow": { "every": "90d" } }),
    );
    rig.publish_named(
        "soon",
        &json!({ "yearly": yearly, "hello": { "event": "hello" } }),
    );
    let all = rig.schedules("limit=500");
    let names: Vec<&Value> = all.iter().map(|one| &one["schedule"]).collect();
    assert_eq!(names, ["late:slow", "late:yearly", "soon:yearly"]);
    assert_eq!(all[0]["rule"], "every 90d");
    assert_eq!(
        (&all[0]["type"], &all[0]["state"]),
        (&json!("timer"), &json!("planned"))
    );
    assert_eq!(all[1]["rule"], "0 0 1 1 * Europe/Berlin");
    assert_eq!(all[1]["next"], "2027-12-31T23:00:00Z");
    assert_eq!(rig.schedules("workflow=soon").len(), 1);
    // A page at a time.
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("schedules?limit=1&cursor={cursor}");
        let (_, page) = rig.call(Method::GET, &path, None);
        paged.extend(page["items"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(paged, all);
    let show = |name: &str| rig.call(Method::GET, &format!("schedules/{name}"), None);
    assert_eq!(show("slow"), (200, all[0].clone()));
    assert_eq!(show("soon:yearly"), (200, all[2].clone()));
    let (status, several) = show("yearly");
    assert_eq!((status, &several["code"]), (409, &json!("WL-R155")));
    let help = several["help"].as_str().unwrap();
    assert!(help.contains("`late:yearly`, `soon:yearly`"), "{help}");
    let (status, event) = show("soon:hello");
    assert_eq!((status, &event["code"]), (404, &json!("WL-R154")));
    assert!(
        event["help"].as_str().unwrap().contains("`hello`"),
        "{event}"
    );
    assert_eq!(show("none:yearly").0, 404);
    assert_eq!(show("none").0, 404);
    let (status, trigger) = rig.call(Method::POST, "triggers/late:slow/fire", None);
    assert_eq!(status, 400, "{trigger}");
}

#[test]
fn a_schedule_is_paused_fired_and_unpaused() {
    let rig = Rig::new(Bounds::default());
    rig.publish_named(
        "pulse",
        &json!({ "beat": { "every": "1m", "input": { "a": 1 } } }),
    );
    let ask = |verb: &str| rig.call(Method::POST, &format!("schedules/beat/{verb}"), None);
    let (status, paused) = ask("pause");
    assert_eq!((status, &paused["state"]), (200, &json!("paused")));
    assert_eq!(
        (&paused["next"], paused["paused"].is_string()),
        (&Value::Null, true)
    );
    assert_eq!(ask("pause"), (200, paused.clone()), "it is paused already");
    let (_, times) = rig.call(Method::GET, "definitions/pulse/next", None);
    assert_eq!(times["paused"], json!(["beat"]));
    assert_eq!(times["items"], json!([]));
    let (_, shown) = rig.call(Method::GET, "definitions/pulse", None);
    assert_eq!(shown["triggers"][0]["paused"], paused["paused"]);
    // A paused schedule can be fired.
    let id = "0193c0de-0000-7000-8000-000000000001";
    let (status, fired) = ask(&format!("fire?id={id}"));
    assert_eq!(
        (status, &fired["schedule"]),
        (201, &json!("pulse:beat")),
        "{fired}"
    );
    assert_eq!(fired["run"], id);
    assert_eq!(ask(&format!("fire?id={id}")).0, 201, "it is the same run");
    let (_, run) = rig.call(Method::GET, &format!("runs/{id}"), None);
    assert_eq!(run["input"], json!({ "a": 1 }));
    let (status, refused) = ask("fire");
    assert_eq!((status, &refused["code"]), (409, &json!("WL-R110")));
    assert!(
        refused["detail"].as_str().unwrap().contains(id),
        "{refused}"
    );
    rig.clock.go_on(Duration::from_secs(600));
    let (status, going) = ask("unpause");
    assert_eq!((status, &going["state"]), (200, &json!("planned")));
    assert_eq!(going["last"], "2027-01-15T08:10:00Z");
    assert_eq!(going["next"], "2027-01-15T08:11:00Z");
    assert_eq!(going["run"], id);
    assert_eq!(ask("unpause"), (200, going), "it is not paused");
    assert_eq!(rig.schedules("")[0]["state"], "planned");
    let (_, runs) = rig.call(Method::GET, "runs", None);
    assert_eq!(
        runs["items"].as_array().unwrap().len(),
        1,
        "the pause left none behind"
    );
}
