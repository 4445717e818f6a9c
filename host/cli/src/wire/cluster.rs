//! Whether this process is one of several, and which locks they share.
//!
//! This is the one place where `[cluster] enabled = true` changes something: it results in a
//! [`Topology`], which all other parts use.

use std::path::PathBuf;
use std::sync::Arc;

use windlass_locks::{
    FileOptions, LockProvider, Parts, PostgresOptions, Reach, RedisOptions, Settings, SqliteOptions,
};
use windlass_runtime::operations::Locks;
use windlass_runtime::{BurstLock, Distribution, Topology};

use super::Setup;
use super::place::{StoreLocation, is_postgres};
use crate::codes;
use crate::config::{Config, LockBackend};
use crate::error::Expected;

/// Refuses settings of the store and the locks that do not fit each other.
pub(super) fn check(config: &Config) -> Result<(), Expected> {
    let place = StoreLocation::of(config)?;
    if config.cluster.enabled {
        check_reach(config, &place, &settings(config, &place)?)?;
    }
    Ok(())
}

impl Setup {
    /// The topology that `[cluster]` and `[locks]` describe.
    pub(crate) fn topology(&self) -> anyhow::Result<Topology> {
        if !self.config.cluster.enabled {
            return Ok(Topology::Local);
        }
        let place = StoreLocation::of(&self.config)?;
        let settings = settings(&self.config, &place)?;
        check_reach(&self.config, &place, &settings)?;
        // If the store provides the locks, ownership of a run in it is the lock.
        let burst = match self.config.locks.provider {
            LockBackend::Store => BurstLock::Ownership,
            _ => BurstLock::Provider,
        };
        Ok(Topology::Distributed(Distribution {
            locks: self.open_locks(&settings)?,
            burst,
        }))
    }

    /// The provider of the locks, whether or not this process uses it.
    pub(super) fn locks(&self) -> anyhow::Result<Arc<dyn LockProvider>> {
        let place = StoreLocation::of(&self.config)?;
        self.open_locks(&settings(&self.config, &place)?)
    }

    /// The locks that the provider can list.
    pub(super) fn listed(&self, provider: Arc<dyn LockProvider>) -> Locks {
        let ownership = self.config.locks.provider == LockBackend::Store;
        Locks {
            provider,
            ownership,
        }
    }

    fn open_locks(&self, settings: &Settings) -> anyhow::Result<Arc<dyn LockProvider>> {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let parts = Parts {
            clock: Arc::clone(&self.clock),
            runtime: self.io.clone(),
            owner: format!("{} {}", host.trim(), std::process::id())
                .trim()
                .to_owned(),
            metrics: Arc::clone(&self.metrics),
        };
        windlass_locks::open(settings, parts).map_err(|error| {
            Expected::new(error.code(), error.to_string())
                .help("Look at the section [locks] of the configuration.")
                .into()
        })
    }
}

/// The provider and its address.
fn settings(config: &Config, place: &StoreLocation) -> Result<Settings, Expected> {
    let locks = &config.locks;
    let lease = locks.lease.duration();
    let directory = || -> PathBuf {
        let named = locks.directory.clone();
        named.unwrap_or_else(|| place.beside("locks"))
    };
    let sqlite = |path| Settings::Sqlite(SqliteOptions { path, lease });
    let postgres = |url: &str| {
        Settings::Postgres(PostgresOptions {
            lease,
            ..PostgresOptions::new(url)
        })
    };
    Ok(match (locks.provider, place) {
        (LockBackend::Store, StoreLocation::Sqlite(_)) => sqlite(place.beside("locks.db")),
        (LockBackend::Store, StoreLocation::Postgres(url)) => postgres(url),
        (LockBackend::InProcess, _) => Settings::InProcess,
        (LockBackend::File, _) => Settings::File(FileOptions {
            directory: directory(),
        }),
        (LockBackend::Sqlite, _) => sqlite(directory().join("locks.db")),
        (LockBackend::Postgres, _) => match (&locks.url, place) {
            (Some(url), _) if is_postgres(url) => postgres(url),
            (None, StoreLocation::Postgres(url)) => postgres(url),
            _ => return Err(no_url("postgres", "postgres://USER@HOST/DATABASE")),
        },
        (LockBackend::Redis, _) => match &locks.url {
            Some(url) if url.starts_with("redis") => Settings::Redis(RedisOptions {
                lease,
                ..RedisOptions::new(url)
            }),
            _ => return Err(no_url("redis", "redis://HOST:PORT")),
        },
    })
}

