//! A server with its own runtime, called without a socket.

mod about;
mod batches;
mod console;
mod listing;
mod requests;
mod schedules;
mod starts;

use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Builder;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use tower::ServiceExt as _;
use windlass_model::Clock;
use windlass_plugins::Host;
use windlass_runtime::operations::Resources;
use windlass_runtime::{BurstBounds, Runtime, Scope, Settings, Topology};
use windlass_store::memory::Fault;
use windlass_store::{MemoryStore, Reader as _};

use crate::app::App;
use crate::in_process::{Answer, InProcess};
use crate::live_feed::LiveFeed;
use crate::options::{Bounds, Callers, Options};
use crate::pools::Pool;
use crate::problem::{Cause, Problem};
use crate::{openapi, routes};

const TOKEN: &str = "a-token-of-this-test";

/// A clock that only the test moves.
#[derive(Default)]
struct Still(AtomicU64);

impl Still {
    fn go_on(&self, by: Duration) {
        let by_ms = u64::try_from(by.as_millis()).unwrap();
        self.0.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for Still {
    fn wall_ms(&self) -> i64 {
        1_800_000_000_000 + i64::try_from(self.0.load(Ordering::SeqCst)).unwrap()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

struct Rig {
    app: App,
    store: Arc<MemoryStore>,
    clock: Arc<Still>,
    tokio: tokio::runtime::Runtime,
    _dir: tempfile::TempDir,
}

impl Rig {
    fn new(bounds: Bounds) -> Self {
        Self::called_by(bounds, Callers::default())
    }

    fn called_by(bounds: Bounds, callers: Callers) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tokio = tokio::runtime::Runtime::new().unwrap();
        let io = tokio.handle().clone();
        let clock = Arc::new(Still::default());
        let store = MemoryStore::new(Arc::clone(&clock) as _);
        let options = windlass_plugins::Options::in_dir(dir.path());
        let plugins = Host::start(options, Arc::clone(&clock) as _, io.clone()).unwrap();
        let runtime = Runtime::start(windlass_runtime::Options {
            store: Arc::clone(&store) as _,
            plugins,
            clock: Arc::clone(&clock) as _,
            io,
            name: "test".to_owned(),
            scope: Scope::All,
            scheduler: Settings::default(),
            workers: 1,
            spare_workers: 0,
            burst: BurstBounds::default(),
            beside: None,
            links: Arc::new(windlass_runtime::Links::of_test()),
            exports: Arc::new(windlass_keys::export::ExportKeys::of_test()),
            topology: Topology::Local,
            max_steps: 1,
            max_descendants: 10_000,
            evaluation: windlass_runtime::EvaluationMemory::default(),
            run_data_bytes: 128 << 20,
            run_state_bytes: 64 << 20,
            unwritten_bytes: 32 << 20,
            definition_bytes: 64 << 20,
            spans: None,
            observer: None,
            plugin_folders: None,
        })
        .unwrap();
        let app = App::new(Options {
            listen: ([127, 0, 0, 1], 0).into(),
            token: Some(TOKEN.to_owned()),
            public_url: None,
            callers,
            bounds,
            store: Arc::clone(&store) as _,
            store_place: Some("memory".to_owned()),
            resources: Arc::clone(&runtime) as _,
            runtime: Some(runtime),
            clock: Arc::clone(&clock) as _,
            metrics: Arc::default(),
            live_feed: LiveFeed::new(),
            page: |_| None,
            reload: None,
        });
        Self {
            app,
            store,
            clock,
            tokio,
            _dir: dir,
        }
    }

    fn asked(&self, method: &Method, path: &str) -> StatusCode {
        self.answered(Request::builder().method(method).uri(path))
            .status()
    }

    fn answered(&self, request: Builder) -> Response<Body> {
        let request = request.body(Body::empty()).unwrap();
        let answered = routes::router(&self.app).oneshot(request);
        self.tokio.block_on(answered).unwrap()
    }

    /// The code of the problem with which a request with the token is answered.
    fn code_of(&self, method: &Method, path: &str) -> Option<String> {
        let request = Request::builder().method(method).uri(path);
        let answered = self.answered(request.header("authorization", format!("Bearer {TOKEN}")));
        let body = axum::body::to_bytes(answered.into_body(), 1 << 20);
        let body = self.tokio.block_on(body).unwrap();
        let problem: serde_json::Value = serde_json::from_slice(&body).ok()?;
        Some(problem["code"].as_str()?.to_owned())
    }

    fn ready(&self) -> StatusCode {
        self.asked(&Method::GET, "/readyz")
    }
}

#[test]
fn large_bodies_wait_for_a_turn_and_small_ones_do_not() {
    let rig = Rig::new(Bounds {
        timeout_ms: 200,
        ..Bounds::default()
    });
    let mut held = Vec::new();
    while let Ok(turn) = rig.tokio.block_on(rig.app.large(usize::MAX)) {
        held.push(turn);
    }
    assert!(!held.is_empty());
    let posted = |bytes: usize| {
        let body = format!(
            "{{\"workflow\":\"none\",\"input\":\"{}\"}}",
            "x".repeat(bytes)
        );
        let request = Request::builder().method(Method::POST).uri("/api/v1/runs");
        let request = request
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json")
            .body(Body::from(body));
        let answered = routes::router(&rig.app).oneshot(request.unwrap());
        rig.tokio.block_on(answered).unwrap().status()
    };
    assert_eq!(posted(1_000), StatusCode::NOT_FOUND);
    assert_eq!(posted(100_000), StatusCode::SERVICE_UNAVAILABLE);
    held.clear();
    assert_eq!(posted(100_000), StatusCode::NOT_FOUND);
    assert_eq!(rig.app.options.metrics.http.bodies.get(), 0);
    assert!(rig.app.options.metrics.http.bodies.peak() > 100_000);
}

#[test]
fn requests_that_are_given_up_leave_no_more_behind_than_may_be_in_the_store() {
    let rig = Rig::new(Bounds {
        blocking: 1,
        ..Bounds::default()
    });
    let _inside = rig.tokio.enter();
    let mut context = Context::from_waker(Waker::noop());
    let alive = Arc::new(());
    let (answer, answered) = channel::<()>();
    let answered = Arc::new(parking_lot::Mutex::new(answered));
    for _ in 0..1_000 {
        let (alive, answered) = (Arc::clone(&alive), Arc::clone(&answered));
        let asked = pin!(rig.app.ask(move |_| {
            let _ = answered.lock().recv();
            drop(alive);
            Ok::<_, Box<Problem>>(())
        }));
        assert!(asked.poll(&mut context).is_pending());
        // Turns of the client count, too.
        let exists = rig
            .app
            .client
            .exists(windlass_model::RunId(uuid::Uuid::nil()));
        assert!(pin!(exists).poll(&mut context).is_pending());
    }
    assert_eq!(Arc::strong_count(&alive), 2, "this one, and that at work");
    drop(answer);
}

#[test]
fn a_request_has_its_room_until_it_is_answered() {
    let rig = Rig::new(Bounds {
        blocking: 1,
        ..Bounds::default()
    });
    let _inside = rig.tokio.enter();
    let mut context = Context::from_waker(Waker::noop());
    let before = rig.app.pools.free(Pool::Requests);
    let (answer, answered) = channel::<()>();
    let mut busy = Box::pin(rig.app.ask(move |_| {
        let _ = answered.recv();
        Ok::<_, Box<Problem>>(())
    }));
    assert!(busy.as_mut().poll(&mut context).is_pending());
    let request = Request::builder()
        .uri("/api/v1/runs")
        .header("Authorization", format!("Bearer {TOKEN}"));
    let request = request.body(Body::empty()).unwrap();
    let mut waiting = Box::pin(routes::router(&rig.app).oneshot(request));
    assert!(matches!(waiting.as_mut().poll(&mut context), Poll::Pending));
    assert_eq!(rig.app.pools.free(Pool::Requests), before - 1);
    drop(answer);
    assert_eq!(
        rig.tokio.block_on(waiting).unwrap().status(),
        StatusCode::OK
    );
    assert_eq!(rig.app.pools.free(Pool::Requests), before);
}

#[test]
fn metrics_wait_for_no_other_request() {
    let rig = Rig::new(Bounds {
        requests: 1,
        blocking: 1,
        ..Bounds::default()
    });
    let _inside = rig.tokio.enter();
    let mut context = Context::from_waker(Waker::noop());
    let _slot = rig.app.pools.try_enter(Pool::Requests);
    let (answer, answered) = channel::<()>();
    let mut busy = Box::pin(rig.app.ask(move |_| {
        let _ = answered.recv();
        Ok::<_, Box<Problem>>(())
    }));
    assert!(busy.as_mut().poll(&mut context).is_pending());
    let request = Request::builder()
        .uri("/metrics")
        .header("Authorization", format!("Bearer {TOKEN}"));
    let request = request.body(Body::empty()).unwrap();
    let answered = routes::router(&rig.app).oneshot(request);
    let answered = rig.tokio.block_on(answered).unwrap();
    assert_eq!(answered.status(), StatusCode::OK);
    drop(answer);
}

#[test]
fn a_host_is_ready_while_its_lease_holds() {
    let rig = Rig::new(Bounds::default());
    assert_eq!(rig.ready(), StatusCode::OK);
    rig.store.set_faults(Some(Box::new(|_| Some(Fault::Full))));
    while rig.ready() == StatusCode::OK {
        rig.clock.go_on(Duration::from_secs(60));
    }
    assert_eq!(rig.ready(), StatusCode::SERVICE_UNAVAILABLE);
    rig.store.set_faults(None);
    while rig.ready() != StatusCode::OK {
        // The member renews its lease after a while.
        rig.clock.go_on(Duration::from_secs(1));
        rig.app.runtime().unwrap().wake();
        std::thread::yield_now();
    }
}

#[test]
fn routes_need_the_token_as_the_document_says() {
    let rig = Rig::new(Bounds::default());
    let document = serde_json::to_value(openapi()).unwrap();
    assert_eq!(document["security"], serde_json::json!([{ "token": [] }]));
    for (path, item) in document["paths"].as_object().unwrap() {
        let address = path.replace(['{', '}'], "");
        for (method, operation) in item.as_object().unwrap() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let refused = rig.asked(&method, &address) == StatusCode::UNAUTHORIZED;
            let open = operation["security"] == serde_json::json!([]);
            assert_ne!(refused, open, "{method} {path}");
            let said = operation["responses"].get("401").is_some();
            // A hook that verifies its requests answers 401 by itself.
            assert_eq!(
                refused || path.starts_with("/hooks/"),
                said,
                "{method} {path}"
            );
        }
    }
}

#[test]
fn every_route_has_a_permission() {
    let rig = Rig::new(Bounds::default());
    let document = serde_json::to_value(openapi()).unwrap();
    let mut names = std::collections::BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let name = operation["x-permission"].as_str();
            let name = name.unwrap_or_else(|| panic!("{method} {path} needs no permission"));
            names.insert(name.to_owned());
            let open = operation["security"] == serde_json::json!([]);
            assert_eq!(name == "public", open, "{method} {path}");
        }
    }
    assert!(names.len() > 20, "{names:?}");
    // Paths outside of the document, and unknown paths, need the token, too.
    for path in ["/api/openapi.json", "/nowhere", "/api/v1/nowhere"] {
        assert_eq!(
            rig.asked(&Method::GET, path),
            StatusCode::UNAUTHORIZED,
            "{path}"
        );
        assert_eq!(
            rig.asked(&Method::HEAD, path),
            StatusCode::UNAUTHORIZED,
            "{path}"
        );
    }
    for (method, path) in [
        (Method::OPTIONS, "/api/v1/runs"),
        (Method::TRACE, "/livez/x"),
        (Method::HEAD, "/api/v1/runs"),
        (Method::PATCH, "/resume/x"),
    ] {
        assert_eq!(
            rig.asked(&method, path),
            StatusCode::UNAUTHORIZED,
            "{method} {path}"
        );
    }
}

