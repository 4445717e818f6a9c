//! Stored events: what [`super::recording`] has written, read again.
//!
//! The bytes may come from a damaged store or from another host. Their check holds, or they are
//! refused, and each length in them is within their own.

use serde::de::DeserializeOwned;
use windlass_model::{ExecutionNo, Failure, Seq, ShortBytes, TriggerType, Version};

use super::Event;
use super::judging::Way;
use super::recording::{
    ADMITTED, AFRESH, AGAIN, Altered, BEGUN, BROKEN, CANCEL, CANCEL_NODE, CHILD, DONE,
    DONE_IN_PART, ENDS_BRANCH, ENDS_RUN, FAILED, HANDLED, ITEMS, KIND, LATER, LISTED, LOST,
    NO_LIMIT, OUTPUT, PAUSE, REFUTED, REOPENED, REPEAT, RETRY, Recording, STEPS, SUSPENDED,
    TIMED_OUT, UNPAUSE, WAIT, WireReopening, check, corrupt,
};
use super::reopen::Reopening;
use crate::graph::{Graph, NodeIx};
use crate::state::{Corrupt, Open, Renumber, Round, RunState, WireFailure, WirePayload, one};

/// The record of the execution with which an event is stored.
#[derive(Clone, Copy, Debug)]
pub struct Carrier<'a> {
    /// The trigger.
    pub seq: Seq,
    /// The record.
    pub run: ExecutionNo,
    /// When the execution began, in epoch milliseconds.
    pub started_ms: i64,
    /// Its failure.
    pub failure: Option<&'a Failure>,
}

/// A stored event.
#[derive(Debug)]
pub struct Recorded {
    /// The version to which it leads.
    pub version: Version,
    /// The wall clock, in epoch milliseconds.
    pub now_ms: i64,
    pub(super) max_steps: u64,
    /// Whether the state was read from the store since the event before.
    pub(super) afresh: bool,
    /// The external triggers that were admitted since the event before.
    pub(super) admitted: Vec<(Seq, NodeIx, TriggerType)>,
    pub(super) items: Vec<(u32, Failure)>,
    pub(super) output: Option<Option<Failure>>,
    pub(super) change: Change,
}

#[derive(Debug)]
pub(super) enum Change {
    /// The end of an execution.
    Decided {
        seq: Seq,
        run: ExecutionNo,
        end: Option<bool>,
        refuted: Option<Failure>,
        way: Way,
        /// Whether each edge is taken; the way has none then.
        all: bool,
    },
    Event(Event),
    Begun,
    Reopened(Reopening, Option<Altered>),
    Lost,
}

impl Recorded {
    /// Decodes an event. `of`: the record with which it is stored, if there is one.
    ///
    /// # Errors
    ///
    /// The bytes are damaged, of an unknown kind, or stored with another record.
    pub fn decode(bytes: &[u8], of: Option<Carrier<'_>>) -> Result<Self, Corrupt> {
        let Some((sum, bytes)) = bytes.split_last() else {
            return Err(corrupt("it is empty"));
        };
        if check(bytes) != *sum {
            return Err(corrupt("its check does not hold"));
        }
        let Some((first, mut rest)) = bytes.split_first() else {
            return Err(corrupt("it is empty"));
        };
        let rest = &mut rest;
        let kind = first & KIND;
        if of.is_some() != (kind <= LISTED) {
            return Err(corrupt("it does not belong to the row that has it"));
        }
        let raw = Raw::take(*first, of, rest)?;
        let flags: u8 = take(rest)?;
        if flags >= ADMITTED << 1 {
            return Err(corrupt("its flags are unknown"));
        }
        let version: Version = take(rest)?;
        let since: i64 = take(rest)?;
        let now_ms = since.wrapping_add(of.map_or(0, |of| of.started_ms));
        let items: Vec<(u32, WireFailure)> = flagged(flags & ITEMS, rest)?.unwrap_or_default();
        let items = items.into_iter();
        let output: Option<Option<WireFailure>> = flagged(flags & OUTPUT, rest)?;
        let max_steps = flagged(flags & STEPS, rest)?.unwrap_or(NO_LIMIT);
        let admitted: Vec<(Seq, NodeIx, u8)> = flagged(flags & ADMITTED, rest)?.unwrap_or_default();
        let admitted = admitted.into_iter().map(|(seq, node, kind)| {
            let kind = TriggerType::from_stored(kind);
            let kind = kind.ok_or_else(|| corrupt("it admits a trigger of no type"))?;
            Ok((seq, node, kind))
        });
        if !rest.is_empty() {
            return Err(corrupt("it is too long"));
        }
        Ok(Self {
            version,
            now_ms,
            max_steps,
            afresh: flags & AFRESH != 0,
            admitted: admitted.collect::<Result<_, _>>()?,
            items: items
                .map(|(nth, failure)| Ok((nth, grown(failure)?)))
                .collect::<Result<_, _>>()?,
            output: output
                .map(|failure| failure.map(grown).transpose())
                .transpose()?,
            change: raw.change(now_ms, of)?,
        })
    }

