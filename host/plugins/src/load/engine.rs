//! The engine: its configuration.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use wasmtime::{
    CacheStore, Config, Engine, InstanceAllocationStrategy, MemoryType, OptLevel,
    PoolingAllocationConfig,
};

use crate::codes;
use crate::error::{Error, chain};
use crate::hold::PoolSize;
use crate::hold::limiter;

/// Stack of a guest. The thread of an inline call needs this much in addition to its own.
const WASM_STACK: usize = 512 * 1024;

/// The bytes of an unused slot's table that stay in memory.
const TABLE_BYTES: usize = 64 * 1024;

/// Instances that may be on their way back to the pool at once, beyond the counted ones.
const BEING_FREED: u32 = 32;

/// Makes the engine: with a pool of instances, or without one if the address space is too small.
pub(crate) fn make(pool: &PoolSize, table_elements: usize) -> Result<Engine, Error> {
    engine(Config::new(), pool, table_elements)
}

/// Makes an engine whose code runs on every processor of this architecture.
pub(crate) fn baseline(pool: &PoolSize, table_elements: usize) -> Result<Engine, Error> {
    let mut config = Config::new();
    let system = match std::env::consts::OS {
        "macos" => "apple-darwin".to_owned(),
        other => format!("unknown-{other}"),
    };
    let target = format!("{}-{system}", std::env::consts::ARCH);
    // With a target, the compiler does not look at the features of this processor.
    let named = config.target(&target).map(drop);
    named.map_err(|error| Error::new(codes::ENGINE, "engine", chain(&error)))?;
    engine(config, pool, table_elements)
}

/// Makes an engine that compiles for [`make`], and that reserves no address space: none of its
/// components is ever instantiated. Functions are taken from the cache, and new ones go there.
pub(crate) fn compiler(functions: Option<Arc<impl CacheStore + 'static>>) -> Result<Engine, Error> {
    let mut config = with_features(Config::new());
    if let Some(functions) = functions {
        let enabled = config.enable_incremental_compilation(functions);
        enabled.map_err(|error| Error::new(codes::ENGINE, "engine", chain(&error)))?;
    }
    start(&config)
}

/// The settings that compiled code depends on.
fn with_features(mut config: Config) -> Config {
    config
        .epoch_interruption(true)
        .concurrency_support(false)
        .max_wasm_stack(WASM_STACK)
        .cranelift_opt_level(OptLevel::Speed)
        .wasm_tail_call(true)
        .wasm_multi_memory(true)
        // Garbage collection, exceptions, function references and threads are not compiled in.
        .wasm_memory64(false);
    config
}

fn engine(config: Config, pool: &PoolSize, table_elements: usize) -> Result<Engine, Error> {
    let mut config = with_features(config);
    if pool_fits() {
        let mut pooling = PoolingAllocationConfig::new();
        // A returned instance is free only after its pages are, and meanwhile others begin.
        let instances = pool.instances.saturating_add(BEING_FREED);
        pooling
            .total_component_instances(instances)
            .total_core_instances(instances.saturating_mul(40))
            .total_memories(instances.saturating_mul(2))
            .total_tables(instances.saturating_mul(3))
            // An instance that was called on a fiber keeps the stack for its next call.
            .total_stacks(instances.saturating_add(pool.fibers))
            .table_elements(table_elements)
            .max_memory_size(pool.max_memory_bytes)
            .max_component_instance_size(4 * 1024 * 1024)
            .max_core_instance_size(4 * 1024 * 1024)
            .max_core_instances_per_component(limiter::MAX_INSTANCES as u32)
            .max_memories_per_component(limiter::MAX_MEMORIES as u32)
            .max_tables_per_component(limiter::MAX_TABLES as u32)
            .max_memories_per_module(limiter::MAX_MEMORIES as u32)
            .max_tables_per_module(limiter::MAX_TABLES as u32)
            // Resident memory is kept for each slot that was ever used: little of it keeps the
            // process small, and a warm instance does not need it.
            .max_unused_warm_slots(64)
            // Return dropped memory at once: the budget counts it as free. Small tables are cleared
            // in place, which saves a system call for each; the unused slots keep at most 4 MiB of
            // them.
            .decommit_batch_size(1)
            .linear_memory_keep_resident(0)
            .table_keep_resident(TABLE_BYTES)
            .async_stack_keep_resident(16 * 1024);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pooling));
    }
    start(&config)
}

fn start(config: &Config) -> Result<Engine, Error> {
    Engine::new(config).map_err(|error| Error::new(codes::ENGINE, "engine", chain(&error)))
}

/// Identifies the compiler of an engine: its exact version, its settings and the processor.
pub(crate) fn compiler_id(engine: &Engine) -> u64 {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.finish()
}

/// Whether the address space is large enough: on some systems, and under some process limits, it is
/// not.
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
