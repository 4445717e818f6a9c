//! What a project folder can decide that its user has not written.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;
use windlass_tests::harness::Place;

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

/// What holds of the settings of a project, with further arguments in front of the command.
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
    // Another change is none of trust's business, and one of these is.
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
fn there_is_nothing_to_trust_without_a_project() {
    let place = Place::new(&[]);
    let said = place.say(&["-o", "jsonl", "trust", "."]);
    assert_eq!(said.error()["code"], "WL-C010", "{said:#?}");
}
