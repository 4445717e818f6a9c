//! Secret values: their sources, their permitted uses, and their removal from results.
//!
//! A guest never has a value. It passes the handle that replaces the secret's name in its
//! configuration, and the host puts the value into a header if the package has the grant, and the
//! secret is bound to the workflow and to the destination.

mod redact;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use parking_lot::Mutex;
use url::Url;
use windlass_model::secrets::{Marked, Reference};
use windlass_model::{Class, Failure, JsonText, Payload};

use super::destination::Grant;
use crate::codes;
use redact::Redactor;

/// The largest secret file, in bytes.
const LONGEST: u64 = 64 * 1024;

/// How often the files of secrets are checked for changes.
const AGAIN: Duration = Duration::from_secs(1);

/// The values of one secret that are removed from results: the present one, and those before it.
const REMEMBERED: usize = 4;

/// One secret.
#[derive(Clone, Debug)]
pub struct Secret {
    /// The source of its value.
    pub source: Source,
    /// Destinations of requests with it.
    pub to: Vec<Grant>,
    /// The workflows that may use it; none: all.
    pub workflows: Option<Vec<String>>,
}

/// The source of a secret's value.
#[derive(Clone)]
pub enum Source {
    /// A value that is known already.
    Value(String),
    /// A file; a line break at its end does not count. The file is read again when it changes.
    File(PathBuf),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(_) => f.write_str("a value"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// The value of a secret cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the secret `{name}` cannot be read from {}: {error}", path.display())]
pub struct Unreadable {
    /// The name of the secret.
    pub name: String,
    path: PathBuf,
    error: io::Error,
}

/// All secrets of a host, by name. Printing them prints the names. Clones share the values.
#[derive(Clone, Default)]
pub struct Secrets(Arc<ArcSwapOption<SecretsInner>>);

struct SecretsInner {
    secrets: BTreeMap<String, Secret>,
    values: ArcSwap<Values>,
    looked: Mutex<Instant>,
}

/// The present values of the secrets.
#[derive(Default)]
struct Values {
    by_name: BTreeMap<String, Value>,
    redactor: Redactor,
}

#[derive(Clone)]
struct Value {
    text: Arc<str>,
    before: Vec<Arc<str>>,
    /// The stamp of the file from which it was read.
    stamp: Option<Stamp>,
}

/// Identifies a version of a file.
type Stamp = (Option<SystemTime>, u64, u64);

/// Replaces the secret names in a configuration by marks, and returns the references. Only
/// references that the workflow file itself contains are replaced.
pub fn bind(config: &mut serde_json::Value) -> Arc<[Marked]> {
    windlass_model::secrets::bind(config, rand::random()).into()
}

/// Replaces the marks in the rendered configuration of a call by handles that are valid in this call
/// alone: data of a run cannot guess a handle, and one that it has seen is of another call.
///
/// # Errors
///
/// Data contains a mark: the failure of the call.
pub fn handles(
    config: Bytes,
    marked: &[Marked],
) -> Result<(Bytes, Arc<[Reference]>), Box<Failure>> {
    if marked.is_empty() {
        return Ok((config, Arc::default()));
    }
    let text = std::str::from_utf8(&config).ok();
    let called =
        text.and_then(|text| windlass_model::secrets::handles(text, marked, rand::random()));
    let (config, references) = called.ok_or_else(|| {
        let message = "data in the configuration looks like a reference to a secret";
        Box::new(Failure::new(Class::Invalid, codes::INVALID, message))
    })?;
    Ok((config.into(), references.into()))
}

impl Secrets {
    /// Reads the values of these secrets.
    ///
    /// # Errors
    ///
    /// A file cannot be read, is no text, or is longer than 64 KiB.
    pub fn new(secrets: BTreeMap<String, Secret>) -> Result<Self, Unreadable> {
        if secrets.is_empty() {
            return Ok(Self::default());
        }
        let mut by_name = BTreeMap::new();
        for (name, secret) in &secrets {
            by_name.insert(name.clone(), read(name, &secret.source)?);
        }
        let inner = SecretsInner {
            secrets,
            values: ArcSwap::from_pointee(Values::of(by_name)),
            looked: Mutex::new(now()),
        };
        Ok(Self(Arc::new(ArcSwapOption::from_pointee(inner))))
    }

    /// Replaces all secrets, for all clones. The values before are removed from results further on:
    /// runs may have them.
    pub(crate) fn replace(&self, by: Self) {
        let new = by.0.load_full();
        if let Some(old) = self.0.load_full() {
            let old = old.values.load_full();
            let inner = new.unwrap_or_else(|| {
                Arc::new(SecretsInner {
                    secrets: BTreeMap::new(),
                    values: ArcSwap::default(),
                    looked: Mutex::new(now()),
                })
            });
            let mut by_name = inner.values.load().by_name.clone();
            for (name, known) in &old.by_name {
                // A value without a present one is only removed from results.
                let value = by_name.entry(name.clone()).or_insert_with(|| known.clone());
                if value.text != known.text {
                    value.before.push(Arc::clone(&known.text));
                }
                value.before.extend(known.before.iter().cloned());
                value.before.truncate(REMEMBERED - 1);
            }
            inner.values.store(Arc::new(Values::of(by_name)));
            self.0.store(Some(inner));
        } else {
            self.0.store(new);
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0
            .load()
            .as_ref()
            .is_none_or(|inner| inner.secrets.is_empty())
    }

    /// Whether there is a secret of this name, with or without a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        let inner = self.0.load();
        inner
            .as_ref()
            .is_some_and(|it| it.secrets.contains_key(name))
    }

    /// The value of a secret, if this workflow may send it to this address.
    pub(crate) fn usable(&self, name: &str, workflow: &str, url: &Url) -> Option<Arc<str>> {
        let inner = self.0.load_full()?;
        let secret = inner.secrets.get(name)?;
        let goes = secret.to.iter().any(|to| to.covers(url));
        if !goes || !secret.is_for(workflow) {
            return None;
        }
        self.now()?
            .by_name
            .get(name)
            .map(|value| Arc::clone(&value.text))
    }

    /// The value of a secret by which this workflow verifies its callers.
    pub fn for_workflow(&self, name: &str, workflow: &str) -> Option<Arc<str>> {
        let inner = self.0.load_full()?;
        let secret = inner.secrets.get(name)?;
        if !secret.is_for(workflow) {
            return None;
        }
        self.now()?
            .by_name
            .get(name)
            .map(|value| Arc::clone(&value.text))
    }

    /// A text without secrets.
    pub fn redact(&self, text: &str) -> String {
        let clean = self
            .now()
            .and_then(|now| now.redactor.bytes(text.as_bytes()));
        // Replacing UTF-8 by UTF-8 yields UTF-8, unless a percent sign encoded a part of a
        // character.
        clean.map_or_else(
            || text.to_owned(),
            |clean| String::from_utf8_lossy(&clean).into_owned(),
        )
    }

    /// The bytes of the longest secret that is looked for.
    pub(crate) fn longest(&self) -> usize {
        self.now().map_or(0, |now| now.redactor.longest())
    }

    /// Whether the name of a header contains a secret. Names are in lower case.
    pub(crate) fn are_in_name(&self, name: &str) -> bool {
        self.now().is_some_and(|now| now.redactor.is_in_name(name))
    }

    /// Removes secrets from a text.
    pub(crate) fn clean_text(&self, text: &mut String) {
        let clean = self.now().and_then(|now| now.redactor.text(text));
        if let Some(clean) = clean {
            *text = clean;
        }
    }

    /// Bytes without secrets.
    pub(crate) fn clean(&self, bytes: Vec<u8>) -> Vec<u8> {
        let clean = self.now().and_then(|now| now.redactor.bytes(&bytes));
        clean.unwrap_or(bytes)
    }

    /// Removes secrets from a payload. JSON stays JSON.
    pub(crate) fn clean_payload(&self, payload: &mut Payload) {
        let Some(now) = self.now() else { return };
        let is_json = payload.is_json();
        if let windlass_model::Body::Inline(bytes) = &mut payload.body {
            let clean = match is_json {
                true => now.redactor.json(bytes),
                false => now.redactor.bytes(bytes),
            };
            if let Some(clean) = clean {
                *bytes = clean.into();
            }
        }
        if let Some(text) = &mut payload.content_type
            && let Some(clean) = now.redactor.text(text)
        {
            *text = clean;
        }
    }

    /// Removes secrets from a value.
    pub(crate) fn clean_value(&self, value: &mut serde_json::Value) {
        if let Some(now) = self.now() {
            now.redactor.value(value);
        }
    }

    /// Removes secrets from JSON.
    pub(crate) fn clean_json(&self, json: &mut Option<JsonText>) {
        let (Some(now), Some(text)) = (self.now(), json.as_ref()) else {
            return;
        };
        if let Some(clean) = now.redactor.json(text.as_str().as_bytes()) {
            *json = JsonText::stored(&clean).ok();
        }
    }

    /// The present values of the secrets. Checks their files now and then.
    fn now(&self) -> Option<Arc<Values>> {
        let inner = self.0.load_full()?;
        // One thread checks; the others use the known values.
        if let Some(mut looked) = inner.looked.try_lock()
            && looked.elapsed() >= AGAIN
        {
            *looked = now();
            inner.look();
        }
        Some(inner.values.load_full())
    }
}

impl Secret {
    fn is_for(&self, workflow: &str) -> bool {
        let names = self.workflows.as_ref();
        names.is_none_or(|names| names.iter().any(|name| name == workflow))
    }
}

impl SecretsInner {
    /// Reads the files again that have changed.
    fn look(&self) {
        let old = self.values.load_full();
        let mut by_name = None;
        for (name, secret) in &self.secrets {
            let (Source::File(path), Some(known)) = (&secret.source, old.by_name.get(name)) else {
                continue;
            };
            if stamp(path) == known.stamp {
                continue;
            }
            match read(name, &secret.source) {
                Ok(mut value) => {
                    if value.text != known.text {
                        tracing::info!(secret = %name, "a secret was read again");
                        value.before.clone_from(&known.before);
                        value.before.insert(0, Arc::clone(&known.text));
                        value.before.truncate(REMEMBERED - 1);
                    }
                    let all = by_name.get_or_insert_with(|| old.by_name.clone());
                    all.insert(name.clone(), value);
                }
                // The previous value is kept.
                Err(error) => tracing::warn!(%error, "a secret has changed"),
            }
        }
        if let Some(by_name) = by_name {
            self.values.store(Arc::new(Values::of(by_name)));
        }
    }
}

impl Values {
    fn of(by_name: BTreeMap<String, Value>) -> Self {
        let all = by_name.iter().flat_map(|(name, value)| {
            let texts = [&value.text].into_iter().chain(&value.before);
            texts.map(move |text| (name.as_str(), &**text))
        });
        let redactor = Redactor::new(all);
        Self { by_name, redactor }
    }
}

fn read(name: &str, source: &Source) -> Result<Value, Unreadable> {
    let (text, stamp) = match source {
        Source::Value(text) => (text.clone(), None),
        Source::File(path) => {
            // Read the stamp before the content: a change in between is read again.
            let stamp = stamp(path);
            let text = windlass_files::read_regular(path, LONGEST)
                .and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
            let text = text.map_err(|error| Unreadable {
                name: name.to_owned(),
                path: path.clone(),
                error,
            })?;
            // Editors add a byte order mark before the secret, and an end of line behind it.
            let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
            (text.trim_end_matches(['\n', '\r']).to_owned(), stamp)
        }
    };
    Ok(Value {
        text: text.into(),
        before: Vec::new(),
        stamp,
    })
}

/// Decides whether a file has to be checked again.
#[expect(
    clippy::disallowed_methods,
    reason = "a bound on how often files are read, of which no test waits"
)]
fn now() -> Instant {
    Instant::now()
}

