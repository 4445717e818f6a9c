//! Files of the host that only their user can read and write.
//!
//! The host's files contain inputs, outputs and tokens of its user, and code that is run. Files are
//! created with mode 0600 and directories with 0700, regardless of the umask: permissions that are
//! removed later would exist for a moment. Existing files keep their permissions, since an operator
//! may have set them. No file is made or written behind a link: it would be elsewhere.

// Every crate with system calls depends on this one, so the build says this first.
#[cfg(windows)]
compile_error!(
    "Windlass does not run on Windows: it needs Unix sockets, signals and file modes. Use WSL 2 or \
     a container (docs/install.md)."
);

mod owner;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt, PermissionsExt as _,
};
use std::path::Path;

use rustix::fs::OFlags;

pub use owner::foreign;

/// The mode bits of other users.
const OTHERS: u32 = 0o077;

/// The mode bits of other users, except that the group may read.
const OTHERS_MOUNTED: u32 = 0o037;

/// Options that create a file for its user alone, and open no link.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    no_link(options.mode(0o600));
    options
}

/// Refuses a link in the place of a file that a library is about to make: a file behind the link
/// would be elsewhere, with the permissions that the library gives it. A link to a file with content
/// is accepted, since no file is made then.
///
/// # Errors
///
/// The place is a link to nothing or to an empty file ([`io::ErrorKind::InvalidInput`]).
pub fn check_place(path: &Path) -> io::Result<()> {
    let is_link = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    if is_link && std::fs::metadata(path).map_or(true, |found| found.len() == 0) {
        let text = "it is a link, and nothing is made behind a link";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(())
}

/// Makes a directory for its user alone, and those above it, unless they exist.
///
/// # Errors
///
/// The system refuses.
pub fn make_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path)
}

/// Makes an empty file for its user alone, unless the name exists.
///
/// # Errors
///
/// The name is a link to nothing or to an empty file ([`check_place`]), or the system refuses.
pub fn make(path: &Path) -> io::Result<()> {
    check_place(path)?;
    match options().write(true).create_new(true).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Opens a file by whose lock processes of one user exclude each other, and creates it if it does
/// not exist. Afterwards no other user can open it, so no other user can hold its lock.
///
/// # Errors
///
/// The file is another user's, it is a link, or the system refuses.
pub fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = options();
    options.read(true).write(true).create(true).truncate(false);
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user {
        // Root administers stores of other users.
        if user == 0 {
            return Ok(file);
        }
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it belongs to another user, who could keep its lock",
        ));
    }
    if metadata.mode() & OTHERS != 0 {
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// The permissions of users other than the owner of a file or directory, as a mode: 0 if there are
/// none.
///
/// # Errors
///
/// The permissions cannot be read.
pub fn open_to_others(path: &Path) -> io::Result<u32> {
    Ok(std::fs::metadata(path)?.mode() & OTHERS)
}

/// Reads a file of at most `longest` bytes that only this user can have written or read.
///
/// # Errors
///
/// The file does not exist, is longer, is a link, or others can write or read it
/// ([`io::ErrorKind::PermissionDenied`]).
pub fn read(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    let file = no_link(options.read(true)).open(path)?;
    let metadata = file.metadata()?;
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    if !metadata.is_file() || !own || metadata.mode() & OTHERS != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "others can read or write it",
        ));
    }
    read_at_most(file, longest)
}

/// Reads a file of at most `longest` bytes that an operator or a container runtime provides for
/// this user: it may be a link, root may own it, and its group may read it.
///
/// # Errors
///
/// The file does not exist, is longer, or another user can write it, or all users can read it
/// ([`io::ErrorKind::PermissionDenied`]).
pub fn read_mounted(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    let user = rustix::process::geteuid().as_raw();
    let fine = [user, 0].contains(&metadata.uid()) && metadata.mode() & OTHERS_MOUNTED == 0;
    if !metadata.is_file() || !fine {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "another user owns or can write it, or all users can read it",
        ));
    }
    read_at_most(file, longest)
}

