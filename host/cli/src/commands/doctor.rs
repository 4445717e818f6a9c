//! `windlass doctor`: checks of the machine that windlass runs on.

mod budgets;
mod bundle;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use windlass_plugins::{LoadEvent, Standing};
use windlass_store::published::PublicationQuery;

use budgets::Budget;
use bundle::Bundle;

use crate::app::Context;
use crate::commands::health::here;
use crate::commands::{plugin, took};
use crate::config::{Config, Size};
use crate::exit::Exit;
use crate::output::{self, Paint};
use crate::wire::budgets::Budgets;
use crate::wire::place::StoreLocation;
use crate::wire::{self, Machine, compile};

/// How many published workflows the check reads at once.
const PAGE: u32 = 500;

/// How many workflows that cannot run the check names.
const NAMED: usize = 5;

/// How many flushes to the disk the check measures.
const FLUSHES: u64 = 16;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "With --server, the command only asks that host for the budgets of its memory. \
    Without it, they are those of the host at the configured `listen` address, if one answers."
)]
pub(crate) struct Arguments {
    /// Collect the data of a bug report in this file, which must not exist, without secrets and
    /// without data of runs [default: windlass-bundle-TIME.tar.gz]
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    bundle: Option<Option<PathBuf>>,
    /// Put the text of this published workflow into the bundle; may be repeated
    #[arg(long, value_name = "NAME", requires = "bundle")]
    workflow: Vec<String>,
}

/// The result of one check.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    status: Health,
    message: String,
    help: Option<&'static str>,
    /// Of a running host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    budgets: Vec<Budget>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Health {
    Good,
    Warning,
    Bad,
}

/// The result of a check: a message, or how bad the finding is, a message and the remedy.
type Checked = Result<String, (Health, String, &'static str)>;

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        if let Some(server) = &context.server {
            if self.bundle.is_some() {
                return Err(super::not_by_host().into());
            }
            let budgets = budgets::of_host(server.address(), server.token())?;
            let finding = of_budgets("a host's budgets of memory".to_owned(), budgets);
            let text = line(&finding, context.output.data);
            context.output.list(&[finding], || text)?;
            return Ok(Exit::Done);
        }
        let machine = Machine::new(context.configure("warn")?)?;
        let mut findings = Vec::new();
        let mut add = |check, checked: Checked| {
            findings.push(match checked {
                Ok(message) => Finding {
                    check,
                    status: Health::Good,
                    message,
                    help: None,
                    budgets: Vec::new(),
                },
                Err((status, message, help)) => Finding {
                    check,
                    status,
                    message,
                    help: Some(help),
                    budgets: Vec::new(),
                },
            });
        };
        add("machine", Ok(about_machine()));
        add("limits", limits());
        add("memory", memory(&machine.config));
        add("store", store(&machine));
        // A store on a database server has its own disk and locks.
        if !matches!(
            StoreLocation::of(&machine.config),
            Ok(StoreLocation::Postgres(_))
        ) {
            add("disk", disk(&machine));
            add("locks", locks(&machine));
            add("files", files(&machine));
        }
        add("library", library(&machine));
        match machine.host(compile::noted(context.output)) {
            Ok(host) => {
                add("plugins", plugins(&machine, &host));
                add("workflows", workflows(&machine, &host));
            }
            Err(error) => {
                let help = "Look at the section [plugins] of the configuration.";
                add("plugins", Err((Health::Bad, error.to_string(), help)));
            }
        }
        add("proxies", proxies());
        add("cache", cache(&machine));
        add("guests", guests());
        findings.push(running(&machine.config));
        context.output.list(&findings, || {
            findings.iter().fold(String::new(), |text, finding| {
                text + &line(finding, context.output.data)
            })
        })?;
        if let Some(file) = &self.bundle {
            self.bundle(file.as_deref(), context, &machine, &findings)?;
        }
        let bad = findings.iter().any(|finding| finding.status == Health::Bad);
        Ok(if bad { Exit::Store } else { Exit::Done })
    }
}

