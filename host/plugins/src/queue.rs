//! The components that wait for the compiler.
//!
//! Compiling a language runtime takes seconds, so a look at the folders loads the compiled ones, and
//! leaves the rest to the threads of this queue. The smallest component goes first: most components
//! are small and compile in a moment, and none of them waits for a row of large ones. The results
//! stay here until a look takes them, so each change of the registry is made by a look.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;
use windlass_model::Digest;

use crate::call::plugin::Plugin;
use crate::codes;
use crate::error::Error;
use crate::load::{self, Cold, LoadShared, Loaded, Patience};

/// The components of the component store whose plugins are kept after they were compiled, until the
/// runs that wait for them hold them: it matters only while the cache cannot be written.
const KEPT: usize = 16;

/// How long any component may be compiled while others wait, and how much longer for each MiB. The
/// slowest known language runtimes take a fifth of it.
const FIRST_TRY: Duration = Duration::from_secs(3);
const FIRST_TRY_MIB: Duration = Duration::from_secs(10);

/// Where the bytes of a component are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    File(PathBuf),
    /// The component store: a run needs it, and no file has it any more.
    Store,
}

/// A component that is not compiled yet, or not taken by a look.
#[derive(Clone, Debug)]
pub struct Awaited {
    /// Its file; none if it is in the component store alone.
    pub file: Option<PathBuf>,
    /// Its digest.
    pub digest: Digest,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its package and version, if it was loaded on this machine before.
    pub name: Option<String>,
    /// Whether the compiler works on it.
    pub is_running: bool,
}

/// A compilation that has ended.
pub(crate) struct Finished {
    pub(crate) source: Source,
    pub(crate) digest: Digest,
    pub(crate) result: Result<Arc<Plugin>, Error>,
}

/// The components that wait, and the threads that compile them.
pub(crate) struct Queue {
    /// How many components are compiled at once.
    places: usize,
    state: Mutex<State>,
    /// Whether there are jobs, for callers that ask at each step of a run.
    is_busy: AtomicBool,
    /// A job has ended, or a thread.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: Vec<Job>,
    threads: usize,
    /// True as soon as the running jobs are to be cut short.
    stop: Option<watch::Sender<bool>>,
    /// Called when a job has ended, if the host compiles behind the work.
    finished: Option<Arc<dyn Fn() + Send + Sync>>,
    kept: VecDeque<Arc<Plugin>>,
}

struct Job {
    source: Source,
    cold: Cold,
    /// It took long for its size while others waited.
    is_slow: bool,
    stage: Stage,
}

enum Stage {
    Waiting,
    Running,
    Done(Result<Arc<Plugin>, Error>),
}

impl Queue {
    pub(crate) fn new(places: usize) -> Self {
        Self {
            places: places.max(1),
            state: Mutex::default(),
            is_busy: AtomicBool::new(false),
            changed: Condvar::new(),
        }
    }

    /// Whether the host compiles behind the work.
    pub(crate) fn is_behind(&self) -> bool {
        self.state.lock().finished.is_some()
    }

    pub(crate) fn begin(&self, finished: Arc<dyn Fn() + Send + Sync>) {
        self.state.lock().finished = Some(finished);
    }

