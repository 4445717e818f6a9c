//! Disks that are full or cannot be written.
//!
//! The tests mount a file system, so a user other than root skips them, with a printed line; if
//! `CI` is set, that is a failure.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use windlass_model::Status;
use windlass_tests::harness::{Place, until};

/// A file system in memory, unmounted when it is dropped.
struct Disk {
    at: PathBuf,
}

impl Disk {
    /// Mounts one of this size. None if this process may not.
    fn mount(at: &Path, size: &str) -> Option<Self> {
        std::fs::create_dir_all(at).expect("a directory can be made");
        let options = format!("size={size}");
        if mount(&["-t", "tmpfs", "-o", &options, "tmpfs"], at) {
            return Some(Self { at: at.to_owned() });
        }
        assert!(
            std::env::var_os("CI").is_none(),
            "in CI this test has to run, and cannot mount"
        );
        eprintln!("SKIPPED: only root can mount a file system; this test did not run");
        None
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        assert!(mount(&["-o", &options], &self.at), "it can be mounted anew");
    }

    fn fill(&self) {
        let filler = self.at.join("filler");
        // As much as there is room for: the last write fails.
        let _ = std::fs::write(filler, vec![0; 8 << 20]);
    }

    fn make_room(&self) {
        std::fs::remove_file(self.at.join("filler")).expect("a file can be removed");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a process of a failed test may still have files open there.
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

fn mount(arguments: &[&str], at: &Path) -> bool {
    let mut command = Command::new("mount");
    command
        .args(arguments)
        .arg(at)
        .stderr(std::process::Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn workflow(place: &Place) -> String {
    let workflow = json!({
        "workflow": "one",
        "nodes": { "a": { "use": "steps/effect" }, "b": { "use": "echo/echo" } },
        "edges": ["a -> b"],
    });
    place.workflow("one", &workflow).display().to_string()
}

#[test]
fn a_disk_that_is_full_loses_nothing_and_work_goes_on_when_there_is_room() {
    let place = Place::new(&["echo", "steps"]);
    let at = place.path("disk");
    let store = at.join("windlass.db");
    let place = place.with_store(store);
    let Some(disk) = Disk::mount(&at, "2m") else {
        return;
    };
    let file = workflow(&place);
    let mut acknowledged = vec![place.ask(&["runs", "start", &file])];

    disk.fill();
    let refused = place.say(&["-o", "jsonl", "runs", "start", &file]);
    assert_eq!(refused.exit, Some(50), "{refused:#?}");
    assert_eq!(refused.error()["code"], "WL-S006", "{refused:#?}");
    let refused = place.say(&["-o", "jsonl", "run", &file]);
    assert_eq!(refused.exit, Some(50), "{refused:#?}");
    assert_eq!(refused.error()["code"], "WL-S006", "{refused:#?}");

    disk.make_room();
    let serve = place.serve();
    acknowledged.push(place.ask(&["runs", "start", &file]));
    until("everything has ended", || place.look().unfinished() == 0);
    // The disk is full again, under a running host: the host stays, and continues once there is
    // room.
    disk.fill();
    let mut there_was_room = 0;
    let refused = loop {
        let said = place.say(&["-o", "jsonl", "runs", "start", &file]);
        if said.exit != Some(0) {
            break said;
        }
        acknowledged.push(said.json()["id"].as_str().expect("it has an id").to_owned());
        there_was_room += 1;
        assert!(there_was_room < 1000, "the disk never fills");
    };
    assert_eq!(refused.error()["code"], "WL-S006", "{refused:#?}");
    disk.make_room();
    for id in &acknowledged {
        assert_eq!(place.look().ended(id).status, Status::Completed);
        assert_eq!(place.look().records(&place.look().run(id)).len(), 2);
    }
    drop(serve);
}

#[test]
fn a_disk_that_cannot_be_written_is_an_error_that_says_so() {
    let place = Place::new(&["echo", "steps"]);
    let at = place.path("disk");
    let store = at.join("windlass.db");
    let place = place.with_store(store);
    let Some(disk) = Disk::mount(&at, "8m") else {
        return;
    };
    let file = workflow(&place);
    place.ask(&["run", &file]);
    disk.remount("ro");
    for command in [
        ["run", &file].as_slice(),
        &["runs", "start", &file],
        &["serve"],
    ] {
        let said = place.say(&[&["-o", "jsonl"], command].concat());
        assert_eq!(said.exit, Some(50), "{command:?}: {said:#?}");
        assert_eq!(said.error()["code"], "WL-S005", "{command:?}: {said:#?}");
    }
    disk.remount("rw");
    place.ask(&["run", &file]);
    assert_eq!(
        place.look().runs().len(),
        2,
        "what was there is there still"
    );
}
