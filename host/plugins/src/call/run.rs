//! Calls a plugin: takes a warm instance or makes one, runs it inline or on a fiber, and reads the
//! result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use wasmtime::Store;
use windlass_model::{Class, Failure, LogLine, Outcome, Payload};

use super::shared::CallShared;
use super::{Accept, Call, Disposition, Queued, Returned};
use crate::call::classify;
use crate::call::plugin::{Exports, Plugin};
use crate::call::question::{Back, Decide, Execute, Question};
use crate::call::slot::Slot;
use crate::codes;
use crate::hold::budget::flow::Flow;
use crate::hold::budget::{Evict, Hold, SMALL};
use crate::hold::lane::{CallMode, Pace};
use crate::hold::places::{Fiber, Turn};
use crate::hold::quarantine::{Counts, Crash};
use crate::hold::{Stop, TICK};
use crate::offer::context::{CallContext, Cancel};
use crate::offer::effects::Effects;
use crate::offer::guest::{Guest, Ongoing};
use crate::offer::reader::Reader;
use crate::offer::terms::Terms;

/// Memory that the host needs for a guest's data besides payloads: names, texts, records.
const SLACK_BYTES: usize = 64 * 1024;

/// A call to be made.
#[derive(Clone)]
struct Order<Q> {
    question: Q,
    /// The index of the node type, for a call of a node.
    node: Option<usize>,
    cx: CallContext,
    given: Vec<windlass_model::BlobRef>,
    slot_key: i64,
    timeout: Duration,
    queued: Option<Arc<dyn Queued>>,
}

impl Plugin {
    /// Runs a node by a plain call, on this thread. Only allowed while [`Plugin::lane`] is
    /// [`CallMode::Inline`]; refused if the plugin has imports that may wait. The thread needs 2
    /// MiB of stack, and is blocked until the call ends.
    pub fn execute_inline(&self, call: Call) -> Returned<Outcome> {
        match self.execution(call) {
            Ok(order) => self.inline(order),
            Err(failure) => Returned::refused(failure),
        }
    }

    /// Runs a node on a fiber. Dropping the future ends the call.
    pub async fn execute(self: Arc<Self>, call: Call) -> Returned<Outcome> {
        match self.execution(call) {
            Ok(order) => self.on_task(order).await,
            Err(failure) => Returned::refused(failure),
        }
    }

    /// Decides about a trigger by a plain call; see [`Plugin::execute_inline`].
    pub fn accept_inline(&self, accept: Accept) -> Returned<Disposition> {
        match self.decision(accept) {
            Ok(order) => self.inline(order),
            Err(failure) => Returned::refused(failure),
        }
    }

    /// Decides about a trigger on a fiber. Dropping the future ends the call.
    pub async fn accept(self: Arc<Self>, accept: Accept) -> Returned<Disposition> {
        match self.decision(accept) {
            Ok(order) => self.on_task(order).await,
            Err(failure) => Returned::refused(failure),
        }
    }

    fn execution(&self, call: Call) -> Result<Order<Execute>, Failure> {
        let mut given = Vec::new();
        let config = self.payload(call.config, &mut given)?;
        let input = self.payload(call.input, &mut given)?;
        // The runtime returns the very id that it got from the description.
        let is_it = |id: &Arc<str>| Arc::ptr_eq(id, &call.node_type) || *id == call.node_type;
        let mut nodes = self.description.nodes.iter();
        Ok(Order {
            node: nodes.position(|node| is_it(&node.id)),
            question: Execute {
                node_type: call.node_type,
                config,
                input,
            },
            given,
            cx: call.cx,
            slot_key: call.slot_key,
            timeout: self.timeout(call.timeout),
            queued: call.queued,
        })
    }

    fn decision(&self, accept: Accept) -> Result<Order<Decide>, Failure> {
        let mut given = Vec::new();
        let payload = match accept.payload {
            Some(payload) => Some(self.payload(payload, &mut given)?),
            None => None,
        };
        let kind = accept.kind.name();
        Ok(Order {
            question: Decide {
                kind,
                node: accept.node,
                payload,
            },
            node: None,
            given,
            cx: accept.cx,
            slot_key: accept.slot_key,
            timeout: self.timeout(accept.timeout),
            queued: None,
        })
    }

