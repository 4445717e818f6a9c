//! The head as bytes: a version, and what differs from nothing.
//!
//! Numbers of run records are written as differences from the one before, since those of one
//! run lie close together: a join over a hundred branches then costs a few hundred bytes.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use windlass_model::{RunNo, Seq, Status};

use super::{Corrupt, Decision, Joining, Looping, Slot, State};
use crate::graph::{Graph, LoopIx, NodeIx};

const VERSION: u8 = 1;

#[derive(Serialize, Deserialize)]
struct Wire {
    status: u8,
    next_seq: u64,
    steps: u64,
    incidents: u32,
    waiting: u32,
    deadline_ms: Option<i64>,
    timeout: Option<u64>,
    output: Option<RunNo>,
    latest: Vec<(NodeIx, i64)>,
    joins: Vec<(NodeIx, Vec<WireSlot>)>,
    loops: Vec<(LoopIx, Looping)>,
}

/// One slot that is not at rest.
#[derive(Serialize, Deserialize)]
struct WireSlot {
    at: u32,
    kind: WireKind,
}

#[derive(Serialize, Deserialize)]
enum WireKind {
    Owed(u32),
    Dead,
    Taken(i64),
    Waiting(Vec<Option<i64>>),
}

/// Turns run numbers into differences and back.
#[derive(Default)]
struct Near(i64);

impl Near {
    fn shrink(&mut self, run: RunNo) -> i64 {
        let difference = run.0.wrapping_sub(self.0);
        self.0 = run.0;
        difference
    }

    fn grow(&mut self, difference: i64) -> RunNo {
        self.0 = self.0.wrapping_add(difference);
        RunNo(self.0)
    }

    fn shrink_decision(&mut self, decision: Decision) -> Option<i64> {
        match decision {
            Decision::Dead => None,
            Decision::Taken(run) => Some(self.shrink(run)),
        }
    }

    fn grow_decision(&mut self, difference: Option<i64>) -> Decision {
        difference.map_or(Decision::Dead, |difference| {
            Decision::Taken(self.grow(difference))
        })
    }
}

impl State {
    /// The head as bytes, without [`State::open`].
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
            latest: self
                .latest
                .iter()
                .map(|(node, run)| (*node, near.shrink(*run)))
                .collect(),
            joins: self
                .joins
                .iter()
                .map(|(node, joining)| (*node, shrink_slots(&joining.slots, &mut near)))
                .collect(),
            loops: self
                .loops
                .iter()
                .map(|(at, looping)| (*at, looping.clone()))
                .collect(),
        };
        // Writing to memory cannot fail, and `Wire` has nothing that postcard refuses. Should
        // it do so all the same, empty bytes are refused by `decode`.
        let mut bytes = Vec::with_capacity(64);
        bytes.push(VERSION);
        postcard::to_extend(&wire, bytes).unwrap_or_default()
    }

    /// The state whose head these bytes are, with nothing open yet.
    ///
    /// # Errors
    ///
    /// The bytes are damaged, of an unknown version, or of the run of another graph.
    pub fn decode(graph: &Graph, bytes: &[u8]) -> Result<Self, Corrupt> {
        let corrupt = |reason| Corrupt {
            what: "state",
            reason,
        };
        let (VERSION, bytes) = bytes
            .split_first()
            .map_or((0, bytes), |(v, rest)| (*v, rest))
        else {
            return Err(corrupt("its version is unknown"));
        };
        let (wire, []) = postcard::take_from_bytes::<Wire>(bytes)
            .map_err(|_| corrupt("it is cut off or damaged"))?
        else {
            return Err(corrupt("something follows it"));
        };
        let status =
            Status::from_stored(wire.status).ok_or_else(|| corrupt("its status is unknown"))?;
        let mut near = Near::default();
        let mut latest = BTreeMap::new();
        for (node, difference) in wire.latest {
            graph
                .node(node)
                .ok_or_else(|| corrupt("it names a node that does not exist"))?;
            latest.insert(node, near.grow(difference));
        }
        let mut joins = BTreeMap::new();
        for (node, slots) in wire.joins {
            let plan = graph
                .node(node)
                .ok_or_else(|| corrupt("it names a join that does not exist"))?;
            let joining = grow_slots(slots, plan.inbound.len(), &mut near)
                .ok_or_else(|| corrupt("a join has another number of edges"))?;
            joins.insert(node, joining);
        }
        let mut loops = BTreeMap::new();
        for (at, looping) in wire.loops {
            let around = graph
                .loops()
                .get(at.at())
                .ok_or_else(|| corrupt("it names a loop that does not exist"))?;
            if !around.bears(looping.arrived) {
                return Err(corrupt("more has arrived at a loop than it may hold"));
            }
            loops.insert(at, looping);
        }
        Ok(Self {
            status,
            next_seq: Seq(wire.next_seq),
            steps: wire.steps,
            incidents: wire.incidents,
            open: BTreeMap::new(),
            waiting: wire.waiting,
            deadline_ms: wire.deadline_ms,
            timeout: wire.timeout.map(Seq),
            output: wire.output,
            joins,
            loops,
            latest,
        })
    }
}

fn shrink_slots(slots: &[Slot], near: &mut Near) -> Vec<WireSlot> {
    let mut wire = Vec::new();
    for (at, slot) in (0..).zip(slots) {
        let kind = match slot {
            Slot {
                head: Some(head),
                rest,
                ..
            } if !rest.is_empty() => WireKind::Waiting(
                std::iter::once(head)
                    .chain(rest)
                    .map(|d| near.shrink_decision(*d))
                    .collect(),
            ),
            Slot {
                head: Some(Decision::Dead),
                ..
            } => WireKind::Dead,
            Slot {
                head: Some(Decision::Taken(run)),
                ..
            } => WireKind::Taken(near.shrink(*run)),
            Slot { owed: 0, .. } => continue,
            Slot { owed, .. } => WireKind::Owed(*owed),
        };
        wire.push(WireSlot { at, kind });
    }
    wire
}

fn grow_slots(wire: Vec<WireSlot>, len: usize, near: &mut Near) -> Option<Joining> {
    let mut joining = Joining::of(len);
    for WireSlot { at, kind } in wire {
        let mut slot = Slot::default();
        match kind {
            WireKind::Owed(owed) => slot.owed = owed,
            WireKind::Dead => slot.head = Some(Decision::Dead),
            WireKind::Taken(run) => slot.head = Some(Decision::Taken(near.grow(run))),
            WireKind::Waiting(all) => {
                let mut all: VecDeque<Decision> =
                    all.into_iter().map(|run| near.grow_decision(run)).collect();
                slot.head = all.pop_front();
                slot.rest = all;
            }
        }
        let place = joining.slots.get_mut(at as usize)?;
        if *place != Slot::default() || slot == Slot::default() {
            return None;
        }
        joining.filled += u32::from(slot.head.is_some());
        joining.taken += u32::from(matches!(slot.head, Some(Decision::Taken(_))));
        joining.owing += u32::from(slot.owed > 0);
        *place = slot;
    }
    Some(joining)
}
