//! The trigger rows of a run in memory.

use std::collections::hash_map;
use std::ops::Deref;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use windlass_model::Seq;

use super::owned::HeldTrigger;

/// What a row takes besides its data: a table is at least seven sixteenths full.
const ROW: usize = 2 * (size_of::<HeldTrigger>() + size_of::<Seq>() + 1);

/// The trigger rows of a run, by sequence number, and the memory that they take. A row is weighed when
/// it is added: a part that it gets later, until its step ends, does not count.
#[derive(Default)]
pub(crate) struct Triggers {
    rows: FxHashMap<Seq, HeldTrigger>,
    /// The bytes of data of all rows.
    data: usize,
}

impl Triggers {
    /// Adds a row, in the place of another.
    pub(crate) fn insert(&mut self, seq: Seq, mut held: HeldTrigger) {
        held.weight = held.data();
        self.data += held.weight;
        if let Some(before) = self.rows.insert(seq, held) {
            self.data -= before.weight;
        }
    }

    /// Removes a row.
    pub(crate) fn remove(&mut self, seq: &Seq) -> Option<HeldTrigger> {
        let held = self.rows.remove(seq)?;
        self.data -= held.weight;
        Some(held)
    }

    /// A row, for changes to parts that do not count.
    pub(crate) fn get_mut(&mut self, seq: &Seq) -> Option<&mut HeldTrigger> {
        self.rows.get_mut(seq)
    }

    /// The memory that the rows take, in bytes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.len() * ROW + self.data
    }
}

impl HeldTrigger {
    /// The bytes of its data. The detail has the payloads of its open execution.
    fn data(&self) -> usize {
        let external = self.external.as_ref().map(|external| &external.detail);
        let parts = self.given.iter().chain(external);
        self.detail as usize + parts.map(Bytes::len).sum::<usize>()
    }
}

impl Deref for Triggers {
    type Target = FxHashMap<Seq, HeldTrigger>;

    fn deref(&self) -> &Self::Target {
        &self.rows
    }
}

impl IntoIterator for Triggers {
    type Item = (Seq, HeldTrigger);
    type IntoIter = hash_map::IntoIter<Seq, HeldTrigger>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.into_iter()
    }
}

impl<'a> IntoIterator for &'a Triggers {
    type Item = (&'a Seq, &'a HeldTrigger);
    type IntoIter = hash_map::Iter<'a, Seq, HeldTrigger>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter()
    }
}
