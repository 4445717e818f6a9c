//! Operations of random histories on bookmarks, stimuli, external triggers, children and dead
//! letters.

use bytes::Bytes;
use proptest::prelude::*;
use uuid::Uuid;
use windlass_model::{
    BindingNo, Class, Code, Delivery, Digest, Failure, LetterNo, Payload, RunNo, Seq, Status,
    StimulusNo, TriggerId, TriggerType,
};

use super::waiting::stimulus;
use super::world::{Held, Member};
use crate::external::{
    CancelTrigger, Control, DueQuery, Fire, NewExternal, Reschedule, TriggerTarget,
};
use crate::letters::{
    DeadTrigger, DeleteLetter, LetterBody, LetterQuery, NewDeadLetter, PurgeLetters, ReplayLetter,
};
use crate::rows::{NewRun, Parent, SenderTree, TreeBound};
use crate::stimuli::{
    BookmarkQuery, ClaimFor, Expire, NewBookmark, NewStimulus, QueueOp, Resume, Send, StimulusQuery,
};
use crate::write::Commit;
use crate::{Store, Write};

/// Names of stimuli and bookmarks. The second one also starts runs.
const NAMES: [&str; 2] = ["s0", "paid"];

fn named(bits: usize, delivery: Delivery) -> NewStimulus {
    let mut named = stimulus(NAMES[bits & 1], delivery);
    named.hash = hash(bits);
    named
}

fn hash(bits: usize) -> Digest {
    Digest::of(NAMES[bits & 1].as_bytes())
}

/// One operation from outside of a run. The numbers choose among the existing rows.
#[derive(Clone, Debug)]
pub(super) enum ExternalStep {
    Send { bits: usize, limit: u32, at_ms: i64 },
    GoOn { bits: usize, at_ms: i64 },
    Resume(usize),
    Queue { which: i64, what: u8 },
    Letter { which: i64, what: u8 },
    Schedule(usize),
    Touch { bits: usize, at_ms: i64 },
}

pub(super) fn op() -> impl Strategy<Value = ExternalStep> {
    let bits = 0..4096_usize;
    prop_oneof![
        6 => (bits.clone(), 1..3_u32, 0..90_i64).prop_map(|(bits, limit, at_ms)| ExternalStep::Send {
            bits, limit, at_ms,
        }),
        2 => (bits.clone(), 30..90_i64).prop_map(|(bits, at_ms)| ExternalStep::GoOn { bits, at_ms }),
        1 => bits.clone().prop_map(ExternalStep::Resume),
        2 => (0..20_i64, 0..6_u8).prop_map(|(which, what)| ExternalStep::Queue { which, what }),
        1 => (0..20_i64, 0..4_u8).prop_map(|(which, what)| ExternalStep::Letter { which, what }),
        3 => bits.clone().prop_map(ExternalStep::Schedule),
        4 => (bits, 0..50_i64).prop_map(|(bits, at_ms)| ExternalStep::Touch { bits, at_ms }),
    ]
}

fn about(bits: usize) -> Option<String> {
    (bits & 3 == 3).then(|| format!("c{}", bits >> 2 & 1))
}

fn some(all: &[NewRun], which: usize) -> Option<&NewRun> {
    all.get(which % all.len().max(1))
}

fn error() -> Failure {
    Failure::new(Class::Permanent, Code::new("WL-R001"), "it failed")
}

impl ExternalStep {
    /// The write for this operation, by this member.
    pub(super) fn write(
        &self,
        member: &Member,
        model: &dyn Store,
        runs: &[NewRun],
    ) -> Option<Write> {
        Some(match self {
            Self::Send { bits, limit, at_ms } => send(*bits, *limit, *at_ms, member, model, runs),
            Self::GoOn { bits, at_ms } => go_on(*bits, *at_ms, model)?,
            Self::Resume(bits) => Write::Resume(Box::new(Resume {
                token: Digest::of(format!("token {}", bits & 7).as_bytes()),
                input: Payload::json("1"),
                blobs: Vec::new(),
                claim_for: claim_for(*bits, member),
                at_ms: 40,
            })),
            Self::Queue { which, what } => queue(StimulusNo(*which), *what),
            Self::Letter { which, what } => letter(LetterNo(*which), *what, member, runs),
            Self::Schedule(bits) => Write::Schedule(Box::new(NewExternal {
                no: member.numbers.trigger().unwrap(),
                id: TriggerId(Uuid::from_u128(*bits as u128 & 15)),
                run: some(runs, bits >> 4)?.id,
                node: None,
                kind: TriggerType::Manual,
                due_ms: 30,
                payload: Some(Bytes::from_static(b"{}")),
                priority: (*bits & 3) as i32 - 1,
                detail: Bytes::new(),
                request: Digest::of(&[(bits >> 6 & 7 == 0).into()]),
            })),
            Self::Touch { bits, at_ms } => touch(*bits, *at_ms, member, model, runs)?,
        })
    }
}

