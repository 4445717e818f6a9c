//! Sends the queued stimuli, in order within a run, and removes expired ones.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use windlass_model::{Class, Failure, RunNo};
use windlass_store::Writer as _;
use windlass_store::stimuli::{Expire, QueueOp, QueuedRow, StimulusQuery};

use super::{ATTEMPTS, BACKOFF_MS, EXPIRED, PAGE, PAGES, PATIENCE_MS, Round, Worker};
use crate::error::Error;
use crate::operations::{Queued, send};
use crate::scheduler::core::Event;
use crate::scheduler::driver::Membership;
use crate::shared::RuntimeShared;

/// The worker of one process, without a lock.
pub(crate) struct Sender {
    shared: Arc<RuntimeShared>,
    membership: Arc<Membership>,
}

impl Sender {
    pub(crate) fn new(shared: &Arc<RuntimeShared>, membership: &Arc<Membership>) -> Self {
        Self {
            shared: Arc::clone(shared),
            membership: Arc::clone(membership),
        }
    }

    /// Sends a page. Returns whether there may be more stimuli to send now, and when the next
    /// failed stimulus is tried again.
    fn page(&self, now_ms: i64) -> Result<(bool, Option<i64>), Error> {
        let shared = &*self.shared;
        let query = StimulusQuery {
            after: None,
            ready_ms: Some(now_ms),
            limit: PAGE,
        };
        let store = shared.base.store.as_ref();
        let page = store.queued(&query)?;
        let mut more = page.len() >= PAGE as usize;
        let numbers = self.membership.numbers();
        let mut failing: FxHashSet<RunNo> = FxHashSet::default();
        let (mut moved, mut again_ms) = (false, None);
        for row in page {
            // Stimuli that a run sent after a failed one wait with it, to keep their order.
            if row.source.is_some_and(|source| failing.contains(&source)) {
                continue;
            }
            windlass_model::failpoint::pass("before-send");
            let queued = Queued {
                no: row.no,
                descendants: shared.bursts.max_descendants,
            };
            let stimulus = (&row.stimulus, Some(queued));
            let prepare = |definition| shared.base.stored(definition);
            // No runs are claimed here: the runs that several stimuli resume are claimed together.
            match send(store, &prepare, &numbers, stimulus, None, now_ms) {
                Ok(Some(sent)) => {
                    moved |= !sent.started.is_empty() || !sent.resumed.is_empty();
                    more |= sent.more;
                    if sent.refused {
                        report_refused(&row);
                    }
                }
                // Another process has sent it.
                Ok(None) => {}
                // The stimulus is not at fault: it stays queued for the next round.
                Err(Error::Store(error)) if error.transient => return Err(error.into()),
                Err(error) => {
                    failing.extend(row.source);
                    let retried = self.put_off(row, &error, now_ms)?;
                    again_ms = super::soonest(again_ms, retried);
                }
            }
        }
        if moved {
            shared.intake.scheduler.send(Event::Due(now_ms));
            store.notify();
        }
        Ok((more, again_ms))
    }

    /// Postpones a stimulus that could not be sent, or makes it a dead letter. Returns when it is
    /// tried again.
    fn put_off(&self, row: QueuedRow, error: &Error, now_ms: i64) -> Result<Option<i64>, Error> {
        let (code, sender) = (error.code(), row.source.map(tracing::field::display));
        let stimulus = &row.stimulus.name;
        let failure = Failure::new(Class::Permanent, error.code(), error.to_string());
        let tried = row.attempts.saturating_add(1);
        let (op, again_ms) = if tried >= ATTEMPTS {
            tracing::warn!(%code, %error, stimulus, sender, attempt = tried, "dead letter: the stimulus cannot be sent");
            let op = QueueOp::Fail {
                no: row.no,
                error: failure,
                at_ms: now_ms,
            };
            // Later stimuli of the run are sent at once.
            (op, now_ms)
        } else {
            let ready_ms = now_ms.saturating_add(BACKOFF_MS << row.attempts.min(10));
            tracing::warn!(%code, %error, stimulus, sender, attempt = tried, "the stimulus cannot be sent; it is sent again");
            let op = QueueOp::Delay {
                no: row.no,
                ready_ms,
                error: failure,
            };
            (op, ready_ms)
        };
        // If another process has sent it meanwhile, this write changes nothing.
        let _ = self.shared.base.store.write(op)?;
        Ok(Some(again_ms))
    }

    /// Removes expired stimuli. Returns whether there may be more of them.
    fn expire(&self, now_ms: i64) -> Result<bool, Error> {
        let expired = self.shared.base.store.write(Expire {
            queued_before_ms: self.shared.intake.pause.back(now_ms, PATIENCE_MS),
            now_ms,
            limit: EXPIRED,
        })?;
        if expired > 0 {
            tracing::warn!(
                stimuli = expired,
                "dead letters: nothing waited for these stimuli until they expired"
            );
        }
        Ok(expired >= EXPIRED)
    }
}

/// Reports that a stimulus has started none of its workflows.
fn report_refused(row: &QueuedRow) {
    let (code, name) = (
        windlass_store::codes::TOO_MANY_DESCENDANTS,
        &row.stimulus.name,
    );
    let sender = row.source.map(tracing::field::display);
    tracing::warn!(
        %code,
        stimulus = name,
        sender,
        "dead letter: the tree of the sender has no room for the runs that the stimulus starts"
    );
}

impl Worker for Sender {
    fn round(&self, go_on: &dyn Fn() -> bool) -> Result<Round, Error> {
        let shared = &*self.shared;
        let (mut more, mut again_ms) = (true, None);
        for _ in 0..PAGES {
            // The end of a pause rings the bell.
            if shared.intake.pause.is_on() || !go_on() {
                return Ok(Round::Done {
                    more: false,
                    again_ms,
                });
            }
            let retried;
            (more, retried) = self.page(shared.base.clock.wall_ms())?;
            again_ms = super::soonest(again_ms, retried);
            if !more {
                break;
            }
        }
        more |= self.expire(shared.base.clock.wall_ms())?;
        Ok(Round::Done { more, again_ms })
    }
}
