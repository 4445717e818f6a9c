//! An administrative pause: no work is claimed, no execution begins, and executions in progress are
//! finished.
//!
//! There are two kinds of pause. One belongs to this process alone, and ends with it. The other is
//! written into the store and survives restarts: every process on that store obeys it, whether it
//! starts or already runs ([`watch`]). A process is paused while one of the two is on.
//!
//! Clocks that measure a patience stop during a pause: [`Pause::back`].

mod watch;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use windlass_store::settings::Setting;
use windlass_store::{Store, Writer as _};

use crate::error::Error;

pub(crate) use watch::{tell, watch};

/// The name of the setting in the store.
const SETTING: &str = "pause";

/// The limit of past pauses that are remembered for such clocks.
const REMEMBERED: usize = 64;

/// The state of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paused {
    /// The beginning, in epoch milliseconds.
    pub since_ms: i64,
    /// Whether it survives a restart.
    pub persist: bool,
}

/// The stored form.
#[derive(Serialize, Deserialize)]
struct Stored {
    v: u32,
    since_ms: i64,
}

/// Whether the process is paused, and its past pauses.
#[derive(Default)]
pub(crate) struct Pause {
    on: AtomicBool,
    times: Mutex<Times>,
    /// Only one thread at a time changes the stored pause, or reads and applies it. Otherwise a
    /// thread could apply an old value that it read before another thread changed it.
    turn: Mutex<()>,
}

#[derive(Default)]
struct Times {
    /// The beginning of the pause of this process, in epoch milliseconds.
    own: Option<i64>,
    /// The beginning of the stored pause, in epoch milliseconds.
    stored: Option<i64>,
    /// The beginning of the current pause of either kind.
    since_ms: Option<i64>,
    /// The beginning and the end of past pauses, oldest first, in epoch milliseconds.
    over: VecDeque<(i64, i64)>,
}

/// A change of the pause of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The process is paused now.
    Paused,
    /// The process continues now.
    Over,
    /// No change.
    Same,
}

impl Times {
    fn paused(&self) -> Option<Paused> {
        let persist = self.stored.is_some();
        self.since_ms.map(|since_ms| Paused { since_ms, persist })
    }
}

impl Pause {
    /// The pause at the start of a process, from the store.
    pub(crate) fn begin(store: &dyn Store) -> Result<Self, Error> {
        let pause = Self::default();
        let stored = stored(store)?;
        pause.change(stored.unwrap_or_default(), |times| times.stored = stored);
        Ok(pause)
    }

    /// Whether the process is paused now. Cheap enough for every step.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// The state of the current pause.
    pub(crate) fn now(&self) -> Option<Paused> {
        self.times.lock().paused()
    }

    fn change(&self, now_ms: i64, change: impl FnOnce(&mut Times)) -> Turn {
        let mut times = self.times.lock();
        change(&mut times);
        let on = [times.own, times.stored].into_iter().flatten().min();
        self.on.store(on.is_some(), Ordering::Release);
        match (times.since_ms, on) {
            (None, Some(since_ms)) => {
                times.since_ms = Some(since_ms);
                Turn::Paused
            }
            (Some(since_ms), None) => {
                times.since_ms = None;
                times.over.push_back((since_ms, now_ms));
                if times.over.len() > REMEMBERED {
                    times.over.pop_front();
                }
                Turn::Over
            }
            _ => Turn::Same,
        }
    }

    /// The time `ms` milliseconds before now on a clock that stops during pauses, in epoch
    /// milliseconds.
    pub(crate) fn back(&self, now_ms: i64, ms: i64) -> i64 {
        let times = self.times.lock();
        let on = times.since_ms.map(|since_ms| (since_ms, now_ms));
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

    /// Pauses the process; a current pause keeps its beginning. With `persist`, the pause is
    /// stored.
    pub(crate) fn pause(
        &self,
        store: &dyn Store,
        now_ms: i64,
        persist: bool,
    ) -> Result<Paused, Error> {
        let _turn = self.turn.lock();
        let since_ms = self.now().map_or(now_ms, |now| now.since_ms);
        if persist {
            let since_ms = stored(store)?.unwrap_or(since_ms);
            let value = serde_json::to_vec(&Stored { v: 1, since_ms });
            let (name, value) = (SETTING.to_owned(), value.map_err(std::io::Error::from)?);
            let value = Some(Bytes::from(value));
            store.write(Setting { name, value })?;
            self.change(now_ms, |times| {
                times.stored = Some(since_ms);
                times.own = None;
            });
        } else {
            self.change(now_ms, |times| {
                if times.stored.is_none() {
                    times.own = Some(since_ms);
                }
            });
        }
        let persist = persist || self.now().is_some_and(|now| now.persist);
        Ok(Paused { since_ms, persist })
    }

    /// Ends the pause, including a stored one. Returns the pause that was on.
    pub(crate) fn unpause(&self, store: &dyn Store, now_ms: i64) -> Result<Option<Paused>, Error> {
        let _turn = self.turn.lock();
        let name = SETTING.to_owned();
        store.write(Setting { name, value: None })?;
        let before = self.now();
        self.change(now_ms, |times| {
            times.stored = None;
            times.own = None;
        });
        Ok(before)
    }

    /// Applies the stored pause: another process may have paused or continued.
    pub(crate) fn follow(&self, store: &dyn Store, now_ms: i64) -> Result<Turn, Error> {
        let _turn = self.turn.lock();
        let stored = stored(store)?;
        Ok(self.change(now_ms, |times| times.stored = stored))
    }
}

/// The beginning of the stored pause, in epoch milliseconds.
fn stored(store: &dyn Store) -> Result<Option<i64>, Error> {
    let Some(bytes) = store.setting(SETTING)? else {
        return Ok(None);
    };
    let stored: Stored = serde_json::from_slice(&bytes)
        .map_err(|error| Error::Unreadable(format!("the store's pause cannot be read: {error}")))?;
    Ok(Some(stored.since_ms))
}

#[cfg(test)]
mod tests {
    use super::{Pause, Turn};

    /// The time 100 ms before `now_ms`, with these pauses.
    #[track_caller]
    fn check(over: &[(i64, i64)], on: Option<i64>, now_ms: i64, expected: i64) {
        let pause = Pause::default();
        let own = |now_ms, own| pause.change(now_ms, |times| times.own = own);
        for (from_ms, until_ms) in over {
            own(*from_ms, Some(*from_ms));
            own(*until_ms, None);
        }
        own(now_ms, on);
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

    #[test]
    fn two_pauses_are_over_when_both_are() {
        let pause = Pause::default();
        let own = |now_ms, own| pause.change(now_ms, |times| times.own = own);
        let stored = |now_ms, stored| pause.change(now_ms, |times| times.stored = stored);
        assert_eq!(own(100, Some(100)), Turn::Paused);
        assert_eq!(stored(200, Some(200)), Turn::Same);
        assert_eq!(own(300, None), Turn::Same);
        assert!(
            pause
                .now()
                .is_some_and(|now| now.persist && now.since_ms == 100)
        );
        assert_eq!(stored(400, None), Turn::Over);
        assert!(!pause.is_on());
        assert_eq!(stored(400, None), Turn::Same);
        assert_eq!(pause.back(500, 200), 0, "from the first to the last moment");
    }
}
