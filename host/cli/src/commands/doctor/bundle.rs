//! `windlass doctor --bundle`: the file that a bug report needs.
//!
//! It has facts about the program, the machine, the configuration, the plugins and the store, and
//! the newest crash reports. It has no input and no output of a run, and a workflow only on
//! request. Secrets are taken out twice: settings that hold one are replaced, and after that every
//! known secret value is replaced in all texts.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use miniz_oxide::deflate::compress_to_vec;
use serde_json::{Value, json};
use tar::{Builder, Header};
use windlass_model::Status;
use windlass_store::Store;
use windlass_store::read::RunQuery;
use windlass_store::sqlite::SqliteStore;

use super::Finding;
use crate::app::Context;
use crate::commands::config::{hide_secrets, settings};
use crate::commands::{moment, plugin};
use crate::config::Config;
use crate::error::Expected;
use crate::exit::Exit;
use crate::request::missing;
use crate::wire::place::StoreLocation;
use crate::wire::{self, Machine, compile};
use crate::{codes, crash};

/// The newest runs, which are counted by their status.
const COUNTED: u32 = 10_000;

/// Characters of the shortest secret that is searched for. A shorter one would be found everywhere.
const SHORTEST: usize = 4;

/// The longest file of a secret, in bytes.
const LONGEST: u64 = 64 * 1024;

/// Stands in place of a secret.
const HIDDEN: &str = "(hidden)";

/// A bundle.
pub(super) struct Bundle {
    files: Vec<(String, String)>,
    secrets: Secrets,
}

/// The secret values that this process knows.
struct Secrets(Vec<String>);

impl Bundle {
    /// Collects the parts. A part that cannot be read has the reason in its place.
    pub(super) fn collect(
        context: &Context,
        machine: &Machine,
        findings: &[Finding],
        workflows: &[String],
    ) -> anyhow::Result<Self> {
        let mut loaded = context.sources.load()?;
        let secrets = Secrets::known(&loaded.config);
        hide_secrets(&mut loaded.config);
        let origins = settings(&loaded)?.into_iter();
        let origins: Vec<Value> = origins
            .map(|(key, value, origin)| json!({ "key": key, "value": value, "origin": origin }))
            .collect();
        let mut bundle = Self {
            files: Vec::new(),
            secrets,
        };
        bundle.json("doctor.json", &json!(findings))?;
        bundle.json("versions.json", &versions())?;
        bundle.json("configuration.json", &json!(origins))?;
        bundle.json("plugins.json", &plugins(context, machine))?;
        let store = machine.existing_store();
        bundle.json(
            "store.json",
            &match &store {
                Ok(store) => statistics(machine, &**store),
                Err(error) => json!({ "error": error.to_string() }),
            },
        )?;
        for path in crash::directory().iter().flat_map(|it| crash::reports(it)) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let text = windlass_files::read(&path, crash::LARGEST);
            let text = text.map_or_else(
                |error| format!("it cannot be read: {error}"),
                |bytes| String::from_utf8_lossy(&bytes).into_owned(),
            );
            bundle.add(&format!("crashes/{name}"), &text);
        }
        for name in workflows {
            let store = store.as_ref().map_err(|error| missing_in(name, error))?;
            let text = workflow(store.as_ref(), name)?;
            bundle.add(&format!("workflows/{name}.json"), &text);
        }
        let names: Vec<String> = bundle.files.iter().map(|(name, _)| name.clone()).collect();
        bundle.add("README.txt", &readme(&names));
        Ok(bundle)
    }

    fn json(&mut self, name: &str, value: &Value) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(value)?;
        self.add(name, &text);
        Ok(())
    }

    fn add(&mut self, name: &str, text: &str) {
        self.files.push((name.to_owned(), self.secrets.hide(text)));
    }

    /// The names of its files, with their sizes.
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, usize)> {
        self.files
            .iter()
            .map(|(name, text)| (name.as_str(), text.len()))
    }

    /// Writes it into a new file that only its user can read.
    pub(super) fn write(&self, path: &Path, at_ms: i64) -> anyhow::Result<()> {
        let bytes = self.packed(at_ms).context("the bundle cannot be packed")?;
        windlass_files::write_new(path, &bytes).map_err(|error| {
            let text = format!("{} cannot be written: {error}", path.display());
            Expected::new(codes::BUNDLE, text)
                .help("Name a file that does not exist, in a directory that you can write.")
                .exit(Exit::Usage)
        })?;
        Ok(())
    }

    fn packed(&self, at_ms: i64) -> std::io::Result<Vec<u8>> {
        let mut archive = Builder::new(Vec::new());
        for (name, text) in &self.files {
            let mut header = Header::new_gnu();
            header.set_mode(0o600);
            header.set_size(text.len() as u64);
            header.set_mtime(u64::try_from(at_ms / 1000).unwrap_or_default());
            let path = Path::new("windlass-bundle").join(name);
            archive.append_data(&mut header, path, text.as_bytes())?;
        }
        Ok(gzip(&archive.into_inner()?))
    }
}