impl Arguments {
    /// Writes the bundle, and lists its files.
    fn bundle(
        &self,
        file: Option<&Path>,
        context: &Context,
        machine: &Machine,
        findings: &[Finding],
    ) -> anyhow::Result<()> {
        let now_ms = machine.clock.wall_ms();
        let file = file.map_or_else(|| bundle::default_name(now_ms), PathBuf::from);
        let bundle = Bundle::collect(context, machine, findings, &self.workflow)?;
        bundle.write(&file, now_ms)?;
        let output = &context.output;
        if !output.is_text() {
            output.note(&format!("The bundle is {}", file.display()));
            return Ok(());
        }
        let mut text = format!("\nThe bundle is {}. It has:\n", file.display());
        for (name, bytes) in bundle.names() {
            text.push_str(&format!("  {name:<40} {bytes:>7} bytes\n"));
        }
        text.push_str("Read it before you pass it on.\n");
        output.print(&text)
    }
}

fn line(finding: &Finding, paint: Paint) -> String {
    let mark = match finding.status {
        Health::Good => paint.good('✓'),
        Health::Warning => paint.warning('!'),
        Health::Bad => paint.bad('✗'),
    };
    let help = finding
        .help
        .map(|help| format!("\n              {}", paint.dim(help)));
    format!(
        "{mark} {:<10}  {}{}\n{}",
        finding.check,
        output::name(&finding.message),
        help.unwrap_or_default(),
        budgets::table(&finding.budgets, paint)
    )
}

fn of_budgets(message: String, budgets: Vec<Budget>) -> Finding {
    Finding {
        check: "budgets",
        status: Health::Good,
        message,
        help: None,
        budgets,
    }
}

/// The budgets of the host that has this configuration on this machine, if it runs.
fn running(config: &Config) -> Finding {
    let Ok(address) = here(&config.server) else {
        return of_budgets(
            "the configured host has no web server".to_owned(),
            Vec::new(),
        );
    };
    match budgets::of_host(&address, None) {
        Ok(budgets) if !budgets.is_empty() => of_budgets(format!("of {address}"), budgets),
        _ => {
            let text = format!("no host at {address} shows its metrics without a token");
            of_budgets(text, Vec::new())
        }
    }
}

fn about_machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "windlass {}, {} {}, {cores} cores",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}

fn proxies() -> Checked {
    let faults = wire::proxy_faults();
    match faults.as_slice() {
        [] => Ok("no variable names a proxy that cannot be used".to_owned()),
        faults => Err((
            Health::Warning,
            faults.join("; "),
            "Requests that need it fail; `windlass explain WL-P024` has the remedy.",
        )),
    }
}

fn limits() -> Checked {
    let files = getrlimit(Resource::Nofile).current;
    let shown = files.map_or_else(|| "unlimited".to_owned(), |files| files.to_string());
    let message = format!("{shown} open files");
    match files {
        Some(..1024) => Err((Health::Warning, message, "Raise it with `ulimit -n 4096`.")),
        _ => Ok(message),
    }
}

/// The budgets of memory, and whether the machine has as much.
fn memory(config: &Config) -> Checked {
    let budgets = Budgets::of(config).named();
    let sum = budgets.iter().map(|(_, size)| size.0).sum();
    let has = windlass_plugins::machine_memory();
    let shown = |bytes: u64| Size((bytes >> 20) << 20);
    let each = budgets.map(|(name, size)| format!("{name} {}", shown(size.0)));
    let message = format!(
        "{}; budgets of {} in all: {}",
        shown(has),
        shown(sum),
        each.join(", ")
    );
    if sum > has {
        let help = "Lower `memory` in `[plugins]`: the budgets may be in use at the same time.";
        return Err((Health::Warning, message, help));
    }
    Ok(message)
}

fn store(machine: &Machine) -> Checked {
    let bad = |error: anyhow::Error| {
        (
            Health::Bad,
            error.to_string(),
            "`windlass config show --origin` says where it comes from.",
        )
    };
    let place = StoreLocation::of(&machine.config).map_err(|error| bad(error.into()))?;
    if !place.exists().map_err(|error| bad(error.into()))? {
        return Ok(format!("{place} is not there yet; the first run makes it"));
    }
    let store = machine.unmigrated_store().map_err(bad)?;
    let counts = store.counts().map_err(|error| bad(error.into()))?;
    let members = store.members().map_err(|error| bad(error.into()))?;
    Ok(format!(
        "{place}: {} runs ({} unfinished), {} triggers ({} parked), {} processes",
        counts.runs,
        counts.unfinished,
        counts.triggers,
        counts.parked,
        members.len()
    ))
}

