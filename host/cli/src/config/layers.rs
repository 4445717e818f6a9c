//! Merges the configuration: flag, then environment, then project file, then user file, then
//! default. Keeps the origin of each value.
//!
//! Each layer is checked before it is merged, so that a mistake is reported against the text that
//! contains it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::IntoDeserializer as _;
use toml::{Table, Value};
use windlass_display::Problems;
use windlass_model::{Diagnostic, Place};

use super::trust::Trust;
use super::{Config, bounds, schema, trust};
use crate::codes;
use crate::error::{Expected, sentence};
use crate::private;
use crate::wire::place::StoreLocation;

/// The name of the project file, looked for in the current directory and those above it.
pub(crate) const PROJECT_FILE: &str = "windlass.toml";

/// The prefix of environment variables.
const PREFIX: &str = "WINDLASS_";

/// The sources of the configuration.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    /// The directory where the search for the project file begins.
    pub(crate) directory: PathBuf,
    /// The project file, if it was named.
    pub(crate) project: Option<PathBuf>,
    /// The user file; none for a user without a home.
    pub(crate) user: Option<PathBuf>,
    /// The user's record of trusted projects.
    pub(crate) trust: Trust,
    /// Whether the project counts as trusted without a record.
    pub(crate) trusts_all: bool,
    /// The environment variables.
    pub(crate) environment: Vec<(String, String)>,
    /// Settings from flags: the flag, the dotted key, the value.
    pub(crate) flags: Vec<(String, String, Value)>,
}

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
    /// A flag.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => write!(f, "${name}"),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// A configuration with the origins of its values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loaded {
    /// The effective configuration.
    pub(crate) config: Config,
    /// The origin of each value that is not a default, by dotted key.
    pub(crate) origins: BTreeMap<String, Origin>,
    /// Unknown keys, each with a hint.
    pub(crate) warnings: Vec<String>,
}

impl Sources {
    /// The sources of this process: its directory, its environment, its user.
    pub(crate) fn of_process() -> Self {
        let user = private::config().map(|directory| directory.join("config.toml"));
        // A name or value that is not Unicode cannot be a setting.
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self {
            directory: PathBuf::new(),
            project: None,
            user,
            trust: Trust::of_user(),
            trusts_all: false,
            environment,
            flags: Vec::new(),
        }
    }

    /// The project file, if there is one.
    pub(crate) fn project_file(&self) -> Option<PathBuf> {
        let named = self.project.clone();
        named.or_else(|| find_project(&self.directory))
    }

    /// Reads and merges all layers.
    pub(crate) fn load(&self) -> Result<Loaded, Expected> {
        let mut merge = Merge {
            schema: schema::schema(),
            ..Merge::default()
        };
        if let Some(user) = self.user.as_deref().filter(|path| path.is_file()) {
            merge.file(user)?;
        }
        match &self.project {
            // A file that the user names counts as trusted.
            Some(named) => merge.project(named, None)?,
            None => {
                if let Some(found) = find_project(&self.directory) {
                    check_owner(&found)?;
                    let trust = (!self.trusts_all).then_some(&self.trust);
                    merge.project(&found, trust)?;
                }
            }
        }
        for (name, value) in &self.environment {
            // Every setting is in a section, so a variable without `__` belongs to another program.
            let Some(key) = name.strip_prefix(PREFIX).filter(|key| key.contains("__")) else {
                continue;
            };
            let key = key
                .to_ascii_lowercase()
                .replace("__", ".")
                .replace('_', "-");
            merge.single(Origin::Variable(name.clone()), &key, scalar(value))?;
        }
        for (flag, key, value) in &self.flags {
            merge.single(Origin::Flag(flag.clone()), key, value.clone())?;
        }
        let mut loaded = merge.finish()?;
        loaded.config.grants_file = self.grants_file();
        Ok(loaded)
    }

    /// The file in which the user writes grants: that of the project, if there is one.
    fn grants_file(&self) -> String {
        match (&self.project, find_project(&self.directory), &self.user) {
            (Some(named), _, _) => named.display().to_string(),
            (None, Some(found), _) if self.trusts_all => found.display().to_string(),
            (None, Some(found), _) => {
                format!("{}, and then run `windlass trust`", found.display())
            }
            (None, None, Some(user)) => user.display().to_string(),
            (None, None, None) => "windlass.toml".to_owned(),
        }
    }

    /// The settings of a project file that count only in a trusted project.
    pub(crate) fn sensitive(&self, project: &Path) -> Result<Table, Expected> {
        let mut merge = Merge {
            schema: schema::schema(),
            ..Merge::default()
        };
        Ok(trust::sensitive(&merge.read(project)?))
    }
}

