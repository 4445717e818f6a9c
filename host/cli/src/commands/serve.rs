//! `windlass serve`: the long-running host, which `windlass dev` shows in another way.

use std::sync::Arc;

use clap::Args;
use windlass_periodic::Periodic;
use windlass_plugins::CompileReport;
use windlass_runtime::{
    Drained, FolderLog, FolderReport, Observed, Observer, PluginFolders, Runtime, Scope,
};
use windlass_server::LiveFeed;
use windlass_store::Store;

use crate::app::Context;
use crate::error::Expected;
use crate::exit::Exit;
use crate::metrics::MetricsArguments;
use crate::reload::Reloader;
use crate::signals::{self, Signals};
use crate::supervisor::Supervisor;
use crate::traces::Traces;
use crate::web::{self, Web};
use crate::wire::place::StoreLocation;
use crate::wire::{self, Machine, compile};

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "SIGTERM or Ctrl-C drains: no new execution begins, and running executions end. \
    A second one ends the process at once; nothing that was acknowledged is lost. \
    SIGHUP makes the host read its settings again: it takes grants, limits and secrets of plugins, \
    and logs which other changed settings need a restart."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    metrics: MetricsArguments,
}

/// How a host reports to the person who has started it.
pub(super) trait Hosting {
    /// The name of the process in the store.
    fn name(&self) -> &'static str;

    /// Receives the changes of workflow and plugin files.
    fn report(&self) -> Arc<dyn FolderReport>;

    /// Receives compilations that take long.
    fn compiling(&self) -> CompileReport;

    /// Observes runs, besides the live feed of the API.
    fn observer(&self, store: &Arc<dyn Store>) -> std::io::Result<Option<Arc<dyn Observer>>>;

    /// Whether the host takes changed settings at SIGHUP, which otherwise ends it.
    fn reloads_at_hangup(&self) -> bool;

    /// Begins to watch the settings, if the host takes them when their file changes.
    fn watch_settings(&self, reloader: &Arc<Reloader>) -> Result<Option<Periodic>, Expected>;

    /// Called when the host serves.
    fn serving(&self, machine: &Machine, web: Option<&Web>);

    /// Called when it begins to drain.
    fn draining(&self, in_flight: u32);

    /// Called when it has drained, before the store is closed.
    fn drained(&self);
}

/// A host that writes a log.
#[derive(Default)]
struct Logged(Arc<FolderLog>);

impl Hosting for Logged {
    fn name(&self) -> &'static str {
        "serve"
    }

    fn report(&self) -> Arc<dyn FolderReport> {
        Arc::<FolderLog>::clone(&self.0)
    }

    fn compiling(&self) -> CompileReport {
        compile::logged()
    }

    fn observer(&self, _: &Arc<dyn Store>) -> std::io::Result<Option<Arc<dyn Observer>>> {
        Ok(None)
    }

    fn reloads_at_hangup(&self) -> bool {
        true
    }

    fn watch_settings(&self, _: &Arc<Reloader>) -> Result<Option<Periodic>, Expected> {
        Ok(None)
    }

    fn serving(&self, machine: &Machine, _: Option<&Web>) {
        let (plugins, workflows) = self.0.started();
        if let Ok(store) = StoreLocation::of(&machine.config) {
            let version = env!("CARGO_PKG_VERSION");
            tracing::info!(version, %store, plugins, workflows, "serving");
        }
    }

    fn draining(&self, in_flight: u32) {
        tracing::info!(in_flight, "draining");
    }

    fn drained(&self) {}
}

/// Two observers.
struct Both(Arc<dyn Observer>, Arc<dyn Observer>);

impl Observer for Both {
    fn observe(&self, event: &Observed<'_>) {
        self.0.observe(event);
        self.1.observe(event);
    }
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("info")?)?;
        let Drained {
            in_time,
            finished,
            left,
        } = host(context, &machine, &self.metrics, &Logged::default())?;
        if in_time {
            tracing::info!(finished, left, "drained");
        } else {
            tracing::warn!(finished, left, "drained; unfinished runs continue later");
        }
        Ok(Exit::Done)
    }
}

