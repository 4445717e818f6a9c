//! The sources of a host's keyring.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::ring::{BadKeyring, Keyring};

/// The largest keyring file, in bytes.
const LONGEST: u64 = 64 * 1024;

/// The shortest time between two readings of a file: a removed key is accepted no longer than this.
const AGAIN: Duration = Duration::from_secs(1);

/// A keyring cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the keyring {place} cannot be used: {reason}")]
pub struct KeysError {
    place: String,
    reason: String,
}

/// The keyring of a host: read at its first use, and again at most once a second while it is used.
/// A key that others remove from the file is not accepted here any more. A key that others add
/// verifies at once, but creates links and signatures only after a restart of the process: other
/// machines may need it first.
pub struct Keys {
    source: Source,
    held: Mutex<Option<Held>>,
}

enum Source {
    /// The user's own file, which is created if it does not exist.
    Own(PathBuf),
    /// A file that an operator provides.
    Given(PathBuf),
    /// A keyring that does not change.
    Fixed(Arc<Keyring>),
}

struct Held {
    ring: Arc<Keyring>,
    read: Instant,
    /// Whether it is in a file. A keyring that cannot be stored belongs to this process only.
    kept: bool,
}

impl Keys {
    /// The user's own file, which is created if it does not exist. No other user may read it.
    pub fn own(path: PathBuf) -> Self {
        Self::new(Source::Own(path))
    }

    /// A file that an operator provides. Root may own it, and its group may read it.
    pub fn given(path: PathBuf) -> Self {
        Self::new(Source::Given(path))
    }

    /// A keyring that does not change: from the environment, or of a test.
    pub fn fixed(ring: Keyring) -> Self {
        Self::new(Source::Fixed(Arc::new(ring)))
    }

    fn new(source: Source) -> Self {
        let held = Mutex::new(None);
        Self { source, held }
    }

    /// The file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::Own(path) | Source::Given(path) => Some(path),
            Source::Fixed(_) => None,
        }
    }

    /// The keyring for creating links and signatures. Blocks on the file at most once a second. If
    /// the file cannot be read any more, the last keyring is used.
    ///
    /// # Errors
    ///
    /// The file cannot be read for the first time, is not a keyring, or others can change or read
    /// it.
    pub fn ring(&self) -> Result<Arc<Keyring>, KeysError> {
        let mut held = self.held.lock();
        match (self.look(&mut held), &*held) {
            (Err(_), Some(held)) => Ok(Arc::clone(&held.ring)),
            (looked, _) => looked,
        }
    }

    /// The keyring for verification, as the file is now. The file is read at most once a second.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is not a keyring, or others can change or read it.
    pub(crate) fn verifying(&self) -> Result<Arc<Keyring>, KeysError> {
        self.look(&mut self.held.lock())
    }

    fn look(&self, held: &mut Option<Held>) -> Result<Arc<Keyring>, KeysError> {
        if let Source::Fixed(ring) = &self.source {
            return Ok(Arc::clone(ring));
        }
        match &*held {
            Some(held) if !held.kept || held.read.elapsed() < AGAIN => Ok(Arc::clone(&held.ring)),
            _ => self.load(held),
        }
    }

    /// Changes the keyring in its file. Processes do so one after the other: none restores a key
    /// that another one has just removed.
    ///
    /// # Errors
    ///
    /// As [`Self::ring`], the change is refused, or the keyring is not in a file of this user.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut Keyring) -> Result<T, BadKeyring>,
    ) -> Result<T, KeysError> {
        let (Source::Own(path) | Source::Given(path)) = &self.source else {
            return Err(self.unusable("it is in the environment: change it there"));
        };
        let mut held = self.held.lock();
        // The directory of the lock exists once the file does.
        self.load(&mut held)?;
        let lock = self.lock(path)?;
        *held = None;
        let mut ring = Keyring::clone(&*self.load(&mut held)?);
        let answer = change(&mut ring).map_err(|error| self.unusable(error))?;
        windlass_files::write(path, ring.to_text().as_bytes())
            .map_err(|error| self.unusable(error))?;
        *held = None;
        self.load(&mut held)?;
        drop(lock);
        Ok(answer)
    }

    /// Waits until no other process changes the keyring, and excludes others until the file is
    /// dropped.
    fn lock(&self, path: &Path) -> Result<File, KeysError> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".lock");
        let beside = PathBuf::from(beside);
        let locked = windlass_files::open_lock(&beside).and_then(|file| {
            file.lock()?;
            Ok(file)
        });
        locked.map_err(|error| self.unusable(format!("its lock {}: {error}", beside.display())))
    }

    fn load(&self, held: &mut Option<Held>) -> Result<Arc<Keyring>, KeysError> {
        let (ring, kept) = match &self.source {
            Source::Fixed(ring) => return Ok(Arc::clone(ring)),
            Source::Given(path) => (self.read(path, windlass_files::read_mounted)?, true),
            Source::Own(path) => match self.read(path, windlass_files::read) {
                Ok(ring) => (ring, true),
                // A file that existed before and cannot be examined now is not missing.
                Err(_) if path.try_exists().map_or(held.is_none(), |there| !there) => {
                    self.make(path)?
                }
                Err(error) => return Err(error),
            },
        };
        let ring = Arc::new(match &*held {
            Some(before) => ring.made_by(before.ring.newest().id()),
            None => ring,
        });
        *held = Some(Held {
            ring: Arc::clone(&ring),
            read: now(),
            kept,
        });
        Ok(ring)
    }

    fn read(
        &self,
        path: &Path,
        read: fn(&Path, u64) -> io::Result<Vec<u8>>,
    ) -> Result<Keyring, KeysError> {
        let bytes = read(path, LONGEST).map_err(|error| self.unusable(error))?;
        let text = String::from_utf8(bytes).map_err(|_| self.unusable("it is no text"))?;
        Keyring::parse(&text).map_err(|error| self.unusable(error))
    }

    /// Creates the user's file. Returns whether the keyring is in it.
    fn make(&self, path: &Path) -> Result<(Keyring, bool), KeysError> {
        let ring = Keyring::random();
        match windlass_files::write_new(path, ring.to_text().as_bytes()) {
            Ok(()) => Ok((ring, true)),
            // Another process was faster, and its keyring counts.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok((self.read(path, windlass_files::read)?, true))
            }
            Err(error) => {
                tracing::warn!(
                    file = %path.display(), %error,
                    "the keyring cannot be kept: links of this process end with it"
                );
                Ok((ring, false))
            }
        }
    }

    pub(crate) fn unusable(&self, reason: impl ToString) -> KeysError {
        let place = match &self.source {
            Source::Own(path) | Source::Given(path) => path.display().to_string(),
            Source::Fixed(_) => "of the environment".to_owned(),
        };
        KeysError {
            place,
            reason: reason.to_string(),
        }
    }
}

