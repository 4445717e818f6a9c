//! Files below a directory, written without following a link inside of it.
//!
//! Each path is walked from the open directory, one name at a time, and a name that is a link is
//! refused: a project of another person cannot lead a file out of its directory.

use std::fmt;
use std::fs::File as Opened;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;

/// A directory that is open.
pub(in crate::commands) struct Tree {
    root: OwnedFd,
}

/// A file to write.
pub(in crate::commands) struct File<'a> {
    /// Its path in the directory, with `/` between names.
    pub(in crate::commands) path: &'a str,
    /// Its content.
    pub(in crate::commands) content: &'a [u8],
}

/// Why the files were not written.
#[derive(Debug)]
pub(in crate::commands) enum Error {
    /// A name that has to be a directory is something else.
    NoDirectory(String),
    /// The system refuses.
    System(String, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDirectory(path) => write!(f, "`{path}` is there and is no directory"),
            Self::System(path, error) => write!(f, "`{path}` cannot be made: {error}"),
        }
    }
}

impl Error {
    /// The remedy.
    pub(in crate::commands) fn help(&self) -> &'static str {
        match self {
            Self::NoDirectory(_) => {
                "Nothing was written. Move that file or link away, or name another directory."
            }
            Self::System(..) => {
                "Nothing of the project is left there. Name a directory that you can write."
            }
        }
    }
}

/// Directories of a project.
const DIRECTORY: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The mode of directories, and of files without the right to execute.
const MODE: Mode = Mode::RWXU
    .union(Mode::RGRP)
    .union(Mode::XGRP)
    .union(Mode::ROTH)
    .union(Mode::XOTH);

const FILE_MODE: Mode = Mode::RUSR
    .union(Mode::WUSR)
    .union(Mode::RGRP)
    .union(Mode::ROTH);

/// The directory of the store, which only its user may read.
const PRIVATE: &str = ".windlass";