    /// Cuts the running jobs short, forgets the others, and waits for the threads.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.finished = None;
        state.jobs.retain(|job| matches!(job.stage, Stage::Running));
        // A new thread gets a new sender.
        if let Some(stop) = state.stop.take() {
            let _ = stop.send(true);
        }
        self.changed
            .wait_while(&mut state, |state| state.threads > 0);
        state.jobs.clear();
        state.kept.clear();
        self.count(&state);
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.is_busy.load(Ordering::Acquire)
    }

    /// To be called after each change of the number of jobs.
    fn count(&self, state: &State) {
        self.is_busy
            .store(!state.jobs.is_empty(), Ordering::Release);
    }

    /// Adds a component. One that waits already is left as it is, and a file has at most one
    /// component that waits.
    pub(crate) fn add(&self, source: Source, cold: Cold) {
        let mut state = self.state.lock();
        if source != Source::Store {
            state.forget(&source);
        }
        let is_same = |job: &Job| {
            job.cold.digest == cold.digest && (source == Source::Store || job.source == source)
        };
        if state.jobs.iter().any(is_same) {
            return;
        }
        state.jobs.push(Job {
            source,
            cold,
            is_slow: false,
            stage: Stage::Waiting,
        });
        self.count(&state);
    }

    /// Starts threads for the components that were added.
    pub(crate) fn start(self: &Arc<Self>, shared: &Arc<LoadShared>) {
        let mut state = self.state.lock();
        let waiting = state.jobs.iter();
        let waiting = waiting.filter(|job| matches!(job.stage, Stage::Waiting));
        let wanted = waiting.count().min(self.places);
        while state.threads < wanted {
            let stop = state.stop.get_or_insert_with(|| watch::Sender::new(false));
            let stopped = stop.subscribe();
            let (queue, shared) = (Arc::clone(self), Arc::clone(shared));
            let thread = std::thread::Builder::new().name(format!("compile-{}", state.threads));
            match thread.spawn(move || queue.work(&shared, &stopped)) {
                Ok(_) => state.threads += 1,
                Err(_) if state.threads > 0 => return,
                Err(error) => return state.give_up(&error),
            }
        }
    }

    fn work(&self, shared: &Arc<LoadShared>, stopped: &watch::Receiver<bool>) {
        while let Some((source, digest, within)) = self.next(stopped) {
            let patience = Patience::Until(stopped, within);
            let load = || load(shared, &source, &digest, patience);
            let result = std::panic::catch_unwind(AssertUnwindSafe(load));
            let crashed = || Error::new(codes::COMPILE, digest.to_string(), "loading it crashed");
            let result = result.unwrap_or_else(|_| Err(crashed()));
            self.finish(&source, &digest, result);
        }
    }

    /// The next job, and the time that it has while others wait; none ends the thread.
    fn next(&self, stopped: &watch::Receiver<bool>) -> Option<(Source, Digest, Option<Duration>)> {
        let mut state = self.state.lock();
        let running = state.jobs.iter();
        let running = running.filter(|job| matches!(job.stage, Stage::Running));
        // The same component in a second place is not compiled a second time, but comes after it.
        let running: Vec<Digest> = running.map(|job| job.cold.digest).collect();
        let is_first = |job: &&mut Job| matches!(job.stage, Stage::Waiting) && !job.is_slow;
        let others = state.jobs.iter_mut().filter(is_first).count() > 1;
        let waiting = state.jobs.iter_mut();
        let waiting = waiting.filter(|job| matches!(job.stage, Stage::Waiting));
        let waiting = waiting.filter(|job| !running.contains(&job.cold.digest));
        match waiting.min_by_key(|job| (job.is_slow, job.cold.bytes)) {
            Some(job) if !*stopped.borrow() => {
                job.stage = Stage::Running;
                let within = (others && !job.is_slow).then(|| first_try(job.cold.bytes));
                Some((job.source.clone(), job.cold.digest, within))
            }
            _ => {
                state.threads -= 1;
                self.changed.notify_all();
                None
            }
        }
    }

    fn finish(&self, source: &Source, digest: &Digest, result: Result<Arc<Plugin>, Error>) {
        let mut state = self.state.lock();
        let is_it = |job: &&mut Job| {
            job.source == *source
                && job.cold.digest == *digest
                && matches!(job.stage, Stage::Running)
        };
        // Without the job, its file has changed meanwhile, or the host ends.
        if let Some(job) = state.jobs.iter_mut().find(is_it) {
            let is_late = result
                .as_ref()
                .err()
                .is_some_and(|error| error.code == codes::COMPILING);
            job.stage = match is_late && !job.is_slow {
                true => Stage::Waiting,
                false => Stage::Done(result),
            };
            job.is_slow |= is_late;
            if is_late {
                return;
            }
        }
        let finished = state.finished.clone();
        drop(state);
        self.changed.notify_all();
        if let Some(finished) = finished {
            finished();
        }
    }

    /// Forgets the components of a file: it has changed or is gone.
    pub(crate) fn forget(&self, file: &Path) {
        let mut state = self.state.lock();
        state.forget(&Source::File(file.to_owned()));
        self.count(&state);
    }

    /// The jobs that have ended. They no longer count as awaited.
    pub(crate) fn take(&self) -> Vec<Finished> {
        let mut state = self.state.lock();
        let done = |job: &mut Job| matches!(job.stage, Stage::Done(_));
        let ended: Vec<Job> = state.jobs.extract_if(.., done).collect();
        let mut taken = Vec::with_capacity(ended.len());
        for job in ended {
            let Stage::Done(result) = job.stage else {
                continue;
            };
            if let (Source::Store, Ok(plugin)) = (&job.source, &result) {
                state.kept.push_back(Arc::clone(plugin));
                if state.kept.len() > KEPT {
                    state.kept.pop_front();
                }
            }
            taken.push(Finished {
                source: job.source,
                digest: job.cold.digest,
                result,
            });
        }
        self.count(&state);
        taken
    }

    /// Waits until a job has ended that is not taken, and at most so long. Returns whether there are
    /// jobs.
    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        let mut state = self.state.lock();
        let goes_on = |state: &mut State| {
            let mut jobs = state.jobs.iter();
            state.threads > 0 && !jobs.any(|job| matches!(job.stage, Stage::Done(_)))
        };
        self.changed.wait_while_for(&mut state, goes_on, at_most);
        !state.jobs.is_empty()
    }

    pub(crate) fn awaited(&self) -> Vec<Awaited> {
        let state = self.state.lock();
        let mut all: Vec<Awaited> = state.jobs.iter().map(Job::awaited).collect();
        all.sort_by(|a, b| (a.bytes, &a.file).cmp(&(b.bytes, &b.file)));
        all
    }

    /// The file and the component that waits and describes itself as this version of a package, but
    /// is another component.
    pub(crate) fn rival(&self, file: &Path, cold: &Cold) -> Option<PathBuf> {
        let about = cold.description.as_ref()?;
        let state = self.state.lock();
        let mut files = state.jobs.iter().filter_map(|job| match &job.source {
            Source::File(other) if other != file => Some((other, &job.cold)),
            _ => None,
        });
        let same = |other: &Cold| {
            let other_about = other.description.as_ref();
            other.digest != cold.digest
                && other_about.is_some_and(|other| {
                    (&other.package, &other.version) == (&about.package, &about.version)
                })
        };
        let found = files.find(|(_, other)| same(other));
        found.map(|(other, _)| other.clone())
    }

    /// Why a package may be missing.
    pub(crate) fn may_come(&self, package: &str) -> Option<String> {
        let state = self.state.lock();
        let mut unknown = 0_usize;
        for job in &state.jobs {
            match &job.cold.description {
                Some(about) if about.package == package => {
                    return Some(format!("{} is being compiled", job.cold.name()));
                }
                Some(_) => {}
                None => unknown += 1,
            }
        }
        match unknown {
            0 => None,
            1 => Some(format!(
                "one plugin is being compiled, which may be `{package}`"
            )),
            _ => Some(format!(
                "{unknown} plugins are being compiled, one of which may be `{package}`"
            )),
        }
    }
}

