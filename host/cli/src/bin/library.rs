//! Packs components into the node library of a program: `windlass-library BUNDLE COMPONENT…`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use windlass_plugins::{Host, Options};
use windlass_runtime::SystemClock;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let bundle_file = arguments.next();
    let bundle_file = bundle_file.context("usage: windlass-library BUNDLE COMPONENT…")?;
    let mut components = Vec::new();
    for file in arguments {
        let name = file.file_stem().context("a component has no name")?;
        let name = name.to_string_lossy().into_owned();
        let bytes = std::fs::read(&file);
        let bytes = bytes.with_context(|| format!("cannot read {}", file.display()))?;
        components.push((name, bytes));
    }
    let scratch = tempfile::tempdir()?;
    let io = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let options = Options::in_dir(scratch.path());
    let host = Host::start(options, Arc::new(SystemClock::new()), io.handle().clone())?;
    let bundle = host.pack(components)?;
    // The program is built again only if the library is another one.
    if std::fs::read(&bundle_file).is_ok_and(|there| there == bundle) {
        return Ok(());
    }
    std::fs::write(&bundle_file, &bundle)
        .with_context(|| format!("cannot write {}", bundle_file.display()))
}
