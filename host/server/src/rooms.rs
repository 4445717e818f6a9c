//! Rooms of memory: a budget that is taken before data grows, and returned when they are gone.

use std::sync::Arc;

use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use windlass_model::metrics::{Budget, Metrics};

/// The unit of charges, in bytes.
pub(crate) const UNIT: usize = 1024;

/// A budget in the metrics, of which a room is a part or the whole.
type Of = fn(&Metrics) -> &Budget;

/// A bound of memory.
pub(crate) struct Room {
    units: u32,
    free: Arc<Semaphore>,
    of: Of,
    metrics: Arc<Metrics>,
}

/// Charged bytes, until this is dropped.
pub(crate) struct Charge {
    permit: OwnedSemaphorePermit,
    of: Of,
    metrics: Arc<Metrics>,
}

/// Bytes with their charge.
struct Charged {
    bytes: Bytes,
    _charge: Charge,
}

impl Room {
    pub(crate) fn new(bytes: usize, of: Of, metrics: &Arc<Metrics>) -> Self {
        let units = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX).max(1);
        let free = Arc::new(Semaphore::new(units as usize));
        let metrics = Arc::clone(metrics);
        Self {
            units,
            free,
            of,
            metrics,
        }
    }

    /// The units of so many bytes. Data beyond the whole room take all of it.
    fn units(&self, bytes: usize) -> u32 {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        units.min(self.units)
    }

    /// The size, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.units as usize * UNIT
    }

    /// Charges bytes, if there is room.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Charge> {
        let free = Arc::clone(&self.free);
        let permit = free.try_acquire_many_owned(self.units(bytes)).ok()?;
        Some(self.charged(permit))
    }

    /// Waits for room, and charges bytes.
    pub(crate) async fn take(&self, bytes: usize) -> Option<Charge> {
        let free = Arc::clone(&self.free);
        let permit = free.acquire_many_owned(self.units(bytes)).await.ok()?;
        Some(self.charged(permit))
    }

    /// Whether these bytes are charged here.
    pub(crate) fn has(&self, charge: &Charge) -> bool {
        Arc::ptr_eq(charge.permit.semaphore(), &self.free)
    }

    fn charged(&self, permit: OwnedSemaphorePermit) -> Charge {
        let (of, metrics) = (self.of, Arc::clone(&self.metrics));
        of(&metrics).add((permit.num_permits() * UNIT) as u64);
        Charge {
            permit,
            of,
            metrics,
        }
    }
}

impl Charge {
    /// The charged bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.permit.num_permits() * UNIT
    }

    /// Adds a charge of the same room.
    pub(crate) fn join(held: &mut Option<Self>, mut more: Self) {
        match held {
            Some(held) => {
                // All of it, so that the charge that is dropped returns nothing.
                if let Some(all) = more.permit.split(more.permit.num_permits()) {
                    held.permit.merge(all);
                }
            }
            None => *held = Some(more),
        }
    }

    /// The bytes with their charge, which ends when the last of them are dropped.
    pub(crate) fn hold(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Charged {
            bytes,
            _charge: self,
        })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        (self.of)(&self.metrics).sub(self.bytes() as u64);
    }
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
