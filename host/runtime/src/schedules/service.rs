//! The thread that plans, and what it makes instances with.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use windlass_model::{Digest, Payload, TriggerNo};
use windlass_store::rows::NewInstance;

use super::planner::{Maker, Occurrence, Planner};
use crate::error::Error;
use crate::request::StartRequest;
use crate::scheduler::core::Event;
use crate::scheduler::driver::Membership;
use crate::shared::Shared;

/// How long the store is left alone after it was in trouble.
const TROUBLE: Duration = Duration::from_secs(1);

/// How often schedules are looked at for the asking, at most.
const BREATH: Duration = Duration::from_millis(20);

enum Mail {
    Look,
    Stop,
}

/// Plans schedules until it is stopped.
pub(crate) struct Service {
    mail: SyncSender<Mail>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Begins to plan. What is due is looked at when it comes due, and every `scan_ms` in case
    /// that a clock was stepped or somebody published something.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        membership: &Arc<Membership>,
        scan_ms: u64,
    ) -> std::io::Result<Self> {
        let (mail, inbox) = sync_channel(1);
        let ready = mail.clone();
        shared.standby.wakes(move || {
            let _ = ready.try_send(Mail::Look);
        });
        let maker = Ready::new(shared, membership);
        let thread = std::thread::Builder::new()
            .name("windlass-schedules".to_owned())
            .spawn(move || run(&inbox, &maker, scan_ms))?;
        Ok(Self {
            mail,
            thread: Some(thread),
        })
    }

    /// Somebody may have published something. A full mailbox holds that word already.
    pub(crate) fn look(&self) -> impl Fn() + Send + Sync + 'static {
        let mail = self.mail.clone();
        move || {
            let _ = mail.try_send(Mail::Look);
        }
    }

    /// Stops planning; what is being planned is finished.
    pub(crate) fn stop(mut self) {
        let _ = self.mail.send(Mail::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(inbox: &Receiver<Mail>, maker: &Ready, scan_ms: u64) {
    let shared = &maker.shared;
    let mut planner = Planner::behind(Arc::clone(&shared.standby));
    loop {
        let now = shared.now();
        let pause = match planner.turn(shared.store.as_ref(), maker, now) {
            Ok(turn) => {
                if turn.made > 0 {
                    shared.scheduler.send(Event::Woken);
                    shared.store.notify();
                }
                let soonest = turn.next_ms.map_or(scan_ms, |next_ms| {
                    u64::try_from(next_ms.saturating_sub(now.wall_ms)).unwrap_or(0)
                });
                let pause = Duration::from_millis(soonest.min(scan_ms));
                if turn.more {
                    BREATH
                } else {
                    pause.max(Duration::from_millis(1))
                }
            }
            Err(error) => {
                tracing::warn!(code = %error.code, %error, "cannot read the schedules");
                TROUBLE
            }
        };
        match inbox.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Mail::Look) => {
                // Others may have much to say: one look serves all of it.
                if let Ok(Mail::Stop) | Err(RecvTimeoutError::Disconnected) =
                    inbox.recv_timeout(BREATH)
                {
                    return;
                }
            }
            Ok(Mail::Stop) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Makes instances of the definitions that the store has, on the plugins that there are now.
pub(crate) struct Ready {
    shared: Arc<Shared>,
    membership: Arc<Membership>,
}

impl Ready {
    /// Of a process.
    pub(crate) fn new(shared: &Arc<Shared>, membership: &Arc<Membership>) -> Self {
        Self {
            shared: Arc::clone(shared),
            membership: Arc::clone(membership),
        }
    }

    fn request(&self, occurrence: &Occurrence<'_>) -> Result<StartRequest, Error> {
        let digest: Digest = occurrence.row.definition;
        let definition = self.shared.store.definition(digest)?.ok_or_else(|| {
            Error::Unreadable(format!(
                "the store has no definition {digest}, though it is published"
            ))
        })?;
        let input = occurrence.schedule.timing().input.to_string();
        Ok(StartRequest {
            definition,
            input: Payload::json(input),
            id: Some(occurrence.id),
            correlation: None,
        })
    }
}

impl Maker for Ready {
    fn instance(&self, occurrence: &Occurrence<'_>) -> Result<NewInstance, Error> {
        let request = self.request(occurrence)?;
        let shared = &self.shared;
        let definition = request.definition.clone();
        let prepared = shared.catalog.prepare(definition, &shared.plugins)?;
        request.check(&prepared)?;
        let numbers = self.membership.numbers();
        // Time begins to count for it when it is due, which the jitter may have put off.
        let (mut new, _) = request.instance(&prepared, &numbers, None, occurrence.due_ms)?;
        new.created_ms = shared.clock.wall_ms();
        for trigger in &mut new.triggers {
            trigger.kind = occurrence.kind();
        }
        Ok(new)
    }

    fn trigger(&self) -> Option<TriggerNo> {
        self.membership.numbers().trigger()
    }
}
