//! Operations of random histories on drafts, sources, upkeep requests, settings and components.

use bytes::Bytes;
use proptest::prelude::*;
use windlass_model::{BatchNo, Digest};

use super::publishing::draft;
use crate::batches::{AddBatch, BatchQuery, MoveBatch};
use crate::components::{NewComponent, SweepComponents};
use crate::drafts::{DiscardDraft, DropSource, NewDraft, RequestUpkeep, Upkeep, UpkeepDone};
use crate::settings::Setting;
use crate::{Store, Write};

/// Names of drafts. Versions are published under the first one.
const DRAFTS: [&str; 3] = ["orders", "other", "third"];

/// Names of sources and settings.
const PLACES: [&str; 3] = ["a", "b", "c"];

/// One write. The numbers choose among the existing rows.
#[derive(Clone, Debug)]
pub(super) enum Set {
    Save {
        name: usize,
        edit: u8,
        stale: bool,
    },
    Discard {
        name: usize,
        stale: bool,
    },
    Publish {
        text: u8,
        place: usize,
        draft: bool,
    },
    Drop {
        place: usize,
        retract: bool,
    },
    Request(u8),
    Done(usize),
    Batch(u8),
    Move {
        which: usize,
        stale: bool,
        ends: bool,
    },
    Setting {
        name: usize,
        value: u8,
    },
    Component {
        which: u8,
        signature: u8,
    },
    Sweep {
        used: u8,
        at_ms: i64,
    },
}

pub(super) fn op() -> impl Strategy<Value = Set> {
    let (name, few) = (0..3_usize, 0..4_u8);
    let stale = || proptest::bool::weighted(0.2);
    let text = || (0..4_u8, 0..3_usize, any::<bool>());
    prop_oneof![
        2 => (name.clone(), few.clone(), stale())
            .prop_map(|(name, edit, stale)| Set::Save { name, edit, stale }),
        1 => (name.clone(), stale()).prop_map(|(name, stale)| Set::Discard { name, stale }),
        2 => text().prop_map(|(text, place, draft)| Set::Publish { text, place, draft }),
        1 => (name.clone(), any::<bool>())
            .prop_map(|(place, retract)| Set::Drop { place, retract }),
        2 => (0..8_u8).prop_map(Set::Request),
        1 => (0..8_usize).prop_map(Set::Done),
        2 => (0..8_u8).prop_map(Set::Batch),
        2 => (0..4_usize, stale(), any::<bool>())
            .prop_map(|(which, stale, ends)| Set::Move { which, stale, ends }),
        2 => (name, few.clone()).prop_map(|(name, value)| Set::Setting { name, value }),
        2 => (few, 0..8_u8)
            .prop_map(|(which, signature)| Set::Component { which, signature }),
        1 => (0..16_u8, 20..60_i64).prop_map(|(used, at_ms)| Set::Sweep { used, at_ms }),
    ]
}

/// The current revision of a draft, or a wrong one if `stale` is set.
fn revision(model: &dyn Store, name: &str, stale: bool) -> u64 {
    let row = model.draft(name).unwrap();
    row.map_or(0, |row| row.revision) + u64::from(stale)
}

fn component(which: u8) -> Bytes {
    Bytes::from(format!("component {which}"))
}

