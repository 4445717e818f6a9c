//! Dead letters: replaying and deleting them.

use windlass_model::LetterNo;
use windlass_store::letters::{DeleteLetter, Lettered, PurgeLetters, ReplayLetter};
use windlass_store::{Store, Writer as _};

use super::reach::{Operations, OperationsInner};
use super::tell;
use crate::error::Error;

impl Operations {
    /// Replays a dead letter, which is possible once. An external trigger gets a row that is due
    /// now, and a stimulus is put into the queue. If the letter belongs to a run that failed or was
    /// cancelled, its node is retried as by [`Self::retry`], with the same resumption.
    ///
    /// # Errors
    ///
    /// The run cannot be retried, or the store fails.
    pub async fn replay(&self, no: LetterNo) -> Result<Lettered, Error> {
        self.ask(move |inner| inner.replay(no)).await
    }
}

impl OperationsInner {
    fn replay(&self, no: LetterNo) -> Result<Lettered, Error> {
        let lettered = self.numbered(|numbers| {
            let trigger = numbers.trigger().ok_or_else(Error::no_numbers)?;
            let at_ms = self.clock.wall_ms();
            Ok(self.store.write(ReplayLetter { no, trigger, at_ms })?)
        })?;
        if lettered == Lettered::Closed && self.retry_letter(no)?.is_some() {
            return Ok(Lettered::Done);
        }
        if let Some(runtime) = self.runtime() {
            // The queue now has a stimulus.
            runtime.shared.listeners.queue.ring();
        }
        Ok(lettered)
    }
}

/// Deletes a dead letter.
///
/// # Errors
///
/// The store fails.
pub fn throw_letter_away(store: &dyn Store, no: LetterNo) -> Result<Lettered, Error> {
    tell(store, DeleteLetter { no })
}

/// Deletes at most `limit` dead letters older than `before_ms`, in epoch milliseconds. Returns how
/// many.
///
/// # Errors
///
/// The store fails.
pub fn purge_letters(store: &dyn Store, before_ms: i64, limit: u32) -> Result<u32, Error> {
    Ok(store.write(PurgeLetters { before_ms, limit })?)
}
