//! The shared state of all handlers.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;
use tokio::sync::watch;
use windlass_model::{Definition, Digest};
use windlass_runtime::Runtime;
use windlass_runtime::heavy::Heavy;
use windlass_runtime::operations::{Operations, Resources, Turn, Turns};
use windlass_store::{Store, within};

use crate::answers::{self, Answers};
use crate::bodies::{self, Bodies};
use crate::codes;
use crate::gate;
use crate::hooks::Hooks;
use crate::live_feed::LiveFeed;
use crate::nodes::KnownNodes;
use crate::options::{Bounds, Options};
use crate::origin::Names;
use crate::permissions::Caller;
use crate::pools::Pools;
use crate::problem::Problem;
use crate::proxies;
use crate::rates::{self, Buckets};
use crate::session::Ended;

/// Scrapes of the metrics that may read the store at once.
const COUNTING: usize = 4;

/// How long the store may take to answer the probe.
const PROBE: Duration = Duration::from_secs(1);

/// The shared state of all handlers. Clones share it.
#[derive(Clone)]
pub(crate) struct App(Arc<AppInner>);

/// The content that clones share.
pub(crate) struct AppInner {
    pub(crate) options: Options,
    pub(crate) client: Operations,
    /// When the server was made, in epoch milliseconds.
    pub(crate) started_ms: i64,
    /// Slots for requests.
    pub(crate) pools: Pools,
    /// The memory of answers.
    pub(crate) answers: Arc<Answers>,
    /// The memory of bodies.
    pub(crate) bodies: Bodies,
    /// Names that answers show.
    pub(crate) known_nodes: KnownNodes,
    /// The rate of calls per hook.
    hook_rate: Option<Buckets>,
    /// The rate of calls of hooks and resume links per client.
    client_rate: Option<Buckets>,
    /// Hooks that have started workflows before, and probably will again.
    pub(crate) hooks: Hooks,
    /// Threads that may use the store at once, for the client and for handlers.
    blocking: Turns,
    /// Work on large data, of which there is little at once: it takes many times their memory, and
    /// leaves cores to other requests.
    large: Turns,
    /// Do this work.
    heavy: Arc<Heavy>,
    /// Threads that may count for the metrics; they do not wait for the others.
    counting: Turns,
    /// The one thread that probes the store: a separate one, so that neither other requests nor
    /// other probes delay it.
    probing: Turns,
    /// The turn to parse a large stored definition, which takes many times its size.
    parsing: Mutex<()>,
    token: Option<Digest>,
    /// Sessions of browsers that were ended before their time.
    ended_sessions: Ended,
    names: Names,
    draining: AtomicBool,
    /// Set to true to end streams.
    closing: watch::Sender<bool>,
}

impl std::ops::Deref for App {
    type Target = AppInner;

    fn deref(&self) -> &AppInner {
        &self.0
    }
}

impl App {
    pub(crate) fn new(options: Options) -> Self {
        let bounds = options.bounds;
        let token = options.token.as_deref();
        let blocking = Turns::new(bounds.blocking);
        let heavy = Arc::new(Heavy::half("large"));
        Self(Arc::new(AppInner {
            client: client(&options).with_turns(blocking.clone()),
            started_ms: options.clock.wall_ms(),
            pools: Pools::new(&bounds, Arc::clone(&options.metrics)),
            answers: Answers::new(bounds.answers, Arc::clone(&options.metrics)),
            bodies: Bodies::new(bounds.bodies, &options.metrics),
            known_nodes: KnownNodes::default(),
            hook_rate: options.callers.hook_rate.map(Buckets::new),
            client_rate: options.callers.client_rate.map(Buckets::new),
            hooks: Hooks::default(),
            blocking,
            large: Turns::new(heavy.threads()),
            heavy,
            counting: Turns::new(COUNTING),
            probing: Turns::new(1),
            parsing: Mutex::new(()),
            // Digests have one length, so comparing them does not reveal the length of the token.
            token: token.map(|token| Digest::of(token.as_bytes())),
            ended_sessions: Ended::default(),
            names: Names::new(
                &options.callers.hosts,
                &options.callers.origins,
                options.public_url.as_deref(),
            ),
            draining: AtomicBool::new(false),
            closing: watch::channel(false).0,
            options,
        }))
    }

