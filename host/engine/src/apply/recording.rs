//! The event of a version of a run, as it is stored: what its step takes besides the state.
//!
//! The event holds the decision of [`judge`](super::judge), and the failures of outputs that could
//! not be rendered. So [`replay`](super::replay) needs no value: from [`begin`](super::begin) on, the
//! events of a run lead to each of its states. The usual event takes five or six bytes: its kind,
//! flags, the version, the time, and a check that notices each changed byte.
//!
//! An event is stored with the record of its execution, whose numbers and failure it leaves out. The
//! states that a node leaves for its next call are values: an event has a longer one by its digest.

use serde::{Deserialize, Serialize};
use windlass_model::{
    BlobRef, Body, Digest, ExecutionNo, Failure, Payload, Seq, ShortBytes, Status, TriggerType,
    Version,
};

use super::Event;
use super::judging::{Judged, Judgement, Way};
use super::reopen::Reopening;
use crate::graph::NodeIx;
use crate::state::{Corrupt, Open, RunState, WireFailure, WirePayload};

/// The kinds: the lower bits of the first byte. Those up to [`LISTED`] belong to an execution.
pub(super) const DONE: u8 = 0;
pub(super) const DONE_IN_PART: u8 = 1;
pub(super) const REPEAT: u8 = 2;
pub(super) const RETRY: u8 = 3;
pub(super) const HANDLED: u8 = 4;
pub(super) const FAILED: u8 = 5;
pub(super) const AGAIN: u8 = 6;
pub(super) const WAIT: u8 = 7;
pub(super) const SUSPENDED: u8 = 8;
pub(super) const CHILD: u8 = 9;
pub(super) const LISTED: u8 = 10;
pub(super) const CANCEL_NODE: u8 = 11;
pub(super) const LATER: u8 = 12;
pub(super) const TIMED_OUT: u8 = 13;
pub(super) const CANCEL: u8 = 14;
pub(super) const PAUSE: u8 = 15;
pub(super) const UNPAUSE: u8 = 16;
pub(super) const BROKEN: u8 = 17;
pub(super) const BEGUN: u8 = 18;
pub(super) const REOPENED: u8 = 19;
pub(super) const LOST: u8 = 20;

/// The bits of the first byte that have the kind.
pub(super) const KIND: u8 = 0b1_1111;
/// The execution failed although its node did not.
pub(super) const REFUTED: u8 = 1 << 5;
/// The node ends its branch, or the run.
pub(super) const ENDS_BRANCH: u8 = 1 << 6;
pub(super) const ENDS_RUN: u8 = 1 << 7;

/// The flags behind what belongs to the kind.
pub(super) const ITEMS: u8 = 1;
pub(super) const OUTPUT: u8 = 1 << 1;
pub(super) const STEPS: u8 = 1 << 2;
pub(super) const AFRESH: u8 = 1 << 3;
pub(super) const ADMITTED: u8 = 1 << 4;

/// The limit of executions in place of one that had no part in the step.
pub(super) const NO_LIMIT: u64 = u64::MAX;

/// A state that a node leaves for its next call is part of an event up to this size, in bytes.
const LEFT_BYTES: usize = 64;

/// The event of a version while its step is in progress.
#[derive(Debug)]
pub struct Recording {
    bytes: ShortBytes,
    now_ms: i64,
    max_steps: u64,
    afresh: bool,
    /// The number of outputs of items that were rendered.
    rendered: u32,
    rare: Option<Box<Rare>>,
}

#[derive(Debug, Default)]
struct Rare {
    /// The outputs of items that could not be rendered, by their number in the step.
    items: Vec<(u32, Failure)>,
    output: Option<Option<Failure>>,
    admitted: Vec<(Seq, NodeIx, TriggerType)>,
}

/// Another version of its workflow with which a run continues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Altered {
    /// The definition and the pins before.
    pub before: (Digest, Digest),
    /// The definition and the pins from now on.
    pub now: (Digest, Digest),
    /// The nodes and records with which [`RunState::supply`] was called.
    pub supplied: Vec<(NodeIx, ExecutionNo)>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct WireReopening {
    pub(super) node: Option<NodeIx>,
    pub(super) input: Option<WirePayload>,
    pub(super) from: Vec<(NodeIx, ExecutionNo)>,
    pub(super) altered: Option<Altered>,
}

impl Recording {
    fn new((now_ms, max_steps): (i64, u64)) -> Self {
        Self {
            bytes: ShortBytes::new(),
            now_ms,
            max_steps,
            afresh: false,
            rendered: 0,
            rare: None,
        }
    }

    /// The event of a step, before it is applied: the arguments of
    /// [`apply_judged`](super::apply_judged), and the failure in the record of the execution if its
    /// node failed. None: this event is no step of its own.
    pub fn of(
        event: &Event,
        judged: &Judged,
        failure: Option<&Failure>,
        at: (i64, u64),
    ) -> Option<Self> {
        let mut new = Self::new(at);
        match (event, &judged.0) {
            (Event::Done { end, .. }, Some(judgement)) => new.decided(judgement, *end, failure),
            (Event::Failed { .. } | Event::Again { .. } | Event::Wait { .. }, Some(judgement)) => {
                new.decided(judgement, None, failure);
            }
            (event, _) => new.undecided(event)?,
        }
        Some(new)
    }

