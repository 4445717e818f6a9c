//! `windlass plugin dev`: the loop of a plugin's author. At each save it builds the project, and calls
//! the plugin with the examples of the project.
//!
//! The component is written where `windlass plugin build` writes it, so a running `windlass dev` or
//! `windlass serve` takes each build that a host would load.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::Args;
use serde_json::json;
use windlass_periodic::Bell;
use windlass_plugins::Host;
use windlass_runtime::Watch;

use super::build::{Built, build, folder, size};
use super::call::log_line;
use super::example::{self, Example, Ran};
use super::languages::{self, Language};
use super::new::project;
use crate::app::Context;
use crate::commands::dev::screen::Screen;
use crate::commands::took;
use crate::error::{bug, classify};
use crate::exit::Exit;
use crate::report::report;
use crate::signals::Signals;
use crate::wire::{Machine, compile};

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "Each file in the folder `examples` is one call. Mistakes are printed on stderr, \
                  and everything else on stdout. Ctrl-C ends the command."
)]
pub(crate) struct Arguments {
    /// The directory of the plugin [default: the current directory]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// The folder for the component, as of `windlass plugin build`
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// The time between two looks at the files, if the system does not tell of a change.
const LOOK: Duration = Duration::from_secs(2);

/// The most files of a project that are watched.
const MAX_FILES: usize = 20_000;

/// Characters of a result that are printed.
const SHOWN: usize = 2_000;

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("error")?)?;
        let project = project(self.directory);
        let language = languages::of(&project)?;
        let folder = match self.out {
            Some(out) => out,
            None => folder(context, &machine.config, &project),
        };
        let host = machine.host(compile::noted(context.output))?;
        let machine = Arc::new(machine);
        let mut signals = {
            let _inside = machine.tokio.enter();
            Signals::new()?
        };
        let mut bench = Bench {
            machine: Arc::clone(&machine),
            host,
            screen: Screen::new(context.output),
            language,
            project,
            folder,
            seen: BTreeMap::new(),
        };
        let (_, folders) = files(&bench.project, language);
        let watch = Watch::start("plugin-dev", &folders, Bell::default(), move || {
            bench.look();
            LOOK
        });
        let watch = watch.map_err(|error| bug(&format!("a thread does not start: {error}")))?;
        machine.tokio.block_on(signals.next());
        // A second signal ends the process also if a build goes on.
        signals.end_at_next()?;
        drop(watch);
        Ok(Exit::Done)
    }
}

/// A project, and what builds and calls it.
struct Bench {
    machine: Arc<Machine>,
    host: Arc<Host>,
    screen: Screen,
    language: &'static dyn Language,
    project: PathBuf,
    folder: PathBuf,
    /// The files at the last build.
    seen: BTreeMap<PathBuf, Stamp>,
}

/// By which a changed file is known: its size in bytes, and the time of its last change.
type Stamp = (u64, Option<SystemTime>);

impl Bench {
    /// Builds and calls, if a file has changed.
    fn look(&mut self) {
        let (files, _) = files(&self.project, self.language);
        if files == self.seen {
            return;
        }
        self.seen = files;
        let begun = self.machine.clock.monotonic();
        if let Err(error) = self.turn(begun) {
            report(&self.screen.output, &classify(error));
        }
    }

    fn turn(&self, begun: Duration) -> anyhow::Result<()> {
        let built = build(&self.host, &self.project, &self.folder)?;
        let plugin = self.host.load_file(&built.file)?;
        self.say_built(&built, begun);
        let examples = example::read(&self.project.join(example::FOLDER), &plugin)?;
        if examples.is_empty() {
            let event = json!({ "event": "no-examples" });
            self.screen.say(&event, |paint| {
                paint.dim("  There are no files in `examples`, so nothing is called.")
            });
        }
        for example in &examples {
            let ran = example.run(&self.machine, &plugin, None);
            self.say_ran(example, &ran);
        }
        let time = self.since(begun);
        let event = json!({ "event": "end", "took_us": time });
        self.screen.say(&event, |paint| {
            paint.dim(format!("  {} after the save\n", took(time)))
        });
        Ok(())
    }

    /// Microseconds since a time.
    fn since(&self, begun: Duration) -> u64 {
        let time = self.machine.clock.monotonic().saturating_sub(begun);
        u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
    }

    fn say_built(&self, built: &Built, begun: Duration) {
        let time = self.since(begun);
        let name = built.plugin.name();
        let event = json!({
            "event": "built", "plugin": name, "file": built.file, "bytes": built.bytes,
            "changed": built.changed, "warnings": built.warnings, "took_us": time,
        });
        self.screen.say(&event, |paint| {
            let (place, size) = (self.screen.place(&built.file), size(built.bytes));
            let mut text = format!(
                "{} {name}: {place}, {size}, built in {}",
                paint.good('✓'),
                took(time)
            );
            for warning in &built.warnings {
                text.push_str(&format!("\n  {} {warning}", paint.warning("warning:")));
            }
            text
        });
    }

    fn say_ran(&self, example: &Example, ran: &Ran) {
        let differences = example.differences(&ran.got);
        let logs: Vec<String> = ran.logs.iter().map(log_line).collect();
        let us = u64::try_from(ran.took.as_micros()).unwrap_or(u64::MAX);
        let got = &ran.got;
        let event = json!({
            "event": "called", "example": example.name, "result": got.what, "class": got.class,
            "output": got.value, "ports": got.ports, "message": got.message, "log": logs,
            "differences": differences, "took_us": us, "memory_bytes": ran.memory_bytes,
        });
        self.screen.say(&event, |paint| {
            let mark = match differences.is_empty() {
                true => paint.good('✓'),
                false => paint.bad('✗'),
            };
            let cost = format!("{}, {} KiB", took(us), ran.memory_bytes / 1024);
            let mut text = format!(
                "  {mark} {}: {}  {}",
                example.name,
                result(ran),
                paint.dim(cost)
            );
            let lines = logs.iter().map(|line| paint.dim(line));
            let lines = lines.chain(differences.iter().map(|line| paint.bad(line)));
            for line in lines {
                text.push_str(&format!("\n      {line}"));
            }
            text
        });
    }
}

/// A result on one line.
fn result(ran: &Ran) -> String {
    let got = &ran.got;
    if got.class.is_some() || got.what == "reject" {
        return got.headline();
    }
    let ports = got.ports.join(", ");
    let what = match (got.what, ports.as_str()) {
        ("done", "done") => String::new(),
        ("done", ports) => format!("{ports} "),
        (what, _) => format!("{what} "),
    };
    let value: String = got.value.to_string().chars().take(SHOWN).collect();
    format!("{what}{value}")
}

/// The files of a project that a build may read, and the folders that they are in.
fn files(project: &Path, language: &dyn Language) -> (BTreeMap<PathBuf, Stamp>, Vec<PathBuf>) {
    let (mut files, mut folders) = (BTreeMap::new(), Vec::new());
    let mut open = vec![project.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            let is_unread = name.starts_with('.')
                || name.ends_with(".wasm")
                || name == "__pycache__"
                || folder == project && language.unread().contains(&&*name);
            let Ok(found) = entry.metadata() else {
                continue;
            };
            if is_unread || files.len() >= MAX_FILES {
                continue;
            }
            if found.is_dir() {
                open.push(path);
            } else {
                files.insert(path, (found.len(), found.modified().ok()));
            }
        }
        folders.push(folder);
    }
    (files, folders)
}
