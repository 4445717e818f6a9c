//! Operations that people and other systems carry out on a store.
//!
//! [`Operations`] has the operations on runs, which are the same in every process, whether or
//! not it runs workflows. The others are plain functions: publish and retract, change triggers, and
//! manage dead letters. They work in any process: they return once their writes are durable, and a
//! host that serves the store acts on those writes. No run is executed here.
//!
//! Bounds: each operation is a handful of transactions. A stimulus for more than
//! [`windlass_store::stimuli::Send::LIMIT`] bookmarks is delivered to the rest in the background.

mod altering;
pub mod batches;
mod controls;
mod definitions;
mod delivering;
mod drafts;
mod edition;
mod inputs;
mod letters;
mod locks;
mod moving;
mod outcome;
mod pinned;
mod question;
mod reach;
mod replaying;
mod resources;
mod retrying;
mod schedules;
mod sections;
mod sending;
mod starting;
mod times;
mod triggers;
mod turns;
mod waiting;

pub use crate::shard::{Given, Inputs};
pub use altering::WithVersion;
pub(crate) use definitions::{From, TRIES, busy, publish_from};
pub use definitions::{Published, publish, publish_if, retract_if};
pub use delivering::{Delivered, Delivery, Expected, Expects};
pub use drafts::{
    SaveDraft, SavedDraft, discard_draft, draft_name, publish_draft, revert, revert_to_draft,
    save_draft,
};
pub use edition::OfEdition;
pub use inputs::{Within, scope_of};
pub use letters::{purge_letters, throw_letter_away};
pub use locks::owned;
pub use moving::{How, Imported};
pub use outcome::Standing;
pub use pinned::Pinned;
pub use question::Question;
pub use reach::Operations;
pub use replaying::{Named, Replayed};
pub use resources::{Locks, Resources};
pub use retrying::Retry;
pub use schedules::{pause_schedule, schedule_named};
pub use sections::{Execution, Holder, Section, Waits, sections};
#[cfg(test)]
pub(crate) use sending::send_here;
pub(crate) use sending::{Queued, send};
pub use sending::{new_stimulus_id, stimulus_hash};
pub use starting::Begun;
pub use times::{Planned, plans, times};
pub use triggers::{Schedule, cancel_trigger, fire, reschedule};
pub use turns::{Turn, Turns};
pub use waiting::{Waiting, waiting};

use windlass_model::Numbers;
use windlass_store::write::Leave;
use windlass_store::{Store, Verb, Writer as _};

use crate::error::Error;
use crate::scheduler::driver::Membership;

/// The lease of a member that only writes, in milliseconds.
const LEASE_MS: u64 = 30_000;

/// Runs an operation that takes numbers. Numbers belong to members, so the process is a member for
/// the duration of the operation.
pub(crate) fn as_member<T>(
    store: &dyn Store,
    now_ms: i64,
    ask: impl FnOnce(&Numbers) -> Result<T, Error>,
) -> Result<T, Error> {
    let membership = Membership::join(store, "operations".to_owned(), LEASE_MS, now_ms)?;
    let numbers = membership.numbers();
    let answer = ask(&numbers);
    store.write(Leave {
        incarnation: numbers.incarnation(),
    })?;
    store.notify();
    answer
}

/// Writes a verb that takes no numbers, and notifies other processes.
fn tell<V: Verb>(store: &dyn Store, verb: V) -> Result<V::Answer, Error> {
    let answer = store.write(verb)?;
    store.notify();
    Ok(answer)
}
