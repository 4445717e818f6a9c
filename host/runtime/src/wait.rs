//! How a run ended, as those who wait for it hear of it.

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::oneshot;
use windlass_model::{Code, Failure, InstanceId, InstanceNo, Payload, Status};

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct RunResult {
    /// Which run.
    pub id: InstanceId,
    /// One of the final statuses.
    pub status: Status,
    /// What came out, if it completed.
    pub output: Option<Payload>,
    /// Why it faulted.
    pub failure: Option<Failure>,
}

/// What a waiter in this process hears.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// The run has ended, durably.
    Finally(RunResult),
    /// The process cannot go on with it; the run itself is not lost.
    Interrupted {
        code: Code,
        message: String,
        help: Option<String>,
    },
    /// The process does not run it any more; somebody else may.
    GivenBack,
}

/// Those who wait for runs to end.
#[derive(Default)]
pub(crate) struct Waiters {
    list: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// The runs that are in a shard: what becomes of them will be told.
    here: FxHashSet<InstanceNo>,
    waiting: FxHashMap<InstanceNo, Vec<oneshot::Sender<Ended>>>,
}

impl Waiters {
    /// Hears how a run ends, if it ends in this process.
    pub(crate) fn add(&self, instance: InstanceNo) -> oneshot::Receiver<Ended> {
        self.list.lock().add(instance)
    }

    /// The same, for a run that is in one of the shards now: nobody has to look whether it has
    /// ended before.
    pub(crate) fn add_if_here(&self, instance: InstanceNo) -> Option<oneshot::Receiver<Ended>> {
        let mut list = self.list.lock();
        list.here.contains(&instance).then(|| list.add(instance))
    }

    /// A run is in a shard.
    pub(crate) fn came(&self, instance: InstanceNo) {
        self.list.lock().here.insert(instance);
    }

    /// A run is in none any more. What became of it, if anything, is told after that.
    pub(crate) fn left(&self, instance: InstanceNo) {
        self.list.lock().here.remove(&instance);
    }

    pub(crate) fn tell(&self, instance: InstanceNo, ended: &Ended) {
        let waiting = self.list.lock().waiting.remove(&instance);
        for sender in waiting.into_iter().flatten() {
            // Whoever has stopped waiting does not want to know.
            let _ = sender.send(ended.clone());
        }
    }
}

impl Waiting {
    fn add(&mut self, instance: InstanceNo) -> oneshot::Receiver<Ended> {
        let (sender, receiver) = oneshot::channel();
        let waiting = self.waiting.entry(instance).or_default();
        // Those who have stopped waiting would pile up behind one who never does.
        waiting.retain(|sender| !sender.is_closed());
        waiting.push(sender);
        receiver
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: InstanceNo = InstanceNo(7);

    #[test]
    fn whoever_waits_for_a_run_that_is_here_is_told_by_it() {
        let waiters = Waiters::default();
        assert!(waiters.add_if_here(RUN).is_none(), "it may be over already");
        waiters.came(RUN);
        let mut early = waiters.add_if_here(RUN).unwrap();
        let mut other = waiters.add(RUN);
        assert!(early.try_recv().is_err());
        waiters.left(RUN);
        assert!(
            waiters.add_if_here(RUN).is_none(),
            "what is told may be missed"
        );
        waiters.tell(RUN, &Ended::GivenBack);
        assert!(matches!(early.try_recv(), Ok(Ended::GivenBack)));
        assert!(matches!(other.try_recv(), Ok(Ended::GivenBack)));
    }

    #[test]
    fn whoever_has_stopped_waiting_takes_no_room() {
        let waiters = Waiters::default();
        for _ in 0..100 {
            drop(waiters.add(RUN));
        }
        let list = waiters.list.lock();
        assert_eq!(list.waiting.get(&RUN).map(Vec::len), Some(1));
    }
}
