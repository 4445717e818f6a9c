//! For-each: a list, a cursor over it, and a scope for each item in progress.
//!
//! A for-each is executed twice. The first execution makes the list. Then the body runs once for
//! each item, in at most `concurrency` scopes at a time, and the for-each itself has no trigger.
//! After the last item the for-each is executed again, to collect the outputs of the items. If an
//! item fails and this fails the for-each, the second execution reports the failure, so that
//! retries, error policies and conditions work as for every other node.

use std::collections::BTreeSet;

use windlass_model::definition::OnItemError;
use windlass_model::{ExecutionNo, Failure, ScopeNo, Seq, TriggerType, limits};

use super::step::Step;
use super::{Command, Stale, failing};
use crate::graph::{LoopIx, PlanKind};
use crate::state::{Collect, Local, Open, OpenForEach, Scope};

impl Step<'_> {
    /// Records that the list is made, and begins with its items. Faults the run if it may not
    /// execute as many nodes as there are items.
    pub(super) fn listed(
        &mut self,
        seq: Seq,
        run: ExecutionNo,
        count: u32,
        max_steps: u64,
    ) -> Result<(), Stale> {
        let found = self.state.run_of(seq).ok_or(Stale)?;
        if self.for_each(found.node).is_none() || found.collect.is_some() {
            return Err(Stale);
        }
        let open = self.executed(seq)?;
        let left = self.most(max_steps).saturating_sub(self.state.steps);
        if u64::from(count) > left {
            let failure = failing::too_long(self.graph, open.node, count, left, max_steps);
            if open.scope == ScopeNo::ROOT && self.state.undoing.is_none() {
                // A retry makes the list again.
                self.state.remains.open.push(open);
            }
            self.fault(failure);
            return Ok(());
        }
        let scope = open.scope;
        let listing = OpenForEach {
            node: open.node,
            edge: open.edge,
            first: open.first,
            attempt: open.attempt,
            phase: open.phase,
            give_up_ms: open.give_up_ms,
            round: open.round,
            run,
            count,
            next: 0,
            live: BTreeSet::new(),
        };
        self.enter(scope, listing.node);
        self.hold(listing.node);
        if let Some(local) = self.state.local(scope) {
            local.lists.insert(seq, listing);
        }
        self.advance(scope, seq);
        Ok(())
    }

    fn for_each(&self, node: crate::graph::NodeIx) -> Option<(usize, OnItemError)> {
        match self.graph.node(node)?.kind {
            PlanKind::ForEach {
                concurrency,
                on_item_error,
                ..
            } => Some((concurrency as usize, on_item_error)),
            _ => None,
        }
    }

    /// Begins as many items as `concurrency` allows, or executes the for-each again to collect.
    fn advance(&mut self, scope: ScopeNo, list: Seq) {
        loop {
            let local = self.state.peek(scope);
            let Some(listing) = local.and_then(|local| local.lists.get(&list)) else {
                return;
            };
            let Some((concurrency, _)) = self.for_each(listing.node) else {
                return;
            };
            let late = listing.give_up_ms.is_some_and(|at| at <= self.now_ms);
            if listing.next == listing.count {
                if listing.live.is_empty() {
                    self.collect(scope, list, None);
                }
                return;
            }
            if late {
                return self.collect(scope, list, Some(failing::out_of_time(None)));
            }
            let live = listing.live.len();
            if live >= concurrency || (live > 0 && self.state.scopes.len() >= limits::SCOPES) {
                return;
            }
            self.open_scope(scope, list);
        }
    }

    fn open_scope(&mut self, parent: ScopeNo, list: Seq) {
        let no = self.state.number();
        let local = self.state.local(parent);
        let Some(listing) = local.and_then(|local| local.lists.get_mut(&list)) else {
            return;
        };
        let index = listing.next;
        listing.next += 1;
        listing.live.insert(no);
        let (run, node) = (listing.run, listing.node);
        let scope = Scope {
            parent,
            list,
            run,
            node,
            index,
            output: None,
            bytes: 0,
            local: Local::default(),
        };
        self.state.scopes.insert(no, scope);
        self.commands.push(Command::OpenScope {
            scope: no,
            list: run,
            index,
        });
        // In case no node in the scope begins.
        self.quiet.insert(no);
        self.begin(no, self.graph.body_of(node));
    }

    /// Called when an execution in a scope has ended: if no other is open there, the output of the
    /// item is rendered.
    pub(super) fn rest(&mut self, no: ScopeNo) {
        let Some(scope) = self.state.scopes.get(&no) else {
            return;
        };
        if !scope.local.is_idle() || self.state.emitting.contains(&no) {
            return;
        }
        if let Some((&at, _)) = scope.local.loops.last_key_value() {
            let at: LoopIx = at;
            self.empty(no, at, true);
            self.quiet.insert(no);
            return;
        }
        let (list, index, output) = (scope.list, scope.index, scope.output);
        if let Some(node) = self.half_decided(no) {
            let failure = failing::half_decided(self.graph, node);
            let container = scope.node;
            self.incident(list, container, failure.clone());
            return self.item_failed(no, failure);
        }
        self.state.emitting.insert(no);
        self.commands.push(Command::Emit {
            scope: no,
            list,
            index,
            output,
        });
    }

    /// Records that the output of an item is rendered, or why it could not be.
    pub(super) fn emitted(
        &mut self,
        no: ScopeNo,
        result: Result<(), Failure>,
    ) -> Result<(), Stale> {
        if !self.state.emitting.remove(&no) {
            return Err(Stale);
        }
        let Some(scope) = self.state.scopes.get(&no) else {
            return Err(Stale);
        };
        let (parent, list, node) = (scope.parent, scope.list, scope.node);
        match result {
            Ok(()) => {
                self.close_scope(no);
                self.advance(parent, list);
            }
            Err(failure) => {
                self.incident(list, node, failure.clone());
                self.item_failed(no, failure);
            }
        }
        Ok(())
    }

    /// Ends the work on an item without an output.
    pub(super) fn item_failed(&mut self, no: ScopeNo, failure: Failure) {
        let Some(scope) = self.state.scopes.get(&no) else {
            return;
        };
        let (parent, list, node) = (scope.parent, scope.list, scope.node);
        self.close_scope(no);
        match self.for_each(node) {
            Some((_, OnItemError::Continue)) => self.advance(parent, list),
            _ => self.collect(parent, list, Some(failure)),
        }
    }

    /// Executes the for-each for the second time.
    fn collect(&mut self, scope: ScopeNo, list: Seq, fault: Option<Failure>) {
        let Some((open, run, count)) = self.end_list(scope, list) else {
            return;
        };
        self.reopen(Open {
            collect: Some(Box::new(Collect {
                list,
                run,
                count,
                fault,
            })),
            ..open
        });
    }

    /// Closes a for-each that is cancelled.
    pub(super) fn close_list(&mut self, scope: ScopeNo, list: Seq) -> Option<Open> {
        let (open, ..) = self.end_list(scope, list)?;
        self.commands.push(Command::DropList(list));
        Some(open)
    }

    /// Closes all scopes of a list. Returns the open execution of the for-each, the record of the
    /// list and its length.
    fn end_list(&mut self, scope: ScopeNo, list: Seq) -> Option<(Open, ExecutionNo, u32)> {
        let local = self.state.peek(scope)?;
        if !local.lists.contains_key(&list) {
            return None;
        }
        let listing = self.state.local(scope)?.lists.remove(&list)?;
        for &no in &listing.live {
            self.close_scope(no);
        }
        self.leave(scope, listing.node);
        self.free(listing.node);
        self.quiet.insert(scope);
        let open = Open {
            seq: list,
            first: listing.first,
            scope,
            node: listing.node,
            edge: listing.edge,
            kind: TriggerType::Loop,
            attempt: listing.attempt,
            phase: listing.phase.saturating_add(1),
            due_ms: None,
            give_up_ms: listing.give_up_ms,
            give_up_wait_ms: None,
            expires_ms: None,
            from: Vec::new(),
            left: None,
            input: None,
            round: listing.round,
            collect: None,
            waiting: false,
        };
        Some((open, listing.run, listing.count))
    }

    /// Closes a scope with everything in it. Scopes nest no deeper than the bodies in a workflow
    /// file.
    pub(super) fn close_scope(&mut self, no: ScopeNo) {
        // The contents are cancelled first, while their loops and critical sections can still be
        // found.
        let Some(local) = self.state.peek(no) else {
            return;
        };
        let open: Vec<Seq> = local.open.iter().copied().collect();
        let lists: Vec<Seq> = local.lists.keys().copied().collect();
        let queued: Vec<Seq> = local.queued.keys().copied().collect();
        for seq in open.into_iter().chain(lists).chain(queued) {
            self.cancel(no, seq);
        }
        self.state.emitting.remove(&no);
        self.state.drop_joins(no);
        let Some(scope) = self.state.scopes.remove(&no) else {
            return;
        };
        self.state.scope_bytes = self.state.scope_bytes.saturating_sub(scope.bytes);
        self.state.changes.entry(no).or_insert(false);
        if let Some(local) = self.state.quietly(scope.parent)
            && let Some(listing) = local.lists.get_mut(&scope.list)
        {
            listing.live.remove(&no);
        }
        self.commands.push(Command::CloseScope(no));
    }
}