/// The level at which the format's own tool compresses.
const LEVEL: u8 = 6;

/// Bytes in the format of RFC 1952: a header without optional parts, the compressed bytes, their
/// checksum, and their length modulo 2^32.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    packed.extend(compress_to_vec(bytes, LEVEL));
    packed.extend(crc32fast::hash(bytes).to_le_bytes());
    packed.extend((bytes.len() as u32).to_le_bytes());
    packed
}

/// The name of a bundle without a name.
pub(super) fn default_name(at_ms: i64) -> PathBuf {
    let at: String = moment(at_ms)
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .take(15)
        .collect();
    PathBuf::from(format!("windlass-bundle-{at}.tar.gz"))
}

fn versions() -> Value {
    json!({
        "program": crash::about(),
        "version": env!("CARGO_PKG_VERSION"),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
    })
}

fn plugins(context: &Context, machine: &Machine) -> Value {
    let host = match machine.host(compile::noted(context.output)) {
        Ok(host) => host,
        Err(error) => return json!({ "error": error.to_string() }),
    };
    let failed = host.scan(&wire::plugin_directories(&machine.config));
    let failed = failed.into_iter().filter_map(|event| match event {
        windlass_plugins::LoadEvent::Failed { file, error, .. } => {
            Some(json!({ "file": file, "code": error.code, "message": error.message }))
        }
        _ => None,
    });
    let failed: Vec<Value> = failed.collect();
    let loaded = host.registry().iter();
    let loaded: Vec<Value> = loaded.iter().map(|it| plugin::summary(it)).collect();
    json!({ "loaded": loaded, "failed": failed })
}

/// Numbers about the store: its layout, its sizes, its rows.
fn statistics(machine: &Machine, store: &dyn Store) -> Value {
    let place = StoreLocation::of(&machine.config).ok();
    let file = place.as_ref().and_then(StoreLocation::file);
    let sizes = file.map(|file| {
        let size = |ending: &str| {
            let mut name = file.as_os_str().to_owned();
            name.push(ending);
            std::fs::metadata(PathBuf::from(name)).map_or(0, |there| there.len())
        };
        json!({ "database": size(""), "log": size("-wal") })
    });
    let layout = file.and_then(|file| SqliteStore::layout(file).ok());
    let layout = layout.map(|layout| json!({ "found": layout.found, "known": layout.current }));
    let newest = newest(store).unwrap_or_else(|error| json!({ "error": error.to_string() }));
    let counts = match store.counts() {
        Err(error) => json!({ "error": error.to_string() }),
        Ok(counts) => json!({
            "runs": counts.runs,
            "unfinished": counts.unfinished,
            "triggers": counts.triggers,
            "parked": counts.parked,
            "executions": counts.executions,
            "blobs": counts.blobs,
            "bookmarks": counts.bookmarks,
            "queued": counts.queued,
            "buffered": counts.buffered,
            "dead_letters": counts.dead_letters,
        }),
    };
    json!({
        "place": place.map(|place| place.to_string()),
        "layout": layout,
        "bytes": sizes,
        "rows": counts,
        "newest_runs": newest,
        "processes": store.members().map_or(0, |members| members.len()),
    })
}