/// The project file of a directory, or a project file itself.
pub(crate) fn project_at(path: &Path) -> Option<PathBuf> {
    if path.is_file() {
        return Some(path.to_owned());
    }
    find_project(path)
}

/// Refuses a project file that another user owns or can write.
fn check_owner(path: &Path) -> Result<(), Expected> {
    let Some(fault) = windlass_files::foreign(path) else {
        return Ok(());
    };
    let text = format!(
        "{} is not used as the project file: {fault}",
        path.display()
    );
    Err(Expected::new(codes::FOREIGN_PROJECT, text)
        .help("Name it by `--config FILE` if it is meant, or make it a file of your own."))
}

/// The project file in a directory or the nearest one above it.
fn find_project(directory: &Path) -> Option<PathBuf> {
    // Keep the relative name where it suffices: messages show it.
    let here = directory.join(PROJECT_FILE);
    if here.is_file() {
        return Some(here);
    }
    let absolute = std::path::absolute(if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    });
    let absolute = absolute.ok()?;
    absolute
        .ancestors()
        .skip(1)
        .map(|above| above.join(PROJECT_FILE))
        .find(|path| path.is_file())
}

/// A value of a flag or a variable: TOML if it parses as TOML, otherwise a plain string.
pub(crate) fn scalar(text: &str) -> Value {
    text.parse::<Value>()
        .unwrap_or_else(|_| Value::String(text.to_owned()))
}

#[derive(Default)]
struct Merge {
    schema: serde_json::Value,
    table: Table,
    origins: BTreeMap<String, Origin>,
    warnings: Vec<String>,
    /// The directory of the project file: default paths are relative to it.
    root: PathBuf,
    /// The project file.
    project: Option<PathBuf>,
}