#[test]
fn a_pause_refuses_requests_that_begin_work_and_no_others() {
    let rig = Rig::new(Bounds::default());
    rig.app.runtime().unwrap().pause(false).unwrap();
    let document = serde_json::to_value(openapi()).unwrap();
    let mut refused = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let address = path.replace(['{', '}'], "");
        for method in item.as_object().unwrap().keys() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            // One of them ends the pause, and the other one reports it.
            let of_pauses = ["/api/v1/admin/unpause", "/readyz"].contains(&path.as_str());
            if !of_pauses && rig.code_of(&method, &address).as_deref() == Some("WL-R085") {
                refused.push(format!("{method} {path}"));
            }
        }
    }
    refused.sort_unstable();
    let expected = [
        "DELETE /hooks/{path}",
        "GET /hooks/{path}",
        "PATCH /hooks/{path}",
        "POST /api/v1/batches/retry",
        "POST /api/v1/bookmarks/{bookmark}/resume",
        "POST /api/v1/dead-letters/{no}/replay",
        "POST /api/v1/runs",
        "POST /api/v1/runs/{id}/begin",
        "POST /api/v1/runs/{id}/retry",
        "POST /api/v1/schedules/{schedule}/fire",
        "POST /api/v1/stimuli",
        "POST /api/v1/triggers",
        "POST /api/v1/triggers/{trigger}/fire",
        "POST /events",
        "POST /hooks/{path}",
        "POST /resume/{token}",
        "PUT /hooks/{path}",
    ];
    assert_eq!(refused, expected);
}

