//! `windlass serve`: the long-running host.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use clap::Args;
use windlass_plugins::LoadEvent;
use windlass_runtime::{Drained, Runtime, Scope};
use windlass_server::Hub;

use crate::app::Context;
use crate::definitions::Watch;
use crate::exit::Exit;
use crate::metrics::MetricsArguments;
use crate::signals::Signals;
use crate::web::{self, Web};
use crate::wire::place::Place;
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
        let store = machine.awaited_store()?;
        let host = machine.host()?;
        if let Err((what, help)) = wire::library_in_use(&machine.config) {
            tracing::warn!(help, "{what}");
        }
        // Plugins are there before anything is claimed, so that nothing is parked in vain.
        let runtime: Arc<OnceLock<Arc<Runtime>>> = Arc::default();
        let changed = Arc::clone(&runtime);
        let news: Arc<News> = Arc::default();
        let (from_folder, from_store) = (Arc::clone(&news), Arc::clone(&news));
        let watch = host.watch(
            wire::plugin_directories(&machine.config),
            Box::new(move |event| {
                log(&event);
                if let (LoadEvent::Loaded { .. }, Some(runtime)) = (&event, changed.get()) {
                    runtime.plugins_changed();
                }
                if let LoadEvent::Loaded { .. } = &event {
                    from_folder.tell();
                }
            }),
        )?;
        // From the first claim on, being asked to go means to finish what was begun.
        let signals = {
            let _inside = machine.tokio.enter();
            Signals::new()?
        };
        let hub = Hub::new();
        let (for_store, for_host) = (Arc::clone(&store), Arc::clone(&host));
        let mut options = machine.runtime("serve", Scope::All, for_store, for_host)?;
        options.observer = Some(Arc::<Hub>::clone(&hub));
        options.plugins_came = Some(Arc::new(move || from_store.tell()));
        let started = Runtime::start(options)?;
        let served = runtime.get_or_init(|| started);
        // One that was loaded while this was under way could not be told of.
        served.plugins_changed();
        let metrics = self.metrics.begin(machine.tokio.handle(), served)?;
        let retention = served.retain(machine.retention())?;
        let web = listen.is_some();
        let sources = Arc::new(machine.definitions(&store, &host, served.topology(), web));
        // What has come by now is found by the first look.
        news.missed.store(false, Ordering::SeqCst);
        let published = Watch::begin(Arc::clone(&sources), Arc::clone(served))?;
        news.listen(Box::new(published.plugins_changed()));
        // Whoever is answered finds what is published.
        let server = match listen {
            Some(listen) => Some(web::begin(
                &machine, listen, &store, &host, &sources, served, hub,
            )?),
            None => None,
        };
        if let Some(paused) = served.paused() {
            tracing::warn!(since_ms = paused.since_ms, "paused: nothing new is begun");
        }
        let place = Place::of(&machine.config)?;
        tracing::info!(store = %place, "serving");
        let drained = machine
            .tokio
            .block_on(serve(served, &machine, server, signals))?;
        drop(retention);
        metrics.end(served);
        drop(watch);
        drop(published);
        store.close();
        let Drained {
            in_time,
            finished,
            left,
        } = drained;
        if in_time {
            tracing::info!(finished, left, "drained");
        } else {
            tracing::warn!(
                finished,
                left,
                "drained; what was not finished in time goes on later"
            );
        }
        Ok(Exit::Done)
    }
}

/// Tells whoever publishes workflows that plugins have come, for which some may wait.
#[derive(Default)]
struct News {
    /// Some have come while there was nobody to be told.
    missed: AtomicBool,
    listener: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl News {
    fn tell(&self) {
        if self.listener.get().is_none() {
            self.missed.store(true, Ordering::SeqCst);
        }
        // Who has come in between has not necessarily seen that.
        if let Some(listener) = self.listener.get() {
            listener();
        }
    }

    fn listen(&self, listener: Box<dyn Fn() + Send + Sync>) {
        let listener = self.listener.get_or_init(|| listener);
        if self.missed.swap(false, Ordering::SeqCst) {
            listener();
        }
    }
}

/// Waits for a signal, and drains.
async fn serve(
    runtime: &Runtime,
    machine: &Machine,
    server: Option<Web>,
    mut signals: Signals,
) -> anyhow::Result<Drained> {
    signals.next().await;
    tracing::info!(in_flight = runtime.in_flight(), "draining");
    signals.end_at_next()?;
    // Nothing more is taken in before what is there is finished; whoever asks how it goes is
    // still answered meanwhile.
    if let Some(server) = &server {
        server.handle.drain();
    }
    let drained = runtime
        .drain(machine.config.scheduler.drain.duration())
        .await;
    if let Some(server) = server {
        server.handle.close().await;
    }
    Ok(drained)
}

fn log(event: &LoadEvent) {
    match event {
        LoadEvent::Loaded { file, plugin, .. } => {
            tracing::info!(plugin = plugin.name(), digest = %plugin.digest, file = %file.display(), "loaded");
        }
        LoadEvent::Failed { file, error, .. } => {
            tracing::warn!(code = %error.code, file = %file.display(), message = error.message, "not loaded");
        }
        LoadEvent::Removed { file, digest } => {
            tracing::info!(%digest, file = %file.display(), "removed");
        }
    }
}
