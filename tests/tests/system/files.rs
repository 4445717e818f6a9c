//! The access of other users of the machine to the files of a host.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use windlass_tests::harness::{Place, Process, Said};

/// Runs a command under a umask that removes no permissions.
fn say(place: &Place, arguments: &[&str]) -> Said {
    let own = place.windlass();
    let mut command = Command::new("sh");
    command.args(["-c", "umask 000; exec \"$0\" \"$@\""]);
    command.arg(own.get_program()).args(arguments).env_clear();
    command.current_dir(own.get_current_dir().expect("it has one"));
    for (name, value) in own.get_envs() {
        command.env(name, value.expect("it is set"));
    }
    let said = Said::of(&mut Process::start(&arguments.join(" "), &mut command));
    assert_eq!(said.exit, Some(0), "{said:#?}");
    said
}

/// Everything below a directory, and the directory.
fn all(path: &Path, found: &mut Vec<PathBuf>) {
    found.push(path.to_owned());
    if path.is_dir() {
        for entry in std::fs::read_dir(path).expect("it can be read") {
            all(&entry.expect("an entry").path(), found);
        }
    }
}

#[test]
fn files_of_a_host_are_for_its_user_alone_under_every_umask() {
    let place = Place::new(&["echo"]);
    let kept = place.path("kept");
    let below = |name: &str| kept.join(name).display().to_string();
    let place = place
        .with_store(kept.join("store/windlass.db"))
        .with("plugins.cache", &below("cache"))
        .with("plugins.code-key", &below("keys/code-key"));
    let workflow = json!({ "workflow": "one", "nodes": { "a": { "use": "echo/echo" } } });
    place.workflow("one", &workflow);
    let id = say(&place, &["-o", "json", "runs", "start", "one.json"]);
    let id = id.json()["id"].as_str().expect("an id").to_owned();
    say(&place, &["run", "one.json"]);
    let (backup, keyring) = (below("backup.db"), below("backup.keyring"));
    say(&place, &["store", "backup", &backup, "--keyring", &keyring]);
    say(
        &place,
        &["runs", "export", &id, "--file", &below("run.json")],
    );
    let mut found = Vec::new();
    all(&kept, &mut found);
    let names: Vec<String> = found
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    for wanted in [
        "windlass.db",
        "windlass.db-mark",
        "windlass.db-members/open.lock",
        "code-key",
        ".cwasm",
        ".wasm",
        "backup.db",
        "backup.keyring",
        "run.json",
    ] {
        assert!(
            names.iter().any(|name| name.ends_with(wanted)),
            "{wanted}: {names:#?}"
        );
    }
    for path in &found {
        let mode = std::fs::symlink_metadata(path).expect("it is there").mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
    }
}

#[test]
fn the_doctor_compares_the_budgets_with_the_memory() {
    let place = Place::new(&[]);
    let memory = |setting: &str| {
        let said = place.say(&["-o", "json", "--set", setting, "doctor"]);
        let findings = said.json();
        let mut findings = findings.as_array().expect("a list").iter();
        let found = findings.find(|finding| finding["check"] == "memory");
        found.expect("it looks at memory").clone()
    };
    let good = memory("plugins.memory=64MiB");
    assert_eq!(good["status"], "good", "{good}");
    let message = good["message"].as_str().expect("a text");
    assert!(message.contains("plugins 64MiB,"), "{message}");
    assert!(message.contains("data of runs 128MiB,"), "{message}");
    let wide = memory("plugins.memory=1000000GiB");
    assert_eq!(wide["status"], "warning", "{wide}");
}

#[test]
fn a_store_that_others_can_read_is_found_by_the_doctor() {
    let place = Place::new(&["echo"]);
    let workflow = json!({ "workflow": "one", "nodes": { "a": { "use": "echo/echo" } } });
    place.workflow("one", &workflow);
    place.ask(&["run", "one.json"]);
    let files = |place: &Place| {
        let said = place.say(&["-o", "json", "doctor"]);
        let findings = said.json();
        let mut findings = findings.as_array().expect("a list").iter();
        let found = findings.find(|finding| finding["check"] == "files");
        found.expect("it looks at files")["status"].clone()
    };
    assert_eq!(files(&place), "good");
    let wide = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(place.store(), wide).expect("it is ours");
    assert_eq!(files(&place), "warning");
}
