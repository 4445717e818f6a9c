//! What a backend knows of its own trouble, so that a host can say whether its store answers.
//!
//! Writers and readers note what fails and what works; asking costs one load of an atomic while
//! all is well. A backend notes only what is about the store as a whole, never one row.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::codes;
use crate::error::{Error, Result};

/// How long trouble counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lasts {
    /// Until the next write has been committed.
    Passing,
    /// Until the store is opened again; it goes on as far as it can.
    UntilOpened,
    /// The store carries nothing out any more.
    Stopped,
}

/// The trouble of one store object, the worst first.
#[derive(Default)]
pub(crate) struct Health {
    /// Whether there is any: read without the lock.
    troubled: AtomicBool,
    trouble: Mutex<Option<(Lasts, Error)>>,
}

impl Health {
    /// Notes trouble. What is known already and lasts longer stays.
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

    /// A write has been committed: passing trouble is over.
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

    /// The trouble, if there is any.
    ///
    /// # Errors
    ///
    /// The worst that is known.
    pub(crate) fn check(&self) -> Result<()> {
        self.worst(Lasts::Passing)
    }

    /// Why nothing is carried out any more, if that is so.
    ///
    /// # Errors
    ///
    /// What stopped the store.
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

/// Whether an error says that the store does not work, rather than that one write is refused.
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
