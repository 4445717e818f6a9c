//! The memory of all guests in this process.
//!
//! These count: the linear memories of instances, idle ones included, with [`INSTANCE_BYTES`] for
//! the rest of an instance; bodies of HTTP requests in progress; blobs being written; and inputs
//! and outputs of more than [`SMALL`] bytes. [`core`] decides about reservations; this module adds
//! the threads, and [`Account`], in which an instance counts for itself: a call that stays within
//! the memory of its instance needs no decision. [`flow`] has what the workflows share.

pub(crate) mod core;
pub(crate) mod flow;
mod machine;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;
use windlass_model::metrics::Metrics;

use self::core::{Core, PluginNo, Reservation, Ticket};
use self::flow::Flow;

pub use machine::machine_memory;

/// The size of an instance besides its linear memories: its stack, tables and records.
pub(crate) const INSTANCE_BYTES: u64 = 64 * 1024;
/// Inputs and outputs up to this size count with the instance.
pub(crate) const SMALL: usize = 16 * 1024;
/// The least growth that an instance requests at once.
const GRAIN: u64 = 256 * 1024;
/// Calls that are shorter than this do not count as use of memory.
const BRIEF: Duration = Duration::from_millis(10);

/// The budget of one host.
pub(crate) struct Budget {
    state: Mutex<BudgetState>,
    /// A call waits.
    short: AtomicBool,
    most: u64,
    metrics: Arc<Metrics>,
}

struct BudgetState {
    core: Core,
    waiting: FxHashMap<Ticket, oneshot::Sender<()>>,
}

/// Frees memory by dropping idle instances: of one plugin, or of any.
pub(crate) trait Evict: Send + Sync {
    /// Drops idle instances until so much is free. False: there is no idle instance.
    fn evict(&self, of: Option<PluginNo>, bytes: u64) -> bool;
}

impl Budget {
    /// `most_of_one` is the most that a single call can use.
    pub(crate) fn new(total: u64, most_of_one: u64, metrics: Arc<Metrics>) -> Arc<Self> {
        let core = Core::new(total, most_of_one);
        metrics.plugin_memory.set_limit(total);
        Arc::new(Self {
            most: core.most(),
            state: Mutex::new(BudgetState {
                core,
                waiting: FxHashMap::default(),
            }),
            short: AtomicBool::new(false),
            metrics,
        })
    }

    /// Whether a call waits.
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// Whether a call waits for memory that this plugin holds.
    pub(crate) fn is_wanted(&self, no: PluginNo) -> bool {
        self.is_short() && self.state.lock().core.is_wanted(no)
    }

    /// Waits until so many bytes are reserved for a call; at most [`Budget::most`].
    pub(crate) async fn reserve(
        self: &Arc<Self>,
        flow: &Arc<Flow>,
        bytes: u64,
        evict: &dyn Evict,
    ) -> Hold {
        let bytes = bytes.min(self.most);
        let (ticket, granted) = {
            let mut state = self.state.lock();
            match state.core.ask(flow, bytes) {
                Reservation::Granted => {
                    let granted = state.core.pump();
                    self.tell(&mut state, granted);
                    return self.hold(flow, bytes);
                }
                Reservation::Waits(ticket) => {
                    let (sender, granted) = oneshot::channel();
                    state.waiting.insert(ticket, sender);
                    self.note(&state);
                    (ticket, granted)
                }
            }
        };
        let mut place = QueueEntry {
            budget: Arc::clone(self),
            flow: Arc::clone(flow),
            ticket,
            bytes,
            waits: true,
        };
        self.make_room(evict);
        // The sender lives until it has sent, so an error cannot occur.
        let _ = granted.await;
        place.waits = false;
        self.hold(flow, bytes)
    }

    /// Reserves so many bytes for a call without waiting, unless a waiting call has precedence.
    pub(crate) fn reserve_now(
        self: &Arc<Self>,
        flow: &Arc<Flow>,
        bytes: u64,
        evict: &dyn Evict,
    ) -> Option<Hold> {
        let bytes = bytes.min(self.most);
        self.take(flow, 0, bytes, evict, Core::ask_now)
            .then(|| self.hold(flow, bytes))
    }

    /// Lets calls in that have room now, and drops idle instances as long as this lets the next call
    /// in.
    pub(crate) fn make_room(&self, evict: &dyn Evict) {
        let own = {
            let mut state = self.state.lock();
            let granted = state.core.pump();
            self.tell(&mut state, granted);
            state.core.own_lacks()
        };
        for (no, bytes) in own {
            evict.evict(Some(no), bytes);
        }
        let next = || self.state.lock().core.head_shortfall();
        while let Some(bytes) = next() {
            if !evict.evict(None, bytes) {
                return;
            }
        }
    }

