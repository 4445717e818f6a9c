//! Several processes on one database, each with its share of the load: the gain from a further
//! process, on this machine.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::Record;

/// The prefix of the names in the results; the number of processes follows.
pub const NAME: &str = "scaling-";

/// Runs in flight in all processes together.
const IN_FLIGHT: usize = 240;

/// The scenario of each process.
const SCENARIO: &str = "three-steps";

/// The numbers of processes.
pub const PROCESSES: [usize; 3] = [1, 2, 3];

/// The flag by which a process reports when it is ready, and waits for the command to begin.
pub const WAIT: &str = "--wait";

/// A process that measures its share.
struct Node {
    child: Child,
    said: BufReader<ChildStdout>,
}

/// Starts so many processes on the database of this URL by `command`, which names the components,
/// lets them begin at the same time, and adds up their results.
///
/// # Errors
///
/// A process cannot be started, or fails.
pub fn measure(
    processes: usize,
    dir: &Path,
    command: impl Fn() -> Result<Command>,
) -> Result<Record> {
    // The directory names the store, so that all processes have the same one.
    let dir = tempfile::Builder::new()
        .prefix("scaling-")
        .tempdir_in(dir)?;
    let share = IN_FLIGHT / processes;
    let start = || -> Result<Node> {
        let mut child = command()?
            .args(["--only", &format!("{SCENARIO}/{share}/full/warm"), WAIT])
            .args([Path::new("--in"), dir.path()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let said = child.stdout.take().context("it is piped")?;
        Ok(Node {
            child,
            said: BufReader::new(said),
        })
    };
    let mut nodes = (0..processes)
        .map(|_| start())
        .collect::<Result<Vec<_>>>()?;
    for node in &mut nodes {
        let mut ready = String::new();
        node.said.read_line(&mut ready)?;
        ensure!(!ready.is_empty(), "a process ended before it was ready");
    }
    for node in &mut nodes {
        let stdin = node.child.stdin.as_mut().context("it is piped")?;
        stdin.write_all(b"go\n")?;
    }
    let mut records = Vec::new();
    for mut node in nodes {
        let mut text = String::new();
        node.said.read_to_string(&mut text)?;
        ensure!(node.child.wait()?.success(), "a process failed");
        records.push(serde_json::from_str(&text).context("a process printed no record")?);
    }
    Ok(sum(processes, &records))
}

/// Reports that this process is ready, and waits until it may begin.
///
/// # Errors
///
/// The parent process is gone.
pub fn wait() -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(b"ready\n")?;
    stdout.flush()?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}

fn sum(processes: usize, records: &[Record]) -> Record {
    let each = |of: fn(&Record) -> f64| records.iter().map(of);
    let most = |of: fn(&Record) -> f64| each(of).fold(0.0, f64::max);
    Record {
        scenario: format!("{NAME}{processes}"),
        in_flight: IN_FLIGHT / processes * processes,
        node_executions_per_second: each(|it| it.node_executions_per_second).sum(),
        runs_per_second: each(|it| it.runs_per_second).sum(),
        p50_ms: most(|it| it.p50_ms),
        p99_ms: most(|it| it.p99_ms),
        rss_mb: each(|it| it.rss_mb).sum(),
        flush_ms: most(|it| it.flush_ms),
        runs: records.iter().map(|it| it.runs).sum(),
        ..records.first().cloned().unwrap_or_default()
    }
}
