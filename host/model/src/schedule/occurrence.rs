//! What an occurrence is called, and how late its jitter makes it.

use sha2::{Digest as _, Sha256};
use uuid::Builder;

use crate::InstanceId;

/// The id of the run that an occurrence makes: the same in every process, after every crash,
/// and whatever the clock said, so that an occurrence happens once.
///
/// It begins with the planned time, so that the index over ids grows at its end. The rest is
/// a digest of the workflow's name, the trigger's key and the planned time; versions of the
/// workflow have no part in it.
pub fn occurrence_id(workflow: &str, key: &str, planned_ms: i64) -> InstanceId {
    let mut hash = Sha256::new();
    for part in ["windlass occurrence", workflow, key] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let planned = planned_ms.to_be_bytes();
    hash.update(planned);
    let digest: [u8; 32] = hash.finalize().into();
    let mut bytes = [0; 16];
    // Of the eight bytes of the time, the first two are zero for the next nine thousand years.
    let parts = planned.iter().skip(2).chain(&digest);
    for (byte, part) in bytes.iter_mut().zip(parts) {
        *byte = *part;
    }
    InstanceId(Builder::from_custom_bytes(bytes).into_uuid())
}

/// How late this occurrence is by its schedule's jitter: less than `jitter_ms`, and always the
/// same for one occurrence.
pub fn delay_ms(id: InstanceId, jitter_ms: u64) -> u64 {
    let low = id.0.as_u64_pair().1;
    // The top two bits say which kind of UUID this is; the rest is from a digest.
    (low << 2 >> 2).checked_rem(jitter_ms).unwrap_or(0)
}
