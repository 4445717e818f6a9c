//! A moderate load for a long time, on a store that keeps finished runs for a minute: finds memory
//! or files that grow.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::MissedTickBehavior;
use windlass_model::stimulus::{Delivery, Stimulus};
use windlass_model::{Clock, Payload, Status};
use windlass_runtime::retention::Options;
use windlass_runtime::{
    Observed, Observer, Operations, Runtime, StartRequest, SystemClock, operations,
};

use super::measure::millis;
use super::rig::{self, Setup};
use super::scenario::chain;
use super::{Record, flush};

/// The name in the results.
pub const NAME: &str = "steady";

/// Steps of each run that does not wait.
const STEPS: u32 = 10;

/// The most unfinished runs; with more, the next one has to wait.
const IN_FLIGHT: usize = 4096;

/// One of so many runs waits for an event, and one gets a value that is too large for a row.
const EACH: u64 = 10;

/// The size of such a value, in bytes.
const LARGE: usize = 64 * 1024;

/// How long finished runs, and large values without a run, are kept, in milliseconds.
const KEEP_MS: u64 = 60_000;

/// How often finished runs are deleted, in milliseconds.
const EVERY_MS: u64 = 5_000;

/// How often new runs are started.
const TICKS_PER_SECOND: u64 = 10;

/// How often sizes are recorded.
const SAMPLE: Duration = Duration::from_secs(60);

/// Counts the runs that end.
struct Ended {
    room: Semaphore,
    completed: AtomicU64,
    failed: AtomicU64,
}

impl Observer for Ended {
    fn observe(&self, event: &Observed<'_>) {
        if let Observed::Ended { status, .. } = event {
            let count = match status {
                Status::Completed => &self.completed,
                _ => &self.failed,
            };
            count.fetch_add(1, Ordering::AcqRel);
            self.room.add_permits(1);
        }
    }
}

/// The workflows of the load, and the runtime that starts them.
struct Load {
    runtime: Arc<Runtime>,
    client: Operations,
    ended: Arc<Ended>,
    plain: StartRequest,
    waits: StartRequest,
    large: String,
}

/// Starts `rate` runs in each second of `time`, and prints the sizes each minute.
///
/// # Errors
///
/// The setup failed, or a run did not complete.
pub async fn measure(
    setup: &Setup,
    rate: u64,
    time: Duration,
    say: &dyn Fn(&str),
) -> Result<Record> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let flush_ms = millis(flush::median(&setup.dir, clock.as_ref())?);
    let load = {
        let (setup, clock) = (setup.clone(), Arc::clone(&clock));
        Arc::new(tokio::task::spawn_blocking(move || Load::new(&setup, &clock)).await??)
    };
    let archive = setup.dir.join("archive");
    let retention = load.runtime.retain(Options {
        keep_ms: KEEP_MS,
        every_ms: EVERY_MS,
        grace_ms: KEEP_MS,
        archive: Some(archive.clone()),
        ..Options::default()
    })?;
    let begin = clock.monotonic();
    let mut ticks =
        tokio::time::interval(Duration::from_secs(1) / u32::try_from(TICKS_PER_SECOND)?);
    // A host that cannot keep up does not get the missed runs later.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut begun, mut samples, mut sizes) = (0_u64, 0_u32, Vec::new());
    let mut rss_mb = Vec::new();
    say("minute\truns\tfile_mb\tlog_mb\tfree_mb\trss_mb\tfiles\tarchive_mb");
    loop {
        ticks.tick().await;
        let elapsed = clock.monotonic().saturating_sub(begin);
        if elapsed >= SAMPLE * (samples + 1) || elapsed >= time {
            samples += 1;
            let sample = Sample::take(setup, &archive, elapsed, &load.ended)?;
            say(&sample.line());
            sizes.push(sample.file_mb + sample.log_mb);
            rss_mb.push(sample.rss_mb);
        }
        if elapsed >= time {
            break;
        }
        for _ in 0..rate.div_ceil(TICKS_PER_SECOND) {
            load.ended.room.acquire().await?.forget();
            load.begin(begun).await?;
            begun += 1;
        }
    }
    let elapsed = clock.monotonic().saturating_sub(begin);
    // Wait for the end of all runs.
    drop(
        load.ended
            .room
            .acquire_many(u32::try_from(IN_FLIGHT)?)
            .await?,
    );
    drop(retention);
    load.runtime.drain(Duration::from_secs(10)).await;
    let failed = load.ended.failed.load(Ordering::Acquire);
    ensure!(failed == 0, "{failed} runs did not complete");
    let per_second = begun as f64 / elapsed.as_secs_f64();
    Ok(Record {
        runs_per_second: per_second,
        node_executions_per_second: per_second * f64::from(STEPS),
        rss_mb: rss_mb.last().copied().unwrap_or_default(),
        flush_ms,
        runs: begun,
        file_mb: sizes,
        ..Record::of(NAME, usize::try_from(rate)?, setup)
    })
}

