//! One round of retention.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use windlass_model::{Clock, Incarnation, RunNo};
use windlass_store::letters::PurgeLetters;
use windlass_store::retention::{ExpiredRow, Forget, Sweep, Sweepable, Swept};
use windlass_store::write::Duty;
use windlass_store::{Store, Verb, Writer as _};

use super::Options;
use super::archive::Archive;
use crate::error::Error;

/// The name of the duty that one process on a store has at a time.
const DUTY: &str = "retention";

/// The number of runs in one read.
const PAGE: u32 = 256;

/// A slice that takes longer is followed by a smaller one: no other write should wait 50 ms, and
/// this time includes the wait for the writer.
const SLOW: Duration = Duration::from_millis(20);

/// A slice that takes less is followed by a larger one.
const QUICK: Duration = Duration::from_millis(8);

/// The rows of the first slice, before the cost of a row is known.
const FIRST: u32 = 128;

/// The fewest rows of a slice, however long they take.
const SMALLEST: u32 = 16;

/// The result of one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// The number of deleted runs.
    pub forgotten: u64,
    /// The number of other deleted items: dead letters, large values, free pages.
    pub swept: u64,
    /// The time of the longest slice, including the wait for the writer.
    pub longest: Duration,
}

/// Does rounds of retention when it is called.
pub struct Sweeper {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    options: Options,
    archive: Option<Archive>,
    /// The rows of the next slice.
    rows: AtomicU32,
    /// The time of the longest slice of this round, in microseconds.
    longest_us: AtomicU64,
}

impl Sweeper {
    /// A sweeper that has done no round yet.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, options: Options) -> Self {
        let archive = options.archive.clone().map(Archive::new);
        Self {
            store,
            clock,
            rows: AtomicU32::new(options.slice_rows.clamp(1, FIRST)),
            longest_us: AtomicU64::new(0),
            options,
            archive,
        }
    }

    /// The settings of the sweeper.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Deletes runs whose retention is over, if this member has the duty now; none otherwise. Ends
    /// early between two slices if `stop` returns true.
    ///
    /// # Errors
    ///
    /// The store fails, or the archive cannot be written: a run that could not be archived is kept.
    pub fn round(
        &self,
        incarnation: Incarnation,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Round>, Error> {
        let at_ms = self.clock.wall_ms();
        // Members do not wake at the same moment. With half of the interval, the duty is free when
        // the first of them wakes.
        if !self.is_my_duty(incarnation, Some(self.options.every_ms / 2))? {
            return Ok(None);
        }
        let renewed = Cell::new(self.clock.monotonic());
        let stop = &|| stop() || !self.is_still_my_duty(incarnation, &renewed);
        let mut round = Round::default();
        self.longest_us.store(0, Ordering::Relaxed);
        let before_ms = at_ms.saturating_sub_unsigned(self.options.keep_ms);
        let mut last = Vec::new();
        while !stop() {
            let expired = self.store.expired(before_ms, at_ms, PAGE)?;
            // Runs that remain after a pass cannot be deleted now.
            if expired.is_empty() || expired == last {
                break;
            }
            for row in &expired {
                if stop() {
                    return Ok(Some(round));
                }
                self.archive(row)?;
                self.forget(row.no, before_ms, at_ms, stop)?;
                round.forgotten += 1;
            }
            last = expired;
        }
        round.swept += self.purge_letters(before_ms, stop)?;
        for what in Sweepable::ALL {
            round.swept += self.sweep(what, at_ms, stop)?;
        }
        round.longest = Duration::from_micros(self.longest_us.load(Ordering::Relaxed));
        Ok(Some(round))
    }

    /// Renews the duty in time, so that no other member takes it during a long round.
    fn is_still_my_duty(&self, incarnation: Incarnation, renewed: &Cell<Duration>) -> bool {
        let now = self.clock.monotonic();
        let passed = now.saturating_sub(renewed.get());
        if passed < Duration::from_millis(self.options.every_ms / 8) {
            return true;
        }
        renewed.set(now);
        match self.is_my_duty(incarnation, None) {
            Ok(mine) => mine,
            Err(error) => {
                tracing::warn!(code = %error.code(), %error, "cannot continue to delete runs whose retention is over");
                false
            }
        }
    }

    fn is_my_duty(&self, incarnation: Incarnation, every_ms: Option<u64>) -> Result<bool, Error> {
        let at_ms = self.clock.wall_ms();
        Ok(self.store.write(Duty {
            name: DUTY.to_owned(),
            incarnation,
            every_ms,
            inherited: false,
            at_ms,
        })?)
    }

    fn archive(&self, expired: &ExpiredRow) -> Result<(), Error> {
        // A run whose deletion has begun was archived before.
        let (Some(archive), Some(_)) = (&self.archive, expired.id) else {
            return Ok(());
        };
        match self.store.run_by_no(expired.no)? {
            Some(row) => archive.add(self.store.as_ref(), &row),
            None => Ok(()),
        }
    }

    fn forget(
        &self,
        run: RunNo,
        before_ms: i64,
        at_ms: i64,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), Error> {
        let forget = |rows| Forget {
            run,
            before_ms,
            rows,
            at_ms,
        };
        while self.slice(forget)?.more && !stop() {}
        Ok(())
    }

    /// Carries out one slice, and adjusts the size of the next: the cost of a row depends on the
    /// disk and on its content.
    fn slice<V: Verb>(&self, verb: impl FnOnce(u32) -> V) -> Result<V::Answer, Error> {
        let rows = self.rows.load(Ordering::Relaxed);
        let begun = self.clock.monotonic();
        let answer = self.store.write(verb(rows))?;
        let took = self.clock.monotonic().saturating_sub(begun);
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.longest_us.fetch_max(took_us, Ordering::Relaxed);
        let bound = self.options.slice_rows.max(1);
        let next = if took > SLOW {
            rows / 2
        } else if took < QUICK {
            rows.saturating_mul(2)
        } else {
            rows
        };
        let next = next.clamp(bound.min(SMALLEST), bound);
        self.rows.store(next, Ordering::Relaxed);
        Ok(answer)
    }

    fn purge_letters(&self, before_ms: i64, stop: &dyn Fn() -> bool) -> Result<u64, Error> {
        let mut purged = 0;
        while !stop() {
            match self.slice(|limit| PurgeLetters { before_ms, limit })? {
                0 => break,
                count => purged += u64::from(count),
            }
        }
        Ok(purged)
    }

    fn sweep(&self, what: Sweepable, at_ms: i64, stop: &dyn Fn() -> bool) -> Result<u64, Error> {
        let kept_ms = match what {
            Sweepable::Blobs | Sweepable::Documents => self.options.grace_ms,
            Sweepable::Pages => 0,
        };
        let mut swept = 0;
        while !stop() {
            let Swept { count, more } = self.slice(|rows| Sweep {
                what,
                before_ms: at_ms.saturating_sub_unsigned(kept_ms),
                rows,
                at_ms,
            })?;
            swept += u64::from(count);
            if !more {
                break;
            }
        }
        Ok(swept)
    }
}
