//! Reading definitions again, by one process at a time, and files that are added and removed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use windlass_locks::{HeldLock, InProcess, Key, Listed, LockProvider, Parts, Reach};
use windlass_runtime::definitions::{Definitions, OnRemoval, Options, Refreshed, Upkept};
use windlass_runtime::operations;
use windlass_runtime::{BurstLock, Distribution, Topology};
use windlass_store::Reader as _;
use windlass_store::drafts::Upkeep;

use crate::rig::{Running, Setup};

fn workflow(name: &str, event: &str) -> String {
    format!(
        "
workflow: {name}
triggers: {{ go: {{ event: {event} }} }}
nodes: {{ only: {{ set: {{ done: true }} }} }}
"
    )
}

fn locks(running: &Running) -> Arc<dyn LockProvider> {
    Arc::new(InProcess::new(Parts {
        clock: running.clock(),
        runtime: running.io(),
        owner: "test".to_owned(),
        metrics: Arc::default(),
    }))
}

fn one_of_several(locks: &Arc<dyn LockProvider>) -> Topology {
    Topology::Distributed(Distribution {
        locks: Arc::clone(locks),
        burst: BurstLock::Ownership,
    })
}

fn refreshed(upkept: Upkept<Refreshed>) -> Vec<String> {
    match upkept {
        Upkept::Done(done) => {
            assert!(
                done.failed.is_empty() && done.missing.is_empty(),
                "{done:?}"
            );
            done.refreshed.into_iter().map(|it| it.name).collect()
        }
        Upkept::AlreadyInProgress => panic!("no other process is at it"),
    }
}

fn waiting(running: &Running) -> Vec<Upkeep> {
    let rows = running.store.upkeep(10).unwrap();
    rows.into_iter().map(|row| row.what).collect()
}

#[test]
fn a_reload_that_finds_another_in_progress_is_refused_and_nothing_is_forgotten() {
    let running = Setup::default().start();
    for name in ["a", "b"] {
        running.publish(&workflow(name, "go"));
    }
    let locks = locks(&running);
    let definitions = running.definitions(&one_of_several(&locks), Options::default());
    let take = |key: Key| -> Box<dyn HeldLock> {
        let taken = running.block_on(locks.try_acquire(&key)).unwrap();
        taken.expect("the lock is free")
    };
    let busy = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        matches!(
            definitions.refresh(&names).unwrap(),
            Upkept::AlreadyInProgress
        )
    };
    // Refreshing some workflows excludes refreshing all or the same ones, but not others.
    let other = take(Key::refresh("a"));
    assert!(busy(&["b", "a"]));
    assert!(busy(&[]));
    assert_eq!(
        refreshed(definitions.refresh(&["b".to_owned()]).unwrap()),
        ["b"]
    );
    assert_eq!(
        waiting(&running),
        [Upkeep::RefreshAll],
        "it includes the first"
    );
    running.block_on(other.release()).unwrap();
    // Refreshing all excludes refreshing some: the holder of the lock of all is about to take their
    // locks.
    let other = take(Key::refresh_all());
    assert!(busy(&[]));
    running.block_on(other.release()).unwrap();
    // The next process carries out the pending request.
    assert_eq!(
        refreshed(definitions.refresh(&["b".to_owned()]).unwrap()),
        ["b"]
    );
    assert_eq!(waiting(&running), []);
    assert_eq!(refreshed(definitions.refresh(&[]).unwrap()), ["a", "b"]);
    let other = take(Key::reload());
    assert!(matches!(
        definitions.reload().unwrap(),
        Upkept::AlreadyInProgress
    ));
    assert_eq!(waiting(&running), [Upkeep::Reload]);
    running.block_on(other.release()).unwrap();
    definitions.catch_up().unwrap();
    assert_eq!(waiting(&running), []);
    assert_eq!(
        running.block_on(locks.list(10)).unwrap(),
        [],
        "every lock is given back"
    );
}

#[test]
fn a_process_that_reads_the_files_carries_out_reloads_asked_for_meanwhile() {
    let running = Setup::default().start();
    let locks = locks(&running);
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        directories: vec![dir.path().to_owned()],
        ..Options::default()
    };
    let definitions = running.definitions(&one_of_several(&locks), options);
    let other = running.block_on(locks.try_acquire(&Key::reload())).unwrap();
    assert!(matches!(
        definitions.reload().unwrap(),
        Upkept::AlreadyInProgress
    ));
    drop(other);
    running.until("it is given back", |_| {
        running.block_on(locks.list(1)).unwrap().is_empty()
    });
    assert_eq!(waiting(&running), [Upkeep::Reload]);
    write(&dir.path().join("a.yaml"), &workflow("a", "first"));
    assert_eq!(look(&definitions), (1, 0, 0));
    assert_eq!(waiting(&running), []);
}

