//! The servers that tests start: PostgreSQL and Redis; the browser; and Debian's compiler of C for
//! WebAssembly. Installed from Debian's packages if possible, without the services that come with them.

use crate::{debian, host, javascript, place};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs that tests start, or files by their paths, and the packages that have them.
const SERVERS: [(&str, &str); 7] = [
    ("postgres", "postgresql"),
    ("redis-server", "redis-server"),
    ("chromium", "chromium"),
    ("clang", "clang"),
    ("wasm-ld", "lld"),
    ("/usr/lib/wasm32-wasi/libc.a", "wasi-libc"),
    (
        "/usr/share/doc/libclang-rt-dev-wasm32/copyright",
        "libclang-rt-dev-wasm32",
    ),
];

/// Set if tests must not skip the servers; `CI` has the same effect.
pub(crate) const REQUIRE: &str = "WINDLASS_REQUIRE_SERVERS";

/// Debian's packages run this script to learn whether they may start a service; 101 means no.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Whether tests with external requirements must not be skipped. The tests have the same rule, in
/// `tests/servers/src/places.rs`.
pub(crate) fn required() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    set("CI") || set(REQUIRE)
}

/// Goes on without plugins whose toolchain cannot be had, unless the tests of them are required.
/// Deletes the components in this folder: those of older sources prove nothing.
pub(crate) fn without(toolchain: &str, components: &Path, error: anyhow::Error) -> Result<()> {
    if required() {
        return Err(error);
    }
    javascript::remove(components)?;
    host::say(&format!(
        "NOT RUN: {toolchain} cannot be had, and neither CI nor {REQUIRE} is set: {error:#}"
    ));
    Ok(())
}

/// The variable that names the checker of Prometheus to the tests.
pub(crate) const PROMTOOL: &str = "WINDLASS_PROMTOOL";

/// The checker of Prometheus for the text of metrics and for alert rules, if it is there or can be
/// had. Debian's package has it beside the server and much that the server needs, so the package is
/// unpacked beside the build, and the checker alone is kept.
pub(crate) fn promtool() -> Result<Option<PathBuf>> {
    let kept = place::target()?.join("promtool");
    if is_there("promtool") {
        return Ok(None);
    }
    if !kept.is_file() && debian::may_install()? {
        host::say("unpacking promtool for the tests");
        let unpacked = place::target()?.join("promtool.unpacked");
        debian::unpack_packages(&["prometheus"], &unpacked)?;
        std::fs::rename(unpacked.join("usr/bin/promtool"), &kept)?;
        std::fs::remove_dir_all(&unpacked)?;
    }
    Ok(kept.is_file().then_some(kept))
}

/// Installs missing servers if it may, and reports those that stay missing.
pub(crate) fn prepare() -> Result<()> {
    let missing: Vec<&str> = SERVERS
        .iter()
        .filter(|(program, _)| !is_there(program))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    if debian::may_install()? {
        host::say(&format!(
            "installing {} for the tests",
            missing.join(" and ")
        ));
        return install(&missing);
    }
    host::say(&format!(
        "{} not installed, and only root may install packages, and only on Debian: the tests \
         that need them say NOT RUN, and fail if CI or {REQUIRE} is set. apt-get install {}",
        if missing.len() == 1 {
            "a program is"
        } else {
            "programs are"
        },
        missing.join(" ")
    ));
    Ok(())
}

/// The tests look in the same places. A file with a whole path is looked for there alone.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        folders.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    folders.iter().any(|folder| folder.join(program).is_file())
}

/// Installs packages, and keeps them from starting services on the usual ports.
fn install(packages: &[&str]) -> Result<()> {
    let ours = !Path::new(POLICY).exists();
    if ours {
        std::fs::write(POLICY, "#!/bin/sh\nexit 101\n")
            .with_context(|| format!("cannot write {POLICY}"))?;
        place::run(Command::new("chmod").args(["755", POLICY]))?;
    }
    let installed = debian::install_packages(packages);
    if ours {
        std::fs::remove_file(POLICY).with_context(|| format!("cannot remove {POLICY}"))?;
    }
    installed
}
