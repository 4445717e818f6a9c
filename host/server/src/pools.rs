//! Slots for requests, in separate pools.
//!
//! Hooks and resume links need no token, so they may fill their own pool and no other. A request
//! that waits for a run exchanges its slot for one in a pool of waiting requests, so that waiting
//! requests leave room for others. Live streams, waiting API requests and waiting hooks have a pool
//! each. Health and metrics have their own.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use windlass_model::metrics::{Metrics, POOLS};

use crate::codes;
use crate::options::Bounds;
use crate::problem::Problem;

/// How long a request waits for a slot.
const ROOM: Duration = Duration::from_secs(1);

/// Slots of the pool for health and metrics: an operator has few scrapers.
const HEALTH: usize = 16;

/// One of the pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pool {
    /// Metrics.
    Health,
    /// The API.
    Requests,
    /// Hooks and resume links.
    Hooks,
    /// Live streams.
    Streams,
    /// Requests of the API that wait for a run.
    Waiting,
    /// Hooks that wait for a run.
    HooksWaiting,
}

/// All pools.
pub(crate) struct Pools {
    /// Indexed by pool.
    rooms: [Arc<Semaphore>; POOLS.len()],
    metrics: Arc<Metrics>,
}

/// A slot in a pool.
pub(crate) struct Slot {
    pool: Pool,
    metrics: Arc<Metrics>,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    const ALL: [Self; POOLS.len()] = [
        Self::Health,
        Self::Requests,
        Self::Hooks,
        Self::Streams,
        Self::Waiting,
        Self::HooksWaiting,
    ];

    fn name(self) -> &'static str {
        POOLS.get(self as usize).copied().unwrap_or_default()
    }

    fn size(self, bounds: &Bounds) -> usize {
        match self {
            Self::Health => HEALTH,
            Self::Requests => bounds.requests,
            Self::Hooks => bounds.hooks,
            Self::Streams => bounds.streams,
            Self::Waiting => bounds.waiting,
            Self::HooksWaiting => bounds.hooks_waiting,
        }
    }

    /// The answer to a request that finds no slot.
    fn full(self) -> Box<Problem> {
        let name = self.name();
        let detail = match self {
            Self::Health => "too many requests for metrics are worked on".to_owned(),
            Self::Requests | Self::Hooks => {
                format!("the pool `{name}` is full: too many of its requests are worked on")
            }
            Self::Streams => format!("the pool `{name}` is full: too many clients follow runs"),
            Self::Waiting | Self::HooksWaiting => {
                format!("the pool `{name}` is full: too many of its requests wait for runs")
            }
        };
        let reply = match self {
            Self::Health | Self::Requests | Self::Hooks => StatusCode::SERVICE_UNAVAILABLE,
            Self::Streams | Self::Waiting | Self::HooksWaiting => StatusCode::TOO_MANY_REQUESTS,
        };
        let problem = Problem::new(reply, &codes::BUSY, detail);
        match self {
            Self::Health => problem.help("Try again after the time that `Retry-After` names."),
            _ => problem.help(format!(
                "Try again after the time that `Retry-After` names, or allow more by `{name}` in [server]."
            )),
        }
    }
}

impl Pools {
    pub(crate) fn new(bounds: &Bounds, metrics: Arc<Metrics>) -> Self {
        let rooms = Pool::ALL.map(|pool| {
            let size = pool.size(bounds).min(Semaphore::MAX_PERMITS);
            if let Some(slots) = metrics.http.pools.get(pool as usize) {
                slots.all.set(size as u64);
            }
            Arc::new(Semaphore::new(size))
        });
        Self { rooms, metrics }
    }

    /// Takes a slot, and waits a second for one if there is none.
    pub(crate) async fn enter(&self, pool: Pool) -> Result<Slot, Box<Problem>> {
        // Most requests find a slot at once, and need no timer.
        if let Some(slot) = self.take(pool) {
            return Ok(slot);
        }
        let room = self.rooms.get(pool as usize).map(Arc::clone);
        let room = async move {
            match room {
                Some(room) => room.acquire_owned().await.ok(),
                None => None,
            }
        };
        match tokio::time::timeout(ROOM, room).await {
            Ok(Some(permit)) => Ok(self.slot(pool, permit)),
            _ => Err(self.refuse(pool)),
        }
    }

    /// Takes a slot if there is one.
    pub(crate) fn try_enter(&self, pool: Pool) -> Result<Slot, Box<Problem>> {
        self.take(pool).ok_or_else(|| self.refuse(pool))
    }

    /// Free slots.
    #[cfg(test)]
    pub(crate) fn free(&self, pool: Pool) -> usize {
        self.rooms[pool as usize].available_permits()
    }

    fn take(&self, pool: Pool) -> Option<Slot> {
        let room = Arc::clone(self.rooms.get(pool as usize)?);
        let permit = room.try_acquire_owned().ok()?;
        Some(self.slot(pool, permit))
    }

    fn slot(&self, pool: Pool, permit: OwnedSemaphorePermit) -> Slot {
        let metrics = Arc::clone(&self.metrics);
        if let Some(slots) = metrics.http.pools.get(pool as usize) {
            slots.used.add(1);
        }
        Slot {
            pool,
            metrics,
            _permit: permit,
        }
    }

    fn refuse(&self, pool: Pool) -> Box<Problem> {
        if let Some(slots) = self.metrics.http.pools.get(pool as usize) {
            slots.refused.add(1);
        }
        pool.full()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(slots) = self.metrics.http.pools.get(self.pool as usize) {
            slots.used.sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_numbered_as_their_metrics_are() {
        for (pool, name) in Pool::ALL.into_iter().zip(POOLS) {
            assert_eq!(pool.name(), name, "{pool:?}");
            let detail = serde_json::to_value(&*pool.full()).unwrap()["detail"].clone();
            let named = detail.as_str().unwrap().contains(&format!("`{name}`"));
            assert!(named || pool == Pool::Health, "{detail}");
        }
    }

    #[test]
    fn a_full_pool_leaves_the_others_their_room() {
        let metrics = Arc::new(Metrics::default());
        let bounds = Bounds {
            hooks: 1,
            ..Bounds::default()
        };
        let pools = Pools::new(&bounds, Arc::clone(&metrics));
        let slot = pools.try_enter(Pool::Hooks).unwrap();
        assert!(pools.try_enter(Pool::Hooks).is_err());
        for other in [Pool::Health, Pool::Requests, Pool::Streams, Pool::Waiting] {
            assert!(pools.try_enter(other).is_ok(), "{other:?}");
        }
        let counted = &metrics.http.pools[Pool::Hooks as usize];
        let counts = || (counted.all.get(), counted.used.get(), counted.refused.get());
        assert_eq!(counts(), (1, 1, 1));
        drop(slot);
        assert_eq!(counts(), (1, 0, 1));
        assert!(pools.try_enter(Pool::Hooks).is_ok());
    }
}
