//! Access to PostgreSQL: addresses, TLS and trust, connections and pools, and the classes of the
//! server's errors.
//!
//! The store and the locks both use PostgreSQL and must not depend on each other; this is their
//! common part. They keep their own statements and error codes.
//!
//! Nothing here repeats an address, because it may contain a password.

mod address;
mod fault;
mod target;
mod trust;

pub use address::quoted;
pub use deadpool_postgres::{Object, Pool, PoolError};
pub use fault::{Fault, Kind, is_conflict, is_gone, told};
pub use target::{Driver, Target};
pub use trust::Unusable;