/// Half of the senders claim the work that results.
fn claim_for(bits: usize, member: &Member) -> Option<ClaimFor> {
    (bits >> 3 & 1 == 1).then(|| ClaimFor {
        incarnation: member.incarnation,
        runs: 1 + (bits as u32 >> 4 & 1),
        triggers: 1 + (bits as u32 >> 5 & 1),
    })
}

fn send(
    bits: usize,
    limit: u32,
    at_ms: i64,
    member: &Member,
    model: &dyn Store,
    runs: &[NewRun],
) -> Write {
    let delivery = Delivery::ALL[bits >> 2 & 3];
    let mut sent = named(bits, delivery);
    sent.at_ms = at_ms;
    sent.ttl_ms = 20;
    sent.correlation = about(bits >> 4);
    if bits >> 6 & 3 == 0 {
        sent.run = some(runs, bits >> 8).map(|new| new.id);
    }
    if bits >> 6 & 3 == 1 {
        sent.input = Payload::json(format!("\"{}\"", "x".repeat(70_000)));
    }
    if bits >> 9 & 3 == 0 {
        sent.tree = some(runs, bits >> 6).map(|new| SenderTree {
            root: new.no,
            workflow: 3 + (bits as u32 & 1),
        });
    }
    let tree = sent.tree.map(|tree| tree.root);
    let bound = model.bindings(sent.hash).unwrap();
    // The store refuses a start whose definition is not the published one.
    let mut starts: Vec<(BindingNo, NewRun)> = bound
        .iter()
        .map(|row| {
            let mut new = member.draft(1);
            new.definition =
                std::sync::Arc::new(model.definition(row.definition).unwrap().unwrap());
            super::history_kept::reserve(&mut new, bits >> 8);
            new.tree = tree;
            (row.no, new)
        })
        .collect();
    if bits >> 8 & 7 == 0 {
        starts.pop();
    }
    Write::Send(Box::new(Send {
        stimulus: sent,
        starts,
        queued: None,
        limit,
        claim_for: claim_for(bits, member),
        descendants: 4,
        at_ms,
    }))
}

/// The operation of a queue worker.
fn go_on(bits: usize, at_ms: i64, model: &dyn Store) -> Option<Write> {
    let query = StimulusQuery {
        limit: 8,
        ready_ms: Some(at_ms),
        after: None,
    };
    let queued = model.queued(&query).unwrap();
    let row = queued.get(bits % queued.len().max(1))?;
    Some(Write::Send(Box::new(Send {
        stimulus: row.stimulus.clone(),
        starts: Vec::new(),
        queued: Some(row.no),
        limit: 1 + (bits as u32 & 1),
        claim_for: None,
        descendants: u32::MAX,
        at_ms,
    })))
}

fn queue(no: StimulusNo, what: u8) -> Write {
    match what {
        0 => named(0, Delivery::Resume).into(),
        1 => QueueOp::Delay {
            no,
            ready_ms: 60,
            error: error(),
        }
        .into(),
        2 => QueueOp::Fail {
            no,
            error: error(),
            at_ms: 50,
        }
        .into(),
        3 => QueueOp::Delete { no }.into(),
        4 => QueueOp::Unbuffer { no }.into(),
        _ => Expire {
            queued_before_ms: 20,
            now_ms: 70,
            limit: 2,
        }
        .into(),
    }
}

fn letter(no: LetterNo, what: u8, member: &Member, runs: &[NewRun]) -> Write {
    let run = runs.first().map_or(RunNo(0), |new| new.no);
    match what {
        0 => dead(run, 1).into(),
        1 => DeleteLetter { no }.into(),
        2 => PurgeLetters {
            before_ms: no.0 * 4,
            limit: 3,
        }
        .into(),
        _ => ReplayLetter {
            no,
            trigger: member.numbers.trigger().unwrap(),
            at_ms: 33,
        }
        .into(),
    }
}

pub(super) fn dead(run: RunNo, seq: u64) -> NewDeadLetter {
    let seq = Seq(seq | u64::from(seq & 1 == 0) << 63);
    NewDeadLetter {
        reason: "failed".into(),
        body: LetterBody::Trigger(DeadTrigger {
            run,
            seq,
            kind: TriggerType::Manual,
            node: Some(1),
            priority: 1,
            payload: None,
            detail: Bytes::new(),
        }),
        failure: Some(error()),
        at_ms: 40,
    }
}

fn touch(
    bits: usize,
    at_ms: i64,
    member: &Member,
    model: &dyn Store,
    runs: &[NewRun],
) -> Option<Write> {
    let (target, due_ms) = if bits & 4 == 0 {
        let id = TriggerId(Uuid::from_u128(bits as u128 >> 3 & 15));
        (TriggerTarget::External(id), None)
    } else {
        let run = some(runs, bits >> 7)?.no;
        let rows = model.triggers(run).unwrap();
        let row = rows.get((bits >> 3 & 15) % rows.len().max(1));
        let target = TriggerTarget::Row(run, row.map_or(Seq(77), |row| row.seq));
        (
            target,
            row.map(|row| row.due_ms.saturating_sub(i64::from(bits & 8 == 0))),
        )
    };
    Some(match bits & 3 {
        0 => Write::Fire(Fire {
            target,
            at_ms,
            only_due_ms: due_ms.filter(|_| bits & 16 == 0),
        }),
        1 => Write::Reschedule(Reschedule {
            target,
            due_ms: at_ms,
        }),
        2 => Write::CancelTrigger(CancelTrigger { target, at_ms }),
        _ => Write::Control(Control {
            run: some(runs, bits >> 7)?.id,
            no: member.numbers.trigger().unwrap(),
            kind: TriggerType::Cancel,
            at_ms,
        }),
    })
}

