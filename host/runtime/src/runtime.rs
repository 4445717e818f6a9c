//! One process that runs workflows: the parts put together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use windlass_keys::export::ExportKeys;
use windlass_model::{InstanceNo, Payload, Status};
use windlass_periodic::Periodic;
use windlass_store::rows::InstanceRow;
use windlass_store::write::Leave;
use windlass_store::{Listener, Writer as _};

use crate::catalog::Prepared;
use crate::definitions::{self, Definitions};
use crate::error::Error;
use crate::links::Links;
use crate::options::Options;
use crate::parts::Parts;
use crate::pause::{self, Paused};
use crate::request::{StartRequest, Started};
use crate::retention;
use crate::scheduler::core::Event;
use crate::scheduler::driver::Membership;
use crate::shard::worker::WorkerPool;
use crate::shard::{Birth, Message};
use crate::shared::RuntimeShared;
use crate::topology::Topology;
use crate::wait::{Ended, RunResult};
use crate::workers::Workers;

/// How often a run that another process has is looked at.
const POLL: Duration = Duration::from_millis(100);

/// How often a drain looks whether it is through.
const DRAIN_POLL: Duration = Duration::from_millis(2);

/// How far what waits in the store is counted for the metrics.
const BACKLOG: u32 = 10_000;

/// How long interrupted guests get to return.
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

/// How far a run is.
enum Look {
    Ended(RunResult),
    Suspended,
    Running,
}

/// How a drain went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Whether everything that ran could be committed before the deadline.
    pub in_time: bool,
    /// Triggers that were carried out meanwhile.
    pub finished: u64,
    /// Triggers that had been claimed and were not carried out: they were given back, or are
    /// left to whoever finds out that this process is gone.
    pub left: u64,
}

impl Runtime {
    /// Joins the store and begins to claim work.
    ///
    /// # Errors
    ///
    /// The store is in trouble, or threads cannot be started.
    pub fn start(mut options: Options) -> Result<Arc<Self>, Error> {
        let threads = options.workers.max(1) + options.spare_workers;
        let scan_ms = options.scheduler.scan_interval_ms;
        let folders = options.plugin_folders.take();
        let parts = Parts::join(options, |io, work| drop(io.spawn_blocking(work)))?;
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
        let listener = shared.base.store.listen(Box::new(move || {
            woken.intake.scheduler.send(Event::Woken);
            woken.listeners.queue.ring();
            wake();
        }))?;
        if let Some(folders) = folders {
            workers.watch_plugins(folders, &shared, sink)?;
        }
        Ok(Arc::new(Self {
            shared,
            worker_pool,
            membership,
            scheduler: Mutex::new(Some(scheduler)),
            workers,
            _listener: listener,
            stopped: AtomicBool::new(false),
        }))
    }

    /// Publishes what directories of workflow files hold, now and whenever they change.
    ///
    /// # Errors
    ///
    /// The system has no thread to give.
    pub fn publish_from(&self, options: definitions::Options) -> Result<Arc<Definitions>, Error> {
        self.workers.publish_from(&self.shared.base, options)
    }

    /// Starts a run in this process. The answer comes when the run is written down durably;
    /// from then on it ends, here or elsewhere.
    ///
    /// # Errors
    ///
    /// The definition or the input is wrong, the id is taken, the process is draining, or the
    /// store is in trouble.
    pub async fn run(&self, request: &StartRequest) -> Result<Started, Error> {
        if self.shared.intake.is_draining() {
            return Err(Error::Draining);
        }
        if self.shared.intake.pause.is_on() {
            return Err(Error::Paused);
        }
        let shared = &self.shared;
        let prepared = self.prepare(request).await?;
        request.check(&prepared)?;
        let numbers = self.membership.numbers();
        let owner = Some(numbers.incarnation());
        let now_ms = shared.base.clock.wall_ms();
        let (new, state) = request.instance(&prepared, &numbers, owner, now_ms)?;
        let (id, no) = (new.id, new.no);
        let (reply, answer) = oneshot::channel();
        let birth = Birth {
            new,
            state,
            prepared,
            numbers,
            reply,
        };
        let Some(shard) = shared.shard(no) else {
            return Err(Error::Draining);
        };
        shard.send(Message::Born(Box::new(birth)));
        let answer = answer.await.map_err(|_| Error::Draining)??;
        let started = request.answered(answer, (id, no))?;
        if started.existing.is_none() {
            shared.intake.claim_too(no);
        }
        Ok(started)
    }