    /// Whether it is the beginning of the run, at [`Recorded::now_ms`].
    pub fn begins(&self) -> bool {
        matches!(self.change, Change::Begun)
    }

    /// Whether it stands in place of the events up to its version.
    pub fn is_lost(&self) -> bool {
        matches!(self.change, Change::Lost)
    }

    /// The version of its workflow with which the run continues, if that changes.
    pub fn altered(&self) -> Option<&Altered> {
        match &self.change {
            Change::Reopened(_, altered) => altered.as_ref(),
            _ => None,
        }
    }

    /// Moves the state of a run that ended to the graph of [`Recorded::altered`], before the event
    /// is replayed.
    ///
    /// # Errors
    ///
    /// The state does not fit that graph.
    pub fn refit(&self, old: &Graph, new: &Graph, state: &mut RunState) -> Result<(), Corrupt> {
        let Change::Reopened(how, Some(altered)) = &self.change else {
            return Ok(());
        };
        let over = how.node.is_some_and(|node| !state.cut_off(node));
        let misfit = |_| corrupt("the state does not fit the other version of the workflow");
        state.refit(old, new, over).map_err(misfit)?;
        for (node, run) in &altered.supplied {
            state.supply(*node, *run);
        }
        Ok(())
    }

    /// An event with other numbers of records: for a run that moves to another store.
    ///
    /// # Errors
    ///
    /// The bytes are damaged, or the event names a record that has no new number.
    pub fn renumbered(
        bytes: &[u8],
        of: Option<Carrier<'_>>,
        to: &mut Renumber<'_>,
    ) -> Result<ShortBytes, Corrupt> {
        let read = Self::decode(bytes, of)?;
        let Change::Reopened(mut how, mut altered) = read.change else {
            return Ok(ShortBytes::from_slice(bytes));
        };
        let supplied = altered.iter_mut().flat_map(|altered| &mut altered.supplied);
        let mut named = how.from.iter_mut().chain(supplied);
        named.try_for_each(|(_, run)| one(run, to))?;
        let mut new = Recording::reopened(&how, altered, (read.now_ms, read.max_steps));
        new.beside(read.afresh, read.admitted);
        Ok(new.encode(read.version, 0))
    }

    /// Admits the triggers that were admitted, and forgets the forgotten parts, before the step.
    pub(super) fn prepare(&mut self, graph: &Graph, state: &mut RunState) -> Result<(), Corrupt> {
        if self.afresh {
            state.forget_external(graph);
        }
        for (seq, node, kind) in std::mem::take(&mut self.admitted) {
            let refused = |_| corrupt("it admits a trigger that cannot be executed");
            if !seq.is_external() {
                return Err(corrupt("it admits a trigger of the engine"));
            }
            let open = Open::external(seq, node, kind);
            state.admit(graph, open).map_err(refused)?;
        }
        Ok(())
    }
}

/// None: the failure of the record.
type WireCause = Option<WireFailure>;

/// What belongs to the kind, before the time of the event is known.
enum Raw {
    Decided {
        end: Option<bool>,
        is_refuted: bool,
        way: RawWay,
    },
    Again(u64, Option<WirePayload>),
    Wait(i64),
    Suspended(Option<i64>, Option<WirePayload>),
    Child,
    Listed(u32),
    CancelNode(Seq),
    Later(Seq, i64),
    TimedOut(Seq),
    Cancel,
    Pause,
    Unpause,
    Broken(WireFailure),
    Begun,
    Reopened(WireReopening),
    Lost,
}

enum RawWay {
    All,
    Done(Vec<bool>),
    Repeat(Round),
    Retry(i64),
    Handled(WireCause, Vec<bool>),
    Failed(WireCause),
}

impl Raw {
    fn take(first: u8, of: Option<Carrier<'_>>, rest: &mut &[u8]) -> Result<Self, Corrupt> {
        let kind = first & KIND;
        let way = match kind {
            DONE => Some(RawWay::All),
            DONE_IN_PART => Some(RawWay::Done(unpacked(take(rest)?)?)),
            REPEAT => Some(RawWay::Repeat(take(rest)?)),
            RETRY => Some(RawWay::Retry(take(rest)?)),
            HANDLED => {
                let (cause, taken) = take(rest)?;
                Some(RawWay::Handled(cause, unpacked(taken)?))
            }
            FAILED => Some(RawWay::Failed(take(rest)?)),
            _ => None,
        };
        if let Some(way) = way {
            let is_refuted = first & REFUTED != 0;
            let end = match first & (ENDS_BRANCH | ENDS_RUN) {
                0 => None,
                ENDS_BRANCH => Some(false),
                ENDS_RUN => Some(true),
                _ => return Err(corrupt("its first byte is unknown")),
            };
            if is_refuted && of.is_none_or(|of| of.failure.is_none()) {
                return Err(corrupt("its record has no failure"));
            }
            return Ok(Self::Decided {
                end,
                is_refuted,
                way,
            });
        }
        if first != kind {
            return Err(corrupt("its first byte is unknown"));
        }
        Ok(match kind {
            AGAIN => {
                let (after_ms, left) = take(rest)?;
                Self::Again(after_ms, left)
            }
            WAIT => Self::Wait(take(rest)?),
            SUSPENDED => {
                let (until, left) = take(rest)?;
                Self::Suspended(until, left)
            }
            CHILD => Self::Child,
            LISTED => Self::Listed(take(rest)?),
            CANCEL_NODE => Self::CancelNode(take(rest)?),
            LATER => {
                let (seq, until) = take(rest)?;
                Self::Later(seq, until)
            }
            TIMED_OUT => Self::TimedOut(take(rest)?),
            CANCEL => Self::Cancel,
            PAUSE => Self::Pause,
            UNPAUSE => Self::Unpause,
            BROKEN => Self::Broken(take(rest)?),
            BEGUN => Self::Begun,
            REOPENED => Self::Reopened(take(rest)?),
            LOST => Self::Lost,
            _ => return Err(corrupt("its kind is unknown")),
        })
    }

