//! Lists of runs: their order, their filters, and searches that find nothing.

use bytes::Bytes;
use serde_json::Value;
use uuid::Uuid;
use windlass_model::{Digest, Incarnation, Numbers, Payload, RunId, Seq, TriggerType};
use windlass_store::Writer as _;
use windlass_store::rows::{Created, DefinitionRow, NewRun, NewTrigger, PinsRow};

use super::*;

/// A store with runs that never begin.
struct Listed {
    rig: Rig,
    numbers: Numbers,
}

impl Listed {
    fn new() -> Self {
        Self {
            rig: Rig::new(Bounds::default()),
            numbers: Numbers::new(Incarnation(50)),
        }
    }

    /// Creates a run of a workflow at a time.
    fn create(&self, workflow: &str, created_ms: i64, change: impl FnOnce(&mut NewRun)) -> RunId {
        let no = self.numbers.run().unwrap();
        let json = Bytes::from(format!("{{\"workflow\":\"{workflow}\"}}"));
        let pins = Bytes::from_static(b"{}");
        let trigger = NewTrigger {
            no: self.numbers.trigger().unwrap(),
            seq: Seq(1),
            kind: TriggerType::Start,
            node: None,
            due_ms: i64::MAX,
            claimed: false,
            attempt: 1,
            detail: Bytes::new(),
            payload: None,
            priority: 0,
        };
        let mut new = NewRun {
            no,
            id: RunId(Uuid::from_u128(0x1234 << 112 | no.0 as u128)),
            definition: Arc::new(DefinitionRow {
                digest: Digest::of(&json),
                name: workflow.to_owned(),
                json,
            }),
            pins: Arc::new(PinsRow {
                digest: Digest::of(&pins),
                json: pins,
            }),
            correlation: None,
            tags: windlass_model::Tags::new(),
            request: Digest::of(b"request"),
            owner: None,
            state: Bytes::new(),
            input: Payload::json("{}"),
            vars: Vec::new(),
            triggers: vec![trigger],
            parent: None,
            tree: None,
            keep_ms: None,
            journal: Vec::new(),
            reserves: Vec::new(),
            exclusive: None,
            blobs: Vec::new(),
            as_of: None,
            created_ms,
            trace: None,
        };
        change(&mut new);
        let id = new.id;
        assert_eq!(self.rig.store.write(new).unwrap(), Ok(Created::New));
        id
    }

    /// The status and the body of the answer to a query.
    fn ask(&self, query: &str) -> (u16, Value) {
        let uri = format!("/api/v1/runs?{query}");
        let request = Request::builder().method(Method::GET).uri(uri);
        let request = request.header("authorization", format!("Bearer {TOKEN}"));
        let (parts, body) = self.rig.answered(request).into_parts();
        let body = axum::body::to_bytes(body, 1 << 24);
        let body = self.rig.tokio.block_on(body).unwrap();
        let body = serde_json::from_slice(&body).unwrap();
        (parts.status.as_u16(), body)
    }

    fn page(&self, query: &str) -> Value {
        let (status, page) = self.ask(query);
        assert_eq!(status, 200, "{query}: {page}");
        page
    }

    /// The numbers in the ids of the runs of all pages, and the number of pages.
    fn all(&self, query: &str, limit: u32) -> (Vec<String>, usize) {
        let (mut ids, mut pages) = (Vec::new(), 0);
        let mut cursor = String::new();
        loop {
            let page = self.page(&format!("{query}&limit={limit}&cursor={cursor}"));
            pages += 1;
            let items = page["items"].as_array().unwrap();
            ids.extend(
                items
                    .iter()
                    .map(|run| run["id"].as_str().unwrap().to_owned()),
            );
            assert_eq!(page["next"].is_null(), page["searched_to"].is_null());
            match page["next"].as_str() {
                Some(next) => cursor = next.to_owned(),
                None => return (ids, pages),
            }
        }
    }
}

