//! Dead letters: tried again, or thrown away.

use windlass_model::LetterNo;
use windlass_store::letters::{DeadLetterOp, Lettered};
use windlass_store::{Store, Write, Wrote};

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
