//! Threads that work when somebody rings, and now and then in case nobody did.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Wakes whoever works when there is something to do.
#[derive(Default)]
pub(crate) struct Bell {
    state: Mutex<Rung>,
    rung: Condvar,
}

#[derive(Default)]
struct Rung {
    rung: bool,
    stopped: bool,
}

impl Bell {
    /// There may be something to do.
    pub(crate) fn ring(&self) {
        self.state.lock().rung = true;
        self.rung.notify_one();
    }

    /// Whether somebody has rung since this was last asked.
    #[cfg(test)]
    pub(crate) fn was_rung(&self) -> bool {
        std::mem::take(&mut self.state.lock().rung)
    }

    /// Whoever works is to end.
    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.rung.notify_one();
    }

    /// Whether whoever works is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    /// Waits until somebody rings, but not for longer than this. Answers false if
    /// whoever works is to end.
    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.rung && !state.stopped {
            self.rung.wait_for(&mut state, at_most);
        }
        state.rung = false;
        !state.stopped
    }

    /// Waits for this long, whoever rings. Answers false if whoever works is to end.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.stopped {
            self.rung
                .wait_while_for(&mut state, |state| !state.stopped, time);
        }
        !state.stopped
    }
}

/// A thread that looks at something again and again, until this is dropped.
pub(crate) struct Looking {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Looking {
    /// Looks at once, then whenever somebody rings, but not sooner than `pace` after the last
    /// look and not later than `every` after that.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub(crate) fn start(
        name: &str,
        pace: Duration,
        every: Duration,
        mut look: impl FnMut() + Send + 'static,
    ) -> std::io::Result<Self> {
        let bell = Arc::new(Bell::default());
        let rung = Arc::clone(&bell);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                loop {
                    look();
                    if !rung.pause(pace) || !rung.wait(every) {
                        return;
                    }
                }
            })?;
        Ok(Self {
            bell,
            thread: Some(thread),
        })
    }

    /// What asks it to look now.
    pub(crate) fn bell(&self) -> Arc<Bell> {
        Arc::clone(&self.bell)
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.bell.stop();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by its own hook.
            let _ = thread.join();
        }
    }
}
