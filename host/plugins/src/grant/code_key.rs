//! The key that authenticates the code that the user's own hosts have compiled.
//!
//! Compiled code is run without a check, and its folder is a setting: a folder from another
//! person's project may contain that person's code. So each file has a tag that needs this key. The
//! key is a file that only its user can read, and that no project contains.

use std::io;
use std::path::Path;

use windlass_model::mac;

use crate::codes;
use crate::error::Error;

/// The message about a file that is not a key of this user alone.
const NO_KEY: &str = "others can read or write the key of compiled code, or it is none";

/// The errors of a file that cannot be a key.
const NO_KEYS: [io::ErrorKind; 3] = [
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::FileTooLarge,
    io::ErrorKind::IsADirectory,
];

/// The key of one user.
pub(crate) struct CodeKey([u8; mac::KEY_BYTES]);

impl CodeKey {
    /// The key in a file, which is created if it does not exist.
    ///
    /// # Errors
    ///
    /// The file is not a key of this user alone.
    pub(crate) fn load(path: &Path) -> Result<Self, Error> {
        let unsafe_key =
            |message: &str| Error::new(codes::CODE_KEY, path.display().to_string(), message);
        for _ in 0..2 {
            match windlass_files::read(path, mac::KEY_BYTES as u64).map(TryInto::try_into) {
                Ok(Ok(key)) => return Ok(Self(key)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Ok(Err(_)) => return Err(unsafe_key(NO_KEY)),
                Err(error) if NO_KEYS.contains(&error.kind()) => return Err(unsafe_key(NO_KEY)),
                Err(error) => {
                    return Err(Error::file(path, "read the key of compiled code", &error));
                }
            }
            let key: [u8; mac::KEY_BYTES] = rand::random();
            match windlass_files::write_new(path, &key) {
                Ok(()) => return Ok(Self(key)),
                // Another process was faster, and its key counts.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    tracing::warn!(
                        file = %path.display(), %error,
                        "the key of compiled code cannot be kept: every start compiles anew"
                    );
                    return Ok(Self(key));
                }
            }
        }
        Err(unsafe_key("the key of compiled code comes and goes"))
    }

    /// A message that begins with these parts; its tag says that one of this user's hosts has made
    /// it.
    pub(crate) fn message(&self, parts: &[&[u8]]) -> mac::Message {
        mac::Message::begin(&self.0, parts)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_is_of_its_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/code-key");
        let keys: Vec<[u8; 32]> = std::thread::scope(|scope| {
            let loads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| CodeKey::load(&path).unwrap().0))
                .collect();
            loads.into_iter().map(|load| load.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]), "all have one");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let other = CodeKey::load(&dir.path().join("other")).unwrap();
        assert_ne!(other.0, keys[0]);
    }

    #[test]
    fn a_file_that_other_users_could_have_written_is_no_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("code-key");
        let code = || CodeKey::load(&path).map(|_| ()).map_err(|error| error.code);
        for (content, mode, good) in [
            (vec![1; 32], 0o600, true),
            (vec![1; 32], 0o640, false),
            (vec![1; 32], 0o602, false),
            (vec![1; 31], 0o600, false),
            (vec![1; 33], 0o600, false),
            (Vec::new(), 0o600, false),
        ] {
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(
                code(),
                if good { Ok(()) } else { Err(codes::CODE_KEY) },
                "{mode:o}"
            );
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(code(), Err(codes::CODE_KEY));
    }
}