/// The number of runs of each status, of the newest.
fn newest(store: &dyn Store) -> windlass_store::Result<Value> {
    let all = RunQuery {
        limit: COUNTED,
        ..RunQuery::default()
    };
    let down_to = store.horizon(&all, COUNTED)?;
    let mut counts = serde_json::Map::new();
    for status in Status::ALL {
        let count = store.run_count(&RunQuery {
            statuses: vec![status],
            down_to,
            ..all.clone()
        })?;
        counts.insert(status.name().to_owned(), count.into());
    }
    Ok(counts.into())
}

fn missing_in(name: &str, error: &anyhow::Error) -> Expected {
    missing(name).note(Some(error.to_string()))
}

fn workflow(store: &dyn Store, name: &str) -> anyhow::Result<String> {
    let row = store.published(name)?;
    let row = row
        .map(|row| store.definition(row.definition))
        .transpose()?;
    let row = row.flatten().ok_or_else(|| missing(name))?;
    let value: Value = serde_json::from_slice(&row.json)?;
    Ok(serde_json::to_string_pretty(&value)?)
}

fn readme(names: &[String]) -> String {
    let mut text = String::from(
        "What `windlass doctor --bundle` has collected for a bug report.\n\n\
         It has no inputs and no outputs of runs, no secrets and no environment, and no workflow \
         that was not asked for. Paths, names of workflows, plugins, secrets and hosts are in it. \
         Read it before you pass it on.\n\n",
    );
    for name in names {
        text.push_str(&format!("  {name}\n"));
    }
    text
}

impl Secrets {
    /// The values in the configuration, in the environment, and in files that the configuration
    /// names.
    fn known(config: &Config) -> Self {
        let variables = |name: &str| std::env::var(name).ok();
        let mut found: Vec<String> = Vec::new();
        found.extend(config.server.token.clone());
        found.extend(
            ["WINDLASS_TOKEN", "WINDLASS_KEYRING"]
                .into_iter()
                .filter_map(variables),
        );
        found.extend(config.server.token_file.as_deref().and_then(line));
        for (name, secret) in &config.secrets {
            found.extend(secret.env.as_deref().and_then(variables));
            found.extend(secret.file.as_deref().and_then(line));
            let directory = secret.directory.as_ref();
            found.extend(directory.and_then(|it| line(&it.join(name))));
        }
        let urls = [Some(&config.store.url), config.locks.url.as_ref()];
        let urls = urls.into_iter().flatten().chain(&config.server.public_url);
        found.extend(urls.filter_map(|url| password(url)));
        found.retain(|value| value.len() >= SHORTEST && value != crate::token_file::AUTO);
        // The longest first: a secret may contain another one.
        found.sort_unstable_by_key(|value| std::cmp::Reverse(value.len()));
        Self(found)
    }

    /// A text without the values, as they are and as JSON escapes them.
    fn hide(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in &self.0 {
            let escaped = json!(value).to_string();
            let escaped = escaped.trim_matches('"').to_owned();
            for value in [value, &escaped] {
                if text.contains(value.as_str()) {
                    text = text.replace(value.as_str(), HIDDEN);
                }
            }
        }
        text
    }
}

/// The secret in a file. A secret that cannot be read here is in no text of this process either.
fn line(path: &Path) -> Option<String> {
    let bytes = windlass_files::read_mounted(path, LONGEST).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    Some(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// The password in a URL.
fn password(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let (login, _) = rest.rsplit_once('@')?;
    let (_, password) = login.split_once(':')?;
    Some(password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_are_replaced_however_they_are_written() {
        let secrets = Secrets(vec!["a\"b\\cd".to_owned(), "hunter2".to_owned()]);
        let text = json!({ "one": "a\"b\\cd", "two": "x hunter2 y" }).to_string();
        let hidden = secrets.hide(&text);
        assert!(
            !hidden.contains("hunter2") && !hidden.contains("cd"),
            "{hidden}"
        );
        assert_eq!(secrets.hide("a\"b\\cd"), HIDDEN);
        assert_eq!(
            password("postgres://me:s3cret@db/w").as_deref(),
            Some("s3cret")
        );
        assert_eq!(password("postgres://me@db/w"), None);
        assert_eq!(password("sqlite:x.db"), None);
    }

    #[test]
    fn a_bundle_without_a_name_is_named_by_its_time() {
        let name = default_name(1_767_225_600_000);
        assert_eq!(name, Path::new("windlass-bundle-20260101T000000.tar.gz"));
    }
}
