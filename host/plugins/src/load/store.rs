//! Components by their digest, for instances that began with a plugin that is gone since.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use windlass_model::Digest;

use super::LoadShared;
use crate::codes;
use crate::error::Error;

/// Makes the directories. The one for compiled code is for this user alone: its content is run.
pub(crate) fn prepare(store_dir: &Path, cache_dir: &Path) -> Result<(), Error> {
    for dir in [store_dir, cache_dir] {
        windlass_files::make_directory(dir).map_err(|error| Error::file(dir, "make it", &error))?;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = cache_dir;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
            .map_err(|error| Error::file(dir, "set its permissions", &error))?;
    }
    Ok(())
}

/// Whether a component of this size, in bytes, is stored.
pub(super) fn has(shared: &LoadShared, digest: &Digest, size: Option<u64>) -> bool {
    let there = fs::metadata(place(shared, digest));
    there.is_ok_and(|there| Some(there.len()) == size)
}

/// Stores a component, unless it is stored already.
pub(super) fn keep(shared: &LoadShared, digest: &Digest, bytes: &[u8]) -> Result<(), Error> {
    if has(shared, digest, Some(bytes.len() as u64)) {
        return Ok(());
    }
    let file = place(shared, digest);
    write(&file, bytes).map_err(|error| Error::file(&file, "write it", &error))
}

/// The component of this digest.
pub(super) fn find(shared: &LoadShared, digest: &Digest) -> Result<(PathBuf, Vec<u8>), Error> {
    let file = place(shared, digest);
    if !file.exists() {
        let message = "the component store has no component of this digest";
        return Err(Error::new(codes::NOT_STORED, digest.to_string(), message));
    }
    let bytes = super::read(&file, shared.max_component_bytes)?;
    if Digest::of(&bytes) != *digest {
        let message = "the component that is stored under this digest is damaged";
        return Err(Error::new(codes::NOT_STORED, digest.to_string(), message));
    }
    Ok((file, bytes))
}

fn place(shared: &LoadShared, digest: &Digest) -> PathBuf {
    shared.store_dir.join(format!("{}.wasm", digest.hex()))
}

/// Writes a file atomically and durably, even if the system crashes.
pub(super) fn write(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let dir = file.parent().unwrap_or_else(|| Path::new("."));
    let mut temp = temporary(dir)?;
    temp.write_all(bytes)?;
    persist(temp, file)
}

/// A file in a directory that is removed unless it is given a name.
pub(super) fn temporary(dir: &Path) -> std::io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(".new-").tempfile_in(dir)
}

/// Gives a file of the same directory its name, durably.
pub(super) fn persist(temp: NamedTempFile, file: &Path) -> std::io::Result<()> {
    let dir = file.parent().unwrap_or_else(|| Path::new("."));
    temp.as_file().sync_all()?;
    temp.persist(file).map_err(|error| error.error)?;
    // The name is durable once the directory is.
    fs::File::open(dir)?.sync_all()
}
