//! Fuzz targets: one function from bytes for each reader of data from outside.
//!
//! `cargo xtask fuzz` compiles them with coverage and lets libFuzzer search. The corpus that it
//! found is kept in `tests/fuzz/corpus`, and an ordinary test replays the corpus. A target fails
//! by a panic, by an abort, or by an allocation beyond its budget; the results of the functions
//! under test are checked where a wrong one can be told.

mod targets;

use targets::{
    bodies, components, diagnostics, expressions, grants, hooks, imports, schemas, tokens, trust,
    workflows,
};

/// A reader of data from outside.
pub struct Target {
    /// Name of the target and of its corpus.
    pub name: &'static str,
    /// Hands one input to the reader. Panics where the reader breaks a promise.
    pub run: fn(&[u8]),
    /// Memory that one input may take beyond what the process holds before, in bytes.
    pub memory_bytes: usize,
    /// The longest input that the fuzzer makes, in bytes.
    pub input_bytes: usize,
}

const MIB: usize = 1024 * 1024;

/// Every target.
pub const TARGETS: &[Target] = &[
    Target {
        name: "expressions",
        run: expressions::run,
        memory_bytes: 256 * MIB,
        input_bytes: 4096,
    },
    Target {
        name: "schemas",
        run: schemas::run,
        memory_bytes: 256 * MIB,
        input_bytes: 8192,
    },
    Target {
        name: "workflows",
        run: workflows::run,
        memory_bytes: 256 * MIB,
        input_bytes: 8192,
    },
    Target {
        name: "bodies",
        run: bodies::run,
        memory_bytes: 512 * MIB,
        input_bytes: 8192,
    },
    Target {
        name: "components",
        run: components::run,
        memory_bytes: 512 * MIB,
        input_bytes: 16_384,
    },
    Target {
        name: "tokens",
        run: tokens::run,
        memory_bytes: 64 * MIB,
        input_bytes: 512,
    },
    Target {
        name: "imports",
        run: imports::run,
        memory_bytes: 256 * MIB,
        input_bytes: 16_384,
    },
    Target {
        name: "diagnostics",
        run: diagnostics::run,
        memory_bytes: 256 * MIB,
        input_bytes: 4096,
    },
    Target {
        name: "grants",
        run: grants::run,
        memory_bytes: 256 * MIB,
        input_bytes: 4096,
    },
    Target {
        name: "trust",
        run: trust::run,
        memory_bytes: 256 * MIB,
        input_bytes: 8192,
    },
    Target {
        name: "hooks",
        run: hooks::run,
        memory_bytes: 64 * MIB,
        input_bytes: 16_384,
    },
];

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
