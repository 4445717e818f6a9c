//! Operations of random histories on definitions, schedules and scopes, and their deletion.

use bytes::Bytes;
use proptest::prelude::*;
use windlass_model::{BlobRef, Body, Digest, Payload, ScopeNo, Seq};

use super::publishing::{binding, draft, schedule, schedules};
use super::world::Member;
use crate::published::{
    Overlap, PauseSchedule, Plan, PublicationQuery, PutOff, Retract, StartSchedule, UnpauseSchedule,
};
use crate::retention::{Forget, Sweep, Sweepable};
use crate::rows::{NewBlob, NewRun};
use crate::write::{Commit, Duty, NewItem};
use crate::{Store, Write};

/// One operation. The numbers choose among the existing rows.
#[derive(Clone, Debug)]
pub(super) enum PublishingStep {
    Publish {
        text: u8,
        bindings: u8,
        schedules: u8,
    },
    Retract,
    Plan {
        which: usize,
        overlap: u8,
        stale: bool,
        skip: bool,
    },
    PutOff {
        which: usize,
        stale: bool,
    },
    Pause {
        which: usize,
    },
    Unpause {
        which: usize,
        stale: bool,
        planned: bool,
    },
    StartNow {
        which: usize,
        overlap: u8,
    },
    Duty {
        name: u8,
        at_ms: i64,
    },
    Forget {
        which: usize,
        before_ms: i64,
    },
    Sweep(i64),
}

pub(super) fn op() -> impl Strategy<Value = PublishingStep> {
    let (which, few) = (0..64_usize, 0..4_u8);
    let publish = (few.clone(), 0..16_u8, 0..16_u8);
    let plan = (
        which.clone(),
        few.clone(),
        proptest::bool::weighted(0.1),
        any::<bool>(),
    );
    prop_oneof![
        2 => publish.prop_map(|(text, bindings, schedules)| PublishingStep::Publish {
            text, bindings, schedules,
        }),
        1 => Just(PublishingStep::Retract),
        3 => plan.prop_map(|(which, overlap, stale, skip)| PublishingStep::Plan {
            which, overlap, stale, skip,
        }),
        1 => (which.clone(), proptest::bool::weighted(0.1)).prop_map(|(which, stale)| PublishingStep::PutOff {
            which, stale,
        }),
        1 => which.clone().prop_map(|which| PublishingStep::Pause { which }),
        2 => (which.clone(), proptest::bool::weighted(0.1), any::<bool>()).prop_map(
            |(which, stale, planned)| PublishingStep::Unpause { which, stale, planned },
        ),
        1 => (which.clone(), few.clone()).prop_map(|(which, overlap)| PublishingStep::StartNow {
            which, overlap,
        }),
        1 => (few, 0..60_i64).prop_map(|(name, at_ms)| PublishingStep::Duty { name, at_ms }),
        3 => (which, 39..43_i64).prop_map(|(which, before_ms)| PublishingStep::Forget { which, before_ms }),
        1 => (0..80_i64).prop_map(PublishingStep::Sweep),
    ]
}

impl PublishingStep {
    /// The write for this operation, by this member.
    pub(super) fn write(
        &self,
        member: &Member,
        model: &dyn Store,
        runs: &[NewRun],
    ) -> Option<Write> {
        Some(match self {
            Self::Publish {
                text,
                bindings,
                schedules,
            } => {
                let mut new = draft(&format!("text {text}"));
                let keys = ["a", "b", "c", "d"];
                let stimuli = ["paid", "sent", "lost", "paid"];
                let stimulus = |at: usize| stimuli[(at + usize::from(*text)) % 4];
                let places = |bits: u8| (0..4_usize).filter(move |bit| bits & 1 << bit != 0);
                new.bindings = places(*bindings)
                    .map(|at| binding(keys[at], stimulus(at)))
                    .collect();
                new.schedules = places(*schedules)
                    .map(|at| schedule(keys[at], stimulus(at)))
                    .collect();
                Write::Publish(Box::new(new))
            }
            Self::Retract => Write::Retract(Retract {
                name: "orders".into(),
                only: None,
                at_ms: 9,
            }),
            Self::Plan {
                which,
                overlap,
                stale,
                skip,
            } => {
                let rows = schedules(model);
                let row = rows.get(which % rows.len().max(1))?;
                let planned_ms = row.last_planned_ms.unwrap_or(100) + 1;
                let overlap = overlap_of(*overlap, member);
                let stale = i64::from(*stale);
                Write::Plan(Box::new(Plan {
                    schedule: row.no,
                    expected_last_planned_ms: row.last_planned_ms.map(|at_ms| at_ms - stale),
                    planned_ms,
                    next_ms: planned_ms + 10,
                    again_ms: planned_ms + 5,
                    overlap,
                    create: (!*skip).then(|| Box::new(member.draft(2))),
                    at_ms: 20,
                }))
            }
            Self::PutOff { which, stale } => {
                let rows = schedules(model);
                let row = rows.get(which % rows.len().max(1))?;
                let stale = i64::from(*stale);
                Write::PutOff(PutOff {
                    schedule: row.no,
                    expected_last_planned_ms: row.last_planned_ms.map(|at_ms| at_ms - stale),
                    again_ms: row.next_ms.saturating_add(7),
                })
            }
            Self::Pause { which } => {
                let rows = schedules(model);
                let row = rows.get(which % rows.len().max(1))?;
                Write::PauseSchedule(PauseSchedule {
                    schedule: row.no,
                    at_ms: 30,
                })
            }
            Self::Unpause {
                which,
                stale,
                planned,
            } => {
                let rows = schedules(model);
                let row = rows.get(which % rows.len().max(1))?;
                let planned_ms = row.last_planned_ms.unwrap_or(100) + 3;
                Write::UnpauseSchedule(UnpauseSchedule {
                    schedule: row.no,
                    expected_since_ms: row.since_ms - i64::from(*stale),
                    planned_ms: planned.then_some(planned_ms),
                    next_ms: planned_ms + 10,
                })
            }
            Self::StartNow { which, overlap } => {
                let rows = schedules(model);
                let row = rows.get(which % rows.len().max(1))?;
                Write::StartSchedule(Box::new(StartSchedule {
                    schedule: row.no,
                    overlap: overlap_of(*overlap, member),
                    create: Box::new(member.draft(2)),
                    at_ms: 20,
                }))
            }
            Self::Duty { name, at_ms } => Write::Duty(Duty {
                name: format!("duty {name}"),
                incarnation: member.incarnation,
                every_ms: (at_ms % 3 > 0).then_some(10),
                inherited: at_ms % 2 > 0,
                at_ms: *at_ms,
            }),
            Self::Forget { which, before_ms } => Write::Forget(Forget {
                run: runs.get(which % runs.len().max(1))?.no,
                before_ms: *before_ms,
                // All rows at once, as the memory store does.
                rows: 100_000,
                at_ms: 60,
            }),
            Self::Sweep(before_ms) => Write::Sweep(Sweep {
                what: if before_ms % 2 == 0 {
                    Sweepable::Blobs
                } else {
                    Sweepable::Documents
                },
                before_ms: *before_ms,
                rows: 100_000,
                at_ms: before_ms - 1,
            }),
        })
    }
}

