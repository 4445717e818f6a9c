//! Compiles the adapter of WASI preview 1 and the types of the contract, for core modules that have
//! neither a component type nor a component's imports.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context as _, Result};
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Packages of the contract. Each follows those that it uses.
const PACKAGES: [&str; 13] = [
    "types", "log", "context", "memory", "blobs", "http", "events", "clock", "random", "preview1",
    "node", "consumer", "check",
];

/// The imports of the adapter.
const ADAPTER: &str = "
    import windlass:clock/clock@0.1.0;
    import windlass:random/random@0.1.0;
    import windlass:preview1/process@0.1.0;
    import windlass:preview1/sleep@0.1.0;
";

/// The imports of plugins. Those that a module does not use are left out of its component.
const PLUGIN: &str = "
    import windlass:log/log@0.1.0;
    import windlass:context/context@0.1.0;
    import windlass:memory/memory@0.1.0;
    import windlass:blobs/blobs@0.1.0;
    import windlass:http/http@0.1.0;
    import windlass:events/events@0.1.0;
    import windlass:clock/clock@0.1.0;
    import windlass:random/random@0.1.0;
";

/// The exports of plugins.
const EXPORTS: [&str; 3] = ["node", "consumer", "check"];

/// The bytes of a module before its sections.
const HEADER: &[u8] = b"\0asm\x01\0\0\0";

fn main() -> Result<()> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let (wit, text) = (here.join("../../wit"), here.join("src/load/preview1.wat"));
    println!("cargo::rerun-if-changed={}", text.display());
    println!("cargo::rerun-if-changed={}", wit.display());
    let mut adapter = wat::parse_file(&text)?;
    embed(&mut adapter, &wit, "adapter", ADAPTER)?;
    fs::write(out.join("preview1.wasm"), adapter)?;
    for export in EXPORTS {
        let mut module = HEADER.to_vec();
        let world = format!("{PLUGIN} export windlass:{export}/{export}@0.1.0;");
        embed(&mut module, &wit, export, &world)?;
        let sections = module.split_off(HEADER.len());
        fs::write(out.join(export).with_extension("type"), sections)?;
    }
    Ok(())
}

/// Adds the type of a component with this world to a module.
fn embed(module: &mut Vec<u8>, wit: &Path, name: &str, world: &str) -> Result<()> {
    let mut resolve = Resolve::default();
    for name in PACKAGES {
        let package = wit.join(name).join("0.1.0");
        let read = resolve.push_dir(&package);
        read.with_context(|| format!("cannot read {}", package.display()))?;
    }
    // Worlds that are merged must not have the same name.
    let text = format!("package windlass:core-{name}; world core {{ {world} }}");
    let package = resolve.push_str("core.wit", &text)?;
    let world = resolve.select_world(&[package], Some("core"))?;
    embed_component_metadata(module, &resolve, world, StringEncoding::UTF8)
}