    /// Runs a closure on a thread that may block. It continues if the request is dropped, and holds
    /// its turn until it ends.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&AppInner) -> Result<T, Box<Problem>> + Send + 'static,
    ) -> Result<T, Box<Problem>> {
        self.ask_by(&self.blocking, ask).await
    }

    /// As [`Self::ask`], for a closure that reads the data of an answer. It reads at most half of the
    /// room that its request has taken: the other half is for the answer. If that is too little,
    /// the closure is run again with more room.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&AppInner) -> Result<T, Box<Problem>> + Send + Sync + 'static,
    ) -> Result<T, Box<Problem>> {
        let (read, room) = (Arc::new(read), gate::current());
        let (mut bytes, most_read) = (answers::READ, self.bounds().most_read);
        if let Some(room) = &room {
            room.for_answer(self, bytes).await?;
        }
        loop {
            let again = Arc::clone(&read);
            let most = (bytes / 2) as u64;
            let found = self.ask(move |app| within(most, || again(app))).await;
            match found {
                Err(problem) if problem.exceeds_allowance() && bytes < most_read => {
                    bytes = bytes.saturating_mul(8).min(most_read);
                    if let Some(room) = &room {
                        room.for_more(self, bytes).await?;
                    }
                }
                found => return found,
            }
        }
    }

    /// As [`Self::ask`], for the metrics, which do not wait for other requests.
    pub(crate) async fn count<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&AppInner) -> Result<T, Box<Problem>> + Send + 'static,
    ) -> Result<T, Box<Problem>> {
        self.ask_by(&self.counting, ask).await
    }

    async fn ask_by<T: Send + 'static>(
        &self,
        turns: &Turns,
        ask: impl FnOnce(&AppInner) -> Result<T, Box<Problem>> + Send + 'static,
    ) -> Result<T, Box<Problem>> {
        let patience = Duration::from_millis(self.bounds().timeout_ms);
        let Ok(turn) = tokio::time::timeout(patience, turns.next()).await else {
            return Err(Problem::busy("the store is busy with other requests"));
        };
        let app = self.clone();
        let asked = turn.spend(move || ask(&app)).await;
        asked.unwrap_or_else(|error| Err(Problem::bug(&error)))
    }

    /// Waits for a turn to work on so many bytes that come from outside; none for small data. The
    /// work ends before the turn is dropped.
    pub(crate) async fn large(&self, bytes: usize) -> Result<Option<Large>, Box<Problem>> {
        if bytes <= bodies::SMALL {
            return Ok(None);
        }
        let patience = Duration::from_millis(self.bounds().timeout_ms);
        match tokio::time::timeout(patience, self.large.next()).await {
            Ok(turn) => Ok(Some(Large {
                threads: Arc::clone(&self.heavy),
                _turn: Arc::new(turn),
            })),
            Err(_) => Err(Problem::busy("this host works on other large requests")),
        }
    }

    /// Whether the store answers, within [`PROBE`].
    pub(crate) async fn probe(&self) -> Result<(), Box<Problem>> {
        let app = self.clone();
        let probe = async {
            let turn = self.probing.next().await;
            turn.spend(move || app.store().probe()).await
        };
        match tokio::time::timeout(PROBE, probe).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => {
                tracing::warn!(code = %error.code, %error, "the store does not answer");
                let detail = format!("the store of this host does not answer: {}", error.code);
                Err(silent(detail))
            }
            Ok(Err(error)) => Err(Problem::bug(&error)),
            Err(_) => Err(silent(format!(
                "the store of this host has not answered for {} s",
                PROBE.as_secs()
            ))),
        }
    }
}

/// A turn to work on large data. Clones are the same turn.
#[derive(Clone)]
pub(crate) struct Large {
    threads: Arc<Heavy>,
    _turn: Arc<Turn>,
}

impl Large {
    /// Works on data: with a turn on the threads for large data, else here. Blocks. The turn is
    /// kept until the work ends.
    pub(crate) fn work<T: Send>(turn: Option<Self>, work: impl FnOnce() -> T + Send) -> T {
        match turn {
            Some(turn) => turn.threads.run(work),
            None => work(),
        }
    }
}

/// Runs work on data of a request: with a turn for large data, on a thread that may block.
pub(crate) async fn read_aside<T: Send + 'static>(
    turn: Option<&Large>,
    read: impl FnOnce() -> Result<T, Box<Problem>> + Send + 'static,
) -> Result<T, Box<Problem>> {
    let Some(turn) = turn.cloned() else {
        return read();
    };
    // The caller may be gone before the work ends.
    let done = tokio::task::spawn_blocking(move || Large::work(Some(turn), read));
    done.await.unwrap_or_else(|error| Err(Problem::bug(&error)))
}