    /// The event of version 0, for a run that began at another time than it was created.
    pub fn begun(begin_ms: i64) -> Self {
        let mut new = Self::new((begin_ms, NO_LIMIT));
        new.bytes.push(BEGUN);
        new
    }

    /// In place of the events of a run up to a version: they are not known.
    pub fn lost() -> Self {
        let mut new = Self::new((0, NO_LIMIT));
        new.bytes.push(LOST);
        new
    }

    /// The event of a run that is reopened: the arguments of [`reopen`](super::reopen()), and the
    /// version of its workflow to which its state was moved before.
    pub fn reopened(how: &Reopening, altered: Option<Altered>, at: (i64, u64)) -> Self {
        let mut new = Self::new(at);
        new.bytes.push(REOPENED);
        new.put(&WireReopening {
            node: how.node,
            input: how.input.as_ref().map(WirePayload::of),
            from: how.from.clone(),
            altered,
        });
        new
    }

    fn decided(&mut self, judgement: &Judgement, end: Option<bool>, known: Option<&Failure>) {
        // The record of a refuted execution has the failure that refutes it.
        let known = judgement.refuted.as_ref().or(known);
        let mut first = match end {
            None => 0,
            Some(false) => ENDS_BRANCH,
            Some(true) => ENDS_RUN,
        };
        if judgement.refuted.is_some() {
            first |= REFUTED;
        }
        let cause = |failure: &Failure| (known != Some(failure)).then(|| WireFailure::of(failure));
        match &judgement.way {
            Way::Done(taken) if taken.iter().all(|taken| *taken) => self.bytes.push(first | DONE),
            Way::Done(taken) => {
                self.bytes.push(first | DONE_IN_PART);
                self.put(&packed(taken));
            }
            Way::Repeat(round) => {
                self.bytes.push(first | REPEAT);
                self.put(round);
            }
            Way::Retry { due_ms } => {
                self.bytes.push(first | RETRY);
                self.put(&due_ms.wrapping_sub(self.now_ms));
            }
            Way::Handled(failure, taken) => {
                self.bytes.push(first | HANDLED);
                self.put(&(cause(failure), packed(taken)));
            }
            Way::Failed(failure) => {
                self.bytes.push(first | FAILED);
                self.put(&cause(failure));
            }
        }
    }

    fn undecided(&mut self, event: &Event) -> Option<()> {
        let since = |ms: &i64| ms.wrapping_sub(self.now_ms);
        match event {
            Event::Done { .. } | Event::Failed { .. } | Event::Emitted { .. } => return None,
            Event::Again { after_ms, left, .. } => {
                self.bytes.push(AGAIN);
                self.put(&(after_ms, left.as_ref().map(brief)));
            }
            Event::Wait { until_ms, .. } => {
                let until = since(until_ms);
                self.bytes.push(WAIT);
                self.put(&until);
            }
            Event::Suspended { until_ms, left, .. } => {
                let until = until_ms.as_ref().map(since);
                self.bytes.push(SUSPENDED);
                self.put(&(until, left.as_ref().map(brief)));
            }
            Event::Child { .. } => self.bytes.push(CHILD),
            Event::Listed { count, .. } => {
                self.bytes.push(LISTED);
                self.put(count);
            }
            Event::CancelNode { seq } => {
                self.bytes.push(CANCEL_NODE);
                self.put(seq);
            }
            Event::Later { seq, until_ms } => {
                let until = since(until_ms);
                self.bytes.push(LATER);
                self.put(&(seq, until));
            }
            Event::TimedOut { seq } => {
                self.bytes.push(TIMED_OUT);
                self.put(seq);
            }
            Event::Cancel => self.bytes.push(CANCEL),
            Event::Pause => self.bytes.push(PAUSE),
            Event::Unpause => self.bytes.push(UNPAUSE),
            Event::Broken { failure } => {
                self.bytes.push(BROKEN);
                self.put(&WireFailure::of(failure));
            }
        }
        Some(())
    }

    /// The output of an item was rendered, as the step asked, or could not be.
    pub fn rendered(&mut self, result: &Result<(), Failure>) {
        if let Err(failure) = result {
            let items = &mut self.rare.get_or_insert_default().items;
            items.push((self.rendered, failure.clone()));
        }
        self.rendered = self.rendered.saturating_add(1);
    }

    /// The run had completed, and [`fail_output`](super::fail_output()) was called with this failure.
    pub fn output_failed(&mut self, failure: Option<&Failure>) {
        self.rare.get_or_insert_default().output = Some(failure.cloned());
    }

