//! Executes triggers that are all due at the start.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use tokio::sync::Notify;
use windlass_model::{Clock, Status};
use windlass_runtime::{Observed, Observer, SystemClock};
use windlass_store::Store;

use super::measure::millis;
use super::rig::{self, Setup};
use super::scenario::chain;
use super::{Record, bulk, flush};

/// The name in the results.
pub const NAME: &str = "burn-down";

/// Counts runs until all have ended.
struct Count {
    left: AtomicU64,
    failed: AtomicU64,
    over: Notify,
}

impl Observer for Count {
    fn observe(&self, event: &Observed<'_>) {
        if let Observed::Ended { status, .. } = event {
            if *status != Status::Completed {
                self.failed.fetch_add(1, Ordering::AcqRel);
            }
            if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.over.notify_one();
            }
        }
    }
}

/// Stores `count` one-node runs, starts a host, and waits until all have ended.
///
/// # Errors
///
/// The setup failed, or a run did not complete.
pub async fn measure(setup: &Setup, count: u64) -> Result<Record> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let flush_ms = millis(flush::median(&setup.dir, clock.as_ref())?);
    let counter = Arc::new(Count {
        // The original of the copied runs is executed as well.
        left: AtomicU64::new(count + 1),
        failed: AtomicU64::new(0),
        over: Notify::new(),
    });
    let (runtime, begin) = {
        let (setup, clock) = (setup.clone(), Arc::clone(&clock));
        let observer: Arc<dyn Observer> = Arc::clone(&counter) as Arc<dyn Observer>;
        tokio::task::spawn_blocking(move || {
            let one = chain("burn-down", 1);
            let request = rig::request(one.name, &one.workflow)?;
            let plugins = setup.plugins(&clock)?;
            let store: Arc<dyn Store> = setup.store(&clock)?;
            let now_ms = clock.wall_ms();
            bulk::fill(&store, &plugins, &clock, &request, count, &|_| now_ms)?;
            let begin = clock.monotonic();
            anyhow::Ok((rig::start(store, plugins, &clock, Some(observer))?, begin))
        })
        .await??
    };
    counter.over.notified().await;
    let elapsed = clock.monotonic().saturating_sub(begin);
    let rss_mb = rig::resident_mb()?;
    runtime.drain(Duration::from_secs(10)).await;
    anyhow::ensure!(
        counter.failed.load(Ordering::Acquire) == 0,
        "some runs did not complete"
    );
    let per_second = (count + 1) as f64 / elapsed.as_secs_f64();
    Ok(Record {
        node_executions_per_second: per_second,
        runs_per_second: per_second,
        rss_mb,
        flush_ms,
        runs: count + 1,
        pending: Some(count),
        ..Record::of(NAME, 0, setup)
    })
}
