//! The budgets of memory of a host: what the settings allow, and what the machine has.

use windlass_plugins::machine_memory;

use crate::config::{Config, Share, Size};

/// The part of the machine's memory that each budget of the host's own data may take at most. The
/// budgets of a small host fit into its memory with that of its plugins.
const PART: u64 = 16;

/// The part that the process that compiles a component may take at most: what the budgets of the host
/// leave.
const COMPILER_PART: u64 = 4;

/// The part that the bodies of requests may take at most: most requests have small ones.
const BODIES_PART: u64 = 32;

/// The budgets of memory. They may all be in use at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budgets {
    /// All plugins together.
    pub(crate) plugins: Size,
    /// The process that compiles a component.
    pub(crate) compiler: Size,
    /// The workflows that are kept ready to run.
    pub(crate) definitions: Size,
    /// The data of runs.
    pub(crate) run_data: Size,
    /// The values that one step makes.
    pub(crate) step: Size,
    /// Large answers over HTTP.
    pub(crate) answers: Size,
    /// Large bodies of requests.
    pub(crate) bodies: Size,
    /// Work that is not written yet.
    pub(crate) queue: Size,
}

impl Budgets {
    /// The budgets of a host with this configuration on this machine.
    pub(crate) fn of(config: &Config) -> Self {
        Self::on(config, machine_memory())
    }

    /// The budgets of a host on a machine, or in a control group, with so many bytes of memory.
    fn on(config: &Config, machine: u64) -> Self {
        let at_most = |size: Size, most: u64| Size(size.0.min(most));
        let own = |size: Size| at_most(size, machine / PART);
        Self {
            plugins: match config.plugins.memory {
                Share::Bytes(size) => size,
                Share::Percent(percent) => Size(machine / 100 * u64::from(percent)),
            },
            compiler: at_most(config.plugins.compile_memory, machine / COMPILER_PART),
            definitions: own(config.scheduler.definition_cache),
            run_data: own(config.scheduler.run_data),
            step: own(config.scheduler.step_memory),
            answers: own(config.server.answers),
            bodies: at_most(config.server.bodies, machine / BODIES_PART),
            queue: own(config.store.queue),
        }
    }

    /// Each budget with its name.
    pub(crate) fn named(&self) -> [(&'static str, Size); 8] {
        [
            ("plugins", self.plugins),
            ("compiling a plugin", self.compiler),
            ("workflows that are ready", self.definitions),
            ("data of runs", self.run_data),
            ("one step", self.step),
            ("answers", self.answers),
            ("bodies of requests", self.bodies),
            ("unwritten work", self.queue),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_budgets_fit_into_a_small_machine() {
        for mib in [512, 1_024, 2_048, 4_096, 65_536] {
            let budgets = Budgets::on(&Config::default(), mib << 20);
            let sum: u64 = budgets.named().iter().map(|(_, size)| size.0).sum();
            let host = sum - budgets.compiler.0;
            assert!(host <= (mib << 20) / 4 * 3, "{mib} MiB: {budgets:?}");
            assert!(sum <= mib << 20, "{mib} MiB: {budgets:?}");
        }
    }

    #[test]
    fn a_large_machine_takes_the_settings_as_they_are() {
        let config = Config::default();
        let budgets = Budgets::on(&config, 64 << 30);
        assert_eq!(budgets.definitions, config.scheduler.definition_cache);
        assert_eq!(budgets.run_data, config.scheduler.run_data);
        assert_eq!(budgets.answers, config.server.answers);
        assert_eq!(budgets.bodies, config.server.bodies);
        assert_eq!(budgets.queue, config.store.queue);
    }
}
