//! The id and the jitter of an occurrence.

use sha2::{Digest as _, Sha256};
use uuid::Builder;

use crate::RunId;

/// The id of the run of an occurrence: the same in every process, after every crash, and regardless
/// of the clock, so that an occurrence happens once.
///
/// It begins with the planned time, so that the index over ids grows at its end. The rest is a
/// digest of the workflow's name, the trigger's key and the planned time; the version of the
/// workflow has no influence.
pub fn occurrence_id(workflow: &str, key: &str, planned_ms: i64) -> RunId {
    let mut hash = Sha256::new();
    for part in ["windlass occurrence", workflow, key] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let planned = planned_ms.to_be_bytes();
    hash.update(planned);
    let digest: [u8; 32] = hash.finalize().into();
    let mut bytes = [0; 16];
    // The first two of the eight bytes of the time are zero for the next nine thousand years.
    let parts = planned.iter().skip(2).chain(&digest);
    for (byte, part) in bytes.iter_mut().zip(parts) {
        *byte = *part;
    }
    RunId(Builder::from_custom_bytes(bytes).into_uuid())
}

/// The delay of this occurrence by its schedule's jitter: less than `jitter_ms`, and always the
/// same for one occurrence.
pub fn delay_ms(id: RunId, jitter_ms: u64) -> u64 {
    let low = id.0.as_u64_pair().1;
    // The top two bits encode the variant of the UUID; the rest is from a digest.
    (low << 2 >> 2).checked_rem(jitter_ms).unwrap_or(0)
}
