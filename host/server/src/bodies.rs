//! The memory of the bodies of requests, charged as they arrive.
//!
//! A body that is larger than [`SMALL`] is charged before it grows, until its request ends or has
//! handed its data on. A request whose body finds no room waits, and is then answered with 503.
//! Small bodies are not charged: the pools of requests bound them, so that large bodies do not
//! delay them.

use std::sync::Arc;
use std::time::Duration;

use windlass_body::Memory;
use windlass_model::metrics::Metrics;

use crate::problem::Problem;
use crate::rooms::{Charge, Room};

/// Bodies up to this size, in bytes, are not charged.
pub(crate) const SMALL: usize = 64 * 1024;

/// How long a request waits for room.
const PATIENCE: Duration = Duration::from_secs(3);

/// The budget of the bodies of a server.
pub(crate) struct Bodies {
    room: Room,
    patience: Duration,
    metrics: Arc<Metrics>,
}

impl Bodies {
    /// At most so many bytes.
    pub(crate) fn new(bytes: usize, metrics: &Arc<Metrics>) -> Self {
        Self::patient(bytes, PATIENCE, metrics)
    }

    fn patient(bytes: usize, patience: Duration, metrics: &Arc<Metrics>) -> Self {
        let room = Room::new(bytes, |metrics| &metrics.http.bodies, metrics);
        metrics.http.bodies.set_limit(room.bytes() as u64);
        Self {
            room,
            patience,
            metrics: Arc::clone(metrics),
        }
    }

    /// Charges a body that grows to so many bytes.
    ///
    /// # Errors
    ///
    /// There was no room in time.
    pub(crate) async fn grow(
        &self,
        held: &mut Option<Charge>,
        bytes: usize,
    ) -> Result<(), Box<Problem>> {
        let has = held.as_ref().map_or(0, Charge::bytes);
        if bytes <= SMALL.max(has) {
            return Ok(());
        }
        let more = match self.room.try_take(bytes - has) {
            Some(more) => Some(more),
            None => tokio::time::timeout(self.patience, self.room.take(bytes - has))
                .await
                .ok()
                .flatten(),
        };
        let Some(more) = more else {
            self.metrics.http.bodies_refused.add(1);
            return Err(Problem::busy(
                "the bodies of other requests take all the room for bodies",
            ));
        };
        Charge::join(held, more);
        Ok(())
    }

    /// Counts what a body takes while its content codings are removed.
    pub(crate) fn inflating(&self) -> Inflating<'_> {
        Inflating {
            bodies: self,
            used: 0,
            held: None,
        }
    }
}

/// The memory of a body without its content codings, and of the decoders while they work.
pub(crate) struct Inflating<'a> {
    bodies: &'a Bodies,
    used: usize,
    held: Option<Charge>,
}

impl Inflating<'_> {
    /// The charge of the bytes that were not returned.
    pub(crate) fn into_charge(self) -> Option<Charge> {
        self.held
    }
}

impl Memory for Inflating<'_> {
    fn charge(&mut self, bytes: usize) -> bool {
        let used = self.used.saturating_add(bytes);
        let has = self.held.as_ref().map_or(0, Charge::bytes);
        if used > has {
            let Some(more) = self.bodies.room.try_take(used - has) else {
                self.bodies.metrics.http.bodies_refused.add(1);
                return false;
            };
            Charge::join(&mut self.held, more);
        }
        self.used = used;
        true
    }

    fn discharge(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;

    #[tokio::test]
    async fn a_large_body_is_charged_as_it_grows_and_a_small_one_is_not() {
        let metrics = Arc::new(Metrics::default());
        let bodies = Bodies::patient(300 * KIB, Duration::from_millis(10), &metrics);
        let used = || metrics.http.bodies.get();
        let (mut first, mut second) = (None, None);
        assert!(bodies.grow(&mut first, SMALL).await.is_ok());
        assert_eq!(used(), 0);
        for size in [100, 150, 200] {
            assert!(bodies.grow(&mut first, size * KIB).await.is_ok());
            assert_eq!(used(), (size * KIB) as u64);
        }
        assert!(bodies.grow(&mut second, 101 * KIB).await.is_err());
        assert_eq!(metrics.http.bodies_refused.get(), 1);
        assert!(bodies.grow(&mut second, SMALL).await.is_ok());
        assert!(bodies.grow(&mut second, 100 * KIB).await.is_ok());
        assert_eq!(used(), metrics.http.bodies.limit());
        drop(first);
        assert!(bodies.grow(&mut second, 300 * KIB).await.is_ok());
        drop(second);
        assert_eq!((used(), metrics.http.bodies.peak()), (0, 300 * KIB as u64));
    }

    #[test]
    fn a_body_that_is_inflated_is_charged_before_it_grows() {
        let metrics = Arc::new(Metrics::default());
        let bodies = Bodies::new(100 * KIB, &metrics);
        let mut memory = bodies.inflating();
        assert!(memory.charge(60 * KIB));
        memory.discharge(30 * KIB);
        assert!(memory.charge(50 * KIB));
        assert_eq!(metrics.http.bodies.get(), 80 * KIB as u64);
        assert!(!memory.charge(30 * KIB));
        let held = memory.into_charge();
        assert_eq!(metrics.http.bodies.get(), 80 * KIB as u64);
        drop(held);
        assert_eq!(metrics.http.bodies.get(), 0);
    }
}
