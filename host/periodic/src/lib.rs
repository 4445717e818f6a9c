//! Threads that take turns until they are stopped.
//!
//! A [`Periodic`] works, rests as long as its turn returned, and works again. A [`Bell`] ends the
//! rest early. Every loop of the host that watches, plans or cleans up is a worker of this type:
//! the worker has a name, ends when its owner drops it, and reports a panic.
//!
//! Bounds: one thread for each worker; all rings during a turn or a rest lead to one turn. Dropping
//! a worker waits for the end of the current turn, so a long turn checks [`Bell::is_stopped`]
//! regularly.

mod bell;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;
use std::time::Duration;

pub use bell::Bell;

/// The length of a thread's name that Linux keeps, in bytes. Tools show no more than that.
pub const NAME_BYTES: usize = 15;

/// How long a worker rests after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// No ring ends the rest before this time.
    pace: Duration,
    /// The rest ends after this time without a ring.
    at_most: Duration,
}

impl Rest {
    /// The next turn begins at once.
    pub const NONE: Self = Self::exactly(Duration::ZERO);

    /// A rest that no ring ends early.
    pub const fn exactly(time: Duration) -> Self {
        Self {
            pace: time,
            at_most: time,
        }
    }

    /// A rest that a ring ends, after `pace` at the earliest. Without a ring it lasts `at_most`,
    /// or `pace` if that is longer.
    pub const fn until_rung(pace: Duration, at_most: Duration) -> Self {
        Self { pace, at_most }
    }
}

/// A thread that takes turns. Dropping the value stops the thread and waits for its end.
#[derive(Debug)]
pub struct Periodic {
    bell: Bell,
    /// None once the thread is detached.
    thread: Option<JoinHandle<()>>,
}

impl Periodic {
    /// Starts a thread of this name. The first turn begins at once. `turn` receives the worker's
    /// bell: with it, a turn can check whether the worker is to end, or end the worker.
    ///
    /// The name has at most [`NAME_BYTES`] bytes and is used once in a process.
    ///
    /// # Errors
    ///
    /// The system cannot start another thread.
    pub fn start(
        name: &'static str,
        turn: impl FnMut(&Bell) -> Rest + Send + 'static,
    ) -> std::io::Result<Self> {
        Self::start_with(name, Bell::default(), turn)
    }

    /// Does as [`Self::start`], with a bell that other owners already hold.
    ///
    /// # Errors
    ///
    /// The system cannot start another thread.
    pub fn start_with(
        name: &'static str,
        bell: Bell,
        mut turn: impl FnMut(&Bell) -> Rest + Send + 'static,
    ) -> std::io::Result<Self> {
        debug_assert!(name.len() <= NAME_BYTES, "the system cuts `{name}` off");
        let own = bell.clone();
        let turns = move || while own.rest(turn(&own)) {};
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                if catch_unwind(AssertUnwindSafe(turns)).is_err() {
                    tracing::error!(
                        thread = name,
                        "a worker panicked and has ended; it starts again with the process"
                    );
                }
            })?;
        Ok(Self {
            bell,
            thread: Some(thread),
        })
    }

    /// The bell that wakes the worker.
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Leaves the thread running without an owner. The thread ends when a turn stops its bell.
    pub fn detach(mut self) {
        drop(self.thread.take());
    }
}

impl Drop for Periodic {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.bell.stop();
            // A turn that drops the last owner of its worker cannot wait for itself.
            if thread.thread().id() == std::thread::current().id() {
                return;
            }
            // The thread catches and reports panics itself.
            let _ = thread.join();
        }
    }
}
