//! The progress of a run on a terminal: a line for each finished execution, a spinner for each one
//! in progress.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use windlass_model::ExecutionStatus;
use windlass_runtime::{Observed, Observer};

use crate::commands::{mark, took};
use crate::output::Paint;

/// How many updates may wait to be shown. Further ones are dropped: a run never waits for a
/// terminal.
const WAITING: usize = 1024;

/// Spinners at once.
const SPINNERS: usize = 16;

/// How fast a spinner turns.
const TURN: Duration = Duration::from_millis(100);

enum Shown {
    Started(String),
    Executed {
        node: String,
        status: ExecutionStatus,
        attempt: u32,
        took_us: u64,
        failure: Option<String>,
    },
    Skipped(String),
}

/// Receives the updates of a run.
pub(crate) struct Watcher(SyncSender<Shown>);

/// Shows the updates until the watcher is dropped.
pub(crate) struct Progress(JoinHandle<()>);

/// Begins to show progress on stderr.
pub(crate) fn begin(paint: Paint) -> std::io::Result<(Watcher, Progress)> {
    let (sender, receiver) = sync_channel(WAITING);
    let thread = std::thread::Builder::new()
        .name("progress".to_owned())
        .spawn(move || show(&receiver, paint))?;
    Ok((Watcher(sender), Progress(thread)))
}

impl Progress {
    /// Waits until all updates are shown. The watcher must have been dropped.
    pub(crate) fn end(self) {
        // The hook has reported a panic of this thread, and the run does not depend on it.
        let _ = self.0.join();
    }
}

impl Observer for Watcher {
    fn observe(&self, event: &Observed<'_>) {
        match event {
            Observed::Started { node, .. } => {
                let _ = self.0.try_send(Shown::Started((*node).to_owned()));
            }
            Observed::Executed {
                node,
                attempt,
                status,
                failure,
                skipped,
                took_us,
                ..
            } => {
                let _ = self.0.try_send(Shown::Executed {
                    node: (*node).to_owned(),
                    status: *status,
                    attempt: *attempt,
                    took_us: *took_us,
                    failure: failure.map(|failure| failure.message.clone()),
                });
                for node in *skipped {
                    let _ = self.0.try_send(Shown::Skipped((*node).to_owned()));
                }
            }
            Observed::Ended { .. } => {}
        }
    }
}

fn show(receiver: &Receiver<Shown>, paint: Paint) {
    let screen = MultiProgress::new();
    let mut spinners: HashMap<String, ProgressBar> = HashMap::new();
    for shown in receiver {
        match shown {
            Shown::Started(node) => {
                if spinners.len() < SPINNERS {
                    let spinner = screen.add(spinner(&node));
                    spinners.insert(node, spinner);
                }
            }
            Shown::Executed {
                node,
                status,
                attempt,
                took_us,
                failure,
            } => {
                if let Some(spinner) = spinners.remove(&node) {
                    spinner.finish_and_clear();
                }
                let mark = mark(status, paint);
                let attempt = if attempt > 1 {
                    format!("  attempt {attempt}")
                } else {
                    String::new()
                };
                let failure = failure.map_or_else(String::new, |failure| {
                    format!(
                        "  {}",
                        paint.bad(windlass_display::visible::line(&failure, false))
                    )
                });
                let time = paint.dim(format!("{:>9}", took(took_us)));
                let _ = screen.println(format!("  {mark} {node:<24} {time}{attempt}{failure}"));
            }
            Shown::Skipped(node) => {
                let mark = mark(ExecutionStatus::Skipped, paint);
                let _ = screen.println(format!("  {mark} {}", paint.dim(node)));
            }
        }
    }
    for spinner in spinners.into_values() {
        spinner.finish_and_clear();
    }
}

fn spinner(node: &str) -> ProgressBar {
    let spinner = ProgressBar::new_spinner().with_message(node.to_owned());
    if let Ok(style) = ProgressStyle::with_template("  {spinner} {msg:24} {elapsed:>9}") {
        spinner.set_style(style);
    }
    spinner.enable_steady_tick(TURN);
    spinner
}
