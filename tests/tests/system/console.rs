//! The console in a real browser: people who watch runs, find out why one has failed, mend it, and
//! log in. Each journey is a function of `tests/console/journeys.mjs`, with a host of its own.

use std::net::TcpListener;
use std::process::Command;

use serde_json::json;
use windlass_tests::harness::{Browser, Place, Process, Web, browser, until};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The program that takes a browser through the console of a host.
fn journey(browser: &Browser, name: &str, web: &Web, token: Option<&str>) -> Command {
    let mut command = Command::new(&browser.node);
    command
        .arg(&browser.journeys)
        .arg(name)
        .arg(format!("http://{}", web.address))
        .args(token)
        .env("WINDLASS_CHROMIUM", &browser.chromium);
    command
}

/// A browser that begins a journey through the console of a host.
fn begin(browser: &Browser, name: &str, web: &Web, token: Option<&str>) -> Process {
    Process::start(name, &mut journey(browser, name, web, token))
}

/// Waits until a journey has ended well.
fn finish(mut journey: Process) {
    let (status, stdout, stderr) = journey.output();
    assert!(status.success(), "{stdout}\n{stderr}");
}

/// A whole journey through a host with these components and settings.
fn travel(journey: &str, components: &[&str], settings: &[(&str, &str)], token: Option<&str>) {
    let Some(browser) = browser() else {
        return;
    };
    let mut place = Place::new(components);
    for (key, value) in settings {
        place = place.with(key, value);
    }
    let web = Web::serve(&place);
    finish(begin(&browser, journey, &web, token));
}

/// Runs a script that checks the sources of the console.
fn look_at_sources(script: &str) {
    let Some(browser) = browser() else {
        return;
    };
    let app = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/console/app");
    let mut command = Command::new(&browser.node);
    let path = browser.journeys.with_file_name(script);
    finish(Process::start(script, command.arg(path).arg(app)));
}

#[test]
fn dead_letters_are_looked_into_replayed_and_deleted() {
    travel("letters", &[], &[], None);
}

#[test]
fn schedules_are_paused_and_run_now() {
    travel("schedules", &[], &[], None);
}

#[test]
fn versions_of_a_workflow_are_compared() {
    travel("versions", &[], &[], None);
}

#[test]
fn the_host_shows_its_memory_and_is_paused() {
    travel("host", &[], &[], None);
}

#[test]
fn plugins_are_shown_with_their_schemas_and_their_faults() {
    let Some(browser) = browser() else {
        return;
    };
    let place = Place::new(&["data", "fetch"]).with_http("fetch", r#"["https://shop.example"]"#);
    // The names of files come from outside, too.
    for name in ["broken.wasm", "<img src=x onerror=alert(1)>.wasm"] {
        std::fs::write(place.plugins().join(name), "no component").expect("it is written");
    }
    let web = Web::serve(&place);
    finish(begin(&browser, "plugins", &web, None));
}

#[test]
fn the_address_of_the_console_is_given_to_the_program_that_opens_it() {
    let place = Place::new(&[]).with("server.listen", "127.0.0.1:7555");
    let address = "http://127.0.0.1:7555/ui/";
    let programs = place.path("programs");
    std::fs::create_dir(&programs).expect("a directory");
    let ui = |arguments: &[&str]| {
        let mut command = place.windlass();
        command.arg("ui").args(arguments).env("PATH", &programs);
        command.output().expect("windlass starts")
    };
    let said = ui(&[]);
    assert!(said.status.success());
    assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), address);
    // There is no such program.
    let said = ui(&["--open"]);
    let error = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.status.success() && error.contains(address), "{error}");
    assert!(error.contains("Open the address by hand"), "{error}");
    let opener = programs.join(if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    });
    let opened = place.path("opened");
    let script = |end: u8| {
        let text = format!(
            "#!/bin/sh\nprintf '%s|' \"$@\" > '{}'\nexit {end}\n",
            opened.display()
        );
        // A new file: a shell may still read the old one.
        let _ = std::fs::remove_file(&opener);
        std::fs::write(&opener, text).expect("it is written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&opener, mode).expect("it can be run");
    };
    script(0);
    let said = ui(&["--open"]);
    let error = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success(), "{error}");
    assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), address);
    let found = std::fs::read_to_string(&opened).expect("the program has run");
    assert_eq!(found, format!("{address}|"));
    script(3);
    let said = ui(&["--open"]);
    let error = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(
        !said.status.success() && error.contains("exit status: 3"),
        "{error}"
    );
}

/// The largest picture in the documents, in bytes.
const PICTURE: usize = 150 * 1024;

