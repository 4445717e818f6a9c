//! Makes the table of error pages that `windlass explain` shows: every file of `docs/errors`
//! becomes a part of the binary, so that an explanation always fits the version it explains.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let here = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    let pages = Path::new(&here).join("../../docs/errors");
    println!("cargo::rerun-if-changed={}", pages.display());

    let mut files = Vec::new();
    for entry in fs::read_dir(&pages)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            files.push(fs::canonicalize(path)?);
        }
    }
    files.sort();

    let mut table = String::from("&[\n");
    for file in &files {
        let code = file.file_stem().unwrap_or_default().to_string_lossy();
        let path = file.to_string_lossy();
        writeln!(table, "    ({code:?}, include_str!({path:?})),").map_err(io::Error::other)?;
    }
    table.push_str("]\n");
    fs::write(Path::new(&out).join("pages.rs"), table)
}