/// The directory of the store, or the nearest existing one above it.
fn near_store(machine: &Machine) -> Result<std::path::PathBuf, (Health, String, &'static str)> {
    let place = StoreLocation::of(&machine.config).ok();
    let path = place
        .and_then(|place| std::path::absolute(place.file()?).ok())
        .unwrap_or_default();
    path.ancestors()
        .skip(1)
        .find(|above| above.is_dir())
        .map(Path::to_owned)
        .ok_or((
            Health::Bad,
            "there is no directory for the store".to_owned(),
            "Name one with `--store PATH`.",
        ))
}

fn disk(machine: &Machine) -> Checked {
    const HELP: &str = "Keep the store on a local disk where you may write.";
    let directory = near_store(machine)?;
    let cannot = |error: std::io::Error| {
        (
            Health::Bad,
            format!("{} cannot be written: {error}", directory.display()),
            HELP,
        )
    };
    let mut file = tempfile::tempfile_in(&directory).map_err(cannot)?;
    let clock = &machine.clock;
    let begin = clock.monotonic();
    for _ in 0..FLUSHES {
        file.write_all(&[0; 4096])
            .and_then(|()| file.sync_data())
            .map_err(cannot)?;
    }
    let each = u64::try_from((clock.monotonic() - begin).as_micros()).unwrap_or(u64::MAX) / FLUSHES;
    let message = format!("a flush in {} takes {}", directory.display(), took(each));
    if each > 20_000 {
        return Err((
            Health::Warning,
            message,
            "A slow disk bounds how fast one run advances.",
        ));
    }
    Ok(message)
}

fn locks(machine: &Machine) -> Checked {
    const HELP: &str = "Network disks often cannot lock; keep the store on a local one.";
    let directory = near_store(machine)?;
    let cannot = |error: &dyn std::fmt::Display| {
        (
            Health::Bad,
            format!("{} cannot lock files: {error}", directory.display()),
            HELP,
        )
    };
    let file = tempfile::NamedTempFile::new_in(&directory).map_err(|error| cannot(&error))?;
    file.as_file().try_lock().map_err(|error| cannot(&error))?;
    let other = File::open(file.path()).map_err(|error| cannot(&error))?;
    if other.try_lock().is_ok() {
        return Err(cannot(&"two holders got the same lock"));
    }
    Ok("file locks exclude each other".to_owned())
}

fn library(machine: &Machine) -> Checked {
    wire::library_in_use(&machine.config).map_err(|(what, help)| (Health::Warning, what, help))
}

fn plugins(machine: &Machine, host: &windlass_plugins::Host) -> Checked {
    let events = host.scan(&wire::plugin_directories(&machine.config));
    let failed: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            LoadEvent::Failed { file, error, .. } => Some(format!(
                "{}: {} ({})",
                file.display(),
                error.message,
                error.code
            )),
            _ => None,
        })
        .collect();
    let count = host.registry().iter().len();
    if !failed.is_empty() {
        let text = format!(
            "{count} loaded, {} not: {}",
            failed.len(),
            failed.join("; ")
        );
        return Err((Health::Warning, text, "`windlass explain CODE` says more."));
    }
    let plugins = host.registry().iter();
    let unproved = plugins
        .iter()
        .filter(|it| *it.standing() == Standing::Unproved);
    let unproved: Vec<_> = unproved.map(|plugin| plugin::unproved(plugin)).collect();
    if !unproved.is_empty() {
        let help = "`windlass plugin list` shows the proof of each.";
        return Err((Health::Warning, unproved.join("; "), help));
    }
    Ok(format!(
        "{count} loaded, {} is yours",
        machine.config.plugins.directory.display()
    ))
}

