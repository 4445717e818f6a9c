//! Where the files are that this user's hosts remember things by.

use std::io;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;

/// The directory of what this user's hosts remember, below which the files are. Without a home
/// it is beside the project.
pub(crate) fn state() -> PathBuf {
    let strategy = etcetera::choose_base_strategy().ok();
    strategy
        .and_then(|strategy| Some(strategy.state_dir()?.join("windlass")))
        .unwrap_or_else(|| PathBuf::from(".windlass"))
}

/// The directory of what this user's hosts have made and cannot make again. Without a home it is
/// beside the project.
pub(crate) fn data() -> PathBuf {
    etcetera::choose_base_strategy()
        .map(|strategy| strategy.data_dir().join("windlass"))
        .unwrap_or_else(|_| PathBuf::from(".windlass"))
}

/// Reads a text of at most so many bytes that nobody but this user can have written or read.
///
/// # Errors
///
/// There is none, it is longer, it is no text, or others can write or read it.
pub(crate) fn read(path: &Path, longest: u64) -> io::Result<String> {
    let bytes = windlass_files::read(path, longest)?;
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}
