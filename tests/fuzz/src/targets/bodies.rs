//! A request body: the first byte selects the path, the second one the media type.

use std::cell::RefCell;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use tower::ServiceExt as _;
use windlass_keys::export::ExportKeys;
use windlass_plugins::Host;
use windlass_runtime::definitions::{self, Definitions};
use windlass_runtime::operations::Resources;
use windlass_runtime::{
    BurstBounds, Error, FolderLog, Links, Runtime, Scope, Settings, SystemClock, Topology,
};
use windlass_server::{Bounds, Callers, LiveFeed, Options, Server};
use windlass_store::MemoryStore;

/// Requests after which the host is replaced: its store keeps everything that it gets.
const REQUESTS: u32 = 2_000;

/// Methods and paths for bodies.
const PLACES: &[(&str, &str)] = &[
    ("PUT", "/api/v1/definitions/fuzzed"),
    ("PUT", "/api/v1/drafts/fuzzed"),
    ("POST", "/api/v1/runs"),
    ("POST", "/api/v1/runs/import?unsigned=true"),
    ("POST", "/api/v1/stimuli"),
    ("POST", "/events"),
    ("POST", "/hooks/orders"),
    ("POST", "/api/v1/bookmarks/1/resume"),
    ("POST", "/api/v1/triggers"),
    ("POST", "/api/v1/dead-letters/purge"),
    ("POST", "/api/v1/definitions/hooked/revert"),
    ("POST", "/api/v1/admin/refresh"),
    ("POST", "/resume/a.b.c"),
];

/// Media types of bodies.
const MEDIA: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/cloudevents+json",
    "application/cloudevents-batch+json",
    "text/plain",
    "application/octet-stream",
    "application/x-www-form-urlencoded",
];

/// A workflow that a hook starts, whose input has a schema.
const HOOKED: &str = r#"
workflow: hooked
input:
  type: object
  properties:
    body: { type: object, properties: { n: { type: integer }, list: { type: array, uniqueItems: true } } }
triggers:
  orders: { http: { path: /orders } }
nodes:
  note: { set: { seen: "{{ input | tojson }}" } }
"#;

/// The parts of a host, besides the store, that requests need.
struct Parts {
    runtime: Arc<Runtime>,
    definitions: Arc<Definitions>,
}

impl Resources for Parts {
    fn host(&self) -> Result<Arc<Host>, Error> {
        Resources::host(self.runtime.as_ref())
    }

    fn links(&self) -> Result<Arc<Links>, Error> {
        Resources::links(self.runtime.as_ref())
    }

    fn exports(&self) -> Result<Arc<ExportKeys>, Error> {
        Resources::exports(self.runtime.as_ref())
    }

    fn definitions(&self) -> Result<Arc<Definitions>, Error> {
        Ok(Arc::clone(&self.definitions))
    }
}

struct Rig {
    requests: u32,
    router: Router,
    // Declared after the router, whose drop ends the runtime.
    io: tokio::runtime::Runtime,
    _dir: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let io = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let clock = Arc::new(SystemClock::new());
        let store = MemoryStore::new(Arc::clone(&clock) as _);
        let mut options = windlass_plugins::Options::in_dir(dir.path());
        options.threads = 1;
        let plugins = Host::start(options, Arc::clone(&clock) as _, io.handle().clone()).unwrap();
        let runtime = Runtime::start(windlass_runtime::Options {
            store: Arc::clone(&store) as _,
            plugins,
            clock: Arc::clone(&clock) as _,
            io: io.handle().clone(),
            name: "fuzzed".to_owned(),
            scope: Scope::All,
            scheduler: Settings::default(),
            workers: 1,
            spare_workers: 0,
            burst: BurstBounds::default(),
            beside: None,
            links: Arc::new(Links::of_test()),
            exports: Arc::new(ExportKeys::of_test()),
            topology: Topology::Local,
            max_steps: 1_000,
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
        let definitions = runtime
            .publish_from(
                definitions::Options::default(),
                Arc::new(FolderLog::default()),
            )
            .unwrap();
        let server = Server::new(Options {
            listen: ([127, 0, 0, 1], 0).into(),
            token: None,
            public_url: None,
            callers: Callers::default(),
            bounds: Bounds::default(),
            store: store as _,
            store_place: None,
            resources: Arc::new(Parts {
                definitions,
                runtime: Arc::clone(&runtime),
            }),
            runtime: Some(runtime),
            clock: clock as _,
            metrics: Arc::default(),
            live_feed: LiveFeed::new(),
            page: |_| None,
            reload: None,
        })
        .unwrap();
        let rig = Self {
            requests: 0,
            router: server.router(),
            io,
            _dir: dir,
        };
        let published = rig.ask(
            "PUT",
            "/api/v1/definitions/hooked",
            "application/yaml",
            HOOKED.as_bytes(),
        );
        assert!(
            published.is_success(),
            "the workflow of the hook: {published}"
        );
        rig
    }

    fn ask(&self, method: &str, path: &str, media: &str, body: &[u8]) -> StatusCode {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("Host", "localhost")
            .header("Content-Type", media)
            .body(Body::from(body.to_vec()))
            .unwrap();
        let answered = self.router.clone().oneshot(request);
        self.io.block_on(answered).unwrap().status()
    }
}

thread_local! {
    static RIG: RefCell<Option<Rig>> = const { RefCell::new(None) };
}

pub(crate) fn run(data: &[u8]) {
    let [place, media, body @ ..] = data else {
        return;
    };
    let (method, path) = PLACES.get(usize::from(*place) % PLACES.len()).unwrap();
    let media = MEDIA.get(usize::from(*media) % MEDIA.len()).unwrap();
    RIG.with_borrow_mut(|rig| {
        if rig.as_ref().is_some_and(|rig| rig.requests >= REQUESTS) {
            *rig = None;
        }
        let rig = rig.get_or_insert_with(Rig::new);
        rig.requests += 1;
        let status = rig.ask(method, path, media, body);
        assert_ne!(
            status,
            StatusCode::INTERNAL_SERVER_ERROR,
            "{method} {path} as {media}"
        );
    });
}
