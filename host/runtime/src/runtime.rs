//! One process that runs workflows, assembled from its parts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use windlass_keys::export::ExportKeys;
use windlass_model::metrics::RunEvent;
use windlass_model::{Incarnation, Payload, RunNo, Status, TriggerState};
use windlass_periodic::Periodic;
use windlass_store::rows::RunRow;
use windlass_store::write::Leave;
use windlass_store::{Listener, News, Store, Writer as _, next_rows};

use crate::catalog::Prepared;
use crate::definitions::{self, Definitions};
use crate::error::Error;
use crate::links::Links;
use crate::options::Options;
use crate::parts::Parts;
use crate::pause::{self, Paused};
use crate::retention;
use crate::scheduler::core::Event;
use crate::scheduler::driver::Membership;
use crate::shard::Message;
use crate::shard::worker::WorkerPool;
use crate::shared::{Listeners, RuntimeShared};
use crate::topology::Topology;
use crate::wait::{Ended, RunResult};
use crate::watching::FolderReport;
use crate::workers::Workers;

/// The interval at which a drain checks its progress.
const DRAIN_POLL: Duration = Duration::from_millis(2);

/// The most triggers in one read of a wait.
const LOOK: u32 = 64;

/// The limit up to which waiting rows are counted for the metrics.
const BACKLOG: u32 = 10_000;

/// How long interrupted guests have to return.
const INTERRUPT: Duration = Duration::from_secs(2);

/// One process that runs workflows.
pub struct Runtime {
    pub(crate) shared: Arc<RuntimeShared>,
    worker_pool: Arc<WorkerPool>,
    pub(crate) membership: Arc<Membership>,
    scheduler: Mutex<Option<JoinHandle<()>>>,
    workers: Workers,
    _listener: Listener,
    stopped: AtomicBool,
}

/// The progress of a run.
enum Look {
    Ended(RunResult),
    Suspended,
    Running,
}

/// The result of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Whether everything in progress was committed before the deadline.
    pub in_time: bool,
    /// The number of triggers that were carried out meanwhile.
    pub finished: u64,
    /// The number of claimed triggers that were not carried out. They were given back, or another
    /// process recovers them once it detects that this process is gone.
    pub left: u64,
}

impl Runtime {
    /// Joins the store and begins to claim work.
    ///
    /// # Errors
    ///
    /// The store fails, or threads cannot be started.
    pub fn start(mut options: Options) -> Result<Arc<Self>, Error> {
        let threads = options.workers.max(1) + options.spare_workers;
        let scan_ms = options.scheduler.scan_interval_ms;
        let folders = options.plugin_folders.take();
        let parts = Parts::join(options, |io, work| work.elsewhere(io))?;
        let Parts {
            shared,
            driver,
            inbox,
            membership,
            sink,
        } = parts;
        let worker_pool = WorkerPool::new(threads);
        worker_pool.start(&shared)?;
        let scheduler = std::thread::Builder::new()
            .name("scheduler".to_owned())
            .spawn(move || driver.run(&inbox))?;
        let workers = Workers::start(&shared, &membership, &sink, scan_ms)?;
        let woken = Arc::clone(&shared);
        let wake = workers.wake();
        let listener = shared.base.store.listen(Box::new(move |news| {
            woken.listeners.lookout.hear(news);
            if news == News::Work {
                woken.intake.scheduler.send(Event::Woken);
                woken.listeners.queue.ring();
                wake();
            }
        }))?;
        if let Some(folders) = folders {
            workers.watch_plugins(folders, &shared, sink)?;
        }
        let runtime = Arc::new(Self {
            shared,
            worker_pool,
            membership,
            scheduler: Mutex::new(Some(scheduler)),
            workers,
            _listener: listener,
            stopped: AtomicBool::new(false),
        });
        // A process that claims only its own runs leaves others alone.
        if runtime.shared.intake.own.is_none() {
            runtime.workers.carry_batches_out(&runtime)?;
        }
        Ok(runtime)
    }

