//! The scheduler as a pure state machine: `step(event, now) -> actions`.
//!
//! It decides when to claim, when to bury the dead, when to renew the lease and when to look
//! again. It holds no trigger in memory: a claim's answer says when the next one comes due, so
//! the near horizon is one number however many timers are pending. Timers only ever say *when*
//! to claim; what is claimed is for the store to decide.
//!
//! The same code is driven by a thread in production and by hand in tests.

/// What time it is, on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Epoch milliseconds: decides what is due.
    pub wall_ms: i64,
    /// Milliseconds that never go back: bounds every wait.
    pub monotonic_ms: u64,
}

/// How the scheduler behaves. Every field is in the configuration reference.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Between two looks at the store when nothing else calls for one. At least 1 s.
    pub scan_interval_ms: u64,
    /// How long others trust in this process without hearing of it.
    pub lease_ms: u64,
    /// How far ahead a due time is waited for precisely; later ones are found by a scan.
    pub near_horizon_ms: u64,
    /// Instances per claim.
    pub claim_instances: u32,
    /// Triggers per instance and claim.
    pub claim_triggers: u32,
    /// Triggers in flight at most; claiming stops there.
    pub in_flight: u32,
    /// Instances freed of dead members per burial.
    pub bury_instances: u32,
}

/// How long after a claim the next one waits at most, in milliseconds, beside another process that
/// writes: as long as the claim took.
const MAX_REST_MS: u64 = 10;

impl Default for Settings {
    fn default() -> Self {
        Self {
            scan_interval_ms: 5_000,
            lease_ms: 30_000,
            near_horizon_ms: 60_000,
            claim_instances: 256,
            claim_triggers: 64,
            in_flight: 4_096,
            bury_instances: 1_000,
        }
    }
}

/// What the scheduler learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Membership was gained; the attempt began at this monotonic time.
    Joined {
        /// Milliseconds of the monotonic clock.
        asked_ms: u64,
    },
    /// Time passed.
    Tick,
    /// Another process, or a plugin that appeared, may have made work.
    Woken,
    /// A trigger that this process may claim comes due then.
    Due(i64),
    /// The claim was answered.
    Claimed {
        /// Whether there may be more that is due.
        more: bool,
        /// When the next one comes due.
        next_due_ms: Option<i64>,
        /// Whether writes have waited for another process lately.
        contended: bool,
    },
    /// The claim failed; the store is in trouble.
    ClaimFailed,
    /// The burial was answered.
    Buried {
        /// How many instances it freed.
        freed: u32,
    },
    /// The burial failed.
    BuryFailed,
    /// The lease was renewed; the attempt began at this monotonic time.
    Renewed {
        /// Milliseconds of the monotonic clock.
        asked_ms: u64,
    },
    /// The renewal failed, but the membership may still stand.
    RenewFailed,
    /// The membership is gone.
    Lost,
    /// Becoming a member anew failed.
    JoinFailed,
    /// In-flight work went down while the scheduler was waiting for that.
    Room,
    /// Stop claiming.
    Drain,
    /// Stop claiming for a while.
    Pause,
    /// Claim again.
    Unpause,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Claim what is due.
    Claim {
        /// Bound on instances.
        instances: u32,
        /// Bound on triggers of each.
        triggers: u32,
    },
    /// Remove dead members and free what they hold.
    Bury {
        /// Bound on instances.
        limit: u32,
    },
    /// Extend the lease.
    Renew,
    /// Interrupt every guest, forget everything owned, and become a member anew.
    Rejoin,
    /// Tell when in-flight work has gone down.
    WatchRoom,
}

/// The state of the scheduler.
#[derive(Debug)]
pub struct Core {
    settings: Settings,
    /// Until when this process may act as a member, on the monotonic clock.
    trusted_until_ms: Option<u64>,
    next_renewal_ms: u64,
    renewing: bool,
    next_scan_ms: u64,
    /// The earliest wall time at which something is known to come due.
    next_due_ms: Option<i64>,
    /// A claim is on its way since then, on the monotonic clock.
    claiming: Option<u64>,
    /// No claim begins before that, on the monotonic clock.
    next_claim_ms: u64,
    /// A burial is on its way.
    burying: bool,
    /// What dead members held is not all free yet: nothing is claimed before that.
    recovering: bool,
    /// A claim is wanted as soon as there is room.
    starved: bool,
    draining: bool,
    paused: bool,
}

