//! Scopes: the root, and one for each item of a for-each in progress.
//!
//! Every scope has its own joins, loops and latest executions. The root's are in the head. Each
//! other scope is stored by itself, so that a step writes only the scopes that it changes, however
//! many are open.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use windlass_model::{ExecutionNo, ScopeNo, Seq, TriggerType};

use super::{Joining, Looping, Open, Round, RunState};
use crate::graph::{EdgeIx, Graph, LoopIx, MutexIx, NodeIx};

/// The state that every scope has.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Local {
    /// Joins that are not at rest.
    pub(crate) joins: BTreeMap<NodeIx, Joining>,
    /// Active loops.
    pub(crate) loops: BTreeMap<LoopIx, Looping>,
    /// The record of the latest successful execution of each node that an expression names. A node
    /// that is skipped, fails or is cancelled later has none.
    pub(crate) latest: BTreeMap<NodeIx, ExecutionNo>,
    /// For-each nodes with items in progress, by the trigger that made their list.
    pub(crate) lists: BTreeMap<Seq, OpenForEach>,
    /// Node runs that wait for a critical section. They have no trigger rows.
    pub(crate) queued: BTreeMap<Seq, Open>,
    /// Which of [`RunState::open`] are in this scope.
    pub(crate) open: BTreeSet<Seq>,
    /// The visits of each node whose link an expression names.
    pub(crate) visits: BTreeMap<NodeIx, Visits>,
}

/// The visits of a node in a scope: its node runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Visits {
    /// How many visits there have been.
    pub(crate) count: u32,
    /// Visits that may be open, each with the first trigger of its node run.
    pub(crate) open: Vec<(Seq, u32)>,
}

/// One wait of a node, identified by its visit: known before the node waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The scope of the node.
    pub scope: ScopeNo,
    /// The number of the node run in that scope, from 1.
    pub visit: u32,
    /// The phase of the node run.
    pub phase: u32,
}

/// The scope of an item.
#[derive(Clone, Debug, PartialEq)]
pub struct Scope {
    /// The scope that the for-each is in.
    pub parent: ScopeNo,
    /// The list.
    pub list: Seq,
    /// The execution record whose output is the list.
    pub run: ExecutionNo,
    /// The for-each.
    pub node: NodeIx,
    /// The position of the item in the list.
    pub index: u32,
    /// The execution record whose output is the item's, in place of the body's own output.
    pub(crate) output: Option<ExecutionNo>,
    /// The memory of `local` when it was encoded last, or read.
    pub(crate) bytes: usize,
    pub(crate) local: Local,
}

/// A for-each with items in progress.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OpenForEach {
    pub(crate) node: NodeIx,
    pub(crate) edge: Option<EdgeIx>,
    pub(crate) first: Seq,
    pub(crate) attempt: u32,
    pub(crate) phase: u32,
    pub(crate) give_up_ms: Option<i64>,
    pub(crate) round: Option<Round>,
    /// The record of the list.
    pub(crate) run: ExecutionNo,
    /// The number of items.
    pub(crate) count: u32,
    /// The index of the next item.
    pub(crate) next: u32,
    /// The scopes of the items in progress. Each of these scopes also names its list.
    pub(crate) live: BTreeSet<ScopeNo>,
}

/// Why an external trigger cannot be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refused {
    /// The run is over, or its completed nodes are being undone.
    #[error("the run is over")]
    Closed,
    /// Another node holds the critical section: postpone the trigger.
    #[error("another node is in the critical section")]
    Busy,
    /// There is no such node outside of every for-each.
    #[error("there is no such node outside of every for-each")]
    NoNode,
}

impl Local {
    /// Whether nothing is open in the scope.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.lists.is_empty() && self.queued.is_empty()
    }
}

impl RunState {
    /// Whether the run has failed or is cancelled, and its completed nodes are being undone.
    pub fn is_undoing(&self) -> bool {
        self.undoing.is_some()
    }

    /// Adds an open execution that was read back from its trigger row.
    pub fn restore(&mut self, graph: &Graph, open: Open) {
        if open.seq.is_external() {
            return;
        }
        if let Some(mutex) = graph.mutex_of(open.node) {
            self.held.insert(mutex);
        }
        if let Some(local) = self.quietly(open.scope) {
            local.open.insert(open.seq);
        }
        self.open.insert(open.seq, open);
    }

