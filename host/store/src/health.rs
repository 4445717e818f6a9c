//! The health of a backend, so that a host can report whether its store works.
//!
//! Writers and readers record failures and successes. A health check costs one atomic load while
//! the store is healthy. A backend records only trouble that concerns the store as a whole, never
//! one row.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::codes;
use crate::error::{Error, Result};

/// How long recorded trouble lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lasts {
    /// Until the next write has been committed.
    Passing,
    /// Until the store is opened again; until then it works as far as possible.
    UntilOpened,
    /// The store carries out no more writes.
    Stopped,
}

/// The worst trouble of one store object.
#[derive(Default)]
pub(crate) struct Health {
    /// Whether there is trouble: read without the lock.
    troubled: AtomicBool,
    trouble: Mutex<Option<(Lasts, Error)>>,
}

impl Health {
    /// Records trouble. Recorded trouble that lasts longer stays.
    pub(crate) fn note(&self, lasts: Lasts, error: &Error) {
        let mut trouble = self.trouble.lock();
        if trouble.as_ref().is_none_or(|(known, _)| *known < lasts) {
            if lasts > Lasts::Passing {
                tracing::error!(
                    code = %error.code,
                    help = error.help.as_deref().unwrap_or_default(),
                    "{error}"
                );
            }
            *trouble = Some((lasts, error.clone()));
        }
        self.troubled.store(true, Ordering::Release);
    }

    /// Called after a commit: clears passing trouble.
    pub(crate) fn well(&self) {
        if !self.troubled.load(Ordering::Acquire) {
            return;
        }
        let mut trouble = self.trouble.lock();
        if trouble
            .as_ref()
            .is_none_or(|(lasts, _)| *lasts == Lasts::Passing)
        {
            *trouble = None;
            self.troubled.store(false, Ordering::Release);
        }
    }

    /// Fails while there is trouble.
    ///
    /// # Errors
    ///
    /// The worst recorded error.
    pub(crate) fn check(&self) -> Result<()> {
        self.worst(Lasts::Passing)
    }

    /// Fails if the store carries out no more writes.
    ///
    /// # Errors
    ///
    /// The error that stopped the store.
    pub(crate) fn check_stopped(&self) -> Result<()> {
        self.worst(Lasts::Stopped)
    }

    fn worst(&self, from: Lasts) -> Result<()> {
        if !self.troubled.load(Ordering::Acquire) {
            return Ok(());
        }
        match &*self.trouble.lock() {
            Some((lasts, error)) if *lasts >= from => Err(error.clone()),
            _ => Ok(()),
        }
    }
}

/// Whether the error concerns the whole store rather than one write.
pub(crate) fn concerns_all(error: &Error) -> bool {
    [
        codes::CANNOT_OPEN,
        codes::READ_ONLY,
        codes::FULL,
        codes::BUSY,
        codes::IO,
        codes::UNKNOWN_OUTCOME,
        codes::LOG_TOO_LONG,
        codes::UNREACHABLE,
        codes::LOGIN,
        codes::NO_DATABASE,
        codes::NOT_ALLOWED,
        codes::TLS,
        codes::NOT_LAID_OUT,
        codes::CONNECTIONS,
    ]
    .contains(&error.code)
}

#[cfg(test)]
mod tests {
    use super::{Health, Lasts};
    use crate::codes;
    use crate::error::Error;

    #[test]
    fn the_worst_trouble_is_told_and_only_passing_trouble_passes() {
        let health = Health::default();
        let told = |health: &Health| health.check().map_err(|error| error.code);
        let of = |code| Error::new(code, "trouble");
        health.note(Lasts::Passing, &of(codes::FULL));
        assert_eq!(told(&health), Err(codes::FULL));
        health.well();
        assert_eq!(told(&health), Ok(()));
        health.note(Lasts::UntilOpened, &of(codes::CORRUPT));
        health.note(Lasts::Passing, &of(codes::FULL));
        health.well();
        assert_eq!(told(&health), Err(codes::CORRUPT));
        assert!(health.check_stopped().is_ok());
        health.note(Lasts::Stopped, &of(codes::REPLACED));
        health.note(Lasts::UntilOpened, &of(codes::CORRUPT));
        assert_eq!(told(&health), Err(codes::REPLACED));
        assert!(health.check_stopped().is_err());
    }
}
