//! Runs as they happen, as `dev` prints them: a line for the beginning of each, for each execution,
//! and for the end.
//!
//! No run waits for the terminal: updates that cannot be taken are dropped and counted. In a second
//! with more than [`LINES`] lines, the others are counted, and one line says so.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_model::{Clock as _, ExecutionStatus, RunId, Status};
use windlass_runtime::{Observed, Observer, SystemClock};
use windlass_server::Failure;
use windlass_store::Store;

use super::screen::Screen;
use crate::commands::{mark, took, value};
use crate::failure;
use crate::output::Paint;

/// Updates that may wait to be printed.
const WAITING: usize = 8192;

/// Lines in one second.
const LINES: u32 = 100;

/// Runs that are followed at once. The lines of further ones have no name.
const FOLLOWED: usize = 1024;

/// Characters of an output that are printed.
const OUTPUT: usize = 160;

const SECOND: Duration = Duration::from_secs(1);

/// An update.
enum Seen {
    Started(RunId),
    Executed {
        run: RunId,
        node: String,
        attempt: u32,
        status: ExecutionStatus,
        failure: Option<String>,
        took_us: u64,
    },
    Ended(RunId, Status),
    /// No more updates are printed.
    Stop,
}

/// The thread that prints.
pub(super) struct Runs {
    sender: SyncSender<Seen>,
    thread: JoinHandle<()>,
}

/// Receives the updates of the runtime.
struct Watcher {
    sender: SyncSender<Seen>,
    lost: Arc<AtomicU64>,
}

impl Runs {
    /// Begins to print.
    pub(super) fn begin(
        screen: Screen,
        store: Arc<dyn Store>,
    ) -> std::io::Result<(Self, Arc<dyn Observer>)> {
        let (sender, receiver) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let watcher = Watcher {
            sender: sender.clone(),
            lost: Arc::clone(&lost),
        };
        let thread = std::thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || print(&receiver, &lost, screen, &*store))?;
        Ok((Self { sender, thread }, Arc::new(watcher)))
    }

    /// Waits until all updates are printed.
    pub(super) fn end(self) {
        let _ = self.sender.send(Seen::Stop);
        // The hook has reported a panic of this thread, and no run depends on it.
        let _ = self.thread.join();
    }
}

