//! Where the files are that this user's hosts remember things by.

use std::io;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use windlass_model::Code;

use crate::error::Expected;
use crate::exit::Exit;

/// The directory of what this user's hosts remember, below which the files are.
pub(crate) fn state() -> Option<PathBuf> {
    own(|user| user.state_dir())
}

/// The directory of what this user's hosts have made and cannot make again.
pub(crate) fn data() -> Option<PathBuf> {
    own(|user| Some(user.data_dir()))
}

/// The directory of what this user's hosts have made and can make again.
pub(crate) fn cache() -> Option<PathBuf> {
    own(|user| Some(user.cache_dir()))
}

/// The directory of what this user has configured.
pub(crate) fn config() -> Option<PathBuf> {
    own(|user| Some(user.config_dir()))
}

/// A directory of the user's; none without a home. A relative path is none: it would lead into
/// the folder where the command begins, and a project could have brought what is there.
fn own(directory: fn(&dyn BaseStrategy) -> Option<PathBuf>) -> Option<PathBuf> {
    let user = etcetera::choose_base_strategy().ok()?;
    let directory = directory(&user).filter(|directory| directory.is_absolute())?;
    Some(directory.join("windlass"))
}

/// Says that there is no place for something, and what to do instead of having a home.
pub(crate) fn no_home(code: Code, what: &str, instead: &str) -> Expected {
    let text = format!("There is no place for {what}: the user has no home directory");
    Expected::new(code, text)
        .help(format!("Set HOME to the whole path of one, or {instead}."))
        .exit(Exit::Usage)
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
