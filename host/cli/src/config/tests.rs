//! Which layer wins, and the messages about mistakes.

use std::path::PathBuf;

use super::layers::scalar;
use super::*;

/// The content of each layer.
#[derive(Default)]
struct Layers {
    user: &'static str,
    project: &'static str,
    environment: &'static [(&'static str, &'static str)],
    flags: &'static [(&'static str, &'static str)],
}

fn load(layers: &Layers) -> (tempfile::TempDir, Result<Loaded, crate::error::Expected>) {
    let directory = tempfile::tempdir().unwrap();
    let user = directory.path().join("config.toml");
    let project = directory.path().join("windlass.toml");
    std::fs::write(&user, layers.user).unwrap();
    std::fs::write(&project, layers.project).unwrap();
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let sources = Sources {
        directory: PathBuf::new(),
        project: Some(project),
        user: Some(user),
        trust: trust::Trust::in_file(directory.path().join("trusted.json")),
        trusts_all: false,
        environment: layers.environment.iter().map(owned).collect(),
        flags: layers
            .flags
            .iter()
            .map(|(key, value)| ("--set".into(), (*key).into(), scalar(value)))
            .collect(),
    };
    let loaded = sources.load();
    (directory, loaded)
}

/// Checks the value of `key` and the end of its origin.
fn check(layers: &Layers, key: &str, value: &str, origin: &str) {
    let (_directory, loaded) = load(layers);
    let loaded = loaded.unwrap();
    let pointer = format!("/{}", key.replace('.', "/"));
    let found = serde_json::to_value(&loaded.config)
        .unwrap()
        .pointer(&pointer)
        .cloned();
    assert_eq!(found, Some(serde_json::from_str(value).unwrap()), "{key}");
    let from = loaded
        .origins
        .get(key)
        .map_or("default".into(), ToString::to_string);
    assert!(from.ends_with(origin), "{key} comes from {from}");
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn the_nearer_layer_wins() {
    let key = "scheduler.lease";
    let mut layers = Layers::default();
    check(&layers, key, "\"30s\"", "default");
    layers.user = "[scheduler]\nlease = \"10s\"";
    check(&layers, key, "\"10s\"", "config.toml");
    layers.project = "[scheduler]\nlease = \"11s\"";
    check(&layers, key, "\"11s\"", "windlass.toml");
    layers.environment = &[
        ("WINDLASS_SCHEDULER__LEASE", "12s"),
        ("WINDLASS_OTHER", "x"),
    ];
    check(&layers, key, "\"12s\"", "$WINDLASS_SCHEDULER__LEASE");
    layers.flags = &[("scheduler.lease", "13s")];
    check(&layers, key, "\"13s\"", "--set");
}

#[test]
fn layers_are_merged_key_by_key() {
    let layers = Layers {
        user: "[scheduler]\nworkers = 3\nclaim-triggers = 7",
        project: "[scheduler]\nworkers = 4",
        environment: &[("WINDLASS_SCHEDULER__SCAN_INTERVAL", "2s")],
        ..Layers::default()
    };
    check(&layers, "scheduler.workers", "4", "windlass.toml");
    check(&layers, "scheduler.claim-triggers", "7", "config.toml");
    check(
        &layers,
        "scheduler.scan-interval",
        "\"2s\"",
        "SCAN_INTERVAL",
    );
}

#[test]
fn maps_take_any_key_from_any_layer() {
    let layers = Layers {
        project: "[plugins.grants.http]\nhttp = [\"https://a.example\"]",
        environment: &[("WINDLASS_SECRETS__PRICE_SERVICE__ENV", "TOKEN")],
        flags: &[("plugins.grants.mail.secrets", "[\"smtp\"]")],
        ..Layers::default()
    };
    check(
        &layers,
        "plugins.grants.http.http",
        "[\"https://a.example\"]",
        "windlass.toml",
    );
    check(
        &layers,
        "plugins.grants.mail.secrets",
        "[\"smtp\"]",
        "--set",
    );
    check(&layers, "secrets.price-service.env", "\"TOKEN\"", "__ENV");
}

#[test]
fn a_number_is_a_text_in_a_setting_for_texts() {
    let layers = Layers {
        environment: &[("WINDLASS_TELEMETRY__LOG", "0")],
        ..Layers::default()
    };
    check(&layers, "telemetry.log", "\"0\"", "LOG");
}

#[test]
fn relative_paths_of_a_file_count_from_its_directory() {
    let layers = Layers {
        project: "[store]\nurl = \"sqlite:data/w.db\"\n[plugins]\nlibrary = \"/abs\"\n\
            [retention]\narchive = \"old\"",
        ..Layers::default()
    };
    let (directory, loaded) = load(&layers);
    let config = loaded.unwrap().config;
    let under = |path: &str| directory.path().join(path);
    assert_eq!(
        config.store.url,
        format!("sqlite:{}", under("data/w.db").display())
    );
    assert_eq!(config.plugins.directory, under(".windlass/plugins"));
    assert_eq!(config.plugins.library, Some("/abs".into()));
    assert_eq!(config.retention.archive, Some(under("old")));
}

fn check_warning(layers: &Layers, part: &str) {
    let (_directory, loaded) = load(layers);
    let warnings = loaded.unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains(part), "{warnings:?}");
}

