//! The settings of a project file that could harm its user, as functions of the file's table.
//!
//! `trust.rs` explains the threat. The fuzz targets compile this file as a module of their own, so
//! it uses nothing of this crate.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};
use windlass_model::Digest;

/// The settings that count only in a trusted project, each with all settings below it. Denials are
/// among them: if a consumer is denied, another one decides about its triggers.
pub(crate) const SENSITIVE: [&str; 17] = [
    "keys",
    "plugins.cache",
    "plugins.code-key",
    "plugins.compile-memory",
    "plugins.compile-timeout",
    "plugins.deny",
    "plugins.grants",
    "plugins.library",
    "plugins.roots",
    "retention.archive",
    "secrets",
    "server.hosts",
    "server.origins",
    "server.public-url",
    "server.token",
    "server.token-file",
    "server.trusted-proxies",
];

/// The sensitive settings in the table of a file.
pub(crate) fn sensitive(table: &Table) -> Table {
    let mut found = Table::new();
    for key in SENSITIVE {
        let (section, name) = key.split_once('.').unwrap_or((key, ""));
        let Some(value) = table.get(section) else {
            continue;
        };
        if name.is_empty() {
            found.insert(section.to_owned(), value.clone());
        } else if let Some(value) = value.get(name) {
            let below = found.entry(section).or_insert_with(|| Table::new().into());
            if let Value::Table(below) = below {
                below.insert(name.to_owned(), value.clone());
            }
        }
    }
    found
}

/// Removes the sensitive settings from the table of a file unless the user trusts them. Returns the
/// removed keys.
pub(crate) fn sift(
    table: &mut Table,
    is_trusted: impl FnOnce(&Table) -> bool,
) -> Vec<&'static str> {
    let settings = sensitive(table);
    if settings.is_empty() || is_trusted(&settings) {
        return Vec::new();
    }
    remove(table)
}

/// One user's trusted projects.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Trusted {
    /// The hash of the sensitive settings, by the path of the file.
    pub(crate) projects: BTreeMap<String, String>,
}

impl Trusted {
    /// Reads the record.
    ///
    /// # Errors
    ///
    /// It is damaged.
    pub(crate) fn read(text: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(text)
    }

    /// Whether the record contains these settings of a file.
    pub(crate) fn has(&self, path: &str, settings: &Table) -> bool {
        let hash = self.projects.get(path);
        hash.is_some_and(|known| *known == hash_of(settings))
    }
}

/// Removes the sensitive settings from the table of a file. Returns their keys.
fn remove(table: &mut Table) -> Vec<&'static str> {
    let present = SENSITIVE.into_iter().filter(|key| {
        let (section, name) = key.split_once('.').unwrap_or((key, ""));
        if name.is_empty() {
            return table.remove(section).is_some();
        }
        let section = table.get_mut(section).and_then(Value::as_table_mut);
        section.is_some_and(|section| section.remove(name).is_some())
    });
    present.collect()
}

/// A hash of settings that does not depend on their order.
pub(crate) fn hash_of(settings: &Table) -> String {
    // The tables of TOML are sorted by their keys.
    Digest::of(sorted(&Value::Table(settings.clone())).as_bytes()).hex()
}

/// A text that no other value has.
fn sorted(value: &Value) -> String {
    match value {
        Value::Table(table) => {
            let lines: BTreeMap<&String, String> = table
                .iter()
                .map(|(key, value)| (key, sorted(value)))
                .collect();
            let lines = lines.iter().map(|(key, value)| format!("{key:?}={value},"));
            format!("{{{}}}", lines.collect::<String>())
        }
        Value::Array(values) => {
            let values = values.iter().map(|value| format!("{},", sorted(value)));
            format!("[{}]", values.collect::<String>())
        }
        Value::String(text) => format!("{text:?}"),
        other => format!("{} {other}", other.type_str()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    pub(crate) const PROJECT: &str = r#"
        [scheduler]
        workers = 2
        [plugins]
        directory = "plugins"
        library = "lib"
        [plugins.grants.http]
        http = ["https://a"]
        [secrets]
        price = { env = "PRICE" }
        [server]
        listen = "127.0.0.1:1"
        token = "0123456789abcdef"
    "#;

    #[test]
    fn sensitive_settings_are_taken_out_and_the_others_stay() {
        let mut rest = table(PROJECT);
        let taken = sensitive(&rest);
        let keys = remove(&mut rest);
        assert_eq!(
            keys,
            [
                "plugins.grants",
                "plugins.library",
                "secrets",
                "server.token"
            ]
        );
        assert!(sensitive(&rest).is_empty());
        assert!(rest["scheduler"].get("workers").is_some());
        assert!(rest["server"].get("listen").is_some());
        assert!(rest["plugins"].get("directory").is_some());
        assert!(taken["plugins"]["grants"]["http"].get("http").is_some());
        assert!(taken["server"].get("listen").is_none());
        // A key that should be a table and is not is refused later by its type; here it does no
        // harm.
        assert_eq!(remove(&mut table("plugins = 1\nserver = []")), [""; 0]);
        assert!(sensitive(&table("plugins = 1\nserver = []")).is_empty());
    }

    #[test]
    fn the_hash_is_of_the_values_alone() {
        let hash = |text: &str| hash_of(&sensitive(&table(text)));
        let known = hash(PROJECT);
        assert_eq!(known, hash(&PROJECT.replace("workers = 2", "workers = 3")));
        assert_eq!(known, hash(&format!("# A comment.\n{PROJECT}")));
        for (from, to) in [
            ("https://a", "https://b"),
            ("PRICE", "PATH"),
            ("\"lib\"", "\"other\""),
            ("0123456789abcdef", "0123456789abcdeF"),
        ] {
            assert_ne!(known, hash(&PROJECT.replace(from, to)), "{to}");
        }
        let one = |text: &str| hash(&format!("[plugins.grants]\n{text}"));
        assert_ne!(one("a = \"1\""), one("a = 1"));
        assert_ne!(one("a = [\"1\", \"2\"]"), one("a = [\"1,2\"]"));
        assert_ne!(one("a = [\"1\", \"2\"]"), one("a = [\"2\", \"1\"]"));
        assert_eq!(one("a = 1\nb = 2"), one("b = 2\na = 1"));
        assert_ne!(one("a = \"b\\\"={}\""), one("a = {}"));
    }
}
