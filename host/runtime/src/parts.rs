//! What a process consists of, put together and not yet in motion: threads set it in motion, or
//! a simulation does.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use windlass_periodic::Bell;
use windlass_store::{Sink, Write};

use crate::catalog::Catalog;
use crate::doorkeeper::Doorkeeper;
use crate::error::Error;
use crate::options::{Options, Scope};
use crate::pause::Pause;
use crate::scheduler::core::Core;
use crate::scheduler::driver::{Driver, Inbox, Mailbox, Membership, sink};
use crate::shard::Shard;
use crate::shared::{Aside, Flow, Overdue, Shared, Suspects};
use crate::wait::Waiters;

/// A member of the store, and everything that makes up its process.
pub(crate) struct Parts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) driver: Driver,
    pub(crate) inbox: Inbox,
    pub(crate) membership: Arc<Membership>,
    /// Where the store answers the scheduler.
    pub(crate) sink: Arc<dyn Sink>,
}

impl Parts {
    /// Joins the store.
    pub(crate) fn join(options: Options, aside: Aside) -> Result<Self, Error> {
        let Options {
            store,
            plugins,
            clock,
            io,
            name,
            scope,
            scheduler,
            workers,
            beside,
            links,
            exports,
            ..
        } = options;
        // Whoever runs only his own has been asked for it just now.
        let pause = match scope {
            Scope::All => Pause::begin(store.as_ref())?,
            Scope::Own => Pause::default(),
        };
        let (mailbox, inbox) = Mailbox::new();
        let lease_ms = scheduler.lease_ms;
        let joined = Membership::join(store.as_ref(), name, lease_ms, clock.wall_ms())?;
        let membership = Arc::new(joined);
        let topology = options.topology;
        let keeper = |locks| Doorkeeper::new(Arc::clone(locks), io.clone());
        let doorkeeper = topology.burst_locks().map(keeper);
        let shared = Arc::new(Shared {
            store,
            clock,
            metrics: Arc::clone(plugins.metrics()),
            plugins,
            catalog: Catalog::default(),
            observer: options.observer,
            io,
            aside,
            scheduler: mailbox.clone(),
            shards: (0..workers.max(1)).map(Shard::new).collect(),
            flow: Flow::new(scheduler.in_flight),
            suspects: Suspects::default(),
            waiters: Waiters::default(),
            draining: AtomicBool::new(false),
            overdue: Overdue::new(),
            pause,
            max_steps: options.max_steps,
            burst: options.burst,
            links,
            exports,
            queue: Bell::default(),
            standby: Arc::default(),
            beside,
            topology,
            doorkeeper,
            own: (scope == Scope::Own).then(Mutex::default),
        });
        // What was put aside may run with the plugins that there are now.
        shared.store.write(Write::Unpark)?;
        let sink = sink(&mailbox);
        let driver = Driver {
            shared: Arc::clone(&shared),
            core: Core::new(scheduler, shared.pause.is_on()),
            membership: Arc::clone(&membership),
            sink: Arc::clone(&sink),
        };
        Ok(Self {
            shared,
            driver,
            inbox,
            membership,
            sink,
        })
    }
}
