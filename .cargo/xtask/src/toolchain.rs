//! Finds a compiler for guests. The target's standard library is missing on most machines, and some
//! machines cannot download it.

use crate::debian::{self, Debian};
use crate::place;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// The variable that selects one way.
const FORCE: &str = "WINDLASS_GUEST_TOOLCHAIN";

/// The variable with the flags that the compiler gets from this program as its wrapper.
const REMAPPED: &str = "WINDLASS_REMAPPED_PATHS";

/// Between these flags.
const SEPARATOR: &str = "\x1f";

/// A way to compile for a target.
pub(crate) enum Toolchain {
    /// The current toolchain has the target's standard library.
    Installed,
    /// Debian's compiler, with the standard library built from its sources.
    Debian(Debian),
}

impl Toolchain {
    /// Takes the first way that works here, and prints it.
    pub(crate) fn find(target: &str) -> Result<Self> {
        let forced = std::env::var(FORCE).ok();
        match forced.as_deref() {
            None => Self::first(target),
            Some("installed") => {
                if !is_installed(target)? {
                    bail!(
                        "{FORCE}=installed, but the current toolchain has no standard library \
                         for {target}: unset it, or install that"
                    );
                }
                Ok(Self::installed(target))
            }
            Some("debian") => Ok(Self::debian(debian::prepare()?)),
            Some("rustup") => Self::rustup(target),
            Some(other) => {
                bail!("{FORCE} is {other:?}: it may be `installed`, `debian` or `rustup`")
            }
        }
    }

    fn first(target: &str) -> Result<Self> {
        if is_installed(target)? {
            return Ok(Self::installed(target));
        }
        if debian::is_possible() {
            return Ok(Self::debian(debian::prepare()?));
        }
        Self::rustup(target).with_context(|| {
            format!(
                "there is no way to compile for {target}: the current toolchain has no standard \
                 library for it, this is no Debian with the package rustc-web, and rustup \
                 did not help"
            )
        })
    }

    fn installed(target: &str) -> Self {
        eprintln!("guests: using the current toolchain, which has {target} installed");
        Self::Installed
    }

    fn debian(debian: Debian) -> Self {
        eprintln!(
            "guests: using Debian's {}; its standard library is built from source once, \
             which takes about half a minute",
            debian.rustc().display(),
        );
        Self::Debian(debian)
    }

    fn rustup(target: &str) -> Result<Self> {
        eprintln!("guests: adding {target} to the current toolchain by rustup");
        place::run(Command::new("rustup").args(["target", "add", target]))?;
        Ok(Self::Installed)
    }

    /// `cargo build` for the target, with the options of this way.
    pub(crate) fn build(&self, target: &str) -> Result<Command> {
        let mut command = place::cargo();
        command
            .envs(self.environment()?)
            .env_remove("RUSTFLAGS")
            .args(["build", "--release", "--target", target]);
        Ok(command)
    }

    /// The variables by which cargo compiles for the target in this way.
    pub(crate) fn environment(&self) -> Result<Vec<(&'static str, OsString)>> {
        let mut variables = vec![
            // Flags for the host's processor would not suit the target.
            ("CARGO_ENCODED_RUSTFLAGS", OsString::new()),
            ("RUSTC_WRAPPER", std::env::current_exe()?.into()),
            (REMAPPED, remapped_paths()?.join(SEPARATOR).into()),
        ];
        if let Self::Debian(debian) = self {
            variables.extend(debian.environment()?);
            // Cargo calls the feature unstable; Debian's compiler allows it.
            variables.push(("RUSTC_BOOTSTRAP", "1".into()));
            variables.push(("CARGO_UNSTABLE_BUILD_STD", "std,panic_abort".into()));
        }
        Ok(variables)
    }
}

/// Runs the compiler, if cargo has called this program as its wrapper, and returns its status.
///
/// The paths of one machine must not change the digest of a component. Cargo does not know the flags
/// that the wrapper adds, so clones that share a target directory share the standard library there,
/// which cargo would compile again for each other path of a clone.
pub(crate) fn wrapped() -> Result<Option<i32>> {
    let Ok(flags) = std::env::var(REMAPPED) else {
        return Ok(None);
    };
    let mut arguments = std::env::args_os().skip(1);
    let compiler: OsString = arguments.next().context("cargo names no compiler")?;
    let status = Command::new(&compiler)
        .args(arguments)
        .args(flags.split(SEPARATOR))
        .env_remove(REMAPPED)
        .status()
        .with_context(|| format!("cannot run {}", compiler.display()))?;
    Ok(Some(status.code().unwrap_or(1)))
}

fn is_installed(target: &str) -> Result<bool> {
    let sysroot = place::output(rustc().args(["--print", "sysroot"]))?;
    let library = Path::new(sysroot.trim_end())
        .join("lib/rustlib")
        .join(target)
        .join("lib");
    Ok(holds_file(&library, "libstd-"))
}

fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

fn holds_file(directory: &Path, prefix: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return false;
    };
    entries
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
}

fn remapped_paths() -> Result<Vec<String>> {
    let from_to = [
        (Some(place::root()?), "/windlass"),
        (place::cargo_home(), "/cargo"),
    ];
    Ok(from_to
        .iter()
        .filter_map(|(from, to)| Some((from.as_ref()?, to)))
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .collect())
}
