//! The scheduler as a pure state machine: `step(event, now) -> actions`.
//!
//! It decides when to claim, when to reap dead members, when to renew the lease and when to scan.
//! It holds no triggers: the answer to a claim contains the next due time, so the near horizon is
//! one number however many timers are pending. Timers only decide *when* to claim; the store
//! decides which triggers are claimed.
//!
//! A thread drives this code in production, and tests drive it by hand.

/// The time on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Epoch milliseconds: decides which triggers are due.
    pub wall_ms: i64,
    /// Milliseconds that never go back: bounds every wait.
    pub monotonic_ms: u64,
}

/// The settings of the scheduler. Every field is in the configuration reference.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The interval between two scans without another reason to claim, in milliseconds. At least 1
    /// s.
    pub scan_interval_ms: u64,
    /// How long other members treat this process as alive after its last renewal, in milliseconds.
    pub lease_ms: u64,
    /// How far ahead a due time is waited for exactly, in milliseconds; scans find later triggers.
    pub near_horizon_ms: u64,
    /// Runs per claim.
    pub claim_runs: u32,
    /// Triggers per run and claim.
    pub claim_triggers: u32,
    /// The limit of triggers in flight; the process stops claiming there.
    pub in_flight: u32,
    /// The limit of runs that one reaping frees of dead members.
    pub reap_runs: u32,
}

/// The longest rest between two claims, in milliseconds, while another process waits to write. The
/// rest lasts as long as the claim before took.
const MAX_REST_MS: u64 = 10;

/// The interval between two claims of control triggers while there is no room for others, in
/// milliseconds.
const CONTROL_INTERVAL_MS: u64 = 100;

impl Default for Settings {
    fn default() -> Self {
        Self {
            scan_interval_ms: 5_000,
            lease_ms: 30_000,
            near_horizon_ms: 60_000,
            claim_runs: 256,
            claim_triggers: 64,
            in_flight: 4_096,
            reap_runs: 1_000,
        }
    }
}

/// An input of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The process became a member; the attempt began at this monotonic time.
    Joined {
        /// Milliseconds of the monotonic clock.
        asked_ms: u64,
    },
    /// Time passed.
    Tick,
    /// Another process, or a newly loaded plugin, may have made work.
    Woken,
    /// A trigger that this process may claim comes due at this time.
    Due(i64),
    /// The claim was answered.
    Claimed {
        /// Whether more triggers may be due.
        more: bool,
        /// The next due time.
        next_due_ms: Option<i64>,
        /// Whether writes have waited for another process lately.
        contended: bool,
    },
    /// The claim failed because of the store.
    ClaimFailed,
    /// The reaping was answered.
    Reaped {
        /// The number of runs that it freed.
        freed: u32,
    },
    /// The reaping failed.
    ReapFailed,
    /// The lease was renewed; the attempt began at this monotonic time.
    Renewed {
        /// Milliseconds of the monotonic clock.
        asked_ms: u64,
    },
    /// The renewal failed, but the membership may still be valid.
    RenewFailed,
    /// The membership has ended.
    Lost,
    /// The process could not become a member again.
    JoinFailed,
    /// In-flight work has gone down, as requested by `WatchRoom`.
    Room,
    /// Stop claiming.
    Drain,
    /// Stop claiming for a while.
    Pause,
    /// Claim again.
    Unpause,
}

/// An output of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Claim due triggers.
    Claim {
        /// Bound on runs.
        runs: u32,
        /// Bound on triggers of each.
        triggers: u32,
    },
    /// Claim due control triggers, although there is no room: they end other triggers.
    ClaimControl,
    /// Remove dead members and free their runs.
    Reap {
        /// Bound on runs.
        limit: u32,
    },
    /// Extend the lease.
    Renew,
    /// Interrupt every guest, drop all owned runs, and join as a new member.
    Rejoin,
    /// Send `Room` when in-flight work has gone down.
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
    /// The earliest known due time, on the wall clock.
    next_due_ms: Option<i64>,
    /// When the claim in progress began, on the monotonic clock.
    claiming: Option<u64>,
    /// The earliest time of the next claim, on the monotonic clock.
    next_claim_ms: u64,
    /// Whether a reaping is in progress.
    reaping: bool,
    /// Whether some runs of dead members are not yet free; the process claims nothing before
    /// that.
    recovering: bool,
    /// Whether to claim as soon as there is room.
    starved: bool,
    /// Whether the claim in progress is one of control triggers.
    claims_control: bool,
    /// The earliest time of the next claim of control triggers, on the monotonic clock.
    next_control_ms: u64,
    draining: bool,
    paused: bool,
}

