//! Follows the stored pause, which another process may begin and end.
//!
//! The watcher reads it after a notification from another process, at most once in [`BREATH`], and
//! at every scan interval in case a notification was lost.

use std::sync::Arc;
use std::time::Duration;

use windlass_periodic::{Bell, Periodic, Rest};

use super::Turn;
use crate::scheduler::core::Event;
use crate::shard::Message;
use crate::shared::RuntimeShared;

/// The shortest time between two reads: under load, notifications arrive all the time.
const BREATH: Duration = Duration::from_secs(1);

/// Begins to follow the stored pause, and reads it at least once per `every`.
///
/// # Errors
///
/// The system cannot start another thread.
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
        // The last known pause holds until the store can be read again.
        Err(error) => {
            tracing::debug!(code = %error.code(), %error, "cannot look whether there is a pause");
            return;
        }
    }
    tell(shared);
}

/// Notifies the parts of the process of a changed pause.
pub(crate) fn tell(shared: &RuntimeShared) {
    if shared.intake.pause.is_on() {
        shared.intake.scheduler.send(Event::Pause);
        shared.broadcast(|| Message::Drain);
    } else {
        shared.intake.scheduler.send(Event::Unpause);
        shared.listeners.queue.ring();
    }
}
