//! The budgets of memory of a host: what the settings allow, and what the machine has.
//!
//! All of them may be in use at the same time. So on a small machine they are parts of its memory,
//! and together, with what a host takes at rest, they leave a fifth of it for the kernel: the buffers
//! of sockets and the pages of files count in a control group, too.

use windlass_engine::expr::{Bounds, RESULT_BYTES};
use windlass_plugins::machine_memory;
use windlass_runtime::EvaluationMemory;

use super::or_cores;
use crate::config::{Config, Share, Size};

/// The part of the machine's memory that the data of runs may take at most.
const RUN_DATA_PART: u64 = 16;

/// The part that large answers, and one large answer in the making, may each take at most.
const ANSWERS_PART: u64 = 32;

/// The part that the values which the expressions of a step read, and what one of them allocates, may
/// each take at most.
const EXPRESSION_PART: u64 = 32;

/// The part that the values may take at most which one step makes.
const STEP_PART: u64 = 48;

/// What a step takes while it is written, in parts of what it has made: its values, an output with all
/// of them, and two copies of the output in SQLite.
const WRITTEN_PARTS: usize = 4;

/// The part that the other budgets of the host's own data may each take at most. The writes that
/// wait for the store are data of runs and of requests for the most part.
const PART: u64 = 64;

/// The part that the steps may take together which are evaluated on the threads that run workflows.
const INLINE_PART: u64 = 48;

/// What such a step takes, in parts of its bound: what one expression allocates, what all of them
/// have made, and their values, parsed.
const INLINE_PARTS: u64 = 3;

/// The part that the steps whose evaluations are aside may take together at most; one step may be
/// aside in any case.
const ASIDE_PART: u64 = 8;

/// The part that the processes that compile components may take together at most.
const COMPILERS_PART: u64 = 4;

/// A machine with less memory compiles one component at a time, in half of that part.
const ONE_COMPILER_BELOW: u64 = 4 << 30;

/// The least memory that the process has which compiles a component, in bytes: the components of the
/// library compile in it.
const LEAST_COMPILER: u64 = 128 << 20;

/// The page cache of the writer of a SQLite store at most, in bytes.
const CACHE: u64 = 32 << 20;

/// The page caches of a SQLite store together, in caches of its writer: the writer, and four readers
/// of which each has a fourth.
const CACHES: u64 = 2;

/// The largest room for small answers, and for those about metrics, in bytes.
const SMALL_ANSWERS: u64 = 32 << 20;
const HEALTH_ANSWERS: u64 = 4 << 20;

/// The budgets of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budgets {
    /// All plugins together.
    pub(crate) plugins: Size,
    /// The processes that compile components, at a time.
    pub(crate) compilers: u32,
    /// Each of them.
    pub(crate) compiler: Size,
    /// The workflows that are kept ready to run.
    pub(crate) definitions: Size,
    /// The data of runs.
    pub(crate) run_data: Size,
    /// The evaluations of expressions.
    pub(crate) evaluation: EvaluationMemory,
    /// The threads that run workflows.
    workers: u64,
    /// Large answers over HTTP.
    pub(crate) answers: Size,
    /// One large answer in the making.
    pub(crate) most_read: Size,
    /// Large bodies of requests.
    pub(crate) bodies: Size,
    /// Work that is not written yet.
    pub(crate) queue: Size,
    /// The page cache of the writer of a SQLite store.
    pub(crate) cache: Size,
}

impl Budgets {
    /// The budgets of a host with this configuration on this machine.
    pub(crate) fn of(config: &Config) -> Self {
        let workers = or_cores(config.scheduler.workers);
        Self::on(config, machine_memory(), workers as u64)
    }

    /// The budgets of a host with so many threads that run workflows, on a machine, or in a control
    /// group, with so many bytes of memory.
    fn on(config: &Config, machine: u64, workers: u64) -> Self {
        let part = |size: Size, part: u64| Size(size.0.min(machine / part));
        let workers = workers.max(1);
        let few = machine < ONE_COMPILER_BELOW;
        let compilers = match few {
            true => 1,
            false => config.plugins.pool.compiles.max(1),
        };
        let compiler = machine / COMPILERS_PART / u64::from(compilers) / (1 + u64::from(few));
        Self {
            plugins: match config.plugins.memory {
                Share::Bytes(size) => size,
                Share::Percent(percent) => Size(machine / 100 * u64::from(percent)),
            },
            compilers,
            compiler: Size(
                config
                    .plugins
                    .compile_memory
                    .0
                    .min(compiler.max(LEAST_COMPILER)),
            ),
            definitions: part(config.scheduler.definition_cache, PART),
            run_data: part(config.scheduler.run_data, RUN_DATA_PART),
            evaluation: evaluation(config, machine, workers),
            workers,
            answers: part(config.server.answers, ANSWERS_PART),
            most_read: part(Size(windlass_server::MOST_READ as u64), ANSWERS_PART),
            bodies: part(config.server.bodies, PART),
            queue: part(config.store.queue, PART),
            cache: part(Size(CACHE), PART),
        }
    }

