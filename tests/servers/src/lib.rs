//! Real servers for tests, each on a free port with its data in a temporary directory.
//!
//! They stop when they are dropped, and also when the test process dies in any way: a watchdog
//! holds a pipe to it, ends the server when the pipe breaks, and removes the data.
//!
//! Starting PostgreSQL takes about a second, so tests that neither stop nor restart it share one
//! ([`PostgreSql::shared`]) and create a database in it ([`Databases::database`]). Other tests start
//! their own. The program of this crate starts the servers that many test processes share.
//!
//! If a server is not installed, the test fails if it is required, that is, if the variable `CI` or
//! `WINDLASS_REQUIRE_SERVERS` is set. Otherwise the test prints a message that it does not run,
//! bypassing the capture of the test harness.

mod places;
mod postgres;
mod process;
mod promtool;
mod redis;
mod tls;

pub use places::unique;
pub use postgres::{Databases, Options, POSTGRES, PostgreSql, Snapshot};
pub use promtool::promtool;
pub use redis::{REDIS, Redis};
pub use tls::Authority;