#[test]
fn unknown_keys_are_warned_about_with_the_nearest_one() {
    check_warning(
        &Layers {
            project: "[scheduler]\n\nscan_interval = \"2s\"",
            ..Layers::default()
        },
        "windlass.toml:3:1: there is no setting `scheduler.scan_interval`; did you mean `scan-interval`?",
    );
    check_warning(
        &Layers {
            user: "[sheduler]\nlease = \"5s\"",
            ..Layers::default()
        },
        "config.toml:1:2: there is no setting `sheduler`; did you mean `scheduler`?",
    );
    check_warning(
        &Layers {
            environment: &[("WINDLASS_STORE__URI", "x")],
            ..Layers::default()
        },
        "$WINDLASS_STORE__URI: there is no setting `store.uri`; did you mean `url`?",
    );
    check_warning(
        &Layers {
            flags: &[("plugins.colour", "red")],
            ..Layers::default()
        },
        "--set: there is no setting `plugins.colour`",
    );
}

fn check_refused(layers: &Layers, code: &str, part: &str, line: usize) {
    let (_directory, loaded) = load(layers);
    let error = loaded.unwrap_err();
    assert_eq!(error.code.as_str(), code, "{error}");
    let (message, at) = match &error.problems {
        None => (error.message.clone(), 0),
        Some(problems) => {
            let first = &problems.diagnostics[0];
            let span = first.place.span.clone().unwrap();
            (
                first.message.clone(),
                windlass_model::position(&problems.text, span.start).0,
            )
        }
    };
    assert!(message.contains(part), "{message}");
    assert_eq!(at, line, "{error}");
}

#[test]
fn mistakes_point_into_the_file() {
    let project = |project| Layers {
        project,
        ..Layers::default()
    };
    check_refused(&project("[store]\nurl = "), "WL-C002", "tring", 2);
    check_refused(
        &project("[scheduler]\nlease = \"5\""),
        "WL-C003",
        "The duration `5` has no unit: write `5s` for seconds",
        2,
    );
    check_refused(
        &project("[store]\n\ndurability = \"some\""),
        "WL-C003",
        "full",
        3,
    );
    check_refused(
        &project("[scheduler]\nscan-interval = \"10ms\""),
        "WL-C003",
        "at least 1s",
        0,
    );
    let environment = Layers {
        environment: &[("WINDLASS_SCHEDULER__WORKERS", "many")],
        ..Layers::default()
    };
    check_refused(
        &environment,
        "WL-C003",
        "$WINDLASS_SCHEDULER__WORKERS sets",
        0,
    );
}

/// Checks the file of the grant of `shout`, relative to the directory of the layers.
#[track_caller]
fn check_file_of_grant(layers: &Layers, expected: &str) {
    let (directory, loaded) = load(layers);
    let config = loaded.unwrap().config;
    let files = &config.plugins.grants["shout"].file.0;
    let file = files.first().map_or("", String::as_str);
    let below = file.strip_prefix(&format!("{}/", directory.path().display()));
    assert_eq!(below.unwrap_or(file), expected);
}

