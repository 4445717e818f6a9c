//! The bound of a group for the marker beside the store.

use super::{Done, Session};
use crate::sqlite::mark::{self, Bound, Witness};

/// The bound of the open group.
#[derive(Default)]
pub(super) struct Bounds {
    turned: bool,
    witness: Witness,
    bound: Option<Bound>,
}

impl Session<'_> {
    /// Begins a new generation: a row that earlier bounds may name is deleted, or the write
    /// acknowledges a change that no such row proves. Writes one more page, so no step does it.
    pub(super) fn turn(&mut self) -> Done<()> {
        // The next statements may delete the group's witness.
        self.bounds.witness = Witness::None;
        if self.bounds.turned {
            return Ok(());
        }
        let generation = self.generation()?;
        self.connection
            .prepare_cached("UPDATE own SET generation = generation + 1")?
            .execute([])?;
        self.cache.generation = Some(generation + 1);
        self.bounds.turned = true;
        Ok(())
    }

    /// The group gives a run this version, and no later write lowers it.
    pub(super) fn witnessed_by(&mut self, no: i64, version: i64) {
        self.bounds.witness = Witness::Run { no, version };
    }

    /// The group leaves a trace.
    pub(super) fn witnessed_by_trace(&mut self, process: i64, last: i64) {
        if self.bounds.witness == Witness::None {
            self.bounds.witness = Witness::Trace { process, last };
        }
    }

    /// Determines the bound of the group. Called last before the commit.
    pub(in crate::sqlite) fn bound(&mut self) -> Done<()> {
        if !self.bounds.turned && self.bounds.witness == Witness::None {
            return Ok(());
        }
        self.bounds.bound = Some(Bound {
            generation: self.generation()?,
            witness: self.bounds.witness,
        });
        Ok(())
    }

    /// Gives the bound of the committed group to the marker.
    pub(in crate::sqlite) fn advance_mark(&mut self) {
        if let Some(bound) = self.bounds.bound.take() {
            self.shared.mark.advance(bound);
        }
    }

    fn generation(&mut self) -> Done<i64> {
        if let Some(generation) = self.cache.generation {
            return Ok(generation);
        }
        let generation = mark::generation(self.connection)?;
        self.cache.generation = Some(generation);
        Ok(generation)
    }
}
