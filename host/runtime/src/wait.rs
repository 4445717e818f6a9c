//! The results of runs, and the waiters for them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;
use windlass_model::{Code, Failure, Payload, RunId, RunNo, Status, Version};

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunResult {
    /// The id of the run.
    pub id: RunId,
    /// The final status.
    pub status: Status,
    /// The output of a completed run.
    pub output: Option<Payload>,
    /// The failure of a faulted run.
    pub failure: Option<Failure>,
}

/// The end of a run, which is durable, and the state of the run that it made.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) no: RunNo,
    pub(crate) version: Version,
    pub(crate) result: RunResult,
}

impl End {
    /// Whether this is the end of the run with this number, and after this version of it. The end of
    /// a run may be reported after the run was retried, or after another run took its id.
    pub(crate) fn is_after(&self, no: RunNo, version: Version) -> bool {
        self.no == no && self.version > version
    }
}

/// A notification to a waiter in this process.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// The run has ended, durably.
    Finally(End),
    /// The process cannot continue the run; the run itself is not lost.
    Interrupted {
        code: Code,
        message: String,
        help: Option<String>,
    },
    /// The process does not run it any more; another process may.
    GivenBack,
}

/// The waiters for the ends of runs.
#[derive(Default)]
pub(crate) struct Waiters {
    list: Arc<Mutex<Waiting>>,
}

/// The name by which a waiter knows its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    No(RunNo),
    Id(RunId),
}

impl From<RunNo> for Name {
    fn from(no: RunNo) -> Self {
        Self::No(no)
    }
}

impl From<RunId> for Name {
    fn from(id: RunId) -> Self {
        Self::Id(id)
    }
}

/// A waiter for a run, until it is dropped.
pub(crate) struct Waiter {
    run: Name,
    ended: oneshot::Receiver<Ended>,
    list: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    /// The runs in a shard, by both names: their end or departure will be reported.
    here: FxHashMap<Name, RunNo>,
    waiting: FxHashMap<Name, Vec<oneshot::Sender<Ended>>>,
}

impl Waiters {
    /// Adds a waiter that is notified if the run ends in this process. The run need not exist yet.
    pub(crate) fn add(&self, run: impl Into<Name>) -> Waiter {
        let run = run.into();
        let ended = self.list.lock().add(run);
        self.waiter(run, ended)
    }

    /// Adds a waiter for a run that is in a shard now, so that the store need not be read first.
    pub(crate) fn add_if_here(&self, run: impl Into<Name>) -> Option<Waiter> {
        let mut list = self.list.lock();
        // Its number, since another run may have had its id.
        let run = Name::No(*list.here.get(&run.into())?);
        let ended = list.add(run);
        drop(list);
        Some(self.waiter(run, ended))
    }

    fn waiter(&self, run: Name, ended: oneshot::Receiver<Ended>) -> Waiter {
        let list = Arc::clone(&self.list);
        Waiter { run, ended, list }
    }

    /// Reports that a run has entered a shard.
    pub(crate) fn came(&self, no: RunNo, id: RunId) {
        let names = [Name::No(no), Name::Id(id)];
        self.list.lock().here.extend(names.map(|name| (name, no)));
    }

    /// Reports that the commit which ends a run is on its way. Clients that ask from now on read the
    /// store, where the run may be deleted before its end is reported here.
    pub(crate) fn ends(&self, no: RunNo, id: RunId) {
        self.list.lock().is_not_here(no, Name::Id(id));
    }

    /// Reports that a run has left its shard. Its end, if it has ended, is reported after that.
    pub(crate) fn left(&self, no: RunNo, id: RunId) {
        let mut list = self.list.lock();
        list.is_not_here(no, Name::No(no));
        list.is_not_here(no, Name::Id(id));
    }

