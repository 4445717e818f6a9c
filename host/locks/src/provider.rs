//! The trait that every backend implements.

use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;
use windlass_model::Code;

use crate::codes;
use crate::key::Key;

/// Gives out locks.
pub trait LockProvider: Send + Sync + 'static {
    /// What it is called in the configuration, like `postgres`.
    fn name(&self) -> &'static str;

    /// Who else sees its locks.
    fn reach(&self) -> Reach;

    /// Takes a lock if it is free at this moment; none if somebody has it.
    ///
    /// # Errors
    ///
    /// [`Error::Reentrant`] if the caller holds it already, or the backend is in trouble. The
    /// caller is the task that asks or, outside of tasks, the thread; other callers of the same
    /// process are told that it is held, as those of other processes are.
    fn try_acquire<'a>(
        &'a self,
        key: &'a Key,
    ) -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>>;

    /// Takes a lock, and waits for it for at most this long; none if it was held all the time, or
    /// if the time was over before the backend had answered.
    ///
    /// # Errors
    ///
    /// As [`Self::try_acquire`].
    fn acquire<'a>(
        &'a self,
        key: &'a Key,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>>;

    /// The locks that are held, by key, as far as the backend can tell; at most `limit`.
    ///
    /// # Errors
    ///
    /// The backend is in trouble.
    fn list(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Listed>, Error>>;
}

/// Who else sees the locks of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Nobody.
    Process,
    /// Processes on the same machine.
    Machine,
    /// Processes on all machines.
    Cluster,
}

/// A lock that is held. Dropping it releases it too, in the background and without a word.
pub trait HeldLock: Send + Sync {
    /// Which.
    fn key(&self) -> &Key;

    /// Grows with each holder, as far as the backend remembers. For logs and people: no fence.
    fn token(&self) -> u64;

    /// Tells when the lock is not held any more, because it could not be renewed.
    fn lost(&self) -> Lost;

    /// Gives it back. Frees nobody else's lock, if it was lost before.
    ///
    /// # Errors
    ///
    /// The backend is in trouble: the lock ends by itself with its lease.
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>>;
}

/// Whether a lock was lost.
#[derive(Clone, Debug)]
pub struct Lost(watch::Receiver<bool>);

impl Lost {
    /// The signal, and what raises it.
    pub fn new() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, Self(receiver))
    }

    /// Whether it is lost by now.
    pub fn is_lost(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is lost. Never ends for one that is released in time.
    pub async fn wait(&mut self) {
        if self.0.wait_for(|lost| *lost).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A lock as `windlass lock list` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The key.
    pub key: String,
    /// Who has it, for people.
    pub owner: String,
    /// Its token.
    pub token: u64,
    /// How long its lease lasts from now if nobody renews it, in milliseconds; none if it ends
    /// with its process.
    pub lease_ms: Option<u64>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller holds it: waiting would never end.
    #[error("the caller holds the lock `{0}` already, and locks are not re-entrant")]
    Reentrant(Key),
    /// The backend does not answer, or answers with an error.
    #[error("{message}")]
    Backend {
        /// The code that people see.
        code: Code,
        /// What happened.
        message: String,
        /// Whether trying again may help.
        transient: bool,
    },
}

impl Error {
    /// What people look up.
    pub fn code(&self) -> Code {
        match self {
            Self::Reentrant(_) => codes::REENTRANT,
            Self::Backend { code, .. } => code.clone(),
        }
    }

    /// Whether trying again may help.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Backend {
                transient: true,
                ..
            }
        )
    }

    /// There is no answer, for now.
    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self::Backend {
            code: codes::UNREACHABLE,
            message: message.into(),
            transient: true,
        }
    }

    /// There is an answer, and it would be the same again.
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