    fn payload(
        &self,
        payload: Payload,
        given: &mut Vec<windlass_model::BlobRef>,
    ) -> Result<Payload, Failure> {
        let max = self.terms.limits.payload_bytes;
        match &payload.body {
            windlass_model::Body::Inline(bytes) if bytes.len() > max => {
                let message = format!("{} bytes go to the node, and {max} may", bytes.len());
                return Err(Failure::new(Class::Limit, codes::INPUT_SIZE, message));
            }
            windlass_model::Body::Inline(_) => {}
            windlass_model::Body::Blob(blob) => given.push(*blob),
        }
        Ok(payload)
    }

    fn timeout(&self, wanted: Option<Duration>) -> Duration {
        let limit = self.terms.limits.deadline;
        wanted.map_or(limit, |wanted| wanted.min(limit))
    }

    /// Refuses a call that is in quarantine.
    fn quarantined<T>(&self, cx: &CallContext) -> Option<Returned<T>> {
        let left = self.quarantined_for(&cx.workflow)?;
        let message = format!(
            "{} crashed too often in a row under the workflow `{}`; its calls there are delayed",
            self.name(),
            cx.workflow
        );
        let failure = Failure::new(Class::Retryable, codes::QUARANTINED, message);
        Some(Returned::put_off(failure, left))
    }

    fn inline<Q: Question>(&self, order: Order<Q>) -> Returned<Q::Output> {
        if self.waits {
            return Returned::refused(wrong("it may wait, and cannot be called inline"));
        }
        if let Some(put_off) = self.quarantined(&order.cx) {
            return put_off;
        }
        // A slot is lost by a panic: it is dropped during the unwinding, like after any crash.
        let called = std::panic::catch_unwind(AssertUnwindSafe(|| self.inline_in::<Q>(order)));
        let returned = called.unwrap_or_else(|_| Returned::refused(host_failed()));
        // A plain call cannot wait for room. It is repeated, on a fiber while there is none.
        match returned.result {
            Err(failure) if is_crowded(&failure) => {
                self.found_no_room.store(true, Ordering::Relaxed);
                Returned::put_off(failure, SOON)
            }
            _ => returned,
        }
    }

    fn inline_in<Q: Question>(&self, order: Order<Q>) -> Returned<Q::Output> {
        let (key, node) = (order.slot_key, order.node);
        let flow = self.flows.of(&order.cx.flow);
        let needs = needs(&flow, &order);
        let mut slot = match self.slots.take(key) {
            Some(mut slot) => {
                if !slot.account().prepare(&flow, needs) {
                    self.slots.put_back(slot, key);
                    return Returned::refused(no_memory());
                }
                slot
            }
            None => {
                let Some(permit) = self.permit_now() else {
                    return Returned::refused(crowded());
                };
                let budget = &self.shared.bounds.budget;
                let Some(hold) = budget.reserve_now(&flow, needs, self.evict()) else {
                    return Returned::refused(no_memory());
                };
                match self.make_inline(permit, hold, &order) {
                    Ok(slot) => slot,
                    Err(unmade) => return unmade.returned(),
                }
            }
        };
        let question = match self.begin(&mut slot.store, order, CallMode::Inline, None) {
            Ok(question) => question,
            Err(failure) => return Returned::refused(failure),
        };
        let result = match Q::export(&slot.exports) {
            Some(function) => function.call(&mut slot.store, question),
            None => return Returned::refused(wrong("it does not do that")),
        };
        self.end::<Q>(slot, key, node, result)
    }

    fn evict(&self) -> &dyn Evict {
        &*self.shared
    }

    fn make_inline<Q: Question>(
        &self,
        permit: OwnedSemaphorePermit,
        hold: Hold,
        order: &Order<Q>,
    ) -> Result<Slot, Unmade> {
        let mut store = store(&self.shared, &self.terms, hold);
        self.attend(
            &mut store,
            order.cx.clone(),
            order.timeout,
            CallMode::Inline,
            None,
        );
        let made = self.pre.instantiate(&mut store);
        let made = made.and_then(|instance| Exports::of(&self.entries, &instance, &mut store));
        self.made(store, made, permit)
    }

