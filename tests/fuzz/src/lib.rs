//! Fuzz targets: a function from bytes for each parser of untrusted data.
//!
//! `cargo xtask fuzz` compiles them with coverage and lets libFuzzer search. The inputs that it
//! found are kept in `tests/fuzz/corpus`, and an ordinary test replays them. A target fails by a
//! panic, by an abort, or by an allocation beyond its budget; results of the functions under test
//! are checked wherever a wrong one can be recognised.

mod targets;

use targets::{
    bodies, components, diagnostics, expressions, grants, hooks, imports, schemas, tokens, trust,
    workflows,
};

/// A parser of untrusted data.
pub struct Target {
    /// Name of the target and of its corpus.
    pub name: &'static str,
    /// Passes one input to the parser. Panics if the parser violates a guarantee.
    pub run: fn(&[u8]),
    /// Memory that one input may take in addition to the memory that the process has already, in
    /// bytes.
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