    /// Publishes the workflow files of directories, now and whenever they change.
    ///
    /// # Errors
    ///
    /// The system cannot start another thread.
    pub fn publish_from(
        &self,
        options: definitions::Options,
        report: Arc<dyn FolderReport>,
    ) -> Result<Arc<Definitions>, Error> {
        self.workers
            .publish_from(&self.shared.base, options, report)
    }

    /// Makes this process claim a run that was started before, by itself or by a process that is
    /// gone.
    pub fn adopt(&self, no: RunNo) {
        self.shared.intake.claim_too(no);
        self.shared.intake.scheduler.send(Event::Woken);
    }

    /// Counts the retry of a run.
    pub(crate) fn count_retry(&self, prepared: &Prepared) {
        prepared.count(RunEvent::Retried, &self.shared.base.metrics);
    }

    /// Waits until a run has ended, in any process.
    ///
    /// # Errors
    ///
    /// There is no such run, or the store fails.
    pub async fn wait(&self, no: RunNo) -> Result<RunResult, Error> {
        let ended = self.until(no, true).await?;
        ended.ok_or_else(|| Error::NotFound(no.to_string()))
    }

    /// Waits until a run has ended, or until it is suspended and only a stimulus or a timer
    /// continues it: none then.
    ///
    /// # Errors
    ///
    /// There is no such run, or the store fails.
    pub async fn wait_unless_suspended(&self, no: RunNo) -> Result<Option<RunResult>, Error> {
        self.until(no, false).await
    }

    async fn until(&self, no: RunNo, patient: bool) -> Result<Option<RunResult>, Error> {
        let Listeners {
            waiters, lookout, ..
        } = &self.shared.listeners;
        let mut watch = None;
        loop {
            // A run in this process notifies its waiter, so the store need not be read.
            let ended = match waiters.add_if_here(no) {
                Some(waiter) => (waiter.await, None),
                None => {
                    let watch = watch.get_or_insert_with(|| lookout.watch(no));
                    let waiter = waiters.add(no);
                    let (look, row) = self.look(no, patient).await?;
                    match look {
                        Look::Ended(result) => return Ok(Some(result)),
                        Look::Suspended if !patient => return Ok(None),
                        Look::Suspended | Look::Running => {}
                    }
                    watch.saw(&row);
                    tokio::select! {
                        ended = waiter => (ended, Some(row.version)),
                        () = watch.changed() => continue,
                    }
                }
            };
            match ended {
                (Ok(Ended::Finally(end)), seen)
                    if seen.is_none_or(|version| end.is_after(no, version)) =>
                {
                    return Ok(Some(end.result));
                }
                (
                    Ok(Ended::Interrupted {
                        code,
                        message,
                        help,
                    }),
                    _,
                ) => {
                    let transient = true;
                    return Err(windlass_store::Error {
                        code,
                        message,
                        help,
                        transient,
                    }
                    .into());
                }
                // The run was given back or forgotten, or has not ended yet.
                (Ok(_) | Err(_), _) => {}
            }
        }
    }

    /// Reads the store on a thread for blocking tasks, since the store may be remote.
    ///
    /// Without patience, a suspended run counts as running while one of its triggers is due: it was
    /// resumed, or its time has come, and it only waits for a claim.
    async fn look(&self, no: RunNo, patient: bool) -> Result<(Look, RunRow), Error> {
        let store = Arc::clone(&self.shared.base.store);
        let now_ms = self.shared.base.clock.wall_ms();
        let looked = self.shared.base.io.spawn_blocking(move || {
            let row = store.run_by_no(no)?;
            let row = row.ok_or_else(|| Error::NotFound(no.to_string()))?;
            let mut suspended = row.status == Status::Suspended;
            if suspended && !patient {
                suspended = !goes_on(store.as_ref(), no, now_ms)?;
            }
            let look = match result_of(store.as_ref(), row.clone())? {
                Some(result) => Look::Ended(result),
                None if suspended => Look::Suspended,
                None => Look::Running,
            };
            Ok((look, row))
        });
        looked.await.map_err(std::io::Error::from)?
    }

    /// Whether this process is the only one on its store.
    pub fn topology(&self) -> &Topology {
        &self.shared.base.topology
    }

