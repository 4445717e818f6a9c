//! Ids that are derived from their purpose: a step that is repeated after a crash uses the same
//! ids.

use uuid::{Builder, Uuid};
use windlass_model::{Digest, RunId, Seq, StimulusId};

use crate::codes;
use crate::error::Error;

/// The purpose of a derived id. Different purposes never give the same id.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Use {
    Child = 1,
    Sent = 2,
    Incident = 3,
    Delivery = 4,
}

/// The child that a node run starts in this phase.
pub(crate) fn child(parent: RunId, first: Seq, phase: u32) -> RunId {
    RunId(derive(Use::Child, parent.0, first.0, u64::from(phase)))
}

/// The stimulus at this position among those that an execution sends.
pub(crate) fn sent(run: RunId, seq: Seq, place: usize) -> StimulusId {
    StimulusId(derive(Use::Sent, run.0, seq.0, place as u64))
}

/// The stimulus that announces the incident of a step.
pub(crate) fn incident(run: RunId, seq: Seq) -> StimulusId {
    StimulusId(derive(Use::Incident, run.0, seq.0, 0))
}

/// The run that a delivery starts by this trigger of a workflow.
pub(crate) fn delivery(workflow: &str, trigger: &str, delivery: Digest) -> RunId {
    let mut bytes = vec![Use::Delivery as u8];
    for text in [workflow, trigger] {
        bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes.extend_from_slice(&delivery.0);
    RunId(name(&bytes))
}

fn derive(what: Use, from: Uuid, one: u64, two: u64) -> Uuid {
    let mut bytes = vec![what as u8];
    bytes.extend_from_slice(from.as_bytes());
    bytes.extend_from_slice(&one.to_be_bytes());
    bytes.extend_from_slice(&two.to_be_bytes());
    name(&bytes)
}

fn name(bytes: &[u8]) -> Uuid {
    let digest = Digest::of(bytes);
    let mut half = [0; 16];
    for (byte, hashed) in half.iter_mut().zip(digest.0) {
        *byte = hashed;
    }
    Builder::from_custom_bytes(half).into_uuid()
}

/// Whether hosts derive ids of this kind: of children, of deliveries, of idempotency keys and of
/// occurrences of schedules. All are UUIDs of version 8, and no other ids are.
pub(crate) fn is_derived(id: RunId) -> bool {
    id.0.get_version_num() == 8
}

/// Refuses an id that a client may not choose for a run, because a host derives such ids: a later
/// request with an idempotency key, a parent or a schedule would find the run.
///
/// # Errors
///
/// [`codes::DERIVED_ID`].
pub fn check_chosen(id: RunId) -> Result<(), Error> {
    if !is_derived(id) {
        return Ok(());
    }
    Err(Error::Refused {
        code: codes::DERIVED_ID,
        message: format!("no run can be started as {id}: {DERIVED}"),
        help: Some("use a UUID of another version, like 4 or 7".to_owned()),
    })
}

/// What the ids stand for that hosts derive.
pub(crate) const DERIVED: &str = "ids of this kind stand for an `Idempotency-Key`, a delivery, an \
                                  occurrence of a schedule or a child";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_chooses_a_derived_id() {
        let run = RunId(Uuid::from_u128(7));
        for derived in [child(run, Seq(1), 0), delivery("a", "bc", Digest::of(b"1"))] {
            let refused = check_chosen(derived).unwrap_err();
            assert_eq!(refused.code(), codes::DERIVED_ID);
        }
        assert!(check_chosen(crate::new_run_id()).is_ok());
        let random = Builder::from_random_bytes([7; 16]).into_uuid();
        assert!(check_chosen(RunId(random)).is_ok());
    }

    #[test]
    fn names_are_the_same_again_and_differ_from_each_other() {
        let run = RunId(Uuid::from_u128(7));
        let names = [
            child(run, Seq(1), 0).0,
            child(run, Seq(1), 1).0,
            child(run, Seq(2), 0).0,
            sent(run, Seq(1), 0).0,
            sent(run, Seq(1), 1).0,
            incident(run, Seq(1)).0,
            delivery("a", "bc", Digest::of(b"1")).0,
            delivery("ab", "c", Digest::of(b"1")).0,
            delivery("a", "bc", Digest::of(b"2")).0,
        ];
        for (place, name) in names.iter().enumerate() {
            assert!(!names[..place].contains(name), "{place}");
        }
        assert_eq!(child(run, Seq(1), 0).0, names[0]);
    }
}
