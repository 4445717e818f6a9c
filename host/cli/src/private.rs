//! The directories and files in which this user's hosts keep their own data.

use std::io;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use windlass_model::Code;

use crate::error::Expected;
use crate::exit::Exit;

/// The directory of the state of this user's hosts.
pub(crate) fn state() -> Option<PathBuf> {
    own(|user| user.state_dir())
}

/// The directory of data that this user's hosts have made and cannot make again.
pub(crate) fn data() -> Option<PathBuf> {
    own(|user| Some(user.data_dir()))
}

/// The directory of data that this user's hosts can make again.
pub(crate) fn cache() -> Option<PathBuf> {
    own(|user| Some(user.cache_dir()))
}

/// The directory of the user's configuration.
pub(crate) fn config() -> Option<PathBuf> {
    own(|user| Some(user.config_dir()))
}

/// A directory of the user's; none without a home. A relative path counts as none: it would lead
/// into the current directory, whose content a project could have brought.
fn own(directory: fn(&dyn BaseStrategy) -> Option<PathBuf>) -> Option<PathBuf> {
    let user = etcetera::choose_base_strategy().ok()?;
    let directory = directory(&user).filter(|directory| directory.is_absolute())?;
    Some(directory.join("windlass"))
}

/// The error for a file that has no place because the user has no home.
pub(crate) fn no_home(code: Code, what: &str, instead: &str) -> Expected {
    let text = format!("There is no place for {what}: the user has no home directory");
    Expected::new(code, text)
        .help(format!("Set HOME to the whole path of one, or {instead}."))
        .exit(Exit::Usage)
}

/// Reads a text of at most `longest` bytes that only this user can have written or read.
///
/// # Errors
///
/// The file does not exist, is longer, is no text, or other users can write or read it.
pub(crate) fn read(path: &Path, longest: u64) -> io::Result<String> {
    let bytes = windlass_files::read(path, longest)?;
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}