    /// The member of the store that this process is.
    pub fn incarnation(&self) -> Incarnation {
        self.membership.numbers().incarnation()
    }

    /// The metrics of this process in the text format of Prometheus. Reads the numbers of waiting
    /// rows from the store; if that fails, the last known numbers are used.
    pub fn metrics(&self) -> String {
        let (shared, metrics) = (&self.shared, &self.shared.base.metrics);
        match shared
            .base
            .store
            .backlog(shared.base.clock.wall_ms(), BACKLOG)
        {
            Ok(backlog) => {
                metrics.triggers_due.set(backlog.due);
                metrics.triggers_pending.set(backlog.pending);
                metrics.triggers_parked.set(backlog.parked);
                metrics.dead_letters.set(backlog.dead);
            }
            Err(error) => tracing::debug!(%error, "cannot count the waiting triggers"),
        }
        metrics.triggers_claimed.set(self.in_flight().into());
        crate::process::measure(&metrics.process);
        metrics.text()
    }

    /// Begins retention, for as long as the returned worker is kept.
    ///
    /// # Errors
    ///
    /// The system cannot start another thread.
    pub fn retain(&self, options: retention::Options) -> Result<Periodic, Error> {
        let (store, clock) = (&self.shared.base.store, &self.shared.base.clock);
        let sweeper = retention::Sweeper::new(Arc::clone(store), Arc::clone(clock), options);
        let membership = Arc::clone(&self.membership);
        let worker = retention::start(sweeper, move || membership.numbers().incarnation())?;
        Ok(worker)
    }

    /// Makes the links that resume runs.
    pub fn links(&self) -> &Arc<Links> {
        &self.shared.base.links
    }

    /// The keys that sign exports and verify imports.
    pub fn exports(&self) -> &Arc<ExportKeys> {
        &self.shared.base.exports
    }

    /// To be called after this process has published:
    /// [`Store::notify`](windlass_store::Store::notify) notifies only other processes.
    pub fn published(&self) {
        self.workers.published();
    }

    /// Notifies the worker for batches of this process.
    pub(crate) fn batches_changed(&self) {
        self.workers.batches_changed();
    }

    /// To be called after this process has written rows that the scheduler has to read:
    /// [`Store::notify`](windlass_store::Store::notify) notifies only other processes.
    pub fn wake(&self) {
        self.shared.intake.scheduler.send(Event::Woken);
    }

    /// Pauses: no execution begins from now on, executions in progress are finished, and their
    /// successors wait. With `persist`, this holds for every process on the store: those that start
    /// later and, within a scan interval, those that run. A current pause keeps its beginning.
    ///
    /// # Errors
    ///
    /// The pause is to survive a restart, and the store fails: then nothing is paused.
    pub fn pause(&self, persist: bool) -> Result<Paused, Error> {
        let shared = &self.shared;
        let (store, now_ms) = (shared.base.store.as_ref(), shared.base.clock.wall_ms());
        let paused = shared.intake.pause.pause(store, now_ms, persist)?;
        pause::tell(shared);
        store.notify();
        Ok(paused)
    }

    /// Ends a pause, including a stored one for every process. Returns the pause that was on.
    ///
    /// # Errors
    ///
    /// The store fails: then the process stays paused.
    pub fn unpause(&self) -> Result<Option<Paused>, Error> {
        let shared = &self.shared;
        let (store, now_ms) = (shared.base.store.as_ref(), shared.base.clock.wall_ms());
        let paused = shared.intake.pause.unpause(store, now_ms)?;
        pause::tell(shared);
        store.notify();
        Ok(paused)
    }

    /// The current pause.
    pub fn paused(&self) -> Option<Paused> {
        self.shared.intake.pause.now()
    }

    /// Whether its lease in the store is valid. Otherwise no execution begins here, and another
    /// process may execute the claimed triggers.
    pub fn is_trusted(&self) -> bool {
        self.membership.is_trusted(self.shared.base.now())
    }

    /// Whether it is shutting down.
    pub fn is_draining(&self) -> bool {
        self.shared.intake.is_draining()
    }