fn no_url(provider: &str, example: &str) -> Expected {
    let text = format!("The locks are to be in `{provider}`, and it is not said where that is");
    Expected::new(codes::LOCKS_URL, text).help(format!(
        "Set `url` in the section [locks], like `{example}`."
    ))
}

/// Refuses locks or stores that cannot separate processes on several machines.
fn check_reach(
    config: &Config,
    place: &StoreLocation,
    settings: &Settings,
) -> Result<(), Expected> {
    let reach = match settings {
        Settings::InProcess => Reach::Process,
        Settings::File(_) | Settings::Sqlite(_) => Reach::Machine,
        _ => Reach::Cluster,
    };
    let (code, text) = if place.file().is_some() {
        let text = "This is to be one of several processes, and the store is a SQLite file, \
            which serves only processes of one machine";
        (codes::CLUSTER_ON_A_FILE, text)
    } else if reach < Reach::Cluster {
        let text = "This is to be one of several processes, and its locks reach no further \
            than this machine";
        (codes::LOCAL_LOCKS, text)
    } else {
        return Ok(());
    };
    if config.cluster.allow_local_locks {
        tracing::warn!(%code, "{text}: all of them have to run here");
        return Ok(());
    }
    Err(Expected::new(code, text).help(
        "If all of them run on this machine, set `allow-local-locks` in the section [cluster]; \
         otherwise use PostgreSQL for the store, and PostgreSQL or Redis for the locks.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        toml::from_str(text).unwrap()
    }

    /// Checks the result of a configuration: the settings, or a code.
    fn check(text: &str, expected: Result<&str, &str>) {
        let config = config(text);
        let place = StoreLocation::of(&config).unwrap();
        let came = settings(&config, &place).and_then(|settings| {
            check_reach(&config, &place, &settings)?;
            Ok(format!("{settings:?}"))
        });
        match (came, expected) {
            (Ok(came), Ok(part)) => assert!(came.contains(part), "{came}"),
            (Err(error), Err(code)) => assert_eq!(error.code.as_str(), code, "{text}"),
            (came, _) => panic!("{text}: {came:?}"),
        }
    }

    const PG: &str = "[store]\nurl = \"postgres://w@db/w\"\n";

    #[test]
    fn locks_are_where_the_store_is_unless_it_is_said_otherwise() {
        check(PG, Ok("Postgres(Postgres { schema"));
        let redis = "[locks]\nprovider = \"redis\"\nurl = \"redis://r:1\"\nlease = \"4s\"";
        check(&format!("{PG}{redis}"), Ok("lease: 4s"));
        let local = "[store]\nurl = \"sqlite:a/w.db\"\n[cluster]\nallow-local-locks = true";
        check(local, Ok("Sqlite(Options { path: \"a/locks.db\""));
        let file = format!("{local}\n[locks]\nprovider = \"file\"");
        check(&file, Ok("File(Options { directory: \"a/locks\""));
    }

    #[test]
    fn a_lock_provider_of_one_machine_is_refused_for_several() {
        check("[store]\nurl = \"sqlite:a/w.db\"", Err("WL-C021"));
        let file = format!("{PG}[locks]\nprovider = \"file\"");
        check(&file, Err("WL-C020"));
        let alone = format!("{PG}[locks]\nprovider = \"in-process\"");
        check(&alone, Err("WL-C020"));
        check(
            &format!("{alone}\n[cluster]\nallow-local-locks = true"),
            Ok("InProcess"),
        );
    }

    #[test]
    fn a_server_has_to_be_named() {
        check(
            &format!("{PG}[locks]\nprovider = \"redis\""),
            Err("WL-C022"),
        );
        let locks = "[locks]\nprovider = \"postgres\"\n[cluster]\nallow-local-locks = true";
        check(locks, Err("WL-C022"));
    }
}
