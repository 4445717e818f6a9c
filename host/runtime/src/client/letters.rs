//! Dead letters: tried again, or thrown away.

use windlass_model::LetterNo;
use windlass_store::letters::{DeleteLetter, Lettered, PurgeLetters, ReplayLetter};
use windlass_store::{Store, Writer as _};

use super::workflow::{ClientInner, WorkflowClient};
use super::{tell, used_up};
use crate::error::Error;

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

impl ClientInner {
    fn replay(&self, no: LetterNo) -> Result<Lettered, Error> {
        let lettered = self.numbered(|numbers| {
            let trigger = numbers.trigger().ok_or_else(used_up)?;
            let at_ms = self.clock.wall_ms();
            Ok(self.store.write(ReplayLetter { no, trigger, at_ms })?)
        })?;
        if lettered == Lettered::Closed && self.retry_letter(no)?.is_some() {
            return Ok(Lettered::Done);
        }
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
    tell(store, DeleteLetter { no })
}

/// Throws away at most `limit` of the dead letters from before a moment, in epoch
/// milliseconds. Answers how many.
///
/// # Errors
///
/// The store is in trouble.
pub fn purge_letters(store: &dyn Store, before_ms: i64, limit: u32) -> Result<u32, Error> {
    Ok(store.write(PurgeLetters { before_ms, limit })?)
}
