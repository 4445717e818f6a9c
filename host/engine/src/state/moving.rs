//! Prepares the state of a run for another store, where execution records have other numbers.
//!
//! All other names in a state (nodes, edges, sequence numbers, scopes) belong to the run and stay
//! the same.

use windlass_model::{ExecutionNo, ScopeNo};

use super::{Corrupt, Decision, Local, Open, RunState};

/// The new number of a record; none if the record does not exist.
pub(crate) type Renumber<'a> = dyn FnMut(ExecutionNo) -> Option<ExecutionNo> + 'a;

impl RunState {
    /// Renumbers the execution records in the state. Open executions are not renumbered here: each
    /// trigger row is renumbered by itself ([`Open::renumber`]).
    ///
    /// # Errors
    ///
    /// The state names a record that has no new number.
    pub fn renumber(&mut self, to: &mut Renumber<'_>) -> Result<(), Corrupt> {
        optional(&mut self.output, to)?;
        self.root.renumber(to)?;
        for scope in self.scopes.values_mut() {
            one(&mut scope.run, to)?;
            optional(&mut scope.output, to)?;
            scope.local.renumber(to)?;
        }
        for (_, run) in &mut self.ledger.entries {
            one(run, to)?;
        }
        self.remains
            .open
            .iter_mut()
            .try_for_each(|open| open.renumber(to))
    }

    /// A scope other than the root, or a page, in its stored form; none if it does not exist.
    pub fn stored_scope(&self, no: ScopeNo) -> Option<Vec<u8>> {
        self.encode_scope(no)
    }
}

impl Local {
    fn renumber(&mut self, to: &mut Renumber<'_>) -> Result<(), Corrupt> {
        for run in self.latest.values_mut() {
            one(run, to)?;
        }
        for listing in self.lists.values_mut() {
            one(&mut listing.run, to)?;
        }
        let slots = self.joins.values_mut().flat_map(|join| &mut join.slots);
        for slot in slots {
            for decision in slot.head.iter_mut().chain(slot.rest.iter_mut()) {
                if let Decision::Taken(run) = decision {
                    one(run, to)?;
                }
            }
        }
        self.queued
            .values_mut()
            .try_for_each(|open| open.renumber(to))
    }
}

impl Open {
    /// Renumbers the execution records of this open execution.
    ///
    /// # Errors
    ///
    /// It names a record that has no new number.
    pub fn renumber(&mut self, to: &mut Renumber<'_>) -> Result<(), Corrupt> {
        for (_, run) in &mut self.from {
            one(run, to)?;
        }
        match &mut self.collect {
            Some(collect) => one(&mut collect.run, to),
            None => Ok(()),
        }
    }
}

pub(crate) fn one(run: &mut ExecutionNo, to: &mut Renumber<'_>) -> Result<(), Corrupt> {
    *run = to(*run).ok_or(Corrupt {
        what: "state",
        reason: "it names a record of an execution that is not there",
    })?;
    Ok(())
}

fn optional(run: &mut Option<ExecutionNo>, to: &mut Renumber<'_>) -> Result<(), Corrupt> {
    run.as_mut().map_or(Ok(()), |run| one(run, to))
}
