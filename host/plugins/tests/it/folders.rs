//! Plugin files change while calls are in flight.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windlass_model::Clock as _;
use windlass_plugins::{Folders, LoadEvent};

use crate::rig::{Rig, bare, built, call, output};

struct Folder {
    rig: Rig,
    dir: PathBuf,
    /// A link to a folder, which is also scanned.
    linked: PathBuf,
    folders: RefCell<Folders>,
    events: RefCell<VecDeque<LoadEvent>>,
}

fn folder() -> Folder {
    let rig = Rig::new();
    let dir = rig.dir.path().join("plugins");
    std::fs::create_dir(&dir).unwrap();
    let linked = rig.dir.path().join("linked");
    link(&real(&rig), &linked);
    std::fs::create_dir(real(&rig)).unwrap();
    let folders = Folders::new(vec![dir.clone(), linked.clone()]);
    let folder = Folder {
        rig,
        dir,
        linked,
        folders: RefCell::new(folders),
        events: RefCell::default(),
    };
    folder.look();
    assert!(folder.events.borrow().is_empty());
    folder
}

impl Folder {
    /// Looks, and returns the time until the next look.
    fn look(&self) -> Duration {
        let mut folders = self.folders.borrow_mut();
        let mut events = self.events.borrow_mut();
        folders.look(&self.rig.host, &mut |event| events.push_back(event))
    }

    /// Waits for the next event that is no news of the compiler, and looks as often as the folders
    /// ask for.
    #[track_caller]
    fn next(&self) -> LoadEvent {
        let end = self.rig.clock.monotonic() + Duration::from_secs(20);
        while self.rig.clock.monotonic() < end {
            match self.events.borrow_mut().pop_front() {
                Some(LoadEvent::Compiling { .. }) => continue,
                Some(event) => return event,
                None => {}
            }
            let again = self.look();
            if !self.events.borrow().is_empty() {
                continue;
            }
            if self.rig.host.awaited().is_empty() {
                std::thread::park_timeout(again);
            } else {
                self.rig.host.await_compiled(again);
            }
        }
        panic!("nothing happened");
    }

    fn packages(&self) -> Vec<String> {
        self.rig
            .host
            .registry()
            .iter()
            .iter()
            .map(|plugin| plugin.name().to_owned())
            .collect()
    }
}

#[test]
fn a_file_that_is_dropped_in_is_loaded_and_one_that_is_taken_out_is_gone() {
    let folder = folder();
    let file = folder.dir.join("x.wasm");
    std::fs::copy(built("echo"), &file).unwrap();
    assert!(matches!(
        folder.next(),
        LoadEvent::Loaded { replaced: None, .. }
    ));
    assert_eq!(folder.packages().len(), 1);
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(folder.next(), LoadEvent::Removed { .. }));
    assert!(folder.packages().is_empty());
}

#[test]
fn a_broken_file_leaves_the_old_in_place() {
    let folder = folder();
    let file = folder.dir.join("x.wasm");
    std::fs::copy(built("echo"), &file).unwrap();
    let LoadEvent::Loaded { plugin: echo, .. } = folder.next() else {
        panic!("not loaded")
    };
    std::fs::write(&file, b"half a file").unwrap();
    let LoadEvent::Failed { error, kept, .. } = folder.next() else {
        panic!("not refused")
    };
    assert_eq!(error.code.as_str(), "WL-P001");
    assert_eq!(kept, Some(echo.digest));
    assert_eq!(folder.packages(), [echo.name()]);
    // The whole file is news after the failure, although its plugin was there all the time.
    std::fs::copy(built("echo"), &file).unwrap();
    let LoadEvent::Loaded { plugin, .. } = folder.next() else {
        panic!("not mended")
    };
    assert!(Arc::ptr_eq(&plugin, &echo));
}

#[test]
fn hidden_files_and_others_are_left_alone() {
    let folder = folder();
    for name in [".x.wasm", "x.wasm.tmp", "x.toml", "x"] {
        std::fs::copy(built("echo"), folder.dir.join(name)).unwrap();
    }
    std::fs::copy(built("counter"), folder.dir.join("c.wasm")).unwrap();
    let LoadEvent::Loaded { plugin, .. } = folder.next() else {
        panic!("not loaded")
    };
    assert_eq!(folder.packages(), [plugin.name()]);
}

