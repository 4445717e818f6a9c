//! Renews leases: one task for all locks of a provider, which renews all due leases with one
//! request.
//!
//! A lease is renewed after a third of its time. It is trusted only until shortly before its end,
//! counted from the time at which the last successful renewal was requested; after that its holder
//! is notified that it is lost, even if the backend still has it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::{Backend, Lease, LeasedInner, bounded};
use crate::provider::Lost;

/// The held locks, and the time of each renewal.
#[derive(Default)]
pub(super) struct Renewals {
    state: Mutex<RenewalState>,
    bell: Arc<Notify>,
}

#[derive(Default)]
struct RenewalState {
    next: u64,
    entries: HashMap<u64, Entry>,
}

struct Entry {
    lease: Lease,
    /// When the last successful renewal was requested, on the provider's clock.
    renewed: Duration,
    /// When the last renewal was requested, successful or not.
    asked: Duration,
    lost: watch::Sender<bool>,
}

impl Renewals {
    pub(super) fn add(&self, lease: Lease, renewed: Duration) -> (u64, Lost) {
        let (sender, lost) = Lost::new();
        let entry = Entry {
            lease,
            renewed,
            asked: renewed,
            lost: sender,
        };
        let mut state = self.state.lock();
        state.next += 1;
        let number = state.next;
        state.entries.insert(number, entry);
        if state.entries.len() == 1 {
            self.bell.notify_one();
        }
        (number, lost)
    }

    pub(super) fn remove(&self, number: u64) {
        self.state.lock().entries.remove(&number);
    }

    /// Wakes the task, so that it notices that its provider is gone.
    pub(super) fn end(&self) {
        self.bell.notify_one();
    }

    /// The time until the task has work; none while no lock is held.
    fn wait(&self, now: Duration, lease: Duration) -> Option<Duration> {
        let state = self.state.lock();
        let times = state.entries.values().map(|entry| entry.next(lease));
        Some(times.min()?.saturating_sub(now))
    }

    /// Notifies the holders of ended leases, and returns the due ones.
    fn due(&self, now: Duration, lease: Duration) -> Vec<(u64, Lease)> {
        let mut state = self.state.lock();
        state.entries.retain(|_, entry| {
            let over = now >= entry.end(lease);
            if over {
                tracing::warn!(key = %entry.lease.key, token = entry.lease.token,
                    "a lock is lost: it could not be renewed in time");
                entry.lost.send_replace(true);
            }
            !over
        });
        // Leases that are nearly due are renewed, too.
        let soon = now + lease / 12;
        let mut due = Vec::new();
        for (number, entry) in &mut state.entries {
            if soon >= entry.next(lease) {
                entry.asked = now;
                due.push((*number, entry.lease.clone()));
            }
        }
        due
    }

    /// Records the answers to a request that was sent at `asked`.
    fn note(&self, due: &[(u64, Lease)], answers: &[bool], asked: Duration) {
        let mut state = self.state.lock();
        for ((number, _), ours) in due.iter().zip(answers) {
            if *ours {
                if let Some(entry) = state.entries.get_mut(number) {
                    entry.renewed = asked;
                }
            } else if let Some(entry) = state.entries.remove(number) {
                tracing::warn!(key = %entry.lease.key, token = entry.lease.token,
                    "a lock is lost: the backend does not know it as ours any more");
                entry.lost.send_replace(true);
            }
        }
    }
}

impl Entry {
    /// When it is no longer trusted.
    fn end(&self, lease: Duration) -> Duration {
        self.renewed + lease.mul_f64(0.9)
    }

    /// When to renew it again, or to give it up.
    fn next(&self, lease: Duration) -> Duration {
        let regular = self.renewed + lease / 3;
        // After a failure the delay is shorter, but not zero.
        let again = self.asked + lease / 6;
        let next = if self.asked > self.renewed {
            again
        } else {
            regular
        };
        next.min(self.end(lease))
    }
}

/// Starts the task of a provider. It ends when the provider and all its locks are gone.
pub(super) fn start<B: Backend>(inner: &Arc<LeasedInner<B>>) {
    let bell = Arc::clone(&inner.renewals.bell);
    let weak = Arc::downgrade(inner);
    inner.parts.runtime.spawn(async move {
        while let Some(wait) = next(&weak) {
            match wait {
                // Notified when the first lock is taken.
                None => bell.notified().await,
                Some(wait) => {
                    let _ = tokio::time::timeout(wait, bell.notified()).await;
                }
            }
            if let Some(inner) = weak.upgrade() {
                renew(&inner).await;
            }
        }
    });
}

/// How long to wait; none once the provider is gone.
fn next<B: Backend>(weak: &Weak<LeasedInner<B>>) -> Option<Option<Duration>> {
    let inner = weak.upgrade()?;
    let now = inner.parts.clock.monotonic();
    Some(inner.renewals.wait(now, inner.lease))
}

async fn renew<B: Backend>(inner: &LeasedInner<B>) {
    let now = inner.parts.clock.monotonic();
    let due = inner.renewals.due(now, inner.lease);
    if due.is_empty() {
        return;
    }
    let leases: Vec<Lease> = due.iter().map(|(_, lease)| lease.clone()).collect();
    // Several attempts fit into a lease.
    let patience = inner.lease / 6;
    let asked = inner.backend.renew(&leases);
    match bounded(patience, &inner.backend, asked).await {
        Ok(answers) => inner.renewals.note(&due, &answers, now),
        Err(error) => tracing::warn!(
            code = %error.code(), locks = leases.len(), %error, "cannot renew locks"
        ),
    }
}
