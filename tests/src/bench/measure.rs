//! Keeps runs of one workflow in flight, and measures them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use hdrhistogram::Histogram;
use windlass_model::{Clock, Status};
use windlass_runtime::{Runtime, StartRequest, SystemClock};

use super::rig::{self, Setup};
use super::scenario::{FLUSHES, Scenario};
use super::{Record, flush};

/// How a scenario is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Runs at the same time.
    pub in_flight: usize,
    /// The host.
    pub setup: Setup,
    /// How long to measure.
    pub time: Duration,
    /// Called when everything is set up, before the measurement begins.
    pub ready: fn() -> Result<()>,
}

/// Measures a scenario.
///
/// # Errors
///
/// The setup failed, or a run did not complete.
pub async fn measure(scenario: &Scenario, plan: &Plan) -> Result<Record> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let setup = &plan.setup;
    let flush_before = flush::median(&setup.dir, clock.as_ref())?;
    let runtime = {
        // Loading a plugin blocks, which a thread that drives tasks must not.
        let (setup, clock) = (setup.clone(), Arc::clone(&clock));
        tokio::task::spawn_blocking(move || {
            let plugins = setup.plugins(&clock)?;
            rig::start(setup.store(&clock)?, plugins, &clock, None)
        })
        .await??
    };
    let request = Arc::new(rig::request(scenario.name, &scenario.workflow)?);
    // The first runs compile the workflow, and earn the plugins inline calls.
    let warm_ups = if scenario.nodes > 1_000 { 1 } else { 64 };
    for _ in 0..warm_ups {
        one(&runtime, &request).await?;
    }
    tokio::task::spawn_blocking(plan.ready).await??;
    let measured = drive(&runtime, &request, plan, &clock).await?;
    let rss_mb = rig::resident_mb()?;
    runtime.drain(Duration::from_secs(10)).await;
    let flush_after = flush::median(&setup.dir, clock.as_ref())?;
    let flush_ms = millis(flush_before.min(flush_after));
    let seconds = measured.elapsed.as_secs_f64();
    let runs_per_second = measured.runs as f64 / seconds;
    let p50_ms = measured.times.value_at_quantile(0.5) as f64 / 1e3;
    let beyond = p50_ms - f64::from(FLUSHES) * flush_ms;
    Ok(Record {
        node_executions_per_second: runs_per_second * scenario.nodes as f64,
        runs_per_second,
        p50_ms,
        p99_ms: measured.times.value_at_quantile(0.99) as f64 / 1e3,
        rss_mb,
        flush_ms,
        runs: measured.runs,
        beyond_flushes_ms: (plan.in_flight == 1 && setup.full).then_some(beyond),
        ..Record::of(scenario.name, plan.in_flight, setup)
    })
}

/// Runs the workflow once.
pub(super) async fn one(runtime: &Arc<Runtime>, request: &StartRequest) -> Result<()> {
    let started = rig::start_run(runtime, request).await?;
    let result = runtime.wait(started.no).await?;
    if result.status != Status::Completed {
        bail!("a run ended as {}: {:?}", result.status, result.failure);
    }
    Ok(())
}

/// The result of keeping runs in flight.
pub(super) struct Measured {
    pub(super) runs: u64,
    pub(super) elapsed: Duration,
    /// Microseconds.
    pub(super) times: Histogram<u64>,
}

/// Keeps so many runs in flight until the time is over.
pub(super) async fn drive(
    runtime: &Arc<Runtime>,
    request: &Arc<StartRequest>,
    plan: &Plan,
    clock: &Arc<dyn Clock>,
) -> Result<Measured> {
    let begin = clock.monotonic();
    let end = begin + plan.time;
    let done = Arc::new(AtomicU64::new(0));
    let mut lanes = Vec::with_capacity(plan.in_flight);
    for _ in 0..plan.in_flight {
        let (runtime, request) = (Arc::clone(runtime), Arc::clone(request));
        let (clock, done) = (Arc::clone(clock), Arc::clone(&done));
        lanes.push(tokio::spawn(async move {
            let mut times = Histogram::<u64>::new(3)?;
            loop {
                let before = clock.monotonic();
                if before >= end {
                    return anyhow::Ok(times);
                }
                one(&runtime, &request).await?;
                let took = clock.monotonic().saturating_sub(before);
                times.record(u64::try_from(took.as_micros())?.max(1))?;
                done.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    let mut times = Histogram::<u64>::new(3)?;
    for lane in lanes {
        times.add(lane.await??)?;
    }
    let elapsed = clock.monotonic().saturating_sub(begin);
    Ok(Measured {
        runs: done.load(Ordering::Relaxed),
        elapsed,
        times,
    })
}

/// The time in milliseconds.
pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
