//! `windlass plugin build`: the component of a plugin's project.
//!
//! The component is loaded here as a host loads it, so a build refuses what a host would refuse. The
//! file is replaced by renaming: a running host never sees a part of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};
use windlass_plugins::{Host, Plugin};

use super::languages::{self, Engine};
use super::list::summary;
use super::new::project;
use crate::app::Context;
use crate::codes;
use crate::commands::took;
use crate::config::Config;
use crate::error::Expected;
use crate::exit::Exit;
use crate::output;
use crate::wire::{Machine, compile};

/// The arguments.
#[derive(Debug, Args)]
#[command(
    after_help = "The component is PACKAGE.wasm, in the plugin folder of the project of workflows \
                  that DIR is in (`windlass init`). Without such a project it is in DIR itself."
)]
pub(crate) struct Arguments {
    /// The directory of the plugin [default: the current directory]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// The folder for the component
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The engine of JavaScript inside the component [default: that of package.json, or quickjs]
    #[arg(long, value_enum)]
    engine: Option<Engine>,
}

/// A component that takes more than this many bytes is worth a warning: hosts compile it for
/// seconds.
const LARGE_BYTES: usize = 2 << 20;

/// A component that was built and loaded.
pub(super) struct Built {
    /// Its file.
    pub(super) file: PathBuf,
    /// Its size in bytes.
    pub(super) bytes: usize,
    /// Whether the file has changed.
    pub(super) changed: bool,
    /// The component.
    pub(super) plugin: Arc<Plugin>,
    /// What its author should know.
    pub(super) warnings: Vec<String>,
}

impl Arguments {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = Machine::new(context.configure("error")?)?;
        let project = project(self.directory);
        let folder = match self.out {
            Some(out) => out,
            None => folder(context, &machine.config, &project),
        };
        let host = machine.host(compile::noted(context.output))?;
        let begun = machine.clock.monotonic();
        let built = build_with(&host, &project, &folder, self.engine)?;
        let time = machine.clock.monotonic().saturating_sub(begun);
        let output = &context.output;
        built
            .warnings
            .iter()
            .for_each(|warning| output.warn(warning));
        let plugin = &built.plugin;
        let mut item = summary(plugin);
        if let Value::Object(members) = &mut item {
            members.insert("file".into(), json!(built.file));
            members.insert("bytes".into(), json!(built.bytes));
            members.insert("changed".into(), json!(built.changed));
            members.insert("warnings".into(), json!(built.warnings));
        }
        output.show(&item, || {
            let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            let nodes = plugin.description.nodes.iter().map(|node| node.id.as_ref());
            let mut has: Vec<&str> = nodes.collect();
            has.extend(
                plugin
                    .description
                    .consumer
                    .as_ref()
                    .map(|_| "a trigger consumer"),
            );
            let file = output::file(&built.file);
            let made = if built.changed { "made" } else { "unchanged" };
            format!(
                "{file} is {made}: {} with {}, {}, in {}",
                plugin.name(),
                has.join(", "),
                size(built.bytes),
                took(us)
            )
        })?;
        Ok(Exit::Done)
    }
}

