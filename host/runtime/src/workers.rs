//! The workers of a process beside its scheduler and its shards: their start, their bells, and
//! their end.
//!
//! They end in three steps. Workers that begin new work end as soon as a drain begins. Workers that
//! runs need end when the process leaves the store. Workers that watch folders end after that,
//! since a look may take as long as compiling.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use windlass_periodic::{Bell, Periodic};
use windlass_store::Sink;

use crate::components;
use crate::definitions::{self, Definitions};
use crate::error::Error;
use crate::operations::batches;
use crate::pause;
use crate::queue;
use crate::runtime::Runtime;
use crate::scheduler::driver::{Membership, unpark};
use crate::schedules;
use crate::shard::Message;
use crate::shared::{Base, RuntimeShared};
use crate::watching::{Change, FolderReport, PluginFolders, PluginNews, Publisher, Watch};

/// The workers of a process.
pub(crate) struct Workers {
    bells: Bells,
    /// The workers for schedules, batches and components.
    planning: Mutex<Vec<Periodic>>,
    /// The workers for the queue and for pauses.
    serving: Mutex<Vec<Periodic>>,
    /// The workers for plugins and workflow files.
    watching: Mutex<Vec<Watch>>,
}

/// The bells of the workers. Ringing a bell without a worker has no effect.
#[derive(Clone, Default)]
struct Bells {
    schedules: Bell,
    batches: Bell,
    pause: Bell,
    components: Bell,
    plugins: PluginNews,
}

impl Workers {
    /// Starts all workers except those that watch folders.
    ///
    /// # Errors
    ///
    /// The system cannot start another thread.
    pub(crate) fn start(
        shared: &Arc<RuntimeShared>,
        membership: &Arc<Membership>,
        sink: &Arc<dyn Sink>,
        scan_ms: u64,
    ) -> std::io::Result<Self> {
        let bells = Bells::default();
        let scan = Duration::from_millis(scan_ms);
        let serving = vec![
            queue::start(shared, membership)?,
            pause::watch(shared, bells.pause.clone(), scan)?,
        ];
        let mut planning = Vec::new();
        // A process that claims only its own runs plans no schedules.
        if shared.intake.own.is_none() {
            let bell = bells.schedules.clone();
            planning.push(schedules::start(shared, membership, bell, scan_ms)?);
            planning.extend(exchange(&shared.base, sink, &bells)?);
        }
        Ok(Self {
            bells,
            planning: Mutex::new(planning),
            serving: Mutex::new(serving),
            watching: Mutex::default(),
        })
    }

    /// Wakes the workers that follow other processes.
    pub(crate) fn wake(&self) -> impl Fn() + Send + Sync + 'static {
        let bells = self.bells.clone();
        move || {
            bells.pause.ring();
            bells.schedules.ring();
            bells.batches.ring();
            bells.components.ring();
        }
    }

    /// Starts the worker that carries batches out.
    ///
    /// # Errors
    ///
    /// The system cannot start another thread.
    pub(crate) fn carry_batches_out(&self, runtime: &Arc<Runtime>) -> std::io::Result<()> {
        let worker = batches::start(Arc::downgrade(runtime), self.bells.batches.clone())?;
        self.planning.lock().push(worker);
        Ok(())
    }

    /// To be called after this process has added a batch, or asked one to stop.
    pub(crate) fn batches_changed(&self) {
        self.bells.batches.ring();
    }

    /// To be called after this process has published.
    pub(crate) fn published(&self) {
        self.bells.schedules.ring();
    }

    /// Loads new plugins from folders: parked runs may need them, and other processes may want
    /// them.
    ///
    /// # Errors
    ///
    /// The system cannot start another thread.
    pub(crate) fn watch_plugins(
        &self,
        folders: PluginFolders,
        shared: &Arc<RuntimeShared>,
        sink: Arc<dyn Sink>,
    ) -> Result<(), Error> {
        let bells = self.bells.clone();
        let host = Arc::clone(&shared.base.plugins);
        // A compilation that nothing waits for must not keep the runtime.
        let shared = Arc::downgrade(shared);
        let changed = move |change| {
            let Some(shared) = shared.upgrade() else {
                return;
            };
            // What waits for a plugin that does not come learns why at the next attempt.
            shared.base.catalog.forget_replaced(&shared.base.plugins);
            unpark(shared.base.store.as_ref(), &sink);
            if let Change::Loaded { is_consumer } = change {
                bells.components.ring();
                if is_consumer {
                    shared.broadcast(|| Message::Consumer);
                }
            }
            bells.plugins.tell();
        };
        let watch = folders.watch(host, changed);
        let watch = watch.map_err(|error| windlass_plugins::Error {
            code: windlass_plugins::codes::WATCH,
            subject: "plugins".to_owned(),
            message: error.to_string(),
        })?;
        self.watching.lock().push(watch);
        Ok(())
    }

    /// Publishes the files of directories, now and whenever they change.
    ///
    /// # Errors
    ///
    /// The system cannot start another thread.
    pub(crate) fn publish_from(
        &self,
        base: &Base,
        options: definitions::Options,
        report: Arc<dyn FolderReport>,
    ) -> Result<Arc<Definitions>, Error> {
        let definitions = Arc::new(Definitions::new(
            Arc::clone(&base.store),
            Arc::clone(&base.plugins),
            Arc::clone(&base.clock),
            base.io.clone(),
            &base.topology,
            options,
        ));
        let publisher = Publisher {
            definitions: Arc::clone(&definitions),
            plugins: self.bells.plugins.clone(),
            planner: self.bells.schedules.clone(),
            report,
        };
        let watch = publisher.watch()?;
        self.watching.lock().push(watch);
        Ok(definitions)
    }

    /// Ends the workers that begin new work.
    pub(crate) fn stop_planning(&self) {
        self.planning.lock().clear();
    }

    /// Ends the workers that runs need.
    pub(crate) fn stop_serving(&self) {
        self.serving.lock().clear();
    }

    /// Ends the workers that watch folders, after their current look.
    pub(crate) fn stop_watching(&self) {
        self.watching.lock().clear();
    }
}

/// Exchanges plugins with the other processes, if there are any.
fn exchange(base: &Base, sink: &Arc<dyn Sink>, bells: &Bells) -> std::io::Result<Option<Periodic>> {
    if base.topology.locks().is_none() {
        return Ok(None);
    }
    let (store, sink) = (Arc::clone(&base.store), Arc::clone(sink));
    let (bell, plugins) = (bells.components.clone(), bells.plugins.clone());
    let changed = move || {
        unpark(store.as_ref(), &sink);
        plugins.tell();
    };
    components::share(base, bell, changed).map(Some)
}
