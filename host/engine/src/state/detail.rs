//! An open execution as the opaque part of its trigger row.
//!
//! Most of it has columns of its own in the row. The rest is a version, two bytes of flags and the
//! values that the flags announce. An entry of a run needs no bytes.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use windlass_model::{BlobRef, Body, ExecutionNo, Payload, ScopeNo, Seq, TriggerType};

use super::failure::WireFailure;
use super::{Collect, Corrupt, Open, Round};
use crate::graph::{EdgeIx, Graph, NodeIx};

const VERSION: u8 = 1;

const WAITING: u8 = 1;
const DUE: u8 = 1 << 1;
const EDGE: u8 = 1 << 2;
const FIRST: u8 = 1 << 3;
const PHASE: u8 = 1 << 4;
const GIVE_UP: u8 = 1 << 5;
const FROM: u8 = 1 << 6;
const LEFT: u8 = 1 << 7;

const SCOPE: u8 = 1;
const EXPIRES: u8 = 1 << 1;
const GIVE_UP_WAIT: u8 = 1 << 2;
const ROUND: u8 = 1 << 3;
const COLLECT: u8 = 1 << 4;
const INPUT: u8 = 1 << 5;

/// The columns of a trigger row from which an open execution is made, besides its detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenRow {
    /// Its sequence number.
    pub seq: Seq,
    /// The position of the target node.
    pub node: u32,
    /// The type of the trigger.
    pub kind: TriggerType,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The due time, in epoch milliseconds.
    pub due_ms: i64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct WirePayload {
    content_type: Option<String>,
    body: WireBody,
}

#[derive(Serialize, Deserialize)]
enum WireBody {
    Inline(Bytes),
    Blob(BlobRef),
}

#[derive(Serialize, Deserialize)]
struct WireCollect {
    list: Seq,
    run: ExecutionNo,
    count: u32,
    fault: Option<WireFailure>,
}

impl Open {
    /// Encodes the values that have no column in the trigger row.
    pub fn encode_detail(&self) -> Vec<u8> {
        let mut flags = 0;
        let mut set = |flag: u8, on: bool| flags |= if on { flag } else { 0 };
        set(WAITING, self.waiting);
        set(DUE, self.due_ms.is_some());
        set(EDGE, self.edge.is_some());
        set(FIRST, self.first != self.seq);
        set(PHASE, self.phase != 0);
        set(GIVE_UP, self.give_up_ms.is_some());
        set(FROM, !self.from.is_empty());
        set(LEFT, self.left.is_some());
        let mut more = 0;
        let mut set = |flag: u8, on: bool| more |= if on { flag } else { 0 };
        set(SCOPE, self.scope != ScopeNo::ROOT);
        set(EXPIRES, self.expires_ms.is_some());
        set(GIVE_UP_WAIT, self.give_up_wait_ms.is_some());
        set(ROUND, self.round.is_some());
        set(COLLECT, self.collect.is_some());
        set(INPUT, self.input.is_some());
        if flags == 0 && more == 0 {
            return Vec::new();
        }
        let mut bytes = Vec::with_capacity(24);
        bytes.extend([VERSION, flags, more]);
        if let Some(edge) = self.edge {
            bytes = put(bytes, &edge);
        }
        if self.first != self.seq {
            bytes = put(bytes, &self.seq.0.wrapping_sub(self.first.0));
        }
        if self.phase != 0 {
            bytes = put(bytes, &self.phase);
        }
        if let Some(give_up_ms) = self.give_up_ms {
            bytes = put(bytes, &give_up_ms);
        }
        if !self.from.is_empty() {
            bytes = put(bytes, &self.from);
        }
        if let Some(left) = &self.left {
            bytes = put(bytes, &WirePayload::of(left));
        }
        if self.scope != ScopeNo::ROOT {
            bytes = put(bytes, &self.scope);
        }
        if let Some(expires_ms) = self.expires_ms {
            bytes = put(bytes, &expires_ms);
        }
        if let Some(give_up_wait_ms) = self.give_up_wait_ms {
            bytes = put(bytes, &give_up_wait_ms);
        }
        if let Some(round) = &self.round {
            bytes = put(bytes, round);
        }
        if let Some(collect) = &self.collect {
            bytes = put(bytes, &WireCollect::of(collect));
        }
        if let Some(input) = &self.input {
            bytes = put(bytes, &WirePayload::of(input));
        }
        bytes
    }

