//! The thread that drives the scheduler's core: it sleeps, calls the store, and passes claimed work
//! to the shards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use windlass_model::limits::REASON_BYTES;
use windlass_model::valid::plain;
use windlass_model::{Code, Numbers, TriggerState};
use windlass_store::write::{
    Claim, ClaimScope, ClaimedRun, Claims, Fence, Fenced, Leave, Mark, NewMember, Park, Reap,
    Reaped, Renew, Renewed, TriggerFence, Unpark,
};
use windlass_store::{Sink, Ticket, Verb as _, Write, Writer as _, Wrote};

use super::core::{Action, Core, Event, Now};
use crate::codes;
use crate::error::Error;
use crate::shard::{Arrival, Message, Transit};
use crate::shared::{RuntimeShared, Work};

/// Sends events to the scheduler.
#[derive(Clone)]
pub(crate) struct Mailbox {
    sender: Sender<Mail>,
}

/// A message to the scheduler's thread.
pub(crate) enum Mail {
    Event(Event),
    Claimed(Claims),
    /// Runs of dead members are freed.
    Reaped(Reaped),
    /// Suspects that may run once they are marked.
    Mark(Vec<TriggerFence>),
    /// Whether these suspects are marked.
    Marked(bool),
    /// Instances claimed by another operation than the scheduler's claim.
    Taken(Vec<ClaimedRun>),
    Stop,
}

impl Mailbox {
    pub(crate) fn new() -> (Self, Inbox) {
        let (sender, receiver) = channel();
        (Self { sender }, Inbox { receiver })
    }

    pub(crate) fn send(&self, event: Event) {
        // After the scheduler has stopped, events can be dropped.
        let _ = self.sender.send(Mail::Event(event));
    }

    /// Passes claimed runs to the scheduler.
    pub(crate) fn taken(&self, taken: Vec<ClaimedRun>) {
        // If the scheduler has stopped, the runs are given back when the process leaves the
        // store.
        let _ = self.sender.send(Mail::Taken(taken));
    }

    /// Marks suspects.
    pub(crate) fn mark(&self, triggers: Vec<TriggerFence>) {
        let _ = self.sender.send(Mail::Mark(triggers));
    }

    pub(crate) fn stop(&self) {
        let _ = self.sender.send(Mail::Stop);
    }
}

/// The scheduler's end of its mailbox.
pub(crate) struct Inbox {
    receiver: Receiver<Mail>,
}

#[cfg(test)]
impl Inbox {
    /// The next message, without waiting.
    pub(crate) fn next(&self) -> Option<Mail> {
        self.receiver.try_recv().ok()
    }
}

/// The work that a process claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All due triggers.
    All,
    /// Only triggers of runs that it started or was asked to continue.
    Own,
}

/// The parts that the driver needs besides the shared ones.
pub(crate) struct Driver {
    pub(crate) shared: Arc<RuntimeShared>,
    pub(crate) core: Core,
    pub(crate) membership: Arc<Membership>,
    pub(crate) sink: Arc<dyn Sink>,
    /// What the reaping in progress has freed so far.
    pub(crate) reaped: Reaped,
}

/// The membership of this process in the store.
pub(crate) struct Membership {
    name: String,
    lease_ms: u64,
    numbers: Mutex<Arc<Numbers>>,
    /// The end of the lease as the scheduler knows it, on the monotonic clock.
    trusted_until_ms: AtomicU64,
}

impl Membership {
    /// Joins for the first time.
    pub(crate) fn join(
        store: &dyn windlass_store::Store,
        name: String,
        lease_ms: u64,
        now_ms: i64,
    ) -> windlass_store::Result<Self> {
        let numbers = Self::enter(store, &name, lease_ms, now_ms)?;
        Ok(Self {
            name,
            lease_ms,
            numbers: Mutex::new(numbers),
            // A new member is trusted; the scheduler sets the end of the trust.
            trusted_until_ms: AtomicU64::new(u64::MAX),
        })
    }

