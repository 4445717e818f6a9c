//! Builds the host's programs.

use crate::selection::{self, Selection};
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

/// The packages with programs, for builds without the features of tests. They are always built
/// together, since another selection would enable other features of their dependencies, and compile
/// these again.
const RELEASED: [&str; 6] = [
    "--package",
    "windlass-cli",
    "--package",
    "windlass-example-prices",
    "--package",
    "windlass-tests",
];

/// The program that packs the node library.
const PACKER: &str = "windlass-library";

/// How programs are built.
pub(crate) struct Profile {
    /// The name of the profile in `Cargo.toml`.
    pub(crate) name: &'static str,
    /// The name of its directory.
    pub(crate) directory: &'static str,
    /// The arguments that select packages and features.
    pub(crate) selection: &'static [&'static str],
    /// Variables of the build.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// Minutes of one processor for a first build, if they are known: the packer with the libraries
    /// of the host, and the host after that.
    pub(crate) usually: Option<[usize; 2]>,
}

impl Profile {
    /// The profile of tests and of a first look, which takes less time to build than a release.
    fn dev() -> Self {
        Self {
            name: "dev",
            directory: "debug",
            selection: &selection::PROGRAMS,
            environment: Vec::new(),
            usually: Some([17, 2]),
        }
    }

    /// The profile for work and for measuring.
    pub(crate) fn release() -> Self {
        Self {
            name: "release",
            directory: "release",
            selection: &RELEASED,
            environment: Vec::new(),
            usually: Some([23, 3]),
        }
    }
}

/// Builds the programs in the release profile, with the guests that are built, and returns their
/// directory.
pub(crate) fn release() -> Result<PathBuf> {
    let names = ["windlass", "windlass-example-prices", "windlass-bench"];
    programs(&Profile::release(), &names)
}

/// Builds the packer in the profile of development, as a first step that needs no guests.
pub(crate) fn packer() -> Result<()> {
    build_packer(&Profile::dev())
}

/// Builds these programs in the profile of development, with the guests that are built, and returns
/// their directory.
pub(crate) fn dev(names: &[&str]) -> Result<PathBuf> {
    programs(&Profile::dev(), names)
}

/// The directory of the programs in the profile of development, which are built.
pub(crate) fn built() -> Result<PathBuf> {
    Ok(place::target()?.join(Profile::dev().directory))
}

/// Builds these tests and the programs that they run, with the guests that are built, and returns
/// the directory of the programs.
pub(crate) fn tests(selection: &Selection) -> Result<PathBuf> {
    let profile = Profile::dev();
    let directory = built()?;
    if selection.program {
        build_packer(&profile)?;
        pack(&directory.join(PACKER))?;
    }
    say("building the tests and the programs that they run");
    let mut names = Vec::new();
    if selection.servers {
        names.push("windlass-test-servers");
    }
    if selection.program {
        names.extend(["windlass", "windlass-example-prices"]);
    }
    if names.is_empty() {
        return Ok(directory);
    }
    let mut command = cargo_build(place::cargo_with_library()?, &profile, &names)?;
    if selection.is_everything() {
        command.args(["--bin", "windlass-fuzz", "--tests"]);
    }
    progress::run(&mut command)?;
    Ok(directory)
}

/// Builds programs with the guests that are built, and returns their directory.
pub(crate) fn programs(profile: &Profile, names: &[&str]) -> Result<PathBuf> {
    build_packer(profile)?;
    let directory = place::target()?.join(profile.directory);
    pack(&directory.join(PACKER))?;
    let usually = profile.usually.map(|[_, host]| progress::usually(host));
    say(&format!(
        "building {}{}",
        names.join(", "),
        usually.unwrap_or_default()
    ));
    progress::run(&mut cargo_build(
        place::cargo_with_library()?,
        profile,
        names,
    )?)?;
    Ok(directory)
}

fn build_packer(profile: &Profile) -> Result<()> {
    let usually = profile.usually.map(|[packer, _]| progress::usually(packer));
    say(&format!(
        "building WebAssembly's compiler and the packer of the node library{}",
        usually.unwrap_or_default()
    ));
    progress::run(&mut cargo_build(
        place::cargo_with_library()?,
        profile,
        &[PACKER],
    )?)
}

fn cargo_build(mut command: Command, profile: &Profile, programs: &[&str]) -> Result<Command> {
    command
        .args(["build", "--profile", profile.name])
        .args(profile.selection)
        .envs(
            profile
                .environment
                .iter()
                .map(|(name, value)| (name, value)),
        )
        .current_dir(place::root()?);
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
    for library in library()? {
        let component = built.join(library).with_extension("wasm");
        if component.is_file() {
            components.push(component);
        }
    }
    place::run(
        Command::new(packer)
            .arg(place::library()?)
            .args(&components),
    )
}

/// The names of the components of the library, in order.
pub(crate) fn library() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(place::root()?.join("plugins"))? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}
