//! Scopes: the root, and one for each item of a for-each that is being worked on.
//!
//! Every scope has joins, loops and latest runs of its own. The root's are in the head. Each
//! other scope is stored by itself, so that a step writes those that it touched and no others,
//! however many are open.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use windlass_model::{ExecutionNo, ScopeNo, Seq, TriggerType};

use super::{Joining, Looping, Open, Round, RunState};
use crate::graph::{EdgeIx, Graph, LoopIx, MutexIx, NodeIx};

/// What every scope has.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Local {
    /// Joins that are not at rest.
    pub(crate) joins: BTreeMap<NodeIx, Joining>,
    /// Loops that are going on.
    pub(crate) loops: BTreeMap<LoopIx, Looping>,
    /// The latest run record of each node that an expression names; none if it was skipped,
    /// failed or cancelled since.
    pub(crate) latest: BTreeMap<NodeIx, ExecutionNo>,
    /// For-each nodes whose items are being worked on, by the trigger that made their list.
    pub(crate) lists: BTreeMap<Seq, Listing>,
    /// Runs that wait for a critical section. They have no trigger rows.
    pub(crate) queued: BTreeMap<Seq, Open>,
    /// Which of [`RunState::open`] are in this scope.
    pub(crate) open: BTreeSet<Seq>,
    /// How often each node has been visited that an expression names the link of.
    pub(crate) visits: BTreeMap<NodeIx, Visits>,
}

/// The visits of a node in a scope: its node runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Visits {
    /// How many there have been.
    pub(crate) count: u32,
    /// Those that may be going on, by the first trigger of the node run.
    pub(crate) open: Vec<(Seq, u32)>,
}

/// One wait of a node by its visit: known before the node waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The scope of the node.
    pub scope: ScopeNo,
    /// Which node run it is in that scope, from 1.
    pub visit: u32,
    /// The phase of the node run.
    pub phase: u32,
}

/// The scope of an item.
#[derive(Clone, Debug, PartialEq)]
pub struct Scope {
    /// The scope that the for-each is in.
    pub parent: ScopeNo,
    /// Names the list.
    pub list: Seq,
    /// The run record whose output is the list.
    pub run: ExecutionNo,
    /// The for-each.
    pub node: NodeIx,
    /// The position of the item in the list.
    pub index: u32,
    /// The run record whose output is the item's, in place of the body's own.
    pub(crate) output: Option<ExecutionNo>,
    pub(crate) local: Local,
}

/// A for-each whose items are being worked on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Listing {
    pub(crate) node: NodeIx,
    pub(crate) edge: Option<EdgeIx>,
    pub(crate) first: Seq,
    pub(crate) attempt: u32,
    pub(crate) phase: u32,
    pub(crate) give_up_ms: Option<i64>,
    pub(crate) round: Option<Round>,
    /// The record of the list.
    pub(crate) run: ExecutionNo,
    /// How many items there are.
    pub(crate) count: u32,
    /// The item that is next.
    pub(crate) next: u32,
    /// The scopes of the items that are being worked on. Each of them says so itself.
    pub(crate) live: BTreeSet<ScopeNo>,
}

/// Why a trigger from outside cannot be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refused {
    /// The run is over, or what it did is being undone.
    #[error("the run is over")]
    Closed,
    /// Another node is in the critical section: put it off.
    #[error("another node is in the critical section")]
    Busy,
    /// There is no such node outside of every for-each.
    #[error("there is no such node outside of every for-each")]
    NoNode,
}

impl Local {
    /// Whether nothing is open in it.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.lists.is_empty() && self.queued.is_empty()
    }
}