/// Locks that are taken at first and free after a short wait: their holder is about to release
/// them.
struct Contended(Arc<dyn LockProvider>);

impl LockProvider for Contended {
    fn name(&self) -> &'static str {
        "contended"
    }

    fn reach(&self) -> Reach {
        self.0.reach()
    }

    fn try_acquire<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Taken> {
        if *key == Key::refresh_all() {
            return Box::pin(std::future::ready(Ok(None)));
        }
        self.0.try_acquire(key)
    }

    fn acquire<'a>(&'a self, key: &'a Key, timeout: Duration) -> BoxFuture<'a, Taken> {
        self.0.acquire(key, timeout)
    }

    fn list(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Listed>, windlass_locks::Error>> {
        self.0.list(limit)
    }
}

type Taken = Result<Option<Box<dyn HeldLock>>, windlass_locks::Error>;

#[test]
fn a_process_that_briefly_held_some_locks_makes_no_other_forget() {
    let running = Setup::default().start();
    running.publish(&workflow("a", "go"));
    let locks: Arc<dyn LockProvider> = Arc::new(Contended(locks(&running)));
    let definitions = running.definitions(&one_of_several(&locks), Options::default());
    assert!(matches!(
        definitions.refresh(&[]).unwrap(),
        Upkept::AlreadyInProgress
    ));
    assert_eq!(waiting(&running), [Upkeep::RefreshAll]);
    let some = definitions.refresh(&["a".to_owned()]).unwrap();
    assert_eq!(refreshed(some), ["a"]);
    assert_eq!(waiting(&running), []);
}

/// Writes a file, and sets a new modification time, because the clock of the disk may be coarse.
fn write(file: &Path, text: &str) {
    std::fs::write(file, text).unwrap();
}

fn version(running: &Running, name: &str) -> Option<u32> {
    running
        .store
        .published(name)
        .unwrap()
        .map(|row| row.version)
}

fn look(definitions: &Definitions) -> (usize, usize, usize) {
    match definitions.look(false).unwrap() {
        Upkept::Done(done) => (
            done.published.len(),
            done.retracted.len(),
            done.failed.len(),
        ),
        Upkept::AlreadyInProgress => panic!("no other process is at it"),
    }
}

#[test]
fn files_are_published_when_their_content_differs() {
    let running = Setup::default().start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    let options = || Options {
        directories: vec![dir.path().to_owned()],
        on_removal: OnRemoval::Retract,
        web: true,
    };
    write(&file, &workflow("a", "first"));
    write(
        &dir.path().join("bad.yaml"),
        "workflow: bad\nnodes: { x: { } }\n",
    );
    let definitions = running.definitions(&Topology::Local, options());
    assert_eq!(look(&definitions), (1, 0, 1));
    assert_eq!(look(&definitions), (0, 0, 0), "nothing has changed");
    // A version published by hand survives a restart, until the file changes.
    running.publish(&workflow("a", "by-hand"));
    assert_eq!(
        look(&running.definitions(&Topology::Local, options())),
        (0, 0, 1)
    );
    assert_eq!(version(&running, "a"), Some(2));
    // An explicit reload publishes the content of the file.
    assert!(matches!(definitions.reload().unwrap(), Upkept::Done(_)));
    assert_eq!(version(&running, "a"), Some(3));
    // A file with a new workflow name retracts the workflow of the old name.
    write(&file, &workflow("renamed", "first"));
    look(&definitions);
    assert_eq!(
        (version(&running, "a"), version(&running, "renamed")),
        (None, Some(1))
    );
    write(&dir.path().join("b.yaml"), &workflow("b", "first"));
    assert_eq!(look(&definitions), (1, 0, 0));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(look(&definitions), (0, 1, 0));
    assert_eq!(version(&running, "renamed"), None);
    // A missing directory proves nothing about its files.
    let elsewhere = dir.path().with_extension("away");
    std::fs::rename(dir.path(), &elsewhere).unwrap();
    assert_eq!(look(&definitions), (0, 0, 0));
    std::fs::create_dir(dir.path()).unwrap();
    assert_eq!(
        look(&definitions),
        (0, 0, 0),
        "nor does one that is empty all at once"
    );
    assert_eq!(version(&running, "b"), Some(1));
    std::fs::remove_dir_all(elsewhere).unwrap();
}

/// The host's answer about a published definition.
/// The workflows of a workflow `a` in the files of a directory, and the definitions of the
/// directory.
struct Watched {
    running: Running,
    directory: tempfile::TempDir,
    definitions: Definitions,
}

impl Watched {
    fn new() -> Self {
        let running = Setup::default().start();
        let directory = tempfile::tempdir().unwrap();
        let definitions = Self::definitions(&running, directory.path());
        Self {
            running,
            directory,
            definitions,
        }
    }

