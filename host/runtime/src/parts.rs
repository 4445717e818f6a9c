//! The parts of a process, assembled but not running: threads or a simulation drive them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use windlass_periodic::Bell;
use windlass_store::write::{Reaped, Unpark};
use windlass_store::{Sink, Writer as _};

use crate::burst_locks::BurstLocks;
use crate::call_data::CallData;
use crate::catalog::Catalog;
use crate::error::Error;
use crate::evaluators::Evaluators;
use crate::lookout::Lookout;
use crate::options::{Options, Scope};
use crate::pause::Pause;
use crate::scheduler::core::Core;
use crate::scheduler::driver::{Driver, Inbox, Mailbox, Membership, sink};
use crate::shard::{Shard, States};
use crate::shared::{Aside, Base, Bursts, Flow, Intake, Listeners, RuntimeShared};
use crate::suspects::Suspects;
use crate::wait::Waiters;

/// The part of the data of runs that calls which wait may hold.
const CALL_DATA_PART: u64 = 4;

/// A member of the store, and all parts of its process.
pub(crate) struct Parts {
    pub(crate) shared: Arc<RuntimeShared>,
    pub(crate) driver: Driver,
    pub(crate) inbox: Inbox,
    pub(crate) membership: Arc<Membership>,
    /// The sink to which the store sends its answers for the scheduler.
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
        // A process that claims only its own runs was started to run them, so it ignores a stored
        // pause.
        let pause = match scope {
            Scope::All => Pause::begin(store.as_ref())?,
            Scope::Own => Pause::default(),
        };
        let (mailbox, inbox) = Mailbox::new();
        let lease_ms = scheduler.lease_ms;
        let joined = Membership::join(store.as_ref(), name, lease_ms, clock.wall_ms())?;
        let membership = Arc::new(joined);
        let topology = options.topology;
        let keeper = |locks| BurstLocks::new(Arc::clone(locks), io.clone());
        let burst_locks = topology.burst_locks().map(keeper);
        let overdue: Arc<AtomicBool> = Arc::default();
        let (watched, at) = (Arc::clone(&overdue), Arc::clone(&clock));
        plugins.metrics().run_data.set_limit(options.run_data_bytes);
        let base = Base {
            is_over: Arc::new(move |until| {
                watched.load(Ordering::Acquire) || at.monotonic() >= until
            }),
            store,
            clock,
            metrics: Arc::clone(plugins.metrics()),
            catalog: Catalog::new(options.definition_bytes, Arc::clone(plugins.metrics())),
            plugins,
            io,
            links,
            exports,
            topology,
            overdue,
            evaluation: options.evaluation,
            run_data_bytes: options.run_data_bytes,
            spans: options.spans,
        };
        let intake = Intake {
            scheduler: mailbox.clone(),
            flow: Flow::new(scheduler.in_flight),
            own: (scope == Scope::Own).then(Mutex::default),
            draining: AtomicBool::new(false),
            pause,
            states: States::new(options.run_state_bytes, &base.metrics),
        };
        let states = intake.states.clone();
        let (most, clock) = (options.run_data_bytes / CALL_DATA_PART, &base.clock);
        let call_data = CallData::new(most, Arc::clone(clock), Arc::clone(&base.metrics));
        let bursts = Bursts {
            bounds: options.burst,
            max_steps: options.max_steps,
            max_descendants: options.max_descendants,
            suspects: Suspects::default(),
            burst_locks,
            beside,
            aside,
            evaluators: Evaluators::new(workers, options.evaluation.aside),
            call_data,
        };
        let listeners = Listeners {
            waiters: Waiters::default(),
            lookout: Lookout::new(Arc::clone(&base.store), Arc::clone(&base.clock)),
            standby: Arc::default(),
            observer: options.observer,
            queue: Bell::default(),
        };
        let shared = Arc::new(RuntimeShared {
            base,
            intake,
            bursts,
            listeners,
            shards: (0..workers.max(1))
                .map(|index| Shard::new(index, options.unwritten_bytes, states.clone()))
                .collect(),
        });
        // Parked triggers may be executable with the current plugins.
        shared.base.store.write(Unpark)?;
        let sink = sink(&mailbox);
        let driver = Driver {
            shared: Arc::clone(&shared),
            core: Core::new(scheduler, shared.intake.pause.is_on()),
            membership: Arc::clone(&membership),
            sink: Arc::clone(&sink),
            reaped: Reaped::default(),
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
