//! Compresses the files of the console, and makes a table of them. The browser runs the files as
//! they are in `app`, so no other tool takes part.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use flate2::{Compression, GzBuilder};

/// The files of the console.
const APP: &str = "app";

/// The page, which is no file of its own: the server completes it for each request.
const PAGE: &str = "index.html";

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?);
    let out = PathBuf::from(env::var("OUT_DIR").map_err(io::Error::other)?);
    let app = here.join(APP);
    println!("cargo::rerun-if-changed={}", app.display());
    let mut files = Vec::new();
    collect(&app, "", &mut files)?;
    files.sort();
    let mut table = String::from("&[\n");
    for (at, (name, path)) in files.iter().enumerate() {
        if name == PAGE {
            continue;
        }
        let packed = out.join(format!("{at}.gz"));
        fs::write(&packed, gzip(&fs::read(path)?)?)?;
        writeln!(
            table,
            "    File {{ name: {name:?}, media: {:?}, gzip: include_bytes!({:?}) }},",
            media(path)?,
            packed.to_string_lossy(),
        )
        .map_err(io::Error::other)?;
    }
    table.push_str("]\n");
    fs::write(out.join("files.rs"), table)
}

/// The files below a folder, by their names relative to [`APP`].
fn collect(folder: &Path, prefix: &str, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{prefix}{name}");
        if path.is_dir() {
            collect(&path, &format!("{name}/"), files)?;
        } else {
            files.push((name, path));
        }
    }
    Ok(())
}

/// The same bytes in each build: the header of the archive has no name and no time.
fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut packer = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::best());
    packer.write_all(bytes)?;
    packer.finish()
}

/// The media type of a file; an unknown kind of file fails the build.
fn media(path: &Path) -> io::Result<&'static str> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("js" | "mjs") => Ok("text/javascript; charset=utf-8"),
        Some("css") => Ok("text/css; charset=utf-8"),
        Some("svg") => Ok("image/svg+xml"),
        Some("json") => Ok("application/json"),
        Some("txt") => Ok("text/plain; charset=utf-8"),
        _ => Err(io::Error::other(format!(
            "{} has no media type here: add it to build.rs",
            path.display()
        ))),
    }
}