/// A number of bytes for people.
pub(super) fn size(bytes: usize) -> String {
    match bytes {
        0..=1_048_575 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

/// The folder for the component of a plugin: that of the workflow project around it, or its own.
pub(super) fn folder(context: &Context, config: &Config, project: &Path) -> PathBuf {
    let folder = &config.plugins.directory;
    let is_set =
        context.sources.project_file().is_some() || *folder != Config::default().plugins.directory;
    if is_set {
        folder.clone()
    } else {
        project.to_owned()
    }
}

/// Builds a project, loads the component, and writes it into the folder.
pub(super) fn build(host: &Host, project: &Path, folder: &Path) -> anyhow::Result<Built> {
    build_with(host, project, folder, None)
}

fn build_with(
    host: &Host,
    project: &Path,
    folder: &Path,
    engine: Option<Engine>,
) -> anyhow::Result<Built> {
    let language = languages::of(project)?;
    let module = match engine {
        None => language.build(project)?,
        Some(engine) => language.build_with(project, engine)?,
    };
    let subject = project
        .canonicalize()
        .unwrap_or_else(|_| project.to_owned());
    let subject = subject.display().to_string();
    let component = windlass_plugins::component(&subject, module)?;
    let bytes = component.len();
    let plugin = host.load_bytes(&subject, component.clone())?;
    let file = folder.join(format!("{}.wasm", plugin.description.package));
    let changed = write(&file, &component).map_err(|error| {
        let text = format!("{} cannot be written: {error}", file.display());
        Expected::new(codes::OUTPUT, text).help("Name another folder with `--out DIR`.")
    })?;
    let warnings = warnings(&plugin, bytes);
    Ok(Built {
        file,
        bytes,
        changed,
        plugin,
        warnings,
    })
}

/// Replaces a file, unless it has this content already. Returns whether it was replaced.
fn write(file: &Path, bytes: &[u8]) -> std::io::Result<bool> {
    if std::fs::read(file).is_ok_and(|existing| existing == bytes) {
        return Ok(false);
    }
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    // No host reads a file of this name.
    let mut new = tempfile::Builder::new()
        .prefix(".windlass-")
        .suffix(".new")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)?;
    std::io::Write::write_all(&mut new, bytes)?;
    new.as_file().sync_all()?;
    new.persist(file).map_err(|error| error.error)?;
    Ok(true)
}

/// What the author should know about a component that a host loads.
pub(super) fn warnings(plugin: &Plugin, bytes: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    if bytes > LARGE_BYTES {
        let size = size(bytes);
        warnings.push(format!(
            "the component has {size}: each host compiles it for seconds when it first sees it"
        ));
    }
    let imports = |interface: &str| {
        let mut names = plugin.imports.iter();
        names.any(|name| name.split('@').next() == Some(interface))
    };
    let nodes = &plugin.description.nodes;
    let asks = |what: &str| {
        nodes
            .iter()
            .any(|node| node.capabilities.iter().any(|it| it == what))
    };
    for (capability, interface) in [
        ("http", "windlass:http/http"),
        ("secrets", "windlass:http/http"),
        ("events", "windlass:events/events"),
    ] {
        if asks(capability) && !imports(interface) {
            warnings.push(format!(
                "a node asks for the capability `{capability}`, and the component does not import \
                 {interface}: take the capability out, so that no operator has to grant it"
            ));
        }
    }
    for (capability, interface) in [
        ("http", "windlass:http/http"),
        ("events", "windlass:events/events"),
    ] {
        if !asks(capability) && imports(interface) && !nodes.is_empty() {
            warnings.push(format!(
                "the component imports {interface}, and no node asks for the capability \
                 `{capability}`: no operator can grant it, and each call of the interface fails"
            ));
        }
    }
    let refused: Vec<&str> = plugin.refused_imports().collect();
    if refused.iter().any(|name| name.starts_with("wasi:http/")) {
        warnings.push(
            "the component imports wasi:http, and each request by it is refused: send requests by \
             windlass:http, or build without it"
                .to_owned(),
        );
    }
    let others: Vec<&str> = refused
        .into_iter()
        .filter(|name| !name.starts_with("wasi:http/"))
        .collect();
    if !others.is_empty() {
        warnings.push(format!(
            "the component imports {}, and the host refuses every access by them",
            others.join(", ")
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_only_if_it_changes() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a/b/x.wasm");
        assert!(write(&file, b"one").unwrap());
        assert!(!write(&file, b"one").unwrap());
        assert!(write(&file, b"two").unwrap());
        assert_eq!(std::fs::read(&file).unwrap(), b"two");
        // Nothing else is left in the folder.
        assert_eq!(
            std::fs::read_dir(file.parent().unwrap()).unwrap().count(),
            1
        );
    }
}