impl Tree {
    /// Opens a directory, and makes it if it does not exist. The user has named it, so it may be a
    /// link.
    pub(in crate::commands) fn open(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        std::fs::create_dir_all(path).map_err(|error| Error::System(name.clone(), error))?;
        let root = openat(
            CWD,
            path,
            OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let root = root.map_err(|error| Error::System(name, error.into()))?;
        Ok(Self { root })
    }

    /// Writes the files that do not exist, and returns the paths of the others. Either all missing
    /// files are written or none.
    pub(in crate::commands) fn write<'f>(
        &self,
        files: &'f [File<'f>],
    ) -> Result<Vec<&'f str>, Error> {
        for file in files {
            self.check(file.path)?;
        }
        let (mut made, mut kept) = (Vec::new(), Vec::new());
        for file in files {
            match self.write_one(file, &mut made) {
                Ok(true) => {}
                Ok(false) => kept.push(file.path),
                Err(error) => {
                    self.undo(&made);
                    return Err(Error::System(file.path.to_owned(), error));
                }
            }
        }
        Ok(kept)
    }

    /// Refuses a path that leads through a name that is no directory.
    fn check(&self, path: &str) -> Result<(), Error> {
        let mut above = 0;
        while let Some(at) = path.get(above..).and_then(|rest| rest.find('/')) {
            let directory = path.get(..above + at).unwrap_or_default();
            match statat(&self.root, directory, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) if FileType::from_raw_mode(found.st_mode) != FileType::Directory => {
                    return Err(Error::NoDirectory(directory.to_owned()));
                }
                Ok(_) => {}
                Err(Errno::NOENT) => return Ok(()),
                Err(error) => return Err(Error::System(directory.to_owned(), error.into())),
            }
            above += at + 1;
        }
        Ok(())
    }

    /// Writes a file unless its name exists, with its directories. Returns whether it was written.
    fn write_one<'f>(
        &self,
        file: &'f File<'_>,
        made: &mut Vec<(&'f str, AtFlags)>,
    ) -> io::Result<bool> {
        let (directory, name) = file.path.rsplit_once('/').unwrap_or(("", file.path));
        let mut folder = self.root.try_clone()?;
        let mut walked = 0;
        for part in directory.split('/').filter(|part| !part.is_empty()) {
            walked += part.len();
            let mode = match part {
                PRIVATE => Mode::RWXU,
                _ => MODE,
            };
            match mkdirat(&folder, part, mode) {
                Ok(()) => made.extend(file.path.get(..walked).map(|it| (it, AtFlags::REMOVEDIR))),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            folder = openat(&folder, part, DIRECTORY, Mode::empty())?;
            walked += 1;
        }
        // An existing name is not opened, also if it is a link.
        let options = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let opened = match openat(&folder, name, options, FILE_MODE) {
            Ok(opened) => opened,
            Err(Errno::EXIST) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        made.push((file.path, AtFlags::empty()));
        Opened::from(opened).write_all(file.content)?;
        Ok(true)
    }

    /// Removes files and directories that were made, the last one first.
    fn undo(&self, made: &[(&str, AtFlags)]) {
        for (path, kind) in made.iter().rev() {
            // A directory that got a file of another program meanwhile stays.
            let _ = unlinkat(&self.root, *path, *kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const FILES: [File<'static>; 3] = [
        File {
            path: "top.txt",
            content: b"top",
        },
        File {
            path: "a/b/deep.txt",
            content: b"deep",
        },
        File {
            path: ".windlass/x.json",
            content: b"{}",
        },
    ];

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn missing_files_are_written_and_existing_ones_kept() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("a new one");
        let tree = Tree::open(&directory).unwrap();
        assert_eq!(tree.write(&FILES).unwrap(), [""; 0]);
        assert_eq!(fs::read(directory.join("a/b/deep.txt")).unwrap(), b"deep");
        let private = fs::metadata(directory.join(".windlass")).unwrap();
        assert_eq!(private.permissions().mode() & 0o777, 0o700);
        fs::write(directory.join("top.txt"), "mine").unwrap();
        fs::remove_file(directory.join("a/b/deep.txt")).unwrap();
        let kept = tree.write(&FILES).unwrap();
        assert_eq!(kept, ["top.txt", ".windlass/x.json"]);
        assert_eq!(fs::read(directory.join("top.txt")).unwrap(), b"mine");
        assert_eq!(fs::read(directory.join("a/b/deep.txt")).unwrap(), b"deep");
    }

    #[test]
    fn no_link_leads_out_of_the_directory() {
        let place = tempfile::tempdir().unwrap();
        let (directory, outside) = (place.path().join("in"), place.path().join("out"));
        fs::create_dir(&directory).unwrap();
        fs::create_dir(&outside).unwrap();
        symlink(&outside, directory.join("a")).unwrap();
        let tree = Tree::open(&directory).unwrap();
        let refused = tree.write(&FILES).unwrap_err();
        assert!(matches!(&refused, Error::NoDirectory(path) if path == "a"));
        // Nothing was written, neither there nor here.
        assert_eq!(names(&directory), ["a"]);
        assert_eq!(names(&outside), [""; 0]);
        // A dangling link counts as a file that is there.
        fs::remove_file(directory.join("a")).unwrap();
        symlink(outside.join("new.txt"), directory.join("top.txt")).unwrap();
        assert_eq!(tree.write(&FILES).unwrap(), ["top.txt"]);
        assert_eq!(names(&outside), [""; 0]);
    }

    #[test]
    fn a_failure_removes_the_written_files() {
        let place = tempfile::tempdir().unwrap();
        let tree = Tree::open(place.path()).unwrap();
        fs::write(place.path().join("other"), "mine").unwrap();
        // The last file cannot be written: a name may have 255 bytes.
        let long: &'static str = Box::leak(format!("c/{}", "x".repeat(300)).into_boxed_str());
        let files = [
            &FILES[0],
            &FILES[1],
            &File {
                path: long,
                content: b"",
            },
        ];
        let files = files.map(|file| File {
            path: file.path,
            content: file.content,
        });
        assert!(matches!(tree.write(&files), Err(Error::System(..))));
        assert_eq!(names(place.path()), ["other"]);
    }
}
