//! Encodes the head: a version, and the values that differ from an empty state.
//!
//! A byte of flags behind the version says which of the rarer values follow. A scope other than the
//! root is encoded by itself, much like the head.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use windlass_model::{ExecutionNo, ScopeNo, Seq, Status, TriggerType};

use super::failure::WireFailure;
use super::joining::{Joining, Near, Pages, WireSlot, grow_slots, shrink_slots};
use super::ledger::{self, Ledger};
use super::{
    Corrupt, Local, Looping, Open, OpenForEach, OpenRow, Remains, Round, RunState, Scope, Undoing,
    Visits,
};
use crate::graph::{EdgeIx, Graph, LoopIx, NodeIx};

const VERSION: u8 = 1;

/// Flags of the head: a [`WireMore`], a [`WireRemains`], a [`WireVisits`] follows.
const MORE: u8 = 1;
const REMAINS: u8 = 1 << 1;
const VISITS: u8 = 1 << 2;

/// The kind of a row beside the head: the byte after its version.
const SCOPE: u8 = 0;
const LEDGER: u8 = 1;
const WAITING: u8 = 2;

/// The counted visits of nodes.
type WireVisits = Vec<(NodeIx, Visits)>;

#[derive(Serialize, Deserialize)]
struct Wire {
    status: u8,
    next_seq: u64,
    steps: u64,
    incidents: u32,
    waiting: u32,
    deadline_ms: Option<i64>,
    timeout: Option<u64>,
    output: Option<ExecutionNo>,
    latest: Vec<(NodeIx, i64)>,
    joins: Vec<(NodeIx, Vec<WireSlot>)>,
    loops: Vec<(LoopIx, Looping)>,
}

/// Lists, critical sections and the undoing of nodes.
#[derive(Default, PartialEq, Serialize, Deserialize)]
struct WireMore {
    numbered: u64,
    lists: Vec<WireListing>,
    queued: Vec<WireQueued>,
    ledger: Vec<(NodeIx, i64)>,
    pages: Vec<ScopeNo>,
    undoing: Option<WireUndoing>,
}

#[derive(PartialEq, Serialize, Deserialize)]
struct WireUndoing {
    status: u8,
    failure: Option<WireFailure>,
}

/// What a run that ended without completing leaves.
#[derive(Default, Serialize, Deserialize)]
struct WireRemains {
    open: Vec<WireQueued>,
    undone: bool,
}

#[derive(Serialize, Deserialize)]
struct WireScope {
    parent: ScopeNo,
    list: Seq,
    index: u32,
    output: Option<ExecutionNo>,
    latest: Vec<(NodeIx, i64)>,
    joins: Vec<(NodeIx, Vec<WireSlot>)>,
    loops: Vec<(LoopIx, Looping)>,
    lists: Vec<WireListing>,
    queued: Vec<WireQueued>,
    visits: WireVisits,
}

#[derive(PartialEq, Serialize, Deserialize)]
struct WireListing {
    seq: Seq,
    node: NodeIx,
    edge: Option<EdgeIx>,
    first: Seq,
    attempt: u32,
    phase: u32,
    give_up_ms: Option<i64>,
    round: Option<Round>,
    run: ExecutionNo,
    count: u32,
    next: u32,
}

/// A node run that waits for a critical section, in the form of a trigger row.
#[derive(PartialEq, Serialize, Deserialize)]
struct WireQueued {
    seq: Seq,
    node: u32,
    kind: u8,
    attempt: u32,
    detail: Vec<u8>,
}

