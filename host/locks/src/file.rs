//! Locks as files in a directory: for several processes on one machine.
//!
//! The operating system frees a lock when its holder dies, so there is no lease that could end
//! while its holder is merely stopped. On shared disks the locks are only as good as the disk's
//! locking, so their reach counts as one machine.
//!
//! A file exists while its lock is held, and its holder removes it on release. A process that opens
//! a file which is being removed notices it by the inode, and opens the next file.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rustix::fs::{FlockOperation, flock};
use tokio::sync::watch;

use crate::key::Key;
use crate::local::{Caller, Local, LocalHold};
use crate::parts::{Pace, Parts};
use crate::provider::{Error, HeldLock, Listed, LockProvider, Lost, Reach};

/// The suffix of lock files.
const ENDING: &str = ".lock";

/// The file, in the same directory, that counts holders.
const COUNTER: &str = "last-token";

/// The longest file name that all common file systems accept.
const LONGEST: usize = 240;

/// The location of the locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The directory; it is created if it does not exist.
    pub directory: PathBuf,
}

/// A provider of locks as files.
pub(crate) struct Files {
    inner: Arc<FileInner>,
}

struct FileInner {
    directory: PathBuf,
    parts: Parts,
    local: Arc<Local>,
}

/// A file that is locked.
struct Locked {
    file: File,
    path: PathBuf,
    token: u64,
}

struct FileGuard {
    key: Key,
    token: u64,
    inner: Arc<FileInner>,
    /// Never set: the operating system takes a lock away only when its holder dies.
    _keeper: watch::Sender<bool>,
    lost: Lost,
    held: Option<(Locked, LocalHold)>,
}

impl Files {
    pub(crate) fn open(options: &Options, parts: Parts) -> Result<Self, Error> {
        let directory = options.directory.clone();
        windlass_files::make_directory(&directory)
            .map_err(|error| trouble("make", &directory, &error))?;
        Ok(Self {
            inner: Arc::new(FileInner {
                directory,
                parts,
                local: Arc::default(),
            }),
        })
    }
}

impl FileInner {
    async fn take(
        self: &Arc<Self>,
        key: &Key,
        place: LocalHold,
    ) -> Result<Option<Box<dyn HeldLock>>, Error> {
        let (inner, name) = (Arc::clone(self), name_of(key));
        let text = format!("{key}\n{}\n", self.parts.owner);
        let locked = self.parts.block(move || inner.lock(&name, &text)).await?;
        Ok(locked.map(|locked| {
            let (keeper, lost) = Lost::new();
            Box::new(FileGuard {
                key: key.clone(),
                token: locked.token,
                inner: Arc::clone(self),
                _keeper: keeper,
                lost,
                held: Some((locked, place)),
            }) as Box<dyn HeldLock>
        }))
    }

    fn lock(&self, name: &str, text: &str) -> Result<Option<Locked>, Error> {
        let path = self.directory.join(name);
        let failed = |error: &std::io::Error| trouble("lock", &path, error);
        loop {
            let mut file = windlass_files::open_lock(&path).map_err(|error| failed(&error))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(failed(&error.into())),
            }
            if !is_still(&file, &path) {
                continue;
            }
            let token = self.token().map_err(|error| failed(&error))?;
            file.set_len(0)
                .and_then(|()| file.write_all(format!("{text}{token}\n").as_bytes()))
                .map_err(|error| failed(&error))?;
            return Ok(Some(Locked { file, path, token }));
        }
    }

    fn token(&self) -> std::io::Result<u64> {
        let mut file = windlass_files::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(self.directory.join(COUNTER))?;
        // Held for a moment only.
        flock(&file, FlockOperation::LockExclusive)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let token = text.trim().parse::<u64>().unwrap_or(0) + 1;
        file.rewind()?;
        // The number only grows, so no longer text remains behind it.
        write!(file, "{token}")?;
        Ok(token)
    }

    async fn wait(
        self: &Arc<Self>,
        key: &Key,
        caller: Caller,
        timeout: Duration,
    ) -> Result<Option<Box<dyn HeldLock>>, Error> {
        let deadline = self.parts.clock.monotonic().saturating_add(timeout);
        let mut pace = Pace::new();
        loop {
            let place = self.local.enter(key, caller)?;
            let asked = place.is_some();
            if let Some(place) = place
                && let Some(held) = self.take(key, place).await?
            {
                return Ok(Some(held));
            }
            let left = deadline.saturating_sub(self.parts.clock.monotonic());
            if left.is_zero() {
                return Ok(None);
            }
            if asked {
                Parts::sleep(pace.next().min(left)).await;
            } else {
                self.local.wait(key, left).await;
            }
        }
    }

    fn list(&self, limit: u32) -> Result<Vec<Listed>, Error> {
        let entries = std::fs::read_dir(&self.directory)
            .map_err(|error| trouble("read", &self.directory, &error))?;
        let mut listed: Vec<Listed> = entries
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().ends_with(ENDING))
            .filter_map(|entry| read(&entry.path()))
            .collect();
        listed.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        listed.truncate(limit as usize);
        Ok(listed)
    }
}

