//! The places and the memory that the calls of all plugins hold, and the bounds of both.

pub(crate) mod budget;
pub(crate) mod lane;
pub(crate) mod limiter;
pub(crate) mod places;
pub(crate) mod quarantine;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::sync::Semaphore;
use windlass_model::Clock;

use budget::Budget;
use places::{Fibers, Turns};

/// The period at which running guests are interrupted. Time limits have about this precision.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// The bounds of all calls together, and their present use.
pub(crate) struct Bounds {
    /// For calls that have used up their quick start.
    pub(crate) turns: Turns,
    /// For calls on fibers.
    pub(crate) fibers: Fibers,
    /// Instances at once, warm ones included.
    pub(crate) instances: Arc<Semaphore>,
    /// Calls that wait because the number of instances is at its bound.
    pub(crate) waiting_for_instances: Arc<AtomicUsize>,
    /// Inline calls that are slow at this moment.
    pub(crate) slow_inline: Arc<AtomicUsize>,
    /// With so many slow inline calls at once, no further call is made inline.
    pub(crate) max_slow_inline: usize,
    /// How much processor time a call may use before it counts as slow.
    pub(crate) slow: Duration,
    /// The memory budget of guests.
    pub(crate) budget: Arc<Budget>,
}

impl Bounds {
    /// `threads` run guests.
    pub(crate) fn new(
        pool: &PoolSize,
        threads: usize,
        (slow, max_slow_inline): (Duration, usize),
        budget: Arc<Budget>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let fibers = pool.fibers;
        let turns = u32::try_from(threads / 2).unwrap_or(u32::MAX);
        Self {
            turns: Turns::new(turns, Arc::clone(clock)),
            fibers: Fibers::new(fibers, share(fibers), Arc::clone(clock)),
            instances: Arc::new(Semaphore::new(pool.instances as usize)),
            waiting_for_instances: Arc::default(),
            slow_inline: Arc::default(),
            max_slow_inline,
            slow,
            budget,
        }
    }
}

/// The most fibers of one plugin at once: three quarters of all, so that others get some, too.
fn share(fibers: u32) -> u32 {
    fibers - fibers / 4
}

/// Why the host ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stop {
    #[error("the call took longer than it may")]
    Deadline,
    #[error("the call was cancelled")]
    Cancelled,
    #[error("there is no memory for the call within the budget of all plugins (`plugins.memory`)")]
    NoMemory,
}

/// The limits over all plugins together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// Instances, warm ones included.
    pub instances: u32,
    /// Concurrent calls on fibers; further calls wait.
    pub fibers: u32,
    /// Components being compiled at once.
    pub compiles: usize,
    /// The most that the memory limit of a plugin may be, in bytes.
    pub max_memory_bytes: usize,
    /// Calls after which an instance is retired, plus or minus a quarter.
    pub slot_calls: u32,
    /// How long an instance may be idle.
    pub slot_idle: Duration,
}

impl Default for PoolSize {
    fn default() -> Self {
        Self {
            instances: 1_000,
            fibers: 256,
            compiles: 2,
            max_memory_bytes: 256 * 1024 * 1024,
            slot_calls: 1_000,
            slot_idle: Duration::from_secs(30),
        }
    }
}
