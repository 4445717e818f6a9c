//! How a run ends: open executions are cancelled, and completed nodes are undone by their
//! compensating nodes.
//!
//! In a run that is faulted or cancelled, each completed node that has a compensating node is
//! undone: the last completed node first, one at a time. The run continues until all of them are
//! undone; its final status is already fixed. A compensation that fails is an incident, and the
//! remaining compensations still run.

use windlass_model::{Failure, ScopeNo, Status};

use super::step::Step;
use super::{Command, failing};
use crate::state::{Remains, Undoing};

impl Step<'_> {
    /// Ends the run, or begins to undo its completed nodes, after which the run ends. Every open
    /// execution is cancelled.
    pub(super) fn end(&mut self, status: Status, failure: Option<Failure>) {
        let fails = status != Status::Completed;
        let undoes = fails && !self.state.ledger.entries.is_empty();
        if undoes {
            self.state.remains = Remains {
                open: Vec::new(),
                undone: true,
            };
        } else if fails {
            self.keep_remains();
        }
        self.cancel_all();
        if undoes {
            self.state.status = Status::Running;
            self.state.undoing = Some(Undoing {
                status: status as u8,
                failure,
            });
            self.undo_next();
        } else {
            self.finish(status, failure);
        }
    }

    /// As [`Self::end`], for a failure of the run itself. While nodes are being undone, the
    /// remaining compensations are dropped.
    pub(super) fn fault(&mut self, failure: Failure) {
        if self.state.undoing.is_none() {
            return self.end(Status::Faulted, Some(failure));
        }
        self.cancel_all();
        self.state.ledger.entries.clear();
        self.come_to_an_end();
    }

    fn cancel_all(&mut self) {
        let open = std::mem::take(&mut self.state.open);
        let external = std::mem::take(&mut self.state.external);
        for mut open in open.into_values().chain(external.into_values()) {
            if let Some(collect) = open.collect.take() {
                self.commands.push(Command::DropList(collect.list));
            }
            self.commands.push(Command::Cancel(open));
        }
        self.state.root.open.clear();
        self.dismiss();
        let lists: Vec<_> = self.state.root.lists.keys().copied().collect();
        for list in lists {
            if let Some(open) = self.close_list(ScopeNo::ROOT, list) {
                self.commands.push(Command::Cancel(open));
            }
        }
        self.state.waiting = 0;
        if self.state.remains.open.is_empty() {
            self.state.drop_joins(ScopeNo::ROOT);
            self.state.root.loops.clear();
        }
        self.state.held.clear();
        self.state.emitting.clear();
        self.work.clear();
        self.idle.clear();
        self.quiet.clear();
        self.won.clear();
        self.raced.clear();
        self.freed.clear();
        self.overflow = None;
    }

    fn finish(&mut self, status: Status, failure: Option<Failure>) {
        self.state.timeout = None;
        self.state.undoing = None;
        for &page in &self.state.ledger.pages {
            self.state.changes.entry(page).or_insert(false);
        }
        self.state.status = status;
        let output = self.state.output.filter(|_| status == Status::Completed);
        self.commands.push(Command::Finish {
            status,
            failure,
            output,
        });
    }

    /// Called when no execution is open: undoes the next node, or finishes the run.
    pub(super) fn come_to_an_end(&mut self) {
        if self.undo_next() {
            return;
        }
        match self.state.undoing.take() {
            Some(undoing) => {
                let status = Status::from_stored(undoing.status).unwrap_or(Status::Faulted);
                self.finish(status, undoing.failure);
            }
            None => match self.half_decided(ScopeNo::ROOT) {
                None => self.end(Status::Completed, None),
                Some(node) => {
                    let failure = failing::half_decided(self.graph, node);
                    self.end(Status::Faulted, Some(failure));
                }
            },
        }
    }

    /// Begins to undo the node that completed last. Returns whether there was such a node.
    fn undo_next(&mut self) -> bool {
        if self.state.undoing.is_none() {
            return false;
        }
        while let Some((node, run)) = self.state.undone() {
            let plan = self.graph.node(node);
            if let Some(undo) = plan.and_then(|plan| plan.compensate) {
                self.open(ScopeNo::ROOT, undo, None, vec![(node, run)]);
                return true;
            }
        }
        false
    }

    /// The limit of executions of this run: twice as many while nodes are being undone.
    pub(super) fn most(&self, max_steps: u64) -> u64 {
        match self.state.undoing {
            Some(_) => max_steps.saturating_mul(2),
            None => max_steps,
        }
    }

    pub(super) fn go_on(&mut self) {
        // A scope whose output is being rendered continues in the same step.
        if self.state.status != Status::Paused && self.state.emitting.is_empty() {
            let all_wait = self.state.waiting as usize >= self.state.open.len();
            self.state.status = if all_wait {
                Status::Suspended
            } else {
                Status::Running
            };
        }
        // The timeout trigger is not made at creation: a run that ends after one step does not need
        // it.
        if let (None, None, Some(due_ms)) = (
            self.state.timeout,
            &self.state.undoing,
            self.state.deadline_ms,
        ) {
            let seq = self.next_seq();
            self.state.timeout = Some(seq);
            self.commands.push(Command::Timeout { seq, due_ms });
        }
    }
}
