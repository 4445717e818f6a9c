//! Who goes next at a queue of the host: one policy, without a clock, a thread or a lock.
//!
//! A [`Queue`] has callers that wait for places (fibers, turns of the processor). A caller has a
//! priority, and belongs to a flow: the workflow of its run. When a place is free, the policy
//! chooses in this order:
//!
//! 1. The level with the highest effective priority. A level has all callers of one priority `p`.
//!    Its effective priority is `p`, plus 1 for each [`STEP_MS`] since the level got a place, or
//!    since it began to wait. Of equal ones, the level with the higher priority.
//! 2. In this level, the flow that holds the fewest places; of several such flows, the flow that has
//!    used the least time; of several such flows, the flow that got a place longest ago. A flow
//!    that asks for nothing saves up nothing: it comes back with at least the time of the flow that
//!    got a place last.
//! 3. In this flow, the caller that has waited longest.
//!
//! Bounds, if a place is free again after at most `D` ms, and the highest priority that waits is
//! `P`: a level of priority `p` gets a place after at most `(P - p + 1) * STEP_MS` ms and one
//! more place for each level that waits. In a level, a flow that holds the fewest places gets the next
//! place of the level, or a later one after each other flow of the level got one or has used more
//! time.
//!
//! A caller may be shut out: its lane (its plugin), or its flow in this lane, holds as many places as
//! it may. Such callers stay, and others go past them.
//!
//! Memory: a waiting caller, a flow that waits or holds places, and a level that waits have an entry,
//! and so have at most 1,024 flows that have used more time than others and ask for nothing. Choosing looks at each level and, in the chosen one, at each waiting flow.

mod queue;

pub use queue::{Caller, Queue, Taken};

/// The time in which the effective priority of a waiting level grows by 1, in milliseconds. From the
/// lowest priority (-100) to the highest (100) that is 10 s.
pub const STEP_MS: u64 = 50;
