//! The worker that sends what nodes have sent.
//!
//! A node's stimuli are written to the queue by its commit, so that they are sent if and only
//! if the commit lasts. Taking one from the queue and delivering it is one transaction of the
//! store: however many processes work on the queue, each stimulus is delivered once.
//!
//! The worker wakes when it is rung for, at most every [`PACE`], and otherwise every [`IDLE`].
//! Then it sends all that there is, page by page. Where several processes share the store, the
//! same worker is wrapped, so that one at a time is at it ([`exclusive_worker`]).

mod exclusive_worker;
mod sender;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use windlass_periodic::{Periodic, Rest};

use self::exclusive_worker::ExclusiveWorker;
pub(crate) use self::sender::Sender;
use crate::error::Error;
use crate::exclusive::Exclusive;
use crate::scheduler::driver::Membership;
use crate::shared::RuntimeShared;

/// Looks at the queue when nobody rang.
const IDLE: Duration = Duration::from_secs(10);

/// From one look to the next, at least.
const PACE: Duration = Duration::from_millis(500);

/// How long the queue is left to another process before it is looked at again.
const RESIGNAL: Duration = Duration::from_secs(2);

/// Stimuli taken at once.
const PAGE: u32 = 50;

/// Old ones that are cleared away at once.
const EXPIRED: u32 = 500;

/// Pages of one round, after which old ones are cleared away, and others may have the lock.
const PAGES: u32 = 200;

/// How often a stimulus is tried before it is a dead letter.
const ATTEMPTS: u32 = 3;

/// How long a stimulus is tried before it is a dead letter, in milliseconds. The clock stands
/// still in a pause.
const PATIENCE_MS: i64 = 10 * 60 * 1_000;

/// How long a stimulus waits that has failed for the first time; doubled each time, in
/// milliseconds.
const BACKOFF_MS: i64 = 1_000;

/// Looks after the queue.
pub(crate) trait Worker {
    /// Sends what there is, for as long as it may go on.
    fn round(&self, go_on: &dyn Fn() -> bool) -> Result<Round, Error>;
}

/// What came of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// The queue was looked after.
    Done {
        /// There may be more to send now.
        more: bool,
        /// When to try again what could not be sent, in epoch milliseconds.
        again_ms: Option<i64>,
    },
    /// Another process is at it.
    Busy,
}

/// Starts the worker.
pub(crate) fn start(
    shared: &Arc<RuntimeShared>,
    membership: &Arc<Membership>,
) -> std::io::Result<Periodic> {
    let sender = Sender::new(shared, membership);
    let worker: Box<dyn Worker + Send> = match shared.base.topology.locks() {
        None => Box::new(sender),
        Some(locks) => {
            let exclusive = Exclusive::new(Arc::clone(locks), shared.base.io.clone());
            Box::new(ExclusiveWorker::new(sender, exclusive))
        }
    };
    let clock = Arc::clone(&shared.base.clock);
    Periodic::start_with("queue", shared.listeners.queue.clone(), move |bell| {
        let round = worker.round(&|| !bell.is_stopped());
        if let Err(error) = &round {
            tracing::warn!(code = %error.code(), %error, "cannot look after the queue");
        }
        rest(round.ok(), clock.wall_ms())
    })
}

/// When to look again after a round; none: after one that failed.
fn rest(round: Option<Round>, now_ms: i64) -> Rest {
    match round {
        Some(Round::Done { more: true, .. }) => Rest::NONE,
        Some(Round::Done { again_ms, .. }) => {
            let wait = |at_ms: i64| u64::try_from(at_ms.saturating_sub(now_ms)).unwrap_or(0);
            let wait = again_ms.map(wait).map(Duration::from_millis);
            Rest::until_rung(PACE, wait.map_or(IDLE, |wait| wait.clamp(PACE, IDLE)))
        }
        Some(Round::Busy) | None => Rest::exactly(RESIGNAL),
    }
}

fn soonest(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    a.into_iter().chain(b).min()
}
