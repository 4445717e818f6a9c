//! The thread that does the rounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use windlass_model::Incarnation;

use super::{Round, Sweeper};
use crate::error::Error;

/// Retention at work; it ends, within a slice, when this is dropped.
pub struct Service {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Begins with a round at once. `member` says as whom the process acts at the moment.
    ///
    /// # Errors
    ///
    /// There is no thread to be had.
    pub(crate) fn start(
        sweeper: Sweeper,
        member: impl Fn() -> Incarnation + Send + 'static,
    ) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let every = Duration::from_millis(sweeper.options().every_ms.max(1));
        let thread = std::thread::Builder::new()
            .name("windlass-retention".to_owned())
            .spawn(move || {
                let stop = || stopped.load(Ordering::Acquire);
                while !stop() {
                    round(&sweeper, member(), &stop);
                    // Woken early without a reason, it asks for a duty that it does not get.
                    std::thread::park_timeout(every);
                }
            })?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

fn round(sweeper: &Sweeper, member: Incarnation, stop: &dyn Fn() -> bool) {
    match sweeper.round(member, stop) {
        Ok(None) => {}
        Ok(Some(round)) if round.forgotten == 0 && round.swept == 0 => {}
        Ok(Some(round)) => {
            let Round {
                forgotten,
                swept,
                longest,
            } = round;
            tracing::info!(forgotten, swept, ?longest, "forgot what was over");
        }
        Err(error) => {
            tracing::warn!(code = %error.code(), %error, "could not forget what is over");
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A thread that panicked has said so, and has nothing to finish.
            let _ = thread.join();
        }
    }
}
