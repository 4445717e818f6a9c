//! What people and other systems ask of a store.
//!
//! [`WorkflowClient`] is what is done with runs: the same in a process that runs workflows and
//! in one that does not. The rest are plain functions: publish and retract, schedule and fire,
//! send and resume, and look after dead letters. They work beside whoever serves the store, in any process: what they write is picked up
//! there, and they only wait for it to be durable. Nothing is run here.
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
pub use definitions::{Published, publish, publish_if, retract, retract_if};
pub use delivering::{Delivered, Delivery};
pub use drafts::{
    SaveDraft, SavedDraft, discard_draft, draft, draft_name, publish_draft, revert,
    revert_to_draft, save_draft, version,
};
pub use letters::{purge_letters, replay_letter, throw_letter_away};
pub use locks::owned;
pub use moving::{How, Imported};
pub use outcome::Standing;
pub use question::Question;
pub use resources::{Locks, Resources};
pub use retrying::Retry;
pub use sections::{Execution, Holder, Section, Waits, sections};
pub use starting::Begun;
pub(crate) use stimuli::deliver;
#[cfg(test)]
pub(crate) use stimuli::send_here;
pub use stimuli::{bookmark_of, new_stimulus_id, resume, resume_bookmark, send, stimulus_hash};
pub use times::{Planned, plans, times};
pub use triggers::{Schedule, cancel_instance, cancel_trigger, fire, reschedule, schedule};
pub use turns::{Turn, Turns};
pub use waiting::{Waiting, waiting};
pub use workflow::WorkflowClient;

use windlass_model::Numbers;
use windlass_store::{Store, Write, Wrote};

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
    store.write(Write::Leave {
        incarnation: numbers.incarnation(),
    })?;
    store.notify();
    answer
}

/// The numbers of one membership suffice for four thousand million of a kind.
pub(crate) fn used_up() -> Error {
    Error::Unreadable("the numbers of this membership are used up".to_owned())
}

/// One write that takes no numbers, and word of it to other processes.
fn tell(store: &dyn Store, write: Write) -> Result<Wrote, Error> {
    let wrote = store.write(write)?;
    store.notify();
    Ok(wrote)
}

fn unexpected(wrote: &Wrote) -> Error {
    crate::store_answered(wrote).into()
}
