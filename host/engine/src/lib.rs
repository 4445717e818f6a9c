//! What happens next: pure functions over a workflow's graph and the state of a run.
//!
//! A definition is compiled once into a [`Graph`]. [`begin`] makes the [`RunState`] of a new run,
//! and [`apply()`] takes a state and an [`Event`] to the next state and the [`Command`]s that
//! follow. Time, randomness and values come in from outside, so that doing a step again after
//! a crash gives the same result.

pub mod apply;
pub mod codes;
pub mod expr;
pub mod graph;
pub mod state;

pub use apply::{
    Closed, Command, Cx, Event, MAX_STEPS, Reopening, Stale, Verdict, apply, begin, fail_output,
    reopen, verdict, waited_too_long,
};
pub use graph::{
    Body, BodyIx, EdgeIx, Graph, LOOP_DEPTH, LoopIx, MutexIx, NodeIx, Plan, PlanKind, warnings,
};
pub use state::{
    Collect, Corrupt, Open, OpenRow, Refused, Round, RunState, Scope, Section, Sections, Visit,
    sections,
};
