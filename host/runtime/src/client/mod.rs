//! What people and other systems ask of a store.
//!
//! [`WorkflowClient`] is what is done with runs: the same in a process that runs workflows and
//! in one that does not. The rest are plain functions: publish and retract, touch triggers, and
//! look after dead letters. They work in any process: a host that serves the store picks up what
//! they write, and they only wait for it to be durable. Nothing is run here.
//!
//! Bounds: each is a handful of transactions. A stimulus that more than
//! [`windlass_store::stimuli::Send::LIMIT`] bookmarks wait for goes on in the background.

mod controls;
mod definitions;
mod delivering;
mod drafts;
mod letters;
mod locks;
mod moving;
mod outcome;
mod question;
mod resources;
mod retrying;
mod sections;
mod starting;
mod stimuli;
mod times;
mod triggers;
mod turns;
mod waiting;
mod workflow;

pub(crate) use definitions::{From, TRIES, busy, publish_from};
pub use definitions::{Published, publish, publish_if, retract_if};
pub use delivering::{Delivered, Delivery};
pub use drafts::{
    SaveDraft, SavedDraft, discard_draft, draft_name, publish_draft, revert, revert_to_draft,
    save_draft,
};
pub use letters::{purge_letters, throw_letter_away};
pub use locks::owned;
pub use moving::{How, Imported};
pub use outcome::Standing;
pub use question::Question;
pub use resources::{Locks, Resources};
pub use retrying::Retry;
pub use sections::{Execution, Holder, Section, Waits, sections};
pub use starting::Begun;
pub(crate) use stimuli::send;
#[cfg(test)]
pub(crate) use stimuli::send_here;
pub use stimuli::{new_stimulus_id, stimulus_hash};
pub use times::{Planned, plans, times};
pub use triggers::{Schedule, cancel_trigger, fire, reschedule};
pub use turns::{Turn, Turns};
pub use waiting::{Waiting, waiting};
pub use workflow::WorkflowClient;

use windlass_model::Numbers;
use windlass_store::write::Leave;
use windlass_store::{Store, Verb, Writer as _};

use crate::error::Error;
use crate::scheduler::driver::Membership;

/// The lease of a member that only writes something down.
const LEASE_MS: u64 = 30_000;

/// Does something that takes numbers. These belong to members, so the process is one for as
/// long as it takes.
pub(crate) fn as_member<T>(
    store: &dyn Store,
    now_ms: i64,
    ask: impl FnOnce(&Numbers) -> Result<T, Error>,
) -> Result<T, Error> {
    let membership = Membership::join(store, "client".to_owned(), LEASE_MS, now_ms)?;
    let numbers = membership.numbers();
    let answer = ask(&numbers);
    store.write(Leave {
        incarnation: numbers.incarnation(),
    })?;
    store.notify();
    answer
}

/// The numbers of one membership suffice for four thousand million of a kind.
pub(crate) fn used_up() -> Error {
    Error::Unreadable("the numbers of this membership are used up".to_owned())
}

/// Carries out a verb that takes no numbers, and tells other processes.
fn tell<V: Verb>(store: &dyn Store, verb: V) -> Result<V::Answer, Error> {
    let answer = store.write(verb)?;
    store.notify();
    Ok(answer)
}