impl RunState {
    /// Encodes the head: the state without [`RunState::open`] and the scopes other than the root.
    pub fn encode(&self) -> Vec<u8> {
        let mut near = Near::default();
        let wire = Wire {
            status: self.status as u8,
            next_seq: self.next_seq.0,
            steps: self.steps,
            incidents: self.incidents,
            waiting: self.waiting,
            deadline_ms: self.deadline_ms,
            timeout: self.timeout.map(|seq| seq.0),
            output: self.output,
            latest: shrink_latest(&self.root, &mut near),
            joins: shrink_joins(&self.root, &mut near),
            loops: loops(&self.root),
        };
        let mut more = WireMore {
            numbered: self.numbered,
            lists: shrink_lists(&self.root),
            queued: shrink_queued(&self.root),
            undoing: self.undoing.as_ref().map(|undoing| WireUndoing {
                status: undoing.status,
                failure: undoing.failure.as_ref().map(WireFailure::of),
            }),
            ..WireMore::default()
        };
        // A run that is over undoes no more nodes and stores no pages.
        if !self.status.is_final() {
            more.ledger = shrink_entries(self.ledger.tail(), &mut near);
            more.pages.clone_from(&self.ledger.pages);
        }
        // Writing to memory cannot fail, and postcard supports all types in `Wire`. If encoding
        // failed all the same, `decode` would refuse the empty bytes.
        let remains = WireRemains {
            open: shrink_open(self.remains.open.iter()),
            undone: self.remains.undone,
        };
        let mut flags = 0;
        let mut set = |flag: u8, on: bool| flags |= if on { flag } else { 0 };
        set(MORE, more != WireMore::default());
        set(REMAINS, self.remains != Remains::default());
        set(VISITS, !self.root.visits.is_empty());
        let mut bytes = Vec::with_capacity(64);
        bytes.extend([VERSION, flags]);
        let mut bytes = postcard::to_extend(&wire, bytes).unwrap_or_default();
        if flags & MORE != 0 {
            bytes = postcard::to_extend(&more, bytes).unwrap_or_default();
        }
        if flags & REMAINS != 0 {
            bytes = postcard::to_extend(&remains, bytes).unwrap_or_default();
        }
        if flags & VISITS != 0 {
            bytes = postcard::to_extend(&visits(&self.root), bytes).unwrap_or_default();
        }
        bytes
    }

    /// Encodes a scope or a page; none if it does not exist.
    pub(super) fn encode_scope(&self, no: ScopeNo) -> Option<Vec<u8>> {
        let mut near = Near::default();
        let mut bytes = Vec::with_capacity(32);
        if let Some(at) = self.ledger.pages.iter().position(|page| *page == no) {
            bytes.extend([VERSION, LEDGER]);
            let entries = shrink_entries(self.ledger.page(at), &mut near);
            return Some(postcard::to_extend(&entries, bytes).unwrap_or_default());
        }
        if let Some(waiting) = self.page(no) {
            bytes.extend([VERSION, WAITING]);
            return Some(postcard::to_extend(&waiting, bytes).unwrap_or_default());
        }
        let scope = self.scopes.get(&no)?;
        bytes.extend([VERSION, SCOPE]);
        let wire = WireScope {
            parent: scope.parent,
            list: scope.list,
            index: scope.index,
            output: scope.output,
            latest: shrink_latest(&scope.local, &mut near),
            joins: shrink_joins(&scope.local, &mut near),
            loops: loops(&scope.local),
            lists: shrink_lists(&scope.local),
            queued: shrink_queued(&scope.local),
            visits: visits(&scope.local),
        };
        Some(postcard::to_extend(&wire, bytes).unwrap_or_default())
    }

    /// Decodes a state, with no open executions yet, from its head and from the stored scopes and
    /// pages that [`RunState::drain_scopes`] returned, in the order of their numbers.
    ///
    /// # Errors
    ///
    /// The bytes are damaged, of an unknown version, or from a run of another graph.
    pub fn decode<'a>(
        graph: &Graph,
        head: &[u8],
        scopes: impl IntoIterator<Item = (ScopeNo, &'a [u8])>,
    ) -> Result<Self, Corrupt> {
        let Head {
            wire,
            more,
            remains,
            visited,
        } = read_head(head)?;
        let status =
            Status::from_stored(wire.status).ok_or_else(|| corrupt("its status is unknown"))?;
        let mut rows = Vec::new();
        let (mut entries, mut waiting) = (BTreeMap::new(), Pages::new());
        for (no, bytes) in scopes {
            match bytes {
                [VERSION, SCOPE, bytes @ ..] => rows.push((no, whole(bytes)?)),
                [VERSION, LEDGER, bytes @ ..] => {
                    let page = grow_entries(graph, whole(bytes)?, &mut Near::default())?;
                    entries.insert(no, page);
                }
                [VERSION, WAITING, bytes @ ..] => {
                    waiting.insert(no, whole(bytes)?);
                }
                _ => return Err(corrupt("the version of a scope is unknown")),
            }
        }
        let mut near = Near::default();
        let root = Local {
            latest: grow_latest(graph, wire.latest, &mut near)?,
            joins: grow_joins(graph, wire.joins, &mut near, &mut waiting)?,
            loops: grow_loops(graph, wire.loops)?,
            visits: grow_visits(graph, visited)?,
            ..Local::default()
        };
        let tail = grow_entries(graph, more.ledger, &mut near)?;
        let mut state = Self {
            status,
            next_seq: Seq(wire.next_seq),
            steps: wire.steps,
            incidents: wire.incidents,
            waiting: wire.waiting,
            deadline_ms: wire.deadline_ms,
            timeout: wire.timeout.map(Seq),
            output: wire.output,
            root,
            numbered: more.numbered,
            undoing: more.undoing.map(grow_undoing).transpose()?,
            remains: grow_remains(graph, remains)?,
            ..Self::default()
        };
        state.grow_lists(graph, ScopeNo::ROOT, more.lists)?;
        state.grow_queued(graph, ScopeNo::ROOT, more.queued)?;
        for (no, row) in rows {
            state.grow_scope(graph, no, row, &mut waiting)?;
        }
        state.find_pages();
        state.ledger = grow_ledger(more.pages, entries, tail)?;
        Ok(state)
    }

