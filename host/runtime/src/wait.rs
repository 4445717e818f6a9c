//! How a run ended, as those who wait for it hear of it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

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
    list: Arc<Mutex<Waiting>>,
}

/// Somebody who waits for a run, until this is dropped.
pub(crate) struct Waiter {
    instance: InstanceNo,
    ended: oneshot::Receiver<Ended>,
    list: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    /// The runs that are in a shard: what becomes of them will be told.
    here: FxHashSet<InstanceNo>,
    waiting: FxHashMap<InstanceNo, Vec<oneshot::Sender<Ended>>>,
}

impl Waiters {
    /// Hears how a run ends, if it ends in this process.
    pub(crate) fn add(&self, instance: InstanceNo) -> Waiter {
        let ended = self.list.lock().add(instance);
        self.waiter(instance, ended)
    }

    /// The same, for a run that is in one of the shards now: nobody has to look whether it has
    /// ended before.
    pub(crate) fn add_if_here(&self, instance: InstanceNo) -> Option<Waiter> {
        let ended = {
            let mut list = self.list.lock();
            list.here.contains(&instance).then(|| list.add(instance))
        };
        ended.map(|ended| self.waiter(instance, ended))
    }

    fn waiter(&self, instance: InstanceNo, ended: oneshot::Receiver<Ended>) -> Waiter {
        let list = Arc::clone(&self.list);
        Waiter {
            instance,
            ended,
            list,
        }
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
        self.waiting.entry(instance).or_default().push(sender);
        receiver
    }
}

impl Future for Waiter {
    type Output = Result<Ended, oneshot::error::RecvError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.ended).poll(context)
    }
}

impl Drop for Waiter {
    /// Leaves nothing behind, also where nobody will ever say anything of the run again.
    fn drop(&mut self) {
        self.ended.close();
        let mut list = self.list.lock();
        if let Some(waiting) = list.waiting.get_mut(&self.instance) {
            waiting.retain(|sender| !sender.is_closed());
            if waiting.is_empty() {
                list.waiting.remove(&self.instance);
            }
        }
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
        assert!(early.ended.try_recv().is_err());
        waiters.left(RUN);
        assert!(
            waiters.add_if_here(RUN).is_none(),
            "a message may be missed"
        );
        waiters.tell(RUN, &Ended::GivenBack);
        assert!(matches!(early.ended.try_recv(), Ok(Ended::GivenBack)));
        assert!(matches!(other.ended.try_recv(), Ok(Ended::GivenBack)));
    }

    #[test]
    fn whoever_has_stopped_waiting_takes_no_room() {
        let waiters = Waiters::default();
        let other = waiters.add(RUN);
        for _ in 0..100 {
            drop(waiters.add(RUN));
        }
        assert_eq!(waiters.list.lock().waiting[&RUN].len(), 1);
        drop(other);
        // As who looks once more when he has been told.
        for run in (0..100).map(InstanceNo) {
            let told = waiters.add(run);
            waiters.tell(run, &Ended::GivenBack);
            drop((waiters.add(run), told));
        }
        assert!(waiters.list.lock().waiting.is_empty());
    }
}
