//! A bell wakes and stops a worker.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::Rest;

/// Wakes and stops a worker. Clones are the same bell.
#[derive(Clone, Debug, Default)]
pub struct Bell(Arc<BellInner>);

#[derive(Debug, Default)]
struct BellInner {
    state: Mutex<BellState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct BellState {
    rung: bool,
    stopped: bool,
}

impl Bell {
    /// Asks for a turn: there may be something to do.
    pub fn ring(&self) {
        self.0.state.lock().rung = true;
        self.0.changed.notify_one();
    }

    /// Ends the worker after its turn.
    pub fn stop(&self) {
        self.0.state.lock().stopped = true;
        self.0.changed.notify_one();
    }

    /// Whether the worker ends after its turn.
    pub fn is_stopped(&self) -> bool {
        self.0.state.lock().stopped
    }

    /// Whether the bell was rung since the last call, for a caller that takes turns without a
    /// thread.
    pub fn take_ring(&self) -> bool {
        std::mem::take(&mut self.0.state.lock().rung)
    }

    /// Waits until a rest is over. Returns false if the worker ends.
    pub(crate) fn rest(&self, rest: Rest) -> bool {
        let BellInner { state, changed } = &*self.0;
        let mut state = state.lock();
        if !rest.pace.is_zero() {
            changed.wait_while_for(&mut state, |it| !it.stopped, rest.pace);
        }
        let further = rest.at_most.saturating_sub(rest.pace);
        if !further.is_zero() {
            changed.wait_while_for(&mut state, |it| !it.stopped && !it.rung, further);
        }
        state.rung = false;
        !state.stopped
    }
}
