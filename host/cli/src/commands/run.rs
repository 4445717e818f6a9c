//! `windlass run`: one workflow, to its end, in this process or on a host.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use reqwest::StatusCode;
use serde_json::Map;
use windlass_model::{RunNo, Status};
use windlass_plugins::Host;
use windlass_runtime::{Operations, Runtime, Scope, StartRequest, Started, warnings_before_run};
use windlass_store::Store;

use super::not_by_host;
use super::workflow::Neighbours;
use crate::app::Context;
use crate::client::{WAIT, text};
use crate::config::Durability;
use crate::error::Expected;
use crate::exit::Exit;
use crate::metrics::MetricsArguments;
use crate::progress;
use crate::request::{Request, RequestArguments, missing};
use crate::signals::Signals;
use crate::source::{self, Source};
use crate::traces::Traces;
use crate::wire::Machine;
use crate::wire::place::StoreLocation;
use crate::{codes, ended, waits};

/// How long a run may be suspended before the command says what it waits for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Longer than any command runs.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "The output is printed on stdout, as JSON unless it is a text. The exit code tells the outcome: \
    0 completed, 10 faulted, 11 cancelled, 12 timed out, 13 suspended (with --no-wait), 20 the file is not valid.\n\n\
    Interrupted with Ctrl-C, a run is not lost: the same command with its --id continues it."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    request: RequestArguments,
    /// Keep the run in a temporary store, which is deleted at the end
    #[arg(long, conflicts_with_all = ["store", "id"])]
    ephemeral: bool,
    #[command(flatten)]
    metrics: MetricsArguments,
    /// Do not wait for people or other systems: end once the run is suspended
    #[arg(long)]
    no_wait: bool,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        if context.server.is_some() {
            return self.run_on_host(context);
        }
        let read = self.request.read();
        let published = read.as_ref().ok().and_then(Request::published);
        if self.ephemeral && published.is_some() {
            let text = "A temporary store has no published workflow: `--ephemeral` needs a file";
            return Err(Expected::new(codes::USAGE, text)
                .help("Name the workflow file, or leave `--ephemeral` out.")
                .into());
        }
        let mut config = context.configure("warn")?;
        let directory = self.ephemeral.then(tempfile::tempdir).transpose()?;
        if let Some(directory) = &directory {
            config.store.url = format!("sqlite:{}", directory.path().join("windlass.db").display());
            config.store.durability = Durability::Normal;
        }
        let machine = Machine::new(config)?;
        // A store that does not exist has no published workflow, and is not made for nothing.
        if let Some(name) = published
            && !StoreLocation::of(&machine.config)?.exists()?
        {
            return Err(missing(name).into());
        }
        let is_file = published.is_none();
        let host = machine.loaded_host(&context.output)?;
        let request = read.map_err(|error| self.all_mistakes(error, &machine, &host))?;
        let store = machine.store()?;
        let (request, source) = request.on(&*store, &context.output)?;
        // A published workflow was warned about when it was published.
        if is_file && context.output.is_text() {
            let others = Neighbours::of(self.request.path(), &machine);
            let found = warnings_before_run(&source.definition, &host, &others);
            crate::report::warn(&context.output, &source.warnings(found));
        }
        let mut options = machine.runtime("run", Scope::Own, Arc::clone(&store), host)?;
        options.beside = self.request.beside();
        let traces = Traces::begin(&machine);
        options.spans = traces.sink();
        let mut shown = None;
        if context.output.watched && context.output.is_text() {
            let (watcher, progress) = progress::begin(context.output.notes)?;
            options.observer = Some(Arc::new(watcher));
            shown = Some(progress);
        }
        let runtime = Runtime::start(options)?;
        let metrics = self.metrics.begin(&runtime)?;
        let outcome = machine.tokio.block_on(self.carry_out(
            context,
            &machine,
            (&runtime, &*store),
            request,
            &source,
        ));
        traces.end(&machine);
        metrics.end(&runtime);
        // The display ends when its last observer is dropped.
        drop(runtime);
        if let Some(progress) = shown {
            progress.end();
        }
        let outcome = outcome?;
        let exit = self.tell(context, store.as_ref(), &outcome);
        store.close();
        exit
    }

    /// If the file could be read only in part: all its mistakes, with those of later stages.
    fn all_mistakes(&self, error: Expected, machine: &Machine, host: &Host) -> Expected {
        let path = self.request.path();
        // Standard input is used up.
        if error.problems.is_none() || path == Path::new("-") {
            return error;
        }
        let checked = source::check(path, host, &Neighbours::of(path, machine));
        let mistakes = checked.ok().and_then(|checked| checked.mistakes);
        mistakes.unwrap_or(error)
    }

    /// Sends the run to a host, and waits for its end.
    fn run_on_host(&self, context: &Context) -> anyhow::Result<Exit> {
        if self.ephemeral || self.metrics.is_wanted() {
            return Err(not_by_host().into());
        }
        let begun = self
            .request
            .begin(Map::new(), &context.output, || context.api())?;
        let (api, id, output) = (&begun.api, &begun.id, &context.output);
        if !self.no_wait {
            return ended::await_result(output, api, id, FOR_EVER);
        }
        let mut last = None;
        loop {
            let (status, outcome) = api.follow(id, last.as_ref(), WAIT)?;
            if status != StatusCode::ACCEPTED || text(&outcome, "status")? == "suspended" {
                return ended::tell_outcome(output, &outcome);
            }
            last = Some(outcome);
        }
    }

    /// Starts or continues the run and waits for it, or for a signal.
    async fn carry_out(
        &self,
        context: &Context,
        machine: &Machine,
        (runtime, store): (&Arc<Runtime>, &dyn Store),
        request: StartRequest,
        source: &Source,
    ) -> anyhow::Result<Started> {
        let mut signals = Signals::new()?;
        let started = Operations::local(runtime)
            .create_and_run(request)
            .await
            .map_err(|error| source.explain(error))?;
        if started
            .existing
            .as_ref()
            .is_some_and(|row| !row.status.is_final())
        {
            runtime.adopt(started.no);
        }
        let waited = signals
            .unless(self.wait(context, store, runtime, started.no))
            .await;
        let drain = runtime.drain(machine.config.scheduler.drain.duration());
        let Some(result) = waited else {
            if context.output.is_text() {
                context
                    .output
                    .note("Interrupted: running executions end first. Ctrl-C again ends the process at once.");
            }
            signals.end_at_next()?;
            drain.await;
            return Ok(started);
        };
        signals.unless(drain).await;
        result
            .map(|()| started)
            .map_err(|error| source.explain(error))
    }

    /// Waits until the run has ended, or, with `--no-wait`, until it is suspended.
    async fn wait(
        &self,
        context: &Context,
        store: &dyn Store,
        runtime: &Runtime,
        no: RunNo,
    ) -> Result<(), windlass_runtime::Error> {
        if self.no_wait {
            return runtime.wait_unless_suspended(no).await.map(drop);
        }
        let mut told = Vec::new();
        loop {
            let waited = tokio::time::timeout(PATIENCE, runtime.wait(no)).await;
            if let Ok(result) = waited {
                return result.map(drop);
            }
            told = tell_waits(context, store, no, told);
        }
    }

    fn tell(
        &self,
        context: &Context,
        store: &dyn Store,
        started: &Started,
    ) -> anyhow::Result<Exit> {
        let row = head(store, started.no)?;
        if row.status.is_final() {
            return ended::report(&context.output, store, row, !self.ephemeral);
        }
        if self.ephemeral {
            context
                .output
                .note("The run was ephemeral: nothing of it is kept.");
            return Ok(Exit::Interrupted);
        }
        let exit = match row.status {
            Status::Suspended if self.no_wait => Exit::Suspended,
            _ => Exit::Interrupted,
        };
        if exit == Exit::Suspended {
            tell_waits(context, store, started.no, Vec::new());
        }
        let again = format!("windlass run {} --id {}", self.request.workflow(), row.id);
        let text = format!("The run is kept. `{again}` with the same input continues it.");
        context.output.note(&text);
        Ok(exit)
    }
}

/// Prints the waits of a suspended run, unless they are the same as before. Returns the waits.
fn tell_waits(context: &Context, store: &dyn Store, no: RunNo, told: Vec<String>) -> Vec<String> {
    let row = store.run_by_no(no).ok().flatten();
    let suspended = row.filter(|row| row.status == Status::Suspended && context.output.is_text());
    // If the store fails here, the next command on it reports the failure.
    let waits = suspended.and_then(|row| waits::describe(store, &row).ok());
    match waits {
        Some(waits) if waits != told => {
            waits.iter().for_each(|line| context.output.note(line));
            waits
        }
        _ => told,
    }
}

fn head(store: &dyn Store, no: RunNo) -> anyhow::Result<windlass_store::rows::RunRow> {
    store.run_by_no(no)?.ok_or_else(|| {
        Expected::new(codes::NO_RUN, "The run is gone from the store")
            .exit(Exit::NotFound)
            .into()
    })
}
