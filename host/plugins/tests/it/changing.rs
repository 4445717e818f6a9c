//! Plugin files that change faster than they compile. The tests hold each compilation at its begin.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use windlass_model::Digest;
use windlass_plugins::{CompileReport, Compiling, CompilingBehind, Folders, LoadEvent};

use crate::rig::{self, Rig};

/// A wait for the compiler, which takes a fraction of a second.
const WAIT: Duration = Duration::from_secs(60);

/// A host with one place for the compiler, whose compilations begin one by one.
struct Held {
    /// Lets a compilation go on. First, so that a test that fails holds none.
    go: Sender<()>,
    /// The names of the files whose compilation has begun.
    begun: Receiver<String>,
    folders: Folders,
    events: Vec<LoadEvent>,
    dir: PathBuf,
    _behind: CompilingBehind,
    rig: Rig,
}

impl Held {
    fn new() -> Self {
        let (go, gone) = channel();
        let (begins, begun) = channel();
        let gone = Mutex::new(gone);
        let tell = move |compiling: &Compiling<'_>| {
            if compiling.took.is_none() {
                let file = PathBuf::from(compiling.subject);
                let name = file.file_name().unwrap().to_str().unwrap();
                let _ = begins.send(name.to_owned());
                let _ = gone.lock().recv();
            }
        };
        let report = CompileReport {
            after: Duration::ZERO,
            tell: Arc::new(tell),
        };
        let rig = Rig::in_dir(tempfile::tempdir().unwrap(), |options| {
            options.compiling = Some(report);
            options.pool.compiles = 1;
        });
        let dir = rig.dir.path().join("plugins");
        std::fs::create_dir(&dir).unwrap();
        let mut held = Self {
            go,
            begun,
            folders: Folders::new(vec![dir.clone()]),
            events: Vec::new(),
            dir,
            _behind: rig.host.compile_behind(|| ()),
            rig,
        };
        held.look();
        held
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let new = self.dir.join(".new");
        std::fs::write(&new, bytes).unwrap();
        std::fs::rename(new, self.dir.join(name)).unwrap();
    }

    fn remove(&self, name: &str) {
        std::fs::remove_file(self.dir.join(name)).unwrap();
    }

    fn look(&mut self) {
        let events = &mut self.events;
        self.folders
            .look(&self.rig.host, &mut |event| events.push(event));
    }

    /// Waits until the compilation of this file begins.
    #[track_caller]
    fn begins(&self, name: &str) {
        assert_eq!(self.begun.recv_timeout(WAIT).as_deref(), Ok(name));
    }

    /// Lets the compilation end that has begun, and looks.
    fn compile(&mut self) {
        self.go.send(()).unwrap();
        assert!(self.rig.host.await_compiled(WAIT));
        self.look();
    }

    /// The digest of the plugin of a file.
    fn loaded(&self, name: &str) -> Option<Digest> {
        let plugin = self.rig.host.registry().file(&self.dir.join(name));
        plugin.map(|plugin| plugin.digest)
    }

    /// The components that wait, and whether the compiler works on them.
    fn awaited(&self) -> Vec<(Digest, bool)> {
        let awaited = self.rig.host.awaited().into_iter();
        awaited.map(|it| (it.digest, it.is_running)).collect()
    }

    fn replacements(&self) -> Vec<(Digest, Option<Digest>)> {
        let loaded = self.events.iter().filter_map(|event| match event {
            LoadEvent::Loaded {
                plugin, replaced, ..
            } => Some((plugin.digest, *replaced)),
            _ => None,
        });
        loaded.collect()
    }
}

/// A function that returns 128. It has so many steps before, so versions differ in size.
fn steps(count: usize) -> String {
    format!("{} (i32.const 128)", "(drop (i32.const 0))".repeat(count))
}

/// A version of a component of the package `wat`.
fn version(count: usize) -> Vec<u8> {
    rig::module(&[], "", "", &steps(count))
}

/// A component of the package `w`.
fn other(count: usize) -> Vec<u8> {
    rig::consumer(&[], "", "", &steps(count))
}

fn digest(bytes: Vec<u8>) -> Digest {
    Digest::of(&windlass_plugins::component("test.wasm", bytes).unwrap())
}

#[test]
fn a_file_that_changes_while_it_is_compiled_is_loaded_as_it_was_and_then_as_it_is() {
    let mut held = Held::new();
    let [first, third, fourth] = [1, 3, 4].map(|count| digest(version(count)));
    held.write("x.wasm", &version(1));
    held.look();
    held.begins("x.wasm");
    for count in [2, 3] {
        held.write("x.wasm", &version(count));
        held.look();
    }
    assert_eq!(held.awaited(), [(first, true), (third, false)]);
    held.compile();
    assert_eq!(held.loaded("x.wasm"), Some(first));
    held.begins("x.wasm");
    held.write("x.wasm", &version(4));
    held.look();
    held.compile();
    assert_eq!(held.loaded("x.wasm"), Some(third));
    held.begins("x.wasm");
    held.compile();
    assert_eq!(held.loaded("x.wasm"), Some(fourth));
    let replacements = [(first, None), (third, Some(first)), (fourth, Some(third))];
    assert_eq!(held.replacements(), replacements);
    assert!(held.awaited().is_empty());
    // The store has each version that was loaded, for the runs that began with it.
    for digest in [first, third, fourth] {
        assert!(held.rig.host.component(&digest).is_ok());
    }
    assert!(held.begun.try_recv().is_err(), "one was compiled twice");
}

