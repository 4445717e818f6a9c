//! Sends the spans of a host to a collector of OpenTelemetry, by OTLP over HTTP with protobuf.
//!
//! Tracing is off unless the environment names a collector (`settings`). The threads that run
//! workflows put spans into a bounded `queue`, which counts and drops those without room; one task
//! (`export`) takes them in batches and sends them (`encode`). A collector that hangs, refuses or
//! answers garbage costs spans and never a run: each batch has a bounded number of attempts within a
//! bounded time, answers are read up to a bound, and the flush at the end of the process is bounded.

mod encode;
mod export;
mod queue;
mod sampling;
mod settings;

pub use export::{Exporter, FLUSH};
pub use settings::{Read, Settings};
