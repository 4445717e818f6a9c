//! Makes components from core modules.

use crate::place;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The world of a hand-written module, unless it is a component already.
const WORLD: &str = "windlass:plugin/pure@0.1.0";

/// Wraps a core module that carries its component type; a component is returned unchanged.
pub(crate) fn encode(wasm: Vec<u8>) -> Result<Vec<u8>> {
    if is_component(&wasm) {
        return Ok(wasm);
    }
    ComponentEncoder::default()
        .validate(true)
        .module(&wasm)
        .context("the module does not carry a component type that fits it")?
        .encode()
        .context("the module does not fit its component type")
}

/// Makes a component from WebAssembly text: of a component, or of a core module that exports the
/// world of a node executor.
pub(crate) fn assemble(text: &Path) -> Result<Vec<u8>> {
    let mut wasm = wat::parse_file(text)?;
    if is_component(&wasm) {
        return Ok(wasm);
    }
    let (resolve, package) = contract()?;
    let world = resolve.select_world(&[package], Some(WORLD))?;
    embed_component_metadata(&mut wasm, &resolve, world, StringEncoding::UTF8)?;
    encode(wasm)
}

/// Writes a file atomically, and only if it would change. Returns whether it did.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<bool> {
    if std::fs::read(path).is_ok_and(|existing| existing == bytes) {
        return Ok(false);
    }
    let directory = path.parent().context("the path has no directory")?;
    std::fs::create_dir_all(directory)?;
    // The name does not end in .wasm: a host that watches the directory must
    // not pick up half a file.
    let temporary = path.with_extension(format!("tmp-{}", std::process::id()));
    std::fs::write(&temporary, bytes)
        .and_then(|()| std::fs::rename(&temporary, path))
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(true)
}

fn is_component(wasm: &[u8]) -> bool {
    // The version field of the preamble; that of a core module is 01 00 00 00.
    wasm.get(4..8) == Some(&[0x0d, 0x00, 0x01, 0x00])
}

fn contract() -> Result<(Resolve, wit_parser::PackageId)> {
    let wit = place::root()?.join("wit");
    let mut resolve = Resolve::default();
    // Each package follows the packages that it uses.
    let used = [
        "types", "log", "context", "memory", "blobs", "http", "events", "clock", "random", "node",
        "consumer", "check",
    ];
    for name in used {
        resolve.push_dir(package(&wit, name))?;
    }
    let (plugin, _) = resolve.push_dir(package(&wit, "plugin"))?;
    Ok((resolve, plugin))
}

fn package(wit: &Path, name: &str) -> PathBuf {
    wit.join(name).join("0.1.0")
}
