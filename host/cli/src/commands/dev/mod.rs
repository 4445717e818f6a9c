//! `windlass dev`: the host of `serve`, for the author of a project.
//!
//! It prints each change of a file once, each mistake once with the part of the file that it is
//! about, and runs as they happen. What it prints goes to stdout, and mistakes go to stderr.

mod files;
mod runs;
pub(super) mod screen;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use parking_lot::Mutex;
use serde_json::json;
use windlass_periodic::{Periodic, Rest};
use windlass_plugins::CompileReport;
use windlass_runtime::{FolderReport, Observer};
use windlass_store::Store;

use super::serve::{self, Hosting};
use crate::app::Context;
use crate::codes;
use crate::completion::SchemaFile;
use crate::config::layers::PROJECT_FILE;
use crate::error::Expected;
use crate::exit::Exit;
use crate::metrics::MetricsArguments;
use crate::reload::{Reloaded, Reloader};
use crate::web::Web;
use crate::wire::{Machine, compile};
use files::Files;
use runs::Runs;
use screen::Screen;

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "A workflow file is published when it is saved, so new runs use the saved text; \
    runs that have begun keep their version. Mistakes are printed on stderr, with `-o json` or \
    `-o jsonl` as JSON, and everything else on stdout.\n\n\
    Ctrl-C or SIGTERM lets running executions end, and ends. A second one ends the process at once; nothing \
    that was acknowledged is lost."
)]
pub(crate) struct Arguments {
    /// The directory of the project: the command works as if it were started there [default: the
    /// current directory]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    metrics: MetricsArguments,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        if let Some(directory) = &self.directory {
            enter(directory)?;
        }
        let machine = Machine::new(context.configure("warn")?)?;
        let screen = Screen::new(context.output);
        let here = std::env::current_dir().unwrap_or_default();
        let project = context.sources.project_file();
        let section = &machine.config;
        screen.say(
            &json!({ "event": "begin", "directory": here, "project": project }),
            |paint| {
                let settings = match &project {
                    Some(file) => screen.place(file),
                    None => format!("no {PROJECT_FILE}; `windlass init` makes one"),
                };
                let workflows: Vec<_> = section.definitions.directory.0.iter().collect();
                let workflows = workflows.iter().map(|path| screen.place(path));
                let rows = [
                    ("settings", settings),
                    ("workflows", workflows.collect::<Vec<_>>().join(", ")),
                    ("plugins", screen.place(&section.plugins.directory)),
                ];
                let title = format!("windlass dev in {}\n", here.display());
                rows.iter().fold(
                    paint.strong(title.trim_end()) + "\n",
                    |text, (name, value)| text + &format!("  {:<10} {value}\n", name),
                )
            },
        );
        let dev = Dev {
            screen,
            runs: Mutex::new(None),
        };
        serve::host(context, &machine, &self.metrics, &dev)?;
        screen.say(&json!({ "event": "end" }), |_| "Stopped.".to_owned());
        Ok(Exit::Done)
    }
}

/// Makes a directory the current one, before the process has other threads.
fn enter(directory: &Path) -> Result<(), Expected> {
    std::env::set_current_dir(directory).map_err(|error| {
        let text = format!("{} cannot be entered: {error}", directory.display());
        Expected::new(codes::FILE_UNREADABLE, text)
            .help("Name the directory of a project; `windlass init DIR` makes one.")
    })
}

/// How often the files of the settings are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Shows what a host has taken of changed settings.
fn say_reloaded(screen: Screen, done: Result<Reloaded, Expected>) {
    match done {
        Ok(Reloaded { applied, restart }) if applied.is_empty() && restart.is_empty() => {}
        Ok(Reloaded { applied, restart }) => {
            let event = json!({ "event": "settings", "applied": applied, "restart": restart });
            screen.say(&event, |paint| {
                let mut lines = Vec::new();
                if !applied.is_empty() {
                    let keys = applied.join(", ");
                    lines.push(format!("{} settings taken: {keys}", paint.good('✓')));
                }
                if !restart.is_empty() {
                    let keys = restart.join(", ");
                    let mark = paint.warning('-');
                    lines.push(format!("{mark} settings that need a restart: {keys}"));
                }
                lines.join("\n")
            });
        }
        Err(error) => {
            let event = json!({
                "event": "settings", "code": error.code.to_string(), "error": error.to_string(),
            });
            screen.say(&event, |paint| {
                let text = format!("✗ settings: {error}; the settings before stay");
                paint.bad(text)
            });
        }
    }
}

