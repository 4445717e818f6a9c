//! Whether a plugin may run on a worker's own thread, and how it gains and loses that trust.
//!
//! A plain call costs about a microsecond, but the thread cannot do anything else before it
//! returns. So a plugin starts on fibers, gains the plain call by sixteen quick calls, and loses it
//! by a slow one, for longer each time: at the moment at which the call is noticed to be slow, not
//! at its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::Mutex;

use crate::hold::places::{Turn, TurnCaller, Turns};

/// How a plugin is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallMode {
    /// By a plain call on the calling thread.
    Inline,
    /// On a fiber, awaited.
    Fiber,
}

/// The quick calls that a new plugin needs to gain trust.
const FIRST_PROBATION: u32 = 16;
/// The longest probation, in calls.
const LONGEST_PROBATION: u32 = 65_536;

/// The behaviour of one plugin.
pub(crate) struct Track {
    /// Identifies the plugin where calls wait for places.
    pub(crate) id: u64,
    probation: AtomicU32,
    left: AtomicU32,
    slow: AtomicUsize,
    /// Calls in progress that have lasted for a tick.
    lasting: AtomicUsize,
}

/// With so many lasting calls at once, all further calls of the plugin wait for turns.
const MAX_LASTING: usize = 8;

impl Track {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            probation: AtomicU32::new(FIRST_PROBATION),
            left: AtomicU32::new(FIRST_PROBATION),
            slow: AtomicUsize::new(0),
            lasting: AtomicUsize::new(0),
        }
    }

    /// Whether it may be called inline.
    pub(crate) fn trusted(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0 && self.slow.load(Ordering::Relaxed) == 0
    }

    /// Whether its calls have to wait for turns: one of them is slow, or several are about to be.
    /// Hundreds of quick starts would delay all other plugins.
    pub(crate) fn takes_turns(&self) -> bool {
        self.slow.load(Ordering::Relaxed) > 0 || self.lasting.load(Ordering::Relaxed) >= MAX_LASTING
    }

    /// Counts a quick call.
    pub(crate) fn quick(&self) {
        // At zero there is nothing to count down, and the update fails as intended.
        let _ = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
    }

    fn slowed(&self) {
        let probation = self.probation.load(Ordering::Relaxed);
        let longer = probation.saturating_mul(4).min(LONGEST_PROBATION);
        self.probation.store(longer, Ordering::Relaxed);
        self.left.store(longer, Ordering::Relaxed);
    }
}

/// A call's use of the processor. Made at its first tick, which most calls do not reach.
pub(crate) struct Pace {
    used: Duration,
    track: Arc<Track>,
    slow: Option<Slow>,
    cell: Arc<Cell>,
}

/// The state that the end of a yield changes, without access to the store.
#[derive(Default)]
pub(crate) struct Cell {
    /// The thread on which the call computes, and the processor time of that thread at the start.
    mark: Mutex<Option<(ThreadId, Duration)>>,
    turn: Mutex<Option<Turn>>,
}

impl Pace {
    /// `since_start` is wall clock time: the first period has no mark of processor time.
    pub(crate) fn new(track: &Arc<Track>, since_start: Duration) -> Self {
        track.lasting.fetch_add(1, Ordering::Relaxed);
        let cell = Arc::new(Cell::default());
        cell.mark();
        Self {
            used: since_start.min(crate::hold::TICK),
            track: Arc::clone(track),
            slow: None,
            cell,
        }
    }

    /// For a call that waited for a turn before it began.
    pub(crate) fn with_turn(track: &Arc<Track>, turn: Turn) -> Self {
        let pace = Self::new(track, Duration::ZERO);
        *pace.cell.turn.lock() = Some(turn);
        pace
    }

    /// Adds the processor time since the mark.
    pub(crate) fn measure(&mut self) {
        let now = (std::thread::current().id(), thread_time());
        if let Some((thread, since)) = self.cell.mark.lock().replace(now)
            && thread == now.0
        {
            self.used += now.1.saturating_sub(since);
        }
    }

    pub(crate) fn used(&self) -> Duration {
        self.used
    }

    pub(crate) fn is_slow(&self) -> bool {
        self.slow.is_some()
    }

    /// Marks the call as slow, and its plugin as slow while the call lasts.
    pub(crate) fn slow_down(&mut self, inline: Option<Arc<AtomicUsize>>) {
        if self.slow.is_none() {
            let track = &self.track;
            track.slowed();
            track.slow.fetch_add(1, Ordering::Relaxed);
            if let Some(inline) = &inline {
                inline.fetch_add(1, Ordering::Relaxed);
            }
            self.slow = Some(Slow {
                track: Arc::clone(track),
                inline,
            });
        }
    }

    /// The call waits for the host: the thread's work meanwhile does not count for it.
    pub(crate) fn pause(&self) {
        *self.cell.mark.lock() = None;
        self.cell.turn.lock().take();
    }

    pub(crate) fn cell(&self) -> Arc<Cell> {
        Arc::clone(&self.cell)
    }
}

impl Cell {
    fn mark(&self) {
        *self.mark.lock() = Some((std::thread::current().id(), thread_time()));
    }

    /// Lets other tasks run; with turns, until the call has one.
    pub(crate) async fn pass(self: Arc<Self>, turns: Option<(Turns, TurnCaller)>) {
        self.turn.lock().take();
        // The thread's other tasks come first in any case: a turn permits this call to continue,
        // but does not exclude others.
        step_back().await;
        if let Some((turns, caller)) = turns {
            let turn = turns.get(caller).await;
            *self.turn.lock() = Some(turn);
        }
        self.mark();
    }

    /// As [`Cell::pass`], but blocks the thread. False if `stop` became true.
    pub(crate) fn block(&self, turns: &Turns, caller: TurnCaller, stop: impl Fn() -> bool) -> bool {
        self.turn.lock().take();
        let turn = turns.block(caller, crate::hold::TICK, stop);
        let granted = turn.is_some();
        *self.turn.lock() = turn;
        self.mark();
        granted
    }
}

/// Moves the task to the end of the thread's queue, from which other threads can take it. tokio's
/// own `yield_now` waits until the thread is idle or has run dozens of other tasks, which may be
/// slow calls.
async fn step_back() {
    let mut stepped = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut stepped, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

struct Slow {
    track: Arc<Track>,
    inline: Option<Arc<AtomicUsize>>,
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.track.lasting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.track.slow.fetch_sub(1, Ordering::Relaxed);
        if let Some(inline) = &self.inline {
            inline.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The processor time that this thread has used.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_lasting_calls_take_turns_before_any_is_slow() {
        let track = Arc::new(Track::new());
        let mut paces: Vec<_> = (0..MAX_LASTING)
            .map(|_| Pace::new(&track, Duration::ZERO))
            .collect();
        assert!(track.takes_turns());
        paces.pop();
        assert!(!track.takes_turns());
    }

    #[test]
    fn trust_is_won_by_quick_calls_and_lost_for_longer_each_time() {
        let track = Arc::new(Track::new());
        for probation in [16, 64, 256] {
            for _ in 0..probation {
                assert!(!track.trusted());
                track.quick();
            }
            assert!(track.trusted());
            let mut pace = Pace::new(&track, Duration::ZERO);
            assert!(!track.takes_turns());
            pace.slow_down(None);
            assert!(track.takes_turns() && !track.trusted());
            drop(pace);
            assert!(!track.takes_turns());
        }
    }
}
