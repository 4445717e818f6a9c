//! Generates four tables of the binary. Every file of `docs/errors` becomes a page of `windlass
//! explain`, so an explanation always fits the version that it explains. The newest version of each
//! package in `wit` becomes a file that `windlass plugin wit` writes. The SDKs of guests and their
//! templates become a compressed archive, from which `windlass plugin new` makes projects. The bundle that
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
    fs::write(out.join("guests.bin"), guests(&root)?)?;
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

/// What a project of an author is made of, by path in the repository.
const GUESTS: [&str; 3] = ["guest-sdk", "wit", "examples/shout/Cargo.lock"];

/// Files and folders of these that no author needs: tests and settings of the SDKs themselves, and
/// what their tools leave.
const LEFT_OUT: [&str; 14] = [
    "guest-sdk/c/Makefile",
    "guest-sdk/c/build",
    "guest-sdk/c/test",
    "guest-sdk/go/test",
    "guest-sdk/rust/Cargo.lock",
    "guest-sdk/rust/clippy.toml",
    "guest-sdk/rust/rustfmt.toml",
    "guest-sdk/rust/target",
    "guest-sdk/rust/tests",
    "guest-sdk/js/node_modules",
    "guest-sdk/js/test",
    "guest-sdk/python/pyproject.toml",
    "guest-sdk/python/test",
    "wit/frozen.txt",
];

/// The archive: for each file its path, its length in bytes, each on a line, and its bytes; all of it
/// deflated.
fn guests(root: &Path) -> io::Result<Vec<u8>> {
    let mut archive = Vec::new();
    for name in GUESTS {
        let path = root.join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        append(&mut archive, name, &path)?;
    }
    Ok(miniz_oxide::deflate::compress_to_vec(&archive, 10))
}

/// Appends a file, or the files of a folder in order.
fn append(archive: &mut Vec<u8>, name: &str, path: &Path) -> io::Result<()> {
    if LEFT_OUT.contains(&name) || name.ends_with("/__pycache__") {
        return Ok(());
    }
    if path.is_dir() {
        let mut entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let below = format!("{name}/{}", entry.file_name().to_string_lossy());
            append(archive, &below, &entry.path())?;
        }
        return Ok(());
    }
    let bytes = fs::read(path)?;
    archive.extend(format!("{name}\n{}\n", bytes.len()).into_bytes());
    archive.extend(bytes);
    Ok(())
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
