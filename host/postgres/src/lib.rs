//! How PostgreSQL is reached: its address, TLS and whom it trusts, connections and pools of
//! them, and what the server's errors mean to somebody who wants to go on working.
//!
//! The store and the locks both speak to PostgreSQL and must not know each other; this is what
//! they have in common. What they ask the server, and which codes people see, is theirs.
//!
//! Nothing here repeats an address, because it may hold a password.

mod address;
mod fault;
mod target;
mod trust;

pub use address::quoted;
pub use deadpool_postgres::{Object, Pool, PoolError};
pub use fault::{Fault, Kind, is_conflict, is_gone, told};
pub use target::{Driver, Target};
pub use trust::Unusable;