/// Hosts until a signal comes, and drains.
pub(super) fn host(
    context: &Context,
    machine: &Machine,
    metrics: &MetricsArguments,
    hosting: &dyn Hosting,
) -> anyhow::Result<Drained> {
    let listen = web::check(&machine.config.server)?;
    let token = |listen| Ok::<_, Expected>((listen, web::token(&machine.config.server, listen)?));
    let listen = listen.map(token).transpose()?;
    let store = machine.awaited_store()?;
    let host = machine.host(hosting.compiling())?;
    if let Err((what, help)) = wire::library_in_use(&machine.config) {
        tracing::warn!(help, "{what}");
    }
    for fault in wire::proxy_faults() {
        tracing::warn!(code = %windlass_plugins::codes::NO_PROXY, "{fault}");
    }
    let reloader = Reloader::new(context.sources.clone(), &machine.config, &host);
    let report = hosting.report();
    let folders = wire::plugin_directories(&machine.config);
    let wait = machine.config.plugins.start_wait.duration();
    let folders = PluginFolders::load(&host, folders, Arc::clone(&report), &*machine.clock, wait);
    let awaited = host.awaited().len();
    if awaited > 0 {
        tracing::info!(
            plugins = awaited,
            "serving while plugins are being compiled; what needs them waits"
        );
    }
    // Installed before the first claim: from then on a signal means to finish the work in progress.
    let signals = {
        let _inside = machine.tokio.enter();
        Signals::new()?
    };
    let live_feed = LiveFeed::new();
    let (for_store, for_host) = (Arc::clone(&store), Arc::clone(&host));
    let mut options = machine.runtime(hosting.name(), Scope::All, for_store, for_host)?;
    let feed: Arc<dyn Observer> = Arc::<LiveFeed>::clone(&live_feed);
    options.observer = Some(match hosting.observer(&store)? {
        Some(observer) => Arc::new(Both(feed, observer)),
        None => feed,
    });
    options.plugin_folders = Some(folders);
    let traces = Traces::begin(machine);
    options.spans = traces.sink();
    let served = Runtime::start(options)?;
    let metrics = metrics.begin(&served)?;
    let retention = served.retain(machine.retention())?;
    let sources = served.publish_from(machine.definition_options(listen.is_some()), report)?;
    // The server answers only after the first reading of the definition directories.
    let server = match listen {
        Some(listen) => Some(web::begin(
            machine, listen, &store, &sources, &served, live_feed, &reloader,
        )?),
        None => None,
    };
    if let Some(paused) = served.paused() {
        tracing::warn!(since_ms = paused.since_ms, "paused: nothing new is begun");
    }
    hosting.serving(machine, server.as_ref());
    let supervisor = Arc::new(Supervisor::of_process());
    supervisor.ready();
    let reports = machine.tokio.spawn({
        let supervisor = Arc::clone(&supervisor);
        async move { supervisor.report().await }
    });
    let watch = hosting.watch_settings(&reloader)?;
    if hosting.reloads_at_hangup() {
        let _inside = machine.tokio.enter();
        let hangup = signals::hangups()?;
        machine.tokio.spawn(reload_at(hangup, reloader));
    }
    let serving = serve(&served, machine, server, signals, hosting, &supervisor);
    let drained = machine.tokio.block_on(serving)?;
    reports.abort();
    drop(watch);
    drop(retention);
    traces.end(machine);
    metrics.end(&served);
    hosting.drained();
    store.close();
    Ok(drained)
}

/// Takes changed settings at each SIGHUP.
async fn reload_at(mut hangups: tokio::signal::unix::Signal, reloader: Arc<Reloader>) {
    while hangups.recv().await.is_some() {
        let reloader = Arc::clone(&reloader);
        // A panic in it is reported, and the next signal tries again.
        let _ = tokio::task::spawn_blocking(move || reloader.reload_and_log()).await;
    }
}

/// Waits for a signal, and drains.
async fn serve(
    runtime: &Runtime,
    machine: &Machine,
    server: Option<Web>,
    mut signals: Signals,
    hosting: &dyn Hosting,
    supervisor: &Supervisor,
) -> anyhow::Result<Drained> {
    signals.next().await;
    let drain = machine.config.scheduler.drain.duration();
    supervisor.stopping(drain);
    hosting.draining(runtime.in_flight());
    signals.end_at_next()?;
    // The server accepts no new work while the runtime drains, but still answers requests about
    // runs.
    if let Some(server) = &server {
        server.handle.drain();
    }
    let drained = runtime.drain(drain).await;
    if let Some(server) = server {
        server.handle.close().await;
    }
    Ok(drained)
}