/// The client of the runtime in this process, or one that leaves runs to other processes.
fn client(options: &Options) -> Operations {
    let Some(runtime) = &options.runtime else {
        let (store, clock) = (Arc::clone(&options.store), Arc::clone(&options.clock));
        return Operations::detached(store, clock, Arc::clone(&options.resources));
    };
    Operations::local(runtime)
}

/// The problem of a store that does not answer. Its messages name files and servers, so they only
/// go to the log.
fn silent(detail: String) -> Box<Problem> {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, &codes::NO_STORE, detail)
        .help("The log of the host has the cause, and the page of the code has the remedy.")
}

impl AppInner {
    pub(crate) fn bounds(&self) -> &Bounds {
        &self.options.bounds
    }

    pub(crate) fn store(&self) -> &dyn Store {
        self.options.store.as_ref()
    }

    /// The runtime, if this process runs workflows.
    pub(crate) fn runtime(&self) -> Option<&Arc<Runtime>> {
        self.options.runtime.as_ref()
    }

    /// The parts that only some requests need.
    pub(crate) fn resources(&self) -> &dyn Resources {
        self.options.resources.as_ref()
    }

    /// Notifies the planner of this process that a workflow was published or retracted.
    pub(crate) fn published(&self) {
        if let Some(runtime) = self.runtime() {
            runtime.published();
        }
    }

    pub(crate) fn live_feed(&self) -> &Arc<LiveFeed> {
        &self.options.live_feed
    }

    /// Counts a call of a hook, or refuses it.
    pub(crate) fn admit_hook(&self, hook: Digest) -> Result<(), Box<Problem>> {
        let limited = &self.options.metrics.http.hooks_limited;
        let now = self.options.clock.monotonic();
        let Some(Err(wait)) = self.hook_rate.as_ref().map(|rate| rate.take(hook.0, now)) else {
            return Ok(());
        };
        limited.add(1);
        Err(Problem::too_often(
            &codes::HOOK_RATE,
            "this hook is called more often than it may",
            wait,
        ))
    }

    /// Counts a call of a client, or refuses it.
    pub(crate) fn admit_client(
        &self,
        peer: IpAddr,
        headers: &HeaderMap,
    ) -> Result<(), Box<Problem>> {
        let Some(rate) = &self.client_rate else {
            return Ok(());
        };
        let address = proxies::client(peer, headers, &self.options.callers.trusted_proxies);
        let now = self.options.clock.monotonic();
        rate.take(rates::client(address), now).map_err(|wait| {
            self.options.metrics.http.clients_limited.add(1);
            let detail = "this client calls hooks and resume links more often than it may";
            Problem::too_often(&codes::CLIENT_RATE, detail, wait)
        })
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.options.clock.wall_ms()
    }

    /// The caller of a request with this token, or without one.
    pub(crate) fn caller(&self, token: Option<&str>) -> Caller {
        let Some(wanted) = &self.token else {
            return Caller::Local;
        };
        let given = token.map(|token| Digest::of(token.as_bytes()));
        if given.is_some_and(|given| bool::from(given.0.ct_eq(&wanted.0))) {
            Caller::Token
        } else {
            Caller::Stranger
        }
    }

    /// The digest of the token that requests have to carry, if one is required.
    pub(crate) fn token(&self) -> Option<&Digest> {
        self.token.as_ref()
    }

    /// Sessions of browsers that were ended before their time.
    pub(crate) fn ended_sessions(&self) -> &Ended {
        &self.ended_sessions
    }

    /// The names of this host, and the origins whose pages may send requests.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// Refuses new work from now on.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
            || self.runtime().is_some_and(|runtime| runtime.is_draining())
    }

    /// Ends streams, which would not end by themselves.
    pub(crate) fn close(&self) {
        // An error means that no stream is open.
        let _ = self.closing.send(true);
    }

    /// Becomes true when streams have to end.
    pub(crate) fn closing(&self) -> watch::Receiver<bool> {
        self.closing.subscribe()
    }

    /// A definition from the store, parsed. Large ones are parsed one after another.
    pub(crate) fn definition(&self, digest: Digest) -> Result<Option<Definition>, Box<Problem>> {
        let Some(row) = self.store().definition(digest)? else {
            return Ok(None);
        };
        let _turn = (row.json.len() > bodies::SMALL).then(|| self.parsing.lock());
        Ok(windlass_model::file::read_canonical(&row.json).ok())
    }
}