    async fn on_task<Q: Question>(self: Arc<Self>, order: Order<Q>) -> Returned<Q::Output> {
        if let Some(put_off) = self.quarantined(&order.cx) {
            return put_off;
        }
        let io = self.shared.io.clone();
        let mut task = EndWithMe(io.spawn(self.on_fibers::<Q>(order)));
        (&mut task.0)
            .await
            .unwrap_or_else(|_| Returned::refused(host_failed()))
    }

    /// A call that finds no room while it grows is repeated with a larger reservation, and then
    /// with the largest that it may have; a failed call leaves nothing behind. If that does not
    /// suffice, the call fails.
    async fn on_fibers<Q: Question>(self: Arc<Self>, order: Order<Q>) -> Returned<Q::Output> {
        let most = self.terms.limits.most_memory();
        let flow = self.flows.of(&order.cx.flow);
        let mut needs = needs(&flow, &order);
        let mut returned = Arc::clone(&self)
            .on_fiber::<Q>(order.clone(), &flow, needs)
            .await;
        for all in [false, true] {
            if !matches!(&returned.result, Err(failure) if failure.code == codes::BUDGET) {
                break;
            }
            // By now the calls that grew at the same time have shown their needs.
            let more = flow.expected().max(needs.saturating_mul(2));
            needs = if all {
                most
            } else {
                more.saturating_mul(2).min(most)
            };
            // Return the held memory before waiting for more.
            drop(returned);
            if let Some(queued) = &order.queued {
                queued.waits();
            }
            returned = Arc::clone(&self)
                .on_fiber::<Q>(order.clone(), &flow, needs)
                .await;
        }
        returned
    }

    async fn on_fiber<Q: Question>(
        self: Arc<Self>,
        order: Order<Q>,
        flow: &Arc<Flow>,
        needs: u64,
    ) -> Returned<Q::Output> {
        let cancel = order.cx.cancel.clone();
        let entry = tokio::select! {
            entry = self.enter(&order.cx, order.slot_key, (flow, needs)) => entry,
            () = cancel.cancelled() => {
                return Returned::refused(classify::stopped(Stop::Cancelled));
            }
        };
        // The semaphores are never closed, so there always is an entry.
        let Some(entry) = entry else {
            return Returned::refused(crowded());
        };
        let _fiber = entry.fiber;
        let mut turn = entry.turn;
        let slot = match entry.room {
            Room::Slot(slot) => Ok(slot),
            Room::New(permit, hold) => {
                let turn = turn.take();
                self.make_on_fiber((permit, hold), &order, turn).await
            }
        };
        let mut slot = match slot {
            Ok(slot) => slot,
            Err(unmade) => return unmade.returned(),
        };
        let (key, node, timeout) = (order.slot_key, order.node, order.timeout);
        let question = match self.begin(&mut slot.store, order, CallMode::Fiber, turn) {
            Ok(question) => question,
            Err(failure) => return Returned::refused(failure),
        };
        let Some(function) = Q::export(&slot.exports) else {
            return Returned::refused(wrong("it does not do that"));
        };
        let call = function.call_async(&mut slot.store, question);
        let result = until(timeout, &cancel, call).await;
        self.end::<Q>(slot, key, node, result)
    }

    /// Waits until there is room for one more call.
    async fn enter(
        &self,
        cx: &CallContext,
        slot_key: i64,
        needs: (&Arc<Flow>, u64),
    ) -> Option<Entry> {
        let plugin = self.terms.track.id;
        let fiber = self.shared.bounds.fibers.get(cx.for_fiber(plugin)).await;
        let room = self.room(slot_key, needs).await?;
        if self.found_no_room.load(Ordering::Relaxed) {
            self.found_no_room.store(false, Ordering::Relaxed);
        }
        // The turn comes last, so that a call with a turn can run. A call that waited for room with
        // a turn would wait for calls that have room and wait for a turn.
        let turn = match self.terms.track.takes_turns() {
            true => Some(self.shared.bounds.turns.get(cx.for_turn(plugin)).await),
            false => None,
        };
        Some(Entry { fiber, turn, room })
    }

