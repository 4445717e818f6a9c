//! The threads that drive the shards.
//!
//! There are as many threads as shards, and each drives one. A thread makes guest calls itself, on
//! its own stack, without holding the shard. If a call lasts too long, the watch takes the shard
//! away from the thread and gives it to a spare thread. When the call returns, its result goes into
//! the shard's mailbox like any other, and the thread becomes a spare. The number of spares is
//! limited: if none is left, the shard waits, and the plugin host moves slow plugins off these
//! threads early enough (see its `max_slow_inline`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use windlass_periodic::{Periodic, Rest};

use super::mark::Since;
use super::work::Work;
use super::{Message, Shard, ShardState};
use crate::shared::RuntimeShared;

/// How long a guest may block a shard's thread, in milliseconds.
const PATIENCE_MS: u64 = 20;

/// How often the watch checks for such guests.
const LOOK: Duration = Duration::from_millis(PATIENCE_MS / 4);

/// How long a shard begins executions before it processes its messages again. Steps of large runs
/// take milliseconds, and a batch of them would let new runs wait for all of it.
const TURN: Duration = Duration::from_millis(5);

/// The stack size of a thread that runs guests. The host needs little of it; the engine bounds a
/// guest well below this.
const STACK_BYTES: usize = 4 * 1024 * 1024;

/// The threads, and the shards that wait for a thread.
pub(crate) struct WorkerPool {
    orders: Mutex<Orders>,
    bell: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
    watch: Mutex<Option<Periodic>>,
    stopping: AtomicBool,
    max_threads: usize,
}

/// Shards without a thread.
#[derive(Default)]
struct Orders {
    vacant: Vec<(Arc<Shard>, u64)>,
    idle: usize,
}

impl WorkerPool {
    pub(crate) fn new(max_threads: usize) -> Arc<Self> {
        Arc::new(Self {
            orders: Mutex::new(Orders::default()),
            bell: Condvar::new(),
            threads: Mutex::new(Vec::new()),
            watch: Mutex::default(),
            stopping: AtomicBool::new(false),
            max_threads,
        })
    }

    /// Starts a thread for every shard, and the watch.
    pub(crate) fn start(self: &Arc<Self>, shared: &Arc<RuntimeShared>) -> std::io::Result<()> {
        for shard in &shared.shards {
            let generation = shard.driver.load(Ordering::Acquire);
            self.orders
                .lock()
                .vacant
                .push((Arc::clone(shard), generation));
            self.hire(shared)?;
        }
        let (worker_pool, shared) = (Arc::clone(self), Arc::clone(shared));
        let watch = Periodic::start("guest-watch", move |_| {
            worker_pool.look(&shared);
            Rest::exactly(LOOK)
        })?;
        *self.watch.lock() = Some(watch);
        Ok(())
    }

    /// Stops all threads that are not inside a guest, and waits for them.
    pub(crate) fn stop(&self, shared: &RuntimeShared) {
        self.stopping.store(true, Ordering::Release);
        drop(self.watch.lock().take());
        for shard in &shared.shards {
            shard.depose();
        }
        {
            let _orders = self.orders.lock();
            self.bell.notify_all();
        }
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // A thread that is stuck in a guest ends at the guest's deadline or with the process,
            // so it is not waited for.
            if thread.is_finished() || !stuck(shared) {
                let _ = thread.join();
            }
        }
    }

    fn hire(self: &Arc<Self>, shared: &Arc<RuntimeShared>) -> std::io::Result<()> {
        let mut threads = self.threads.lock();
        if threads.len() >= self.max_threads {
            return Ok(());
        }
        let name = format!("worker-{}", threads.len());
        let (worker_pool, shared) = (Arc::clone(self), Arc::clone(shared));
        let thread = std::thread::Builder::new()
            .name(name)
            .stack_size(STACK_BYTES)
            .spawn(move || worker_pool.serve(&shared))?;
        threads.push(thread);
        Ok(())
    }

    /// The life of a thread: it drives a shard until the shard is taken away, then waits for
    /// another shard.
    fn serve(&self, shared: &Arc<RuntimeShared>) {
        while let Some((shard, generation)) = self.next_order() {
            let driven = catch_unwind(AssertUnwindSafe(|| shard.drive(generation, shared)));
            if driven.is_err() {
                // The shard may hold half of a change, and its runs stop without a thread. The
                // store has all acknowledged commits: the next process continues from there, and
                // gives up a trigger that kills one process after another.
                tracing::error!(
                    shard = shard.index,
                    "a thread that drives runs panicked: the process ends, and the next one takes \
                     its runs up"
                );
                std::process::exit(1);
            }
        }
    }

    fn next_order(&self) -> Option<(Arc<Shard>, u64)> {
        let mut orders = self.orders.lock();
        loop {
            if self.stopping.load(Ordering::Acquire) {
                return None;
            }
            if let Some(order) = orders.vacant.pop() {
                return Some(order);
            }
            orders.idle += 1;
            self.bell.wait(&mut orders);
            orders.idle -= 1;
        }
    }

    /// Takes shards away from threads that are stuck in a guest.
    fn look(self: &Arc<Self>, shared: &Arc<RuntimeShared>) {
        if shared.base.catalog.was_over() {
            shared.base.catalog.trim();
            shared.intake.offer_room();
        }
        let now_ms = shared.base.now().monotonic_ms;
        for shard in &shared.shards {
            if let Some(since) = shard.in_guest.beyond(PATIENCE_MS, now_ms) {
                self.relieve(shard, since, shared);
            }
        }
    }

    fn relieve(self: &Arc<Self>, shard: &Arc<Shard>, since: Since, shared: &Arc<RuntimeShared>) {
        if self.orders.lock().idle == 0 && self.threads.lock().len() >= self.max_threads {
            return;
        }
        // The call may have ended, and another may have begun, since the mark was read.
        if !shard.in_guest.relieve(since) {
            return;
        }
        let generation = shard.depose();
        tracing::debug!(
            shard = shard.index,
            "a guest holds a thread: a spare one takes over"
        );
        let mut orders = self.orders.lock();
        orders.vacant.push((Arc::clone(shard), generation));
        let idle = orders.idle;
        self.bell.notify_one();
        drop(orders);
        if idle == 0
            && let Err(error) = self.hire(shared)
        {
            tracing::error!(%error, "cannot start a spare thread");
        }
    }
}

