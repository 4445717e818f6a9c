//! The worker that sends the queued stimuli of nodes.
//!
//! The commit of a node writes its stimuli to the queue, so that they are sent if and only if the
//! commit is durable. Taking a stimulus from the queue and delivering it is one transaction of the
//! store: each stimulus is delivered once, however many processes work on the queue.
//!
//! The worker wakes when its bell rings, at most every [`PACE`], and otherwise every [`IDLE`]. Then
//! it sends all queued stimuli, page by page. If several processes share the store, the worker is
//! wrapped so that one process at a time works on the queue ([`exclusive_worker`]).

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

/// The longest time between two rounds.
const IDLE: Duration = Duration::from_secs(10);

/// The shortest time between two rounds.
const PACE: Duration = Duration::from_millis(500);

/// The delay before the next round if another process works on the queue.
const RESIGNAL: Duration = Duration::from_secs(2);

/// The number of stimuli in one read.
const PAGE: u32 = 50;

/// The number of expired stimuli that one write removes.
const EXPIRED: u32 = 500;

/// The limit of pages in one round. After a round, expired stimuli are removed, and another process
/// may take the lock.
const PAGES: u32 = 200;

/// The number of attempts before a stimulus becomes a dead letter.
const ATTEMPTS: u32 = 3;

/// The time of attempts before a stimulus becomes a dead letter, in milliseconds. Pauses do not
/// count.
const PATIENCE_MS: i64 = 10 * 60 * 1_000;

/// The delay after the first failed attempt, in milliseconds; doubled after each further one.
const BACKOFF_MS: i64 = 1_000;

/// Works on the queue.
pub(crate) trait Worker {
    /// Sends the queued stimuli while `go_on` is true.
    fn round(&self, go_on: &dyn Fn() -> bool) -> Result<Round, Error>;
}

/// The result of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// The round is over.
    Done {
        /// Whether there may be more stimuli to send now.
        more: bool,
        /// When to try stimuli again that could not be sent, in epoch milliseconds.
        again_ms: Option<i64>,
    },
    /// Another process works on the queue.
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

/// The time until the next round. `None`: the round failed.
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