fn stamp(path: &Path) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok(), metadata.len(), metadata.ino()))
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.0.load_full();
        let names = inner.iter().flat_map(|inner| inner.secrets.keys());
        f.debug_set().entries(names).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(source: Source, to: &[&str], workflows: Option<&[&str]>) -> Secret {
        Secret {
            source,
            to: to.iter().map(|text| text.parse().unwrap()).collect(),
            workflows: workflows.map(|names| names.iter().map(|&name| name.to_owned()).collect()),
        }
    }

    fn one(secret: Secret) -> Secrets {
        Secrets::new([("price".to_owned(), secret)].into()).unwrap()
    }

    #[test]
    fn a_secret_is_bound_to_destinations_and_workflows() {
        let value = Source::Value("hunter2hunter2".to_owned());
        let secrets = one(secret(
            value,
            &["https://prices.example"],
            Some(&["orders"]),
        ));
        let usable = |workflow: &str, url: &str| {
            secrets
                .usable("price", workflow, &url.parse().unwrap())
                .is_some()
        };
        assert!(usable("orders", "https://prices.example/a"));
        assert!(!usable("other", "https://prices.example/a"));
        for elsewhere in [
            "http://prices.example/",
            "https://prices.example:444/",
            "https://prices.example.evil.example/",
            "https://evil.example/?https://prices.example",
        ] {
            assert!(!usable("orders", elsewhere), "{elsewhere}");
        }
        assert!(secrets.for_workflow("price", "orders").is_some());
        assert!(secrets.for_workflow("price", "other").is_none());
        assert!(secrets.for_workflow("none", "orders").is_none());
        assert_eq!(format!("{secrets:?}"), r#"{"price"}"#);
        let nowhere = one(secret(
            Source::Value("hunter2hunter2".to_owned()),
            &[],
            None,
        ));
        let url = "https://prices.example".parse().unwrap();
        assert!(nowhere.usable("price", "orders", &url).is_none());
        assert!(nowhere.for_workflow("price", "orders").is_some());
    }

    #[test]
    fn each_call_has_handles_of_its_own() {
        let mut config = serde_json::json!({ "a": { "secret": "price" }, "b": "{{ input }}" });
        let marked = bind(&mut config);
        let call = |data: &str| {
            let mut config = config.clone();
            config["b"] = data.into();
            let config = Bytes::from(config.to_string());
            handles(config.clone(), &marked).map(|called| (config, called))
        };
        let (before, (first, given)) = call("x").unwrap();
        let told = given[0].handle.to_string();
        let (_, (_, next)) = call(&told).unwrap();
        assert!(next.iter().all(|reference| *reference.handle != *told));
        assert!(first != before && !before.windows(5).any(|part| part == b"price"));
        // The mark does not leave the host, and is no handle in any case.
        let mark = config["a"]["secret"].as_str().unwrap();
        assert_eq!(call(mark).unwrap_err().class, Class::Invalid);
        let (same, none) = handles(before.clone(), &[]).unwrap();
        assert!(same == before && none.is_empty());
    }

    #[test]
    fn the_type_of_a_payload_is_without_secrets() {
        let value = Source::Value("hunter2hunter2".to_owned());
        let secrets = one(secret(value, &[], None));
        let mut payload = Payload {
            content_type: Some("application/json; by=hunter2hunter2".to_owned()),
            body: windlass_model::Body::Inline(r#"{"a":"hunter2hunter2"}"#.into()),
        };
        secrets.clean_payload(&mut payload);
        let expected = "application/json; by=[secret price]";
        assert_eq!(payload.content_type.as_deref(), Some(expected));
        let body = payload.inline().unwrap();
        assert_eq!(&body[..], br#"{"a":"[secret price]"}"#);
    }

    #[test]
    fn a_file_is_read_again_and_its_old_value_is_still_cut_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("price");
        std::fs::write(&path, "first-value\n").unwrap();
        let secrets = one(secret(Source::File(path.clone()), &[], None));
        let value = || secrets.for_workflow("price", "a").unwrap();
        assert_eq!(&*value(), "first-value");
        let age = || {
            let inner = secrets.0.load_full().unwrap();
            let mut looked = inner.looked.lock();
            *looked = looked.checked_sub(2 * AGAIN).unwrap();
        };
        // As orchestrators do it: the link is replaced by one to another file.
        let other = dir.path().join("other");
        std::fs::write(&other, "\u{feff}second-value\r\n").unwrap();
        std::fs::rename(&other, &path).unwrap();
        age();
        assert_eq!(&*value(), "second-value");
        let said = secrets.redact("first-value second-value");
        assert_eq!(said, "[secret price] [secret price]");
        std::fs::remove_file(&path).unwrap();
        age();
        assert_eq!(&*value(), "second-value", "it stays while the file is gone");
        std::fs::create_dir(&path).unwrap();
        age();
        assert_eq!(&*value(), "second-value");
    }

    #[test]
    fn replaced_secrets_cannot_be_used_and_are_still_cut_out() {
        let before = one(secret(Source::Value("first-value".to_owned()), &[], None));
        let clone = before.clone();
        before.replace(one(secret(
            Source::Value("second-value".to_owned()),
            &[],
            None,
        )));
        assert_eq!(&*clone.for_workflow("price", "a").unwrap(), "second-value");
        before.replace(Secrets::default());
        assert!(clone.is_empty());
        assert_eq!(clone.for_workflow("price", "a"), None);
        let said = clone.redact("first-value second-value third-value");
        assert_eq!(said, "[secret price] [secret price] third-value");
        // A process that began without secrets gets them, too.
        let none = Secrets::default();
        none.replace(one(secret(
            Source::Value("third-value".to_owned()),
            &[],
            None,
        )));
        assert_eq!(none.redact("third-value"), "[secret price]");
    }
}
