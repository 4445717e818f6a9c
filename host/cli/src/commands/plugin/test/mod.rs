//! `windlass plugin test`: the author's own tests, the examples, and the conformance suite.

mod report;
mod sample;
mod suite;

pub(super) use suite::asks;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use windlass_plugins::{Host, Isolation, Plugin, Settings};

use super::example::Example;
use super::languages;
use super::subject::Subject;
use crate::app::Context;
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;
use crate::wire::{Machine, compile};
use report::{Case, Report};

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "Of a directory, the command runs the tests that the author has written for the \
                  language's own runner, builds the component, and goes on with its file and with \
                  the examples of the directory. The conformance suite calls each node with inputs \
                  that it makes up as well; these calls have no grants."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    subject: Subject,
    /// Also write the report to this file, as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("error")?)?;
        let mut report = Report::default();
        let project = &self.subject.subject;
        if project.is_dir() {
            own_tests(&machine, project, &mut report)?;
        }
        let component = self.subject.component(context, &machine)?;
        let host = machine.host(compile::noted(context.output))?;
        let plugin = host.load_file(&component.file)?;
        let examples = component.examples(&plugin)?;
        run_examples(&machine, &plugin, &examples, &mut report);
        let bench = Bench::new(context, &machine, &component.file, &plugin)?;
        suite::run(&bench, &examples, &mut report);

        if let Some(path) = &self.junit {
            std::fs::write(path, report.junit(plugin.name())).map_err(|error| {
                let text = format!("{} cannot be written: {error}", path.display());
                Expected::new(codes::OUTPUT, text)
            })?;
        }
        context
            .output
            .show(&report.document(), || report.text(context.output.data))?;
        match report.failed() {
            0 => Ok(Exit::Done),
            failed => {
                let text = format!("{failed} tests of {} failed", plugin.name());
                Err(Expected::new(codes::TESTS, text).exit(Exit::Plugin).into())
            }
        }
    }
}

/// A host that gives no plugin a grant, with this isolation for the plugins of these packages.
pub(super) fn host_without_grants(
    context: &Context,
    machine: &Machine,
    packages: &[&str],
    isolation: Isolation,
) -> anyhow::Result<Arc<Host>> {
    let settings = Settings {
        isolation,
        ..Settings::default()
    };
    let host = machine.host_with(compile::noted(context.output), |options| {
        let own = packages.iter().map(|package| (*package).to_owned());
        options
            .settings
            .extend(own.map(|package| (package, settings.clone())));
        // A plugin of the library has its grants without settings.
        options.library.clear();
        options.quarantine_after = None;
        // A quarter less is the fewest calls of an instance.
        options.pool.slot_calls = REUSES * 2;
    })?;
    Ok(host)
}

/// Runs the tests of the author, whose output goes to stderr.
fn own_tests(machine: &Machine, project: &Path, report: &mut Report) -> anyhow::Result<()> {
    use std::os::fd::AsFd as _;
    let language = languages::of(project)?;
    let mut tests = language.tests(project)?;
    let stderr = std::io::stderr().as_fd().try_clone_to_owned()?;
    tests.stdin(Stdio::null()).stdout(stderr);
    let begun = machine.clock.monotonic();
    let status = tests.status();
    let status = status.map_err(|error| languages::not_run(&tests, &error, "see its README"))?;
    let took = machine.clock.monotonic().saturating_sub(begun);
    let case = Case::new("own", &languages::shown(&tests)).took(took);
    report.add(match status.success() {
        true => case,
        false => case.failed(format!("{status}; its output is above the report")),
    });
    Ok(())
}

fn run_examples(
    machine: &Machine,
    plugin: &Arc<Plugin>,
    examples: &[Example],
    report: &mut Report,
) {
    for example in examples {
        let ran = example.run(machine, plugin, None);
        let case = Case::new("examples", &example.name).took(ran.took);
        let differences = example.differences(&ran.got);
        report.add(match differences.is_empty() {
            true => case,
            false => case.failed(differences.join("\n")),
        });
    }
}

/// The component in two hosts without grants.
struct Bench<'m> {
    machine: &'m Machine,
    /// In a host that reuses its instances.
    warm: Arc<Plugin>,
    /// In a host in which each call has an instance of its own.
    fresh: Arc<Plugin>,
    /// Keep the plugins alive.
    _hosts: [Arc<Host>; 2],
}

/// The calls that one instance serves at least.
const REUSES: u32 = 1_000;

impl<'m> Bench<'m> {
    fn new(
        context: &Context,
        machine: &'m Machine,
        file: &Path,
        plugin: &Plugin,
    ) -> anyhow::Result<Self> {
        let package = &plugin.description.package;
        let load = |isolation| -> anyhow::Result<(Arc<Host>, Arc<Plugin>)> {
            let host = host_without_grants(context, machine, &[package.as_str()], isolation)?;
            let plugin = host.load_file(file)?;
            Ok((host, plugin))
        };
        let (warm_host, warm) = load(Isolation::Warm)?;
        let (fresh_host, fresh) = load(Isolation::Call)?;
        Ok(Self {
            machine,
            warm,
            fresh,
            _hosts: [warm_host, fresh_host],
        })
    }

    fn now(&self) -> Duration {
        self.machine.clock.monotonic()
    }
}