impl State {
    /// Ends the waiting jobs: there is no thread for them.
    fn give_up(&mut self, error: &std::io::Error) {
        for job in &mut self.jobs {
            if matches!(job.stage, Stage::Waiting) {
                let message = format!("the thread that compiles cannot be started: {error}");
                let subject = job.cold.digest.to_string();
                job.stage = Stage::Done(Err(Error::new(codes::NO_COMPILER, subject, message)));
            }
        }
    }

    fn forget(&mut self, source: &Source) {
        self.jobs.retain(|job| job.source != *source);
    }
}

impl Job {
    fn awaited(&self) -> Awaited {
        Awaited {
            file: match &self.source {
                Source::File(file) => Some(file.clone()),
                Source::Store => None,
            },
            digest: self.cold.digest,
            bytes: self.cold.bytes,
            name: self.cold.description.is_some().then(|| self.cold.name()),
            is_running: matches!(self.stage, Stage::Running),
        }
    }
}

fn first_try(bytes: u64) -> Duration {
    let more = FIRST_TRY_MIB.as_millis() as u64 * bytes / (1024 * 1024);
    FIRST_TRY + Duration::from_millis(more)
}

fn load(
    shared: &Arc<LoadShared>,
    source: &Source,
    digest: &Digest,
    patience: Patience<'_>,
) -> Result<Arc<Plugin>, Error> {
    let loaded = match source {
        Source::File(file) => load::file(shared, file, patience)?,
        Source::Store => load::stored(shared, digest, patience)?,
    };
    match loaded {
        Loaded::Plugin(plugin) => Ok(plugin),
        Loaded::Cold(_) => {
            let message = "its code is not compiled yet";
            Err(Error::new(codes::COMPILING, digest.to_string(), message))
        }
    }
}
