//! Whole runs in one process, on a store in memory that records writes.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod altering;
mod batches;
mod bursts;
mod call_data;
mod clients;
mod control;
mod definitions;
mod evaluations;
mod expressions;
mod failing;
mod flow;
mod guests;
mod inputs;
mod kept;
mod keys;
mod late;
mod lists;
mod lives;
mod metrics;
mod moving;
mod patterns;
mod queue;
mod races;
mod random;
mod refused;
mod rig;
mod sections;
mod starting;
mod states;
mod tags;
mod traces;
mod trees;
mod unread;
mod vouching;
mod waiting;
mod watching;