fn overlap_of(number: u8, member: &Member) -> Overlap {
    match number {
        0 => Overlap::Allow,
        1 => Overlap::Skip,
        2 => Overlap::Queue,
        _ => Overlap::CancelPrevious(member.numbers.trigger().unwrap()),
    }
}

/// Gives a run reservations, and perhaps an exclusive key.
pub(super) fn reserve(new: &mut NewRun, bits: usize) {
    let key = |bit: usize| format!("key {bit}");
    new.reserves = (0..2).filter(|bit| bits & 1 << bit != 0).map(key).collect();
    new.exclusive = (bits & 4 != 0).then(|| key(bits & 1));
}

/// Adds scopes, items and blobs to a step.
pub(super) fn dress(step: &mut Commit, bits: usize) {
    let scope = ScopeNo(1 + (bits as u64 & 1));
    let state = (bits & 2 != 0).then(|| Bytes::from(format!("{bits}")));
    let payload = shared_blob(step, bits & 3);
    step.scopes = vec![(scope, state)];
    step.vars.push((scope, "scoped".into(), payload.clone()));
    if bits & 4 != 0 {
        let (list, index, output) = (Seq(1), (bits & 3) as u32, payload);
        step.items = vec![NewItem {
            list,
            index,
            output,
        }];
    }
    if bits & 24 == 24 {
        step.lists_done = vec![Seq(1)];
    }
}

/// One of a few blobs that runs share.
fn shared_blob(step: &mut Commit, which: usize) -> Payload {
    let bytes = Bytes::from(format!("shared {which}"));
    let (digest, size) = (Digest::of(&bytes), bytes.len() as u64);
    step.blobs.push(NewBlob { digest, bytes });
    let body = Body::Blob(BlobRef { digest, size });
    let content_type = None;
    Payload { content_type, body }
}

pub(super) fn compare(tested: &dyn Store, model: &dyn Store) {
    assert_eq!(
        tested.published("orders").unwrap(),
        model.published("orders").unwrap()
    );
    let query = PublicationQuery {
        retracted: true,
        limit: 5,
        ..Default::default()
    };
    assert_eq!(
        tested.publications(&query).unwrap(),
        model.publications(&query).unwrap()
    );
    assert_eq!(
        tested.bindings_of("orders").unwrap(),
        model.bindings_of("orders").unwrap()
    );
    let hash = Digest::of(b"paid");
    assert_eq!(
        tested.bindings(hash).unwrap(),
        model.bindings(hash).unwrap()
    );
    assert_eq!(
        tested.is_heard(hash, 44).unwrap(),
        model.is_heard(hash, 44).unwrap()
    );
    assert_eq!(schedules(tested), schedules(model));
    let expired = |store: &dyn Store| store.expired(i64::MAX, 44, 100).unwrap();
    assert_eq!(expired(tested), expired(model));
}

pub(super) fn compare_run(tested: &dyn Store, model: &dyn Store, no: windlass_model::RunNo) {
    for scope in [ScopeNo(1), ScopeNo(2)] {
        assert_eq!(
            tested.vars(no, scope).unwrap(),
            model.vars(no, scope).unwrap()
        );
    }
    let items = |store: &dyn Store| store.items(no, Seq(1), 0, 100).unwrap();
    assert_eq!(items(tested), items(model));
}
