//! `windlass store`: maintenance of the store as a whole.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::json;
use windlass_model::visible;
use windlass_runtime::Operations;
use windlass_runtime::operations::{Named, Replayed};
use windlass_store::PostgresStore;
use windlass_store::sqlite::{SqliteOptions, SqliteStore};
use windlass_store::upkeep::Finding;

use crate::app::Context;
use crate::codes;
use crate::error::Expected;
use crate::exit::Exit;
use crate::output::Paint;
use crate::wire::place::StoreLocation;
use crate::wire::{CommandResources, Machine};

/// The subcommands of `store`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check that the store is consistent; other processes may use it meanwhile
    Check(Check),
    /// Copy the store into a new file; other processes may use it meanwhile
    Backup(Backup),
    /// Replace the store by a backup, or accept the store that is there although its marker names
    /// newer work; no other process may use it
    Restore(Restore),
    /// Migrate the store to the newest layout, as `serve` and `run` do
    Migrate,
}

/// The arguments of `store check`.
#[derive(Debug, Args)]
#[command(
    after_help = "A replay needs the components of the runs: those of the store, and those of the \
    plugin directory."
)]
pub(crate) struct Check {
    /// Replay the events of every run, and compare the result with its stored state
    #[arg(long)]
    replay: bool,
}

/// The arguments of `store backup`.
#[derive(Debug, Args)]
#[command(
    after_help = "The keyring is not in the store, so that a copy of the store makes no links. \
    Without it, the links of the backup are no good on another machine."
)]
pub(crate) struct Backup {
    /// The file to write, which must not exist
    #[arg(value_name = "FILE")]
    to: PathBuf,
    /// Copy the keyring into this file, which must not exist; keep it as safe as a secret
    #[arg(long, value_name = "FILE")]
    keyring: Option<PathBuf>,
}

/// The arguments of `store restore`.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The backup to restore; without it, the existing store is accepted as it is
    #[arg(value_name = "FILE")]
    from: Option<PathBuf>,
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("warn")?)?;
        match self {
            Self::Check(check) => check.run(context, machine),
            Self::Backup(backup) => backup.run(context, &machine),
            Self::Restore(restore) => restore.run(context, &machine),
            Self::Migrate => migrate(context, &machine, &machine.existing_place()?),
        }
    }
}

impl Check {
    fn run(self, context: &Context, machine: Machine) -> anyhow::Result<Exit> {
        let place = machine.existing_place()?;
        let mut findings = match &place {
            StoreLocation::Sqlite(path) => SqliteStore::check(path)?,
            StoreLocation::Postgres(url) => PostgresStore::check(url, &machine.postgres())?,
        };
        let replayed = match self.replay {
            true => replayed(context, machine),
            false => Ok(None),
        };
        // Findings are listed also if they prevent a replay.
        let replayed = match replayed {
            Err(error) if findings.is_empty() => return Err(error),
            Err(error) => {
                let text = format!("the events cannot be replayed: {error}");
                context.output.warn(&text);
                None
            }
            Ok(replayed) => replayed,
        };
        findings.extend(replayed.as_ref().and_then(differences));
        let items = findings.iter().map(item);
        let items: Vec<_> = items.chain(replayed.as_ref().map(counts)).collect();
        context.output.list(&items, || {
            let paint = context.output.data;
            let mut text: String = findings
                .iter()
                .map(|finding| lines(finding, paint))
                .collect();
            if findings.is_empty() {
                text = format!("{} {place}: everything fits together\n", paint.good('✓'));
            }
            if let Some(replayed) = &replayed {
                text.push_str(&told(replayed, paint));
            }
            text
        })?;
        if findings.is_empty() {
            return Ok(Exit::Done);
        }
        let text = format!("{place} contradicts itself");
        Err(Expected::new(windlass_store::codes::INCONSISTENT, text)
            .help("Keep a copy, and restore the newest backup that has no findings.")
            .into())
    }
}

/// Replays the events of every run of the store.
fn replayed(context: &Context, machine: Machine) -> anyhow::Result<Option<Replayed>> {
    let store = machine.existing_store()?;
    let setup = Arc::clone(&machine.setup);
    let resources = CommandResources::new(setup, Arc::clone(&store), context.output);
    let clock = Arc::clone(&machine.clock);
    let operations = Operations::detached(Arc::clone(&store), clock, Arc::new(resources));
    let replayed = machine.tokio.block_on(operations.replay_runs());
    store.close();
    Ok(Some(replayed?))
}

/// The runs that are not as their events make them.
fn differences(replayed: &Replayed) -> Option<Finding> {
    let different = &replayed.different;
    (different.count > 0).then(|| Finding {
        rule: "the events of a run lead to its stored state".to_owned(),
        count: different.count,
        examples: names(different).collect(),
    })
}

fn names(named: &Named) -> impl Iterator<Item = String> {
    let first = named.first.iter();
    first.map(|(run, remark)| format!("run {run}: {}", visible::line(remark, false)))
}

fn counts(replayed: &Replayed) -> serde_json::Value {
    let unknown = &replayed.unknown;
    json!({
        "replayed": {
            "runs": replayed.runs - unknown.count,
            "events": replayed.events,
            "left_out": unknown.count,
            "examples": names(unknown).collect::<Vec<_>>(),
        }
    })
}

fn told(replayed: &Replayed, paint: Paint) -> String {
    let (unknown, events) = (&replayed.unknown, replayed.events);
    let runs = replayed.runs - unknown.count;
    let mut text =
        format!("{runs} runs replayed, with {events} events that lead to their states\n");
    if unknown.count > 0 {
        let count = unknown.count;
        text.push_str(&format!(
            "{} {count} runs cannot be replayed:\n",
            paint.warning('!')
        ));
        push_examples(&mut text, names(unknown), count, paint);
    }
    text
}

