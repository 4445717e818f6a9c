//! Very many pending triggers, some of which become due.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use tokio::sync::Notify;
use windlass_model::{Clock, RunId};
use windlass_runtime::{Observed, Observer, SystemClock};
use windlass_store::Store;

use super::measure::millis;
use super::rig::{self, Setup};
use super::scenario::chain;
use super::{Record, bulk, flush};

/// The name in the results.
pub const NAME: &str = "pending-timers";

/// How many become due one after another, and how many at once.
const COUNT: u64 = 10_000;
/// How many of the former become due per second.
const PER_SECOND: u64 = 1_000;
/// The time from the beginning until the first ones become due.
const LEAD_MS: i64 = 4_000;

/// Records the delay of each expected run.
struct Watch {
    clock: Arc<dyn Clock>,
    /// Due times of expected runs that have not begun.
    due_ms: Mutex<HashMap<RunId, i64>>,
    late_ms: Mutex<Vec<i64>>,
    left: AtomicU64,
    over: Notify,
}

impl Observer for Watch {
    fn observe(&self, event: &Observed<'_>) {
        let Observed::Started { run, .. } = event else {
            return;
        };
        let now_ms = self.clock.wall_ms();
        let due_ms = self.due_ms.lock().remove(run);
        if let Some(due_ms) = due_ms {
            self.late_ms.lock().push(now_ms - due_ms);
            if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.over.notify_one();
            }
        }
    }
}

impl Watch {
    /// The 99th percentile of the delays since the last call, in milliseconds.
    fn p99_ms(&self) -> Result<f64> {
        let mut late_ms = std::mem::take(&mut *self.late_ms.lock());
        late_ms.sort_unstable();
        let at = late_ms.len() * 99 / 100;
        let p99_ms = late_ms.get(at).context("something came due")?;
        anyhow::ensure!(
            late_ms.first().is_none_or(|first| *first >= 0),
            "a timer was early"
        );
        Ok(*p99_ms as f64)
    }
}

/// Stores `pending` runs that begin tomorrow, and measures how long a host takes until it executes,
/// and the delays of runs that become due meanwhile.
///
/// # Errors
///
/// The setup failed, or a timer was early.
pub async fn measure(setup: &Setup, pending: u64) -> Result<Record> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let flush_ms = millis(flush::median(&setup.dir, clock.as_ref())?);
    let watch = Arc::new(Watch {
        clock: Arc::clone(&clock),
        due_ms: Mutex::default(),
        late_ms: Mutex::default(),
        left: AtomicU64::new(1),
        over: Notify::new(),
    });
    prepare(setup, &clock, pending).await?;
    let begin = clock.monotonic();
    let runtime = {
        let (setup, clock) = (setup.clone(), Arc::clone(&clock));
        let watch = Arc::clone(&watch);
        tokio::task::spawn_blocking(move || {
            let one = chain("due-now", 1);
            let request = rig::request(one.name, &one.workflow)?;
            let plugins = setup.plugins(&clock)?;
            let store: Arc<dyn Store> = setup.store(&clock)?;
            // The start of a run that is due now shows that the host executes.
            let now_ms = clock.wall_ms();
            let client = rig::client(&store, &plugins, &clock);
            let io = tokio::runtime::Handle::current();
            let now = io.block_on(client.create_and_run(request))?;
            watch.due_ms.lock().insert(now.id, now_ms);
            let observer: Arc<dyn Observer> = watch;
            rig::start(store, plugins, &clock, Some(observer))
        })
        .await??
    };
    watch.over.notified().await;
    let recovery_s = clock.monotonic().saturating_sub(begin).as_secs_f64();
    watch.p99_ms()?;
    let rss_mb = rig::resident_mb()?;
    let spread = |first_ms: i64, at: u64| {
        let offset_ms = i64::try_from(at * 1_000 / PER_SECOND).unwrap_or(i64::MAX);
        first_ms + offset_ms
    };
    let lateness_p99_ms = come_due(setup, &clock, &watch, spread).await?;
    let lateness_burst_p99_ms = come_due(setup, &clock, &watch, |first_ms, _| first_ms).await?;
    runtime.drain(Duration::from_secs(10)).await;
    Ok(Record {
        rss_mb,
        flush_ms,
        runs: 2 * COUNT,
        pending: Some(pending),
        recovery_s: Some(recovery_s),
        lateness_p99_ms: Some(lateness_p99_ms),
        lateness_burst_p99_ms: Some(lateness_burst_p99_ms),
        ..Record::of(NAME, 0, setup)
    })
}

async fn prepare(setup: &Setup, clock: &Arc<dyn Clock>, pending: u64) -> Result<()> {
    let (setup, clock) = (setup.clone(), Arc::clone(clock));
    tokio::task::spawn_blocking(move || {
        let one = chain("tomorrow", 1);
        let request = rig::request(one.name, &one.workflow)?;
        let plugins = setup.plugins(&clock)?;
        let store: Arc<dyn Store> = setup.store(&clock)?;
        let tomorrow_ms = clock.wall_ms() + 86_400_000;
        let due_ms = |at: u64| tomorrow_ms + i64::try_from(at).unwrap_or(0);
        bulk::fill(&store, &plugins, &clock, &request, pending, &due_ms)?;
        store.close();
        anyhow::Ok(())
    })
    .await?
}

/// Stores runs with the given due times, from another handle on the store, and waits for them.
async fn come_due(
    setup: &Setup,
    clock: &Arc<dyn Clock>,
    watch: &Arc<Watch>,
    due_ms: impl Fn(i64, u64) -> i64 + Send + 'static,
) -> Result<f64> {
    watch.left.store(COUNT, Ordering::Release);
    {
        let (setup, clock, watch) = (setup.clone(), Arc::clone(clock), Arc::clone(watch));
        tokio::task::spawn_blocking(move || {
            let one = chain("comes-due", 1);
            let request = rig::request(one.name, &one.workflow)?;
            let plugins = setup.plugins(&clock)?;
            let store: Arc<dyn Store> = setup.store(&clock)?;
            let first_ms = clock.wall_ms() + LEAD_MS;
            let due = |at: u64| due_ms(first_ms, at);
            // Hold the lock, so that no run begins before its due time is recorded.
            let mut known = watch.due_ms.lock();
            let ids = bulk::fill(&store, &plugins, &clock, &request, COUNT, &due)?;
            known.extend((0..).zip(ids).map(|(at, id)| (id, due(at))));
            drop(known);
            store.notify();
            store.close();
            anyhow::Ok(())
        })
        .await??;
    }
    watch.over.notified().await;
    watch.p99_ms()
}
