//! `cargo xtask dist`: makes the things to install.
//!
//! An archive with the program, its licences, documents and completions; the symbols of the program
//! in an archive of their own; a Debian package; an SBOM; checksums. Two clones at different paths
//! make the same bytes on machines with the same tools: entries are sorted, times are those of the
//! commit (or `SOURCE_DATE_EPOCH`), and no path of the machine is in the program.

mod binary;
mod crates;
mod debian;
mod documents;
mod licences;
mod sbom;
mod tree;

use crate::{guests, host, place};
use anyhow::{Context, Result};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tree::Tree;

/// Make the archive, the Debian package, the SBOM and their checksums.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Package this program, which `cargo xtask dist` has built before, instead of building it.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// A distribution of one version for one target.
struct Release {
    version: String,
    /// Like `x86_64-unknown-linux-gnu`.
    target: String,
    /// The time of all files, in seconds since 1970.
    time: u64,
    /// The directory of the products.
    out: PathBuf,
}

impl Release {
    fn find() -> Result<Self> {
        let rustc = place::output(Command::new(rustc()).arg("-vV"))?;
        let target = rustc.lines().find_map(|line| line.strip_prefix("host: "));
        let time = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(text) => text,
            Err(_) => place::output(
                Command::new("git")
                    .args(["log", "-1", "--format=%ct"])
                    .current_dir(place::root()?),
            )?,
        };
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            target: target.context("rustc names no host")?.to_owned(),
            time: time
                .trim()
                .parse()
                .context("SOURCE_DATE_EPOCH is no number")?,
            out: place::target()?.join("dist-out"),
        })
    }

    /// The name of the archive without its ending.
    fn name(&self) -> String {
        format!("windlass-{}-{}", self.version, self.target)
    }
}

fn rustc() -> std::ffi::OsString {
    std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}

/// Makes everything.
pub(crate) fn run(args: &Args) -> Result<()> {
    let release = Release::find()?;
    let program = match &args.program {
        Some(program) => program.clone(),
        None => {
            guests::run(&guests::Args::everything())?;
            host::programs(&binary::profile()?, &["windlass"])?.join("windlass")
        }
    };
    let _ = std::fs::remove_dir_all(&release.out);
    std::fs::create_dir_all(&release.out)?;
    host::say("taking the symbols out of the program");
    let parts = binary::split(&program, &release.out.join("stage"))?;
    host::say("collecting licences, documents, completions and manual pages");
    let crates = crates::all(&release.target)?;
    let tree = contents(&release, &parts.program, &crates)?;
    host::say("writing the archives");
    let name = release.name();
    let mut products = vec![
        tree.archive(&release, &name)?,
        symbols(&parts)?.archive(&release, &format!("{name}-symbols"))?,
    ];
    let bill = release.out.join(format!("{name}.cdx.json"));
    std::fs::write(&bill, sbom::text(&release, &crates)?)?;
    products.push(bill);
    products.push(debian::make(&release, &tree)?);
    std::fs::write(release.out.join("SHA256SUMS"), sums(&products)?)?;
    std::fs::remove_dir_all(release.out.join("stage"))?;
    for product in &products {
        let bytes = std::fs::metadata(product)?.len();
        host::say(&format!(
            "{} ({} KB)",
            product.display(),
            bytes.div_ceil(1000)
        ));
    }
    Ok(())
}

/// The files of the archive.
fn contents(release: &Release, program: &Path, crates: &[crates::Crate]) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.add("bin/windlass", 0o755, read(program)?);
    tree.add("THIRD-PARTY-LICENSES.txt", 0o644, licences::text(crates)?);
    if let Some(library) = licences::standard_library()? {
        tree.add("RUST-STANDARD-LIBRARY-LICENSES.html", 0o644, library);
    }
    // A `windlass.toml` at the top would be the project file of commands that are run there.
    for (file, to) in [
        ("windlass.service", "service/windlass.service"),
        ("windlass.toml", "service/windlass.toml"),
        ("Containerfile", "Containerfile"),
    ] {
        tree.add(to, 0o644, read(&package(file)?)?);
    }
    documents::add(&mut tree)?;
    let stage = release.out.join("stage");
    generated(program, &stage, &mut tree)?;
    Ok(tree)
}

