//! The components that wait for the compiler.
//!
//! Compiling a language runtime takes seconds, so a look at the folders loads the compiled ones, and
//! leaves the rest to the threads of this queue. The smallest component goes first: most components
//! are small and compile in a moment, and none of them waits for a row of large ones. The results
//! stay here until a look takes them, so each change of the registry is made by a look.
//!
//! A file may change faster than it compiles. A compilation that has begun is finished, and its
//! plugin is that of exactly the bytes that the compilation has read. The newest bytes wait behind
//! it: a file has at most one waiting job, which reads the file when it begins, so versions in
//! between are skipped. A result is dropped if its file is gone, or if a newer version was loaded
//! meanwhile.
//!
//! Components of one language runtime are compiled one after the other. The first one leaves its
//! functions in the function cache, and the later ones take them from there; side by side, each
//! would compile all of them.
//!
//! A job that waits behind an earlier version of its file, or that took long for its size, comes
//! after all others, in order of arrival: no file that changes all the time starves another one.

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
    /// Counts jobs, and places in the second row.
    last: u64,
}

struct Job {
    no: u64,
    source: Source,
    /// What the last look has found in the file, or what the compiler works on.
    cold: Cold,
    /// Its place among those that come after all others. None: the size decides.
    second: Option<u64>,
    /// It took long for its size while others waited.
    is_slow: bool,
    stage: Stage,
}

enum Stage {
    Waiting,
    Running,
    /// The compiler works on it, and its result is dropped.
    Abandoned,
    Done(Result<Arc<Plugin>, Error>),
}

/// What the compiler works on.
struct Begun {
    digest: Digest,
    runtime: Option<Digest>,
    /// Its file, if its result counts.
    file: Option<Source>,
}

