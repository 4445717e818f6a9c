//! Compiles guests: the first-party plugins, the fixtures of the tests, or the
//! one crate of an author.

use crate::toolchain::Toolchain;
use crate::{component, place, progress};
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Compile guests into components.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The directory of one crate, instead of everything under plugins/.
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,

    /// Directory for the component of that crate [default: plugins/ of the target directory].
    #[arg(long, value_name = "DIR", requires = "path")]
    out: Option<PathBuf>,

    /// Only the node library, without the fixtures of the tests.
    #[arg(long, conflicts_with = "path")]
    library: bool,

    /// Also the examples that the tests run.
    #[arg(long, conflicts_with_all = ["path", "library"])]
    tests: bool,

    /// The target to compile for.
    #[arg(long, default_value = DEFAULT_TARGET)]
    target: String,
}

impl Args {
    /// Everything under plugins/.
    pub(crate) fn everything() -> Self {
        Self {
            path: None,
            out: None,
            library: false,
            tests: false,
            target: DEFAULT_TARGET.to_owned(),
        }
    }
}

/// The default target: it has no imports but those of the contract.
pub(crate) const DEFAULT_TARGET: &str = "wasm32-unknown-unknown";

/// The examples that the tests run, each a workspace as an author's is.
const EXAMPLES: [&str; 2] = ["examples/shout", "examples/guard"];

/// A crate that becomes a component.
struct Guest {
    /// The package's name, and the component's.
    name: String,
    /// Cargo's id of the package; a dependency might have the same name.
    id: String,
    /// The name of the compiled module, without its extension.
    module: String,
    /// The path of the component.
    out: PathBuf,
}

/// Compiles the guests that the arguments name.
pub(crate) fn run(args: &Args) -> Result<()> {
    let target_dir = place::target()?;
    let plugins = target_dir.join("plugins");
    if let Some(path) = &args.path {
        let out = args.out.as_ref().unwrap_or(&plugins);
        return build(path, &args.target, &|_| Some(out.clone()));
    }

    let source = place::root()?.join("plugins");
    let fixtures_source = source.join("fixtures");
    let fixtures = target_dir.join("fixtures");
    build(&source, &args.target, &|manifest| {
        let is_fixture = manifest.starts_with(&fixtures_source);
        match (is_fixture, args.library) {
            (false, _) => Some(plugins.clone()),
            (true, false) => Some(fixtures.clone()),
            (true, true) => None,
        }
    })?;
    if args.library {
        return Ok(());
    }
    assemble_all(&fixtures_source.join("text"), &fixtures)?;
    if args.tests {
        let out = target_dir.join("fixtures/author");
        for example in EXAMPLES {
            let example = place::root()?.join(example);
            build(&example, &args.target, &|_| Some(out.clone()))?;
        }
    }
    Ok(())
}

/// The directory for the component of the crate with this manifest; `None` omits the crate.
type Out<'a> = &'a dyn Fn(&Path) -> Option<PathBuf>;

/// Compiles the guests of a workspace.
fn build(directory: &Path, target: &str, out: Out<'_>) -> Result<()> {
    let manifest = std::path::absolute(directory.join("Cargo.toml"))?;
    if !manifest.exists() {
        bail!("there is no {}", manifest.display());
    }
    let guests = guests(&manifest, out)?;
    if guests.is_empty() {
        bail!(
            "no crate of {} makes a component: give its [lib] `crate-type = [\"cdylib\"]`",
            manifest.display()
        );
    }

    let guest_target = place::target()?.join("guests");
    let mut cargo = Toolchain::find(target)?.build(target)?;
    cargo
        .arg("--manifest-path")
        .arg(&manifest)
        .arg("--target-dir")
        .arg(&guest_target);
    for guest in &guests {
        cargo.args(["--package", &guest.id]);
    }
    eprintln!("guests: compiling {}", names(&guests));
    progress::run(&mut cargo)?;

    let compiled = guest_target.join(target).join("release");
    for guest in &guests {
        let module = compiled.join(&guest.module).with_extension("wasm");
        let bytes = std::fs::read(&module)
            .with_context(|| format!("cargo did not make {}", module.display()))?;
        let bytes = component::encode(bytes)
            .with_context(|| format!("{} does not become a component", guest.name))?;
        put(&guest.out.join(&guest.name), &bytes)?;
    }
    Ok(())
}

fn guests(manifest: &Path, out: Out<'_>) -> Result<Vec<Guest>> {
    let metadata = place::metadata(manifest)?;
    let packages = metadata.get("packages").and_then(|it| it.as_array());
    let packages = packages.context("cargo metadata lists no packages")?;
    // Cargo lists the whole workspace even for the manifest of one member.
    let is_asked_for = |package: &&serde_json::Value| {
        package.get("manifest_path").and_then(|it| it.as_str()) == manifest.to_str()
    };
    let is_member = packages.iter().any(|package| is_asked_for(&package));
    Ok(packages
        .iter()
        .filter(|package| !is_member || is_asked_for(package))
        .filter_map(|package| {
            let text = |of: &serde_json::Value, name| Some(of.get(name)?.as_str()?.to_owned());
            let targets = package.get("targets")?.as_array()?;
            let module = targets.iter().find(|target| {
                let kinds = target.get("crate_types").and_then(|it| it.as_array());
                kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind == "cdylib"))
            })?;
            Some(Guest {
                name: text(package, "name")?,
                id: text(package, "id")?,
                module: text(module, "name")?.replace('-', "_"),
                out: out(Path::new(&text(package, "manifest_path")?))?,
            })
        })
        .collect())
}

/// The fixtures that no compiler would produce: WebAssembly text, and files that are not
/// WebAssembly.
fn assemble_all(from: &Path, to: &Path) -> Result<()> {
    let entries = std::fs::read_dir(from)
        .with_context(|| format!("cannot list {}", from.display()))?
        .collect::<Result<Vec<_>, _>>()?;
    for path in entries.iter().map(std::fs::DirEntry::path) {
        let bytes = match path.extension().and_then(OsStr::to_str) {
            Some("wat") => component::assemble(&path)
                .with_context(|| format!("{} does not assemble", path.display()))?,
            _ => std::fs::read(&path)?,
        };
        let name = path.file_stem().context("a fixture has no name")?;
        put(&to.join(name), &bytes)?;
    }
    Ok(())
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let path = path.with_extension("wasm");
    if component::write(&path, bytes)? {
        eprintln!(
            "guests: {} ({} KB)",
            path.display(),
            bytes.len().div_ceil(1000)
        );
    }
    Ok(())
}

fn names(guests: &[Guest]) -> String {
    let names: Vec<_> = guests.iter().map(|guest| guest.name.as_str()).collect();
    names.join(", ")
}
