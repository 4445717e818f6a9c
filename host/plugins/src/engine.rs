//! The engine: its configuration, and the thread that drives its epochs.

use std::sync::Weak;
use std::time::Duration;

use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, MemoryType, OptLevel, PoolingAllocationConfig,
};
use windlass_periodic::{Periodic, Rest};

use crate::codes;
use crate::error::{Error, chain};
use crate::host::HostShared;
use crate::limiter;
use crate::options::Options;

/// How often running guests are looked at. A limit of time is exact to about this.
pub(crate) const TICK: Duration = Duration::from_millis(10);
/// Stack of a guest. The thread of an inline call needs this much and its own.
const WASM_STACK: usize = 512 * 1024;
/// Ticks between two looks at idle instances.
const REAP_TICKS: u32 = 100;

/// Of a table of an unused slot, what stays in memory.
const TABLE_BYTES: usize = 64 * 1024;

/// Instances that may be on their way out of the pool at once, besides those that are counted.
const BEING_FREED: u32 = 32;

/// Makes the engine: with a pool of instances, or without where the address space is too
/// small for one.
pub(crate) fn make(options: &Options) -> Result<Engine, Error> {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .concurrency_support(false)
        .max_wasm_stack(WASM_STACK)
        .cranelift_opt_level(OptLevel::Speed)
        .wasm_tail_call(true)
        .wasm_multi_memory(true)
        // Garbage collection, exceptions, function references and threads are not even
        // compiled in.
        .wasm_memory64(false);
    if pool_fits() {
        let mut pool = PoolingAllocationConfig::new();
        // What is being given back is not free before its pages are, and meanwhile others begin.
        let instances = options.pool.instances.saturating_add(BEING_FREED);
        pool.total_component_instances(instances)
            .total_core_instances(instances.saturating_mul(40))
            .total_memories(instances.saturating_mul(2))
            .total_tables(instances.saturating_mul(3))
            // An instance that was called on a fiber keeps the stack for its next call.
            .total_stacks(instances.saturating_add(options.pool.fibers))
            .table_elements(options.most(|limits| limits.table_elements))
            .max_memory_size(options.pool.max_memory_bytes)
            .max_component_instance_size(4 * 1024 * 1024)
            .max_core_instance_size(4 * 1024 * 1024)
            .max_core_instances_per_component(limiter::MAX_INSTANCES as u32)
            .max_memories_per_component(limiter::MAX_MEMORIES as u32)
            .max_tables_per_component(limiter::MAX_TABLES as u32)
            .max_memories_per_module(limiter::MAX_MEMORIES as u32)
            .max_tables_per_module(limiter::MAX_TABLES as u32)
            // What is kept resident is kept per slot that was ever used: little of it keeps
            // the process small, and a warm instance never comes this way.
            .max_unused_warm_slots(64)
            // What is dropped is given back at once: the budget counts it as free. Small tables
            // are cleared in place, which spares a call of the system for each; the unused slots
            // keep 4 MiB of them at most.
            .decommit_batch_size(1)
            .linear_memory_keep_resident(0)
            .table_keep_resident(TABLE_BYTES)
            .async_stack_keep_resident(16 * 1024);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    }
    Engine::new(&config).map_err(|error| Error::new(codes::ENGINE, "engine", chain(&error)))
}

/// Whether the address space is large enough: some systems and limits of processes are not.
fn pool_fits() -> bool {
    let mut config = Config::new();
    config
        .wasm_memory64(true)
        .memory_reservation(1 << 42)
        .memory_init_cow(false);
    let Ok(engine) = Engine::new(&config) else {
        return false;
    };
    let mut store = wasmtime::Store::new(&engine, ());
    wasmtime::Memory::new(&mut store, MemoryType::new64(0, Some(1 << 42 >> 16))).is_ok()
}

/// Drives the epochs of a host. The thread ends with the last that uses the host: plugins may
/// outlive it, and without epochs their deadlines would never come.
pub(crate) fn tick(host: Weak<HostShared>) -> Result<(), Error> {
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