#[test]
fn two_files_cannot_offer_the_same_version() {
    let folder = folder();
    std::fs::copy(built("echo"), folder.dir.join("a.wasm")).unwrap();
    assert!(matches!(folder.next(), LoadEvent::Loaded { .. }));
    // The same package and version in other bytes: a custom section makes the difference.
    let mut other = std::fs::read(built("echo")).unwrap();
    other.extend_from_slice(&[0, 2, 1, b'x']);
    std::fs::write(folder.dir.join("b.wasm"), &other).unwrap();
    let LoadEvent::Failed {
        error, kept: None, ..
    } = folder.next()
    else {
        panic!("taken")
    };
    assert_eq!(error.code.as_str(), "WL-P013");
    std::fs::remove_file(folder.dir.join("a.wasm")).unwrap();
    assert!(matches!(folder.next(), LoadEvent::Removed { .. }));
    assert!(matches!(folder.next(), LoadEvent::Loaded { .. }));
}

#[test]
fn calls_in_flight_end_with_the_plugin_that_they_began_with() {
    let folder = folder();
    let file = folder.dir.join("x.wasm");
    std::fs::copy(built("slow"), &file).unwrap();
    let LoadEvent::Loaded { plugin: slow, .. } = folder.next() else {
        panic!("not loaded")
    };
    let config = serde_json::json!({ "ms": 5 });
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let call = call("slow/slow", &config, &serde_json::Value::Null);
            folder.rig.io.spawn(Arc::clone(&slow).execute(call))
        })
        .collect();
    std::fs::copy(built("echo"), &file).unwrap();
    let LoadEvent::Loaded {
        plugin: echo,
        replaced,
        ..
    } = folder.next()
    else {
        panic!("not replaced")
    };
    assert_eq!(replaced, Some(slow.digest));
    output(folder.rig.fiber(&echo, bare("echo/echo")));
    for running in calls {
        output(folder.rig.io.block_on(running).unwrap());
    }
    let weak = Arc::downgrade(&slow);
    drop(slow);
    assert!(weak.upgrade().is_none(), "the old plugin is still held");
}

#[test]
fn a_file_that_could_not_be_kept_is_loaded_when_the_trouble_is_over() {
    let folder = folder();
    let store = folder.rig.dir.path().join("components");
    std::fs::remove_dir(&store).unwrap();
    std::fs::write(&store, b"in the way").unwrap();
    std::fs::copy(built("echo"), folder.dir.join("x.wasm")).unwrap();
    let LoadEvent::Failed { error, .. } = folder.next() else {
        panic!("loaded")
    };
    assert_eq!(error.code.as_str(), "WL-P010");
    // The plugin's file itself does not change.
    std::fs::remove_file(&store).unwrap();
    std::fs::create_dir(&store).unwrap();
    assert!(matches!(folder.next(), LoadEvent::Loaded { .. }));
}

#[test]
fn a_folder_that_cannot_be_read_keeps_its_plugins() {
    let folder = folder();
    std::fs::copy(built("echo"), folder.linked.join("x.wasm")).unwrap();
    let LoadEvent::Loaded { plugin: echo, .. } = folder.next() else {
        panic!("not loaded")
    };
    let no_folder = folder.rig.dir.path().join("file");
    std::fs::write(&no_folder, b"no folder").unwrap();
    link(&no_folder, &folder.linked);
    std::fs::copy(built("counter"), folder.dir.join("c.wasm")).unwrap();
    let LoadEvent::Loaded {
        plugin: counter, ..
    } = folder.next()
    else {
        panic!("the folder is taken for an empty one")
    };
    assert_eq!(folder.packages(), [counter.name(), echo.name()]);
    link(&real(&folder.rig), &folder.linked);
    std::fs::remove_file(folder.linked.join("x.wasm")).unwrap();
    assert!(matches!(folder.next(), LoadEvent::Removed { .. }));
}

#[test]
fn a_folder_with_too_many_entries_keeps_its_plugins() {
    let folder = folder();
    std::fs::copy(built("echo"), folder.dir.join("x.wasm")).unwrap();
    assert!(matches!(folder.next(), LoadEvent::Loaded { .. }));
    let other = |at: u32| folder.dir.join(format!("{at}.WASM"));
    for at in 0..10_001 {
        std::fs::write(other(at), b"").unwrap();
    }
    std::fs::remove_file(folder.dir.join("x.wasm")).unwrap();
    folder.look();
    assert!(folder.events.borrow().is_empty());
    assert_eq!(folder.packages().len(), 1);
    for at in 0..10_001 {
        std::fs::remove_file(other(at)).unwrap();
    }
    assert!(matches!(folder.next(), LoadEvent::Removed { .. }));
}

/// The target of the linked folder.
fn real(rig: &Rig) -> PathBuf {
    rig.dir.path().join("real")
}

/// Makes a link, and atomically replaces an existing one.
fn link(to: &Path, place: &Path) {
    let new = place.with_extension("new");
    std::os::unix::fs::symlink(to, &new).unwrap();
    std::fs::rename(&new, place).unwrap();
}