#[test]
fn a_compilation_reads_the_newest_content_of_its_file() {
    let mut held = Held::new();
    held.write("other.wasm", &other(0));
    held.look();
    held.begins("other.wasm");
    held.write("x.wasm", &version(1));
    held.look();
    // No look sees this version before it is compiled.
    held.write("x.wasm", &version(2));
    held.compile();
    held.begins("x.wasm");
    held.look();
    assert_eq!(held.awaited(), [(digest(version(2)), true)]);
    held.compile();
    assert_eq!(held.loaded("x.wasm"), Some(digest(version(2))));
    assert!(held.awaited().is_empty());
    assert!(held.begun.try_recv().is_err(), "one was compiled twice");
}

#[test]
fn a_file_that_goes_away_while_it_is_compiled_is_not_loaded() {
    let mut held = Held::new();
    held.write("x.wasm", &version(1));
    held.look();
    held.begins("x.wasm");
    held.remove("x.wasm");
    held.look();
    assert!(matches!(
        held.events.last(),
        Some(LoadEvent::Removed { .. })
    ));
    assert!(held.awaited().is_empty());
    // The place is free for the other one as soon as the compilation has ended.
    held.write("other.wasm", &other(0));
    held.look();
    held.go.send(()).unwrap();
    held.begins("other.wasm");
    held.look();
    assert!(held.replacements().is_empty());
}

#[test]
fn a_file_that_comes_back_while_it_is_compiled_is_not_compiled_again() {
    let mut held = Held::new();
    held.write("x.wasm", &version(1));
    held.look();
    held.begins("x.wasm");
    held.remove("x.wasm");
    held.look();
    held.write("x.wasm", &version(1));
    held.look();
    assert_eq!(held.awaited(), [(digest(version(1)), true)]);
    held.compile();
    assert_eq!(held.loaded("x.wasm"), Some(digest(version(1))));
    assert!(held.begun.try_recv().is_err(), "it was compiled twice");
}

#[test]
fn a_version_before_a_broken_one_is_loaded_and_the_failure_stays() {
    let mut held = Held::new();
    let file = held.dir.join("x.wasm");
    held.write("x.wasm", &version(1));
    held.look();
    held.begins("x.wasm");
    held.write("x.wasm", b"half a file");
    held.look();
    held.look();
    assert_eq!(held.rig.host.failures()[&file].kept, None);
    held.compile();
    assert_eq!(held.loaded("x.wasm"), Some(digest(version(1))));
    let failure = held.rig.host.failures()[&file].clone();
    assert_eq!(failure.error.code.as_str(), "WL-P001");
    assert_eq!(failure.kept, Some(digest(version(1))));
    held.write("x.wasm", &version(1));
    held.look();
    assert!(held.rig.host.failures().is_empty());
}

#[test]
fn a_version_that_ends_after_a_newer_one_is_dropped() {
    let mut held = Held::new();
    // Its code is in the cache now.
    held.go.send(()).unwrap();
    held.rig
        .host
        .load_bytes("before.wasm", version(2))
        .map(drop)
        .unwrap();
    held.begins("before.wasm");
    held.write("x.wasm", &version(1));
    held.look();
    held.begins("x.wasm");
    held.write("x.wasm", &version(2));
    held.look();
    assert_eq!(held.loaded("x.wasm"), Some(digest(version(2))));
    assert!(held.awaited().is_empty());
    held.write("other.wasm", &other(0));
    held.look();
    held.go.send(()).unwrap();
    held.begins("other.wasm");
    held.look();
    assert_eq!(held.loaded("x.wasm"), Some(digest(version(2))));
    assert_eq!(held.replacements(), [(digest(version(2)), None)]);
}

#[test]
fn a_file_that_changes_all_the_time_does_not_keep_others_from_the_compiler() {
    let mut held = Held::new();
    held.write("x.wasm", &version(1));
    held.look();
    held.begins("x.wasm");
    held.write("x.wasm", &version(2));
    held.write("large.wasm", &other(500));
    held.look();
    held.compile();
    held.begins("large.wasm");
    held.write("x.wasm", &version(3));
    held.look();
    held.compile();
    held.begins("x.wasm");
    held.compile();
    assert_eq!(held.loaded("x.wasm"), Some(digest(version(3))));
    assert_eq!(held.loaded("large.wasm"), Some(digest(other(500))));
}

#[test]
fn the_same_component_in_two_files_is_compiled_once() {
    let mut held = Held::new();
    held.write("x.wasm", &version(1));
    held.write("y.wasm", &version(1));
    held.look();
    held.begins("x.wasm");
    // One of the files is another component now, which waits for the same place.
    held.write("x.wasm", &other(0));
    held.look();
    held.compile();
    let first = Some(digest(version(1)));
    assert_eq!(held.loaded("x.wasm"), first);
    held.begins("x.wasm");
    held.look();
    assert_eq!(held.loaded("y.wasm"), first);
    held.compile();
    assert_eq!(held.loaded("x.wasm"), Some(digest(other(0))));
    assert_eq!(held.loaded("y.wasm"), first);
    assert!(held.begun.try_recv().is_err(), "one was compiled twice");
}

#[test]
fn a_conflict_ends_when_the_other_file_has_another_version() {
    let mut held = Held::new();
    held.write("a.wasm", &version(1));
    held.look();
    held.begins("a.wasm");
    held.compile();
    held.write("b.wasm", &version(2));
    held.look();
    held.begins("b.wasm");
    held.compile();
    let failure = held.rig.host.failures()[&held.dir.join("b.wasm")].clone();
    assert_eq!(failure.error.code.as_str(), "WL-P013");
    let mut later = version(1);
    let number = later.windows(7).position(|part| part == b"\"1.0.0\"");
    later[number.unwrap() + 1] = b'2';
    held.write("a.wasm", &later);
    held.look();
    held.begins("a.wasm");
    held.compile();
    assert_eq!(held.loaded("b.wasm"), Some(digest(version(2))));
    assert!(held.rig.host.failures().is_empty());
}
