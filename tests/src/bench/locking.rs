//! Takes and releases locks: the cost of a provider.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hdrhistogram::Histogram;
use windlass_locks::{
    FileOptions, Key, LockProvider, Parts, PostgresOptions, RedisOptions, Settings, SqliteOptions,
};
use windlass_model::Clock;
use windlass_runtime::SystemClock;
use windlass_test_servers::{PostgreSql, Redis};

use super::measure::millis;
use super::rig::{self, Setup};
use super::{Record, flush};

/// The prefix of the names in the results; the provider follows.
pub const NAME: &str = "locks-";

/// The providers that can be measured here.
pub fn providers() -> Vec<&'static str> {
    let mut providers = vec!["in-process", "file", "sqlite"];
    if PostgreSql::is_installed() {
        providers.push("postgres");
    }
    if Redis::is_installed() {
        providers.push("redis");
    }
    providers
}

/// A provider, and the server that it uses.
struct Backend {
    provider: Arc<dyn LockProvider>,
    _postgres: Option<PostgreSql>,
    _redis: Option<Redis>,
}

fn open(setup: &Setup, name: &str, clock: &Arc<dyn Clock>) -> Result<Backend> {
    let (mut postgres, mut redis) = (None, None);
    let settings = match name {
        "in-process" => Settings::InProcess,
        "file" => Settings::File(FileOptions {
            directory: setup.dir.join("locks"),
        }),
        "sqlite" => Settings::Sqlite(SqliteOptions::new(setup.dir.join("locks.db"))),
        "postgres" => {
            let server = postgres.insert(PostgreSql::start()?);
            Settings::Postgres(PostgresOptions::new(server.url()))
        }
        "redis" => {
            let server = redis.insert(Redis::start()?);
            Settings::Redis(RedisOptions::new(server.url()))
        }
        other => anyhow::bail!("there is no provider {other}"),
    };
    let parts = Parts {
        clock: Arc::clone(clock),
        runtime: tokio::runtime::Handle::current(),
        owner: "bench".to_owned(),
        metrics: Arc::default(),
    };
    Ok(Backend {
        provider: windlass_locks::open(&settings, parts)?,
        _postgres: postgres,
        _redis: redis,
    })
}

/// Takes and releases locks for some time, `in_flight` at once, each task with a lock of its own.
///
/// # Errors
///
/// The server does not start, or the provider fails.
pub async fn measure(
    setup: &Setup,
    name: &str,
    in_flight: usize,
    time: Duration,
) -> Result<Record> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let flush_ms = millis(flush::median(&setup.dir, clock.as_ref())?);
    let backend = name.strip_prefix(NAME).context("a provider")?;
    let backend = open(setup, backend, &clock)?;
    // Connections are made, and statements prepared, before the measurement.
    for _ in 0..10 {
        pair(backend.provider.as_ref(), &Key::reload()).await?;
    }
    let begin = clock.monotonic();
    let tasks = (0..in_flight).map(|task| {
        let (provider, clock) = (Arc::clone(&backend.provider), Arc::clone(&clock));
        tokio::spawn(async move {
            let mut times = Histogram::<u64>::new(3)?;
            let key = Key::run(task);
            while clock.monotonic().saturating_sub(begin) < time {
                let before = clock.monotonic();
                pair(provider.as_ref(), &key).await?;
                let took = clock.monotonic().saturating_sub(before);
                times.record(u64::try_from(took.as_micros())?)?;
            }
            anyhow::Ok(times)
        })
    });
    let mut times = Histogram::<u64>::new(3)?;
    for task in tasks.collect::<Vec<_>>() {
        times.add(task.await??)?;
    }
    let elapsed = clock.monotonic().saturating_sub(begin);
    let quantile = |of| times.value_at_quantile(of) as f64 / 1000.0;
    Ok(Record {
        p50_ms: quantile(0.5),
        p99_ms: quantile(0.99),
        rss_mb: rig::resident_mb()?,
        flush_ms,
        runs: times.len(),
        locks_per_second: Some(times.len() as f64 / elapsed.as_secs_f64()),
        ..Record::of(name, in_flight, setup)
    })
}

async fn pair(provider: &dyn LockProvider, key: &Key) -> Result<()> {
    let held = provider.try_acquire(key).await?;
    ensure!(held.is_some(), "a free lock is busy");
    if let Some(held) = held {
        held.release().await?;
    }
    Ok(())
}
