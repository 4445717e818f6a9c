//! What of a project file counts only where the user trusts the project.
//!
//! A project is a folder that may have come from anywhere. Most settings of its file do no harm
//! to the user who begins a command there. Some do: which code is run and what it may do, what it
//! may know, and who may ask. These count once the user has said so, for this file and for these
//! values: what is remembered is the path of the file and a hash of these settings alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::{Table, Value};
use windlass_model::Digest;

use crate::codes;
use crate::error::Expected;
use crate::private;

/// The settings that count only in a trusted project, each with all that is below it.
pub(crate) const SENSITIVE: [&str; 12] = [
    "keys",
    "plugins.cache",
    "plugins.code-key",
    "plugins.grants",
    "plugins.library",
    "retention.archive",
    "secrets",
    "server.hosts",
    "server.origins",
    "server.public-url",
    "server.token",
    "server.trusted-proxies",
];

/// The longest file that is read as what is trusted, in bytes.
const LONGEST: u64 = 1024 * 1024;

/// What is wrong with a path that cannot be written down.
const NO_UNICODE: &str = "The path of the project file is no Unicode";

/// What one user trusts.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Trusted {
    /// The hash of the sensitive settings, by the path of the file.
    projects: BTreeMap<String, String>,
}

/// The file in which a user's trust is written down.
#[derive(Clone, Debug)]
pub(crate) struct Trust(PathBuf);

impl Trust {
    /// That of the user of this process.
    pub(crate) fn of_user() -> Self {
        Self(private::state().join("trusted.json"))
    }

    /// That in a file.
    #[cfg(test)]
    pub(crate) fn in_file(path: PathBuf) -> Self {
        Self(path)
    }

    /// Whether the user trusts these settings of a project file.
    pub(crate) fn has(&self, project: &Path, settings: &Table) -> bool {
        let trusted = self.read().unwrap_or_default();
        let hash = absolute(project).and_then(|path| trusted.projects.get(&path).cloned());
        hash.is_some_and(|known| known == hash_of(settings))
    }

    /// Writes down that the user trusts these settings of a project file.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written.
    pub(crate) fn add(&self, project: &Path, settings: &Table) -> Result<(), Expected> {
        let path = absolute(project).ok_or_else(|| self.unusable(NO_UNICODE))?;
        self.change(|trusted| {
            trusted.projects.insert(path, hash_of(settings));
        })
    }

    /// Writes down that the user trusts a project no more. Answers whether there was trust.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written.
    pub(crate) fn remove(&self, project: &Path) -> Result<bool, Expected> {
        let path = absolute(project).ok_or_else(|| self.unusable(NO_UNICODE))?;
        let mut was = false;
        self.change(|trusted| was = trusted.projects.remove(&path).is_some())?;
        Ok(was)
    }

    fn change(&self, change: impl FnOnce(&mut Trusted)) -> Result<(), Expected> {
        let mut trusted = match self.read() {
            Ok(trusted) => trusted,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Trusted::default(),
            Err(error) => return Err(self.unusable(&error.to_string())),
        };
        change(&mut trusted);
        let text = serde_json::to_string_pretty(&trusted);
        let text = text.map_err(|error| self.unusable(&error.to_string()))?;
        windlass_files::write(&self.0, text.as_bytes())
            .map_err(|error| self.unusable(&error.to_string()))
    }

    fn read(&self) -> std::io::Result<Trusted> {
        let text = private::read(&self.0, LONGEST)?;
        Ok(serde_json::from_str(&text)?)
    }

    fn unusable(&self, why: &str) -> Expected {
        let text = format!("{} cannot be used: {why}", self.0.display());
        Expected::new(codes::TRUST, text)
            .help("Take the file away, and say `windlass trust` again where it is needed.")
    }
}

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

/// Takes the sensitive settings out of the table of a file. Answers which there were.
pub(crate) fn remove(table: &mut Table) -> Vec<&'static str> {
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

/// A hash of settings that is the same for the same values in whatever order.
fn hash_of(settings: &Table) -> String {
    // The tables of TOML are sorted by their keys.
    Digest::of(sorted(&Value::Table(settings.clone())).as_bytes()).hex()
}

/// A text that is of one value alone.
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

/// The one path of a file, whatever links lead to it.
fn absolute(path: &Path) -> Option<String> {
    let path = std::fs::canonicalize(path).ok()?;
    path.into_os_string().into_string().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    const PROJECT: &str = r#"
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
    fn what_is_sensitive_is_taken_out_and_the_rest_stays() {
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
        // What is no table is refused by its type, and breaks nothing here.
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

    #[test]
    fn trust_is_of_one_file_and_its_values() {
        let dir = tempfile::tempdir().unwrap();
        let trust = Trust::in_file(dir.path().join("state/trusted.json"));
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        for path in [&one, &other] {
            std::fs::write(path, "").unwrap();
        }
        let settings = sensitive(&table(PROJECT));
        assert!(!trust.has(&one, &settings));
        trust.add(&one, &settings).unwrap();
        assert!(trust.has(&one, &settings));
        assert!(!trust.has(&other, &settings));
        let changed = sensitive(&table(&PROJECT.replace("PRICE", "PATH")));
        assert!(!trust.has(&one, &changed));
        trust.add(&other, &changed).unwrap();
        assert!(trust.remove(&one).unwrap());
        assert!(!trust.remove(&one).unwrap());
        assert!(!trust.has(&one, &settings) && trust.has(&other, &changed));
    }

    #[test]
    fn a_file_that_others_can_write_says_nothing_of_trust() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let trust = Trust::in_file(dir.path().join("trusted.json"));
        let project = dir.path().join("windlass.toml");
        std::fs::write(&project, "").unwrap();
        let settings = sensitive(&table(PROJECT));
        trust.add(&project, &settings).unwrap();
        let wide = std::fs::Permissions::from_mode(0o622);
        std::fs::set_permissions(dir.path().join("trusted.json"), wide).unwrap();
        assert!(!trust.has(&project, &settings));
        assert_eq!(
            trust.add(&project, &settings).unwrap_err().code,
            codes::TRUST
        );
        std::fs::remove_file(dir.path().join("trusted.json")).unwrap();
        trust.add(&project, &settings).unwrap();
        for damaged in ["", "{", "[]", "{\"projects\": 1}"] {
            std::fs::write(dir.path().join("trusted.json"), damaged).unwrap();
            assert!(!trust.has(&project, &settings), "{damaged}");
        }
    }
}