    /// Notes what has changed beside the stored state since the event before: whether the state was
    /// read from the store, and the external triggers that [`RunState::admit`] has admitted.
    pub fn beside(&mut self, afresh: bool, admitted: Vec<(Seq, NodeIx, TriggerType)>) {
        self.afresh = afresh;
        if !admitted.is_empty() {
            self.rare.get_or_insert_default().admitted = admitted;
        }
    }

    /// Leaves out the limit of executions if it had no part in the step that led to this state: a run
    /// over its limit fails.
    #[must_use]
    pub fn after(mut self, state: &RunState) -> Self {
        let failed = matches!(state.status, Status::Faulted | Status::Cancelled);
        if !failed && !state.is_undoing() {
            self.max_steps = NO_LIMIT;
        }
        self
    }

    /// Encodes the event that leads to this version. `started_ms`: the beginning of the execution
    /// with whose record it is stored, in epoch milliseconds; 0 without a record.
    pub fn encode(mut self, version: Version, started_ms: i64) -> ShortBytes {
        let rare = self.rare.take().map_or_else(Rare::default, |rare| *rare);
        let mut flags = 0;
        let mut set = |flag: u8, on: bool| flags |= if on { flag } else { 0 };
        set(ITEMS, !rare.items.is_empty());
        set(OUTPUT, rare.output.is_some());
        set(STEPS, self.max_steps != NO_LIMIT);
        set(AFRESH, self.afresh);
        set(ADMITTED, !rare.admitted.is_empty());
        self.bytes.push(flags);
        self.put(&version);
        self.put(&self.now_ms.wrapping_sub(started_ms));
        if flags & ITEMS != 0 {
            let items = rare.items.iter();
            let items = items.map(|(nth, failure)| (*nth, WireFailure::of(failure)));
            self.put(&items.collect::<Vec<_>>());
        }
        if let Some(output) = &rare.output {
            self.put(&output.as_ref().map(WireFailure::of));
        }
        if flags & STEPS != 0 {
            let most = self.max_steps;
            self.put(&most);
        }
        if flags & ADMITTED != 0 {
            let admitted = rare.admitted.iter();
            let admitted = admitted.map(|(seq, node, kind)| (*seq, *node, kind.stored()));
            self.put(&admitted.collect::<Vec<_>>());
        }
        let check = check(&self.bytes);
        self.bytes.push(check);
        self.bytes
    }

    fn put(&mut self, value: &impl Serialize) {
        let bytes = std::mem::take(&mut self.bytes);
        // Writing to memory cannot fail. If encoding failed all the same, the check would not hold.
        self.bytes = postcard::to_extend(value, bytes).unwrap_or_default();
    }
}

impl Open {
    /// Whether it is, read from its trigger row, the open execution that events have made. The
    /// cause of the run decides the type of its first triggers, and others may change the due time
    /// of a row.
    pub fn is_made_as(&self, made: &Self) -> bool {
        let kind = match made.kind {
            TriggerType::Start => TriggerType::Start,
            _ => self.kind,
        };
        let known = |left: &Option<Payload>| left.as_ref().map(|it| brief(it).into_payload());
        let read = Self {
            kind,
            due_ms: made.due_ms,
            left: known(&self.left),
            ..self.clone()
        };
        let left = known(&made.left);
        read == Self {
            left,
            ..made.clone()
        }
    }
}

/// A payload that may stand in an event: a longer one by its digest and its length.
fn brief(left: &Payload) -> WirePayload {
    match &left.body {
        Body::Inline(bytes) if bytes.len() > LEFT_BYTES => WirePayload::of(&Payload {
            content_type: left.content_type.clone(),
            body: Body::Blob(BlobRef {
                digest: Digest::of(bytes),
                size: bytes.len() as u64,
            }),
        }),
        _ => WirePayload::of(left),
    }
}

/// Which edges are taken, eight in a byte, with their number.
fn packed(taken: &[bool]) -> (u32, Vec<u8>) {
    let byte = |eight: &[bool]| {
        let bits = eight.iter().enumerate();
        bits.fold(0, |byte, (at, taken)| byte | u8::from(*taken) << at)
    };
    let length = u32::try_from(taken.len()).unwrap_or(u32::MAX);
    (length, taken.chunks(8).map(byte).collect())
}

/// CRC-8: it notices each change within eight bits in a row.
pub(super) fn check(bytes: &[u8]) -> u8 {
    let next = |sum: u8, byte: &u8| SUMS.get(usize::from(sum ^ byte)).copied();
    bytes
        .iter()
        .fold(0xff, |sum, byte| next(sum, byte).unwrap_or_default())
}

/// The sums of each byte by itself.
#[expect(
    clippy::indexing_slicing,
    reason = "each byte has a place in the table"
)]
const SUMS: [u8; 256] = {
    let mut sums = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u8;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 0x80 == 0 {
                sum << 1
            } else {
                (sum << 1) ^ 0x07
            };
            bit += 1;
        }
        sums[byte] = sum;
        byte += 1;
    }
    sums
};

pub(super) fn corrupt(reason: &'static str) -> Corrupt {
    Corrupt {
        what: "event",
        reason,
    }
}
