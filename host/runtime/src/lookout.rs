//! Waits for changes of runs, in this process and in others.
//!
//! A commit of this process reports its run at once. Commits of other processes are reported by the
//! store ([`Store::listen`]), which other processes serve only while this one attends
//! ([`Store::attend`]). Hints may be missing, so one look each second compares the versions of all
//! watched runs together: the store sees one statement for [`AT_ONCE`] runs, however many clients wait.
//!
//! A watched run takes about 150 bytes, and a further watcher of it 40. Nothing runs while no run is
//! watched.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use windlass_model::{Clock, RunNo, Status, Version};
use windlass_store::rows::RunRow;
use windlass_store::{News, Store};

/// The time between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// The time from the beginning of the attention to the first look: other processes may learn a little
/// late that this one attends.
const SETTLED: Duration = Duration::from_millis(50);

/// The shortest rest after a look that a hint asked for. A look that took longer is followed by a
/// rest as long as it took, so that looks take at most half of a thread.
const REST: Duration = Duration::from_millis(1);

/// The runs that one statement compares.
const AT_ONCE: usize = 500;

/// The watched runs of a process.
pub(crate) struct Lookout {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// The number of watched runs, so that a commit costs one load while there are none.
    watched: AtomicUsize,
    state: Mutex<LookoutState>,
    stirred: Arc<Notify>,
}

#[derive(Default)]
struct LookoutState {
    runs: FxHashMap<RunNo, Arc<Beat>>,
    /// A task looks.
    looking: bool,
    /// When this process told the others last that it attends.
    attended: Option<Duration>,
}

/// What the watchers of one run share.
#[derive(Default)]
struct Beat {
    /// The watchers, counted under the lock of the map.
    watchers: AtomicUsize,
    /// Counts the reports of changes.
    count: AtomicU64,
    /// The version and status that watchers saw last.
    seen: Mutex<Option<(Version, Status)>>,
    notify: Notify,
}

/// A watcher of a run, until it is dropped.
pub struct RunWatch {
    lookout: Arc<Lookout>,
    no: RunNo,
    beat: Arc<Beat>,
    /// The reports that this watcher has heard.
    heard: u64,
}

impl Lookout {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            store,
            clock,
            watched: AtomicUsize::new(0),
            state: Mutex::default(),
            stirred: Arc::default(),
        })
    }

    /// Watches a run. A change that is committed after this call is reported, so the caller reads
    /// the run after it, and passes the row to [`RunWatch::saw`]. To be called in a tokio runtime.
    pub(crate) fn watch(self: &Arc<Self>, no: RunNo) -> RunWatch {
        let mut state = self.state.lock();
        let beat = Arc::clone(state.runs.entry(no).or_default());
        beat.watchers.fetch_add(1, Ordering::SeqCst);
        self.watched.store(state.runs.len(), Ordering::SeqCst);
        let now = self.clock.monotonic();
        let is_recent = |at: Duration| now.saturating_sub(at) < PAUSE;
        if !state.attended.is_some_and(is_recent) {
            state.attended = Some(now);
            self.store.attend();
        }
        if !std::mem::replace(&mut state.looking, true) {
            let looking = Looking(Arc::downgrade(self));
            tokio::spawn(looking.keep_on(Arc::clone(&self.stirred)));
        }
        drop(state);
        RunWatch {
            lookout: Arc::clone(self),
            no,
            heard: beat.count.load(Ordering::SeqCst),
            beat,
        }
    }

    /// Takes the news of other processes.
    pub(crate) fn hear(&self, news: News<'_>) {
        match news {
            News::Work => {}
            News::Runs(runs) => self.changed(runs),
            News::SomeRuns if self.watched.load(Ordering::SeqCst) > 0 => self.stirred.notify_one(),
            News::SomeRuns => {}
        }
    }

    /// Reports committed changes of runs.
    pub(crate) fn changed(&self, runs: &[RunNo]) {
        if self.watched.load(Ordering::SeqCst) == 0 {
            return;
        }
        let state = self.state.lock();
        for beat in runs.iter().filter_map(|no| state.runs.get(no)) {
            beat.ring();
        }
    }

    /// Whether runs are watched. Otherwise the task that looks ends.
    fn goes_on(&self) -> bool {
        let mut state = self.state.lock();
        state.looking = !state.runs.is_empty();
        state.attended = state.looking.then(|| self.clock.monotonic());
        state.looking
    }

    /// Compares all watched runs with the store. Blocks. A look that fails is repeated a second
    /// later.
    fn look(&self) {
        let runs: Vec<RunNo> = self.state.lock().runs.keys().copied().collect();
        for runs in runs.chunks(AT_ONCE) {
            let Ok(found) = self.store.versions(runs) else {
                return;
            };
            let found = found.into_iter();
            let found: FxHashMap<_, _> = found
                .map(|(no, version, status)| (no, (version, status)))
                .collect();
            let state = self.state.lock();
            for no in runs {
                let beat = state.runs.get(no);
                // A watcher that has not seen the run yet is about to.
                let changed = beat.filter(|beat| {
                    let seen = *beat.seen.lock();
                    seen.is_some() && seen != found.get(no).copied()
                });
                if let Some(beat) = changed {
                    beat.ring();
                }
            }
        }
    }
}

