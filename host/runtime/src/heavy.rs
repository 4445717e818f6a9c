//! Threads for work that takes much memory for a short time.
//!
//! An allocator keeps memory for each thread, and the small values that outlive the work lie between
//! what it has freed. If any of the many threads that may block did such work, each of them would
//! keep its own gaps. So few threads do it, always the same, and the next work uses the gaps again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use rayon_core::{ThreadPool, ThreadPoolBuilder};

/// A fixed number of threads. They start with the first work.
#[derive(Debug)]
pub struct Heavy {
    name: &'static str,
    threads: usize,
    /// None inside if the system cannot start the threads.
    pool: OnceLock<Option<ThreadPool>>,
}

impl Heavy {
    /// So many threads, at least one, whose names begin with `name`.
    pub const fn new(name: &'static str, threads: usize) -> Self {
        Self {
            name,
            threads: if threads == 0 { 1 } else { threads },
            pool: OnceLock::new(),
        }
    }

    /// One thread for two cores, so that other work has the other cores.
    pub fn half(name: &'static str) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::new(name, cores / 2)
    }

    /// The number of threads.
    pub const fn threads(&self) -> usize {
        self.threads
    }

    /// Runs work on one of the threads, and blocks until the work has ended. Work that begins other
    /// work of the same threads goes on with it at once. A panic of the work is a panic here.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match self.pool() {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    /// Runs work on one of the threads, later. A panic of the work ends the work alone.
    pub fn begin(&self, work: impl FnOnce() + Send + 'static) {
        // The hook of the process reports the panic.
        let work = move || drop(catch_unwind(AssertUnwindSafe(work)));
        match self.pool() {
            Some(pool) => pool.spawn(work),
            None => work(),
        }
    }

    fn pool(&self) -> Option<&ThreadPool> {
        let start = || {
            let name = self.name;
            let builder = ThreadPoolBuilder::new()
                .num_threads(self.threads)
                .thread_name(move |number| format!("{name}-{number}"));
            match builder.build() {
                Ok(pool) => Some(pool),
                Err(error) => {
                    tracing::error!(%error, threads = name, "cannot start threads for large work; other threads do it");
                    None
                }
            }
        };
        self.pool.get_or_init(start).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn work_runs_on_few_threads_and_its_result_comes_back() {
        let heavy = Heavy::new("few", 2);
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let names = Mutex::new(BTreeSet::new());
        std::thread::scope(|scope| {
            for caller in 0..8_usize {
                let (heavy, inside, most, names) = (&heavy, &inside, &most, &names);
                scope.spawn(move || {
                    for _ in 0..50 {
                        let given = heavy.run(|| {
                            let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                            most.fetch_max(now, Ordering::SeqCst);
                            let thread = std::thread::current();
                            names.lock().insert(thread.name().unwrap().to_owned());
                            std::thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                            caller
                        });
                        assert_eq!(given, caller);
                    }
                });
            }
        });
        assert!((1..=2).contains(&most.into_inner()));
        let names = names.into_inner();
        assert!(
            names
                .iter()
                .all(|name| ["few-0", "few-1"].contains(&name.as_str()))
        );
    }

    #[test]
    fn work_inside_of_work_does_not_wait_for_its_own_thread() {
        let heavy = Heavy::new("inner", 1);
        assert_eq!(heavy.run(|| heavy.run(|| heavy.run(|| 3)) + 1), 4);
    }

    #[test]
    fn a_panic_ends_its_own_work_alone() {
        let heavy = Heavy::new("panics", 1);
        heavy.begin(|| panic!("this is expected"));
        let caught = catch_unwind(AssertUnwindSafe(|| heavy.run(|| panic!("this, too"))));
        assert!(caught.is_err());
        let (sender, receiver) = mpsc::channel();
        heavy.begin(move || sender.send(7).unwrap());
        assert_eq!(receiver.recv().unwrap(), 7);
    }
}
