//! `windlass plugin warm`.

use serde_json::json;
use windlass_plugins::LoadEvent;

use crate::app::Context;
use crate::exit::Exit;
use crate::output;
use crate::wire::{self, Machine, compile};

/// Compiles everything that a host with this configuration would compile.
pub(super) fn warm(context: &Context, machine: &Machine) -> anyhow::Result<Exit> {
    let output = &context.output;
    let host = machine.host(compile::noted(*output))?;
    let (mut files, mut failed) = (0_u64, 0_u64);
    for event in host.scan(&wire::plugin_directories(&machine.config)) {
        match event {
            LoadEvent::Loaded { .. } => files += 1,
            LoadEvent::Failed { file, error, .. } => {
                failed += 1;
                let file = output::file(&file);
                output.warn(&format!("[{}] {file}: {}", error.code, error.message));
            }
            LoadEvent::Ignored { path, why } => {
                output.warn(&format!("{} is ignored: {why}", output::file(&path)));
            }
            LoadEvent::Compiling { .. }
            | LoadEvent::Compiled { .. }
            | LoadEvent::Removed { .. } => {}
        }
    }
    while host.compile_bundle()?.is_some() {}
    let cache = wire::cache(&machine.config)?;
    let cache = cache.display().to_string();
    let item = json!({ "compiled": files, "failed": failed, "cache": cache });
    output.show(&item, || {
        format!("The code of {files} plugins is in {cache}")
    })?;
    Ok(match failed {
        0 => Exit::Done,
        _ => Exit::Plugin,
    })
}
