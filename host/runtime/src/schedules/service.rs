//! The thread that plans, and what it makes instances with.

use std::sync::Arc;
use std::time::Duration;

use windlass_model::{Digest, Payload, TriggerNo};
use windlass_periodic::{Bell, Periodic, Rest};
use windlass_store::rows::NewInstance;

use super::planner::{Maker, Occurrence, Planner};
use crate::error::Error;
use crate::request::StartRequest;
use crate::scheduler::core::Event;
use crate::scheduler::driver::Membership;
use crate::shared::RuntimeShared;

/// How long the store is left alone after it was in trouble.
const TROUBLE: Duration = Duration::from_secs(1);

/// How often schedules are looked at for the asking, at most.
const BREATH: Duration = Duration::from_millis(20);

/// Begins to plan. What is due is looked at when it comes due, when the bell rings, and every
/// `scan_ms` in case that a clock was stepped or a publication was not heard of.
///
/// # Errors
///
/// The system has no thread to give.
pub(crate) fn start(
    shared: &Arc<RuntimeShared>,
    membership: &Arc<Membership>,
    bell: Bell,
    scan_ms: u64,
) -> std::io::Result<Periodic> {
    let ready = bell.clone();
    shared.listeners.standby.wakes(move || ready.ring());
    let maker = Ready::new(shared, membership);
    let mut planner = Planner::behind(Arc::clone(&shared.listeners.standby));
    Periodic::start_with("schedules", bell, move |_| {
        plan(&mut planner, &maker, scan_ms)
    })
}

/// Plans what is due, and answers when to look again.
fn plan(planner: &mut Planner, maker: &Ready, scan_ms: u64) -> Rest {
    let shared = &maker.shared;
    let now = shared.base.now();
    let turn = match planner.turn(shared.base.store.as_ref(), maker, now) {
        Ok(turn) => turn,
        Err(error) => {
            tracing::warn!(code = %error.code, %error, "cannot read the schedules");
            return Rest::until_rung(BREATH, TROUBLE);
        }
    };
    if turn.made > 0 {
        shared.intake.scheduler.send(Event::Woken);
        shared.base.store.notify();
    }
    if turn.more {
        return Rest::exactly(BREATH);
    }
    let soonest = turn.next_ms.map_or(scan_ms, |next_ms| {
        u64::try_from(next_ms.saturating_sub(now.wall_ms)).unwrap_or(0)
    });
    let rest = Duration::from_millis(soonest.min(scan_ms).max(1));
    Rest::until_rung(BREATH.min(rest), rest)
}

/// Makes instances of the definitions that the store has, on the plugins that there are now.
pub(crate) struct Ready {
    shared: Arc<RuntimeShared>,
    membership: Arc<Membership>,
}

impl Ready {
    /// Of a process.
    pub(crate) fn new(shared: &Arc<RuntimeShared>, membership: &Arc<Membership>) -> Self {
        Self {
            shared: Arc::clone(shared),
            membership: Arc::clone(membership),
        }
    }

    fn request(&self, occurrence: &Occurrence<'_>) -> Result<StartRequest, Error> {
        let digest: Digest = occurrence.row.definition;
        let definition = self.shared.base.store.definition(digest)?.ok_or_else(|| {
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
        let prepared = shared
            .base
            .catalog
            .prepare(definition, &shared.base.plugins)?;
        request.check(&prepared)?;
        let numbers = self.membership.numbers();
        // Time begins to count for it when it is due, which the jitter may have put off.
        let (mut new, _) = request.instance(&prepared, &numbers, None, occurrence.due_ms)?;
        new.created_ms = shared.base.clock.wall_ms();
        for trigger in &mut new.triggers {
            trigger.kind = occurrence.kind();
        }
        Ok(new)
    }

    fn trigger(&self) -> Option<TriggerNo> {
        self.membership.numbers().trigger()
    }
}