/// Makes a step suspend its execution, or wait for a child.
pub(super) fn suspend(step: &mut Commit, held: &Held, member: &Member, bits: usize) {
    let mut row = member.trigger(2);
    row.due_ms = i64::MAX;
    step.status = Status::Suspended;
    step.release = bits & 1 != 0;
    if bits & 6 == 6 {
        row.kind = TriggerType::Child;
        let mut child = member.draft(1);
        child.parent = Some(Parent {
            run: held.fence.run,
            id: member.draft(0).id,
            trigger: held.trigger.no,
            seq: Seq(2),
            depth: 1,
            root: if bits >> 7 & 1 == 0 {
                held.fence.run
            } else {
                RunNo(1 + (bits as i64 >> 8 & 1))
            },
            flow: "w".into(),
            undoes: bits >> 9 & 3 == 0,
        });
        step.tree = TreeBound {
            workflow: 1 + (bits as u32 >> 11 & 3),
            host: bits as u32 >> 13 & 7,
        };
        super::history_kept::reserve(&mut child, bits >> 3);
        step.children = vec![child];
    } else {
        row.kind = TriggerType::Resume;
        step.bookmarks = (0..1 + (bits >> 3 & 1))
            .map(|place| bookmark(held, member, (bits >> 4) + place))
            .collect();
        step.at_ms = 30 + (bits as i64 >> 4 & 15);
    }
    step.triggers = vec![row];
}

fn bookmark(held: &Held, member: &Member, bits: usize) -> NewBookmark {
    NewBookmark {
        first: Seq(1 + (bits as u64 & 1)),
        correlation: about(bits >> 1),
        hash: hash(bits),
        auto_burn: bits >> 3 & 3 != 0,
        expires_ms: (bits >> 5 & 1 != 0).then_some(45),
        token: Digest::of(format!("token {}", bits & 7).as_bytes()),
        ..member.bookmark(held, NAMES[bits & 1])
    }
}

/// Adds effects on other runs to a step.
pub(super) fn dress(step: &mut Commit, runs: &[NewRun], bits: usize) {
    if bits & 3 == 1 {
        step.burned = vec![Seq(1 + (bits as u64 >> 2 & 1))];
    }
    if bits & 3 == 2 {
        step.sends = vec![named(bits >> 2, Delivery::ALL[bits >> 3 & 3])];
    }
    if bits & 7 == 3 {
        step.cancels = some(runs, bits).map(|new| new.id).into_iter().collect();
    }
    if bits & 7 == 7 {
        step.dead = vec![dead(step.fence.run, bits as u64 >> 3 & 7)];
    }
}

pub(super) fn compare(tested: &dyn Store, model: &dyn Store) {
    let limit = 1000;
    let query = BookmarkQuery {
        limit,
        ..Default::default()
    };
    let bookmarks = tested.bookmarks(&query).unwrap();
    assert_eq!(bookmarks, model.bookmarks(&query).unwrap());
    for row in bookmarks.iter().take(2) {
        let correlation = row.bookmark.correlation.clone();
        for (run, correlation) in [
            (None, None),
            (Some(row.run), None),
            (None, correlation.clone()),
            (Some(row.run), correlation),
        ] {
            let query = BookmarkQuery {
                run,
                hash: Some(row.bookmark.hash),
                correlation,
                ..query.clone()
            };
            let found = tested.bookmarks(&query).unwrap();
            assert!(found.contains(row), "{row:?}");
            assert_eq!(found, model.bookmarks(&query).unwrap());
        }
    }
    let query = StimulusQuery {
        limit,
        ..Default::default()
    };
    assert_eq!(
        tested.queued(&query).unwrap(),
        model.queued(&query).unwrap()
    );
    assert_eq!(
        tested.buffered(&query).unwrap(),
        model.buffered(&query).unwrap()
    );
    let query = LetterQuery {
        limit,
        ..Default::default()
    };
    assert_eq!(
        tested.dead_letters(&query).unwrap(),
        model.dead_letters(&query).unwrap()
    );
    let query = DueQuery {
        after: None,
        until_ms: i64::MAX,
        limit,
    };
    assert_eq!(tested.due(&query).unwrap(), model.due(&query).unwrap());
    for number in 0..16 {
        let name = TriggerId(Uuid::from_u128(number));
        assert_eq!(
            tested.external(name).unwrap(),
            model.external(name).unwrap()
        );
    }
}

pub(super) fn compare_run(tested: &dyn Store, model: &dyn Store, no: RunNo) {
    let children = |store: &dyn Store| store.children(no, None, 100).unwrap();
    assert_eq!(children(tested), children(model));
}