impl Set {
    /// The write for this operation.
    pub(super) fn write(&self, model: &dyn Store) -> Write {
        match self {
            Self::Save { name, edit, stale } => {
                let name = DRAFTS[*name];
                let expected = revision(model, name, *stale);
                Write::SaveDraft(Box::new(NewDraft {
                    name: name.to_owned(),
                    content: Bytes::from(format!("edit {edit}")),
                    based_on: (edit & 1 == 1).then_some(1),
                    expected: (edit & 2 == 2).then_some(expected),
                    at_ms: 20 + i64::from(*edit),
                }))
            }
            Self::Discard { name, stale } => {
                let name = DRAFTS[*name];
                let expected = revision(model, name, *stale);
                Write::DiscardDraft(DiscardDraft {
                    name: name.to_owned(),
                    revision: (expected > 0).then_some(expected),
                })
            }
            Self::Publish {
                text,
                place,
                draft: takes,
            } => {
                let mut new = draft(&format!("text {text}"));
                new.source = Some(PLACES[*place].to_owned());
                let current = revision(model, DRAFTS[0], false);
                new.draft = (*takes && current > 0).then_some(current);
                Write::Publish(Box::new(new))
            }
            Self::Drop { place, retract } => Write::DropSource(DropSource {
                name: PLACES[*place].to_owned(),
                retract: *retract,
                at_ms: 50,
            }),
            Self::Request(what) => Write::RequestUpkeep(RequestUpkeep {
                what: match what {
                    0 => Upkeep::RefreshAll,
                    1 => Upkeep::Reload,
                    name => Upkeep::Refresh(vec![format!("workflow {name}")]),
                },
                at_ms: 30,
            }),
            Self::Done(which) => {
                let waiting = model.upkeep(8).unwrap();
                let done = waiting.get(*which).map(|row| row.no);
                Write::UpkeepDone(UpkeepDone(done.into_iter().collect()))
            }
            Self::Batch(what) => Write::AddBatch(AddBatch {
                what: Bytes::from(format!("operation {what}")),
                progress: Bytes::from_static(b"none"),
                at_ms: 30,
            }),
            Self::Move { which, stale, ends } => {
                let query = BatchQuery {
                    limit: 4,
                    ..BatchQuery::default()
                };
                let row = model.batches(&query).unwrap().into_iter().nth(*which);
                Write::MoveBatch(MoveBatch {
                    no: row.as_ref().map_or(BatchNo(0), |row| row.no),
                    revision: row.map_or(0, |row| row.revision) + u64::from(*stale),
                    progress: Bytes::from(format!("progress {which}")),
                    ends: *ends,
                    at_ms: 40,
                })
            }
            Self::Setting { name, value } => Write::Setting(Setting {
                name: PLACES[*name].to_owned(),
                value: (*value > 0).then(|| vec![*value].into()),
            }),
            Self::Component { which, signature } => {
                let bytes = component(*which);
                let signed = signature & 1 == 1;
                Write::KeepComponent(Box::new(NewComponent {
                    digest: Digest::of(&bytes),
                    name: format!("a/{which}"),
                    version: "1.0.0".to_owned(),
                    bytes,
                    signature: signed.then(|| format!("signature {signature}")),
                    vouched: *signature == 7,
                }))
            }
            Self::Sweep { used, at_ms } => {
                let used = (0..4_u8).filter(|which| used & 1 << which != 0);
                Write::SweepComponents(SweepComponents {
                    used: used.map(|which| Digest::of(&component(which))).collect(),
                    before_ms: at_ms - 10,
                    at_ms: *at_ms,
                })
            }
        }
    }
}

pub(super) fn compare(tested: &dyn Store, model: &dyn Store) {
    let all = 1000;
    assert_eq!(
        tested.drafts(None, all).unwrap(),
        model.drafts(None, all).unwrap()
    );
    assert_eq!(
        tested.sources(None, all).unwrap(),
        model.sources(None, all).unwrap()
    );
    assert_eq!(tested.upkeep(all).unwrap(), model.upkeep(all).unwrap());
    for working in [false, true] {
        let query = BatchQuery {
            working,
            limit: all,
            ..BatchQuery::default()
        };
        assert_eq!(
            tested.batches(&query).unwrap(),
            model.batches(&query).unwrap()
        );
    }
    for name in PLACES {
        assert_eq!(tested.setting(name).unwrap(), model.setting(name).unwrap());
    }
    let kept = tested.components(0, all).unwrap();
    assert_eq!(kept, model.components(0, all).unwrap());
}
