//! Locks for a cluster.
//!
//! A [`LockProvider`] provides locks by [`Key`]: for the burst of a run, for the worker of
//! the bookmark queue, for refreshing definitions. Locks make contention rare. They are not fences:
//! only the epochs and tokens of the store decide whether a commit is valid, so a lock that is
//! lost, doubled or stale costs work and never correctness.
//!
//! Locks are not re-entrant. [`open`] makes a provider from [`Settings`].

pub mod codes;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod file;
mod in_process;
mod key;
mod leased;
mod local;
mod parts;
#[cfg(feature = "postgres")]
mod postgres;
mod provider;
#[cfg(feature = "redis")]
mod redis;
mod retry;
mod settings;
mod sqlite;
#[cfg(test)]
mod tests;

pub use file::Options as FileOptions;
pub use in_process::InProcess;
pub use key::Key;
pub use leased::{LEASE, SHORTEST_LEASE};
pub use parts::Parts;
#[cfg(feature = "postgres")]
pub use postgres::Options as PostgresOptions;
pub use provider::{Error, HeldLock, Listed, LockProvider, Lost, Reach};
#[cfg(feature = "redis")]
pub use redis::Options as RedisOptions;
pub use retry::{Policy, Retrying, Sleeper};
pub use settings::{Settings, open};
pub use sqlite::Options as SqliteOptions;
