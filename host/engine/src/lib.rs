//! Decides the next steps of a run: pure functions over the graph of a workflow and a run's state.
//!
//! A definition is compiled once into a [`Graph`]. [`begin`] makes the [`RunState`] of a new run.
//! [`apply()`] takes a state and an [`Event`] to the next state and returns the [`Command`]s that
//! follow. The caller passes in time, randomness and values, so a step that is repeated after a
//! crash gives the same result.

pub mod apply;
pub mod codes;
pub mod expr;
pub mod graph;
pub mod state;

pub use apply::{
    Altered, Carrier, Closed, Command, Cx, Event, Failing, Interrupted, Judged, MAX_STEPS,
    Recorded, Recording, Reopening, Stale, Verdict, apply, apply_judged, begin, fail_output, judge,
    reopen, replay, timed_out, verdict, waited_too_long,
};
pub use graph::{
    Analysis, Body, BodyIx, EdgeIx, ErrorRule, Facts, Graph, LOOP_DEPTH, LoopIx, MutexIx, NodeIx,
    Plan, PlanKind, Start, analyse, ports, warnings,
};
pub use state::{
    Collect, Corrupt, Inputs, Mark, Misfit, Missing, Open, OpenRow, Read, Refused, Round, RunState,
    Scope, Section, Sections, Visit, check, mark, sections,
};