    /// Admits an external trigger for execution: its sequence number is one of [`Seq::external`],
    /// and it runs in the root scope. It does not count as outstanding. If it is to be executed
    /// again after this execution, it becomes an ordinary open execution.
    ///
    /// # Errors
    ///
    /// It cannot be executed now, or not at all.
    pub fn admit(&mut self, graph: &Graph, open: Open) -> Result<(), Refused> {
        if self.status.is_final() || self.undoing.is_some() {
            return Err(Refused::Closed);
        }
        let plan = graph.node(open.node).ok_or(Refused::NoNode)?;
        if open.scope != ScopeNo::ROOT
            || graph.body(plan.body).is_none_or(|b| b.container.is_some())
        {
            return Err(Refused::NoNode);
        }
        if let Some(mutex) = plan.mutex
            && !self.held.insert(mutex)
        {
            return Err(Refused::Busy);
        }
        self.external.insert(open.seq, open);
        Ok(())
    }

    /// Forgets the external triggers that were admitted, as a host does that reads the state again.
    pub(crate) fn forget_external(&mut self, graph: &Graph) {
        for open in std::mem::take(&mut self.external).into_values() {
            if let Some(mutex) = graph.mutex_of(open.node) {
                self.held.remove(&mutex);
            }
        }
    }

    /// The open execution of this trigger, external or not.
    pub fn run_of(&self, seq: Seq) -> Option<&Open> {
        self.open.get(&seq).or_else(|| self.external.get(&seq))
    }

    /// The scope and the sequence number of a cancellable item: an open execution, a for-each, or a
    /// queued node run. `seq` is its trigger or the first trigger of its node run.
    pub(crate) fn find(&self, seq: Seq) -> Option<(ScopeNo, Seq)> {
        if let Some(open) = self.run_of(seq) {
            return Some((open.scope, seq));
        }
        if let Some(open) = self.open.values().find(|open| open.first == seq) {
            return Some((open.scope, open.seq));
        }
        let root = (ScopeNo::ROOT, &self.root);
        let others = self.scopes.iter().map(|(no, scope)| (*no, &scope.local));
        std::iter::once(root).chain(others).find_map(|(no, local)| {
            let mut lists = local.lists.iter();
            let list = lists.find(|(list, listing)| **list == seq || listing.first == seq);
            let queued = local.queued.get(&seq).map(|_| seq);
            Some((no, list.map(|(list, _)| *list).or(queued)?))
        })
    }

    /// A scope other than the root.
    pub fn scope(&self, scope: ScopeNo) -> Option<&Scope> {
        self.scopes.get(&scope)
    }

    /// A scope and the scopes around it; the root comes last.
    pub fn around(&self, scope: ScopeNo) -> impl Iterator<Item = ScopeNo> {
        std::iter::successors(Some(scope), |at| {
            (*at != ScopeNo::ROOT).then(|| {
                let scope = self.scopes.get(at);
                scope.map_or(ScopeNo::ROOT, |scope| scope.parent)
            })
        })
    }

    /// The record of the latest successful execution of a node, as seen from a scope. A node that
    /// is skipped, fails or is cancelled later has none.
    pub fn latest(&self, graph: &Graph, scope: ScopeNo, node: NodeIx) -> Option<ExecutionNo> {
        let body = graph.node(node)?.body;
        let around = self
            .around(scope)
            .find(|at| self.body(graph, *at) == body)?;
        self.peek(around)?.latest.get(&node).copied()
    }

    /// The visit of a node, as seen from a scope, in which it waits now or will wait next.
    /// `is_called` tells of an open execution whether its wait is over because it was resumed or
    /// has timed out.
    pub fn next_visit(
        &self,
        graph: &Graph,
        scope: ScopeNo,
        node: NodeIx,
        is_called: impl Fn(&Open) -> bool,
    ) -> Option<Visit> {
        let body = graph.node(node)?.body;
        let scope = self
            .around(scope)
            .find(|at| self.body(graph, *at) == body)?;
        let local = self.peek(scope)?;
        let visits = local.visits.get(&node);
        let going_on = visits.and_then(|visits| {
            visits.open.iter().rev().find_map(|(first, visit)| {
                let open = self.going_on(local, *first)?;
                // A waiting execution has the phase that follows its wait.
                let waits = open.waiting && open.kind == TriggerType::Resume && !is_called(open);
                Some((*visit, open.phase.saturating_sub(u32::from(waits))))
            })
        });
        let count = visits.map_or(0, |visits| visits.count);
        let (visit, phase) = going_on.unwrap_or((count.saturating_add(1), 0));
        Some(Visit {
            scope,
            visit,
            phase,
        })
    }

    /// The visit of an open execution; none if the visits of its node are not counted, or if its
    /// trigger is external.
    pub fn visit_of(&self, open: &Open) -> Option<Visit> {
        let visits = self.peek(open.scope)?.visits.get(&open.node)?;
        let mut known = visits.open.iter();
        let (_, visit) = known.find(|(first, _)| *first == open.first)?;
        Some(Visit {
            scope: open.scope,
            visit: *visit,
            phase: open.phase,
        })
    }

