//! Locks that need no server, and how all tests get providers and processes.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::conformance::{self, Spawn, Subject, parts};
use crate::settings::open_bare;
use crate::{FileOptions, InProcess, LockProvider, Settings, SqliteOptions};

/// The variable that tells a child process its locks: the provider, the place and the lease.
const PLACE: &str = "WINDLASS_TEST_LOCKS";

/// The settings for a name and a place.
fn settings(provider: &str, place: &str, lease: Duration) -> Settings {
    match provider {
        "file" => Settings::File(FileOptions {
            directory: place.into(),
        }),
        "sqlite" => Settings::Sqlite(SqliteOptions {
            lease,
            ..SqliteOptions::new(place)
        }),
        #[cfg(feature = "postgres")]
        "postgres" => Settings::Postgres(crate::PostgresOptions {
            lease,
            ..crate::PostgresOptions::new(place)
        }),
        #[cfg(feature = "redis")]
        "redis" => {
            // The server is shared: the part after the hash is the prefix.
            let (url, prefix) = place.split_once('#').expect("a prefix");
            Settings::Redis(crate::RedisOptions {
                lease,
                prefix: prefix.to_owned(),
                ..crate::RedisOptions::new(url)
            })
        }
        other => panic!("there is no provider {other:?}"),
    }
}

fn provider(name: &str, place: &str, lease: Duration) -> Arc<dyn LockProvider> {
    open_bare(&settings(name, place, lease), parts("conformance")).expect("it opens")
}

/// A provider that several processes use.
pub(super) fn subject(name: &'static str, place: &str) -> Subject {
    let (here, there) = (place.to_owned(), place.to_owned());
    let spawn: Spawn = Box::new(move |lease| {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command
            .args(["tests::places::child", "--exact", "--nocapture"])
            .env(PLACE, format!("{name} {} {there}", lease.as_millis()));
        command
    });
    Subject {
        open: Box::new(move |lease| provider(name, &here, lease)),
        spawn: Some(spawn),
        leases: name != "file",
    }
}

/// Not a test: the processes of other tests run it.
#[test]
fn child() {
    let Ok(place) = std::env::var(PLACE) else {
        return;
    };
    let mut words = place.splitn(3, ' ');
    let mut word = || words.next().expect("a word");
    let (name, lease_ms, place) = (word(), word(), word());
    let lease = Duration::from_millis(lease_ms.parse().expect("a number"));
    conformance::run(async {
        conformance::child::main(provider(name, place, lease)).await;
    });
}

mod in_process {
    use super::*;

    /// All parties are this one: no other process sees these locks.
    fn subject() -> Option<Subject> {
        let provider: Arc<dyn LockProvider> = Arc::new(InProcess::new(parts("conformance")));
        Some(Subject {
            open: Box::new(move |_| Arc::clone(&provider)),
            spawn: None,
            leases: false,
        })
    }

    crate::conformance!(subject());
}

/// A subject in a directory that is removed after the test.
struct InDirectory {
    _dir: tempfile::TempDir,
    subject: Subject,
}

impl std::ops::Deref for InDirectory {
    type Target = Subject;

    fn deref(&self) -> &Subject {
        &self.subject
    }
}

fn in_directory(name: &'static str, file: &str) -> Option<InDirectory> {
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().join(file);
    let subject = subject(name, place.to_str().expect("a path"));
    Some(InDirectory { _dir: dir, subject })
}

mod file {
    use super::*;

    crate::conformance!(in_directory("file", "locks"));

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        conformance::run(async {
            let settings = settings("file", "/dev/null/locks", Duration::ZERO);
            let error = open_bare(&settings, parts("x")).err().expect("an error");
            assert_eq!(error.code(), crate::codes::REFUSED);
            assert!(error.to_string().contains("/dev/null/locks"), "{error}");
        });
    }

    #[test]
    fn released_locks_leave_nothing_behind() {
        conformance::run(async {
            let dir = tempfile::tempdir().expect("a directory");
            let provider = provider("file", dir.path().to_str().expect("a path"), Duration::ZERO);
            let held = conformance::take(&provider, &crate::Key::reload()).await;
            assert!(dir.path().join("definitions-reloader.lock").exists());
            held.release().await.expect("it is released");
            let left = std::fs::read_dir(dir.path()).expect("a directory");
            let left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
            assert_eq!(left, ["last-token"]);
        });
    }
}

mod sqlite {
    use super::*;

    crate::conformance!(in_directory("sqlite", "locks.db"));

    #[test]
    fn a_lease_that_cannot_be_renewed_in_time_is_refused() {
        conformance::run(async {
            let dir = tempfile::tempdir().expect("a directory");
            let place = dir.path().join("locks.db");
            let settings = settings(
                "sqlite",
                place.to_str().expect("a path"),
                Duration::from_millis(99),
            );
            let error = open_bare(&settings, parts("x")).err().expect("an error");
            assert_eq!(error.code(), crate::codes::SETTINGS);
        });
    }

    #[test]
    fn a_new_file_can_be_opened_by_several_at_once() {
        conformance::run(async {
            for _ in 0..50 {
                let dir = tempfile::tempdir().expect("a directory");
                let place = dir.path().join("locks.db");
                let place = place.to_str().expect("a path");
                let together = Arc::new(std::sync::Barrier::new(4));
                let parties = (0..4).map(|_| {
                    let settings = settings("sqlite", place, conformance::LONG);
                    let (parts, together) = (parts("x"), Arc::clone(&together));
                    std::thread::spawn(move || {
                        together.wait();
                        open_bare(&settings, parts).err()
                    })
                });
                for party in parties.collect::<Vec<_>>() {
                    let error = party.join().expect("it does not panic");
                    assert!(error.is_none(), "{error:?}");
                }
            }
        });
    }

    #[test]
    fn a_file_that_is_no_database_is_refused() {
        conformance::run(async {
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), [b'x'; 4096]).expect("it is written");
            let place = file.path().to_str().expect("a path");
            let settings = settings("sqlite", place, conformance::LONG);
            let error = open_bare(&settings, parts("x")).err().expect("an error");
            assert_eq!(error.code(), crate::codes::REFUSED);
        });
    }
}
