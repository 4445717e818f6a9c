//! Runs that wait for an answer, and answers for all of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;
use windlass_model::{Clock, Payload, RunId, Status};
use windlass_runtime::{Observed, Observer, Operations, SystemClock};
use windlass_store::Store;
use windlass_store::stimuli::{BookmarkQuery, BookmarkRow};

use super::measure::millis;
use super::rig::{self, Setup};
use super::{Record, bulk, flush};

/// The name in the results.
pub const NAME: &str = "resumes";

/// How many are answered one after another.
const SINGLE: usize = 200;
/// How many senders answer at the same time.
const SENDERS: usize = 16;
/// Bookmarks that are listed at a time.
const PAGE: u32 = 1_000;

/// Records the ends of runs.
struct Watch {
    clock: Arc<dyn Clock>,
    suspended: AtomicU64,
    ended: Mutex<HashMap<RunId, Duration>>,
    failed: AtomicU64,
    bell: Notify,
}

impl Observer for Watch {
    fn observe(&self, event: &Observed<'_>) {
        match event {
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

/// Starts `count` runs that wait for an answer, answers some one after another and the rest as fast
/// as possible.
///
/// # Errors
///
/// The setup failed, or a run did not complete.
pub async fn measure(setup: &Setup, count: u64) -> Result<Record> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let flush_ms = millis(flush::median(&setup.dir, clock.as_ref())?);
    let watch = Arc::new(Watch {
        clock: Arc::clone(&clock),
        suspended: AtomicU64::new(0),
        ended: Mutex::default(),
        failed: AtomicU64::new(0),
        bell: Notify::new(),
    });
    let workflow = json!({
        "workflow": "asks",
        "nodes": { "ask": { "use": "human/confirm", "with": { "message": "go on?" } } },
    });
    let (runtime, desk, client) = {
        let (setup, clock) = (setup.clone(), Arc::clone(&clock));
        let observer: Arc<dyn Observer> = Arc::clone(&watch) as Arc<dyn Observer>;
        tokio::task::spawn_blocking(move || {
            let plugins = setup.plugins(&clock)?;
            setup.load(&plugins, "human")?;
            let store: Arc<dyn Store> = setup.store(&clock)?;
            let now_ms = clock.wall_ms();
            let request = rig::request("asks", &workflow)?;
            bulk::fill(&store, &plugins, &clock, &request, count, &|_| now_ms)?;
            let desk: Arc<dyn Store> = setup.store(&clock)?;
            let client = rig::client(&desk, &plugins, &clock);
            let runtime = rig::start(store, plugins, &clock, Some(observer))?;
            anyhow::Ok((runtime, desk, client))
        })
        .await??
    };
    // The original of the copied runs waits as well.
    while watch.suspended.load(Ordering::Acquire) < count + 1 {
        watch.bell.notified().await;
    }
    let mut marks =
        tokio::task::spawn_blocking(move || waiting(desk.as_ref(), count + 1)).await??;
    let rest = marks.split_off(SINGLE.min(marks.len()));
    let times = one_by_one(&watch, &client, marks).await?;
    let done = rest.len();
    let begin = clock.monotonic();
    all_at_once(&client, rest).await?;
    while (watch.ended.lock().len() as u64) < count + 1 {
        watch.bell.notified().await;
    }
    let elapsed = clock.monotonic().saturating_sub(begin);
    let rss_mb = rig::resident_mb()?;
    runtime.drain(Duration::from_secs(10)).await;
    ensure!(
        watch.failed.load(Ordering::Acquire) == 0,
        "some runs did not complete"
    );
    let per_second = done as f64 / elapsed.as_secs_f64();
    Ok(Record {
        node_executions_per_second: per_second,
        runs_per_second: per_second,
        p50_ms: times.value_at_quantile(0.5) as f64 / 1e3,
        p99_ms: times.value_at_quantile(0.99) as f64 / 1e3,
        rss_mb,
        flush_ms,
        runs: count + 1,
        resumes_per_second: Some(per_second),
        ..Record::of(NAME, SENDERS, setup)
    })
}

/// All bookmarks, once there are as many as expected.
fn waiting(desk: &dyn Store, expected: u64) -> Result<Vec<BookmarkRow>> {
    loop {
        let mut marks: Vec<BookmarkRow> = Vec::new();
        loop {
            let page = desk.bookmarks(&BookmarkQuery {
                after: marks.last().map(|mark| mark.no),
                limit: PAGE,
                ..BookmarkQuery::default()
            })?;
            if page.is_empty() {
                break;
            }
            marks.extend(page);
        }
        // The last ones may not be committed yet.
        if marks.len() as u64 >= expected {
            return Ok(marks);
        }
        std::thread::yield_now();
    }
}

async fn answer(client: &Operations, mark: &BookmarkRow) -> Result<()> {
    let input = Payload::of(&json!({ "decision": "approve" }));
    let sent = client.resume_bookmark(mark.no, input).await?;
    ensure!(
        sent.resumed.len() == 1,
        "no run waits at this bookmark: {sent:?}"
    );
    Ok(())
}

/// The time from an answer to the end of the run, in microseconds.
async fn one_by_one(
    watch: &Watch,
    client: &Operations,
    marks: Vec<BookmarkRow>,
) -> Result<Histogram<u64>> {
    let mut times = Histogram::<u64>::new(3)?;
    for mark in marks {
        let before = watch.clock.monotonic();
        answer(client, &mark).await?;
        let ended = loop {
            let ended = watch.ended.lock().get(&mark.run_id).copied();
            match ended {
                Some(ended) => break ended,
                None => watch.bell.notified().await,
            }
        };
        let took = ended.saturating_sub(before);
        times.record(u64::try_from(took.as_micros())?.max(1))?;
    }
    Ok(times)
}

async fn all_at_once(client: &Operations, marks: Vec<BookmarkRow>) -> Result<()> {
    let marks = Arc::new(marks);
    let next = Arc::new(AtomicUsize::new(0));
    let mut senders = Vec::with_capacity(SENDERS);
    for _ in 0..SENDERS {
        let client = client.clone();
        let (marks, next) = (Arc::clone(&marks), Arc::clone(&next));
        senders.push(tokio::spawn(async move {
            while let Some(mark) = marks.get(next.fetch_add(1, Ordering::AcqRel)) {
                answer(&client, mark).await?;
            }
            anyhow::Ok(())
        }));
    }
    for sender in senders {
        sender.await??;
    }
    Ok(())
}
