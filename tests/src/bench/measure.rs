//! Runs one scenario in this process.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hdrhistogram::Histogram;
use windlass_model::{Clock, Digest, Payload, Status};
use windlass_plugins::{Isolation, Settings as PluginSettings};
use windlass_runtime::{Options, Runtime, Scope, Settings, StartRequest, SystemClock};
use windlass_store::rows::DefinitionRow;
use windlass_store::sqlite::{Durability, SqliteOptions, SqliteStore};

use super::scenario::Scenario;
use super::{Record, flush};

/// How a scenario is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Runs at the same time.
    pub in_flight: usize,
    /// Flush every step, or leave it to the operating system.
    pub full: bool,
    /// Keep instances of plugins warm, or make one for each call.
    pub warm: bool,
    /// How long to measure.
    pub time: Duration,
}

/// Measures a scenario with the components in `components`, in a store below `dir`.
///
/// # Errors
///
/// Something could not be set up, or a run did not complete.
pub async fn measure(
    scenario: &Scenario,
    plan: &Plan,
    components: &Path,
    dir: &Path,
) -> Result<Record> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let flush_before = flush::median(dir, clock.as_ref())?;
    let runtime = {
        // Loading a plugin blocks, which a thread that drives tasks must not.
        let (plan, clock) = (plan.clone(), Arc::clone(&clock));
        let (components, dir) = (components.to_owned(), dir.to_owned());
        tokio::task::spawn_blocking(move || start(&plan, &components, &dir, &clock)).await??
    };
    let request = Arc::new(request(scenario)?);
    // The first runs compile the workflow and earn the plugins their place on the workers.
    for _ in 0..64 {
        one(&runtime, &request).await?;
    }
    let measured = drive(&runtime, &request, plan, &clock).await?;
    let rss_mb = resident_mb()?;
    runtime.drain(Duration::from_secs(10)).await;
    let flush_after = flush::median(dir, clock.as_ref())?;
    let flush_ms = millis(flush_before.min(flush_after));
    let seconds = measured.elapsed.as_secs_f64();
    let runs_per_second = measured.runs as f64 / seconds;
    let p50_ms = measured.times.value_at_quantile(0.5) as f64 / 1e3;
    let beyond = p50_ms - f64::from(scenario.flushes) * flush_ms;
    Ok(Record {
        scenario: scenario.name.to_owned(),
        in_flight: plan.in_flight,
        durability: if plan.full { "full" } else { "normal" }.to_owned(),
        isolation: if plan.warm { "warm" } else { "call" }.to_owned(),
        node_executions_per_second: runs_per_second * scenario.nodes as f64,
        runs_per_second,
        p50_ms,
        p99_ms: measured.times.value_at_quantile(0.99) as f64 / 1e3,
        rss_mb,
        flush_ms,
        runs: measured.runs,
        beyond_flushes_ms: (plan.in_flight == 1 && plan.full).then_some(beyond),
    })
}

fn start(
    plan: &Plan,
    components: &Path,
    dir: &Path,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<Runtime>> {
    let io = tokio::runtime::Handle::current();
    let mut options = windlass_plugins::Options::in_dir(dir);
    let isolation = if plan.warm {
        Isolation::Warm
    } else {
        Isolation::Call
    };
    let settings = PluginSettings {
        isolation,
        ..PluginSettings::default()
    };
    options.settings.insert("data".to_owned(), settings);
    let plugins = windlass_plugins::Host::start(options, Arc::clone(clock), io.clone())?;
    for name in ["chain-executor", "data"] {
        let file = components.join(name).with_extension("wasm");
        let plugin = plugins.load_file(&file).with_context(|| {
            format!(
                "cannot load {}: build it with `cargo xtask guests`",
                file.display()
            )
        })?;
        plugins.registry().insert(&file, &plugin)?;
    }
    let durability = if plan.full {
        Durability::Full
    } else {
        Durability::Normal
    };
    let options = SqliteOptions {
        durability,
        ..SqliteOptions::new(Arc::clone(clock))
    };
    let store = SqliteStore::open(dir.join("bench.db"), options)?;
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    Ok(Runtime::start(Options {
        store,
        plugins,
        clock: Arc::clone(clock),
        io,
        name: "bench".to_owned(),
        scope: Scope::All,
        scheduler: Settings::default(),
        workers,
        spare_workers: 4,
        max_steps: 1_000_000,
        observer: None,
    })?)
}

fn request(scenario: &Scenario) -> Result<StartRequest> {
    let text = scenario.workflow.to_string();
    let read = windlass_model::file::read(&text, scenario.name);
    if !read.diagnostics.is_empty() {
        bail!(
            "the scenario {} does not validate: {:?}",
            scenario.name,
            read.diagnostics
        );
    }
    let json = read
        .canonical()
        .context("a valid file has a canonical form")?;
    let definition = DefinitionRow {
        digest: Digest::of(&json),
        name: scenario.name.to_owned(),
        json: json.into(),
    };
    Ok(StartRequest {
        definition,
        input: Payload::null(),
        id: None,
        correlation: None,
    })
}

async fn one(runtime: &Runtime, request: &StartRequest) -> Result<()> {
    let started = runtime.run(request).await?;
    let result = runtime.wait(started.no).await?;
    if result.status != Status::Completed {
        bail!("a run ended as {}: {:?}", result.status, result.failure);
    }
    Ok(())
}

struct Measured {
    runs: u64,
    elapsed: Duration,
    /// Microseconds.
    times: Histogram<u64>,
}

/// Keeps so many runs in flight until the time is over.
async fn drive(
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

fn resident_mb() -> Result<f64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = statm
        .split_whitespace()
        .nth(1)
        .context("statm has a second field")?
        .parse()?;
    Ok(pages * rustix::param::page_size() as f64 / (1024.0 * 1024.0))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
