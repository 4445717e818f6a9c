//! Builds the host's programs.

use crate::{guests, place, progress};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prints the step that begins.
pub(crate) fn say(text: &str) {
    eprintln!("==> {text}");
}

/// Builds the guests, and then the programs.
pub(crate) fn build() -> Result<()> {
    guests::run(&guests::Args::everything())?;
    let programs = release()?;
    say(&format!("{} is built", programs.join("windlass").display()));
    Ok(())
}

/// The packages with programs. They are always built together, since another selection would enable
/// other features of their dependencies, and compile these again.
const PROGRAMS: [&str; 3] = ["windlass-cli", "windlass-example-prices", "windlass-tests"];

/// Builds the programs in the release profile, with the guests that are built, and returns their
/// directory.
pub(crate) fn release() -> Result<PathBuf> {
    programs(&["windlass", "windlass-example-prices", "windlass-bench"])
}

/// Builds programs in the release profile, with the guests that are built, and returns their
/// directory.
pub(crate) fn programs(names: &[&str]) -> Result<PathBuf> {
    let packer = "windlass-library";
    let usually = progress::usually(LIBRARIES);
    say(&format!(
        "building WebAssembly's compiler and the packer of the node library; {usually}"
    ));
    progress::run(&mut cargo_build(place::cargo(), &[packer])?)?;
    let programs = place::target()?.join("release");
    pack(&programs.join(packer))?;
    say(&format!(
        "building {}; {}",
        names.join(", "),
        progress::usually(HOST)
    ));
    progress::run(&mut cargo_build(place::cargo_with_library()?, names)?)?;
    Ok(programs)
}

/// Minutes of one processor for a first build: the packer with the libraries of the host, and the
/// host after that.
const LIBRARIES: usize = 9;
const HOST: usize = 4;

fn cargo_build(mut command: Command, programs: &[&str]) -> Result<Command> {
    command
        .args(["build", "--release"])
        .current_dir(place::root()?);
    for package in PROGRAMS {
        command.args(["--package", package]);
    }
    for program in programs {
        command.args(["--bin", program]);
    }
    Ok(command)
}

/// Packs the components of the library that are built. The directory may hold others, which an
/// author put there.
fn pack(packer: &Path) -> Result<()> {
    let built = place::target()?.join("plugins");
    let mut components = Vec::new();
    for entry in std::fs::read_dir(place::root()?.join("plugins"))? {
        let entry = entry?;
        let component = built.join(entry.file_name()).with_extension("wasm");
        if entry.path().join("Cargo.toml").is_file() && component.is_file() {
            components.push(component);
        }
    }
    components.sort();
    place::run(
        Command::new(packer)
            .arg(place::library()?)
            .args(&components),
    )
}
