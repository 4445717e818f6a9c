//! An administrative pause: nothing is claimed, nothing new is begun, and what runs is finished.
//!
//! A pause belongs to one process. One that is to survive a restart is written into the store
//! besides, and every process that begins on that store begins paused.
//!
//! Clocks that measure patience stand still meanwhile: [`Pause::back`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use windlass_store::{Store, Write};

use crate::error::Error;

/// The name of the decision in the store.
const SETTING: &str = "pause";

/// Pauses that are remembered, for clocks that stood still meanwhile.
const REMEMBERED: usize = 64;

/// What is known of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paused {
    /// Since when, in epoch milliseconds.
    pub since_ms: i64,
    /// Whether it survives a restart.
    pub persist: bool,
}

/// As the store keeps it.
#[derive(Serialize, Deserialize)]
struct Stored {
    v: u32,
    since_ms: i64,
}

/// Whether the process is paused, and when it was.
#[derive(Default)]
pub(crate) struct Pause {
    on: AtomicBool,
    times: Mutex<Times>,
}

#[derive(Default)]
struct Times {
    now: Option<Paused>,
    /// From when to when, oldest first, in epoch milliseconds.
    over: VecDeque<(i64, i64)>,
}

impl Pause {
    /// As the store says that it is to begin.
    pub(crate) fn begin(store: &dyn Store) -> Result<Self, Error> {
        let pause = Self::default();
        if let Some(bytes) = store.setting(SETTING)? {
            let stored: Stored = serde_json::from_slice(&bytes).map_err(|error| {
                Error::Unreadable(format!("the store's pause cannot be read: {error}"))
            })?;
            pause.set(Paused {
                since_ms: stored.since_ms,
                persist: true,
            });
        }
        Ok(pause)
    }

    /// Whether the process is paused now: cheap enough for every step.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// What is known of the pause that is on.
    pub(crate) fn now(&self) -> Option<Paused> {
        self.times.lock().now
    }

    /// Pauses; a pause that is on keeps its beginning.
    fn set(&self, paused: Paused) -> Paused {
        let mut times = self.times.lock();
        let since_ms = times.now.map_or(paused.since_ms, |now| now.since_ms);
        let paused = Paused { since_ms, ..paused };
        times.now = Some(paused);
        self.on.store(true, Ordering::Release);
        paused
    }

    /// Ends the pause. Answers the one that was on.
    fn end(&self, now_ms: i64) -> Option<Paused> {
        let mut times = self.times.lock();
        let ended = times.now.take();
        self.on.store(false, Ordering::Release);
        if let Some(ended) = ended {
            times.over.push_back((ended.since_ms, now_ms));
            if times.over.len() > REMEMBERED {
                times.over.pop_front();
            }
        }
        ended
    }

    /// The moment that lies `ms` before now on a clock that stood still in every pause, in
    /// epoch milliseconds.
    pub(crate) fn back(&self, now_ms: i64, ms: i64) -> i64 {
        let times = self.times.lock();
        let on = times.now.map(|paused| (paused.since_ms, now_ms));
        let mut at_ms = now_ms;
        let mut left_ms = ms;
        for (from_ms, until_ms) in on.into_iter().chain(times.over.iter().rev().copied()) {
            let went_ms = at_ms.saturating_sub(until_ms).max(0);
            if went_ms >= left_ms {
                break;
            }
            left_ms -= went_ms;
            at_ms = at_ms.min(from_ms);
        }
        at_ms.saturating_sub(left_ms)
    }

    /// Pauses, and writes it down if it is to survive a restart.
    pub(crate) fn pause(
        &self,
        store: &dyn Store,
        now_ms: i64,
        persist: bool,
    ) -> Result<Paused, Error> {
        let persist = persist || self.now().is_some_and(|now| now.persist);
        let since_ms = self.now().map_or(now_ms, |now| now.since_ms);
        if persist {
            let stored = Stored { v: 1, since_ms };
            let value = serde_json::to_vec(&stored).map_err(std::io::Error::from)?;
            let (name, value) = (SETTING.to_owned(), Some(Bytes::from(value)));
            store.write(Write::Setting { name, value })?;
        }
        Ok(self.set(Paused { since_ms, persist }))
    }

    /// Ends the pause, also the one that is written down.
    pub(crate) fn unpause(&self, store: &dyn Store, now_ms: i64) -> Result<Option<Paused>, Error> {
        let name = SETTING.to_owned();
        store.write(Write::Setting { name, value: None })?;
        Ok(self.end(now_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::{Pause, Paused};

    /// The moment 100 ms before `now_ms`, with these pauses.
    #[track_caller]
    fn check(over: &[(i64, i64)], on: Option<i64>, now_ms: i64, expected: i64) {
        let pause = Pause::default();
        let begin = |since_ms| {
            let persist = false;
            pause.set(Paused { since_ms, persist })
        };
        for (from_ms, until_ms) in over {
            begin(*from_ms);
            pause.end(*until_ms);
        }
        on.map(begin);
        assert_eq!(pause.back(now_ms, 100), expected);
        assert_eq!(pause.is_on(), on.is_some());
    }

    #[test]
    fn a_clock_stands_still_in_a_pause() {
        check(&[], None, 1_000, 900);
        check(&[(500, 800)], None, 1_000, 900);
        check(&[(500, 950)], None, 1_000, 450);
        check(&[(100, 200), (500, 980)], None, 1_000, 420);
        check(&[(410, 460), (500, 980)], None, 1_000, 370);
    }

    #[test]
    fn a_clock_stands_still_in_the_pause_that_is_on() {
        check(&[], Some(300), 1_000, 200);
        check(&[(210, 290)], Some(300), 1_000, 120);
    }
}