#[test]
fn the_file_of_a_grant_is_in_the_folder_of_the_configuration_that_grants() {
    const GRANT: &str = "[plugins.grants.shout]\nfile = \"shout.wasm\"";
    let project = |project| Layers {
        project,
        ..Layers::default()
    };
    check_file_of_grant(&project(GRANT), ".windlass/plugins/shout.wasm");
    let folder = "[plugins]\ndirectory = \"mine\"\n[plugins.grants.shout]\nfile = \"shout.wasm\"";
    check_file_of_grant(&project(folder), "mine/shout.wasm");
    let absolute = "[plugins.grants.shout]\nfile = \"/opt/shout.wasm\"";
    check_file_of_grant(&project(absolute), "/opt/shout.wasm");
    // The operator of a container has chosen its folder.
    let mut layers = project(GRANT);
    layers.environment = &[("WINDLASS_PLUGINS__DIRECTORY", "/plugins")];
    check_file_of_grant(&layers, "/plugins/shout.wasm");

    // A grant of the user never applies to a file of a project.
    let mut layers = Layers {
        user: GRANT,
        ..Layers::default()
    };
    check_file_of_grant(&layers, "shout.wasm");
    layers.project = "[plugins]\ndirectory = \"mine\"";
    check_file_of_grant(&layers, "shout.wasm");
    layers.environment = &[("WINDLASS_PLUGINS__DIRECTORY", "/plugins")];
    check_file_of_grant(&layers, "/plugins/shout.wasm");
    const VARIABLE: (&str, &str) = ("WINDLASS_PLUGINS__GRANTS__SHOUT__FILE", "shout.wasm");
    layers.environment = &[VARIABLE];
    check_file_of_grant(&layers, "");
    layers.environment = &[VARIABLE, ("WINDLASS_PLUGINS__DIRECTORY", "/plugins")];
    check_file_of_grant(&layers, "/plugins/shout.wasm");
    layers.environment = &[];
    layers.project = "";
    layers.user = folder;
    check_file_of_grant(&layers, "mine/shout.wasm");
}

#[test]
fn no_layer_takes_a_denial_back() {
    let layers = Layers {
        user: "[plugins]\ndeny = [\"a\", \"b\"]",
        project: "[plugins]\ndeny = []",
        environment: &[("WINDLASS_PLUGINS__DENY", "[\"c\"]")],
        ..Layers::default()
    };
    let key = "plugins.deny";
    check(&layers, key, "[\"a\", \"b\", \"c\"]", "PLUGINS__DENY");
}

#[test]
fn the_configuration_of_the_packages_is_valid() {
    let layers = Layers {
        project: include_str!("../../../../.cargo/xtask/package/windlass.toml"),
        environment: &[("WINDLASS_SERVER__TOKEN_FILE", "/run/credentials/token")],
        ..Layers::default()
    };
    check(
        &layers,
        "server.token-file",
        "\"/run/credentials/token\"",
        "TOKEN_FILE",
    );
    let (_directory, loaded) = load(&layers);
    crate::wire::check(&loaded.unwrap().config).unwrap();
}

#[test]
fn files_of_a_section_are_relative_to_the_file_that_names_them() {
    let layers = Layers {
        project: "[plugins]\nroots = \"roots.pem\"\n[server]\ntoken-file = \"token\"\n\
            [scheduler]\nzoneinfo = \"zones\"\n",
        ..Layers::default()
    };
    let (directory, loaded) = load(&layers);
    let config = loaded.unwrap().config;
    let at = |name: &str| Some(directory.path().join(name));
    assert_eq!(config.plugins.roots, at("roots.pem"));
    assert_eq!(config.server.token_file, at("token"));
    assert_eq!(config.scheduler.zoneinfo, at("zones"));
}

#[test]
fn a_host_has_one_token() {
    let layers = Layers {
        project: "[server]\ntoken = \"0123456789abcdef\"\ntoken-file = \"token\"\n",
        ..Layers::default()
    };
    let (_directory, loaded) = load(&layers);
    let error = crate::wire::check(&loaded.unwrap().config).unwrap_err();
    assert!(error.to_string().contains("has one token"), "{error}");
}