impl Core {
    /// A scheduler that is no member yet, and may be paused from the beginning.
    pub fn new(settings: Settings, paused: bool) -> Self {
        Self {
            settings,
            trusted_until_ms: None,
            next_renewal_ms: u64::MAX,
            renewing: false,
            next_scan_ms: 0,
            next_due_ms: None,
            claiming: None,
            next_claim_ms: 0,
            burying: false,
            recovering: false,
            starved: false,
            draining: false,
            paused,
        }
    }

    /// Takes in what happened and says what to do. `in_flight` is the number of triggers that
    /// this process has claimed and not finished.
    pub fn step(&mut self, event: Event, now: Now, in_flight: u32) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Joined { asked_ms } => self.joined(asked_ms, now, &mut actions),
            Event::Tick => {}
            Event::Woken | Event::Room => self.want(now),
            Event::Due(at_ms) => self.note_due(at_ms),
            Event::Claimed {
                more,
                next_due_ms,
                contended,
            } => self.claimed(more, next_due_ms, contended, now),
            Event::ClaimFailed => {
                self.claiming = None;
                // The store is in trouble; the next scan tries again.
                self.next_scan_ms = now.monotonic_ms + self.settings.scan_interval_ms.min(1_000);
            }
            Event::Buried { freed } => self.buried(freed, now, &mut actions),
            Event::BuryFailed => self.bury_failed(now),
            Event::Renewed { asked_ms } => self.renewed(asked_ms),
            Event::RenewFailed => {
                self.renewing = false;
                self.next_renewal_ms = now.monotonic_ms + 1_000;
            }
            Event::Lost => self.lost(&mut actions),
            Event::JoinFailed => self.next_renewal_ms = now.monotonic_ms + 1_000,
            Event::Drain => self.draining = true,
            Event::Pause => self.paused = true,
            Event::Unpause => {
                self.paused = false;
                self.want(now);
            }
        }
        self.keep_lease(now, &mut actions);
        self.look(now, in_flight, &mut actions);
        actions
    }

    /// How long to sleep, in milliseconds, if nothing happens before.
    pub fn sleep_ms(&self, now: Now) -> u64 {
        let mut wake = self.next_renewal_ms;
        if let Some(until) = self.trusted_until_ms {
            wake = wake.min(until);
        }
        // What has to wait for an answer of the store is called for by that answer.
        if !self.draining && !self.recovering && self.is_trusted(now) {
            wake = wake.min(self.next_scan_ms);
            if let Some(due) = self.next_due_ms
                && self.claiming.is_none()
                && !self.starved
                && !self.paused
            {
                let wait = u64::try_from(due.saturating_sub(now.wall_ms)).unwrap_or(0);
                // The wall clock may be stepped while we sleep, so never sleep past a second
                // for its sake.
                let claim_ms = now.monotonic_ms.saturating_add(wait.min(1_000));
                wake = wake.min(claim_ms.max(self.next_claim_ms));
            }
        }
        wake.saturating_sub(now.monotonic_ms)
    }

    /// Whether this process may still act as a member.
    pub fn is_trusted(&self, now: Now) -> bool {
        self.trusted_until_ms
            .is_some_and(|until| now.monotonic_ms < until)
    }

    /// Until when this process may act as a member, on the monotonic clock, if it is one.
    pub fn trusted_until_ms(&self) -> Option<u64> {
        self.trusted_until_ms
    }

    fn joined(&mut self, asked_ms: u64, now: Now, actions: &mut Vec<Action>) {
        self.renewed(asked_ms);
        self.claiming = None;
        self.next_scan_ms = now.monotonic_ms + self.settings.scan_interval_ms;
        self.burying = true;
        self.recovering = true;
        actions.push(Action::Bury {
            limit: self.settings.bury_instances,
        });
    }

    fn renewed(&mut self, asked_ms: u64) {
        self.renewing = false;
        let margin = self.settings.lease_ms / 10;
        self.trusted_until_ms = Some(asked_ms + self.settings.lease_ms - margin);
        self.next_renewal_ms = asked_ms + self.settings.lease_ms / 3;
    }

    fn lost(&mut self, actions: &mut Vec<Action>) {
        self.trusted_until_ms = None;
        self.renewing = false;
        self.claiming = None;
        self.burying = false;
        // Nothing more to do by itself until the driver reports the new membership.
        self.next_renewal_ms = u64::MAX;
        actions.push(Action::Rejoin);
    }

    fn keep_lease(&mut self, now: Now, actions: &mut Vec<Action>) {
        let Some(until) = self.trusted_until_ms else {
            if now.monotonic_ms >= self.next_renewal_ms {
                self.next_renewal_ms = u64::MAX;
                actions.push(Action::Rejoin);
            }
            return;
        };
        if now.monotonic_ms >= until {
            self.lost(actions);
        } else if now.monotonic_ms >= self.next_renewal_ms && !self.renewing {
            self.renewing = true;
            self.next_renewal_ms = until;
            actions.push(Action::Renew);
        }
    }

    fn want(&mut self, now: Now) {
        self.starved = false;
        self.note_due(now.wall_ms);
    }

    fn note_due(&mut self, at_ms: i64) {
        self.next_due_ms = Some(self.next_due_ms.map_or(at_ms, |known| known.min(at_ms)));
    }

    fn claimed(&mut self, more: bool, next_due_ms: Option<i64>, contended: bool, now: Now) {
        let asked_ms = self.claiming.take().unwrap_or(now.monotonic_ms);
        if more {
            self.note_due(now.wall_ms);
        } else if contended {
            // The other process waits for the transaction of each claim: one that takes much costs
            // it less than several that take little.
            let took_ms = now.monotonic_ms.saturating_sub(asked_ms);
            self.next_claim_ms = now.monotonic_ms + took_ms.min(MAX_REST_MS);
        }
        // What was noted while the claim was on its way stands beside what it found.
        let horizon = now
            .wall_ms
            .saturating_add_unsigned(self.settings.near_horizon_ms);
        if let Some(due) = next_due_ms.filter(|due| *due <= horizon) {
            self.note_due(due);
        }
    }

    fn buried(&mut self, freed: u32, now: Now, actions: &mut Vec<Action>) {
        self.burying = freed >= self.settings.bury_instances;
        if self.burying {
            actions.push(Action::Bury {
                limit: self.settings.bury_instances,
            });
            return;
        }
        if freed > 0 || self.recovering {
            self.want(now);
        }
        self.recovering = false;
    }

    /// A burial that failed is tried again by the next scan; work that is free need not wait.
    fn bury_failed(&mut self, now: Now) {
        self.burying = false;
        if std::mem::take(&mut self.recovering) {
            self.want(now);
        }
    }

    fn look(&mut self, now: Now, in_flight: u32, actions: &mut Vec<Action>) {
        if self.draining || self.recovering || !self.is_trusted(now) {
            return;
        }
        if now.monotonic_ms >= self.next_scan_ms {
            self.next_scan_ms = now.monotonic_ms + self.settings.scan_interval_ms;
            self.note_due(now.wall_ms);
            if !self.burying {
                self.burying = true;
                actions.push(Action::Bury {
                    limit: self.settings.bury_instances,
                });
            }
        }
        let due = self.next_due_ms.is_some_and(|due| due <= now.wall_ms);
        let rests = now.monotonic_ms < self.next_claim_ms;
        if !due || rests || self.claiming.is_some() || self.starved || self.paused {
            return;
        }
        let room = self.settings.in_flight.saturating_sub(in_flight);
        if room == 0 {
            self.starved = true;
            actions.push(Action::WatchRoom);
            return;
        }
        self.claiming = Some(now.monotonic_ms);
        self.next_due_ms = None;
        actions.push(Action::Claim {
            instances: self.settings.claim_instances.min(room),
            // What is claimed is out of reach of what comes later and is more urgent: so no
            // more is taken of one instance than there is room for.
            triggers: self.settings.claim_triggers.min(room),
        });
    }
}

#[cfg(test)]
mod tests;
