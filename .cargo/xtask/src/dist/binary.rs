//! The program: how it is built, its symbols, and the systems that it runs on.

use super::rustc;
use crate::{host, place};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest glibc that the program runs with: that of Debian 12 is newer, and so is that of
/// Ubuntu 22.04. RHEL 9 has this one.
pub(super) const GLIBC: (u32, u32) = (2, 34);

/// The name of the file with the symbols.
pub(super) const SYMBOLS: &str = "windlass.debug";

/// The program, and its symbols.
pub(super) struct Parts {
    pub(super) program: PathBuf,
    pub(super) symbols: PathBuf,
}

/// The profile of programs that are given away: no path of this machine is in them.
pub(super) fn profile() -> Result<host::Profile> {
    let sysroot = place::output(Command::new(rustc()).args(["--print", "sysroot"]))?;
    let version = place::output(Command::new(rustc()).arg("-vV"))?;
    let commit = version
        .lines()
        .find_map(|line| line.strip_prefix("commit-hash: "));
    let sources = Path::new(sysroot.trim()).join("lib/rustlib/src/rust");
    let home = place::cargo_home().context("there is no CARGO_HOME and no home")?;
    // The last one that matches counts, so a directory inside of another comes later.
    let paths = [
        (place::root()?, "/windlass".to_owned()),
        (place::target()?, "/target".to_owned()),
        (home, "/cargo".to_owned()),
        (sources, format!("/rustc/{}", commit.unwrap_or("unknown"))),
    ];
    let each = |option: &str| -> Vec<String> {
        let pairs = paths.iter();
        pairs
            .map(|(from, to)| format!("{option}={}={to}", from.display()))
            .collect()
    };
    let mut flags = each("--remap-path-prefix");
    // The id by which debuggers match a program and its symbols.
    flags.push("-Clink-arg=-Wl,--build-id=sha1".to_owned());
    Ok(host::Profile {
        name: "dist",
        directory: "dist",
        environment: vec![
            ("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f")),
            ("CFLAGS", each("-ffile-prefix-map").join(" ")),
        ],
        usually: None,
        ..host::Profile::release()
    })
}

/// Takes the symbols out of a program into a file of their own, and checks the program.
pub(super) fn split(built: &Path, stage: &Path) -> Result<Parts> {
    std::fs::create_dir_all(stage)?;
    let (program, symbols) = (stage.join("windlass"), stage.join(SYMBOLS));
    let objcopy = || Command::new("objcopy");
    place::run(objcopy().arg("--only-keep-debug").arg(built).arg(&symbols))
        .context("objcopy is needed (apt-get install binutils)")?;
    // The link has the name and a checksum of the symbols' file, and no directory.
    place::run(
        objcopy()
            .arg("--strip-all")
            .arg("--add-gnu-debuglink=windlass.debug")
            .args([std::path::absolute(built)?, program.clone()])
            .current_dir(stage),
    )?;
    let version = glibc(&program)?;
    anyhow::ensure!(
        version <= GLIBC,
        "the program needs glibc {}.{}, but docs/install.md promises {}.{}: build it on an older \
         system, or find the function that is new",
        version.0,
        version.1,
        GLIBC.0,
        GLIBC.1,
    );
    host::say(&format!(
        "the program needs glibc {}.{}",
        version.0, version.1
    ));
    Ok(Parts { program, symbols })
}

/// The newest version of glibc whose symbols a program uses.
fn glibc(program: &Path) -> Result<(u32, u32)> {
    let symbols = place::output(
        Command::new("readelf")
            .args(["--version-info", "--wide"])
            .arg(program),
    )?;
    newest(&symbols).context("the program uses no glibc")
}

fn newest(symbols: &str) -> Option<(u32, u32)> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|text| {
        let end = text.find(|sign: char| !sign.is_ascii_digit() && sign != '.');
        let mut numbers = text.get(..end.unwrap_or(text.len()))?.split('.');
        let mut number = || numbers.next()?.parse().ok();
        Some((number()?, number()?))
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_found() {
        let text = "  0x0020:   Name: GLIBC_2.4  Flags: none\n  0x0030: Name: GLIBC_2.34 \
            Flags: none\n 0x0040: Name: GLIBC_2.2.5\n Name: GCC_4.2.0 GLIBC_PRIVATE";
        assert_eq!(newest(text), Some((2, 34)));
        assert_eq!(newest("Name: GCC_3.0"), None);
    }

    #[test]
    fn the_documents_name_the_glibc_that_is_checked() {
        let page = place::root().unwrap().join("docs/install.md");
        let page = std::fs::read_to_string(page).unwrap();
        let name = format!("glibc {}.{}", GLIBC.0, GLIBC.1);
        assert!(page.contains(&name), "{name}");
    }
}
