//! Waiting runs, and stimuli over HTTP at a moderate rate: the time from the request to the
//! execution of the node that it resumes, and to the durable end of the run.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;
use windlass_model::{Clock, RunId, Status, TriggerType};
use windlass_runtime::operations::Operations;
use windlass_runtime::{Observed, Observer, SystemClock};
use windlass_server::{Bounds, Callers, LiveFeed, Options, Server};
use windlass_store::Store;

use super::measure::millis;
use super::rig::{self, Setup};
use super::{Record, flush};
use crate::harness::Line;

/// The name in the results.
pub const NAME: &str = "http-resume";

/// The number of persistent connections.
const LINES: usize = 8;

/// The time between two stimuli: a hundred per second.
const PACE: Duration = Duration::from_millis(10);

/// Records when runs were resumed and have ended, and forwards updates to the server's live feed.
struct Watch {
    clock: Arc<dyn Clock>,
    live_feed: Arc<LiveFeed>,
    suspended: AtomicU64,
    failed: AtomicU64,
    resumed: Mutex<HashMap<RunId, Duration>>,
    ended: Mutex<HashMap<RunId, Duration>>,
    bell: Notify,
}

impl Observer for Watch {
    fn observe(&self, event: &Observed<'_>) {
        self.live_feed.observe(event);
        match event {
            Observed::Executed {
                kind: TriggerType::Resume,
                run,
                ..
            } => {
                let now = self.clock.monotonic();
                self.resumed.lock().insert(*run, now);
                return;
            }
            Observed::Executed { .. } => {
                self.suspended.fetch_add(1, Ordering::AcqRel);
            }
            Observed::Ended { run, status } => {
                let failed = u64::from(*status != Status::Completed);
                self.failed.fetch_add(failed, Ordering::AcqRel);
                let now = self.clock.monotonic();
                self.ended.lock().insert(*run, now);
            }
            Observed::Started { .. } => return,
        }
        self.bell.notify_one();
    }
}

/// Starts `count` runs that wait, and resumes one after another over HTTP.
///
/// # Errors
///
/// The setup failed, or a run did not complete.
pub async fn measure(setup: &Setup, count: u64) -> Result<Record> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let flush_ms = millis(flush::median(&setup.dir, clock.as_ref())?);
    let live_feed = LiveFeed::new();
    let watch = Arc::new(Watch {
        clock: Arc::clone(&clock),
        live_feed: Arc::clone(&live_feed),
        suspended: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        resumed: Mutex::default(),
        ended: Mutex::default(),
        bell: Notify::new(),
    });
    let workflow = json!({ "workflow": "asks", "nodes": { "ask": { "event": "go" } } });
    let (setup_there, there, observer) = (setup.clone(), Arc::clone(&clock), Arc::clone(&watch));
    let (runtime, options) = tokio::task::spawn_blocking(move || {
        let plugins = setup_there.plugins(&there)?;
        setup_there.load(&plugins, "chain-executor")?;
        let store: Arc<dyn Store> = setup_there.store(&there)?;
        let observer: Arc<dyn Observer> = observer;
        let runtime = rig::start(
            Arc::clone(&store),
            Arc::clone(&plugins),
            &there,
            Some(observer),
        )?;
        let options = Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            token: None,
            public_url: None,
            callers: Callers::default(),
            bounds: Bounds::default(),
            store,
            store_place: None,
            resources: Arc::clone(&runtime) as _,
            runtime: Some(Arc::clone(&runtime)),
            clock: there,
            metrics: Arc::clone(plugins.metrics()),
            live_feed,
            page: |_| None,
            reload: None,
        };
        anyhow::Ok((runtime, options))
    })
    .await??;
    let server = Server::new(options)?.listen().await?;
    let client = Operations::local(&runtime);
    let mut ids = Vec::new();
    for _ in 0..count {
        let request = rig::request("asks", &workflow)?;
        ids.push(client.create_and_run(request).await?.id);
    }
    while watch.suspended.load(Ordering::Acquire) < count {
        watch.bell.notified().await;
    }
    let sent = resume(&clock, server.address(), &ids).await?;
    while (watch.ended.lock().len() as u64) < count {
        watch.bell.notified().await;
    }
    let whole = times(&sent, &watch.ended.lock())?;
    let to_node = times(&sent, &watch.resumed.lock())?;
    let rss_mb = rig::resident_mb()?;
    server.close().await;
    runtime.drain(Duration::from_secs(10)).await;
    let failed = watch.failed.load(Ordering::Acquire);
    ensure!(failed == 0, "{failed} runs did not complete");
    Ok(Record {
        p50_ms: whole.value_at_quantile(0.5) as f64 / 1e3,
        p99_ms: whole.value_at_quantile(0.99) as f64 / 1e3,
        to_node_p50_ms: Some(to_node.value_at_quantile(0.5) as f64 / 1e3),
        to_node_p99_ms: Some(to_node.value_at_quantile(0.99) as f64 / 1e3),
        rss_mb,
        flush_ms,
        runs: count,
        ..Record::of(NAME, LINES, setup)
    })
}

/// The time from each stimulus to its effect, in microseconds.
fn times(sent: &[(RunId, Duration)], came: &HashMap<RunId, Duration>) -> Result<Histogram<u64>> {
    let mut times = Histogram::new(3)?;
    for (id, before) in sent {
        let came = came.get(id).context("each run has gone on and ended")?;
        let took = came.saturating_sub(*before);
        times.record(u64::try_from(took.as_micros())?.max(1))?;
    }
    Ok(times)
}

/// Sends a stimulus to each run, and records the time.
async fn resume(
    clock: &Arc<dyn Clock>,
    address: SocketAddr,
    ids: &[RunId],
) -> Result<Vec<(RunId, Duration)>> {
    let lines: Vec<Line> = (0..LINES).map(|_| Line::to(address)).collect();
    let lines = Arc::new(Mutex::new(lines));
    let mut ticks = tokio::time::interval(PACE);
    let mut asked = Vec::with_capacity(ids.len());
    for id in ids.iter().copied() {
        ticks.tick().await;
        let (lines, clock) = (Arc::clone(&lines), Arc::clone(clock));
        asked.push(tokio::task::spawn_blocking(move || {
            let line = lines.lock().pop();
            let mut line = line.unwrap_or_else(|| Line::to(address));
            let body = json!({ "name": "go", "run": id, "delivery": "resume" });
            let json = "content-type: application/json";
            let before = clock.monotonic();
            let answer = line.ask("POST", "/api/v1/stimuli", &[json], &body.to_string());
            ensure!(answer.status == 200, "{answer:?}");
            lines.lock().push(line);
            Ok((id, before))
        }));
    }
    let mut sent = Vec::with_capacity(asked.len());
    for one in asked {
        sent.push(one.await??);
    }
    Ok(sent)
}