/// Resources that no request may use.
struct Nothing;

impl Resources for Nothing {
    fn host(&self) -> Result<Arc<Host>, windlass_runtime::Error> {
        panic!("a request asked for the plugin host")
    }
}

/// The handlers in a process that runs no workflows.
struct Desk {
    handlers: InProcess,
    store: Arc<MemoryStore>,
    tokio: tokio::runtime::Runtime,
}

impl Desk {
    fn new() -> Self {
        let clock = Arc::new(Still::default());
        let store = MemoryStore::new(Arc::clone(&clock) as _);
        Self {
            handlers: InProcess::new(Arc::clone(&store) as _, clock, Arc::new(Nothing)),
            store,
            tokio: tokio::runtime::Runtime::new().unwrap(),
        }
    }

    fn ask(&self, method: Method, target: &str, json: &str) -> Answer {
        let media = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, media)]);
        let body = json.to_owned().into();
        let answering = self.handlers.answer(method, target, headers, body);
        self.tokio.block_on(answering).unwrap()
    }
}

#[test]
fn a_process_that_only_reads_is_no_member_and_starts_no_plugin_host() {
    let desk = Desk::new();
    for list in [
        "runs",
        "triggers",
        "stimuli",
        "bookmarks",
        "dead-letters",
        "definitions",
        "drafts",
    ] {
        let answer = desk.ask(Method::GET, &format!("/api/v1/{list}"), "");
        assert_eq!(answer.status, StatusCode::OK, "{list}");
    }
    let incarnations = desk.store.members().unwrap();
    assert!(incarnations.is_empty(), "{incarnations:?}");
}

