//! The workers of a process beside its scheduler and its shards: what each is started with, what
//! wakes it, and when it ends.
//!
//! They end in three steps: those that begin something as soon as a drain begins, those that runs
//! need when the process leaves, and those that watch folders after that, since a look may take
//! as long as compiling takes.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use windlass_periodic::{Bell, Periodic};
use windlass_store::Sink;

use crate::components;
use crate::definitions::{self, Definitions};
use crate::error::Error;
use crate::pause;
use crate::queue;
use crate::scheduler::driver::{Membership, unpark};
use crate::schedules;
use crate::shared::{Base, RuntimeShared};
use crate::watching::{PluginFolders, PluginNews, Publisher, Watch};

/// The workers of a process.
pub(crate) struct Workers {
    bells: Bells,
    /// Of schedules, and of components.
    planning: Mutex<Vec<Periodic>>,
    /// Of the queue, and of pauses.
    serving: Mutex<Vec<Periodic>>,
    /// Of plugins, and of workflow files.
    watching: Mutex<Vec<Watch>>,
}

/// What wakes the workers. A bell that has no worker is rung in vain.
#[derive(Clone, Default)]
struct Bells {
    schedules: Bell,
    pause: Bell,
    components: Bell,
    plugins: PluginNews,
}

impl Workers {
    /// Starts all but those that watch folders.
    ///
    /// # Errors
    ///
    /// The system has no thread to give.
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
        // A process that claims only its own plans nothing.
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

    /// What wakes those that follow other processes.
    pub(crate) fn wake(&self) -> impl Fn() + Send + Sync + 'static {
        let bells = self.bells.clone();
        move || {
            bells.pause.ring();
            bells.schedules.ring();
            bells.components.ring();
        }
    }

    /// Something was published by this process.
    pub(crate) fn published(&self) {
        self.bells.schedules.ring();
    }

    /// Loads what comes into folders: runs that were put aside for want of it may go on, and
    /// other processes may want it.
    ///
    /// # Errors
    ///
    /// The system has no thread to give.
    pub(crate) fn watch_plugins(
        &self,
        folders: PluginFolders,
        shared: &Arc<RuntimeShared>,
        sink: Arc<dyn Sink>,
    ) -> Result<(), Error> {
        let (shared, bells) = (Arc::clone(shared), self.bells.clone());
        let host = Arc::clone(&shared.base.plugins);
        let loaded = move || {
            shared.base.catalog.forget_replaced(&shared.base.plugins);
            unpark(shared.base.store.as_ref(), &sink);
            bells.components.ring();
            bells.plugins.tell();
        };
        let watch = folders.watch(host, loaded);
        let watch = watch.map_err(|error| windlass_plugins::Error {
            code: windlass_plugins::codes::WATCH,
            subject: "plugins".to_owned(),
            message: error.to_string(),
        })?;
        self.watching.lock().push(watch);
        Ok(())
    }

    /// Publishes what directories hold, now and whenever they change.
    ///
    /// # Errors
    ///
    /// The system has no thread to give.
    pub(crate) fn publish_from(
        &self,
        base: &Base,
        options: definitions::Options,
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
        };
        let watch = publisher.watch()?;
        self.watching.lock().push(watch);
        Ok(definitions)
    }

    /// Ends those that begin something.
    pub(crate) fn stop_planning(&self) {
        self.planning.lock().clear();
    }

    /// Ends those that runs need.
    pub(crate) fn stop_serving(&self) {
        self.serving.lock().clear();
    }

    /// Ends those that watch folders, after the look that is under way.
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
