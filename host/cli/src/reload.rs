//! Takes changed settings into a running host: the grants, limits and secrets of plugins. Every
//! other setting needs a restart, and the report names those that have changed.
//!
//! The settings come from the same sources as at the start: the files are read again; variables and
//! flags are those of the process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use windlass_plugins::Host;
pub(crate) use windlass_server::Settings as Reloaded;

use crate::config::Config;
use crate::config::layers::Sources;
use crate::error::Expected;
use crate::wire;

/// The settings that a running host takes: the beginnings of their keys.
const LIVE: [&str; 3] = ["plugins.grants.", "plugins.limits.", "secrets."];

/// The settings of a running host.
pub(crate) struct Reloader {
    sources: Sources,
    host: Arc<Host>,
    /// The settings at the start.
    started: Config,
    /// The settings that were taken last.
    taken: Mutex<Config>,
}

impl Reloader {
    /// The settings of a host that has just started.
    pub(crate) fn new(sources: Sources, config: &Config, host: &Arc<Host>) -> Arc<Self> {
        Arc::new(Self {
            sources,
            host: Arc::clone(host),
            started: config.clone(),
            taken: Mutex::new(config.clone()),
        })
    }

    /// The plugins of the host.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// The files that the settings come from, and the record of trusted projects.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let Sources { user, trust, .. } = &self.sources;
        let files = [self.sources.project_file(), user.clone(), trust.file()];
        files.into_iter().flatten().collect()
    }

    /// Reads the settings again, and takes those that have changed. Blocks.
    ///
    /// # Errors
    ///
    /// The settings have a mistake; nothing changes then.
    pub(crate) fn reload(&self) -> Result<Reloaded, Expected> {
        let mut taken = self.taken.lock();
        let loaded = self.sources.load()?;
        for warning in &loaded.warnings {
            tracing::warn!("{warning}");
        }
        let config = loaded.config;
        wire::check(&config)?;
        let is_live = |key: &String| LIVE.iter().any(|live| key.starts_with(live));
        let mut applied = changes(&taken, &config);
        applied.retain(is_live);
        let mut restart = changes(&self.started, &config);
        restart.retain(|key| !is_live(key));
        if !applied.is_empty() {
            wire::plugins::reconfigure(&config, &self.host)?;
        }
        *taken = config;
        Ok(Reloaded { applied, restart })
    }

    /// As [`Self::reload`], with a line in the log.
    pub(crate) fn reload_and_log(&self) {
        match self.reload() {
            Ok(Reloaded { applied, restart }) if restart.is_empty() => {
                tracing::info!(applied = list(&applied), "settings reloaded");
            }
            Ok(Reloaded { applied, restart }) => {
                tracing::warn!(
                    applied = list(&applied),
                    restart = list(&restart),
                    "settings reloaded; some need a restart"
                );
            }
            Err(error) => {
                tracing::warn!(code = %error.code, error = %error, "settings not reloaded: those before stay");
            }
        }
    }
}

/// Keys of settings in one line.
pub(crate) fn list(keys: &[String]) -> String {
    match keys {
        [] => "none".to_owned(),
        keys => keys.join(", "),
    }
}

/// The keys of the settings that differ, sorted.
fn changes(before: &Config, after: &Config) -> Vec<String> {
    let (before, after) = (leaves(before), leaves(after));
    let mut keys: Vec<String> = before
        .iter()
        .filter(|(key, value)| after.get(*key) != Some(value))
        .map(|(key, _)| key.clone())
        .collect();
    let new = after.keys().filter(|key| !before.contains_key(*key));
    keys.extend(new.cloned());
    keys.sort();
    keys
}

/// The values of a configuration by dotted key. A list is one value.
fn leaves(config: &Config) -> BTreeMap<String, Value> {
    let mut leaves = BTreeMap::new();
    // A configuration that was read can be written.
    let value = serde_json::to_value(config).unwrap_or_default();
    let mut open = vec![(String::new(), value)];
    while let Some((key, value)) = open.pop() {
        match value {
            Value::Object(members) => {
                open.extend(members.into_iter().map(|(name, value)| {
                    let below = match key.as_str() {
                        "" => name,
                        above => format!("{above}.{name}"),
                    };
                    (below, value)
                }));
            }
            Value::Null => {}
            value => drop(leaves.insert(key, value)),
        }
    }
    leaves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &str, after: &str, keys: &[&str]) {
        let read = |text: &str| toml::from_str::<Config>(text).unwrap();
        assert_eq!(changes(&read(before), &read(after)), keys);
    }

    #[test]
    fn changed_settings_are_named_by_their_keys() {
        check("", "", &[]);
        check("", "[scheduler]\nworkers = 3", &["scheduler.workers"]);
        check("[scheduler]\nworkers = 3", "", &["scheduler.workers"]);
        let grant = "[plugins.grants.http]\nhttp = [\"https://a.example\"]";
        let other = "[plugins.grants.http]\nhttp = [\"https://b.example\"]";
        check(grant, other, &["plugins.grants.http.http"]);
        check(grant, grant, &[]);
        assert!(
            changes(&Config::default(), &toml::from_str(grant).unwrap())
                .iter()
                .all(|key| key.starts_with("plugins.grants.http."))
        );
    }
}