#[test]
fn a_stimulus_that_starts_nothing_needs_no_plugin_host_and_leaves_no_member() {
    let desk = Desk::new();
    let answer = desk.ask(Method::POST, "/api/v1/stimuli", r#"{ "name": "paid" }"#);
    assert_eq!(answer.status, StatusCode::OK);
    assert!(desk.store.members().unwrap().is_empty());
}

#[test]
fn a_problem_in_the_process_has_its_cause() {
    let desk = Desk::new();
    let nowhere = "/api/v1/runs/018f0000-0000-7000-8000-000000000001";
    let answer = desk.ask(Method::GET, nowhere, "");
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    let Some(Cause::Runtime(error)) = answer.cause else {
        panic!("{:?}", answer.cause);
    };
    assert!(matches!(*error, windlass_runtime::Error::NotFound(_)));
    desk.store.set_faults(Some(Box::new(|_| Some(Fault::Full))));
    let answer = desk.ask(Method::POST, "/api/v1/stimuli", r#"{ "name": "paid" }"#);
    assert!(matches!(answer.cause, Some(Cause::Store(_))), "{answer:?}");
}

#[test]
fn routes_that_need_a_runtime_are_absent_in_a_process_without_one() {
    let desk = Desk::new();
    for target in ["/api/v1/admin/pause", "/readyz", "/metrics"] {
        let answer = desk.ask(Method::GET, target, "");
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{target}");
    }
}
