//! The parts that all plugins share in their calls, and the living plugins.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::runtime::Handle;
use wasmtime::Engine;
use windlass_model::{Clock, Digest};
use windlass_periodic::{Periodic, Rest};

use super::plugin::Plugin;
use crate::codes;
use crate::error::Error;
use crate::hold::budget::Evict;
use crate::hold::budget::core::PluginNo;
use crate::hold::{Bounds, PoolSize, TICK};
use crate::offer::Offer;

/// Ticks between two reaps of idle instances.
const REAP_TICKS: u32 = 100;

/// Reaps of idle instances, one per second, in one period of the memory statistics.
const LOOKS_OF_PEAK: u64 = 60;

/// The parts that all plugins share in their calls.
pub(crate) struct CallShared {
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) io: Handle,
    pub(crate) offer: Arc<Offer>,
    pub(crate) bounds: Arc<Bounds>,
    /// Every living plugin, by its digest.
    pub(crate) plugins: Mutex<FxHashMap<Digest, Weak<Plugin>>>,
    /// Calls after which an instance is retired, plus or minus a quarter.
    pub(crate) slot_calls: u32,
    /// How long an instance may be idle.
    slot_idle: Duration,
    /// How often idle instances were reaped.
    looks: AtomicU64,
}

impl CallShared {
    pub(crate) fn new(
        engine: Engine,
        io: Handle,
        offer: Arc<Offer>,
        bounds: Arc<Bounds>,
        pool: &PoolSize,
    ) -> Self {
        Self {
            engine,
            clock: Arc::clone(&offer.clock),
            io,
            offer,
            bounds,
            plugins: Mutex::default(),
            slot_calls: pool.slot_calls,
            slot_idle: pool.slot_idle,
            looks: AtomicU64::new(0),
        }
    }

    pub(crate) fn living(&self, digest: &Digest) -> Option<Arc<Plugin>> {
        self.plugins.lock().get(digest).and_then(Weak::upgrade)
    }

    /// Drops instances that have been idle for too long, and removes plugins that are gone.
    pub(crate) fn reap(&self) {
        self.peaks_pass();
        let idle = self.slot_idle;
        if let Some(before) = self.clock.monotonic().checked_sub(idle) {
            self.drop_idle(before);
        }
    }

    /// The memory that calls used more than two minutes ago says nothing about the next call.
    fn peaks_pass(&self) {
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        if looks.is_multiple_of(LOOKS_OF_PEAK) {
            for plugin in self.living_plugins() {
                plugin.flows.pass();
            }
        }
    }

    /// Drops the instances of all plugins that have been idle since before this moment.
    pub(crate) fn drop_idle(&self, before: Duration) {
        for plugin in self.living_plugins() {
            plugin.slots.reap(before);
        }
    }

    /// All living plugins. Removes those that are gone.
    fn living_plugins(&self) -> Vec<Arc<Plugin>> {
        let mut living = Vec::new();
        self.plugins
            .lock()
            .retain(|_, plugin| match plugin.upgrade() {
                Some(plugin) => {
                    living.push(plugin);
                    true
                }
                None => false,
            });
        living
    }
}

impl Evict for CallShared {
    /// Drops large instances that have been idle for long first.
    fn evict(&self, of: Option<PluginNo>, bytes: u64) -> bool {
        let mut living = self.living_plugins();
        living.retain(|plugin| of.is_none_or(|no| plugin.terms.track.id == no));
        let now = self.clock.monotonic();
        let mut freed = 0;
        while freed < bytes {
            let oldest = living.iter().filter_map(|plugin| {
                let (since, held) = plugin.slots.oldest()?;
                let idle_ms = now.saturating_sub(since).as_millis() + 1;
                Some((u128::from(held).saturating_mul(idle_ms), since, plugin))
            });
            let Some((_, since, plugin)) = oldest.max_by_key(|(weight, ..)| *weight) else {
                break;
            };
            // Another call may have taken it meanwhile: then there is another one, or none.
            if let Some(slot) = plugin.slots.take_oldest(since) {
                freed += slot.store.data().limiter.account.held();
                drop(slot);
            }
        }
        freed > 0
    }
}

/// Drives the epochs of a host. The thread ends with the last user of the host: plugins may outlive
/// it, and without epochs their deadlines would never come.
pub(crate) fn tick(host: Weak<CallShared>) -> Result<(), Error> {
    let mut ticks = 0_u32;
    let ticker = Periodic::start("epochs", move |bell| {
        match host.upgrade() {
            Some(host) => {
                host.engine.increment_epoch();
                ticks = ticks.wrapping_add(1);
                if ticks.is_multiple_of(REAP_TICKS) {
                    host.reap();
                }
            }
            None => bell.stop(),
        }
        Rest::exactly(TICK)
    });
    let ticker = ticker.map_err(|error| Error::new(codes::ENGINE, "engine", error.to_string()))?;
    ticker.detach();
    Ok(())
}