    /// An instance, or room for one, with the memory that the call needs. Holds nothing of the
    /// budget while it waits.
    async fn room(&self, slot_key: i64, (flow, needs): (&Arc<Flow>, u64)) -> Option<Room> {
        if let Some(mut slot) = self.slots.take(slot_key) {
            if slot.account().prepare(flow, needs) {
                return Some(Room::Slot(slot));
            }
            self.slots.put_back(slot, slot_key);
        }
        let permit = self.permit().await?;
        let budget = &self.shared.bounds.budget;
        let hold = budget.reserve(flow, needs, self.evict()).await;
        Some(match self.slots.take(slot_key) {
            Some(mut slot) => {
                slot.account().join(hold, needs);
                Room::Slot(slot)
            }
            None => Room::New(permit, hold),
        })
    }

    async fn make_on_fiber<Q: Question>(
        &self,
        (permit, hold): (OwnedSemaphorePermit, Hold),
        order: &Order<Q>,
        turn: Option<Turn>,
    ) -> Result<Slot, Unmade> {
        let mut store = store(&self.shared, &self.terms, hold);
        self.attend(
            &mut store,
            order.cx.clone(),
            order.timeout,
            CallMode::Fiber,
            turn,
        );
        let made = self.pre.instantiate_async(&mut store);
        let made = until(order.timeout, &order.cx.cancel, made).await;
        let made = made.and_then(|instance| Exports::of(&self.entries, &instance, &mut store));
        self.made(store, made, permit)
    }