impl Load {
    fn new(setup: &Setup, clock: &Arc<dyn Clock>) -> Result<Self> {
        let ended = Arc::new(Ended {
            room: Semaphore::new(IN_FLIGHT),
            completed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        });
        let store = setup.store(clock)?;
        let plugins = setup.plugins(clock)?;
        let observer: Arc<dyn Observer> = Arc::clone(&ended) as Arc<dyn Observer>;
        let client = rig::client(&store, &plugins, clock);
        let runtime = rig::start(store, plugins, clock, Some(observer))?;
        let plain = chain("steady", STEPS);
        let waits = json!({
            "workflow": "waits",
            "nodes": { "wait": { "event": "go", "match": { "n": "{{ input.n }}" } } },
        });
        Ok(Self {
            runtime,
            client,
            ended,
            plain: rig::request(plain.name, &plain.workflow)?,
            waits: rig::request("waits", &waits)?,
            large: "x".repeat(LARGE),
        })
    }

    /// Starts the run of this number.
    async fn begin(self: &Arc<Self>, number: u64) -> Result<()> {
        match number % EACH {
            0 => self.waiting(number).await,
            1 => {
                let mut request = self.plain.clone();
                // Each one is different: equal values are stored once.
                request.input = Payload::of(&json!({ "number": number, "text": self.large }));
                rig::start_run(&self.runtime, &request).await?;
                Ok(())
            }
            _ => {
                rig::start_run(&self.runtime, &self.plain).await?;
                Ok(())
            }
        }
    }

    /// A run that waits, and its stimulus, which is buffered because it may arrive first.
    async fn waiting(self: &Arc<Self>, number: u64) -> Result<()> {
        let matches: Value = json!({ "n": number });
        let mut request = self.waits.clone();
        request.input = Payload::of(&matches);
        rig::start_run(&self.runtime, &request).await?;
        let stimulus = Stimulus {
            name: "go".to_owned(),
            matches,
            correlation: None,
            run: None,
            input: Payload::null(),
            delivery: Delivery::Buffer,
            ttl_ms: KEEP_MS,
            trace: None,
        };
        let id = operations::new_stimulus_id();
        self.client.send(id, stimulus).await?;
        Ok(())
    }
}

/// All sizes at a moment.
struct Sample {
    minutes: f64,
    runs: u64,
    file_mb: f64,
    log_mb: f64,
    free_mb: f64,
    rss_mb: f64,
    files: usize,
    archive_mb: f64,
}

impl Sample {
    fn take(setup: &Setup, archive: &Path, elapsed: Duration, ended: &Ended) -> Result<Self> {
        let file = rig::store_file(&setup.dir);
        let reader = rusqlite::Connection::open(&file)?;
        let pragma = |name| reader.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let free = pragma("freelist_count")? * pragma("page_size")?;
        let mut archived = 0;
        for entry in std::fs::read_dir(archive).into_iter().flatten() {
            archived += entry?.metadata()?.len();
        }
        Ok(Self {
            minutes: elapsed.as_secs_f64() / 60.0,
            runs: ended.completed.load(Ordering::Acquire),
            file_mb: megabytes(size(&file)?),
            log_mb: megabytes(size(&file.with_extension("db-wal")).unwrap_or_default()),
            free_mb: megabytes(u64::try_from(free)?),
            rss_mb: rig::resident_mb()?,
            files: std::fs::read_dir("/proc/self/fd")?.count(),
            archive_mb: megabytes(archived),
        })
    }

    fn line(&self) -> String {
        let Self {
            minutes,
            runs,
            file_mb,
            log_mb,
            free_mb,
            rss_mb,
            files,
            archive_mb,
        } = self;
        format!(
            "{minutes:.1}\t{runs}\t{file_mb:.1}\t{log_mb:.1}\t{free_mb:.1}\t{rss_mb:.1}\t{files}\t\
             {archive_mb:.1}"
        )
    }
}

fn size(path: &Path) -> Result<u64> {
    let metadata = std::fs::metadata(path).with_context(|| format!("no {}", path.display()))?;
    Ok(metadata.len())
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}