    /// Takes so many bytes more by a rule, and drops idle instances if necessary.
    fn take(
        &self,
        flow: &Arc<Flow>,
        own: u64,
        bytes: u64,
        evict: &dyn Evict,
        rule: fn(&mut Core, &Arc<Flow>, u64, u64) -> bool,
    ) -> bool {
        loop {
            let lack = {
                let mut state = self.state.lock();
                if rule(&mut state.core, flow, own, bytes) {
                    let granted = state.core.pump();
                    self.tell(&mut state, granted);
                    return true;
                }
                state.core.lack(flow, own, bytes)
            };
            let dropped = match lack.plugin.max(lack.flow) {
                0 => lack.any > 0 && evict.evict(None, lack.any),
                own => evict.evict(Some(flow.no), own),
            };
            if !dropped {
                return false;
            }
        }
    }

    fn borrow(&self, holder: u64, bytes: u64) -> bool {
        let mut state = self.state.lock();
        let borrowed = state.core.borrow(holder, bytes);
        self.note(&state);
        borrowed
    }

    fn repay(&self, holder: u64) {
        let mut state = self.state.lock();
        state.core.repay(holder);
        self.note(&state);
    }

    fn give_back(&self, no: PluginNo, bytes: u64) {
        if bytes > 0 {
            let mut state = self.state.lock();
            let granted = state.core.give_back(no, bytes);
            self.tell(&mut state, granted);
        }
    }

    fn cancel(&self, place: &QueueEntry) {
        let mut state = self.state.lock();
        state.waiting.remove(&place.ticket);
        let (waited, granted) = state.core.cancel(&place.flow, place.ticket);
        self.tell(&mut state, granted);
        if !waited {
            // It was granted, but the caller is gone.
            place.flow.less(place.bytes);
            let granted = state.core.give_back(place.flow.no, place.bytes);
            self.tell(&mut state, granted);
        }
    }

    fn tell(&self, state: &mut BudgetState, granted: Vec<Ticket>) {
        for ticket in granted {
            if let Some(sender) = state.waiting.remove(&ticket) {
                // A caller that is gone returns the grant when its queue entry is dropped.
                let _ = sender.send(());
            }
        }
        self.note(state);
    }

    fn note(&self, state: &BudgetState) {
        let waiting = state.waiting.len();
        self.short.store(waiting > 0, Ordering::Relaxed);
        self.metrics.plugin_memory.set(state.core.held());
        self.metrics.plugin_memory_waiting.set(waiting as u64);
    }

    /// Memory that was granted to a call.
    fn hold(self: &Arc<Self>, flow: &Arc<Flow>, bytes: u64) -> Hold {
        Hold {
            budget: Arc::clone(self),
            no: flow.no,
            flow: Some(Arc::clone(flow)),
            bytes,
        }
    }

    /// Counts what a call of a flow has used.
    fn charge(&self, flow: &Flow, bytes: u64, took: Duration) {
        if took >= BRIEF {
            let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            let used = (bytes / 1024).saturating_mul(ms);
            self.state.lock().core.charge(flow, used);
        }
    }
}

/// A place in the queue, until it is granted or its caller is gone.
struct QueueEntry {
    budget: Arc<Budget>,
    flow: Arc<Flow>,
    ticket: Ticket,
    bytes: u64,
    waits: bool,
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        if self.waits {
            self.budget.cancel(self);
        }
    }
}

/// Memory that counts as used. Dropping it returns the memory.
pub struct Hold {
    budget: Arc<Budget>,
    no: PluginNo,
    /// The flow of the call in progress that holds it.
    flow: Option<Arc<Flow>>,
    bytes: u64,
}

impl Hold {
    /// The memory, and the flow that still counts it.
    fn into_parts(mut self) -> (u64, Option<Arc<Flow>>) {
        (std::mem::take(&mut self.bytes), self.flow.take())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(flow) = &self.flow {
            flow.less(self.bytes);
        }
        self.budget.give_back(self.no, self.bytes);
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Hold").field(&self.bytes).finish()
    }
}

/// The memory that one instance holds and uses. Dropping it returns all of it.
pub(crate) struct Account {
    budget: Arc<Budget>,
    evict: Arc<dyn Evict>,
    no: PluginNo,
    /// The flow of the call in progress, which counts the held memory. None: the instance is idle.
    flow: Option<Arc<Flow>>,
    /// Identifies a holder that draws on the reserve.
    id: u64,
    held: u64,
    borrowed: u64,
    used: u64,
    /// The used memory when the last call began.
    used_before: u64,
    /// The most that was used, or requested, since the last [`Account::look`].
    high: u64,
    /// A request was refused since the last [`Account::look`].
    denied: bool,
}