/// Whether runs of the published workflows can begin on the plugins that are there.
fn workflows(machine: &Machine, host: &windlass_plugins::Host) -> Checked {
    let bad = |error: anyhow::Error| {
        let help = "`windlass workflow list` shows the published workflows.";
        (Health::Bad, error.to_string(), help)
    };
    let place = StoreLocation::of(&machine.config).map_err(|error| bad(error.into()))?;
    if !place.exists().map_err(|error| bad(error.into()))? {
        return Ok("none is published: the store is not there yet".to_owned());
    }
    let store = machine.unmigrated_store().map_err(bad)?;
    let (mut count, mut wrong) = (0, Vec::new());
    let mut after = None;
    loop {
        let query = PublicationQuery {
            after: after.take(),
            limit: PAGE,
            ..PublicationQuery::default()
        };
        let rows = store
            .publications(&query)
            .map_err(|error| bad(error.into()))?;
        for row in &rows {
            count += 1;
            let stored = store.definition(row.definition);
            let stored = stored.map_err(|error| bad(error.into()))?;
            let found = stored.map(|stored| windlass_runtime::cannot_run(&stored, host));
            if let Some(first) = found.unwrap_or_default().first() {
                wrong.push(format!("{}: {}", row.name, first.message));
            }
        }
        match rows.last() {
            Some(last) if rows.len() == PAGE as usize => after = Some(last.name.clone()),
            _ => break,
        }
    }
    if wrong.is_empty() {
        return Ok(format!("{count} published, and all can run"));
    }
    let more = wrong.len().saturating_sub(NAMED);
    let named = wrong.iter().take(NAMED).map(String::as_str);
    let mut text = named.collect::<Vec<_>>().join("; ");
    if more > 0 {
        text.push_str(&format!("; and {more} more"));
    }
    let text = format!("{} of {count} cannot run: {text}", wrong.len());
    let help = "Put the plugins back, or publish versions that fit: `windlass explain WL-R111`.";
    Err((Health::Warning, text, help))
}

fn cache(machine: &Machine) -> Checked {
    const SETTING: &str = "Set `cache` in the section [plugins].";
    let path =
        wire::cache(&machine.config).map_err(|error| (Health::Bad, error.message, SETTING))?;
    match std::fs::create_dir_all(&path).and_then(|()| tempfile::tempfile_in(&path)) {
        Ok(_) => Ok(path.display().to_string()),
        Err(error) => Err((
            Health::Bad,
            format!("{} cannot be written: {error}", path.display()),
            SETTING,
        )),
    }
}

/// Another program may have given others a right to the files.
fn files(machine: &Machine) -> Checked {
    let place = StoreLocation::of(&machine.config);
    let place = place.as_ref().ok().and_then(StoreLocation::file);
    let Some(path) = place.filter(|path| path.exists()) else {
        return Ok("the store is not there yet".to_owned());
    };
    match windlass_files::open_to_others(path) {
        Ok(0) => Ok(format!("{} is for its user alone", path.display())),
        Ok(mode) => Err((
            Health::Warning,
            format!(
                "others may read or write {}: its mode has {mode:03o} for them",
                path.display()
            ),
            "Unless you want that: `chmod go= FILE*`, and the same for FILE-members.",
        )),
        Err(error) => Err((
            Health::Warning,
            format!("{} cannot be looked at: {error}", path.display()),
            "Look at the permissions of its directory.",
        )),
    }
}

/// The compiler of plugins. Only authors of plugins in Rust need it.
fn guests() -> Checked {
    const TARGET: &str = "wasm32-unknown-unknown";
    let arguments = ["--print", "target-libdir", "--target", TARGET];
    let installed = Command::new("rustc")
        .args(arguments)
        .output()
        .ok()
        .is_some_and(|printed| {
            let path = String::from_utf8_lossy(&printed.stdout).trim().to_owned();
            printed.status.success() && Path::new(&path).is_dir()
        });
    if installed {
        return Ok(format!("rustc can compile plugins for {TARGET}"));
    }
    Err((
        Health::Warning,
        format!("rustc cannot compile plugins for {TARGET}"),
        "Only needed to write plugins in Rust: `rustup target add wasm32-unknown-unknown`.",
    ))
}