    fn find_pages(&mut self) {
        let root = std::iter::once((ScopeNo::ROOT, &self.root));
        let scopes = self.scopes.iter().map(|(no, scope)| (*no, &scope.local));
        let pages = root.chain(scopes).flat_map(|(scope, local)| {
            let joins = local.joins.iter();
            joins.flat_map(move |(node, joining)| {
                let pages = joining.pages();
                pages.map(move |(page, slot)| (page, (scope, *node, slot)))
            })
        });
        self.pages = pages.collect();
    }

    fn grow_scope(
        &mut self,
        graph: &Graph,
        no: ScopeNo,
        wire: WireScope,
        waiting: &mut Pages,
    ) -> Result<(), Corrupt> {
        let around = self.quietly(wire.parent);
        let listing = around.and_then(|local| local.lists.get_mut(&wire.list));
        let listing = listing.ok_or_else(|| corrupt("a scope belongs to no list"))?;
        if wire.index >= listing.next || !listing.live.insert(no) {
            return Err(corrupt("a scope belongs to no item"));
        }
        let (run, node) = (listing.run, listing.node);
        let mut near = Near::default();
        let local = Local {
            latest: grow_latest(graph, wire.latest, &mut near)?,
            joins: grow_joins(graph, wire.joins, &mut near, waiting)?,
            loops: grow_loops(graph, wire.loops)?,
            visits: grow_visits(graph, wire.visits)?,
            ..Local::default()
        };
        let scope = Scope {
            parent: wire.parent,
            list: wire.list,
            run,
            node,
            index: wire.index,
            output: wire.output,
            bytes: 0,
            local,
        };
        self.scopes.insert(no, scope);
        self.grow_lists(graph, no, wire.lists)?;
        self.grow_queued(graph, no, wire.queued)?;
        self.weigh(no);
        Ok(())
    }

    fn grow_lists(
        &mut self,
        graph: &Graph,
        scope: ScopeNo,
        wire: Vec<WireListing>,
    ) -> Result<(), Corrupt> {
        for wire in wire {
            graph
                .node(wire.node)
                .ok_or_else(|| corrupt("it names a list of a node that does not exist"))?;
            self.held.extend(graph.mutex_of(wire.node));
            let listing = OpenForEach {
                node: wire.node,
                edge: wire.edge,
                first: wire.first,
                attempt: wire.attempt,
                phase: wire.phase,
                give_up_ms: wire.give_up_ms,
                round: wire.round,
                run: wire.run,
                count: wire.count,
                next: wire.next,
                live: BTreeSet::new(),
            };
            let local = self.quietly(scope);
            local.and_then(|local| local.lists.insert(wire.seq, listing));
        }
        Ok(())
    }

    fn grow_queued(
        &mut self,
        graph: &Graph,
        scope: ScopeNo,
        wire: Vec<WireQueued>,
    ) -> Result<(), Corrupt> {
        for wire in wire {
            let open = grow_open(graph, &wire)?;
            let mutex = graph
                .mutex_of(open.node)
                .ok_or_else(|| corrupt("something waits for nothing"))?;
            self.waiters.insert((mutex, wire.seq), scope);
            let local = self.quietly(scope);
            local.and_then(|local| local.queued.insert(wire.seq, open));
        }
        Ok(())
    }
}

/// The parts of an encoded head.
struct Head {
    wire: Wire,
    more: WireMore,
    remains: WireRemains,
    visited: WireVisits,
}

