//! The worker that sends what nodes have sent.
//!
//! A node's stimuli are written to the queue by its commit, so that they are sent if and only
//! if the commit lasts. Taking one from the queue and delivering it is one transaction of the
//! store: however many processes work on the queue, each stimulus is delivered once.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use windlass_model::{Class, Failure};
use windlass_store::Write;
use windlass_store::stimuli::{QueueOp, QueuedRow, StimulusQuery};

use crate::client::deliver;
use crate::error::Error;
use crate::scheduler::core::Event;
use crate::scheduler::driver::Membership;
use crate::shared::Shared;

/// Looks at the queue when nobody rang.
const IDLE: Duration = Duration::from_secs(10);

/// From one look to the next, at least.
const PACE: Duration = Duration::from_millis(500);

/// Stimuli taken at once.
const PAGE: u32 = 50;

/// How often a stimulus is tried before it is a dead letter.
const ATTEMPTS: u32 = 3;

/// How long a stimulus is tried before it is a dead letter, in milliseconds.
const PATIENCE_MS: i64 = 10 * 60 * 1_000;

/// How long a stimulus waits that has failed for the first time; doubled each time, in
/// milliseconds.
const BACKOFF_MS: i64 = 1_000;

/// Wakes the worker.
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
    /// There may be something in the queue.
    pub(crate) fn ring(&self) {
        self.state.lock().rung = true;
        self.rung.notify_one();
    }

    /// Whether somebody has rung since this was last asked.
    #[cfg(test)]
    pub(crate) fn was_rung(&self) -> bool {
        std::mem::take(&mut self.state.lock().rung)
    }

    /// The worker is to end.
    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.rung.notify_one();
    }

    /// Waits until somebody rings, but not for longer than this. Answers false if the worker
    /// is to end.
    fn wait(&self, at_most: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.rung && !state.stopped {
            self.rung.wait_for(&mut state, at_most);
        }
        state.rung = false;
        !state.stopped
    }

    /// Waits for this long, whoever rings. Answers false if the worker is to end.
    fn pause(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.stopped {
            self.rung
                .wait_while_for(&mut state, |state| !state.stopped, time);
        }
        !state.stopped
    }
}

/// Starts the worker.
pub(crate) fn start(
    shared: &Arc<Shared>,
    membership: &Arc<Membership>,
) -> std::io::Result<JoinHandle<()>> {
    let (shared, membership) = (Arc::clone(shared), Arc::clone(membership));
    std::thread::Builder::new()
        .name("windlass-queue".to_owned())
        .spawn(move || {
            loop {
                match round(&shared, &membership) {
                    Ok(true) => shared.queue.ring(),
                    Ok(false) => {}
                    Err(error) => {
                        tracing::warn!(code = %error.code(), %error, "cannot look after the queue");
                    }
                }
                if !shared.queue.pause(PACE) || !shared.queue.wait(IDLE) {
                    return;
                }
            }
        })
}

/// Sends a page of what is in the queue, and clears away what is too old. Answers whether
/// there may be more.
pub(crate) fn round(shared: &Shared, membership: &Membership) -> Result<bool, Error> {
    // Whoever ends the pause rings.
    if shared.pause.is_on() {
        return Ok(false);
    }
    let now_ms = shared.clock.wall_ms();
    let query = StimulusQuery {
        after: None,
        ready_ms: Some(now_ms),
        limit: PAGE,
    };
    let store = shared.store.as_ref();
    let page = store.queued(&query)?;
    let more = page.len() >= PAGE as usize;
    let numbers = membership.numbers();
    let mut moved = false;
    for row in page {
        windlass_model::failpoint::pass("before-send");
        let sent = deliver(
            store,
            &shared.plugins,
            &shared.catalog,
            &numbers,
            (&row.stimulus, Some(row.no)),
            now_ms,
        );
        match sent {
            Ok(Some(sent)) => {
                moved |= !sent.started.is_empty() || !sent.resumed.is_empty();
                if sent.more {
                    shared.queue.ring();
                }
            }
            Ok(None) => {}
            Err(error) => put_off(shared, row, &error, now_ms)?,
        }
    }
    if moved {
        shared.scheduler.send(Event::Due(now_ms));
        store.notify();
    }
    store.write(Write::Queue(QueueOp::Expire {
        queued_before_ms: shared.pause.back(now_ms, PATIENCE_MS),
        now_ms,
        limit: PAGE,
    }))?;
    Ok(more)
}

/// A stimulus could not be sent: it waits, or becomes a dead letter.
fn put_off(shared: &Shared, row: QueuedRow, error: &Error, now_ms: i64) -> Result<(), Error> {
    tracing::warn!(code = %error.code(), %error, stimulus = row.stimulus.name, "a stimulus cannot be sent");
    let failure = Failure::new(Class::Permanent, error.code(), error.to_string());
    let tried = row.attempts.saturating_add(1);
    let op = if tried >= ATTEMPTS {
        QueueOp::Fail {
            no: row.no,
            error: failure,
            at_ms: now_ms,
        }
    } else {
        let backoff_ms = BACKOFF_MS << row.attempts.min(10);
        QueueOp::Delay {
            no: row.no,
            ready_ms: now_ms.saturating_add(backoff_ms),
            error: failure,
        }
    };
    shared.store.write(Write::Queue(op))?;
    Ok(())
}