impl RunState {
    /// Puts in an open run that was read back from its trigger row.
    pub fn restore(&mut self, graph: &Graph, open: Open) {
        if open.seq.is_outside() {
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

    /// Lets a trigger from outside be executed: its sequence number is one of
    /// [`Seq::outside`], and it runs in the root scope. It never counts as outstanding. Once
    /// it has been executed and is to be executed again, it is like any other.
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
        self.outside.insert(open.seq, open);
        Ok(())
    }

    /// The execution that this trigger stands for, from outside or not.
    pub fn run_of(&self, seq: Seq) -> Option<&Open> {
        self.open.get(&seq).or_else(|| self.outside.get(&seq))
    }

    /// Where something is that can be cancelled, and what it is called there: an open run, a
    /// for-each or a run in a line, named by its trigger or by the first of its node run.
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

    /// A scope and those around it, the root being the last.
    pub fn around(&self, scope: ScopeNo) -> impl Iterator<Item = ScopeNo> {
        std::iter::successors(Some(scope), |at| {
            (*at != ScopeNo::ROOT).then(|| {
                let scope = self.scopes.get(at);
                scope.map_or(ScopeNo::ROOT, |scope| scope.parent)
            })
        })
    }

    /// The latest run record of a node as it is seen from a scope; none if it has none there,
    /// or was skipped, failed or cancelled since.
    pub fn latest(&self, graph: &Graph, scope: ScopeNo, node: NodeIx) -> Option<ExecutionNo> {
        let body = graph.node(node)?.body;
        let around = self
            .around(scope)
            .find(|at| self.body(graph, *at) == body)?;
        self.peek(around)?.latest.get(&node).copied()
    }

    /// The visit of a node in which it waits or will wait, as it is seen from a scope: the wait
    /// that goes on, or else the next one. `is_called` says of an open run whether it has been
    /// resumed, or given up, and its node is called: then its wait is over.
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
                // What waits is open in the phase that follows its wait.
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

    /// The visit that an open run is; none if the visits of its node are not counted, or it came
    /// from outside.
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

    /// The visit that is known by the first trigger of its node run, in its first phase.
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

    /// The open run of a node run in a scope.
    fn going_on<'a>(&'a self, local: &'a Local, first: Seq) -> Option<&'a Open> {
        let open = local.open.iter().filter_map(|seq| self.open.get(seq));
        let mut all = open.chain(local.queued.values());
        all.find(|open| open.first == first)
    }

    /// The latest run records that are seen from a scope.
    pub fn seen(&self, scope: ScopeNo) -> impl Iterator<Item = (NodeIx, ExecutionNo)> {
        let locals = self.around(scope).filter_map(|at| self.peek(at));
        locals.flat_map(|local| local.latest.iter().map(|(node, run)| (*node, *run)))
    }

    fn body(&self, graph: &Graph, scope: ScopeNo) -> crate::graph::BodyIx {
        let container = self.scopes.get(&scope).map(|scope| scope.node);
        container.map_or(crate::graph::BodyIx::ROOT, |node| graph.body_of(node))
    }

    /// The scopes and pages that changed since this was last asked, as they are to be stored;
    /// none if nothing is to be stored of one any more.
    pub fn drain_scopes(&mut self) -> Vec<(ScopeNo, Option<Vec<u8>>)> {
        if self.changes.is_empty() {
            return Vec::new();
        }
        let changes = std::mem::take(&mut self.changes);
        changes
            .into_iter()
            .filter_map(|(no, fresh)| {
                // What was cut off may be taken up again, with the joins that it leads to.
                let bytes = if self.status.is_final() && !self.pages.contains_key(&no) {
                    None
                } else {
                    self.encode_scope(no)
                };
                (bytes.is_some() || !fresh).then_some((no, bytes))
            })
            .collect()
    }

    /// What a scope has, to be read.
    pub(crate) fn peek(&self, scope: ScopeNo) -> Option<&Local> {
        if scope == ScopeNo::ROOT {
            return Some(&self.root);
        }
        self.scopes.get(&scope).map(|scope| &scope.local)
    }

    /// What a scope has, to be changed.
    pub(crate) fn local(&mut self, scope: ScopeNo) -> Option<&mut Local> {
        if scope == ScopeNo::ROOT {
            return Some(&mut self.root);
        }
        let found = self.scopes.get_mut(&scope)?;
        self.changes.entry(scope).or_insert(false);
        Some(&mut found.local)
    }

    /// What a scope has, to be changed in what is not stored with it.
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

    /// Who is next in a critical section.
    pub(crate) fn waiter(&self, mutex: MutexIx) -> Option<(Seq, ScopeNo)> {
        let mut waiters = self.waiters.range((mutex, Seq(0))..);
        let ((found, seq), scope) = waiters.next()?;
        (*found == mutex).then_some((*seq, *scope))
    }
}