    /// The node and the visit of a node run, by its first trigger, in its first phase.
    pub fn visit_of_run(&self, first: Seq) -> Option<(NodeIx, Visit)> {
        let root = std::iter::once((ScopeNo::ROOT, &self.root));
        let scopes = self.scopes.iter().map(|(no, scope)| (*no, &scope.local));
        root.chain(scopes).find_map(|(scope, local)| {
            local.visits.iter().find_map(|(node, visits)| {
                let mut known = visits.open.iter();
                let (_, visit) = known.find(|(of, _)| *of == first)?;
                Some((
                    *node,
                    Visit {
                        scope,
                        visit: *visit,
                        phase: 0,
                    },
                ))
            })
        })
    }

    /// Counts a node run that begins.
    pub(crate) fn count_visit(&mut self, open: &Open) {
        let Some(mut visits) = self
            .peek(open.scope)
            .map(|local| local.visits.get(&open.node).cloned().unwrap_or_default())
        else {
            return;
        };
        if let Some(local) = self.peek(open.scope) {
            visits
                .open
                .retain(|(first, _)| self.going_on(local, *first).is_some());
        }
        visits.count = visits.count.saturating_add(1);
        visits.open.push((open.first, visits.count));
        if let Some(local) = self.local(open.scope) {
            local.visits.insert(open.node, visits);
        }
    }

    /// The open execution of a node run in a scope.
    fn going_on<'a>(&'a self, local: &'a Local, first: Seq) -> Option<&'a Open> {
        let open = local.open.iter().filter_map(|seq| self.open.get(seq));
        let mut all = open.chain(local.queued.values());
        all.find(|open| open.first == first)
    }

    /// The latest execution records as seen from a scope.
    pub fn seen(&self, scope: ScopeNo) -> impl Iterator<Item = (NodeIx, ExecutionNo)> {
        let locals = self.around(scope).filter_map(|at| self.peek(at));
        locals.flat_map(|local| local.latest.iter().map(|(node, run)| (*node, *run)))
    }

    fn body(&self, graph: &Graph, scope: ScopeNo) -> crate::graph::BodyIx {
        let container = self.scopes.get(&scope).map(|scope| scope.node);
        container.map_or(crate::graph::BodyIx::ROOT, |node| graph.body_of(node))
    }

    /// The scopes and pages that changed since the last call, in their stored form; `None` as the
    /// bytes means: delete the row.
    pub fn drain_scopes(&mut self) -> Vec<(ScopeNo, Option<Vec<u8>>)> {
        if self.changes.is_empty() {
            return Vec::new();
        }
        let changes = std::mem::take(&mut self.changes);
        changes
            .into_iter()
            .filter_map(|(no, fresh)| {
                self.weigh(no);
                // A run that ended may be reopened, so the pages of its joins are kept.
                let bytes = if self.status.is_final() && !self.pages.contains_key(&no) {
                    None
                } else {
                    self.encode_scope(no)
                };
                (bytes.is_some() || !fresh).then_some((no, bytes))
            })
            .collect()
    }

    /// The state of a scope, to be read.
    pub(crate) fn peek(&self, scope: ScopeNo) -> Option<&Local> {
        if scope == ScopeNo::ROOT {
            return Some(&self.root);
        }
        self.scopes.get(&scope).map(|scope| &scope.local)
    }

    /// The state of a scope, to be changed.
    pub(crate) fn local(&mut self, scope: ScopeNo) -> Option<&mut Local> {
        if scope == ScopeNo::ROOT {
            return Some(&mut self.root);
        }
        let found = self.scopes.get_mut(&scope)?;
        self.changes.entry(scope).or_insert(false);
        Some(&mut found.local)
    }

    /// The state of a scope, for changes to fields that are not stored with it.
    pub(crate) fn quietly(&mut self, scope: ScopeNo) -> Option<&mut Local> {
        if scope == ScopeNo::ROOT {
            return Some(&mut self.root);
        }
        self.scopes.get_mut(&scope).map(|scope| &mut scope.local)
    }

    /// A number for a scope or a page.
    pub(crate) fn number(&mut self) -> ScopeNo {
        self.numbered = self.numbered.saturating_add(1);
        let no = ScopeNo(self.numbered);
        self.changes.insert(no, true);
        no
    }

    /// The next waiting node run of a critical section.
    pub(crate) fn waiter(&self, mutex: MutexIx) -> Option<(Seq, ScopeNo)> {
        let mut waiters = self.waiters.range((mutex, Seq(0))..);
        let ((found, seq), scope) = waiters.next()?;
        (*found == mutex).then_some((*seq, *scope))
    }
}