    fn change(self, now_ms: i64, of: Option<Carrier<'_>>) -> Result<Change, Corrupt> {
        // Kinds that belong to no execution use neither.
        let (seq, run) = of.map_or((Seq(0), ExecutionNo(0)), |of| (of.seq, of.run));
        let until_ms = |since: i64| since.wrapping_add(now_ms);
        let event = match self {
            Self::Decided {
                end,
                is_refuted,
                way,
            } => {
                let known = of.and_then(|of| of.failure);
                let all = matches!(way, RawWay::All);
                let way = way.way(now_ms, known)?;
                return Ok(Change::Decided {
                    seq,
                    run,
                    end,
                    refuted: known.filter(|_| is_refuted).cloned(),
                    way,
                    all,
                });
            }
            Self::Begun => return Ok(Change::Begun),
            Self::Lost => return Ok(Change::Lost),
            Self::Reopened(wire) => {
                let how = Reopening {
                    node: wire.node,
                    input: wire.input.map(WirePayload::into_payload),
                    from: wire.from,
                };
                return Ok(Change::Reopened(how, wire.altered));
            }
            Self::Again(after_ms, left) => Event::Again {
                seq,
                run,
                after_ms,
                left: left.map(WirePayload::into_payload),
            },
            Self::Wait(since) => Event::Wait {
                seq,
                run,
                until_ms: until_ms(since),
            },
            Self::Suspended(since, left) => Event::Suspended {
                seq,
                run,
                until_ms: since.map(until_ms),
                left: left.map(WirePayload::into_payload),
            },
            Self::Child => Event::Child { seq, run },
            Self::Listed(count) => Event::Listed { seq, run, count },
            Self::CancelNode(seq) => Event::CancelNode { seq },
            Self::Later(seq, since) => Event::Later {
                seq,
                until_ms: until_ms(since),
            },
            Self::TimedOut(seq) => Event::TimedOut { seq },
            Self::Cancel => Event::Cancel,
            Self::Pause => Event::Pause,
            Self::Unpause => Event::Unpause,
            Self::Broken(failure) => Event::Broken {
                failure: grown(failure)?,
            },
        };
        Ok(Change::Event(event))
    }
}

impl RawWay {
    fn way(self, now_ms: i64, known: Option<&Failure>) -> Result<Way, Corrupt> {
        let cause = |wire: WireCause| match wire {
            Some(failure) => grown(failure),
            None => known
                .cloned()
                .ok_or_else(|| corrupt("its record has no failure")),
        };
        Ok(match self {
            Self::All => Way::Done(Vec::new()),
            Self::Done(taken) => Way::Done(taken),
            Self::Repeat(round) => Way::Repeat(round),
            Self::Retry(since) => Way::Retry {
                due_ms: since.wrapping_add(now_ms),
            },
            Self::Handled(failure, taken) => Way::Handled(cause(failure)?, taken),
            Self::Failed(failure) => Way::Failed(cause(failure)?),
        })
    }
}

fn unpacked((length, bytes): (u32, Vec<u8>)) -> Result<Vec<bool>, Corrupt> {
    let length = length as usize;
    if bytes.len() != length.div_ceil(8) {
        return Err(corrupt("it decides about other edges"));
    }
    let bits = bytes
        .iter()
        .flat_map(|byte| (0..8).map(move |at| byte & (1 << at) != 0));
    Ok(bits.take(length).collect())
}

fn grown(failure: WireFailure) -> Result<Failure, Corrupt> {
    let damaged = |_| corrupt("the details of a failure are not JSON");
    failure.into_failure().map_err(damaged)
}

fn take<T: DeserializeOwned>(rest: &mut &[u8]) -> Result<T, Corrupt> {
    let cut = |_| corrupt("it is cut off or damaged");
    let (value, after) = postcard::take_from_bytes(rest).map_err(cut)?;
    *rest = after;
    Ok(value)
}

fn flagged<T: DeserializeOwned>(flag: u8, rest: &mut &[u8]) -> Result<Option<T>, Corrupt> {
    match flag {
        0 => Ok(None),
        _ => take(rest).map(Some),
    }
}
