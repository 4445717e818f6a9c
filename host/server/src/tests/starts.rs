//! The reads of the store that a request costs which starts a run.

use parking_lot::Mutex;
use windlass_store::Write;

use super::*;

const WORKFLOW: &str = r#"{
    "workflow": "w",
    "triggers": {
        "hook": { "http": { "method": "POST", "path": "/w/{id}" } },
        "plain": { "http": { "method": "POST", "path": "/plain" } }
    },
    "nodes": { "a": { "set": { "x": 1 } } }
}"#;

/// The readers that find definitions and runs. Threads of the host call the others at any time.
const FINDING: [&str; 6] = [
    "bindings",
    "definition",
    "is_heard",
    "pins",
    "published",
    "run",
];

impl Rig {
    /// The reads of a request, and of each run that it creates whether the host owns the run.
    fn cost(&self, path: &str, body: &'static str) -> (Vec<&'static str>, Vec<bool>) {
        let (reads, owned) = (
            Arc::new(Mutex::new(Vec::new())),
            Arc::new(Mutex::new(Vec::new())),
        );
        let (noted, seen) = (Arc::clone(&reads), Arc::clone(&owned));
        let witness = move |name| noted.lock().extend(FINDING.contains(&name).then_some(name));
        self.store.set_read_witness(Some(Box::new(witness)));
        self.store.set_witness(Some(Box::new(move |write| {
            if let Write::Create(new) = write.write {
                seen.lock().push(new.owner.is_some());
            }
        })));
        let answered = self.answered_to(Method::POST, path, body);
        assert!(answered.is_success(), "{answered}");
        self.store.set_read_witness(None);
        (reads.lock().clone(), owned.lock().clone())
    }

    fn answered_to(&self, method: Method, path: &str, body: &'static str) -> StatusCode {
        let request = Request::builder().method(method).uri(path);
        let request = request
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json")
            .body(Body::from(body));
        let answered = routes::router(&self.app).oneshot(request.unwrap());
        self.tokio.block_on(answered).unwrap().status()
    }
}

#[test]
fn a_warm_start_over_http_and_a_warm_hook_read_no_definition() {
    let rig = Rig::new(Bounds::default());
    let published = rig.answered_to(Method::PUT, "/api/v1/definitions/w", WORKFLOW);
    assert_eq!(published, StatusCode::OK);
    let start = || rig.cost("/api/v1/runs", r#"{ "workflow": "w" }"#);
    let call = || rig.cost("/hooks/w/7", "{}");
    let (cold, _) = start();
    assert_eq!(cold, ["published", "definition"]);
    let nothing = || (Vec::new(), vec![true]);
    assert_eq!(start(), nothing());
    call();
    assert_eq!(call(), (vec!["bindings", "is_heard"], vec![true]));
    // A hook without parameters is known after its first call.
    let plain = || rig.cost("/hooks/plain", "{}");
    plain();
    assert_eq!(plain(), nothing());
    // Until a workflow is published, whose triggers may share its path.
    let other = WORKFLOW
        .replace("\"w\"", "\"other\"")
        .replace("/w/", "/other/");
    let put = rig.answered_to(Method::PUT, "/api/v1/definitions/other", other.leak());
    assert_eq!(put, StatusCode::OK);
    let (reads, created) = plain();
    assert!(reads.contains(&"bindings"), "{reads:?}");
    assert_eq!(created, [] as [bool; 0], "the stimulus starts both");
    let (reads, _) = start();
    assert_eq!(reads, ["published"]);
    assert_eq!(start(), nothing());
}
