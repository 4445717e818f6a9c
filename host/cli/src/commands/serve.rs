//! `windlass serve`: the long-running host.

use std::sync::Arc;

use clap::Args;
use windlass_runtime::{Drained, PluginFolders, Runtime, Scope};
use windlass_server::LiveFeed;

use crate::app::Context;
use crate::error::Expected;
use crate::exit::Exit;
use crate::metrics::MetricsArguments;
use crate::signals::Signals;
use crate::supervisor::Supervisor;
use crate::web::{self, Web};
use crate::wire::place::StoreLocation;
use crate::wire::{self, Machine};

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "SIGTERM or Ctrl-C drains: nothing new is begun, what runs is finished. \
    A second one ends the process at once; nothing that was acknowledged is lost."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    metrics: MetricsArguments,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("info")?)?;
        let listen = web::check(&machine.config.server)?;
        let token =
            |listen| Ok::<_, Expected>((listen, web::token(&machine.config.server, listen)?));
        let listen = listen.map(token).transpose()?;
        let store = machine.awaited_store()?;
        let host = machine.host()?;
        if let Err((what, help)) = wire::library_in_use(&machine.config) {
            tracing::warn!(help, "{what}");
        }
        let folders = PluginFolders::load(&host, wire::plugin_directories(&machine.config));
        // Installed before the first claim: from then on a signal means to finish the work in
        // progress.
        let signals = {
            let _inside = machine.tokio.enter();
            Signals::new()?
        };
        let live_feed = LiveFeed::new();
        let (for_store, for_host) = (Arc::clone(&store), Arc::clone(&host));
        let mut options = machine.runtime("serve", Scope::All, for_store, for_host)?;
        options.observer = Some(Arc::<LiveFeed>::clone(&live_feed));
        options.plugin_folders = Some(folders);
        let served = Runtime::start(options)?;
        let metrics = self.metrics.begin(&served)?;
        let retention = served.retain(machine.retention())?;
        let sources = served.publish_from(machine.definition_options(listen.is_some()))?;
        // The server answers only after the first reading of the definition directories.
        let server = match listen {
            Some(listen) => Some(web::begin(
                &machine, listen, &store, &sources, &served, live_feed,
            )?),
            None => None,
        };
        if let Some(paused) = served.paused() {
            tracing::warn!(since_ms = paused.since_ms, "paused: nothing new is begun");
        }
        let place = StoreLocation::of(&machine.config)?;
        tracing::info!(store = %place, "serving");
        let supervisor = Arc::new(Supervisor::of_process());
        supervisor.ready();
        let reports = machine.tokio.spawn({
            let supervisor = Arc::clone(&supervisor);
            async move { supervisor.report().await }
        });
        let drained =
            machine
                .tokio
                .block_on(serve(&served, &machine, server, signals, &supervisor))?;
        reports.abort();
        drop(retention);
        metrics.end(&served);
        store.close();
        let Drained {
            in_time,
            finished,
            left,
        } = drained;
        if in_time {
            tracing::info!(finished, left, "drained");
        } else {
            tracing::warn!(finished, left, "drained; unfinished runs continue later");
        }
        Ok(Exit::Done)
    }
}

/// Waits for a signal, and drains.
async fn serve(
    runtime: &Runtime,
    machine: &Machine,
    server: Option<Web>,
    mut signals: Signals,
    supervisor: &Supervisor,
) -> anyhow::Result<Drained> {
    signals.next().await;
    let drain = machine.config.scheduler.drain.duration();
    supervisor.stopping(drain);
    tracing::info!(in_flight = runtime.in_flight(), "draining");
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