impl Locked {
    /// Removes the file before unlocking it: a process that has it open notices that it was
    /// replaced.
    fn free(self) -> Result<(), Error> {
        if is_still(&self.file, &self.path) {
            std::fs::remove_file(&self.path)
                .map_err(|error| trouble("remove", &self.path, &error))?;
        }
        Ok(())
    }
}

impl FileGuard {
    fn give_back(&mut self) -> Option<impl Future<Output = Result<(), Error>> + Send + use<>> {
        let (locked, place) = self.held.take()?;
        place.leaving();
        let freed = self.inner.parts.runtime.spawn_blocking(move || {
            let freed = locked.free();
            drop(place);
            freed
        });
        Some(async move {
            freed
                .await
                .unwrap_or_else(|_| Err(Error::unreachable("the runtime of the locks has ended")))
        })
    }
}

impl LockProvider for Files {
    fn name(&self) -> &'static str {
        "file"
    }

    fn reach(&self) -> Reach {
        Reach::Machine
    }

    fn try_acquire<'a>(
        &'a self,
        key: &'a Key,
    ) -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>> {
        let place = self.inner.local.enter(key, Caller::current());
        async move {
            match place? {
                Some(place) => self.inner.take(key, place).await,
                None => Ok(None),
            }
        }
        .boxed()
    }

    fn acquire<'a>(
        &'a self,
        key: &'a Key,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Option<Box<dyn HeldLock>>, Error>> {
        let caller = Caller::current();
        let (inner, key) = (Arc::clone(&self.inner), key.clone());
        let waiting = async move { inner.wait(&key, caller, timeout).await };
        async move { self.inner.parts.run(waiting).await }.boxed()
    }

    fn list(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Listed>, Error>> {
        let inner = Arc::clone(&self.inner);
        let listing = self.inner.parts.block(move || inner.list(limit));
        listing.boxed()
    }
}

impl HeldLock for FileGuard {
    fn key(&self) -> &Key {
        &self.key
    }

    fn token(&self) -> u64 {
        self.token
    }

    fn lost(&self) -> Lost {
        self.lost.clone()
    }

    fn release(mut self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        match self.give_back() {
            Some(freed) => freed.boxed(),
            None => std::future::ready(Ok(())).boxed(),
        }
    }
}

impl Drop for FileGuard {
    fn drop(&mut self) {
        drop(self.give_back());
    }
}

/// The name of a key's file: characters other than letters and digits are written as their bytes.
fn name_of(key: &Key) -> String {
    use std::fmt::Write as _;
    let mut name = String::new();
    for byte in key.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "%{byte:02x}");
        }
    }
    if name.len() > LONGEST {
        // The beginning is for people; the digest distinguishes the rest.
        let digest = windlass_model::Digest::of(key.as_str().as_bytes());
        name.truncate(LONGEST - 70);
        let _ = write!(name, "%{}", digest.hex());
    }
    name + ENDING
}

/// Whether a path still leads to an open file.
fn is_still(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(there)) => open.dev() == there.dev() && open.ino() == there.ino(),
        _ => false,
    }
}

/// The content of a file, if its lock is held.
fn read(path: &Path) -> Option<Listed> {
    let mut file = File::open(path).ok()?;
    // If the file can be locked, even shared, its holder has died.
    if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        return None;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let mut lines = text.lines();
    Some(Listed {
        key: lines.next()?.to_owned(),
        owner: lines.next()?.to_owned(),
        token: lines.next()?.parse().ok()?,
        lease_ms: None,
    })
}

fn trouble(verb: &str, path: &Path, error: &std::io::Error) -> Error {
    use std::io::ErrorKind;
    let message = format!("cannot {verb} {}: {error}", path.display());
    match error.kind() {
        ErrorKind::PermissionDenied
        | ErrorKind::NotADirectory
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::NotFound => Error::refused(message),
        _ => Error::unreachable(message),
    }
}