    fn enter(
        store: &dyn windlass_store::Store,
        name: &str,
        lease_ms: u64,
        joined_ms: i64,
    ) -> windlass_store::Result<Arc<Numbers>> {
        let member = NewMember {
            name: name.to_owned(),
            lease_ms,
            joined_ms,
        };
        Ok(Arc::new(Numbers::new(store.write(member)?)))
    }

    /// The numbers of the present incarnation.
    pub(crate) fn numbers(&self) -> Arc<Numbers> {
        Arc::clone(&self.numbers.lock())
    }

    /// Whether this process may still act as a member.
    pub(crate) fn is_trusted(&self, now: Now) -> bool {
        now.monotonic_ms < self.trusted_until_ms.load(Ordering::Acquire)
    }
}

/// Converts the store's answers to events.
struct Answers {
    mailbox: Mailbox,
}

/// The bound on the triggers and scopes of the runs of one claim, in bytes. To read more of them would
/// hold up the writes behind the claim.
const CLAIM_BYTES: u64 = 4 * 1024 * 1024;

const CLAIM: Ticket = 0;
const REAP: Ticket = 1;
const UNPARK: Ticket = 2;
const MARK: Ticket = 3;
/// The ticket of a renewal. The time of the attempt is encoded behind it.
const RENEW: Ticket = 4;

impl Sink for Answers {
    fn answered(&self, answers: Vec<(Ticket, windlass_store::Result<Wrote>)>) {
        for (ticket, answer) in answers {
            let mail = match ticket {
                CLAIM => match Claim::answer(answer) {
                    Ok(claims) => Mail::Claimed(claims),
                    Err(error) if error.code == windlass_store::codes::UNKNOWN_OUTCOME => {
                        // This process may own runs that it does not know and would never run.
                        // It rejoins: a new member owns nothing.
                        complain("tell which runs were claimed", &error);
                        Mail::Event(Event::Lost)
                    }
                    Err(error) => {
                        complain("claim work", &error);
                        Mail::Event(Event::ClaimFailed)
                    }
                },
                REAP => match Reap::answer(answer) {
                    Ok(reaped) => Mail::Reaped(reaped),
                    Err(error) => {
                        complain("free the runs of dead processes", &error);
                        Mail::Event(Event::ReapFailed)
                    }
                },
                UNPARK => match Unpark::answer(answer) {
                    Ok(_) => Mail::Event(Event::Woken),
                    Err(error) => {
                        complain("unpark triggers", &error);
                        continue;
                    }
                },
                MARK => match Mark::answer(answer) {
                    Ok(marked) => Mail::Marked(marked.is_ok()),
                    Err(error) => {
                        complain("mark suspects", &error);
                        Mail::Marked(false)
                    }
                },
                asked => match Renew::answer(answer) {
                    Ok(Ok(Renewed { .. })) => Mail::Event(Event::Renewed {
                        asked_ms: asked - RENEW,
                    }),
                    Ok(Err(Fenced)) => Mail::Event(Event::Lost),
                    Err(error) => {
                        complain("renew the lease", &error);
                        Mail::Event(Event::RenewFailed)
                    }
                },
            };
            let _ = self.mailbox.sender.send(mail);
        }
    }
}

fn complain(what: &str, error: &windlass_store::Error) {
    tracing::warn!(code = %error.code, %error, "cannot {what}");
}

/// Unparks triggers, and makes the scheduler claim them once that is durable.
pub(crate) fn unpark(store: &dyn windlass_store::Store, sink: &Arc<dyn Sink>) {
    store.submit(sink, vec![(UNPARK, Unpark.into())]);
}

/// The sink for a mailbox.
pub(crate) fn sink(mailbox: &Mailbox) -> Arc<dyn Sink> {
    Arc::new(Answers {
        mailbox: mailbox.clone(),
    })
}