    fn definitions(running: &Running, directory: &Path) -> Definitions {
        let options = Options {
            directories: vec![directory.to_owned()],
            ..Options::default()
        };
        running.definitions(&Topology::Local, options)
    }

    /// The process ends, and another one looks.
    fn restart(&mut self) {
        self.definitions = Self::definitions(&self.running, self.directory.path());
    }

    fn write(&self, file: &str, text: &str) {
        write(&self.directory.path().join(file), text);
    }

    fn remove(&self, file: &str) {
        std::fs::remove_file(self.directory.path().join(file)).unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        let path = |name: &str| self.directory.path().join(name);
        std::fs::rename(path(from), path(to)).unwrap();
    }

    #[track_caller]
    fn check(&self, looked: (usize, usize, usize), versions: &[(&str, Option<u32>)]) {
        assert_eq!(look(&self.definitions), looked);
        assert_eq!(look(&self.definitions), (0, 0, 0), "nothing has changed");
        for (name, expected) in versions {
            assert_eq!(version(&self.running, name), *expected, "{name}");
        }
    }
}

#[test]
fn another_file_takes_the_workflow_of_a_removed_file_over() {
    let mut watched = Watched::new();
    watched.write("a.yaml", &workflow("a", "first"));
    watched.check((1, 0, 0), &[("a", Some(1))]);
    for copy in ["b.yaml", "c.yaml"] {
        watched.write(copy, &workflow("a", "first"));
    }
    watched.check((0, 0, 2), &[("a", Some(1))]);
    // With the same content, the version and the rows of its triggers stay.
    watched.remove("a.yaml");
    watched.check((1, 0, 0), &[("a", Some(1))]);
    // With another content, it is a new version.
    watched.write("d.yaml", &workflow("a", "other"));
    watched.check((0, 0, 1), &[("a", Some(1))]);
    watched.remove("c.yaml");
    watched.remove("b.yaml");
    watched.check((1, 0, 0), &[("a", Some(2))]);
    // A renamed file is the same file, also while no process runs.
    watched.rename("d.yaml", "e.yaml");
    watched.check((1, 0, 0), &[("a", Some(2))]);
    watched.rename("e.yaml", "d.yaml");
    watched.restart();
    watched.check((1, 0, 0), &[("a", Some(2))]);
    // The last one takes it away.
    watched.write("other.yaml", &workflow("b", "first"));
    watched.remove("d.yaml");
    watched.check((1, 1, 0), &[("a", None), ("b", Some(1))]);
}

#[test]
fn a_version_has_the_comments_that_its_file_has() {
    let mut watched = Watched::new();
    let first = workflow("a", "first");
    let text = |watched: &Watched, version| {
        let text = watched.running.store.published_text("a", version).unwrap();
        text.map(|text| String::from_utf8_lossy(&text).into_owned())
    };
    watched.write("a.yaml", &format!("# one\n{first}"));
    watched.check((1, 0, 0), &[("a", Some(1))]);
    assert_eq!(text(&watched, 1), Some(format!("# one\n{first}")));
    // Other comments make no other version.
    watched.write("a.yaml", &format!("# two\n{first}"));
    watched.check((0, 0, 0), &[("a", Some(1))]);
    assert_eq!(text(&watched, 1), Some(format!("# two\n{first}")));
    // Nor do they bring a version back that was replaced by hand.
    watched.running.publish(&workflow("a", "other"));
    watched.write("a.yaml", &format!("# three\n{first}"));
    watched.check((0, 0, 0), &[("a", Some(2))]);
    watched.restart();
    watched.check((0, 0, 0), &[("a", Some(2))]);
    assert_eq!(text(&watched, 1), Some(format!("# two\n{first}")));
    assert_eq!(text(&watched, 2), None);
}

#[test]
fn another_file_takes_over_when_the_first_one_has_another_workflow() {
    let watched = Watched::new();
    watched.write("a.yaml", &workflow("a", "first"));
    watched.write("b.yaml", &workflow("a", "other"));
    watched.check((1, 0, 1), &[("a", Some(1))]);
    // A mistake in the first file changes nothing.
    watched.write("a.yaml", "workflow: a");
    watched.check((0, 0, 1), &[("a", Some(1))]);
    watched.write("a.yaml", &workflow("renamed", "first"));
    watched.check((2, 0, 0), &[("a", Some(2)), ("renamed", Some(1))]);
    // Two files change places.
    watched.write("a.yaml", &workflow("a", "a third"));
    watched.write("b.yaml", &workflow("renamed", "a third"));
    assert_eq!(look(&watched.definitions).1, 0);
    watched.check((0, 0, 0), &[("a", Some(3)), ("renamed", Some(2))]);
    // A heir with a mistake is none.
    watched.write("c.yaml", &workflow("a", "fourth"));
    watched.check((0, 0, 1), &[("a", Some(3))]);
    watched.write("c.yaml", "workflow: a");
    watched.check((0, 0, 1), &[("a", Some(3))]);
    watched.remove("a.yaml");
    watched.check((0, 1, 0), &[("a", None)]);
}

