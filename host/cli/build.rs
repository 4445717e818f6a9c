//! Generates three tables of the binary. Every file of `docs/errors` becomes a page of `windlass
//! explain`, so an explanation always fits the version that it explains. The newest version of each
//! package in `wit` becomes a file that `windlass plugin wit` writes. The bundle that
//! `WINDLASS_BUILD_LIBRARY` names becomes the node library inside the program; without the variable,
//! or while the bundle does not exist, the program has none.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The variable that names the bundle of the library.
const LIBRARY: &str = "WINDLASS_BUILD_LIBRARY";

fn main() -> io::Result<()> {
    let here = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    let (root, out) = (Path::new(&here).join("../.."), Path::new(&out));
    fs::write(out.join("pages.rs"), pages(&root.join("docs/errors"))?)?;
    fs::write(out.join("wit.rs"), contract(&root.join("wit"))?)?;
    println!("cargo::rerun-if-env-changed={LIBRARY}");
    let library = env::var_os(LIBRARY).map(PathBuf::from);
    fs::write(out.join("library.rs"), bundle(library.as_deref(), out)?)
}

fn pages(directory: &Path) -> io::Result<String> {
    println!("cargo::rerun-if-changed={}", directory.display());
    let mut table = String::from("&[\n");
    for file in files(directory, "md")? {
        let file = fs::canonicalize(file)?;
        let code = file.file_stem().unwrap_or_default().to_string_lossy();
        let path = file.to_string_lossy();
        writeln!(table, "    ({code:?}, include_str!({path:?})),").map_err(io::Error::other)?;
    }
    table.push_str("]\n");
    Ok(table)
}

/// The contract, in the layout that tools for WIT read: the package of the worlds, and the packages
/// that it uses, each in a folder of `deps`.
fn contract(wit: &Path) -> io::Result<String> {
    println!("cargo::rerun-if-changed={}", wit.display());
    let mut table = String::from("&[\n");
    let mut add = |name: String, file: &Path| {
        let file = fs::canonicalize(file)?;
        let path = file.to_string_lossy();
        writeln!(table, "    ({name:?}, include_str!({path:?})),").map_err(io::Error::other)
    };
    add("DESCRIBE.md".to_owned(), &wit.join("DESCRIBE.md"))?;
    for package in folders(wit)? {
        let name = name_of(&package);
        let versions = folders(&package)?;
        // A package that has not moved speaks in the types of its version.
        let old = versions.len().saturating_sub(1);
        let used = if name == "types" { 0 } else { old };
        for version in versions.iter().skip(used) {
            for file in files(version, "wit")? {
                let file_name = name_of(&file);
                let to = match name.as_str() {
                    "plugin" => file_name,
                    name => format!("deps/windlass-{name}-{}/{file_name}", name_of(version)),
                };
                add(to, &file)?;
            }
        }
    }
    table.push_str("]\n");
    Ok(table)
}

/// The folders in a folder, in order.
fn folders(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The bundle of the library, if there is one.
fn bundle(library: Option<&Path>, out: &Path) -> io::Result<&'static str> {
    let Some(library) = library else {
        return Ok("b\"\"");
    };
    // A file that does not exist yet counts as changed.
    println!("cargo::rerun-if-changed={}", library.display());
    if !library.exists() {
        return Ok("b\"\"");
    }
    fs::copy(library, out.join("library.bundle"))?;
    Ok("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/library.bundle\"))")
}

/// The files of a directory with this ending, in order.
fn files(directory: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == ending) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
