//! Runs the requests and releases of one run's lock one at a time, in order.
//!
//! A process that lost its membership and claims a run anew may have several operations under
//! way for one lock: the void request of the earlier burst, the release that follows from it, and
//! the request of the next burst. If they ran at once, a request would conflict with the lock of
//! its own process.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::sync::watch;
use windlass_model::RunNo;

/// A queue for each run with lock operations under way.
#[derive(Default)]
pub(super) struct Lines(Mutex<Ends>);

#[derive(Default)]
struct Ends {
    last: FxHashMap<RunNo, (u64, watch::Receiver<()>)>,
    /// The number of the latest position: it distinguishes the positions of a queue.
    places: u64,
}

/// A position in a queue. Dropping it leaves the queue.
pub(super) struct QueuePosition {
    lines: Arc<Lines>,
    no: RunNo,
    number: u64,
    /// Closes when the position in front leaves: no value is ever sent.
    before: Option<watch::Receiver<()>>,
    _over: watch::Sender<()>,
}

impl Lines {
    /// Joins the queue for the lock of a run.
    pub(super) fn join(self: &Arc<Self>, no: RunNo) -> QueuePosition {
        let (over, left) = watch::channel(());
        let mut ends = self.0.lock();
        ends.places += 1;
        let number = ends.places;
        let before = ends.last.insert(no, (number, left));
        QueuePosition {
            lines: Arc::clone(self),
            no,
            number,
            before: before.map(|(_, before)| before),
            _over: over,
        }
    }
}

impl QueuePosition {
    /// Waits until no position is in front.
    pub(super) async fn comes_up(&mut self) {
        if let Some(before) = &mut self.before {
            let _ = before.changed().await;
        }
        self.before = None;
    }
}

impl Drop for QueuePosition {
    fn drop(&mut self) {
        let mut ends = self.lines.0.lock();
        let last = ends.last.get(&self.no);
        if last.is_some_and(|(number, _)| *number == self.number) {
            ends.last.remove(&self.no);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn is_up(place: &mut QueuePosition) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(place.comes_up()).poll(&mut context).is_ready()
    }

    #[test]
    fn one_after_the_other_comes_up_however_many_leave() {
        let lines: Arc<Lines> = Arc::default();
        let [mut first, mut second, mut third] = [7, 7, 7].map(|no| lines.join(RunNo(no)));
        assert!(is_up(&mut first) && !is_up(&mut second) && !is_up(&mut third));
        drop(first);
        // A new position stands behind the positions that remain.
        let mut fourth = lines.join(RunNo(7));
        assert!(is_up(&mut second) && !is_up(&mut third) && !is_up(&mut fourth));
        drop(second);
        assert!(is_up(&mut third) && !is_up(&mut fourth));
        drop(third);
        assert!(is_up(&mut fourth));
        drop(fourth);
        assert!(lines.0.lock().last.is_empty());
    }

    #[test]
    fn lines_of_several_locks_do_not_wait_for_each_other() {
        let lines: Arc<Lines> = Arc::default();
        let [_one, mut other] = [1, 2].map(|no| lines.join(RunNo(no)));
        assert!(is_up(&mut other));
    }
}
