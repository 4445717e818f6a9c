//! The prepared definitions in memory, bounded by their weight.
//!
//! The one that was used longest ago is dropped first. A definition that runs in memory use is not
//! dropped, because that would free nothing, and the next run would prepare it a second time: it
//! stays beyond the bound. The bytes beyond the bound count among the states of runs, up to half of that
//! budget. From there on no further run with a large definition comes into memory, and the other half
//! stays for runs with small ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use windlass_model::Digest;
use windlass_model::metrics::Metrics;

use super::Prepared;

/// The definition and its pins.
type Key = (Digest, Digest);

/// The prepared definitions, and the order of their use.
pub(super) struct Kept {
    known: FxHashMap<Key, Entry>,
    /// By definition, the pins with which it was prepared last for a new run.
    latest: FxHashMap<Digest, Digest>,
    /// By the time of the last use, counted in uses.
    order: BTreeMap<u64, Key>,
    uses: u64,
    bytes: u64,
    most: u64,
    /// The bytes beyond the bound.
    excess: u64,
    /// How many of them the states of runs count.
    counted: u64,
    metrics: Option<Arc<Metrics>>,
}

struct Entry {
    prepared: Arc<Prepared>,
    used: u64,
}

impl Entry {
    /// Whether runs in memory use the definition.
    fn is_used(&self) -> bool {
        Arc::strong_count(&self.prepared) > 1
    }
}

impl Kept {
    /// None yet; at most so many bytes, except for those in use.
    pub(super) fn new(most: u64, metrics: Option<Arc<Metrics>>) -> Self {
        if let Some(metrics) = &metrics {
            metrics.definitions.set_limit(most);
        }
        Self {
            known: FxHashMap::default(),
            latest: FxHashMap::default(),
            order: BTreeMap::new(),
            uses: 0,
            bytes: 0,
            most,
            excess: 0,
            counted: 0,
            metrics,
        }
    }

    /// The bytes beyond the bound, all of which runs in memory used at the last look.
    pub(super) fn excess(&self) -> u64 {
        self.excess
    }

    /// A definition, which is used now.
    pub(super) fn known(&mut self, key: Key) -> Option<Arc<Prepared>> {
        let entry = self.known.get_mut(&key)?;
        self.order.remove(&entry.used);
        self.uses += 1;
        entry.used = self.uses;
        self.order.insert(self.uses, key);
        Some(Arc::clone(&entry.prepared))
    }

    /// The definition as it was prepared last for a new run.
    pub(super) fn latest(&mut self, definition: Digest) -> Option<Arc<Prepared>> {
        let pins = *self.latest.get(&definition)?;
        self.known((definition, pins))
    }

    /// Notes that the next runs of the definition are prepared like this one.
    pub(super) fn set_latest(&mut self, prepared: &Prepared) {
        let (definition, pins) = key_of(prepared);
        if self.known.contains_key(&(definition, pins)) {
            self.latest.insert(definition, pins);
        }
    }

    /// Adds a definition. If it is there already, that one is returned.
    pub(super) fn keep(&mut self, prepared: Arc<Prepared>) -> Arc<Prepared> {
        let key = key_of(&prepared);
        if let Some(known) = self.known(key) {
            return known;
        }
        self.uses += 1;
        self.bytes = self.bytes.saturating_add(prepared.weight);
        let entry = Entry {
            prepared: Arc::clone(&prepared),
            used: self.uses,
        };
        self.known.insert(key, entry);
        self.order.insert(self.uses, key);
        self.trim();
        prepared
    }

    /// Drops the definitions that are not to stay. `stays` learns of each whether runs in memory use
    /// it.
    pub(super) fn retain(&mut self, stays: impl Fn(&Prepared, bool) -> bool) {
        let gone: Vec<Key> = self
            .known
            .iter()
            .filter(|(_, entry)| !stays(&entry.prepared, entry.is_used()))
            .map(|(key, _)| *key)
            .collect();
        for key in gone {
            self.remove(key);
        }
        self.show();
    }

    /// Drops definitions that no run in memory uses, until the rest is within the bound.
    pub(super) fn trim(&mut self) {
        if self.bytes > self.most {
            let mut over = self.bytes - self.most;
            let mut gone = Vec::new();
            for key in self.order.values() {
                let Some(entry) = self.known.get(key) else {
                    continue;
                };
                if entry.is_used() {
                    continue;
                }
                gone.push(*key);
                over = over.saturating_sub(entry.prepared.weight);
                if over == 0 {
                    break;
                }
            }
            for key in gone {
                self.remove(key);
            }
        }
        self.show();
    }

    fn remove(&mut self, key: Key) {
        let Some(entry) = self.known.remove(&key) else {
            return;
        };
        self.order.remove(&entry.used);
        self.bytes = self.bytes.saturating_sub(entry.prepared.weight);
        if self.latest.get(&key.0) == Some(&key.1) {
            self.latest.remove(&key.0);
        }
    }

    fn show(&mut self) {
        self.excess = self.bytes.saturating_sub(self.most);
        if let Some(metrics) = &self.metrics {
            metrics.definitions.set(self.bytes);
            let counted = self.excess.min(for_definitions(metrics.run_states.limit()));
            let before = std::mem::replace(&mut self.counted, counted);
            match counted.checked_sub(before) {
                Some(more) => metrics.run_states.add(more),
                None => metrics.run_states.sub(before - counted),
            }
        }
    }
}

/// The part of the budget of states that definitions beyond their bound may take.
pub(crate) fn for_definitions(states: u64) -> u64 {
    states / 2
}

fn key_of(prepared: &Prepared) -> Key {
    (prepared.definition.digest, prepared.pins.digest)
}
