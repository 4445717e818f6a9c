//! Steady load on a store that deletes finished runs at once: the size of the file, and the
//! duration of the longest slice of a sweep, with the wait for the writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::sync::Semaphore;
use windlass_model::{Clock, Status};
use windlass_runtime::retention::{Options, Sweeper};
use windlass_runtime::{Observed, Observer, Runtime, StartRequest, SystemClock};
use windlass_store::write::{Leave, NewMember};
use windlass_store::{Store, Writer as _};

use super::measure::millis;
use super::rig::{self, Setup};
use super::scenario::chain;
use super::{Record, flush};

/// The name in the results.
pub const NAME: &str = "retention";

/// The number of parts of the load after which the file is measured.
const ROUNDS: u64 = 10;

/// Runs at the same time.
const IN_FLIGHT: usize = 64;

/// Steps of each run.
const STEPS: u32 = 10;

/// The time between two rounds of the sweeper, in milliseconds.
const EVERY_MS: u64 = 100;

/// Admits another run for each that has ended.
struct Ended {
    room: Semaphore,
    failed: AtomicU64,
}

impl Observer for Ended {
    fn observe(&self, event: &Observed<'_>) {
        if let Observed::Ended { status, .. } = event {
            if *status != Status::Completed {
                self.failed.fetch_add(1, Ordering::AcqRel);
            }
            self.room.add_permits(1);
        }
    }
}

/// Runs `count` runs of ten nodes, while finished runs are deleted at once.
///
/// # Errors
///
/// The setup failed, or a run did not complete.
pub async fn measure(setup: &Setup, count: u64) -> Result<Record> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let flush_ms = millis(flush::median(&setup.dir, clock.as_ref())?);
    let ended = Arc::new(Ended {
        room: Semaphore::new(IN_FLIGHT),
        failed: AtomicU64::new(0),
    });
    let (runtime, store) = {
        let (setup, clock, ended) = (setup.clone(), Arc::clone(&clock), Arc::clone(&ended));
        tokio::task::spawn_blocking(move || {
            let store: Arc<dyn Store> = setup.store(&clock)?;
            let plugins = setup.plugins(&clock)?;
            let runtime = rig::start(Arc::clone(&store), plugins, &clock, Some(ended))?;
            anyhow::Ok((runtime, store))
        })
        .await??
    };
    let over = Arc::new(AtomicBool::new(false));
    let sweeping = {
        let (clock, over) = (Arc::clone(&clock), Arc::clone(&over));
        tokio::task::spawn_blocking(move || sweep(&store, &clock, &over))
    };
    let one = chain("retention", STEPS);
    let request = rig::request(one.name, &one.workflow)?;
    let begin = clock.monotonic();
    let mut sizes = Vec::new();
    for _ in 0..ROUNDS {
        load(&runtime, &request, &ended, count / ROUNDS).await?;
        sizes.push(file_mb(setup)?);
    }
    let elapsed = clock.monotonic().saturating_sub(begin);
    over.store(true, Ordering::Release);
    let worst = sweeping.await??;
    let rss_mb = rig::resident_mb()?;
    runtime.drain(Duration::from_secs(10)).await;
    anyhow::ensure!(
        ended.failed.load(Ordering::Acquire) == 0,
        "some runs did not complete"
    );
    let runs = count / ROUNDS * ROUNDS;
    let per_second = runs as f64 / elapsed.as_secs_f64();
    Ok(Record {
        node_executions_per_second: per_second * f64::from(STEPS),
        runs_per_second: per_second,
        rss_mb,
        flush_ms,
        runs,
        worst_slice_ms: Some(millis(worst)),
        file_mb: sizes,
        ..Record::of(NAME, IN_FLIGHT, setup)
    })
}

/// Runs so many runs to their end.
async fn load(
    runtime: &Arc<Runtime>,
    request: &StartRequest,
    ended: &Ended,
    count: u64,
) -> Result<()> {
    for _ in 0..count {
        ended.room.acquire().await?.forget();
        rig::start_run(runtime, request).await?;
    }
    let all = u32::try_from(IN_FLIGHT)?;
    // Returned at once: all of them have ended.
    drop(ended.room.acquire_many(all).await?);
    Ok(())
}

/// Deletes finished runs repeatedly; returns the duration of the longest slice.
fn sweep(store: &Arc<dyn Store>, clock: &Arc<dyn Clock>, over: &AtomicBool) -> Result<Duration> {
    let member = NewMember {
        name: "sweep".to_owned(),
        lease_ms: 600_000,
        joined_ms: clock.wall_ms(),
    };
    let incarnation = store.write(member)?;
    let options = Options {
        keep_ms: 0,
        every_ms: EVERY_MS,
        grace_ms: 0,
        ..Options::default()
    };
    let sweeper = Sweeper::new(Arc::clone(store), Arc::clone(clock), options);
    let mut worst = Duration::ZERO;
    while !over.load(Ordering::Acquire) {
        if let Some(round) = sweeper.round(incarnation, &|| over.load(Ordering::Acquire))? {
            worst = worst.max(round.longest);
        }
        std::thread::park_timeout(Duration::from_millis(EVERY_MS));
    }
    store.write(Leave { incarnation })?;
    Ok(worst)
}

/// The file and its log, in MiB.
fn file_mb(setup: &Setup) -> Result<f64> {
    let file = rig::store_file(&setup.dir);
    let log = file.with_extension("db-wal");
    let size = std::fs::metadata(&file)
        .context("the store has a file")?
        .len();
    let log = std::fs::metadata(log).map_or(0, |log| log.len());
    Ok((size + log) as f64 / (1024.0 * 1024.0))
}
