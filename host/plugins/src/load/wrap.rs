//! Makes a component of a core module.
//!
//! A module of a compiler for WASI imports WASI preview 1: it gets the adapter of `preview1.wat`. A
//! module without a component type gets that of the contract, as far as its exports have the names
//! of the contract: most toolchains without an SDK write no component type.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail};
use wasmparser::{ExternalKind, Parser, Payload};
use wit_component::ComponentEncoder;

use crate::bindings::{check, consumer, node};

/// WASI preview 1, as modules name it.
const PREVIEW1: &str = "wasi_snapshot_preview1";
/// The names of WASI before preview 1, and of its extension for threads.
const OTHER_WASI: [&str; 2] = ["wasi_unstable", "wasi"];
/// The adapter of WASI preview 1.
const ADAPTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preview1.wasm"));
/// The sections of component types begin with this name.
pub(super) const TYPE: &str = "component-type";
/// The interfaces that plugins export, each with the section of a module that exports it.
const TYPES: [(&str, &[u8]); 3] = [
    (
        node::INTERFACE,
        include_bytes!(concat!(env!("OUT_DIR"), "/node.type")),
    ),
    (
        consumer::INTERFACE,
        include_bytes!(concat!(env!("OUT_DIR"), "/consumer.type")),
    ),
    (
        check::INTERFACE,
        include_bytes!(concat!(env!("OUT_DIR"), "/check.type")),
    ),
];

/// The names in a module.
#[derive(Default)]
struct Names<'a> {
    /// The module and the name of each import.
    imports: Vec<(&'a str, &'a str)>,
    exports: Vec<&'a str>,
    has_memory: bool,
    has_type: bool,
}

/// The component of a core module.
pub(super) fn wrap(mut module: Vec<u8>) -> Result<Vec<u8>> {
    let names = Names::of(&module)?;
    let is_wasi = names.check()?;
    let types = names.types()?;
    module.reserve_exact(types.iter().map(|ty| ty.len()).sum());
    for ty in types {
        module.extend_from_slice(ty);
    }
    let mut encoder = ComponentEncoder::default().validate(true).module(&module)?;
    if is_wasi {
        encoder = encoder.adapter(PREVIEW1, ADAPTER)?;
    }
    encoder.encode()
}

impl<'a> Names<'a> {
    fn of(module: &'a [u8]) -> Result<Self> {
        let mut names = Self::default();
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        let import = import?;
                        names.imports.push((import.module, import.name));
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export?;
                        names.exports.push(export.name);
                        names.has_memory |=
                            export.name == "memory" && export.kind == ExternalKind::Memory;
                    }
                }
                Payload::CustomSection(section) => {
                    names.has_type |= section.name().starts_with(TYPE);
                }
                _ => {}
            }
        }
        Ok(names)
    }

    /// Whether the module imports WASI preview 1. Refuses what this host has no answer for.
    fn check(&self) -> Result<bool> {
        let other = |(module, _): &&(&str, &str)| OTHER_WASI.contains(module);
        if let Some((module, name)) = self.imports.iter().find(other) {
            bail!(
                "it imports `{name}` of `{module}`, and of WASI this host has `{PREVIEW1}` for core \
                 modules: build it for `wasm32-wasip1`, without threads"
            );
        }
        let wasi = self.imports.iter();
        let mut wasi = wasi.filter(|(module, _)| *module == PREVIEW1).peekable();
        if wasi.peek().is_none() {
            return Ok(false);
        }
        let known = Names::of(ADAPTER).context("the adapter is damaged")?;
        if let Some((_, name)) = wasi.find(|(_, name)| !known.exports.contains(name)) {
            bail!(
                "it imports `{name}` of `{PREVIEW1}`, which WASI preview 1 does not have: build it \
                 for `wasm32-wasip1`, without extensions of a runtime"
            );
        }
        let has = |name| self.exports.contains(&name);
        if has("_start") && !has("_initialize") {
            bail!(
                "it is a program, which begins at `_start`, and a plugin is a library: build it with \
                 `-mexec-model=reactor` in C, or with `-buildmode=c-shared` in Go"
            );
        }
        if !self.has_memory {
            bail!(
                "it imports `{PREVIEW1}`, whose functions read and write the memory of a module, and \
                 exports no `memory`"
            );
        }
        Ok(true)
    }

    /// The sections with component types that the module lacks. Refuses names of another version of
    /// the contract, which the component would not have.
    fn types(&self) -> Result<Vec<&'static [u8]>> {
        if self.has_type {
            return Ok(Vec::new());
        }
        // The interfaces of which it exports functions.
        let functions = self.exports.iter();
        let interfaces: BTreeSet<&str> = functions
            .filter_map(|name| Some(name.split_once('#')?.0))
            .collect();
        let mut types = Vec::new();
        for (interface, section) in TYPES {
            let base = interface.split('@').next();
            if interfaces.contains(interface) {
                types.push(section);
            } else if let Some(other) = interfaces.iter().find(|it| it.split('@').next() == base) {
                bail!(
                    "it exports functions of `{other}`, and this host calls those of \
                     `{interface}`: use a newer host, or build it against that version"
                );
            }
        }
        Ok(types)
    }
}