impl Merge {
    /// Adds a project file. Its sensitive settings count only if `trust` contains them; without
    /// `trust`, they all count.
    fn project(&mut self, path: &Path, trust: Option<&Trust>) -> Result<(), Expected> {
        self.root = path.parent().map(Path::to_owned).unwrap_or_default();
        self.project = Some(path.to_owned());
        let mut table = self.read(path)?;
        let is_trusted = |settings: &Table| trust.is_none_or(|trust| trust.has(path, settings));
        let keys = trust::sift(&mut table, is_trusted).join(", ");
        if !keys.is_empty() {
            let (code, name) = (codes::UNTRUSTED, path.display());
            self.warnings.push(format!(
                "[{code}] {name}: {keys} do not count until you say `windlass trust`"
            ));
        }
        self.take(path, table);
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<(), Expected> {
        let table = self.read(path)?;
        self.take(path, table);
        Ok(())
    }

    fn take(&mut self, path: &Path, mut table: Table) {
        let base = path.parent().unwrap_or(Path::new(""));
        rebase(&mut table, base);
        self.add(&Origin::File(path.to_owned()), table);
    }

    /// Reads and checks a file. Warns about unknown keys, and drops them.
    fn read(&mut self, path: &Path) -> Result<Table, Expected> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Expected::new(
                codes::CONFIG_UNREADABLE,
                format!("{name} cannot be read: {error}"),
            )
            .help("Look at the path and the permissions of the file.")
        })?;
        let text: Arc<str> = text.into();
        let wrong = |code, error: &toml::de::Error| {
            let place = Place {
                span: error.span(),
                ..Place::default()
            };
            let mut diagnostic = Diagnostic::new(code, one_line(error.message()), place);
            diagnostic.help = Some("`windlass config schema` lists every setting.".into());
            let problems = Problems {
                name: name.clone(),
                text: text.clone(),
                diagnostics: vec![diagnostic],
            };
            Expected::of_file(problems)
        };
        let mut table: Table =
            toml::from_str(&text).map_err(|error| wrong(codes::CONFIG_SYNTAX, &error))?;
        let parsed = toml::Deserializer::parse(&text)
            .map_err(|error| wrong(codes::CONFIG_SYNTAX, &error))?;
        let mut unknown = Vec::new();
        serde_ignored::deserialize::<_, _, Config>(parsed, |path| unknown.push(path.to_string()))
            .map_err(|error| wrong(codes::CONFIG_VALUE, &error))?;
        for key in unknown {
            let path: Vec<_> = key.split('.').map(str::to_owned).collect();
            let place = key_span(&text, &path).map_or_else(String::new, |start| {
                let (line, column) = windlass_model::position(&text, start);
                format!(":{line}:{column}")
            });
            self.unknown(&format!("{name}{place}"), &path);
            remove(&mut table, &path);
        }
        Ok(table)
    }

    fn single(&mut self, origin: Origin, key: &str, value: Value) -> Result<(), Expected> {
        let path: Vec<_> = key.split('.').map(str::to_owned).collect();
        let Some(target) = schema::at(&self.schema, &path) else {
            self.unknown(&origin.to_string(), &path);
            return Ok(());
        };
        // Where the schema wants a text, `true` or `7` is a text.
        let texts = target.get("type").is_some_and(|kind| match kind {
            serde_json::Value::String(kind) => kind == "string",
            serde_json::Value::Array(kinds) => kinds.iter().any(|kind| kind == "string"),
            _ => false,
        });
        let value = match value {
            Value::String(_) | Value::Array(_) | Value::Table(_) => value,
            other if texts => Value::String(other.to_string()),
            other => other,
        };
        let table = nested(&path, value);
        let mut ignored = Vec::new();
        let checked: Result<Config, toml::de::Error> =
            serde_ignored::deserialize(Value::Table(table.clone()).into_deserializer(), |path| {
                ignored.push(path.to_string())
            });
        if let Err(error) = checked {
            let message = format!("{origin} sets {key}: {}", error.message());
            return Err(Expected::new(codes::CONFIG_VALUE, message)
                .help("`windlass config schema` lists the values of each setting."));
        }
        self.add(&origin, table);
        Ok(())
    }

    fn unknown(&mut self, place: &str, path: &[String]) {
        let key = path.join(".");
        let hint = schema::nearest(&self.schema, path)
            .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        let code = codes::CONFIG_UNKNOWN;
        self.warnings.push(format!(
            "[{code}] {place}: there is no setting `{key}`{hint}"
        ));
    }

    fn add(&mut self, origin: &Origin, mut table: Table) {
        add_denials(&self.table, &mut table);
        merge(
            &mut self.table,
            table,
            &mut |path| {
                // A value replaces every value under its key.
                let below = format!("{path}.");
                self.origins.retain(|key, _| !key.starts_with(&below));
                self.origins.insert(path.to_owned(), origin.clone());
            },
            "",
        );
    }

    fn finish(mut self) -> Result<Loaded, Expected> {
        let table = Value::Table(std::mem::take(&mut self.table));
        let mut config: Config = table.try_into().map_err(|error| {
            let error: toml::de::Error = error;
            Expected::new(codes::CONFIG_VALUE, one_line(error.message()))
        })?;
        config.check()?;
        if !self.origins.contains_key("store.url") {
            config.store.url = store_under(&self.root, &config.store.url);
        }
        if !self.origins.contains_key("plugins.directory") {
            config.plugins.directory = self.root.join(&config.plugins.directory);
        }
        if !self.origins.contains_key("definitions.directory") {
            config.definitions.directory.under(&self.root);
        }
        for (package, grant) in &mut config.plugins.grants {
            let origin = self.origins.get(&format!("plugins.grants.{package}.file"));
            match self.base_of_grant(origin, &config.plugins.directory) {
                Some(base) => grant.file.under(&base),
                None => grant.file.0.retain(|file| Path::new(file).is_absolute()),
            }
        }
        Ok(Loaded {
            config,
            origins: self.origins,
            warnings: self.warnings,
        })
    }

    /// The base of a relative `file` in a grant: the plugin folder. If a project has chosen that
    /// folder and the grant is the user's, the base is the directory of the user's file, because
    /// any project could contain a file of that name.
    fn base_of_grant(&self, origin: Option<&Origin>, folder: &Path) -> Option<PathBuf> {
        let of_project = |origin: &Origin| match origin {
            Origin::File(path) => Some(path) == self.project.as_ref(),
            _ => false,
        };
        let chosen = self.origins.get("plugins.directory");
        let is_users = chosen.is_some_and(|origin| !of_project(origin));
        match origin {
            Some(origin) if is_users || of_project(origin) => Some(folder.to_owned()),
            Some(Origin::File(path)) => path.parent().map(Path::to_owned),
            _ => None,
        }
    }
}

impl Config {
    /// Checks the bounds that the types do not express.
    fn check(&self) -> Result<(), Expected> {
        bounds::check(self)?;
        let scheduler = &self.scheduler;
        if scheduler.near_horizon.0 >= scheduler.scan_interval.0.saturating_mul(2) {
            return Ok(());
        }
        let text = "scheduler.near-horizon must be at least twice scheduler.scan-interval";
        Err(Expected::new(codes::CONFIG_VALUE, text)
            .help("`windlass config show --origin` says where the value came from."))
    }
}