    pub(crate) fn tell(&self, no: RunNo, id: RunId, ended: &Ended) {
        let waiting = {
            let mut list = self.list.lock();
            [Name::No(no), Name::Id(id)].map(|name| list.waiting.remove(&name))
        };
        for sender in waiting.into_iter().flatten().flatten() {
            // The waiter may be gone.
            let _ = sender.send(ended.clone());
        }
    }
}

impl Waiting {
    fn add(&mut self, run: Name) -> oneshot::Receiver<Ended> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.entry(run).or_default().push(sender);
        receiver
    }

    /// Forgets a name of a run, unless another run has it by now.
    fn is_not_here(&mut self, no: RunNo, name: Name) {
        if self.here.get(&name) == Some(&no) {
            self.here.remove(&name);
        }
    }
}

impl Future for Waiter {
    type Output = Result<Ended, oneshot::error::RecvError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.ended).poll(context)
    }
}

impl Drop for Waiter {
    /// Removes the waiter's entry, even if the run is never reported again.
    fn drop(&mut self) {
        self.ended.close();
        let mut list = self.list.lock();
        if let Some(waiting) = list.waiting.get_mut(&self.run) {
            waiting.retain(|sender| !sender.is_closed());
            if waiting.is_empty() {
                list.waiting.remove(&self.run);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: RunNo = RunNo(7);
    const ID: RunId = RunId(uuid::Uuid::from_u128(7));

    #[test]
    fn a_waiter_for_a_run_of_this_process_is_told_by_it() {
        let waiters = Waiters::default();
        assert!(waiters.add_if_here(RUN).is_none(), "it may be over already");
        assert!(waiters.add_if_here(ID).is_none(), "it may be over already");
        let mut before = waiters.add(ID);
        waiters.came(RUN, ID);
        let mut early = waiters.add_if_here(RUN).unwrap();
        let mut named = waiters.add_if_here(ID).unwrap();
        let mut other = waiters.add(RUN);
        waiters.ends(RUN, ID);
        assert!(waiters.add_if_here(ID).is_none(), "it may be deleted");
        assert!(early.ended.try_recv().is_err());
        waiters.left(RUN, ID);
        for gone in [waiters.add_if_here(RUN), waiters.add_if_here(ID)] {
            assert!(gone.is_none(), "a message may be missed");
        }
        waiters.tell(RUN, ID, &Ended::GivenBack);
        for waiter in [&mut before, &mut early, &mut named, &mut other] {
            assert!(matches!(waiter.ended.try_recv(), Ok(Ended::GivenBack)));
        }
    }

    #[test]
    fn the_end_of_a_run_that_was_replaced_is_not_told_as_the_end_of_its_successor() {
        let waiters = Waiters::default();
        let next = RunNo(8);
        waiters.came(RUN, ID);
        waiters.ends(RUN, ID);
        waiters.came(next, ID);
        let mut waiter = waiters.add_if_here(ID).unwrap();
        waiters.left(RUN, ID);
        waiters.tell(RUN, ID, &Ended::GivenBack);
        assert!(waiter.ended.try_recv().is_err());
        assert!(waiters.add_if_here(ID).is_some(), "the next run is here");
        waiters.tell(next, ID, &Ended::GivenBack);
        assert!(waiter.ended.try_recv().is_ok());
    }

    #[test]
    fn a_waiter_that_has_stopped_takes_no_room() {
        let waiters = Waiters::default();
        let other = waiters.add(RUN);
        for _ in 0..100 {
            drop(waiters.add(RUN));
        }
        assert_eq!(waiters.list.lock().waiting[&Name::No(RUN)].len(), 1);
        drop(other);
        // Each waiter adds itself again once it is notified.
        for run in (0..100).map(RunNo) {
            let told = (waiters.add(run), waiters.add(ID));
            waiters.tell(run, ID, &Ended::GivenBack);
            drop((waiters.add(run), waiters.add(ID), told));
        }
        assert!(waiters.list.lock().waiting.is_empty());
        waiters.came(RUN, ID);
        waiters.left(RUN, ID);
        assert!(waiters.list.lock().here.is_empty());
    }
}