impl Core {
    /// A scheduler that is not a member yet, and may be paused from the start.
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
            reaping: false,
            recovering: false,
            starved: false,
            claims_control: false,
            next_control_ms: 0,
            draining: false,
            paused,
        }
    }

    /// Processes an event and returns the actions. `in_flight` is the number of triggers that this
    /// process has claimed and not finished.
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
                self.claims_control = false;
                // The store failed; the next scan tries again.
                self.next_scan_ms = now.monotonic_ms + self.settings.scan_interval_ms.min(1_000);
            }
            Event::Reaped { freed } => self.reaped(freed, now, &mut actions),
            Event::ReapFailed => self.reap_failed(now),
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

    /// How long to sleep without an event, in milliseconds.
    pub fn sleep_ms(&self, now: Now) -> u64 {
        let mut wake = self.next_renewal_ms;
        if let Some(until) = self.trusted_until_ms {
            wake = wake.min(until);
        }
        // Work that waits for an answer of the store continues with that answer.
        if !self.draining && !self.recovering && self.is_trusted(now) {
            wake = wake.min(self.next_scan_ms);
            if self.starved && self.claiming.is_none() && !self.paused {
                wake = wake.min(self.next_control_ms);
            }
            if let Some(due) = self.next_due_ms
                && self.claiming.is_none()
                && !self.starved
                && !self.paused
            {
                let wait = u64::try_from(due.saturating_sub(now.wall_ms)).unwrap_or(0);
                // The wall clock may be stepped during the sleep, so the sleep for a due time lasts
                // a second at most.
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

    /// Until when this process may act as a member, on the monotonic clock; none if it is no
    /// member.
    pub fn trusted_until_ms(&self) -> Option<u64> {
        self.trusted_until_ms
    }

    /// Whether a reaping is in progress.
    pub fn is_reaping(&self) -> bool {
        self.reaping
    }

    fn joined(&mut self, asked_ms: u64, now: Now, actions: &mut Vec<Action>) {
        self.renewed(asked_ms);
        self.claiming = None;
        self.claims_control = false;
        self.next_scan_ms = now.monotonic_ms + self.settings.scan_interval_ms;
        self.reaping = true;
        self.recovering = true;
        actions.push(Action::Reap {
            limit: self.settings.reap_runs,
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
        self.claims_control = false;
        self.reaping = false;
        // The scheduler does nothing more until the driver reports the new membership.
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
        if std::mem::take(&mut self.claims_control) {
            return;
        }
        if more {
            self.note_due(now.wall_ms);
        } else if contended {
            // Each transaction delays the other process, so one claim of many runs delays it
            // less than several claims of few.
            let took_ms = now.monotonic_ms.saturating_sub(asked_ms);
            self.next_claim_ms = now.monotonic_ms + took_ms.min(MAX_REST_MS);
        }
        // Due times reported during the claim are compared with those that the claim found.
        let horizon = now
            .wall_ms
            .saturating_add_unsigned(self.settings.near_horizon_ms);
        if let Some(due) = next_due_ms.filter(|due| *due <= horizon) {
            self.note_due(due);
        }
    }

    fn reaped(&mut self, freed: u32, now: Now, actions: &mut Vec<Action>) {
        self.reaping = freed >= self.settings.reap_runs;
        if self.reaping {
            actions.push(Action::Reap {
                limit: self.settings.reap_runs,
            });
            return;
        }
        if freed > 0 || self.recovering {
            self.want(now);
        }
        self.recovering = false;
    }

    /// The next scan tries a failed reaping again; work that is free need not wait.
    fn reap_failed(&mut self, now: Now) {
        self.reaping = false;
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
            if !self.reaping {
                self.reaping = true;
                actions.push(Action::Reap {
                    limit: self.settings.reap_runs,
                });
            }
        }
        let due = self.next_due_ms.is_some_and(|due| due <= now.wall_ms);
        let rests = now.monotonic_ms < self.next_claim_ms;
        if self.claiming.is_some() || self.paused {
            return;
        }
        if self.starved {
            self.claim_control(now, actions);
            return;
        }
        if !due || rests {
            return;
        }
        let room = self.settings.in_flight.saturating_sub(in_flight);
        if room == 0 {
            self.starved = true;
            actions.push(Action::WatchRoom);
            self.claim_control(now, actions);
            return;
        }
        self.claiming = Some(now.monotonic_ms);
        self.next_due_ms = None;
        actions.push(Action::Claim {
            runs: self.settings.claim_runs.min(room),
            // Claimed triggers cannot be overtaken by later, more urgent ones. So a claim takes no
            // more triggers of one run than there is room for.
            triggers: self.settings.claim_triggers.min(room),
        });
    }

    fn claim_control(&mut self, now: Now, actions: &mut Vec<Action>) {
        if now.monotonic_ms >= self.next_control_ms {
            self.next_control_ms = now.monotonic_ms + CONTROL_INTERVAL_MS;
            self.claiming = Some(now.monotonic_ms);
            self.claims_control = true;
            actions.push(Action::ClaimControl);
        }
    }
}

#[cfg(test)]
mod tests;