fn read_head(head: &[u8]) -> Result<Head, Corrupt> {
    let (flags, bytes) = match head {
        [VERSION, flags, rest @ ..] if *flags < VISITS << 1 => (*flags, rest),
        _ => return Err(corrupt("its version is unknown")),
    };
    let (wire, bytes) = take(bytes)?;
    let (more, bytes) = flagged(flags & MORE, bytes)?;
    let (remains, bytes) = flagged(flags & REMAINS, bytes)?;
    let (visited, bytes) = flagged(flags & VISITS, bytes)?;
    if !bytes.is_empty() {
        return Err(corrupt("something follows it"));
    }
    Ok(Head {
        wire,
        more,
        remains,
        visited,
    })
}

/// A value that a flag announces.
fn flagged<'a, T: Default + Deserialize<'a>>(
    flag: u8,
    bytes: &'a [u8],
) -> Result<(T, &'a [u8]), Corrupt> {
    match flag {
        0 => Ok((T::default(), bytes)),
        _ => take(bytes),
    }
}

fn grow_undoing(wire: WireUndoing) -> Result<Undoing, Corrupt> {
    let failure = wire.failure.map(WireFailure::into_failure).transpose();
    Ok(Undoing {
        status: wire.status,
        failure: failure.map_err(|_| corrupt("the details of its failure are not JSON"))?,
    })
}

fn visits(local: &Local) -> WireVisits {
    let visits = local.visits.iter();
    visits
        .map(|(node, visits)| (*node, visits.clone()))
        .collect()
}

fn grow_visits(graph: &Graph, visited: WireVisits) -> Result<BTreeMap<NodeIx, Visits>, Corrupt> {
    let known = |(node, _): &(NodeIx, Visits)| graph.node(*node).is_some();
    if !visited.iter().all(known) {
        return Err(corrupt("it counts visits of a node that does not exist"));
    }
    Ok(visited.into_iter().collect())
}

/// The active lists of a scope, and the node runs that wait there for a critical section, each as
/// its trigger and its node.
pub(super) struct Standing {
    /// The scope around it, and the index of the item; none for the root.
    pub(super) item: Option<(ScopeNo, u32)>,
    pub(super) lists: Vec<(Seq, NodeIx)>,
    pub(super) queued: Vec<(Seq, NodeIx)>,
}

impl Standing {
    fn of(item: Option<(ScopeNo, u32)>, lists: &[WireListing], queued: &[WireQueued]) -> Self {
        let lists = lists.iter().map(|list| (list.seq, list.node));
        let queued = queued.iter().map(|wire| (wire.seq, NodeIx(wire.node)));
        Self {
            item,
            lists: lists.collect(),
            queued: queued.collect(),
        }
    }

    /// Reads the root scope.
    pub(super) fn of_head(head: &[u8]) -> Result<Self, Corrupt> {
        let Head { more, .. } = read_head(head)?;
        Ok(Self::of(None, &more.lists, &more.queued))
    }

    /// Reads another scope; none if the row is not a scope.
    pub(super) fn of_row(row: &[u8]) -> Result<Option<Self>, Corrupt> {
        let [VERSION, SCOPE, bytes @ ..] = row else {
            return Ok(None);
        };
        let wire: WireScope = whole(bytes)?;
        let item = Some((wire.parent, wire.index));
        Ok(Some(Self::of(item, &wire.lists, &wire.queued)))
    }
}

fn grow_open(graph: &Graph, wire: &WireQueued) -> Result<Open, Corrupt> {
    let kind = TriggerType::from_stored(wire.kind)
        .ok_or_else(|| corrupt("something waits that is of no type"))?;
    let row = OpenRow {
        seq: wire.seq,
        node: wire.node,
        kind,
        attempt: wire.attempt,
        due_ms: 0,
    };
    Open::decode_detail(graph, row, &wire.detail)
}

fn grow_remains(graph: &Graph, wire: WireRemains) -> Result<Remains, Corrupt> {
    let open = wire.open.iter().map(|wire| grow_open(graph, wire));
    Ok(Remains {
        open: open.collect::<Result<_, _>>()?,
        undone: wire.undone,
    })
}

fn corrupt(reason: &'static str) -> Corrupt {
    Corrupt {
        what: "state",
        reason,
    }
}

fn take<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(T, &'a [u8]), Corrupt> {
    postcard::take_from_bytes(bytes).map_err(|_| corrupt("it is cut off or damaged"))
}

fn whole<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Corrupt> {
    match take(bytes)? {
        (value, []) => Ok(value),
        _ => Err(corrupt("something follows a scope")),
    }
}

