//! The trait that every backend implements.

use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;
use windlass_model::Code;

use crate::codes;
use crate::key::Key;

/// A provider of locks.
pub trait LockProvider: Send + Sync + 'static {
    /// Its name in the configuration, like `postgres`.
    fn name(&self) -> &'static str;

    /// Which processes share its locks.
    fn reach(&self) -> Reach;

    /// Takes a lock if it is free at this moment; none if another caller holds it.
    ///
    /// # Errors
    ///
    /// [`Error::Reentrant`] if the caller holds it already, or an error of the backend. The caller
    /// is the current task or, outside of tasks, the current thread; to other callers of the same
    /// process the lock is held, as to those of other processes.
    fn try_acquire<'a>(
        &'a self,
        key: &'a Key,
    ) -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>>;

    /// Takes a lock, and waits for it for at most this long; none if it was held all the time, or
    /// if the time ended before the backend answered.
    ///
    /// # Errors
    ///
    /// As [`Self::try_acquire`].
    fn acquire<'a>(
        &'a self,
        key: &'a Key,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>>;

    /// The held locks, by key, as far as the backend can list them; at most `limit`.
    ///
    /// # Errors
    ///
    /// The backend fails.
    fn list(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Listed>, Error>>;
}

/// Which processes share the locks of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Only this process.
    Process,
    /// Processes on the same machine.
    Machine,
    /// Processes on all machines.
    Cluster,
}

/// A held lock. Dropping it also releases it, in the background and without reporting errors.
pub trait HeldLock: Send + Sync {
    /// The key.
    fn key(&self) -> &Key;

    /// Grows with each holder, as far as the backend remembers. For logs and people: it is not a
    /// fence.
    fn token(&self) -> u64;

    /// Notifies the holder when the lock is lost because it could not be renewed.
    fn lost(&self) -> Lost;

    /// Releases the lock. If it was lost before, this frees no other holder's lock.
    ///
    /// # Errors
    ///
    /// The backend fails: the lock ends with its lease.
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>>;
}

/// Whether a lock was lost.
#[derive(Clone, Debug)]
pub struct Lost(watch::Receiver<bool>);

impl Lost {
    /// The signal, and the sender that sets it.
    pub fn new() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, Self(receiver))
    }

    /// Whether it is lost.
    pub fn is_lost(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is lost. Never ends for a lock that is released in time.
    pub async fn wait(&mut self) {
        if self.0.wait_for(|lost| *lost).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A lock in `windlass lock list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The key.
    pub key: String,
    /// The holder, for people.
    pub owner: String,
    /// Its token.
    pub token: u64,
    /// How long its lease lasts from now without a renewal, in milliseconds; none if it ends with
    /// its process.
    pub lease_ms: Option<u64>,
}

/// An error of a provider.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller holds it: waiting would never end.
    #[error("the caller holds the lock `{0}` already, and locks are not re-entrant")]
    Reentrant(Key),
    /// The backend does not answer, or answers with an error.
    #[error("{message}")]
    Backend {
        /// The error code.
        code: Code,
        /// The message.
        message: String,
        /// Whether a retry may succeed.
        transient: bool,
    },
}

impl Error {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            Self::Reentrant(_) => codes::REENTRANT,
            Self::Backend { code, .. } => code.clone(),
        }
    }

    /// Whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Backend {
                transient: true,
                ..
            }
        )
    }

    /// The backend does not answer now.
    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self::Backend {
            code: codes::UNREACHABLE,
            message: message.into(),
            transient: true,
        }
    }

    /// The backend answers with an error that a retry would repeat.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::Backend {
            code: codes::REFUSED,
            message: message.into(),
            transient: false,
        }
    }

    /// A provider cannot be made from its settings.
    pub(crate) fn settings(message: impl Into<String>) -> Self {
        Self::Backend {
            code: codes::SETTINGS,
            message: message.into(),
            transient: false,
        }
    }
}
