//! One run of very many steps: does the cost of a step grow?

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use parking_lot::Mutex;
use serde_json::json;
use windlass_model::{Clock, Status};
use windlass_runtime::{Observed, Observer, SystemClock};
use windlass_store::Store;

use super::measure::millis;
use super::rig::{self, Setup};
use super::{Record, flush};

/// The name in the results.
pub const NAME: &str = "long-run";

/// The number of steps at the beginning and at the end that are compared.
const END: usize = 1_000;

/// Records when each execution has ended.
struct Watch {
    clock: Arc<dyn Clock>,
    ended: Mutex<Vec<Duration>>,
}

impl Observer for Watch {
    fn observe(&self, event: &Observed<'_>) {
        if matches!(event, Observed::Executed { .. }) {
            let now = self.clock.monotonic();
            self.ended.lock().push(now);
        }
    }
}

/// Runs a loop of `steps` executions.
///
/// # Errors
///
/// The setup failed, or the run did not complete.
pub async fn measure(setup: &Setup, steps: u64) -> Result<Record> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let flush_ms = millis(flush::median(&setup.dir, clock.as_ref())?);
    let watch = Arc::new(Watch {
        clock: Arc::clone(&clock),
        ended: Mutex::default(),
    });
    // Two nodes per round: one counts, one runs in a sandbox.
    let workflow = json!({
        "workflow": "long_run",
        "vars": { "round": 0 },
        "nodes": {
            "count": { "set": { "round": "{{ vars.round + 1 }}" }, "join": "any", "start": true },
            "work": { "use": "data/set", "with": { "ok": true } },
        },
        "edges": [
            "count -> work",
            { "from": "work", "to": "count", "when": format!("vars.round < {}", steps / 2) },
        ],
    });
    let runtime = {
        let (setup, clock, watch) = (setup.clone(), Arc::clone(&clock), Arc::clone(&watch));
        tokio::task::spawn_blocking(move || {
            let plugins = setup.plugins(&clock)?;
            let store: Arc<dyn Store> = setup.store(&clock)?;
            rig::start(store, plugins, &clock, Some(watch as Arc<dyn Observer>))
        })
        .await??
    };
    let begin = clock.monotonic();
    let started = rig::start_run(&runtime, &rig::request(NAME, &workflow)?).await?;
    let result = runtime.wait(started.no).await?;
    let elapsed = clock.monotonic().saturating_sub(begin);
    ensure!(
        result.status == Status::Completed,
        "the run ended as {}: {:?}",
        result.status,
        result.failure
    );
    let rss_mb = rig::resident_mb()?;
    runtime.drain(Duration::from_secs(10)).await;
    let ended = std::mem::take(&mut *watch.ended.lock());
    ensure!(ended.len() as u64 == steps, "{} steps", ended.len());
    // The first steps compile the workflow and start the instances of plugins.
    let first = span(ended.get(END..=2 * END)).context("a beginning")?;
    let last = span(ended.get(ended.len() - END - 1..)).context("an end")?;
    Ok(Record {
        node_executions_per_second: steps as f64 / elapsed.as_secs_f64(),
        runs_per_second: 1.0 / elapsed.as_secs_f64(),
        p50_ms: millis(elapsed),
        p99_ms: millis(elapsed),
        rss_mb,
        flush_ms,
        runs: 1,
        last_over_first: Some(last.as_secs_f64() / first.as_secs_f64()),
        ..Record::of(NAME, 1, setup)
    })
}

fn span(times: Option<&[Duration]>) -> Option<Duration> {
    let times = times?;
    times.last()?.checked_sub(*times.first()?)
}
