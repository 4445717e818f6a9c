//! Real servers for tests, each on a free port with its data in a temporary directory.
//!
//! They stop when they are dropped, and also when the test process dies in whatever way: a
//! watchdog holds a pipe to it, ends the server when the pipe breaks, and removes the data.
//!
//! Starting PostgreSQL takes about a second, so tests that neither stop nor restart it share one
//! per process ([`PostgreSql::shared`]) and make themselves a database in it
//! ([`PostgreSql::database`]). Those that do start their own.
//!
//! A server that is not installed fails the test where it is required, which is where the
//! variable `CI` or `WINDLASS_REQUIRE_SERVERS` is set. Elsewhere the test says aloud, past the
//! capture of the test harness, that it does not run.

mod places;
mod postgres;
mod process;
mod redis;
mod tls;

pub use postgres::{Options, PostgreSql, Snapshot};
pub use redis::Redis;
pub use tls::Authority;