#[test]
fn after_a_restart_the_file_that_had_the_workflow_has_it() {
    let mut watched = Watched::new();
    watched.write("z.yaml", &workflow("a", "first"));
    watched.check((1, 0, 0), &[("a", Some(1))]);
    watched.write("b.yaml", &workflow("a", "other"));
    watched.check((0, 0, 1), &[("a", Some(1))]);
    watched.restart();
    watched.check((0, 0, 1), &[("a", Some(1))]);
}

#[test]
fn a_directory_that_is_not_read_to_its_end_loses_no_workflow() {
    let mut watched = Watched::new();
    watched.write("a.yaml", &workflow("a", "first"));
    watched.write("b.yaml", &workflow("b", "first"));
    watched.check((2, 0, 0), &[("a", Some(1)), ("b", Some(1))]);
    let extra = |at: u32| watched.directory.path().join(format!("{at}.yaml"));
    for at in 0..10_000 {
        write(&extra(at), "");
    }
    watched.remove("b.yaml");
    // The error is told once by each process, and by each request.
    watched.check((0, 0, 1), &[("a", Some(1)), ("b", Some(1))]);
    watched.restart();
    watched.check((0, 0, 1), &[("a", Some(1)), ("b", Some(1))]);
    let Upkept::Done(reloaded) = watched.definitions.reload().unwrap() else {
        panic!("no other process is at it");
    };
    let failed: Vec<_> = reloaded
        .failed
        .iter()
        .map(|it| it.error.to_string())
        .collect();
    assert!(
        failed[0].contains("more than 10000 workflow files"),
        "{failed:?}"
    );
    assert!(reloaded.retracted.is_empty(), "{reloaded:?}");
    let extra = |at: u32| watched.directory.path().join(format!("{at}.yaml"));
    for at in 0..10_000 {
        std::fs::remove_file(extra(at)).unwrap();
    }
    watched.check((0, 1, 0), &[("a", Some(1)), ("b", None)]);
    // A file stands where the directory was.
    let (path, aside) = (watched.directory.path(), tempfile::tempdir().unwrap());
    std::fs::rename(path, aside.path().join("it")).unwrap();
    write(path, "");
    watched.check((0, 0, 1), &[("a", Some(1))]);
    std::fs::remove_file(path).unwrap();
    std::fs::rename(aside.path().join("it"), path).unwrap();
    watched.check((0, 0, 0), &[("a", Some(1))]);
}

#[cfg(unix)]
#[test]
fn a_file_whose_name_is_not_utf8_is_ignored_and_told_once() {
    use std::os::unix::ffi::OsStrExt as _;

    let watched = Watched::new();
    let name = std::ffi::OsStr::from_bytes(b"\xff.yaml");
    write(
        &watched.directory.path().join(name),
        &workflow("a", "first"),
    );
    write(&watched.directory.path().join("b.YML"), "");
    let look = || match watched.definitions.look(false).unwrap() {
        Upkept::Done(found) => found.ignored,
        Upkept::AlreadyInProgress => panic!("no other process is at it"),
    };
    let ignored = look();
    let reasons: Vec<_> = ignored.iter().map(|it| it.why).collect();
    assert_eq!(reasons.len(), 2, "{ignored:?}");
    assert!(reasons.contains(&"its path is not UTF-8"), "{ignored:?}");
    assert_eq!(version(&watched.running, "a"), None);
    assert!(look().is_empty());
}

fn published(
    running: &Running,
    workflow: &str,
) -> Result<operations::Published, windlass_runtime::Error> {
    let (store, definition) = (&*running.store, crate::rig::definition(workflow));
    operations::publish(store, running.plugins(), running.now_ms(), definition)
}

#[test]
fn a_long_wait_in_a_critical_section_is_published_with_a_warning() {
    let running = Setup::default().start();
    let workflow = |wait: &str| {
        format!(
            "
workflow: till
nodes:
  ask: {{ mutex: till, wait: {wait} }}
  book: {{ mutex: till, set: {{ done: true }} }}
edges: [ask -> book]
"
        )
    };
    let found = published(&running, &workflow("1h")).unwrap().warnings;
    let codes: Vec<&str> = found.iter().map(|it| it.code.as_str()).collect();
    assert_eq!(codes, ["WL-D165"]);
    assert_eq!(found[0].place.pointer, "/nodes/ask/mutex");
    let found = published(&running, &workflow("1s")).unwrap();
    assert_eq!((found.version, found.warnings), (2, Vec::new()));
}
