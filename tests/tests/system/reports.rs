//! What a bug report needs: the report about a crash, and the bundle of `doctor`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use windlass_tests::harness::{Place, Process, until};

/// A value that no report may have.
const SECRET: &str = "hunter2-and-longer";

/// A value in a file of a secret.
const IN_FILE: &str = "correct-horse-battery";

fn workflow() -> Value {
    json!({
        "workflow": "one",
        "nodes": { "it": { "use": "steps/effect" } },
        "output": "{{ input.word }}",
    })
}

/// The crash reports in the home of a place.
fn crashes(place: &Place) -> Vec<String> {
    let directory = place.path("home/.local/share/windlass/crashes");
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("it can be read").path();
        let mode = std::fs::metadata(&path).expect("it is there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        std::fs::read_to_string(path).expect("it can be read")
    };
    entries.map(read).collect()
}

#[test]
fn a_host_that_panics_leaves_a_report_without_data() {
    let place = Place::new(&["steps"]);
    let file = place.workflow("one", &workflow()).display().to_string();
    let input = format!("word={SECRET}");
    place.ask(&["runs", "start", &file, "--input", &input]);
    let mut serve = place.serve_armed("after-return=panic@1");
    let (status, _, stderr) = serve.output();
    assert_eq!(status.code(), Some(1), "{stderr}");
    let reports = crashes(&place);
    let [report] = reports.as_slice() else {
        panic!("{reports:#?}");
    };
    for part in [
        "program  windlass ",
        "command  serve",
        "thread   worker-",
        "failpoint.rs:",
        "message  a failpoint",
        "frames:",
        "windlass_runtime",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    assert!(!report.contains(SECRET), "{report}");
    assert!(
        stderr.contains(".local/share/windlass/crashes/crash-"),
        "{stderr}"
    );
    assert!(stderr.contains("windlass doctor --bundle"), "{stderr}");
    // The next host takes the run up.
    let _serve = place.serve();
    until("the run has ended", || place.look().unfinished() == 0);
}

/// All files of a bundle, with their names.
fn unpacked(place: &Place, file: &Path) -> Vec<(String, String)> {
    let to = place.path("unpacked");
    std::fs::create_dir(&to).expect("it is not there");
    let done = Command::new("tar")
        .arg("-xzf")
        .arg(file)
        .arg("-C")
        .arg(&to)
        .status();
    assert!(done.expect("tar runs").success());
    let mut found = Vec::new();
    let mut folders = vec![to.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("it is there") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(&to).expect("it is below");
            let text = std::fs::read_to_string(&path).expect("it is text");
            found.push((name.display().to_string(), text));
        }
    }
    found
}

#[test]
fn a_bundle_has_the_data_of_a_report_and_no_secret() {
    let place = Place::new(&["steps"])
        .with("server.token", SECRET)
        .with(
            "server.public-url",
            &format!("https://me:{SECRET}@flows.example"),
        )
        .with("locks.url", &format!("redis://me:{SECRET}@locks.example/0"))
        .with("secrets.cost.to", "[\"https://costs.example\"]")
        .with("secrets.price.env", "PRICE_TOKEN")
        .with("secrets.price.to", "[\"https://prices.example\"]");
    let cost = place.path("cost");
    std::fs::write(&cost, format!("{IN_FILE}\n")).expect("a file can be written");
    std::fs::set_permissions(&cost, std::fs::Permissions::from_mode(0o600))
        .expect("its mode can be set");
    let place = place.with("secrets.cost.file", &cost.display().to_string());
    let file = place.workflow("one", &workflow()).display().to_string();
    let ask = |arguments: &[&str]| {
        let mut command = place.windlass();
        command
            .args(arguments)
            .env("PRICE_TOKEN", SECRET)
            .env("WINDLASS_TOKEN", SECRET);
        let (status, stdout, stderr) = Process::start("windlass", &mut command).output();
        (status.code(), stdout, stderr)
    };
    let (exit, stdout, stderr) = ask(&["run", &file, "--input", &format!("word={SECRET}")]);
    assert_eq!((exit, stdout.trim()), (Some(0), SECRET), "{stderr}");
    let (exit, _, stderr) = ask(&["workflow", "publish", &file]);
    assert_eq!(exit, Some(0), "{stderr}");
    // A report of another program that has put secrets into it all the same.
    let crashes = place.path("home/.local/share/windlass/crashes");
    std::fs::create_dir_all(&crashes).expect("a directory can be made");
    let crash = crashes.join("crash-00000000000001-1-0.txt");
    std::fs::write(&crash, format!("frames: {SECRET} {IN_FILE}")).expect("a file can be written");
    std::fs::set_permissions(&crash, std::fs::Permissions::from_mode(0o600))
        .expect("its mode can be set");

    let bundle = place.path("bundle.tar.gz");
    let named = bundle.display().to_string();
    let (exit, listed, stderr) = ask(&["doctor", "--bundle", &named]);
    assert_eq!(exit, Some(0), "{listed}{stderr}");
    let mode = std::fs::metadata(&bundle)
        .expect("it is there")
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let files = unpacked(&place, &bundle);
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    for part in [
        "doctor.json",
        "versions.json",
        "configuration.json",
        "plugins.json",
        "store.json",
        "crashes/crash-00000000000001-1-0.txt",
        "README.txt",
    ] {
        assert!(
            names.contains(&format!("windlass-bundle/{part}").as_str()),
            "{names:?}"
        );
        assert!(listed.contains(part), "{listed}");
    }
    for (name, text) in &files {
        assert!(!text.contains(SECRET), "{name}: {text}");
        assert!(!text.contains(IN_FILE), "{name}: {text}");
        assert!(
            !text.contains("steps/effect") || name.ends_with("plugins.json"),
            "{name}"
        );
    }
    let of = |name: &str| -> Value {
        let path = format!("windlass-bundle/{name}");
        let found = files.iter().find(|(name, _)| *name == path);
        serde_json::from_str(&found.expect("it is there").1).expect("it is JSON")
    };
    assert_eq!(of("store.json")["newest_runs"]["completed"], json!(1));
    let plugins = of("plugins.json");
    let steps = plugins["loaded"].as_array().expect("an array").iter();
    let steps = steps.filter(|plugin| plugin["package"] == "steps").count();
    assert_eq!(steps, 1);
    let settings = of("configuration.json");
    let token = settings.as_array().expect("an array").iter();
    let token = token.filter(|item| item["key"] == "server.token").count();
    assert_eq!(token, 1);

    // No file is replaced.
    let (exit, _, stderr) = ask(&["doctor", "--bundle", &named]);
    assert_eq!(exit, Some(2), "{stderr}");
    assert!(stderr.contains("WL-U031"), "{stderr}");
    // A workflow is in it only on request.
    let other = place.path("other.tar.gz").display().to_string();
    let (exit, listed, stderr) = ask(&["doctor", "--workflow", "one", "--bundle", &other]);
    assert_eq!(exit, Some(0), "{stderr}");
    assert!(listed.contains("workflows/one.json"), "{listed}");
}