impl Driver {
    /// Runs until the scheduler is stopped.
    pub(crate) fn run(mut self, inbox: &Inbox) {
        self.begin();
        loop {
            let sleep = Duration::from_millis(self.sleep_ms());
            let mail = match inbox.receiver.recv_timeout(sleep) {
                Ok(Mail::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(mail) => mail,
                Err(RecvTimeoutError::Timeout) => Mail::Event(Event::Tick),
            };
            self.take(mail);
        }
    }

    /// Begins to act as a new member.
    pub(crate) fn begin(&mut self) {
        let asked_ms = self.shared.base.now().monotonic_ms;
        self.step(Event::Joined { asked_ms });
    }

    /// The time until the next action without a message, in milliseconds.
    pub(crate) fn sleep_ms(&self) -> u64 {
        self.core.sleep_ms(self.shared.base.now()).min(60_000)
    }

    /// Processes a message.
    pub(crate) fn take(&mut self, mail: Mail) {
        match mail {
            Mail::Event(event) => self.step(event),
            Mail::Claimed(claims) => self.claimed(claims),
            Mail::Reaped(reaped) => self.reaped(reaped),
            Mail::Mark(triggers) => {
                let incarnation = self.membership.numbers().incarnation();
                let mark = Mark {
                    incarnation,
                    triggers,
                };
                self.submit(MARK, mark);
            }
            Mail::Marked(done) => self.shared.suspects_marked(done),
            Mail::Taken(taken) => self.taken(taken),
            Mail::Stop => {}
        }
    }

    fn step(&mut self, event: Event) {
        let now = self.shared.base.now();
        let actions = self.core.step(event, now, self.shared.intake.taken());
        // Set before the actions, because they may wait for the store.
        let until_ms = self.core.trusted_until_ms().unwrap_or(0);
        let trusted = &self.membership.trusted_until_ms;
        trusted.store(until_ms, Ordering::Release);
        for action in actions {
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        let incarnation = self.membership.numbers().incarnation();
        match action {
            Action::Claim { runs, triggers } => {
                let scope = match &self.shared.intake.own {
                    None => ClaimScope::All,
                    Some(own) => ClaimScope::Only(own.lock().clone()),
                };
                let now_ms = self.shared.base.now().wall_ms;
                let claim = Claim {
                    incarnation,
                    now_ms,
                    runs,
                    triggers,
                    scope,
                    bytes: self.shared.intake.states.room().min(CLAIM_BYTES),
                };
                self.submit(CLAIM, claim);
            }
            Action::ClaimControl => self.claim_control(),
            Action::Reap { limit } => {
                self.submit(REAP, Reap { incarnation, limit });
                self.shared.broadcast(|| Message::Retry);
                // A mark may have failed.
                self.shared.mark_suspects();
            }
            Action::Renew => {
                let asked_ms = self.shared.base.now().monotonic_ms;
                self.submit(RENEW + asked_ms, Renew { incarnation });
            }
            Action::WatchRoom => {
                self.shared.intake.watch();
            }
            Action::Rejoin => self.rejoin(),
        }
    }

    /// Claims control triggers without room for others, if there is room for their runs.
    fn claim_control(&mut self) {
        let intake = &self.shared.intake;
        let (runs, bytes) = intake.room_for_control();
        if intake.own.is_some() || runs == 0 || bytes == 0 {
            let nothing = Event::Claimed {
                more: false,
                next_due_ms: None,
                contended: false,
            };
            return intake.scheduler.send(nothing);
        }
        let claim = Claim {
            incarnation: self.membership.numbers().incarnation(),
            now_ms: self.shared.base.now().wall_ms,
            runs,
            triggers: 1,
            scope: ClaimScope::Control,
            bytes: bytes.min(CLAIM_BYTES),
        };
        self.submit(CLAIM, claim);
    }

    fn submit(&self, ticket: Ticket, verb: impl Into<Write>) {
        let store = &self.shared.base.store;
        store.submit(&self.sink, vec![(ticket, verb.into())]);
    }

    /// Drops all owned runs and joins as a new member. A later claim, here or elsewhere, finds
    /// the runs again under a new epoch.
    fn rejoin(&mut self) {
        tracing::error!("the membership is lost: interrupting everything and joining again");
        self.shared.base.metrics.lease_lost.add(1);
        self.shared.broadcast(|| Message::Forget);
        let asked = self.shared.base.now();
        let membership = &self.membership;
        let store = self.shared.base.store.as_ref();
        let incarnation = membership.numbers().incarnation();
        if let Err(error) = store.write(Leave { incarnation }) {
            // Other members, or the next reaping, detect it by the lease.
            tracing::warn!(code = %error.code, %error, "could not sign off from the store");
        }
        match Membership::enter(store, &membership.name, membership.lease_ms, asked.wall_ms) {
            Ok(numbers) => {
                *membership.numbers.lock() = numbers;
                self.shared.intake.scheduler.send(Event::Joined {
                    asked_ms: asked.monotonic_ms,
                });
            }
            Err(error) => {
                tracing::error!(%error, "cannot join the store");
                self.shared.intake.scheduler.send(Event::JoinFailed);
            }
        }
    }

    /// Reports the triggers that are tried again, once all of them are free.
    fn reaped(&mut self, reaped: Reaped) {
        self.reaped.add(reaped);
        let metrics = &self.shared.base.metrics;
        metrics.tried_again.add(reaped.triggers.into());
        metrics.suspects.add(reaped.suspects.into());
        self.step(Event::Reaped { freed: reaped.runs });
        if self.core.is_reaping() {
            return;
        }
        let Reaped {
            triggers, suspects, ..
        } = std::mem::take(&mut self.reaped);
        if suspects > 0 {
            tracing::warn!(
                triggers,
                suspects,
                "a host died: the {triggers} triggers that it had claimed are tried again, \
                 {suspects} of them in groups, because several hosts in a row died with them"
            );
        } else if triggers > 0 {
            tracing::warn!(
                triggers,
                "a host died: the {triggers} triggers that it had claimed are tried again"
            );
        }
    }

    fn claimed(&mut self, claims: Claims) {
        let Claims {
            runs,
            more,
            next_due_ms,
            contended,
        } = claims;
        tracing::trace!(runs = runs.len(), more, ?next_due_ms, "claimed");
        windlass_model::failpoint::pass("after-claim-write");
        self.hand_out(runs);
        self.step(Event::Claimed {
            more,
            next_due_ms,
            contended,
        });
    }

    /// Passes on runs claimed outside the scheduler's claims. Unlike a claim's answer, these
    /// do not contain the next due time, so it is computed here.
    fn taken(&mut self, taken: Vec<ClaimedRun>) {
        tracing::trace!(runs = taken.len(), "taken");
        let others = taken.iter().flat_map(|claimed| &claimed.others);
        let pending = others.filter(|row| row.state == TriggerState::Pending);
        let due_ms = pending.map(|row| row.due_ms).min();
        self.hand_out(taken);
        if let Some(due_ms) = due_ms.filter(|due_ms| *due_ms < i64::MAX) {
            self.step(Event::Due(due_ms));
        }
    }

    /// Passes claimed work to the shards.
    fn hand_out(&self, runs: Vec<ClaimedRun>) {
        let now = self.shared.base.now();
        let me = Some(self.membership.numbers().incarnation());
        // Instances that an earlier incarnation of this process claimed are not owned any more.
        for claimed in runs.into_iter().filter(|one| one.row.owner == me) {
            self.shared.intake.flow.took(claimed.count());
            for trigger in &claimed.claimed {
                let late_ms = now.wall_ms.saturating_sub(trigger.due_ms);
                let late_ms = u64::try_from(late_ms).unwrap_or(0);
                let late_us = late_ms.saturating_mul(1_000);
                self.shared.base.metrics.trigger_lateness.record(late_us);
            }
            let bytes = claimed.bytes();
            self.dispatch(claimed, Transit::new(bytes, &self.shared.base.metrics));
        }
    }

    /// Passes claimed work to its shard. An unknown definition is prepared on another thread:
    /// compiling it or its plugins must not delay other runs.
    fn dispatch(&self, claimed: ClaimedRun, transit: Transit) {
        let numbers = self.membership.numbers();
        let (definition, pins) = (claimed.row.definition, claimed.row.pins);
        if let Some(prepared) = self.shared.base.catalog.known(definition, pins) {
            self.shared.arrive(Arrival {
                claimed,
                prepared,
                numbers,
                _transit: transit,
            });
            return;
        }
        let shared = Arc::clone(&self.shared);
        // The definition of a run that is cancelled is needed in any case.
        let mut claims = claimed.claimed.iter();
        let may_wait = !claims.any(|trigger| trigger.kind.is_control());
        let load = move || match shared.base.catalog.load_if(
            &|beyond| !may_wait || shared.intake.states.admits_definition(beyond),
            shared.base.store.as_ref(),
            &shared.base.plugins,
            definition,
            pins,
        ) {
            Ok(Some(prepared)) => shared.arrive(Arrival {
                claimed,
                prepared,
                numbers,
                _transit: transit,
            }),
            // Nothing is claimed before there is room.
            Ok(None) => shared.owe(&claimed, &numbers),
            Err(Error::Store(error)) if error.transient => {
                shared.unread(&claimed, &numbers, &error);
            }
            Err(error) => {
                let reason = error.to_string();
                shared.park(&claimed, &numbers, &error.code(), &reason);
            }
        };
        let threads = Arc::clone(&self.shared.base.catalog.threads);
        self.shared.base.io.spawn(async move {
            // It is never closed.
            let thread = threads.acquire_owned().await;
            tokio::task::spawn_blocking(move || {
                load();
                drop(thread);
            });
        });
    }
}

impl RuntimeShared {
    fn arrive(&self, arrival: Arrival) {
        if let Some(shard) = self.shard(arrival.claimed.row.no) {
            shard.send(Message::Arrived(Box::new(arrival)));
        }
    }

    /// Gives a run back that could not be read because the store failed. It is claimed again
    /// when the store works.
    fn unread(&self, claimed: &ClaimedRun, numbers: &Numbers, error: &windlass_store::Error) {
        let run = claimed.row.id;
        tracing::warn!(run = %run, code = %error.code, %error, "cannot read the data of a run");
        self.owe(claimed, numbers);
    }

    /// As [`Self::park`], for callers that must not block.
    pub(crate) fn put_aside(
        self: &Arc<Self>,
        claimed: ClaimedRun,
        numbers: Arc<Numbers>,
        reason: String,
    ) {
        let shared = Arc::clone(self);
        let park = move || shared.park(&claimed, &numbers, &codes::STATE_UNREADABLE, &reason);
        (self.bursts.aside)(&self.base.io, Work::Reads(Box::new(park)));
    }

    /// Parks the triggers of a run that cannot run here: its definition or one of its plugins
    /// is missing. They stay in the store and are unparked when plugins change.
    fn park(&self, claimed: &ClaimedRun, numbers: &Numbers, code: &Code, reason: &str) {
        let row = &claimed.row;
        let reason = plain(reason, REASON_BYTES);
        let definition = self.base.store.definition(row.definition).ok().flatten();
        let workflow = definition.map(|definition| definition.name);
        let workflow = workflow.as_deref();
        tracing::warn!(run = %row.id, workflow, %code, reason, "run parked: it cannot go on here");
        let fence = fence(claimed, numbers);
        for trigger in &claimed.claimed {
            let trigger = TriggerFence {
                no: trigger.no,
                token: trigger.token,
            };
            let reason = reason.clone();
            if let Err(error) = self.base.store.write(Park {
                fence,
                trigger,
                reason,
            }) {
                tracing::warn!(%error, "cannot park");
            }
        }
        self.owe(claimed, numbers);
    }

    /// Makes the shard give back a run that it never received, until that succeeds.
    fn owe(&self, claimed: &ClaimedRun, numbers: &Numbers) {
        let fence = fence(claimed, numbers);
        if let Some(shard) = self.shard(fence.run) {
            shard.send(Message::Owed(fence));
        }
        self.intake.release(claimed.count());
    }
}

fn fence(claimed: &ClaimedRun, numbers: &Numbers) -> Fence {
    let row = &claimed.row;
    Fence {
        incarnation: numbers.incarnation(),
        run: row.no,
        epoch: row.epoch,
        version: row.version,
    }
}
