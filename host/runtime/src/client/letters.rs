//! Dead letters: tried again, or thrown away.

use windlass_model::LetterNo;
use windlass_store::letters::{DeadLetterOp, Lettered};
use windlass_store::{Store, Write, Wrote};

use super::workflow::{Inner, WorkflowClient};
use super::{as_member, tell, unexpected, used_up};
use crate::error::Error;

/// Tries a dead letter again. That happens once.
///
/// # Errors
///
/// The store is in trouble.
pub fn replay_letter(store: &dyn Store, now_ms: i64, no: LetterNo) -> Result<Lettered, Error> {
    as_member(store, now_ms, |numbers| {
        let trigger = numbers.trigger().ok_or_else(used_up)?;
        let at_ms = now_ms;
        lettered(store, DeadLetterOp::Replay { no, trigger, at_ms })
    })
}

impl WorkflowClient {
    /// Tries a dead letter again. That happens once. What came from outside gets a row that is
    /// due now, and a stimulus goes to the queue. Of a run that failed or was cancelled, the
    /// node is tried again that the letter is of, as by [`Self::retry`], and is given again what
    /// it was given.
    ///
    /// # Errors
    ///
    /// The run cannot be tried again, or the store is in trouble.
    pub async fn replay(&self, no: LetterNo) -> Result<Lettered, Error> {
        self.ask(move |inner| inner.replay(no)).await
    }
}

impl Inner {
    fn replay(&self, no: LetterNo) -> Result<Lettered, Error> {
        let (store, now_ms) = (self.store.as_ref(), self.clock.wall_ms());
        let lettered = replay_letter(store, now_ms, no)?;
        if lettered == Lettered::Closed && self.retry_letter(no)?.is_some() {
            return Ok(Lettered::Done);
        }
        self.told();
        if let Some(runtime) = self.runtime() {
            // A stimulus is in the queue now.
            runtime.shared.listeners.queue.ring();
        }
        Ok(lettered)
    }
}

/// Throws a dead letter away.
///
/// # Errors
///
/// The store is in trouble.
pub fn throw_letter_away(store: &dyn Store, no: LetterNo) -> Result<Lettered, Error> {
    lettered(store, DeadLetterOp::Delete { no })
}

/// Throws away at most `limit` of the dead letters from before a moment, in epoch
/// milliseconds. Answers how many.
///
/// # Errors
///
/// The store is in trouble.
pub fn purge_letters(store: &dyn Store, before_ms: i64, limit: u32) -> Result<u32, Error> {
    let purge = DeadLetterOp::Purge { before_ms, limit };
    match store.write(Write::DeadLetter(purge))? {
        Wrote::Freed(count) => Ok(count),
        other => Err(unexpected(&other)),
    }
}

fn lettered(store: &dyn Store, op: DeadLetterOp) -> Result<Lettered, Error> {
    match tell(store, Write::DeadLetter(op))? {
        Wrote::Letter(lettered) => Ok(lettered),
        other => Err(unexpected(&other)),
    }
}
