//! Debian's packaged compiler: installed as root, or unpacked beside the build if it cannot be
//! installed or would remove other packages.

use crate::place;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler, the sources of the standard library, and the linker.
const PACKAGES: [&str; 4] = ["rustc-web", "rust-web-src", "rust-web-llvm", "lld-22"];
/// Additional packages for an unpacked compiler.
const LIBRARIES: [&str; 3] = ["libllvm22", "libstd-rust-web-1.96", "libstd-rust-web-dev"];

/// Debian's compiler, in the system or unpacked somewhere.
pub(crate) struct Debian {
    /// `/`, or the directory that the packages were unpacked to.
    prefix: PathBuf,
}

impl Debian {
    fn at(prefix: impl Into<PathBuf>) -> Self {
        Self {
            prefix: prefix.into(),
        }
    }

    /// The compiler.
    pub(crate) fn rustc(&self) -> PathBuf {
        self.prefix.join("usr/bin/rustc")
    }

    /// The variables by which cargo uses this compiler.
    pub(crate) fn environment(&self) -> Result<Vec<(&'static str, OsString)>> {
        let mut variables = vec![("RUSTC", self.rustc().into())];
        if !self.is_installed() {
            variables.push(("LD_LIBRARY_PATH", self.libraries()?));
            variables.push(("PATH", joined(&self.prefix.join("usr/bin"), "PATH")?));
        }
        Ok(variables)
    }

    fn is_installed(&self) -> bool {
        self.prefix == Path::new("/")
    }

    fn libraries(&self) -> Result<OsString> {
        let architecture = std::env::consts::ARCH;
        let directory = format!("usr/lib/{architecture}-linux-gnu");
        joined(&self.prefix.join(directory), "LD_LIBRARY_PATH")
    }

    /// Whether the compiler, the sources and a linker are all present. Another `/usr/bin/rustc`,
    /// without the sources, does not suffice.
    fn is_complete(&self) -> bool {
        let sources = "usr/lib/rustlib/src/rust/library/std/Cargo.toml";
        self.rustc().exists()
            && self.prefix.join(sources).exists()
            && self.prefix.join("usr/bin/wasm-ld-22").exists()
    }
}

/// Whether Debian's compiler is present or can be installed.
pub(crate) fn is_possible() -> bool {
    Debian::at("/").is_complete() || unpacked().is_ok_and(|it| it.is_complete()) || has_package()
}

/// Finds the compiler, or installs it.
pub(crate) fn prepare() -> Result<Debian> {
    let installed = Debian::at("/");
    if installed.is_complete() {
        return Ok(installed);
    }
    let unpacked = unpacked()?;
    if unpacked.is_complete() {
        return Ok(unpacked);
    }
    if is_root()? {
        eprintln!("guests: reading Debian's package lists");
        place::run(apt().args(["update", "-qq"]))?;
        if removes_nothing()? {
            eprintln!("guests: installing {}", PACKAGES.join(" "));
            place::run(&mut install(&["-qq"]))?;
            return Ok(installed);
        }
    }
    unpack(&unpacked)?;
    anyhow::ensure!(
        unpacked.is_complete(),
        "Debian's packages were unpacked to {}, but there is no complete compiler in them",
        unpacked.prefix.display(),
    );
    Ok(unpacked)
}

fn unpacked() -> Result<Debian> {
    Ok(Debian::at(place::target()?.join("guest-toolchain")))
}

fn has_package() -> bool {
    let mut show = Command::new("apt-cache");
    show.args(["policy", "rustc-web"]);
    // The package is unknown until the package lists are read.
    let known = place::output(&mut show).is_ok_and(|text| text.contains("Candidate: 1"));
    known || may_install().unwrap_or(false)
}

/// Whether this is a Debian on which this program may install packages.
pub(crate) fn may_install() -> Result<bool> {
    Ok(Path::new("/etc/debian_version").exists() && is_root()?)
}

/// Installs packages from Debian's archive.
pub(crate) fn install_packages(packages: &[&str]) -> Result<()> {
    place::run(apt().args(["update", "-qq"]))?;
    place::run(
        apt()
            .args(["install", "-qq", "--yes", "--no-install-recommends"])
            .args(packages),
    )
}

fn is_root() -> Result<bool> {
    Ok(place::output(Command::new("id").arg("-u"))?.trim() == "0")
}

fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn install(options: &[&str]) -> Command {
    let mut command = apt();
    command
        .args(["install", "--yes", "--no-install-recommends"])
        .args(options)
        .args(PACKAGES);
    command
}

/// Whether the installation removes no package. The packages conflict with Debian's own `rustc` and
/// `rustup`, which the owner of this machine may need.
fn removes_nothing() -> Result<bool> {
    let plan = place::output(&mut install(&["--simulate"]))?;
    Ok(!plan.lines().any(|line| line.starts_with("Remv ")))
}

fn unpack(to: &Debian) -> Result<()> {
    eprintln!(
        "guests: downloading Debian's compiler and unpacking it to {}",
        to.prefix.display()
    );
    unpack_listed(&[&PACKAGES[..], &LIBRARIES].concat(), &to.prefix)
}

/// Reads Debian's package lists, and unpacks packages into a directory, without installing them.
pub(crate) fn unpack_packages(packages: &[&str], to: &Path) -> Result<()> {
    place::run(apt().args(["update", "-qq"]))?;
    unpack_listed(packages, to)
}

/// As [`unpack_packages`], with the lists as they are.
fn unpack_listed(packages: &[&str], to: &Path) -> Result<()> {
    let archives = to.with_extension("archives");
    std::fs::create_dir_all(&archives)
        .with_context(|| format!("cannot create {}", archives.display()))?;
    place::run(
        apt()
            .args(["download", "-qq"])
            .args(packages)
            .current_dir(&archives),
    )?;
    for entry in std::fs::read_dir(&archives)? {
        let archive = entry?.path();
        let mut extract = Command::new("dpkg");
        place::run(extract.arg("-x").arg(&archive).arg(to))?;
    }
    std::fs::remove_dir_all(&archives)?;
    Ok(())
}

fn joined(first: &Path, variable: &str) -> Result<OsString> {
    let rest = std::env::var_os(variable).unwrap_or_default();
    let rest = std::env::split_paths(&rest).filter(|path| !path.as_os_str().is_empty());
    Ok(std::env::join_paths(
        std::iter::once(first.to_owned()).chain(rest),
    )?)
}