fn texts(ids: &[RunId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

#[test]
fn runs_are_listed_newest_first_on_pages() {
    let listed = Listed::new();
    let mut ids = Vec::new();
    for at in 0..25 {
        // The numbers grow while the times fall.
        ids.push(listed.create("w", 25_000 - at * 1_000, |new| {
            new.correlation = (at % 5 == 0).then(|| format!("c{at}"));
        }));
    }
    assert_eq!(listed.all("", 10), (texts(&ids), 3));
    assert_eq!(listed.all("workflow=w", 500), (texts(&ids), 1));
    assert_eq!(listed.all("status=running,suspended", 10).0, texts(&[]));
    assert_eq!(listed.all("correlation=c5", 10), (texts(&ids[5..6]), 1));
    let times = "since=1970-01-01T00:00:05Z&until=1970-01-01T00:00:08Z";
    assert_eq!(listed.all(times, 2), (texts(&ids[18..21]), 2));
    let page = listed.page("limit=10&count=true");
    assert_eq!(page["matching"], json_of(25, true));
    assert_eq!(page["searched_to"], "1970-01-01T00:00:16Z");
    let page = listed.page(&format!("{times}&count=true"));
    assert_eq!(page["matching"], json_of(3, true));
    assert_eq!(page["next"], Value::Null);
}

fn json_of(count: u64, exact: bool) -> Value {
    serde_json::json!({ "count": count, "exact": exact })
}

#[test]
fn a_search_without_a_match_ends_and_goes_on() {
    let listed = Listed::new();
    let rare = listed.create("rare", 1, |new| new.correlation = Some("rare".to_owned()));
    for at in 0..10_050 {
        listed.create("many", 1_000 + at, |_| {});
    }
    let page = listed.page("workflow=rare&count=true");
    assert_eq!(page["items"], serde_json::json!([]));
    assert_eq!(page["matching"], json_of(0, false));
    // 10,000 runs were looked at.
    assert_eq!(page["searched_to"], "1970-01-01T00:00:01.05Z");
    assert_eq!(listed.all("workflow=rare", 10), (texts(&[rare]), 2));
    // A condition with an index looks only at runs that it selects.
    let page = listed.page("workflow=rare&correlation=rare&count=true");
    assert_eq!(page["items"][0]["id"], rare.to_string());
    assert_eq!(page["matching"], json_of(1, true));
    let page = listed.page("workflow=many&limit=1&count=true");
    assert_eq!(page["matching"], json_of(10_000, false));
}

#[test]
fn runs_are_found_by_their_tags() {
    let listed = Listed::new();
    let tagged = |at, customer: &str, region: &str| {
        let tags = [("customer", customer), ("region", region)];
        let tags = tags.map(|(name, value)| (name.to_owned(), value.to_owned()));
        listed.create("w", at, |new| new.tags = tags.into())
    };
    let first = tagged(1, "a=b & co", "eu");
    let second = tagged(2, "a=b & co", "us");
    listed.create("w", 3, |_| {});
    let customer = "tag=customer=a%3Db+%26+co";
    assert_eq!(listed.all(customer, 1), (texts(&[second, first]), 2));
    assert_eq!(
        listed.all(&format!("tag=region=eu&{customer}"), 5),
        (texts(&[first]), 1)
    );
    let page = listed.page("tag=region=us");
    let tags = serde_json::json!({ "customer": "a=b & co", "region": "us" });
    assert_eq!(page["items"][0]["tags"], tags);
    assert_eq!(
        listed.page("limit=1")["items"][0]["tags"],
        serde_json::json!({})
    );
}

#[test]
fn conditions_that_mean_nothing_are_refused() {
    let listed = Listed::new();
    let id = listed.create("w", 1, |_| {});
    for query in [
        "since=yesterday",
        "until=2026-01-31T12:00",
        "parent=nope",
        "status=lost",
        "count=perhaps",
        "tag=customer",
        "tag==x",
        "tag=a=1&tag=a=2",
        "tag=a=%00",
        "id=1234&tag=a=1",
        "cursor=cnVucwo",
        "id=1234&correlation=x",
        "id=1234&count=true",
    ] {
        let (status, problem) = listed.ask(query);
        assert_eq!(status, 400, "{query}: {problem}");
    }
    for query in ["workflow=%00", "correlation=%00", "failure=%00"] {
        let (status, problem) = listed.ask(query);
        assert_eq!(status, 422, "{query}: {problem}");
    }
    let (status, _) = listed.ask("parent=01890000-0000-7000-8000-000000000000");
    assert_eq!(status, 404);
    assert_eq!(listed.all(&format!("parent={id}"), 10).0, texts(&[]));
    assert_eq!(listed.page("id=1234")["items"][0]["id"], id.to_string());
}