/// A job that begins.
struct Next {
    no: u64,
    source: Source,
    digest: Digest,
    /// The time that it has while others wait.
    within: Option<Duration>,
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
        state.jobs.retain(Job::is_worked_on);
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
            .store(state.wanted().next().is_some(), Ordering::Release);
    }

    /// Adds a component: of the component store, unless it has a job, or the newest content of a
    /// file, which replaces what waits for this file.
    pub(crate) fn add(&self, source: Source, cold: Cold) {
        let mut state = self.state.lock();
        match &source {
            Source::Store => state.add_stored(cold),
            Source::File(_) => state.add_file(source, cold),
        }
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
        while let Some(next) = self.next(stopped) {
            let load = || self.load(shared, &next, stopped);
            let result = std::panic::catch_unwind(AssertUnwindSafe(load));
            let crashed = |_| {
                let message = "loading it crashed";
                Some(Err(Error::new(
                    codes::COMPILE,
                    next.digest.to_string(),
                    message,
                )))
            };
            if let Some(result) = result.unwrap_or_else(crashed) {
                self.finish(next.no, result);
            }
        }
    }

    /// Compiles a job. None: it has none to compile now.
    fn load(
        &self,
        shared: &Arc<LoadShared>,
        next: &Next,
        stopped: &watch::Receiver<bool>,
    ) -> Option<Result<Arc<Plugin>, Error>> {
        let patience = Patience::Until(stopped, next.within);
        let loaded = match &next.source {
            Source::Store => load::stored(shared, &next.digest, patience),
            Source::File(file) => match load::content(shared, file) {
                Ok(content) if !self.settle(next.no, content.cold(shared)) => return None,
                Ok(content) => load::load(shared, file, content, patience),
                Err(error) => Err(error),
            },
        };
        Some(loaded.and_then(|loaded| match loaded {
            Loaded::Plugin(plugin) => Ok(plugin),
            Loaded::Cold(cold) => {
                let message = "its code is not compiled yet";
                let subject = cold.digest.to_string();
                Err(Error::new(codes::COMPILING, subject, message))
            }
        }))
    }

    /// The next job; none ends the thread.
    fn next(&self, stopped: &watch::Receiver<bool>) -> Option<Next> {
        let mut state = self.state.lock();
        let begun: Vec<Begun> = state.begun().collect();
        let is_first = |job: &&Job| matches!(job.stage, Stage::Waiting) && job.second.is_none();
        let others = state.jobs.iter().filter(is_first).count() > 1;
        let waiting = state.jobs.iter_mut();
        let waiting = waiting.filter(|job| matches!(job.stage, Stage::Waiting));
        let free = waiting.filter(|job| {
            // The same component in a second place is not compiled a second time, but comes after
            // it. So does the next version of a file, so that results come in order, and a component
            // whose functions the function cache is about to get.
            let blocks = |begun: &Begun| {
                begun.digest == job.cold.digest
                    || begun.file.as_ref() == Some(&job.source)
                    || (begun.runtime.is_some() && begun.runtime == job.cold.runtime)
            };
            !begun.iter().any(blocks)
        });
        match free.min_by_key(|job| (job.second, job.cold.bytes)) {
            Some(job) if !*stopped.borrow() => {
                job.stage = Stage::Running;
                Some(Next {
                    no: job.no,
                    source: job.source.clone(),
                    digest: job.cold.digest,
                    within: (others && !job.is_slow).then(|| first_try(job.cold.bytes)),
                })
            }
            _ => {
                state.threads -= 1;
                self.changed.notify_all();
                None
            }
        }
    }

    /// Records what a job has read from its file. Returns whether it is to be compiled now.
    fn settle(&self, no: u64, read: Cold) -> bool {
        let mut state = self.state.lock();
        let is_begun = state
            .jobs
            .iter()
            .any(|job| job.no != no && job.is_worked_on() && job.cold.digest == read.digest);
        let Some(job) = state.jobs.iter_mut().find(|job| job.no == no) else {
            return false;
        };
        if matches!(job.stage, Stage::Abandoned) {
            state.jobs.retain(|job| job.no != no);
            return false;
        }
        let (source, digest) = (job.source.clone(), read.digest);
        job.cold = read;
        if is_begun {
            job.stage = Stage::Waiting;
        }
        // The file is read once more only if it has changed since.
        state.jobs.retain(|job| {
            let waits = matches!(job.stage, Stage::Waiting) && job.source == source;
            job.no == no || !waits || (!is_begun && job.cold.digest != digest)
        });
        !is_begun
    }

    fn finish(&self, no: u64, result: Result<Arc<Plugin>, Error>) {
        let mut state = self.state.lock();
        let is_late = result
            .as_ref()
            .is_err_and(|error| error.code == codes::COMPILING);
        // Without the job, the host ends.
        if let Some(job) = state.jobs.iter_mut().find(|job| job.no == no) {
            match job.stage {
                Stage::Abandoned => state.jobs.retain(|job| job.no != no),
                _ if is_late && !job.is_slow => return state.delay(no),
                _ => job.stage = Stage::Done(result),
            }
        }
        self.count(&state);
        let finished = state.finished.clone();
        drop(state);
        self.changed.notify_all();
        if let Some(finished) = finished {
            finished();
        }
    }

    /// Forgets the components of a file: it is gone, or its newest version is loaded. A compilation
    /// that has begun ends without an effect on the file.
    pub(crate) fn forget(&self, file: &Path) {
        let mut state = self.state.lock();
        let source = Source::File(file.to_owned());
        for job in &mut state.jobs {
            if job.source == source && matches!(job.stage, Stage::Running) {
                job.stage = Stage::Abandoned;
            }
        }
        let is_left = |job: &Job| matches!(job.stage, Stage::Abandoned);
        state
            .jobs
            .retain(|job| job.source != source || is_left(job));
        self.count(&state);
    }

    /// Forgets what waits for a file: its newest content cannot be loaded. A compilation that has
    /// begun keeps its effect.
    pub(crate) fn skip(&self, file: &Path) {
        let mut state = self.state.lock();
        state.skip(&Source::File(file.to_owned()));
        self.count(&state);
    }

    /// Whether a component of a file waits, is compiled, or is to be taken.
    pub(crate) fn has(&self, file: &Path, digest: &Digest) -> bool {
        let state = self.state.lock();
        let is_it = |job: &Job| {
            job.cold.digest == *digest && matches!(&job.source, Source::File(it) if it == file)
        };
        state.wanted().any(is_it)
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
            state.threads > 0
                && state.wanted().next().is_some()
                && !jobs.any(|job| matches!(job.stage, Stage::Done(_)))
        };
        self.changed.wait_while_for(&mut state, goes_on, at_most);
        state.wanted().next().is_some()
    }

    pub(crate) fn awaited(&self) -> Vec<Awaited> {
        let state = self.state.lock();
        let mut all: Vec<Awaited> = state.wanted().map(Job::awaited).collect();
        all.sort_by(|a, b| (a.bytes, &a.file).cmp(&(b.bytes, &b.file)));
        all
    }

    /// The file and the component that waits and describes itself as this version of a package, but
    /// is another component.
    pub(crate) fn rival(&self, file: &Path, cold: &Cold) -> Option<PathBuf> {
        let about = cold.description.as_ref()?;
        let state = self.state.lock();
        let mut files = state.wanted().filter_map(|job| match &job.source {
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
        for job in state.wanted() {
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

    /// The jobs whose results count.
    fn wanted(&self) -> impl Iterator<Item = &Job> {
        let jobs = self.jobs.iter();
        jobs.filter(|job| !matches!(job.stage, Stage::Abandoned))
    }

    fn begun(&self) -> impl Iterator<Item = Begun> {
        let begun = self.jobs.iter().filter(|job| job.is_worked_on());
        begun.map(|job| {
            let counts = matches!(job.stage, Stage::Running) && job.source != Source::Store;
            Begun {
                digest: job.cold.digest,
                runtime: job.cold.runtime,
                file: counts.then(|| job.source.clone()),
            }
        })
    }

    fn add_stored(&mut self, cold: Cold) {
        if !self.wanted().any(|job| job.cold.digest == cold.digest) {
            self.push(Source::Store, cold, false);
        }
    }

    fn add_file(&mut self, source: Source, cold: Cold) {
        let is_file = |job: &Job| job.source == source;
        let mut jobs = self.jobs.iter_mut().filter(|job| is_file(job));
        let begun =
            jobs.find(|job| job.cold.digest == cold.digest && !matches!(job.stage, Stage::Waiting));
        if let Some(begun) = begun {
            if matches!(begun.stage, Stage::Abandoned) {
                begun.stage = Stage::Running;
            }
            return self.skip(&source);
        }
        let mut jobs = self.jobs.iter_mut().filter(|job| is_file(job));
        match jobs.find(|job| matches!(job.stage, Stage::Waiting)) {
            Some(waiting) => waiting.cold = cold,
            None => {
                let is_behind = self.wanted().any(is_file);
                self.push(source, cold, is_behind);
            }
        }
    }

    fn push(&mut self, source: Source, cold: Cold, is_behind: bool) {
        self.last += 1;
        self.jobs.push(Job {
            no: self.last,
            source,
            cold,
            second: is_behind.then_some(self.last),
            is_slow: false,
            stage: Stage::Waiting,
        });
    }

    fn skip(&mut self, source: &Source) {
        let waits = |job: &Job| matches!(job.stage, Stage::Waiting) && job.source == *source;
        self.jobs.retain(|job| !waits(job));
    }

    /// Lets a job that took long wait once more, or what waits behind it in its place.
    fn delay(&mut self, no: u64) {
        let Some(at) = self.jobs.iter().position(|job| job.no == no) else {
            return;
        };
        self.last += 1;
        let (late, last) = (self.jobs.remove(at), self.last);
        let mut jobs = self.jobs.iter_mut();
        let newer = jobs.find(|job| {
            late.source != Source::Store
                && job.source == late.source
                && matches!(job.stage, Stage::Waiting)
        });
        match newer {
            Some(newer) => newer.is_slow = true,
            None => self.jobs.push(Job {
                second: Some(last),
                is_slow: true,
                stage: Stage::Waiting,
                ..late
            }),
        }
    }
}

impl Job {
    fn is_worked_on(&self) -> bool {
        matches!(self.stage, Stage::Running | Stage::Abandoned)
    }

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
