//! The Debian package, which `dpkg-deb` writes.

use super::tree::Tree;
use super::{Release, binary, package, read};
use crate::place;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The scripts of the package, with their modes.
pub(super) const SCRIPTS: [(&str, u32); 3] =
    [("postinst", 0o755), ("prerm", 0o755), ("postrm", 0o755)];

/// The file in /etc that an operator edits, and that an upgrade keeps.
const CONFIGURATION: &str = "etc/windlass/windlass.toml";

const DOCUMENTS: &str = "usr/share/doc/windlass";

const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Windlass
Comment: The program contains libraries under other licences; their texts are in
 /usr/share/doc/windlass/THIRD-PARTY-LICENSES.txt.gz.

Files: *
Copyright: The authors of Windlass
License: Apache-2.0
 The text is in /usr/share/common-licenses/Apache-2.0 and in
 /usr/share/doc/windlass/LICENSE.gz.
";

/// Makes the package from the files of the archive.
pub(super) fn make(release: &Release, archive: &Tree) -> Result<PathBuf> {
    let architecture = match release.target.split('-').next() {
        Some("x86_64") => "amd64",
        Some("aarch64") => "arm64",
        _ => bail!("there is no Debian package for {}", release.target),
    };
    let stage = release.out.join("stage/deb");
    let files = installed(archive)?;
    files.write(&stage)?;
    for directory in ["etc/windlass/workflows", "etc/windlass/plugins"] {
        std::fs::create_dir(stage.join(directory))?;
    }
    compress(&files, &stage)?;
    about(release, architecture, &files, &stage)?.write(&stage.join("DEBIAN"))?;
    let name = format!("windlass_{}-1_{architecture}.deb", release.version);
    let to = release.out.join(name);
    let mut build = Command::new("dpkg-deb");
    build
        .args(["--root-owner-group", "-Zxz", "--build"])
        .args([&stage, &to])
        .env("SOURCE_DATE_EPOCH", release.time.to_string());
    place::output(&mut build)
        .context("dpkg-deb makes the package: run this on Debian or Ubuntu")?;
    Ok(to)
}

/// The files of the archive at the places where the package installs them.
fn installed(archive: &Tree) -> Result<Tree> {
    let mut tree = Tree::default();
    for (path, (mode, bytes)) in &archive.0 {
        let to = match path.as_str() {
            "bin/windlass" => "usr/bin/windlass".to_owned(),
            "service/windlass.service" => "usr/lib/systemd/system/windlass.service".to_owned(),
            "service/windlass.toml" => CONFIGURATION.to_owned(),
            "completions/windlass.bash" => {
                "usr/share/bash-completion/completions/windlass".to_owned()
            }
            "completions/_windlass" => "usr/share/zsh/vendor-completions/_windlass".to_owned(),
            "completions/windlass.fish" => {
                "usr/share/fish/vendor_completions.d/windlass.fish".to_owned()
            }
            // Documents keep their places among themselves, because they link to each other.
            path => match path.strip_prefix("man/") {
                Some(page) => format!("usr/share/man/man1/{page}"),
                None => format!("{DOCUMENTS}/{path}"),
            },
        };
        anyhow::ensure!(!tree.0.contains_key(&to), "two files would be /{to}");
        tree.add(to, *mode, bytes.clone());
    }
    tree.add(format!("{DOCUMENTS}/copyright"), 0o644, COPYRIGHT);
    Ok(tree)
}

/// Whether Debian's policy wants a file compressed: manual pages, and long texts.
fn is_compressed(path: &str) -> bool {
    let long = ["THIRD-PARTY-LICENSES.txt", "LICENSE", "CHANGELOG.md"];
    path.starts_with("usr/share/man/") || long.iter().any(|name| path.ends_with(name))
}

fn compress(files: &Tree, stage: &Path) -> Result<()> {
    let paths = files.0.keys().filter(|path| is_compressed(path));
    let mut gzip = Command::new("gzip");
    gzip.args(["--no-name", "-9"])
        .args(paths)
        .current_dir(stage);
    place::run(&mut gzip)
}

/// The files that describe the package.
fn about(release: &Release, architecture: &str, files: &Tree, stage: &Path) -> Result<Tree> {
    let sizes = files
        .0
        .values()
        .map(|(_, bytes)| bytes.len().div_ceil(1024));
    let kilobytes: usize = sizes.sum();
    let (major, minor) = binary::GLIBC;
    let control = format!(
        "\
Package: windlass
Version: {}-1
Section: admin
Priority: optional
Architecture: {architecture}
Depends: adduser, libc6 (>= {major}.{minor}), libgcc-s1 (>= 3.0)
Recommends: ca-certificates
Installed-Size: {kilobytes}
Maintainer: The Windlass developers <windlass@localhost>
Description: durable workflow host whose nodes are WebAssembly components
 Windlass runs graphs of nodes that are described in YAML. Every node is a
 WebAssembly component in a sandbox. Every step is committed before the next
 one starts, in SQLite or PostgreSQL, so a run survives the death of the host.
",
        release.version
    );
    let paths = files.0.keys().map(|path| match is_compressed(path) {
        true => format!("{path}.gz"),
        false => path.clone(),
    });
    let sums = place::output(Command::new("md5sum").args(paths).current_dir(stage))?;
    let mut about = Tree::default();
    about.add("control", 0o644, control);
    about.add("conffiles", 0o644, format!("/{CONFIGURATION}\n"));
    about.add("md5sums", 0o644, sums);
    for (script, mode) in SCRIPTS {
        about.add(script, mode, read(&package("debian")?.join(script))?);
    }
    Ok(about)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::tree::tests::scratch;

    #[test]
    fn the_package_installs_the_files_of_the_archive() {
        if Command::new("dpkg-deb").arg("--version").output().is_err() {
            return;
        }
        let mut archive = Tree::default();
        archive.add("bin/windlass", 0o755, "program");
        archive.add("service/windlass.toml", 0o644, "[store]");
        archive.add("man/windlass.1", 0o644, "page");
        archive.add("docs/errors/WL-C001.md", 0o644, "error");
        let make_in = |name: &str| {
            let release = Release {
                version: "1.2.3".to_owned(),
                target: "x86_64-unknown-linux-gnu".to_owned(),
                time: 1_700_000_000,
                out: scratch(name),
            };
            let package = make(&release, &archive).unwrap();
            let bytes = std::fs::read(&package).unwrap();
            let list = Command::new("dpkg-deb")
                .arg("--contents")
                .arg(&package)
                .output();
            std::fs::remove_dir_all(release.out).unwrap();
            (bytes, String::from_utf8(list.unwrap().stdout).unwrap())
        };
        let (one, list) = make_in("package-one");
        assert_eq!(one, make_in("package-two").0);
        for file in [
            "./usr/bin/windlass",
            "./etc/windlass/windlass.toml",
            "./usr/share/man/man1/windlass.1.gz",
            "./usr/share/doc/windlass/docs/errors/WL-C001.md",
            "./usr/share/doc/windlass/copyright",
        ] {
            assert!(list.contains(file), "{file}: {list}");
        }
        assert!(
            list.lines().all(|line| line.contains("root/root")),
            "{list}"
        );
    }
}