impl Beat {
    fn ring(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.notify.notify_waiters();
    }
}

/// The task that looks, for as long as runs are watched.
struct Looking(Weak<Lookout>);

impl Looking {
    async fn keep_on(mut self, stirred: Arc<Notify>) {
        let mut pause = SETTLED;
        loop {
            let _ = tokio::time::timeout(pause, stirred.notified()).await;
            pause = PAUSE;
            let Some(lookout) = self.0.upgrade() else {
                return;
            };
            if !lookout.goes_on() {
                // A further task may look by now.
                self.0 = Weak::new();
                return;
            }
            lookout.store.attend();
            let clock = Arc::clone(&lookout.clock);
            let begun = clock.monotonic();
            let looked = tokio::task::spawn_blocking(move || lookout.look());
            if looked.await.is_err() {
                tracing::error!("a look at the watched runs has failed; it is repeated");
            }
            let rest = clock.monotonic().saturating_sub(begun).max(REST);
            let _ = tokio::time::timeout(rest, std::future::pending::<()>()).await;
        }
    }
}

impl Drop for Looking {
    /// If its runtime ends first, the next watcher starts another task.
    fn drop(&mut self) {
        if let Some(lookout) = self.0.upgrade() {
            lookout.state.lock().looking = false;
        }
    }
}

impl RunWatch {
    /// Notes the row that this watcher has read, so that the look of all watched runs reports only
    /// later changes.
    pub fn saw(&mut self, row: &RunRow) {
        self.saw_version(Some((row.version, row.status)));
    }

    fn saw_version(&mut self, now: Option<(Version, Status)>) {
        let mut seen = self.beat.seen.lock();
        let before = std::mem::replace(&mut *seen, now);
        if before.is_some() && before != now {
            // Another watcher may have seen the older one only.
            let own = self.heard == self.beat.count.load(Ordering::SeqCst);
            self.beat.ring();
            self.heard += u64::from(own);
        }
    }

    /// Waits until the run may have changed since the last call. A change is not missed, and may be
    /// reported more than once.
    pub async fn changed(&mut self) {
        {
            let mut rung = pin!(self.beat.notify.notified());
            rung.as_mut().enable();
            if self.beat.count.load(Ordering::SeqCst) == self.heard {
                rung.await;
            }
        }
        self.heard = self.beat.count.load(Ordering::SeqCst);
    }
}