    /// What is to run. Compiling a definition, or a plugin of it, takes a while, and is done
    /// where it holds up nobody.
    pub(crate) async fn prepare(&self, request: &StartRequest) -> Result<Arc<Prepared>, Error> {
        let shared = Arc::clone(&self.shared);
        let definition = &request.definition;
        if let Some(current) = shared
            .base
            .catalog
            .current(definition.digest, &shared.base.plugins)
        {
            return Ok(current);
        }
        let definition = definition.clone();
        let prepared = self.shared.base.io.spawn_blocking(move || {
            shared
                .base
                .catalog
                .prepare(definition, &shared.base.plugins)
        });
        prepared.await.map_err(std::io::Error::from)?
    }

    /// Makes this process claim a run that was started before, by itself or by another that
    /// is gone.
    pub fn adopt(&self, no: InstanceNo) {
        self.shared.intake.claim_too(no);
        self.shared.intake.scheduler.send(Event::Woken);
    }

    /// Waits until a run has ended, whoever runs it.
    ///
    /// # Errors
    ///
    /// There is no such run, or the store is in trouble.
    pub async fn wait(&self, no: InstanceNo) -> Result<RunResult, Error> {
        let ended = self.until(no, true).await?;
        ended.ok_or_else(|| Error::NotFound(no.to_string()))
    }

    /// Waits until a run has ended, or until nothing of it goes on before somebody resumes it
    /// or a time comes: none then.
    ///
    /// # Errors
    ///
    /// There is no such run, or the store is in trouble.
    pub async fn wait_unless_suspended(&self, no: InstanceNo) -> Result<Option<RunResult>, Error> {
        self.until(no, false).await
    }

    async fn until(&self, no: InstanceNo, patient: bool) -> Result<Option<RunResult>, Error> {
        // One that is here says so itself, and nobody has to ask the store.
        let waiters = &self.shared.listeners.waiters;
        let mut here = patient.then(|| waiters.add_if_here(no)).flatten();
        loop {
            let waiter = match here.take() {
                Some(waiter) => waiter,
                None => {
                    let waiter = waiters.add(no);
                    match self.look(no).await? {
                        Look::Ended(result) => return Ok(Some(result)),
                        Look::Suspended if !patient => return Ok(None),
                        Look::Suspended | Look::Running => {}
                    }
                    waiter
                }
            };
            match tokio::time::timeout(POLL.max(Duration::from_secs(1)), waiter).await {
                Ok(Ok(Ended::Finally(result))) => return Ok(Some(result)),
                Ok(Ok(Ended::Interrupted {
                    code,
                    message,
                    help,
                })) => {
                    let transient = true;
                    return Err(windlass_store::Error {
                        code,
                        message,
                        help,
                        transient,
                    }
                    .into());
                }
                // Given back, forgotten, or simply not over yet: look again in a while.
                Ok(_) => breathe(POLL).await,
                Err(_) => {}
            }
        }
    }

    /// Asks the store, which may be far away: where it holds up nobody.
    async fn look(&self, no: InstanceNo) -> Result<Look, Error> {
        let store = Arc::clone(&self.shared.base.store);
        let looked = self.shared.base.io.spawn_blocking(move || {
            let row = store.instance_by_no(no)?;
            let row = row.ok_or_else(|| Error::NotFound(no.to_string()))?;
            let suspended = row.status == Status::Suspended;
            Ok(match result_of(store.as_ref(), row)? {
                Some(result) => Look::Ended(result),
                None if suspended => Look::Suspended,
                None => Look::Running,
            })
        });
        looked.await.map_err(std::io::Error::from)?
    }

    /// Whether this process is alone on its store, or one of several.
    pub fn topology(&self) -> &Topology {
        &self.shared.base.topology
    }