/// Completions and manual pages, as the program itself writes them.
fn generated(program: &Path, stage: &Path, tree: &mut Tree) -> Result<()> {
    for (shell, file) in [
        ("bash", "completions/windlass.bash"),
        ("zsh", "completions/_windlass"),
        ("fish", "completions/windlass.fish"),
    ] {
        let script = place::output(Command::new(program).args(["completions", shell]))?;
        tree.add(file, 0o644, script);
    }
    let pages = stage.join("man");
    place::run(Command::new(program).arg("man").arg(&pages))?;
    tree.add_directory("man", &pages)
}

/// The symbols beside the name of the program: debuggers look for them in its directory.
fn symbols(parts: &binary::Parts) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.add(binary::SYMBOLS, 0o644, read(&parts.symbols)?);
    Ok(tree)
}

/// A source of the packages.
fn package(name: &str) -> Result<PathBuf> {
    Ok(place::root()?.join(".cargo/xtask/package").join(name))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The checksums, as `sha256sum --check` reads them.
fn sums(products: &[PathBuf]) -> Result<String> {
    let mut text = String::new();
    for product in products {
        let name = product.file_name().unwrap_or_default().to_string_lossy();
        for byte in Sha256::digest(read(product)?) {
            write!(text, "{byte:02x}")?;
        }
        writeln!(text, "  {name}")?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tool that only some systems have.
    fn has(tool: &str) -> bool {
        Command::new(tool).arg("--version").output().is_ok()
    }

    #[test]
    fn systemd_accepts_the_unit() {
        if !has("systemd-analyze") {
            return;
        }
        let unit = read(&package("windlass.service").unwrap()).unwrap();
        // The program is not installed where the tests run.
        let unit = String::from_utf8(unit)
            .unwrap()
            .replace("/usr/bin/windlass", "/bin/true");
        let dir = tree::tests::scratch("unit");
        let file = dir.join("windlass.service");
        std::fs::write(&file, unit).unwrap();
        let output = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.trim().is_empty(), "{said}");
        // In tenths: 1.5 when this was written.
        let security = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--threshold=20"])
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&security.stdout);
        assert!(security.status.success(), "{said}");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_stop_has_more_time_than_the_drain() {
        let unit = std::fs::read_to_string(package("windlass.service").unwrap()).unwrap();
        let value = |text: &str, key: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            let digits = line.unwrap().trim_matches('"').trim_end_matches('s');
            digits.parse().unwrap()
        };
        let sample = place::root().unwrap().join("docs/windlass.sample.toml");
        let sample = std::fs::read_to_string(sample).unwrap();
        let stop = value(&unit, "TimeoutStopSec=");
        assert!(stop >= value(&sample, "# drain = ") + 30, "{stop}");
    }

    #[test]
    fn scripts_of_the_package_are_shell() {
        for (name, _) in debian::SCRIPTS {
            let script = package("debian").unwrap().join(name);
            place::output(Command::new("sh").arg("-n").arg(script)).unwrap();
        }
    }

    #[test]
    fn the_container_copies_the_files_of_the_archive() {
        let text = std::fs::read_to_string(package("Containerfile").unwrap()).unwrap();
        let copied: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("COPY "))
            .flat_map(|line| {
                line.split_whitespace()
                    .filter(|word| !word.starts_with("--"))
            })
            .filter(|word| !word.starts_with('/'))
            .collect();
        assert_eq!(
            copied,
            ["bin/windlass", "LICENSE", "THIRD-PARTY-LICENSES.txt"]
        );
        let user = text.lines().find_map(|line| line.strip_prefix("USER "));
        assert!(
            user.unwrap()
                .split(':')
                .all(|id| id.parse::<u32>().unwrap() > 0)
        );
    }
}
