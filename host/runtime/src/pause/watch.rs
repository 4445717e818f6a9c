//! Follows the pause that the store knows, which another process may begin and end.
//!
//! It looks when word comes of other processes, once in [`BREATH`] at most, and every scan
//! interval in case that word was lost.

use std::sync::Arc;
use std::time::Duration;

use windlass_periodic::{Bell, Periodic, Rest};

use super::Turn;
use crate::scheduler::core::Event;
use crate::shard::Message;
use crate::shared::RuntimeShared;

/// How long nobody looks again, whatever is heard: under load there is word all the time.
const BREATH: Duration = Duration::from_secs(1);

/// Begins to follow, and looks at least that often.
///
/// # Errors
///
/// The system has no thread to give.
pub(crate) fn watch(
    shared: &Arc<RuntimeShared>,
    bell: Bell,
    every: Duration,
) -> std::io::Result<Periodic> {
    let shared = Arc::clone(shared);
    let pace = BREATH.min(every);
    Periodic::start_with("pause", bell, move |_| {
        look(&shared);
        Rest::until_rung(pace, every)
    })
}

fn look(shared: &RuntimeShared) {
    let now_ms = shared.base.clock.wall_ms();
    match shared
        .intake
        .pause
        .follow(shared.base.store.as_ref(), now_ms)
    {
        Ok(Turn::Paused) => tracing::warn!("paused by another process: nothing new is begun"),
        Ok(Turn::Over) => tracing::info!("another process has ended the pause"),
        Ok(Turn::Same) => return,
        // What was known holds until the store can say something again.
        Err(error) => {
            tracing::debug!(code = %error.code(), %error, "cannot look whether there is a pause");
            return;
        }
    }
    tell(shared);
}

/// Tells the parts of the process whether it is paused now.
pub(crate) fn tell(shared: &RuntimeShared) {
    if shared.intake.pause.is_on() {
        shared.intake.scheduler.send(Event::Pause);
        shared.broadcast(|| Message::Drain);
    } else {
        shared.intake.scheduler.send(Event::Unpause);
        shared.listeners.queue.ring();
    }
}
