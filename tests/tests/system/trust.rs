//! Settings that a project folder can decide although its user has not written them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;
use windlass_tests::harness::{Place, Process, Said};

const PROJECT: &str = r#"
[scheduler]
max-steps = 77

[plugins.grants.http]
http = ["http://127.0.0.1:9"]
secrets = ["price"]

[secrets]
price = { file = "price.txt" }

[retention]
archive = "archive.jsonl"

[server]
public-url = "https://evil.example"
"#;

/// The effective settings of a project, with further arguments before the command.
fn shown(place: &Place, arguments: &[&str]) -> (Value, String) {
    let arguments = [arguments, &["-o", "json", "config", "show"]].concat();
    let said = place.say(&arguments);
    assert_eq!(said.exit, Some(0), "{said:#?}");
    (said.json(), said.stderr)
}

#[track_caller]
fn check(place: &Place, arguments: &[&str], trusted: bool) {
    let (config, stderr) = shown(place, arguments);
    assert_eq!(config["scheduler"]["max-steps"], 77, "the rest counts");
    assert_eq!(
        config["plugins"]["grants"]["http"].is_object(),
        trusted,
        "{config:#}"
    );
    assert_eq!(
        config["secrets"]["price"].is_object(),
        trusted,
        "{config:#}"
    );
    assert_eq!(
        config["retention"]["archive"].is_string(),
        trusted,
        "{config:#}"
    );
    assert_eq!(
        config["server"]["public-url"].is_string(),
        trusted,
        "{config:#}"
    );
    assert_eq!(stderr.contains("WL-C009"), !trusted, "{stderr}");
}

fn mode(path: &Path, mode: u32) {
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, permissions).expect("it is ours");
}

#[test]
fn a_project_decides_over_code_and_secrets_once_it_is_trusted() {
    let place = Place::new(&[]);
    let file = place.file("windlass.toml", PROJECT);
    mode(&file, 0o644);
    check(&place, &[], false);
    check(&place, &["--trust"], true);
    check(&place, &[], false);
    check(&place, &["--config", "windlass.toml"], true);
    place.ask(&["trust"]);
    check(&place, &[], true);
    // A change of other settings needs no new trust, but a change of one of these does.
    let faster = PROJECT.replace("[scheduler]", "[scheduler]\nworkers = 2");
    std::fs::write(&file, faster).expect("it is written");
    check(&place, &[], true);
    std::fs::write(&file, PROJECT.replace("price.txt", "id_rsa")).expect("it is written");
    check(&place, &[], false);
    std::fs::write(&file, PROJECT).expect("it is written");
    check(&place, &[], true);
    place.ask(&["trust", "--revoke"]);
    check(&place, &[], false);
}

#[test]
fn a_project_file_that_others_can_write_is_refused() {
    let place = Place::new(&[]);
    let file = place.file("windlass.toml", PROJECT);
    mode(&file, 0o666);
    let said = place.say(&["-o", "jsonl", "config", "show"]);
    assert_eq!(said.error()["code"], "WL-C008", "{said:#?}");
    check(&place, &["--config", "windlass.toml"], true);
    mode(&file, 0o644);
    check(&place, &[], false);
}

#[test]
fn a_link_to_a_trusted_file_is_another_project() {
    let place = Place::new(&[]);
    std::fs::create_dir(place.path("theirs")).expect("it is made");
    let file = place.file("theirs/windlass.toml", PROJECT);
    mode(&file, 0o644);
    place.ask(&["trust", "theirs"]);
    std::os::unix::fs::symlink(&file, place.path("windlass.toml")).expect("it is made");
    check(&place, &[], false);
}

#[test]
fn trust_in_a_token_does_not_show_it() {
    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    let project = |token: &str| format!("[server]\ntoken = \"{token}\"\n");
    let place = Place::new(&[]);
    let file = place.file("windlass.toml", project(TOKEN));
    mode(&file, 0o644);
    let text = place.ask(&["trust"]);
    assert!(!text.contains(TOKEN) && text.contains("(hidden)"), "{text}");
    let json = place.say(&["-o", "json", "trust"]).json();
    assert_eq!(json["settings"]["server"]["token"], "(hidden)");
    // The trust is in this very token.
    let has_token = || shown(&place, &[]).0["server"]["token"].is_string();
    assert!(has_token());
    std::fs::write(&file, project(&TOKEN.replace('0', "f"))).expect("it is written");
    assert!(!has_token());
    std::fs::write(&file, project("auto")).expect("it is written");
    assert!(place.ask(&["trust"]).contains("auto"));
}

#[test]
fn a_home_within_the_project_is_none() {
    let place = Place::new(&[]);
    mode(&place.file("windlass.toml", PROJECT), 0o644);
    place.ask(&["trust"]);
    place.ask(&["keys", "show"]);
    check(&place, &[], true);
    let say = |arguments: &[&str]| {
        let mut command = place.windlass();
        // As a path relative to the project, which could contain it.
        command.args(arguments).env("HOME", "home");
        Said::of(&mut Process::start(&arguments.join(" "), &mut command))
    };
    let shown = say(&["-o", "json", "config", "show"]);
    assert!(shown.stderr.contains("WL-C009"), "{shown:#?}");
    for (command, code) in [("trust", "WL-C010"), ("keys rotate", "WL-C011")] {
        let command: Vec<_> = command.split(' ').collect();
        let said = say(&[&["-o", "jsonl"][..], &command[..]].concat());
        assert_eq!(said.exit, Some(2), "{said:#?}");
        assert_eq!(said.error()["code"], code, "{said:#?}");
    }
    let keyring = "keys.file=home/.local/share/windlass/keyring";
    let said = say(&["--set", keyring, "keys", "show"]);
    assert_eq!(said.exit, Some(0), "{said:#?}");
}

#[test]
fn trust_without_a_project_is_refused() {
    let place = Place::new(&[]);
    let said = place.say(&["-o", "jsonl", "trust", "."]);
    assert_eq!(said.error()["code"], "WL-C010", "{said:#?}");
}