impl Observer for Watcher {
    fn observe(&self, event: &Observed<'_>) {
        let seen = match event {
            Observed::Started { run, .. } => Seen::Started(*run),
            Observed::Executed {
                run,
                node,
                attempt,
                status,
                failure,
                took_us,
                ..
            } => Seen::Executed {
                run: *run,
                node: (*node).to_owned(),
                attempt: *attempt,
                status: *status,
                failure: failure.map(|failure| failure.message.clone()),
                took_us: *took_us,
            },
            Observed::Ended { run, status } => Seen::Ended(*run, *status),
        };
        if self.sender.try_send(seen).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn print(receiver: &Receiver<Seen>, lost: &AtomicU64, screen: Screen, store: &dyn Store) {
    let clock = SystemClock::new();
    let mut feed = Feed::default();
    let say = |lines: Vec<Line>| {
        for line in lines {
            screen.say(&line.event, |paint| (line.text)(paint));
        }
    };
    loop {
        // Without a tally there is nothing to say while nothing happens.
        let wait = if feed.tally.is_empty() {
            3600 * SECOND
        } else {
            SECOND
        };
        match receiver.recv_timeout(wait) {
            Ok(Seen::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(seen) => {
                feed.tally.lost += lost.swap(0, Ordering::Relaxed);
                say(feed.take(seen, clock.monotonic(), &|run| about(store, run)));
            }
            Err(RecvTimeoutError::Timeout) => say(feed.turn(clock.monotonic())),
        }
    }
    say(feed.tally.say().into_iter().collect());
}

/// A run as the store has it.
#[derive(Clone, Debug, Default)]
struct About {
    workflow: String,
    /// From its creation to its end.
    took_us: Option<u64>,
    failure: Option<Failure>,
    output: Option<Value>,
}

/// Reads about a run. Empty if the store does not answer: the line is printed without it.
fn about(store: &dyn Store, run: RunId) -> About {
    let Ok(Some(row)) = store.run(run) else {
        return About::default();
    };
    let definition = store.definition(row.definition).ok().flatten();
    let output = match row.status {
        Status::Completed => store.output(row.no).ok().flatten(),
        _ => None,
    };
    // A blob may be large, and would be cut anyway.
    let output = output.filter(|output| output.inline().is_some());
    let took_ms = row.finished_ms.map(|at| at.saturating_sub(row.created_ms));
    About {
        workflow: definition.map(|row| row.name).unwrap_or_default(),
        took_us: took_ms.and_then(|ms| u64::try_from(ms).ok()?.checked_mul(1000)),
        failure: row.failure.as_ref().map(Failure::from),
        output: output.and_then(|output| value(store, &output).ok()),
    }
}

/// An event to print.
struct Line {
    event: Value,
    text: Box<dyn FnOnce(Paint) -> String>,
}

impl Line {
    fn new(event: Value, text: impl FnOnce(Paint) -> String + 'static) -> Self {
        Self {
            event,
            text: Box::new(text),
        }
    }
}

/// Turns updates into lines.
#[derive(Default)]
struct Feed {
    /// The workflows of the runs that are followed.
    followed: HashMap<RunId, String>,
    /// The beginning of the second, and its lines.
    since: Duration,
    lines: u32,
    tally: Tally,
}

/// What happened without a line of its own.
#[derive(Default)]
struct Tally {
    executions: u64,
    begun: u64,
    ended: u64,
    faulted: u64,
    lost: u64,
}

impl Tally {
    fn is_empty(&self) -> bool {
        self.executions + self.begun + self.ended + self.lost == 0
    }

    /// The line about it, which begins a new one.
    fn say(&mut self) -> Option<Line> {
        if self.is_empty() {
            return None;
        }
        let Self {
            executions,
            begun,
            ended,
            faulted,
            lost,
        } = std::mem::take(self);
        let event = json!({
            "event": "more",
            "executions": executions,
            "begun": begun,
            "ended": ended,
            "faulted": faulted,
            "lost": lost,
        });
        Some(Line::new(event, move |paint| {
            let mut text = format!("  … {executions} more executions");
            if begun > 0 {
                text.push_str(&format!(", {begun} more runs begun"));
            }
            if ended > 0 {
                text.push_str(&format!(", {ended} more ended ({faulted} faulted)"));
            }
            if lost > 0 {
                text.push_str(&format!(", {lost} updates lost"));
            }
            paint.dim(text)
        }))
    }
}

impl Feed {
    /// The lines for an update. `about` reads about a run.
    fn take(&mut self, seen: Seen, now: Duration, about: &dyn Fn(RunId) -> About) -> Vec<Line> {
        let mut lines = self.turn(now);
        match seen {
            Seen::Started(run) => self.follow(run, about, &mut lines),
            Seen::Executed {
                run,
                node,
                attempt,
                status,
                failure,
                took_us,
            } => {
                self.follow(run, about, &mut lines);
                if !self.has_room() {
                    self.tally.executions += 1;
                    return lines;
                }
                // With one run, its name would only be noise.
                let of = match self.followed.len() {
                    0 | 1 => None,
                    _ => self.followed.get(&run).cloned(),
                };
                let event = json!({
                    "event": "execution",
                    "run": run,
                    "node": node,
                    "attempt": attempt,
                    "status": status,
                    "took_us": took_us,
                    "failure": failure,
                });
                lines.push(Line::new(event, move |paint| {
                    let mut text = format!(
                        "  {} {node:<24} {}",
                        mark(status, paint),
                        paint.dim(format!("{:>9}", took(took_us)))
                    );
                    if attempt > 1 {
                        text.push_str(&format!("  attempt {attempt}"));
                    }
                    if let Some(of) = of {
                        let id = run.to_string();
                        let tail = id.get(id.len() - 4..).unwrap_or_default();
                        text.push_str(&paint.dim(format!("  {of} …{tail}")));
                    }
                    if let Some(failure) = failure {
                        text.push_str(&format!("  {}", paint.bad(failure)));
                    }
                    text
                }));
            }
            Seen::Ended(run, status) => self.end(run, status, about, &mut lines),
            Seen::Stop => {}
        }
        lines
    }

    /// Begins a new second if the last one is over, with a line about the counted events.
    fn turn(&mut self, now: Duration) -> Vec<Line> {
        if now.saturating_sub(self.since) < SECOND {
            return Vec::new();
        }
        (self.since, self.lines) = (now, 0);
        self.tally.say().into_iter().collect()
    }

    /// Takes one line of this second, if there is one left.
    fn has_room(&mut self) -> bool {
        let room = self.lines < LINES;
        self.lines += u32::from(room);
        room
    }

    fn follow(&mut self, run: RunId, about: &dyn Fn(RunId) -> About, lines: &mut Vec<Line>) {
        if self.followed.contains_key(&run) {
            return;
        }
        if self.followed.len() >= FOLLOWED || !self.has_room() {
            self.tally.begun += 1;
            return;
        }
        let About { workflow, .. } = about(run);
        self.followed.insert(run, workflow.clone());
        let event = json!({ "event": "run", "run": run, "workflow": workflow });
        lines.push(Line::new(event, move |paint| {
            format!("{} {} {run}", paint.dim('▶'), paint.strong(workflow))
        }));
    }

    fn end(
        &mut self,
        run: RunId,
        status: Status,
        about: &dyn Fn(RunId) -> About,
        lines: &mut Vec<Line>,
    ) {
        self.followed.remove(&run);
        if !self.has_room() {
            self.tally.ended += 1;
            self.tally.faulted += u64::from(status == Status::Faulted);
            return;
        }
        let about = about(run);
        let event = json!({
            "event": "ended",
            "run": run,
            "workflow": about.workflow,
            "status": status,
            "took_us": about.took_us,
            "failure": about.failure,
            "output": about.output,
        });
        lines.push(Line::new(event, move |paint| {
            ended(run, status, &about, paint)
        }));
    }
}

fn ended(run: RunId, status: Status, about: &About, paint: Paint) -> String {
    let sign = match status {
        Status::Completed => paint.good('■'),
        Status::Faulted => paint.bad('■'),
        _ => paint.warning('■'),
    };
    let name = paint.strong(&about.workflow);
    let mut text = format!("{sign} {name} {run} {status}");
    if let Some(took_us) = about.took_us {
        text.push_str(&format!(" in {}", took(took_us)));
    }
    if let Some(failure) = &about.failure {
        text.push_str(&format!("\n    {}", paint.bad(failure::headline(failure))));
        if let Some(details) = failure::details(failure) {
            text.push_str(&format!("\n    {details}"));
        }
        let trace = format!("`windlass runs trace {run} --logs` shows its executions");
        text.push_str(&format!("\n    {}", paint.dim(trace)));
    }
    if let Some(output) = &about.output {
        let output = output.to_string();
        let cut = match output.char_indices().nth(OUTPUT) {
            Some((end, _)) => format!("{}…", output.get(..end).unwrap_or_default()),
            None => output,
        };
        text.push_str(&format!("\n    {}", paint.dim(cut)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executed(run: RunId, status: ExecutionStatus) -> Seen {
        Seen::Executed {
            run,
            node: "first".to_owned(),
            attempt: 1,
            status,
            failure: None,
            took_us: 1_500,
        }
    }

    fn texts(lines: Vec<Line>) -> Vec<String> {
        lines
            .into_iter()
            .map(|line| (line.text)(Paint(false)))
            .collect()
    }

    fn about(_: RunId) -> About {
        About {
            workflow: "hello".to_owned(),
            took_us: Some(12_000),
            failure: None,
            output: Some(json!("x".repeat(500))),
        }
    }

    fn id(no: u128) -> RunId {
        RunId(uuid::Uuid::from_u128(no))
    }

    #[test]
    fn a_run_has_a_line_for_its_beginning_each_execution_and_its_end() {
        let mut feed = Feed::default();
        let now = Duration::from_secs(5);
        let mut take = |seen| texts(feed.take(seen, now, &about));
        let run = id(0x1234);
        assert_eq!(take(Seen::Started(run)), [format!("▶ hello {run}")]);
        assert_eq!(take(Seen::Started(run)), [""; 0]);
        let line = take(executed(run, ExecutionStatus::Completed));
        assert_eq!(line, [format!("  ✓ {:<24} {:>9}", "first", "1.5 ms")]);
        // With a second run, each line says which run it is of.
        let other = id(0x5678);
        assert_eq!(take(Seen::Started(other)), [format!("▶ hello {other}")]);
        let line = take(executed(run, ExecutionStatus::Failed));
        assert!(line[0].ends_with("hello …1234"), "{line:?}");
        let end = take(Seen::Ended(run, Status::Completed)).remove(0);
        assert!(end.starts_with(&format!("■ hello {run} completed in 12 ms\n")));
        assert!(end.ends_with('…') && end.len() < 300, "{end}");
    }

    #[test]
    fn a_flood_is_counted_and_said_once_a_second() {
        let mut feed = Feed::default();
        let mut printed = 0;
        for no in 0..5_000_u128 {
            let now = SECOND * 7 + Duration::from_millis((no / 10) as u64);
            for seen in [
                executed(id(no), ExecutionStatus::Completed),
                Seen::Ended(id(no), Status::Faulted),
            ] {
                printed += texts(feed.take(seen, now, &about)).len();
            }
        }
        assert_eq!(printed, LINES as usize);
        let more = texts(feed.turn(SECOND * 9));
        let sum = feed.tally.executions;
        assert_eq!((more.len(), sum), (1, 0));
        assert!(more[0].contains("more executions"), "{more:?}");
        assert!(more[0].contains("faulted"), "{more:?}");
        // A quiet second says nothing, and the next run has its lines again.
        assert_eq!(texts(feed.turn(SECOND * 10)), [""; 0]);
        assert_eq!(
            texts(feed.take(Seen::Started(id(9_999)), SECOND * 11, &about)).len(),
            1
        );
        assert!(feed.followed.len() <= FOLLOWED);
    }
}