/// Adds the earlier denials to those of a table: no layer removes a denial.
fn add_denials(before: &Table, table: &mut Table) {
    let Some(Value::Array(denied)) = before.get("plugins").and_then(|it| it.get("deny")) else {
        return;
    };
    let Some(Value::Table(plugins)) = table.get_mut("plugins") else {
        return;
    };
    if let Some(Value::Array(further)) = plugins.get_mut("deny") {
        further.splice(..0, denied.iter().cloned());
    }
}

/// Merges tables key by key, and calls `set` with the dotted key of each value.
fn merge(into: &mut Table, from: Table, set: &mut impl FnMut(&str), above: &str) {
    for (key, value) in from {
        let path = if above.is_empty() {
            key.clone()
        } else {
            format!("{above}.{key}")
        };
        match (into.get_mut(&key), value) {
            (Some(Value::Table(into)), Value::Table(from)) => merge(into, from, set, &path),
            (_, Value::Table(from)) => {
                let mut fresh = Table::new();
                merge(&mut fresh, from, set, &path);
                into.insert(key, Value::Table(fresh));
            }
            (_, value) => {
                set(&path);
                into.insert(key, value);
            }
        }
    }
}

fn nested(path: &[String], value: Value) -> Table {
    let value = path.iter().rev().fold(value, |value, key| {
        Value::Table(Table::from_iter([(key.clone(), value)]))
    });
    match value {
        Value::Table(table) => table,
        _ => Table::new(),
    }
}

fn remove(table: &mut Table, path: &[String]) {
    match path {
        [last] => {
            table.remove(last);
        }
        [first, rest @ ..] => {
            if let Some(Value::Table(below)) = table.get_mut(first) {
                remove(below, rest);
            }
        }
        [] => {}
    }
}

/// Makes the relative paths of a file relative to the directory of that file.
fn rebase(table: &mut Table, base: &Path) {
    if base.as_os_str().is_empty() {
        return;
    }
    if let Some(url) = text_at(table, "store", "url") {
        *url = store_under(base, url);
    }
    let paths = ["directory", "library", "cache", "code-key", "roots"].map(|key| ("plugins", key));
    for (section, key) in paths.into_iter().chain([("definitions", "directory")]) {
        if let Some(path) = text_at(table, section, key) {
            *path = under(base, path);
        }
    }
    let several = table.get_mut("definitions");
    if let Some(Value::Array(several)) = several.and_then(|it| it.get_mut("directory")) {
        for path in several {
            if let Value::String(path) = path {
                *path = under(base, path);
            }
        }
    }
    for (section, key) in [
        ("retention", "archive"),
        ("locks", "directory"),
        ("keys", "file"),
        ("scheduler", "zoneinfo"),
        ("server", "token-file"),
    ] {
        if let Some(path) = text_at(table, section, key) {
            *path = under(base, path);
        }
    }
    if let Some(Value::Table(secrets)) = table.get_mut("secrets") {
        for (_, source) in secrets.iter_mut() {
            for key in ["file", "directory"] {
                if let Some(Value::String(path)) = source.get_mut(key) {
                    *path = under(base, path);
                }
            }
        }
    }
}

fn text_at<'a>(table: &'a mut Table, section: &str, key: &str) -> Option<&'a mut String> {
    match table.get_mut(section)?.get_mut(key)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// As [`under`], for the store. A refused address stays as it is written.
fn store_under(base: &Path, text: &str) -> String {
    match StoreLocation::parse(text) {
        Ok(_) => under(base, text),
        Err(_) => text.to_owned(),
    }
}

/// A path, or the path of a `sqlite:` URL, under a base; an absolute one stays as it is.
fn under(base: &Path, text: &str) -> String {
    let join = |path: &str| base.join(path).to_string_lossy().into_owned();
    match (text.strip_prefix("sqlite:"), text.contains("://")) {
        (_, true) => text.to_owned(),
        (Some(path), _) => format!("sqlite:{}", join(path)),
        (None, _) => join(text),
    }
}

/// The position of a key in a text.
fn key_span(text: &str, path: &[String]) -> Option<usize> {
    let document = toml::de::DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let (last, parents) = path.split_last()?;
    for key in parents {
        table = table.get(key.as_str())?.get_ref().as_table()?;
    }
    let (key, _) = table.get_key_value(last.as_str())?;
    Some(key.span().start)
}

/// The message of a library, on one line.
fn one_line(message: &str) -> String {
    sentence(&message.trim_end_matches('\n').replace('\n', ", "))
}