/// The host as `dev` shows it.
struct Dev {
    screen: Screen,
    /// The thread that shows runs, while there is one.
    runs: Mutex<Option<Runs>>,
}

impl Hosting for Dev {
    fn name(&self) -> &'static str {
        "dev"
    }

    fn report(&self) -> Arc<dyn FolderReport> {
        Arc::new(Files::new(self.screen))
    }

    fn compiling(&self) -> CompileReport {
        let screen = self.screen;
        compile::report(move |compiling| {
            let took_ms = compiling.took.map(|time| time.as_millis());
            let event = json!({
                "event": "compile",
                "file": compiling.subject,
                "bytes": compiling.bytes,
                "took_ms": took_ms,
            });
            screen.say(&event, |paint| paint.dim(compile::line(compiling)));
        })
    }

    fn observer(&self, store: &Arc<dyn Store>) -> std::io::Result<Option<Arc<dyn Observer>>> {
        let (runs, observer) = Runs::begin(self.screen, Arc::clone(store))?;
        *self.runs.lock() = Some(runs);
        Ok(Some(observer))
    }

    /// Its terminal is closed.
    fn reloads_at_hangup(&self) -> bool {
        false
    }

    fn watch_settings(&self, reloader: &Arc<Reloader>) -> Result<Option<Periodic>, Expected> {
        let (screen, reloader) = (self.screen, Arc::clone(reloader));
        let look = |reloader: &Reloader| {
            let files = reloader.files().into_iter();
            let stamps = files.map(|file| {
                let metadata = std::fs::metadata(&file).ok()?;
                Some((file, metadata.modified().ok(), metadata.len()))
            });
            stamps.collect::<Vec<_>>()
        };
        let mut seen = look(&reloader);
        let project = reloader.files().into_iter().find(|file| {
            let name = file.file_name();
            name.is_some_and(|name| name == PROJECT_FILE)
        });
        let directory = project.and_then(|file| Some(file.parent()?.to_owned()));
        let mut schema = SchemaFile::of(&directory.unwrap_or_default());
        let watch = Periodic::start("settings", move |_| {
            let now = look(&reloader);
            if now != seen {
                seen = now;
                say_reloaded(screen, reloader.reload());
            }
            if let Err(error) = schema.refresh(reloader.host()) {
                tracing::warn!(%error, "the schema for editors cannot be written");
            }
            Rest::exactly(LOOK)
        });
        let watch = watch.map_err(|error| {
            let text = format!("no thread for the settings: {error}");
            Expected::new(codes::FILE_UNREADABLE, text)
        });
        watch.map(Some)
    }

    fn serving(&self, _: &Machine, web: Option<&Web>) {
        let address = web.map(|web| format!("http://{}", web.handle.address()));
        let event = json!({ "event": "ready", "address": address });
        self.screen.say(&event, |paint| {
            let reached = address.as_ref().map_or_else(String::new, |address| {
                format!(" The console is at {address}/ui/.")
            });
            paint.strong(format!("Ready.{reached} Ctrl-C ends it."))
        });
    }

    fn draining(&self, in_flight: u32) {
        let event = json!({ "event": "stopping", "in_flight": in_flight });
        self.screen.say(&event, |_| match in_flight {
            0 => "Stopping.".to_owned(),
            count => format!(
                "Stopping: {count} executions in progress are finished first. Once more ends it now."
            ),
        });
    }

    fn drained(&self) {
        if let Some(runs) = self.runs.lock().take() {
            runs.end();
        }
    }
}