/// Decides whether a file has to be read again.
#[expect(
    clippy::disallowed_methods,
    reason = "a bound on how often files are read, of which no test waits"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
impl Keys {
    /// Lets the time pass after which the file is read again.
    pub(crate) fn age(&self) {
        if let Some(held) = &mut *self.held.lock() {
            held.read = held.read.checked_sub(2 * AGAIN).unwrap();
        }
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("path", &self.path()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_users_keyring_is_made_once_and_is_the_users_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/keyring");
        let rings: Vec<_> = std::thread::scope(|scope| {
            let make = || Keys::own(path.clone()).ring().unwrap();
            let all: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(rings.iter().all(|ring| *ring == rings[0]));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_keyring_that_others_have_in_hand_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keyring");
        std::fs::write(&path, Keyring::random().to_text()).unwrap();
        for (mode, own, given) in [
            (0o600, true, true),
            (0o400, true, true),
            (0o440, false, true),
            (0o460, false, false),
            (0o604, false, false),
            (0o602, false, false),
        ] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(Keys::own(path.clone()).ring().is_ok(), own, "{mode:o}");
            assert_eq!(Keys::given(path.clone()).ring().is_ok(), given, "{mode:o}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        for damaged in [&b""[..], b"x", b"\xff", &[b'#'; 70_000]] {
            std::fs::write(&path, damaged).unwrap();
            assert!(Keys::own(path.clone()).ring().is_err());
            assert_eq!(std::fs::read(&path).unwrap(), damaged, "it stays");
        }
        assert!(Keys::given(dir.path().join("none")).ring().is_err());
    }

    #[test]
    fn a_key_that_was_added_meanwhile_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keyring");
        let (one, other) = (Keys::own(path.clone()), Keys::own(path));
        assert_eq!(one.ring().unwrap(), other.ring().unwrap());
        let id = other.change(Keyring::rotate).unwrap();
        assert_eq!(other.ring().unwrap().newest().id(), id);
        let first = one.ring().unwrap().newest().id();
        one.age();
        assert!(one.verifying().unwrap().get(id).is_some());
        assert_eq!(one.ring().unwrap().newest().id(), first);
        let fixed = Keys::fixed(Keyring::random());
        assert!(fixed.verifying().unwrap().get(id).is_none());
        assert!(fixed.change(Keyring::rotate).is_err());
    }

    #[test]
    fn a_key_that_was_taken_out_meanwhile_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keyring");
        let (one, other) = (Keys::own(path.clone()), Keys::own(path.clone()));
        let first = one.ring().unwrap().newest().id();
        let id = other.change(Keyring::rotate).unwrap();
        assert!(other.change(|ring| ring.remove(first)).unwrap());
        one.age();
        assert!(one.verifying().unwrap().get(first).is_none());
        assert_eq!(one.ring().unwrap().newest().id(), id, "it makes no more");
        // A file that cannot be read verifies nothing, but links are still created.
        std::fs::write(&path, "damaged").unwrap();
        one.age();
        assert!(one.verifying().is_err());
        assert_eq!(one.ring().unwrap().newest().id(), id);
    }

    #[test]
    fn a_keyring_that_cannot_be_kept_stays_for_as_long_as_its_process() {
        let dir = tempfile::tempdir().unwrap();
        // No file system accepts such a name.
        let keys = Keys::own(dir.path().join("x".repeat(300)));
        let first = keys.ring().unwrap();
        keys.age();
        assert_eq!(keys.verifying().unwrap(), first);
        assert!(keys.change(Keyring::rotate).is_err());
    }

    #[test]
    fn changes_of_several_processes_are_all_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keyring");
        Keys::own(path.clone()).ring().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let keys = Keys::own(path.clone());
                    for _ in 0..6 {
                        keys.change(Keyring::rotate).unwrap();
                    }
                });
            }
        });
        let ring = Keys::own(path).ring().unwrap();
        assert_eq!(ring.keys().count(), 1 + 8 * 6);
    }
}