    /// What this process counts and measures, in the text format of Prometheus.
    /// Looks into the store for what waits there; if that fails, what was known stands.
    pub fn metrics(&self) -> String {
        let (shared, metrics) = (&self.shared, &self.shared.base.metrics);
        match shared
            .base
            .store
            .backlog(shared.base.clock.wall_ms(), BACKLOG)
        {
            Ok(backlog) => {
                metrics.triggers_due.set(backlog.due);
                metrics.dead_triggers.set(backlog.dead);
            }
            Err(error) => tracing::debug!(%error, "cannot count what waits"),
        }
        metrics.text()
    }

    /// Begins to forget what is over, for as long as what it gives back is kept.
    ///
    /// # Errors
    ///
    /// The system has no thread to give.
    pub fn retain(&self, options: retention::Options) -> Result<Periodic, Error> {
        let (store, clock) = (&self.shared.base.store, &self.shared.base.clock);
        let sweeper = retention::Sweeper::new(Arc::clone(store), Arc::clone(clock), options);
        let membership = Arc::clone(&self.membership);
        let worker = retention::start(sweeper, move || membership.numbers().incarnation())?;
        Ok(worker)
    }

    /// What makes the links by which runs go on.
    pub fn links(&self) -> &Arc<Links> {
        &self.shared.base.links
    }

    /// The keys that exports are signed with, and by which imports are known.
    pub fn exports(&self) -> &Arc<ExportKeys> {
        &self.shared.base.exports
    }

    /// Something was published by this process: [`Store::notify`](windlass_store::Store::notify)
    /// tells only the others.
    pub fn published(&self) {
        self.workers.published();
    }

    /// Somebody in this process has written something into the store that is to be looked at:
    /// [`Store::notify`](windlass_store::Store::notify) tells only the others.
    pub fn wake(&self) {
        self.shared.intake.scheduler.send(Event::Woken);
    }

    /// Begins nothing new from now on; what runs is finished, and what follows waits. With
    /// `persist` so does every process on the store, those that begin later and, within a scan
    /// interval, those that run. A pause that is on keeps its beginning.
    ///
    /// # Errors
    ///
    /// The pause is to survive a restart, and the store is in trouble: then nothing is paused.
    pub fn pause(&self, persist: bool) -> Result<Paused, Error> {
        let shared = &self.shared;
        let (store, now_ms) = (shared.base.store.as_ref(), shared.base.clock.wall_ms());
        let paused = shared.intake.pause.pause(store, now_ms, persist)?;
        pause::tell(shared);
        store.notify();
        Ok(paused)
    }

    /// Goes on after a pause, and ends what the store says of one, for every process. Answers
    /// the pause that was on.
    ///
    /// # Errors
    ///
    /// The store is in trouble: then it stays paused.
    pub fn unpause(&self) -> Result<Option<Paused>, Error> {
        let shared = &self.shared;
        let (store, now_ms) = (shared.base.store.as_ref(), shared.base.clock.wall_ms());
        let paused = shared.intake.pause.unpause(store, now_ms)?;
        pause::tell(shared);
        store.notify();
        Ok(paused)
    }

    /// The pause that is on.
    pub fn paused(&self) -> Option<Paused> {
        self.shared.intake.pause.now()
    }

    /// Whether its lease in the store holds. While it does not, nothing is begun here, and
    /// whatever has been claimed may be done elsewhere.
    pub fn is_trusted(&self) -> bool {
        self.membership.is_trusted(self.shared.base.now())
    }

    /// Whether it is shutting down.
    pub fn is_draining(&self) -> bool {
        self.shared.intake.is_draining()
    }

    /// Stops claiming, lets what runs commit, and leaves. At the deadline guests are
    /// interrupted and their triggers given back: a shutdown is never a failure of a run.
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
            self.shared.bursts.overdue.raise();
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
            // A shard that is empty asks for no lock any more, so the locks come after it.
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
            // Others find out by the file lock or the lease.
            tracing::warn!(code = %error.code, %error, "could not sign off from the store");
        }
        self.shared.base.store.notify();
        self.worker_pool.stop(&self.shared);
        self.workers.stop_watching();
    }

    /// How many triggers are claimed and not finished.
    pub fn in_flight(&self) -> u32 {
        self.shared.intake.flow.in_flight()
    }
}

/// How a run ended, as the store has it; none if it has not.
///
/// # Errors
///
/// The store is in trouble.
pub fn result_of(
    store: &dyn windlass_store::Store,
    row: InstanceRow,
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