fn stuck(shared: &RuntimeShared) -> bool {
    shared.shards.iter().any(|shard| shard.in_guest.is_set())
}

impl Shard {
    /// Drives the shard until it has another driver.
    fn drive(self: &Arc<Self>, generation: u64, shared: &Arc<RuntimeShared>) {
        let mut messages = Vec::new();
        while self.driver.load(Ordering::Acquire) == generation {
            self.take(&mut messages);
            if messages.is_empty() && self.state.lock().is_at_rest() {
                self.wait(generation);
                continue;
            }
            if !self.turn(&mut messages, generation, shared) {
                // The thread was relieved in the middle: unprocessed messages go back, in order.
                self.put_back(&mut messages);
                return;
            }
        }
        self.put_back(&mut messages);
    }

    /// Processes messages and runs ready executions. Returns false if the shard was taken away
    /// meanwhile.
    fn turn(
        self: &Arc<Self>,
        messages: &mut Vec<Message>,
        generation: u64,
        shared: &Arc<RuntimeShared>,
    ) -> bool {
        let mut state = self.state.lock();
        let mut work = None;
        for message in messages.drain(..) {
            state.take(message, shared);
            if state.is_full() {
                self.flush(&mut state, shared);
            }
        }
        let until = shared.base.clock.monotonic().saturating_add(TURN);
        loop {
            let next = work.take().or_else(|| state.next(shared));
            let Some(next) = next else { break };
            let Some(next) = self.hand_out(next, shared) else {
                if shared.base.clock.monotonic() >= until {
                    break;
                }
                continue;
            };
            if state.is_full() {
                self.flush(&mut state, shared);
            }
            drop(state);
            let since = self.in_guest.enter(shared.base.now().monotonic_ms);
            let returned = next.run_inline();
            self.in_guest.leave(since);
            if self.driver.load(Ordering::Acquire) != generation {
                self.send(Message::Returned(Box::new(returned)));
                return false;
            }
            state = self.state.lock();
            work = state.returned(returned, shared);
            let is_over = || state.is_full() || shared.base.clock.monotonic() >= until;
            if work.is_none() && is_over() {
                // Messages are processed after each batch: cancellations, new runs and answers of
                // the store do not wait for all executions that are ready.
                break;
            }
        }
        self.flush(&mut state, shared);
        true
    }

    /// Moves a call to a fiber, unless it may be made on this thread.
    fn hand_out(self: &Arc<Self>, work: Work, shared: &Arc<RuntimeShared>) -> Option<Work> {
        if work.is_inline() {
            return Some(work);
        }
        let shard = Arc::clone(self);
        shared.base.io.spawn(async move {
            let returned = work.run_on_fiber().await;
            shard.send(Message::Returned(Box::new(returned)));
        });
        None
    }

    fn flush(self: &Arc<Self>, state: &mut ShardState, shared: &Arc<RuntimeShared>) {
        let orders = state.take_orders();
        if let (false, Some(keeper)) = (orders.is_empty(), &shared.bursts.burst_locks) {
            keeper.carry_out(self, orders);
        }
        self.submit(state.take_out(), shared.base.store.as_ref());
    }

    fn put_back(&self, messages: &mut Vec<Message>) {
        if messages.is_empty() {
            return;
        }
        let mut inbox = self.inbox.lock();
        messages.append(&mut inbox);
        std::mem::swap(messages, &mut inbox);
        self.bell.notify_one();
    }
}