fn item(finding: &Finding) -> serde_json::Value {
    json!({ "rule": finding.rule, "count": finding.count, "examples": finding.examples })
}

fn lines(finding: &Finding, paint: Paint) -> String {
    let count = finding.count;
    let mut text = format!(
        "{} not so {count} times: {}\n",
        paint.bad('✗'),
        finding.rule
    );
    push_examples(&mut text, finding.examples.iter().cloned(), count, paint);
    text
}

/// Adds a line for each example, and one for the number of the others.
fn push_examples(
    text: &mut String,
    examples: impl Iterator<Item = String>,
    count: u64,
    paint: Paint,
) {
    let mut more = count;
    for example in examples {
        text.push_str(&format!("    {}\n", paint.dim(example)));
        more = more.saturating_sub(1);
    }
    if more > 0 {
        text.push_str(&format!("    {}\n", paint.dim(format!("and {more} more"))));
    }
}

impl Backup {
    fn run(self, context: &Context, machine: &Machine) -> anyhow::Result<Exit> {
        let place = machine.existing_place()?;
        let path = match &place {
            StoreLocation::Sqlite(path) => path,
            StoreLocation::Postgres(_) => return Err(by_the_server(&place, &self.to).into()),
        };
        // Copy the store only if the keyring can be copied.
        if let Some(to) = &self.keyring {
            copy_keyring(machine, to)?;
        }
        SqliteStore::backup(path, &self.to).inspect_err(|_| {
            if let Some(copy) = &self.keyring {
                drop(std::fs::remove_file(copy));
            }
        })?;
        let value = json!({
            "store": place.to_string(),
            "backup": self.to,
            "keyring": self.keyring,
        });
        context.output.show(&value, || {
            let keyring = match &self.keyring {
                Some(to) => format!("the keyring is copied to {}\n", to.display()),
                None => "the keyring is not in it; `--keyring FILE` copies it, too\n".to_owned(),
            };
            format!("{place} is copied to {}\n{keyring}", self.to.display())
        })?;
        Ok(Exit::Done)
    }
}

fn copy_keyring(machine: &Machine, to: &Path) -> anyhow::Result<()> {
    let keys = machine.keys()?;
    let ring = keys.ring().map_err(|error| super::keys::unusable(&error))?;
    windlass_files::write_new(to, ring.to_text().as_bytes()).map_err(|error| {
        let text = format!("The keyring cannot be copied to {}: {error}", to.display());
        Expected::new(codes::KEYRING, text)
            .help("Name a file that is not there, in a directory that you can write.")
            .exit(Exit::Usage)
    })?;
    Ok(())
}

impl Restore {
    fn run(self, context: &Context, machine: &Machine) -> anyhow::Result<Exit> {
        let place = StoreLocation::of(&machine.config)?;
        let StoreLocation::Sqlite(path) = &place else {
            return Err(restored_by_the_server(&place).into());
        };
        let options = SqliteOptions::new(Arc::clone(&machine.clock));
        let restored = SqliteStore::restore(path, self.from.as_deref(), &options)?;
        let value = json!({
            "store": place.to_string(),
            "restored": self.from,
            "generation": restored.generation,
            "before": restored.before,
        });
        context.output.show(&value, || {
            let mut text = match &self.from {
                Some(from) => format!("{} is the store {place} now", from.display()),
                None => format!("{place} is accepted as it is"),
            };
            text.push_str(&format!(", with generation {}\n", restored.generation));
            if let Some(before) = &restored.before {
                text.push_str(&format!(
                    "the store that was there before is {}\n",
                    before.display()
                ));
            }
            if self.from.is_some() {
                text.push_str(
                    "for links and exports of another machine, say `windlass keys learn FILE` \
                     with the keyring of the backup\n",
                );
            }
            text
        })?;
        Ok(Exit::Done)
    }
}

fn restored_by_the_server(place: &StoreLocation) -> Expected {
    let text = format!("{place} is restored by PostgreSQL's own tool");
    Expected::new(windlass_store::codes::BACKUP_ELSEWHERE, text)
        .help("Stop every host, and run `pg_restore` with the backup into an empty database.")
}

/// The database's own tool copies a store in PostgreSQL: it knows roles and large values, and reads
/// one snapshot.
fn by_the_server(place: &StoreLocation, to: &Path) -> Expected {
    let text = format!("{place} is copied by PostgreSQL's own tool");
    let command = format!(
        "Run `pg_dump --format=custom --schema=windlass --file={} URL`, and `pg_restore` to \
         get it back.",
        to.display()
    );
    Expected::new(windlass_store::codes::BACKUP_ELSEWHERE, text).help(command)
}

fn migrate(context: &Context, machine: &Machine, place: &StoreLocation) -> anyhow::Result<Exit> {
    let before = match place {
        StoreLocation::Sqlite(path) => {
            SqliteStore::migrate(path, &SqliteOptions::new(Arc::clone(&machine.clock)))?
        }
        StoreLocation::Postgres(url) => PostgresStore::migrate(url, &machine.postgres())?,
    };
    let (found, current) = (before.found, before.current);
    let layout = found.max(current);
    let value = json!({ "store": place.to_string(), "before": found, "layout": layout });
    context.output.show(&value, || match found.cmp(&current) {
        Ordering::Less => format!("{place} had layout {found}, and has layout {current} now\n"),
        Ordering::Equal => format!("{place} has layout {current}, the newest\n"),
        Ordering::Greater => format!(
            "{place} has layout {found} of a newer Windlass; this one knows {current} and can \
            work on it\n"
        ),
    })?;
    Ok(Exit::Done)
}