/// With `BLESS=1` the pictures of the documents are made anew. Their bytes depend on fonts and on
/// times, so they are not compared.
#[test]
fn the_pictures_of_a_run_are_made_from_the_console() {
    let documents = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/pictures");
    let names = ["run-light.png", "run-dark.png"];
    let Some(browser) = browser() else {
        return;
    };
    let place = Place::new(&["data"]);
    let made = place.path("pictures");
    std::fs::create_dir(&made).expect("a directory");
    let web = Web::serve(&place);
    let mut command = journey(&browser, "picture", &web, None);
    finish(Process::start(
        "picture",
        command.env("WINDLASS_PICTURES", &made),
    ));
    let bless = std::env::var_os("BLESS").is_some();
    for name in names {
        let (made, kept) = (made.join(name), format!("{documents}/{name}"));
        if bless {
            std::fs::copy(&made, &kept).expect("it is copied");
        }
        for file in [made, kept.into()] {
            let picture = std::fs::read(&file).expect("there is a picture");
            assert!(picture.starts_with(b"\x89PNG"), "{}", file.display());
            assert!(
                picture.len() <= PICTURE,
                "{}: {}",
                file.display(),
                picture.len()
            );
        }
    }
}

#[test]
fn the_types_of_the_console_hold_and_its_libraries_are_those_of_npm() {
    look_at_sources("sources.mjs");
}

#[test]
fn rails_times_and_forms_are_right_without_a_browser() {
    look_at_sources("units.mjs");
}

#[test]
fn a_failed_run_is_found_understood_and_retried_with_another_input() {
    travel("mend", &["data"], &[], None);
}

#[test]
fn the_keyboard_alone_mends_a_run() {
    travel("keyboard", &["data"], &[], None);
}

#[test]
fn a_run_is_watched_paused_and_cancelled() {
    travel("watch", &[], &[], None);
}

#[test]
fn a_run_is_started_by_the_form_of_its_workflow() {
    travel("form", &[], &[], None);
}

#[test]
fn a_question_of_a_run_is_answered() {
    travel("answer", &["human"], &[], None);
}

#[test]
fn script_in_the_data_of_runs_is_text() {
    travel("hostile", &[], &[], None);
}

#[test]
fn pages_are_accessible_in_light_and_dark() {
    travel("pages", &["data"], &[], None);
}

#[test]
fn a_token_is_asked_for_once() {
    let settings = [("server.token", TOKEN)];
    travel("login", &["data"], &settings, Some(TOKEN));
}

#[test]
fn the_console_works_behind_a_prefix() {
    travel("prefix", &["data"], &[], None);
}

#[test]
fn a_page_goes_on_when_its_host_is_back() {
    let Some(browser) = browser() else {
        return;
    };
    let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = free.local_addr().expect("it has an address").to_string();
    drop(free);
    let place = Place::new(&[]).with("server.listen", &address);
    let web = Web::serve(&place);
    let mut journey = begin(&browser, "lost", &web, None);
    let mut says = |word: &str| {
        until(&format!("the journey says `{word}`"), || {
            assert!(journey.ended().is_none(), "{}", journey.stderr());
            journey.stdout().contains(word)
        });
    };
    says("watching");
    web.process.kill();
    says("stale");
    let _web = Web::serve(&place);
    finish(journey);
}

#[test]
fn executions_of_a_run_are_read_whole_in_brief_and_one_by_one() {
    let place = Place::new(&[]);
    let web = Web::serve(&place);
    web.publish(&json!({
        "workflow": "w",
        "nodes": { "a": { "set": { "x": 1 } }, "b": { "fail": "no" } },
        "edges": ["a -> b"],
    }));
    let (id, other) = (web.start("w", &json!({})), web.start("w", &json!({})));
    assert_eq!(web.result(&id)["status"], "faulted");
    assert_eq!(web.result(&other)["status"], "faulted");
    let run = format!("/api/v1/runs/{id}");
    let whole = web.get(&format!("{run}/executions"));
    let brief = web.get(&format!("{run}/executions?brief=true"));
    let whole = whole["items"].as_array().expect("a list");
    let brief = brief["items"].as_array().expect("a list");
    assert_eq!((whole.len(), brief.len()), (2, 2));
    for (whole, brief) in whole.iter().zip(brief) {
        assert_eq!(brief.get("output"), None);
        for member in ["no", "first", "seq", "node", "status", "failure", "took_us"] {
            assert_eq!(whole[member], brief[member], "{member}");
        }
        assert!(whole["first"].is_string());
        let no = whole["no"].as_str().expect("a text");
        assert_eq!(web.get(&format!("{run}/executions/{no}")), *whole);
        // The execution of another run is none of this one.
        let strange = format!("/api/v1/runs/{other}/executions/{no}");
        assert_eq!(web.get_any(&strange).status, 404);
    }
    assert_eq!(whole[1]["output"], json!({ "x": 1 }));
    let definition = web.get(&format!("{run}/definition"));
    assert_eq!(definition["file"]["edges"], json!(["a -> b"]));
    assert_eq!(definition["workflow"], "w");
    assert_eq!(definition["digest"], web.get(&run)["run"]["definition"]);
    for path in [
        format!("{run}/executions/x"),
        "/api/v1/runs/x/definition".to_owned(),
    ] {
        assert_eq!(web.get_any(&path).status, 400, "{path}");
    }
    let unknown = format!(
        "/api/v1/runs/{}/definition",
        "85e816d2-0ca8-8547-9c5b-628fca6ffca2"
    );
    assert_eq!(web.get_any(&unknown).status, 404);
}
