//! How far a group brings the store: what the marker beside it is told.

use super::{Done, Session};
use crate::sqlite::mark::{self, Bound, Witness};

/// What the group that is open gives to tell it by.
#[derive(Default)]
pub(super) struct Bounds {
    turned: bool,
    witness: Witness,
    bound: Option<Bound>,
}

impl Session<'_> {
    /// Begins another generation: a row that bounds may rest on goes away, or something is
    /// acknowledged that no such row tells. Costs a page, so no step does it.
    pub(super) fn turn(&mut self) -> Done<()> {
        // What stands for the group so far may go away with what comes.
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

    /// The group gives an instance this version, and nothing takes it back.
    pub(super) fn witnessed_by(&mut self, no: i64, version: i64) {
        self.bounds.witness = Witness::Instance { no, version };
    }

    /// The group leaves a trace.
    pub(super) fn witnessed_by_trace(&mut self, process: i64, last: i64) {
        if self.bounds.witness == Witness::None {
            self.bounds.witness = Witness::Trace { process, last };
        }
    }

    /// Determines what the group can be told by. The last thing before its commit.
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

    /// Notes beside the store what the group that has been committed can be told by.
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