    /// Room for one more instance; drops idle instances if necessary.
    fn permit_now(&self) -> Option<OwnedSemaphorePermit> {
        let instances = || {
            Arc::clone(&self.shared.bounds.instances)
                .try_acquire_owned()
                .ok()
        };
        instances().or_else(|| {
            self.shared.drop_idle(Duration::MAX);
            instances()
        })
    }

    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        if let Some(permit) = self.permit_now() {
            return Some(permit);
        }
        let _waiting = Waiting::new(&self.shared.bounds.waiting_for_instances);
        // A call that returns an instance from here on sees the waiting call. An instance that was
        // returned before is idle, and is dropped now.
        self.shared.drop_idle(Duration::MAX);
        Arc::clone(&self.shared.bounds.instances)
            .acquire_owned()
            .await
            .ok()
    }

    /// Code that runs during the instantiation is part of the call. The turn is stored where the
    /// next tick of the call returns it: held elsewhere, the call would wait for itself.
    fn attend(
        &self,
        store: &mut Store<Guest>,
        cx: CallContext,
        timeout: Duration,
        lane: CallMode,
        turn: Option<Turn>,
    ) {
        let started = self.shared.clock.monotonic();
        let mut call = Ongoing::new(cx, lane, started, timeout);
        call.pace = turn.map(|turn| Pace::with_turn(&self.terms.track, turn));
        store.data_mut().call = Some(Box::new(call));
        store.set_epoch_deadline(1);
    }

    fn made(
        &self,
        mut store: Store<Guest>,
        made: wasmtime::Result<Exports>,
        permit: OwnedSemaphorePermit,
    ) -> Result<Slot, Unmade> {
        let exports = made.map_err(|error| {
            let full = error
                .downcast_ref::<wasmtime::PoolConcurrencyLimitError>()
                .is_some();
            let guest = store.data_mut();
            let (logs, stderr) = guest.end_log();
            let failure = match full {
                true => crowded(),
                false => {
                    let refused = guest.limiter.take_refused();
                    classify::failure(
                        &error,
                        refused,
                        (&logs, &stderr),
                        &self.shared.offer.secrets,
                    )
                }
            };
            let now = self.shared.clock.monotonic();
            let began = guest.call.as_ref().map_or(now, |call| call.started);
            guest.limiter.account.look(now.saturating_sub(began));
            if let Some(call) = &guest.call {
                self.note_failure(&failure, classify::crash(&error), &call.cx.workflow);
            }
            Unmade { failure, logs }
        })?;
        let calls = self.shared.slot_calls.max(1);
        let calls_left = rand::random_range(calls - calls / 4..=calls + calls / 4);
        Ok(Slot {
            store,
            exports,
            calls_left,
            idle_since: Duration::ZERO,
            _permit: permit,
        })
    }

    fn begin<Q: Question>(
        &self,
        store: &mut Store<Guest>,
        order: Order<Q>,
        lane: CallMode,
        turn: Option<Turn>,
    ) -> Result<Q, Failure> {
        if store.data().call.is_none() {
            self.attend(store, order.cx, order.timeout, lane, turn);
        }
        let input = order.question.bytes();
        let guest = store.data_mut();
        if let Some(call) = &mut guest.call {
            call.blobs.given = order.given;
            if input > SMALL {
                let input = input as u64;
                if !guest.limiter.account.charge(input) {
                    return Err(no_memory());
                }
                call.charged = input;
            }
        }
        if let Some(queued) = order.queued {
            queued.begins();
        }
        Ok(order.question)
    }

    fn end<Q: Question>(
        &self,
        mut slot: Slot,
        key: i64,
        node: Option<usize>,
        result: wasmtime::Result<Back<Q>>,
    ) -> Returned<Q::Output> {
        let now = self.shared.clock.monotonic();
        let guest = slot.store.data_mut();
        let refused = guest.limiter.take_refused();
        let memory_bytes = guest.limiter.memory() as u64;
        let (logs, stderr) = guest.end_log();
        let Some(mut call) = guest.call.take() else {
            return Returned::refused(host_failed());
        };
        let secrets = &self.shared.offer.secrets;
        call.events.effects.clean(secrets);
        let account = &mut guest.limiter.account;
        account.discharge(call.charged + call.bodies);
        let node = node.and_then(|node| self.description.nodes.get(node));
        let reader = Reader {
            limits: &self.terms.limits,
            blobs: &call.blobs,
            ports: node.map(|node| node.ports.as_slice()),
            secrets,
        };
        let (result, crash) = match result {
            Ok(Ok(answer)) => {
                let mut read = Q::read(answer, &reader);
                if !secrets.is_empty() {
                    match &mut read {
                        Ok(output) => Q::clean(output, secrets),
                        Err(failure) => failure.message = secrets.redact(&failure.message),
                    }
                }
                (read, None)
            }
            Ok(Err(error)) => (Err(Q::failure(error, &reader)), None),
            Err(error) => {
                let failure = classify::failure(&error, refused, (&logs, &stderr), secrets);
                (Err(failure), Some(classify::crash(&error)))
            }
        };
        let finished = call.blobs.finished.iter().map(|(_, bytes)| bytes.len());
        let output = result.as_ref().map_or(0, |output| {
            Q::answer_bytes(output) + finished.sum::<usize>()
        });
        let hold = account.split(output);
        let took = now.saturating_sub(call.started);
        let denied = account.look(took);
        // The result does not count if memory was refused: a moment later the call may get it.
        let result = if denied { Err(no_memory()) } else { result };
        if crash.is_none() {
            if !denied {
                self.quarantine.well(&call.cx.workflow);
            }
            if call.lane == CallMode::Fiber && !call.pace.as_ref().is_some_and(Pace::is_slow) {
                self.terms.track.quick();
            }
            if account.rest() {
                self.slots.give_back(slot, key, now);
            } else {
                drop(slot);
            }
            if self
                .shared
                .bounds
                .waiting_for_instances
                .load(Ordering::SeqCst)
                > 0
            {
                self.shared.drop_idle(Duration::MAX);
            }
            if self.shared.bounds.budget.is_short() {
                self.shared.bounds.budget.make_room(self.evict());
            }
        } else {
            // The store is poisoned: drop it with all its content.
            drop(slot);
            if let (Err(failure), Some(crash)) = (&result, crash) {
                self.note_failure(failure, crash, &call.cx.workflow);
            }
        }
        let (blobs, effects) = match &result {
            Ok(_) => (call.blobs.finished, call.events.effects),
            Err(_) => (Vec::new(), Effects::default()),
        };
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.calls.record(took_us);
        Returned {
            result,
            logs,
            blobs,
            effects,
            progress: call.progress.take(),
            took,
            memory_bytes,
            put_off: None,
            hold,
        }
    }

    fn note_failure(&self, failure: &Failure, crash: Crash, workflow: &Arc<str>) {
        if failure.class != Class::Trap {
            return;
        }
        let now = self.shared.clock.monotonic();
        if let Some(begun) = self.quarantine.crashed(workflow, crash, now) {
            let Counts {
                aborts,
                faults,
                stacks,
            } = begun.crashes;
            tracing::warn!(
                code = %codes::QUARANTINED,
                plugin = self.name(),
                workflow = &**workflow,
                digest = %self.digest,
                file = %self.file.display(),
                delay_ms = u64::try_from(begun.length.as_millis()).unwrap_or(u64::MAX),
                aborts,
                faults,
                stacks,
                "the plugin crashed too often in a row under this workflow; its calls there are delayed"
            );
        }
    }
}

