//! The load of idle hosts on the machine and the database.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use windlass_model::Clock;
use windlass_runtime::SystemClock;
use windlass_store::{PostgresOptions, PostgresStore, Store};
use windlass_test_servers::PostgreSql;

use super::Record;

/// The prefix of the names in the results; the number of processes follows.
pub const NAME: &str = "idle-";

/// The numbers of processes.
pub const PROCESSES: [usize; 2] = [1, 3];

/// How long they have to settle: caches are filled, plugins exchanged, statements prepared.
const SETTLE: Duration = Duration::from_secs(15);

/// How long they are measured.
const WATCH: Duration = Duration::from_secs(60);

/// Hosts as users start them; they end with the measurement.
struct Hosts(Vec<Child>);

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in &mut self.0 {
            let _ = host.kill();
            let _ = host.wait();
        }
    }
}

/// Starts so many hosts of a cluster on a separate server, and leaves them idle. Also prints the
/// statements, and how often each was sent.
///
/// # Errors
///
/// A server or a host does not start, or ends.
pub fn measure(
    processes: usize,
    binary: &Path,
    components: &Path,
    dir: &Path,
) -> Result<(Record, Vec<(usize, String)>)> {
    let clock = Arc::new(SystemClock::new());
    let server = PostgreSql::start()?;
    let url = server.database()?;
    let dir = tempfile::Builder::new().prefix("idle-").tempdir_in(dir)?;
    let hosts = (0..processes)
        .map(|_| start(binary, &url, components, dir.path()))
        .collect::<Result<Vec<_>>>()?;
    let mut hosts = Hosts(hosts);
    let store: Arc<dyn Store> = PostgresStore::open(
        &url,
        PostgresOptions::new(Arc::<SystemClock>::clone(&clock)),
    )?;
    while store.members()?.len() < processes {
        for host in &mut hosts.0 {
            ensure!(host.try_wait()?.is_none(), "a host has ended");
        }
        pass(&*clock, Duration::from_millis(100));
    }
    // From now on only the hosts use the server.
    store.close();
    pass(&*clock, SETTLE);
    server.log_statements()?;
    let (statements, cpu_ms) = (server.statements().len(), cpu_ms(&hosts)?);
    let begun = clock.monotonic();
    pass(&*clock, WATCH);
    let minutes = clock.monotonic().saturating_sub(begun).as_secs_f64() / 60.0;
    let said = server.statements();
    let spent_ms = self::cpu_ms(&hosts)?.saturating_sub(cpu_ms);
    let new = said.get(statements..).unwrap_or_default();
    let record = Record {
        scenario: format!("{NAME}{processes}"),
        durability: "full".to_owned(),
        isolation: "warm".to_owned(),
        store: "postgres".to_owned(),
        rss_mb: rss_mb(&hosts)?,
        cpu_ms_per_minute: Some(spent_ms as f64 / minutes),
        statements_per_minute: Some(new.len() as f64 / minutes),
        ..Record::default()
    };
    Ok((record, counted(new)))
}

fn start(binary: &Path, url: &str, components: &Path, dir: &Path) -> Result<Child> {
    let settings = [
        ("STORE__URL", url.as_ref()),
        ("CLUSTER__ENABLED", "true".as_ref()),
        ("SERVER__LISTEN", "127.0.0.1:0".as_ref()),
        ("PLUGINS__LIBRARY", components.as_os_str()),
    ];
    let settings = settings.map(|(name, value)| (format!("WINDLASS_{name}"), value));
    let mut command = Command::new(binary);
    command
        .arg("serve")
        .current_dir(dir)
        .env("HOME", dir)
        .envs(settings)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().context("a host does not start")
}

/// Processor time that the hosts have used, in milliseconds.
fn cpu_ms(hosts: &Hosts) -> Result<u64> {
    let tick_ms = 1000 / rustix::param::clock_ticks_per_second().max(1);
    let mut ticks = 0;
    for host in &hosts.0 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", host.id()))?;
        let (_, rest) = stat.rsplit_once(')').context("a name in brackets")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        for field in fields.get(11..13).context("user and system time")? {
            ticks += field.parse::<u64>()?;
        }
    }
    Ok(ticks * tick_ms)
}

/// Resident memory of all hosts, in MiB.
fn rss_mb(hosts: &Hosts) -> Result<f64> {
    let mut pages = 0.0;
    for host in &hosts.0 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", host.id()))?;
        let field = statm.split_whitespace().nth(1).context("a second field")?;
        pages += field.parse::<f64>()?;
    }
    Ok(pages * rustix::param::page_size() as f64 / (1024.0 * 1024.0))
}

/// Statements by how often they were sent, the most frequent first.
fn counted(statements: &[String]) -> Vec<(usize, String)> {
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for statement in statements {
        let begin = statement.char_indices().nth(110).map(|(at, _)| at);
        let shown = statement.get(..begin.unwrap_or(statement.len()));
        *counts.entry(shown.unwrap_or_default()).or_default() += 1;
    }
    let mut counts: Vec<_> = counts
        .into_iter()
        .map(|(text, count)| (count, text.to_owned()))
        .collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}

/// Lets time pass: the measurement is of idleness.
fn pass(clock: &dyn Clock, time: Duration) {
    let end = clock.monotonic() + time;
    while let Some(left) = end
        .checked_sub(clock.monotonic())
        .filter(|it| !it.is_zero())
    {
        std::thread::park_timeout(left);
    }
}
