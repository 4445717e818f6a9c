//! Warm instances of one plugin.
//!
//! A slot is a store with one instance in it, used by one call at a time. It is returned only after
//! a call that ended without a crash, a deadline or an error of the host: these leave a store that
//! must not be used again, so the slot is dropped.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::sync::OwnedSemaphorePermit;
use wasmtime::Store;

use crate::call::plugin::Exports;
use crate::grant::settings::Isolation;
use crate::hold::budget::Account;
use crate::offer::guest::Guest;

/// Idle slots per shard and plugin; and, under [`Isolation::Run`], per plugin in all.
const MAX_IDLE: usize = 64;
/// Shards per plugin. Threads are spread over them, so that a lock is seldom contended.
const SHARDS: usize = 8;

/// A store with one instance in it.
pub(crate) struct Slot {
    pub(crate) store: Store<Guest>,
    pub(crate) exports: Exports,
    /// Remaining calls until it is retired.
    pub(crate) calls_left: u32,
    /// The time at which it was returned last.
    pub(crate) idle_since: Duration,
    /// Counts it among the instances of the host.
    pub(crate) _permit: OwnedSemaphorePermit,
}

impl Slot {
    /// Its account in the memory budget.
    pub(crate) fn account(&mut self) -> &mut Account {
        &mut self.store.data_mut().limiter.account
    }
}

/// The idle slots of one plugin.
pub(crate) struct Slots {
    isolation: Isolation,
    shards: [Mutex<Vec<Slot>>; SHARDS],
    runs: Mutex<FxHashMap<i64, Vec<Slot>>>,
}

impl Slots {
    pub(crate) fn new(isolation: Isolation) -> Self {
        Self {
            isolation,
            shards: Default::default(),
            runs: Mutex::default(),
        }
    }

    pub(crate) fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Returns a slot that was taken and not used.
    pub(crate) fn put_back(&self, slot: Slot, key: i64) {
        let since = slot.idle_since;
        let calls_left = slot.calls_left.saturating_add(1);
        self.give_back(Slot { calls_left, ..slot }, key, since);
    }

    /// The idle time and the held memory of the slot that has been idle for the longest time.
    pub(crate) fn oldest(&self) -> Option<(Duration, u64)> {
        let about = |slot: &Slot| {
            let account = &slot.store.data().limiter.account;
            (slot.idle_since, account.held())
        };
        let shards = self.shards.iter();
        let shards = shards.filter_map(|shard| shard.lock().first().map(about));
        let runs = self.runs.lock();
        let runs = runs.values().filter_map(|slots| slots.first().map(about));
        shards.chain(runs).min()
    }

    /// Takes a slot that has been idle since then or longer.
    pub(crate) fn take_oldest(&self, since: Duration) -> Option<Slot> {
        let old = |slots: &mut Vec<Slot>| {
            let is_old = slots.first().is_some_and(|slot| slot.idle_since <= since);
            is_old.then(|| slots.remove(0))
        };
        let mut shards = self.shards.iter();
        let found = shards.find_map(|shard| old(&mut shard.lock()));
        found.or_else(|| {
            let mut runs = self.runs.lock();
            let found = runs.values_mut().find_map(old);
            runs.retain(|_, slots| !slots.is_empty());
            found
        })
    }

    /// The most recently returned slot that this call may use.
    pub(crate) fn take(&self, key: i64) -> Option<Slot> {
        match self.isolation {
            Isolation::Warm => self.shard().lock().pop(),
            Isolation::Run => {
                let mut runs = self.runs.lock();
                let slots = runs.get_mut(&key)?;
                let slot = slots.pop();
                if slots.is_empty() {
                    runs.remove(&key);
                }
                slot
            }
            Isolation::Call => None,
        }
    }

    /// Returns a slot after a successful call, unless it has to be retired.
    pub(crate) fn give_back(&self, mut slot: Slot, key: i64, now: Duration) {
        slot.calls_left = slot.calls_left.saturating_sub(1);
        if slot.calls_left == 0 {
            return;
        }
        slot.idle_since = now;
        match self.isolation {
            Isolation::Warm => {
                let mut shard = self.shard().lock();
                if shard.len() < MAX_IDLE {
                    shard.push(slot);
                }
            }
            Isolation::Run => {
                let mut runs = self.runs.lock();
                if runs.len() < MAX_IDLE || runs.contains_key(&key) {
                    runs.entry(key).or_default().push(slot);
                }
            }
            Isolation::Call => {}
        }
    }

    /// Drops the slots that have been idle since before this moment.
    pub(crate) fn reap(&self, before: Duration) {
        let mut dead = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            // The oldest are in front: slots are pushed and popped at the end.
            let old = shard
                .iter()
                .take_while(|slot| slot.idle_since < before)
                .count();
            dead.extend(shard.drain(..old));
        }
        self.runs.lock().retain(|_, slots| {
            dead.extend(slots.extract_if(.., |slot| slot.idle_since < before));
            !slots.is_empty()
        });
        // Unmapping is slow, so drop the slots without a lock.
        drop(dead);
    }

    /// The number of idle slots.
    pub(crate) fn idle(&self) -> usize {
        let shards: usize = self.shards.iter().map(|shard| shard.lock().len()).sum();
        shards + self.runs.lock().values().map(Vec::len).sum::<usize>()
    }

    fn shard(&self) -> &Mutex<Vec<Slot>> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static MINE: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        let [first, ..] = &self.shards;
        MINE.try_with(Cell::get)
            .ok()
            .and_then(|mine| self.shards.get(mine % SHARDS))
            .unwrap_or(first)
    }
}