impl Account {
    pub(crate) fn new(hold: Hold, evict: Arc<dyn Evict>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (budget, no) = (Arc::clone(&hold.budget), hold.no);
        let (held, flow) = hold.into_parts();
        let mut account = Self {
            budget,
            evict,
            no,
            flow,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            held,
            borrowed: 0,
            used: 0,
            used_before: 0,
            high: 0,
            denied: false,
        };
        // A failure here appears as a refusal when the instance allocates its memory.
        account.charge(INSTANCE_BYTES);
        account
    }

    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Counts memory before it is allocated. False: there is no room for it.
    pub(crate) fn charge(&mut self, bytes: u64) -> bool {
        let used = self.used.saturating_add(bytes);
        self.high = self.high.max(used);
        let lack = used.saturating_sub(self.held + self.borrowed);
        if lack > 0 && !self.grow(lack) {
            self.denied = true;
            self.budget.metrics.plugin_memory_refused.add(1);
            return false;
        }
        self.used = used;
        true
    }

    /// Counts memory as freed.
    pub(crate) fn discharge(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
    }

    fn grow(&mut self, lack: u64) -> bool {
        if self.take(lack.max(GRAIN), Core::grow) || self.take(lack, Core::grow) {
            return true;
        }
        let borrowed = self.budget.borrow(self.id, lack);
        self.borrowed += if borrowed { lack } else { 0 };
        borrowed
    }

    /// Makes the account hold so many bytes before a call of a flow begins, unless a waiting call
    /// has precedence.
    pub(crate) fn prepare(&mut self, flow: &Arc<Flow>, bytes: u64) -> bool {
        self.begin(flow);
        let lack = bytes.min(self.budget.most).saturating_sub(self.held);
        let prepared = lack == 0 || self.take(lack, Core::ask_now);
        if !prepared {
            self.idle();
        }
        prepared
    }

    fn take(&mut self, bytes: u64, rule: fn(&mut Core, &Arc<Flow>, u64, u64) -> bool) -> bool {
        let Some(flow) = &self.flow else {
            return false;
        };
        let taken = self.budget.take(flow, self.held, bytes, &*self.evict, rule);
        self.held += if taken { bytes } else { 0 };
        taken
    }

    /// Takes over the reservation of the call that begins, as far as it is needed.
    pub(crate) fn join(&mut self, hold: Hold, bytes: u64) {
        let (held, flow) = hold.into_parts();
        if let Some(flow) = flow {
            self.begin(&flow);
        }
        self.held += held;
        self.keep(bytes);
    }

    /// From now on, the flow counts the held memory.
    fn begin(&mut self, flow: &Arc<Flow>) {
        self.idle();
        flow.more(self.held);
        self.flow = Some(Arc::clone(flow));
        self.used_before = self.used;
    }

    /// No flow counts the held memory any more.
    fn idle(&mut self) {
        if let Some(flow) = self.flow.take() {
            flow.less(self.held);
        }
    }

    /// Splits off the memory of an output that outlives the call. None: it counts with the
    /// instance, or there is no room for it, which [`Account::look`] reports.
    pub(crate) fn split(&mut self, bytes: usize) -> Option<Hold> {
        if bytes <= SMALL || !self.charge(bytes as u64) {
            return None;
        }
        self.discharge(bytes as u64);
        // Borrowed memory stays with the account.
        let bytes = (bytes as u64).min(self.held);
        self.held -= bytes;
        if let Some(flow) = &self.flow {
            flow.less(bytes);
        }
        Some(Hold {
            budget: Arc::clone(&self.budget),
            no: self.no,
            flow: None,
            bytes,
        })
    }

    /// Counts the memory and the time of a call that has ended. Returns whether it was refused memory.
    pub(crate) fn look(&mut self, took: Duration) -> bool {
        let high = std::mem::replace(&mut self.high, self.used);
        if let Some(flow) = &self.flow {
            flow.note(high, high > self.used_before);
            self.budget.charge(flow, self.held, took);
        }
        std::mem::take(&mut self.denied)
    }

    /// Prepares the account of an instance that stays after a call. False: the instance cannot
    /// stay, because a call waits for its memory, or because it uses the reserve.
    pub(crate) fn rest(&mut self) -> bool {
        if self.borrowed > 0 {
            let lack = self.used.saturating_sub(self.held);
            if lack > 0 && !self.take(lack, Core::grow) {
                return false;
            }
            self.repay();
        }
        self.idle();
        !self.budget.is_wanted(self.no)
    }

    /// Returns the memory beyond `bytes` and beyond the used memory.
    fn keep(&mut self, bytes: u64) {
        let surplus = self.held.saturating_sub(bytes.max(self.used));
        self.held -= surplus;
        if let Some(flow) = &self.flow {
            flow.less(surplus);
        }
        self.budget.give_back(self.no, surplus);
    }

    fn repay(&mut self) {
        if std::mem::take(&mut self.borrowed) > 0 {
            self.budget.repay(self.id);
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.repay();
        self.idle();
        self.budget.give_back(self.no, self.held);
    }
}

#[cfg(test)]
pub(crate) mod tests;
