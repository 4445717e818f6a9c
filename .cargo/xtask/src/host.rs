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

/// How programs are built.
pub(crate) struct Profile {
    /// The name of the profile in `Cargo.toml`.
    pub(crate) name: &'static str,
    /// The name of its directory.
    pub(crate) directory: &'static str,
    /// Whether the programs are those of the tests, which have failpoints in them.
    pub(crate) tests: bool,
    /// Variables of the build.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// Minutes of one processor for a first build, if they are known: the packer with the libraries
    /// of the host, and the host after that.
    pub(crate) usually: Option<[usize; 2]>,
}

impl Profile {
    /// The profile of a first look, which takes less time to build than a release.
    fn dev() -> Self {
        Self {
            name: "dev",
            directory: "debug",
            tests: false,
            environment: Vec::new(),
            usually: Some([15, 2]),
        }
    }

    fn release() -> Self {
        Self {
            name: "release",
            directory: "release",
            tests: false,
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

/// Builds these programs in the profile of development, with the guests that are built, and returns
/// their directory.
pub(crate) fn dev(names: &[&str]) -> Result<PathBuf> {
    programs(&Profile::dev(), names)
}

/// Builds the programs that the tests run, with the guests that are built, and returns their
/// directory.
pub(crate) fn tested() -> Result<PathBuf> {
    let profile = Profile {
        tests: true,
        ..Profile::dev()
    };
    programs(&profile, &["windlass", "windlass-example-prices"])
}

/// Builds programs with the guests that are built, and returns their directory.
pub(crate) fn programs(profile: &Profile, names: &[&str]) -> Result<PathBuf> {
    let packer = "windlass-library";
    let say_usually = |minutes| format!("; {}", progress::usually(minutes));
    let usually = profile.usually.map(|both| both.map(say_usually));
    let [libraries, host] = usually.unwrap_or_default();
    say(&format!(
        "building WebAssembly's compiler and the packer of the node library{libraries}"
    ));
    progress::run(&mut cargo_build(place::cargo(), profile, &[packer])?)?;
    let programs = place::target()?.join(profile.directory);
    pack(&programs.join(packer))?;
    say(&format!("building {}{host}", names.join(", ")));
    progress::run(&mut cargo_build(
        place::cargo_with_library()?,
        profile,
        names,
    )?)?;
    Ok(programs)
}

fn cargo_build(mut command: Command, profile: &Profile, programs: &[&str]) -> Result<Command> {
    command
        .args(["build", "--profile", profile.name])
        .envs(
            profile
                .environment
                .iter()
                .map(|(name, value)| (name, value)),
        )
        .current_dir(place::root()?);
    if profile.tests {
        // As the tests themselves are built, so that nothing is compiled twice.
        command.args(["--workspace", "--all-features"]);
    } else {
        for package in PROGRAMS {
            command.args(["--package", package]);
        }
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