impl Drop for RunWatch {
    fn drop(&mut self) {
        let mut state = self.lookout.state.lock();
        if self.beat.watchers.fetch_sub(1, Ordering::SeqCst) == 1 {
            state.runs.remove(&self.no);
        }
        self.lookout
            .watched
            .store(state.runs.len(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use windlass_store::MemoryStore;

    use super::*;
    use crate::clock::SystemClock;

    const RUN: RunNo = RunNo(7);

    struct Place {
        lookout: Arc<Lookout>,
        store: Arc<MemoryStore>,
        /// Not driven: no task looks.
        tokio: tokio::runtime::Runtime,
    }

    impl Place {
        fn new() -> Self {
            let clock = Arc::new(SystemClock::new());
            let store = MemoryStore::new(Arc::clone(&clock) as _);
            Self {
                lookout: Lookout::new(Arc::clone(&store) as _, clock),
                store,
                tokio: tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap(),
            }
        }

        fn watch(&self, no: RunNo) -> RunWatch {
            let _inside = self.tokio.enter();
            self.lookout.watch(no)
        }
    }

    fn rings(watch: &mut RunWatch) -> bool {
        watch.changed().now_or_never().is_some()
    }

    #[test]
    fn each_watcher_of_a_run_hears_of_its_changes_and_of_no_others() {
        let place = Place::new();
        let (mut one, mut two) = (place.watch(RUN), place.watch(RUN));
        let mut other = place.watch(RunNo(8));
        place.lookout.changed(&[RUN, RunNo(9)]);
        assert!(rings(&mut one) && rings(&mut two) && !rings(&mut other));
        assert!(!rings(&mut one), "it has heard of that change");
        // Between two waits, too.
        place.lookout.changed(&[RUN]);
        place.lookout.changed(&[RUN]);
        assert!(rings(&mut one) && !rings(&mut one));
    }

    #[test]
    fn a_commit_of_another_process_is_heard_from_the_first_watcher_on() {
        let place = Place::new();
        let hearing = Arc::clone(&place.lookout);
        let listening = place.store.listen(Box::new(move |news| hearing.hear(news)));
        let other = place.store.another();
        other.changed(&[RUN]);
        let mut watch = place.watch(RUN);
        assert!(!rings(&mut watch));
        other.changed(&[RUN]);
        assert!(rings(&mut watch));
        drop(listening);
    }

    #[test]
    fn one_look_compares_the_runs_of_all_watchers() {
        let place = Place::new();
        let reads = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&reads);
        place.store.set_read_witness(Some(Box::new(move |name| {
            assert_eq!(name, "versions");
            count.fetch_add(1, Ordering::SeqCst);
        })));
        let mut watches: Vec<_> = (0..10_000).map(|no| place.watch(RunNo(no / 2))).collect();
        place.lookout.look();
        assert_eq!(reads.load(Ordering::SeqCst), 5_000 / AT_ONCE);
        assert!(!watches.iter_mut().any(rings), "nothing has changed");
        // It saw a run that is gone by now.
        watches[8].saw_version(Some((Version(3), Status::Running)));
        place.lookout.look();
        let rung: Vec<_> = (0..10_000).filter(|at| rings(&mut watches[*at])).collect();
        assert_eq!(rung, [8, 9], "both watchers of the run");
    }

    #[test]
    fn a_version_that_one_watcher_saw_is_told_to_those_that_saw_an_older_one() {
        let place = Place::new();
        let (mut early, mut late) = (place.watch(RUN), place.watch(RUN));
        early.saw_version(Some((Version(3), Status::Running)));
        late.saw_version(Some((Version(4), Status::Running)));
        assert!(rings(&mut early) && !rings(&mut late));
    }

    #[test]
    fn nothing_is_left_of_watchers_that_are_gone() {
        let place = Place::new();
        let (one, two) = (place.watch(RUN), place.watch(RUN));
        drop(one);
        assert_eq!(place.lookout.state.lock().runs.len(), 1);
        drop(two);
        assert!(place.lookout.state.lock().runs.is_empty());
        assert_eq!(place.lookout.watched.load(Ordering::SeqCst), 0);
    }
}