    /// The open execution of a trigger row.
    ///
    /// # Errors
    ///
    /// The bytes are damaged, of an unknown version, or from a run of another graph.
    pub fn decode_detail(graph: &Graph, row: OpenRow, detail: &[u8]) -> Result<Self, Corrupt> {
        let open = Self::read_detail(row, detail)?;
        let nodes = open.from.iter().map(|(node, _)| *node).chain([open.node]);
        if nodes.into_iter().any(|node| graph.node(node).is_none())
            || open.edge.is_some_and(|edge| graph.edge(edge).is_none())
        {
            return Err(corrupt("it names a node or an edge that does not exist"));
        }
        Ok(open)
    }

    /// As [`Open::decode_detail`], for read-only use: the nodes and the edge that it names may not
    /// exist.
    ///
    /// # Errors
    ///
    /// The bytes are damaged, or of an unknown version.
    pub fn read_detail(row: OpenRow, detail: &[u8]) -> Result<Self, Corrupt> {
        let (flags, more, mut rest) = match detail {
            [] => (0, 0, detail),
            [VERSION, flags, more, rest @ ..] if *more < INPUT << 1 => (*flags, *more, rest),
            _ => return Err(corrupt("its version is unknown")),
        };
        let back: Option<u64>;
        let open = Self {
            seq: row.seq,
            node: NodeIx(row.node),
            kind: row.kind,
            attempt: row.attempt,
            waiting: flags & WAITING != 0,
            due_ms: (flags & DUE != 0).then_some(row.due_ms),
            edge: take::<EdgeIx>(flags & EDGE, &mut rest)?,
            first: {
                back = take(flags & FIRST, &mut rest)?;
                Seq(row.seq.0.wrapping_sub(back.unwrap_or_default()))
            },
            phase: take(flags & PHASE, &mut rest)?.unwrap_or_default(),
            give_up_ms: take(flags & GIVE_UP, &mut rest)?,
            from: take::<Vec<(NodeIx, ExecutionNo)>>(flags & FROM, &mut rest)?.unwrap_or_default(),
            left: take::<WirePayload>(flags & LEFT, &mut rest)?.map(WirePayload::into_payload),
            scope: take(more & SCOPE, &mut rest)?.unwrap_or(ScopeNo::ROOT),
            expires_ms: take(more & EXPIRES, &mut rest)?,
            give_up_wait_ms: take(more & GIVE_UP_WAIT, &mut rest)?,
            round: take::<Round>(more & ROUND, &mut rest)?,
            collect: take::<WireCollect>(more & COLLECT, &mut rest)?
                .map(|wire| wire.into_collect().map(Box::new))
                .transpose()?,
            input: take::<WirePayload>(more & INPUT, &mut rest)?.map(WirePayload::into_payload),
        };
        if !rest.is_empty() {
            return Err(corrupt("something follows it"));
        }
        Ok(open)
    }
}

fn corrupt(reason: &'static str) -> Corrupt {
    Corrupt {
        what: "trigger",
        reason,
    }
}

pub(super) fn put<B: Extend<u8> + Default>(bytes: B, value: &impl Serialize) -> B {
    // Writing to memory cannot fail, and postcard supports all of the types above. If encoding
    // failed all the same, the bytes would be empty, and the row would visibly lead to no node.
    postcard::to_extend(value, bytes).unwrap_or_default()
}

pub(super) fn take<T: DeserializeOwned>(flag: u8, rest: &mut &[u8]) -> Result<Option<T>, Corrupt> {
    if flag == 0 {
        return Ok(None);
    }
    let (value, after) =
        postcard::take_from_bytes(rest).map_err(|_| corrupt("it is cut off or damaged"))?;
    *rest = after;
    Ok(Some(value))
}

impl WireCollect {
    fn of(collect: &Collect) -> Self {
        Self {
            list: collect.list,
            run: collect.run,
            count: collect.count,
            fault: collect.fault.as_ref().map(WireFailure::of),
        }
    }

    fn into_collect(self) -> Result<Collect, Corrupt> {
        let fault = self.fault.map(WireFailure::into_failure).transpose();
        Ok(Collect {
            list: self.list,
            run: self.run,
            count: self.count,
            fault: fault.map_err(|_| corrupt("the details of a failure are not JSON"))?,
        })
    }
}

impl WirePayload {
    pub(crate) fn of(payload: &Payload) -> Self {
        Self {
            content_type: payload.content_type.clone(),
            body: match &payload.body {
                Body::Inline(bytes) => WireBody::Inline(bytes.clone()),
                Body::Blob(blob) => WireBody::Blob(*blob),
            },
        }
    }

    pub(crate) fn into_payload(self) -> Payload {
        Payload {
            content_type: self.content_type,
            body: match self.body {
                WireBody::Inline(bytes) => Body::Inline(bytes),
                WireBody::Blob(blob) => Body::Blob(blob),
            },
        }
    }
}