/// Reads a regular file of at most `longest` bytes, with any owner. It may be a link.
///
/// # Errors
///
/// The file does not exist, is not a regular file, or is longer.
pub fn read_regular(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    let options = options.read(true);
    let file = OpenOptionsExt::custom_flags(options, OFlags::NONBLOCK.bits().cast_signed());
    let file = file.open(path)?;
    if !file.metadata()?.is_file() {
        let text = "it is no regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    read_at_most(file, longest)
}

fn read_at_most(file: File, longest: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = file
        .take(longest.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if read as u64 > longest {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Writes a file atomically and durably, even if the system crashes, and makes its directory if
/// that does not exist.
///
/// # Errors
///
/// The system refuses.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = unnamed(path, bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// As [`write()`], for a file that must not exist.
///
/// # Errors
///
/// It exists ([`io::ErrorKind::AlreadyExists`]), or the system refuses.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = unnamed(path, bytes)?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    Ok(())
}

/// A temporary file beside a path, with its whole content.
fn unnamed(path: &Path, bytes: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    let directory = path.parent().filter(|above| !above.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    make_directory(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Does not follow links or wait for pipes.
fn no_link(options: &mut OpenOptions) -> &mut OpenOptions {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    OpenOptionsExt::custom_flags(options, flags.bits().cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    fn widen(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn new_files_are_for_this_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("a/b");
        make_directory(&below).unwrap();
        assert_eq!((mode(&dir.path().join("a")), mode(&below)), (0o700, 0o700));
        let file = below.join("file");
        make(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
        let written = dir.path().join("c/written");
        write(&written, b"first").unwrap();
        write(&written, b"second").unwrap();
        assert_eq!(read(&written, 6).unwrap(), b"second");
        assert!(read(&written, 5).is_err());
        assert_eq!(mode(&written), 0o600);
        let error = write_new(&written, b"third").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(read(&written, 6).unwrap(), b"second");
        let lock = dir.path().join("lock");
        drop(open_lock(&lock).unwrap());
        assert_eq!(mode(&lock), 0o600);
        assert_eq!(open_to_others(&lock).unwrap(), 0);
    }

    #[test]
    fn existing_files_stay_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "content").unwrap();
        widen(&file, 0o644);
        widen(dir.path(), 0o755);
        make(&file).unwrap();
        make_directory(dir.path()).unwrap();
        assert_eq!((mode(&file), mode(dir.path())), (0o644, 0o755));
        assert_eq!(std::fs::read(&file).unwrap(), b"content");
        assert_eq!(open_to_others(&file).unwrap(), 0o044);
    }

    #[test]
    fn nothing_is_made_behind_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let [link, elsewhere] = ["link", "elsewhere"].map(|name| dir.path().join(name));
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        let refused = |result: io::Result<()>| result.unwrap_err().kind();
        assert_eq!(refused(check_place(&link)), io::ErrorKind::InvalidInput);
        assert_eq!(refused(make(&link)), io::ErrorKind::InvalidInput);
        for create in [true, false] {
            let mut options = options();
            assert!(options.write(true).create(create).open(&link).is_err());
        }
        assert!(open_lock(&link).is_err());
        assert!(!elsewhere.exists());
        std::fs::write(&elsewhere, "").unwrap();
        assert!(make(&link).is_err(), "an empty file is as good as none");
        std::fs::write(&elsewhere, "content").unwrap();
        make(&link).unwrap();
        write(&link, b"own").unwrap();
        assert_eq!(std::fs::read(&elsewhere).unwrap(), b"content");
        assert_eq!(
            std::fs::read(&link).unwrap(),
            b"own",
            "the link is replaced"
        );
        check_place(dir.path()).unwrap();
        check_place(&dir.path().join("none")).unwrap();
    }

    #[test]
    fn files_that_other_users_can_write_or_read_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "text").unwrap();
        for (wide, good) in [
            (0o644, false),
            (0o620, false),
            (0o602, false),
            (0o600, true),
        ] {
            widen(&path, wide);
            assert_eq!(read(&path, 10).is_ok(), good, "{wide:o}");
        }
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(read(&link, 10).is_err());
        assert!(open_lock(&link).is_err());
        assert!(read(dir.path(), 10).is_err());
        let missing = read(&dir.path().join("none"), 10).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_lock_that_others_could_hold_is_taken_from_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        std::fs::write(&path, "").unwrap();
        widen(&path, 0o666);
        drop(open_lock(&path).unwrap());
        assert_eq!(mode(&path), 0o600);
    }
}