    /// Stops claiming, lets executions in progress commit, and leaves the store. At the deadline,
    /// guests are interrupted and their triggers given back: a shutdown never fails a run.
    pub async fn drain(&self, deadline: Duration) -> Drained {
        let finished_before = self.shared.intake.flow.finished();
        let begun = u64::from(self.in_flight());
        self.shared.intake.draining.store(true, Ordering::Release);
        self.workers.stop_planning();
        self.shared.intake.scheduler.send(Event::Drain);
        self.shared.broadcast(|| Message::Drain);
        windlass_model::failpoint::pass("drain-begun");
        let in_time = self.until_empty(deadline).await;
        if !in_time {
            self.shared.base.overdue.store(true, Ordering::Release);
            self.shared.broadcast(|| Message::Interrupt);
            windlass_model::failpoint::pass("drain-interrupted");
            self.until_empty(INTERRUPT).await;
        }
        windlass_model::failpoint::pass("drain-over");
        self.leave();
        let finished = self.shared.intake.flow.finished() - finished_before;
        Drained {
            in_time,
            finished,
            left: begun.saturating_sub(finished),
        }
    }

    async fn until_empty(&self, within: Duration) -> bool {
        let shared = &self.shared;
        let end = shared.base.clock.monotonic() + within;
        loop {
            // An empty shard requests no more locks, so the locks are checked after the shards.
            let keeper = shared.bursts.burst_locks.as_ref();
            if shared.shards.iter().all(|shard| shard.is_empty())
                && keeper.is_none_or(|keeper| keeper.is_idle())
            {
                return true;
            }
            if shared.base.clock.monotonic() >= end {
                return false;
            }
            windlass_model::failpoint::pass("draining");
            breathe(DRAIN_POLL).await;
        }
    }

    fn leave(&self) {
        if self.stopped.swap(true, Ordering::AcqRel) {
            return;
        }
        self.workers.stop_planning();
        self.shared.intake.scheduler.stop();
        self.workers.stop_serving();
        if let Some(thread) = self.scheduler.lock().take() {
            let _ = thread.join();
        }
        let incarnation = self.membership.numbers().incarnation();
        if let Err(error) = self.shared.base.store.write(Leave { incarnation }) {
            // Other members detect the end by the file lock or the lease.
            tracing::warn!(code = %error.code, %error, "could not sign off from the store");
        }
        self.shared.base.store.notify();
        self.worker_pool.stop(&self.shared);
        self.workers.stop_watching();
    }

    /// The number of claimed triggers that are not finished.
    pub fn in_flight(&self) -> u32 {
        self.shared.intake.flow.in_flight()
    }
}

/// The result of a run from the store; none if the run has not ended.
///
/// # Errors
///
/// The store fails.
pub fn result_of(
    store: &dyn windlass_store::Store,
    row: RunRow,
) -> Result<Option<RunResult>, Error> {
    if !row.status.is_final() {
        return Ok(None);
    }
    let output: Option<Payload> = store.output(row.no)?;
    Ok(Some(RunResult {
        id: row.id,
        status: row.status,
        output,
        failure: row.failure,
    }))
}

#[expect(
    clippy::disallowed_methods,
    reason = "a pause between two looks decides nothing"
)]
async fn breathe(time: Duration) {
    tokio::time::sleep(time).await;
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Whether a trigger of a run is due that is pending or claimed.
fn goes_on(store: &dyn Store, run: RunNo, now_ms: i64) -> Result<bool, Error> {
    let mut after = None;
    loop {
        let rows = next_rows(LOOK, |most| store.triggers_after(run, after, most))?;
        let mut due = rows.iter().take_while(|row| row.due_ms <= now_ms);
        let states = [TriggerState::Pending, TriggerState::Claimed];
        if due.any(|row| states.contains(&row.state)) {
            return Ok(true);
        }
        // The soonest come first.
        match rows.last() {
            Some(last) if last.due_ms <= now_ms => after = Some(last.into()),
            _ => return Ok(false),
        }
    }
}
