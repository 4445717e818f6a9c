//! The thread that plans occurrences, and the maker of their runs.

use std::sync::Arc;
use std::time::Duration;

use windlass_model::{Payload, TriggerNo};
use windlass_periodic::{Bell, Periodic, Rest};
use windlass_store::rows::NewRun;

use super::planner::{Maker, Occurrence, Planner};
use crate::error::Error;
use crate::scheduler::core::Event;
use crate::scheduler::driver::Membership;
use crate::shared::RuntimeShared;
use crate::starting::{Cause, Start};

/// How long the planner waits after the store has failed.
const TROUBLE: Duration = Duration::from_secs(1);

/// The shortest time between two turns that a bell has caused.
const BREATH: Duration = Duration::from_millis(20);

/// Begins to plan. A turn happens when a schedule is due, when the bell rings, and every `scan_ms`
/// in case that a clock was stepped or a notification of a publication was lost.
///
/// # Errors
///
/// The system cannot start another thread.
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

/// Plans due occurrences. Returns the rest until the next turn.
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

/// Makes runs of stored definitions, on the current plugins.
pub(crate) struct Ready {
    shared: Arc<RuntimeShared>,
    membership: Arc<Membership>,
}

impl Ready {
    /// The maker of a process.
    pub(crate) fn new(shared: &Arc<RuntimeShared>, membership: &Arc<Membership>) -> Self {
        Self {
            shared: Arc::clone(shared),
            membership: Arc::clone(membership),
        }
    }
}

impl Maker for Ready {
    fn new_run(&self, occurrence: &Occurrence<'_>) -> Result<NewRun, Error> {
        let base = &self.shared.base;
        let start = Start {
            prepared: base.stored(occurrence.row.definition)?,
            input: Payload::of(&occurrence.schedule.timing().input),
            cause: Cause::Occurrence {
                id: occurrence.id,
                kind: occurrence.kind(),
                due_ms: occurrence.due_ms,
            },
        };
        let numbers = self.membership.numbers();
        start.accepted()?.left(&numbers, base.clock.wall_ms())
    }

    fn trigger(&self) -> Option<TriggerNo> {
        self.membership.numbers().trigger()
    }
}