/// The memory to reserve for a call: as much as recent calls of its flow have used.
fn needs<Q: Question>(flow: &Flow, order: &Order<Q>) -> u64 {
    let input = order.question.bytes() as u64;
    flow.expected().max(input)
}

/// An instance that was not made, and the lines that its guest logged meanwhile.
struct Unmade {
    failure: Failure,
    logs: Vec<LogLine>,
}

impl Unmade {
    fn returned<T>(self) -> Returned<T> {
        Returned {
            logs: self.logs,
            ..Returned::refused(self.failure)
        }
    }
}

/// All that a call on a fiber holds.
struct Entry {
    fiber: Fiber,
    turn: Option<Turn>,
    room: Room,
}

enum Room {
    Slot(Slot),
    New(OwnedSemaphorePermit, Hold),
}

/// Counts a waiting call, while it waits.
struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Ends a task when its caller is gone.
struct EndWithMe<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for EndWithMe<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A store with all bounds of a guest.
pub(crate) fn store(shared: &Arc<CallShared>, terms: &Arc<Terms>, hold: Hold) -> Store<Guest> {
    let guest = Guest::new(
        Arc::clone(&shared.offer),
        Arc::clone(&shared.bounds),
        Arc::clone(terms),
        (hold, Arc::<CallShared>::clone(shared)),
    );
    let mut store = Store::new(&shared.engine, guest);
    store.limiter(|guest| &mut guest.limiter);
    store.set_hostcall_fuel(terms.limits.payload_bytes.saturating_add(SLACK_BYTES));
    store.set_max_component_handles(terms.limits.handles);
    store.epoch_deadline_callback(Guest::tick);
    store.set_epoch_deadline(1);
    store
}

/// Ends work that waits for the host. A computing guest is ended by its ticks, a little earlier,
/// with a more precise error.
async fn until<T>(
    timeout: Duration,
    cancel: &Cancel,
    work: impl Future<Output = wasmtime::Result<T>>,
) -> wasmtime::Result<T> {
    let work = async {
        tokio::select! {
            biased;
            result = work => result,
            () = cancel.cancelled() => Err(Stop::Cancelled.into()),
        }
    };
    match tokio::time::timeout(timeout.saturating_add(TICK * 2), work).await {
        Ok(result) => result,
        Err(_) => Err(Stop::Deadline.into()),
    }
}

fn crowded() -> Failure {
    let mut failure = Failure::new(
        Class::Retryable,
        codes::INSTANTIATE,
        "there is no room for an instance",
    );
    failure.retry_after_ms = Some(50);
    failure
}

/// The delay after which a plain call is repeated that found no room.
const SOON: Duration = Duration::from_millis(20);

/// Whether the host had no room for a call, so that the guest was not asked.
pub fn is_crowded(failure: &Failure) -> bool {
    failure.code == codes::INSTANTIATE || failure.code == codes::BUDGET
}

fn no_memory() -> Failure {
    classify::stopped(Stop::NoMemory)
}

fn host_failed() -> Failure {
    let message = "the host failed while it served the guest";
    Failure::new(Class::Permanent, codes::HOST, message)
}

fn wrong(message: &str) -> Failure {
    Failure::new(Class::Permanent, codes::WRONG_KIND, message)
}
