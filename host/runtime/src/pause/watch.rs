//! Follows the pause that the store knows, which another process may begin and end.
//!
//! It looks when word comes of other processes, once in [`BREATH`] at most, and every scan
//! interval in case that word was lost.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::Turn;
use crate::queue::Bell;
use crate::scheduler::core::Event;
use crate::shard::Message;
use crate::shared::Shared;

/// How long nobody looks again, whatever is heard: under load there is word all the time.
const BREATH: Duration = Duration::from_secs(1);

/// Follows until it is dropped.
pub(crate) struct Watch {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to look, at least that often.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub(crate) fn start(shared: &Arc<Shared>, every: Duration) -> std::io::Result<Self> {
        let bell = Arc::new(Bell::default());
        let (rung, shared) = (Arc::clone(&bell), Arc::clone(shared));
        let thread = std::thread::Builder::new()
            .name("windlass-pause".to_owned())
            .spawn(move || {
                while rung.pause(BREATH.min(every)) && rung.wait(every) {
                    look(&shared);
                }
            })?;
        Ok(Self {
            bell,
            thread: Some(thread),
        })
    }

    /// What tells that another process may have done something.
    pub(crate) fn bell(&self) -> Arc<Bell> {
        Arc::clone(&self.bell)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.bell.stop();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by its own hook.
            let _ = thread.join();
        }
    }
}

fn look(shared: &Shared) {
    let now_ms = shared.clock.wall_ms();
    match shared.pause.follow(shared.store.as_ref(), now_ms) {
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
pub(crate) fn tell(shared: &Shared) {
    if shared.pause.is_on() {
        shared.scheduler.send(Event::Pause);
        shared.broadcast(|| Message::Drain);
    } else {
        shared.scheduler.send(Event::Unpause);
        shared.queue.ring();
    }
}