fn grow_ledger(
    pages: Vec<ScopeNo>,
    mut read: BTreeMap<ScopeNo, Vec<(NodeIx, ExecutionNo)>>,
    tail: Vec<(NodeIx, ExecutionNo)>,
) -> Result<Ledger, Corrupt> {
    let mut entries = Vec::new();
    for page in &pages {
        let page = read.remove(page).filter(|page| page.len() == ledger::PAGE);
        entries.extend(page.ok_or_else(|| corrupt("a page is missing"))?);
    }
    entries.extend(tail);
    Ok(Ledger { entries, pages })
}

fn shrink_latest(local: &Local, near: &mut Near) -> Vec<(NodeIx, i64)> {
    let latest = local.latest.iter();
    latest
        .map(|(node, run)| (*node, near.shrink(*run)))
        .collect()
}

fn grow_latest(
    graph: &Graph,
    wire: Vec<(NodeIx, i64)>,
    near: &mut Near,
) -> Result<BTreeMap<NodeIx, ExecutionNo>, Corrupt> {
    Ok(grow_entries(graph, wire, near)?.into_iter().collect())
}

fn shrink_entries(entries: &[(NodeIx, ExecutionNo)], near: &mut Near) -> Vec<(NodeIx, i64)> {
    entries
        .iter()
        .map(|(node, run)| (*node, near.shrink(*run)))
        .collect()
}

fn grow_entries(
    graph: &Graph,
    wire: Vec<(NodeIx, i64)>,
    near: &mut Near,
) -> Result<Vec<(NodeIx, ExecutionNo)>, Corrupt> {
    let mut entries = Vec::with_capacity(wire.len());
    for (node, difference) in wire {
        graph
            .node(node)
            .ok_or_else(|| corrupt("it names a node that does not exist"))?;
        entries.push((node, near.grow(difference)));
    }
    Ok(entries)
}

fn shrink_joins(local: &Local, near: &mut Near) -> Vec<(NodeIx, Vec<WireSlot>)> {
    let joins = local.joins.iter();
    joins
        .map(|(node, joining)| (*node, shrink_slots(&joining.slots, near)))
        .collect()
}

fn grow_joins(
    graph: &Graph,
    wire: Vec<(NodeIx, Vec<WireSlot>)>,
    near: &mut Near,
    pages: &mut Pages,
) -> Result<BTreeMap<NodeIx, Joining>, Corrupt> {
    let mut joins = BTreeMap::new();
    for (node, slots) in wire {
        let plan = graph
            .node(node)
            .ok_or_else(|| corrupt("it names a join that does not exist"))?;
        let joining = grow_slots(slots, plan.inbound.len(), near, pages)
            .ok_or_else(|| corrupt("a join has other edges or pages"))?;
        joins.insert(node, joining);
    }
    Ok(joins)
}

fn loops(local: &Local) -> Vec<(LoopIx, Looping)> {
    let loops = local.loops.iter();
    loops.map(|(at, looping)| (*at, looping.clone())).collect()
}

fn grow_loops(
    graph: &Graph,
    wire: Vec<(LoopIx, Looping)>,
) -> Result<BTreeMap<LoopIx, Looping>, Corrupt> {
    let mut loops = BTreeMap::new();
    for (at, looping) in wire {
        let around = graph
            .loops()
            .get(at.at())
            .ok_or_else(|| corrupt("it names a loop that does not exist"))?;
        if !around.bears(looping.arrived) {
            return Err(corrupt("more has arrived at a loop than it may hold"));
        }
        loops.insert(at, looping);
    }
    Ok(loops)
}

fn shrink_lists(local: &Local) -> Vec<WireListing> {
    let lists = local.lists.iter();
    lists
        .map(|(seq, listing)| WireListing {
            seq: *seq,
            node: listing.node,
            edge: listing.edge,
            first: listing.first,
            attempt: listing.attempt,
            phase: listing.phase,
            give_up_ms: listing.give_up_ms,
            round: listing.round,
            run: listing.run,
            count: listing.count,
            next: listing.next,
        })
        .collect()
}

fn shrink_queued(local: &Local) -> Vec<WireQueued> {
    shrink_open(local.queued.values())
}

fn shrink_open<'a>(open: impl Iterator<Item = &'a Open>) -> Vec<WireQueued> {
    open.map(|open| WireQueued {
        seq: open.seq,
        node: open.node.0,
        kind: open.kind.stored(),
        attempt: open.attempt,
        detail: open.encode_detail(),
    })
    .collect()
}