    /// The steps whose evaluations are aside, all together.
    fn aside(&self) -> u64 {
        let places = self.workers.div_ceil(2);
        places.min(self.evaluation.aside as u64) * of_step(&self.evaluation.step)
    }

    /// All evaluations.
    fn evaluations(&self) -> u64 {
        let inline = self.evaluation.inline as u64 * INLINE_PARTS;
        self.aside() + inline * self.workers
    }

    /// All answers: one that is larger than its room is made alone.
    fn all_answers(&self) -> u64 {
        let half = self.answers.0 / 2;
        let small = SMALL_ANSWERS.min(self.answers.0 / 4);
        half.max(self.most_read.0) + half + small + HEALTH_ANSWERS
    }

    /// Each budget with its name.
    pub(crate) fn named(&self) -> [(&'static str, Size); 9] {
        [
            ("plugins", self.plugins),
            (
                "compiling plugins",
                Size(self.compiler.0 * u64::from(self.compilers)),
            ),
            ("workflows that are ready", self.definitions),
            ("data of runs", self.run_data),
            ("evaluations", Size(self.evaluations())),
            ("answers", Size(self.all_answers())),
            ("bodies of requests", self.bodies),
            ("unwritten work", self.queue),
            ("page caches of the store", Size(self.cache.0 * CACHES)),
        ]
    }
}

/// The memory of evaluations on such a machine.
fn evaluation(config: &Config, machine: u64, workers: u64) -> EvaluationMemory {
    let all = EvaluationMemory::default();
    let at_most = |bytes: usize, most: u64| bytes.min(Size(most).bytes());
    let expression = machine / EXPRESSION_PART;
    let step = Bounds {
        parsed: at_most(all.step.parsed, expression),
        memory: at_most(all.step.memory, expression),
        made: at_most(config.scheduler.step_memory.bytes(), machine / STEP_PART),
    };
    let places = machine / ASIDE_PART / of_step(&step).max(1);
    EvaluationMemory {
        step,
        inline: at_most(all.inline, machine / INLINE_PART / INLINE_PARTS / workers),
        aside: Size(places).bytes().max(1),
    }
}

/// What a step takes whose evaluations are aside: the values that it reads, what it makes, and a result
/// that grows; later its write.
fn of_step(step: &Bounds) -> u64 {
    let evaluated = step.parsed + step.memory + step.made + 2 * RESULT_BYTES;
    evaluated.max(step.made * WRITTEN_PARTS) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a host takes at rest, about, in bytes.
    const AT_REST: u64 = 100 << 20;

    fn on(mib: u64, workers: u64) -> Budgets {
        Budgets::on(&Config::default(), mib << 20, workers)
    }

    fn sum(budgets: &Budgets) -> u64 {
        budgets.named().iter().map(|(_, size)| size.0).sum()
    }

    #[test]
    fn the_default_budgets_leave_a_fifth_of_a_small_machine() {
        for mib in [1_024, 1_500, 2_048, 4_096, 8_192, 24_576, 65_536] {
            for workers in [1, 2, 4, 16, 64] {
                let budgets = on(mib, workers);
                let (all, most) = (sum(&budgets) + AT_REST, (mib << 20) / 5 * 4);
                assert!(all <= most, "{mib} MiB: {all} of {most}: {budgets:?}");
            }
        }
        // On less the budgets alone fit: compiling takes a fourth, as its least is no part.
        let budgets = on(512, 2);
        assert!(sum(&budgets) <= 512 << 20, "{budgets:?}");
    }

    /// The table in `docs/limits.md`.
    #[test]
    fn the_table_of_a_machine_with_one_gibibyte_is_that_of_the_document() {
        let (budgets, mut table) = (on(1_024, 2), String::new());
        let row =
            |name: &str, bytes: u64| format!("| {name} | {} MiB |\n", bytes.div_ceil(1 << 20));
        for (name, size) in budgets.named() {
            table += &row(name, size.0);
        }
        table += &row("the host at rest, about", AT_REST);
        table += &row("all", sum(&budgets) + AT_REST);
        let page = include_str!("../../../../docs/limits.md");
        assert!(page.contains(&table), "docs/limits.md needs:\n{table}");
    }

    #[test]
    fn a_large_machine_takes_the_settings_as_they_are() {
        let config = Config::default();
        let budgets = on(24 << 10, 8);
        assert_eq!(budgets.definitions, config.scheduler.definition_cache);
        assert_eq!(budgets.run_data, config.scheduler.run_data);
        assert_eq!(budgets.answers, config.server.answers);
        assert_eq!(budgets.bodies, config.server.bodies);
        assert_eq!(budgets.queue, config.store.queue);
        assert_eq!(budgets.compiler, config.plugins.compile_memory);
        assert_eq!(budgets.compilers, config.plugins.pool.compiles);
        assert_eq!(budgets.most_read.bytes(), windlass_server::MOST_READ);
        assert_eq!(budgets.cache.0, CACHE);
        let all = EvaluationMemory::default();
        let made = config.scheduler.step_memory.bytes();
        assert_eq!(budgets.evaluation.step, Bounds { made, ..all.step });
        assert_eq!(budgets.evaluation.inline, all.inline);
        assert!(budgets.evaluation.aside >= 4, "{budgets:?}");
    }
}
