//! Reads published definitions again, and handles the requests for refreshing and reloading.

use std::collections::BTreeSet;
use std::time::Duration;

use windlass_locks::Key;
use windlass_model::UpkeepNo;
use windlass_store::Writer as _;
use windlass_store::drafts::{RequestUpkeep, UPKEEP_ROWS, Upkeep, UpkeepDone};
use windlass_store::published::PublicationQuery;

use super::{Definitions, Upkept};
use crate::codes;
use crate::error::Error;
use crate::operations::{From, Published, TRIES, busy, publish_from};

/// How long indexing a workflow waits for another process that indexes it.
pub(super) const INDEXING: Duration = Duration::from_secs(30);

/// How long a pending request waits for its locks: a process that got only some of them is about to
/// release these, and does not read the requests again.
const BRIEFLY: Duration = Duration::from_secs(1);

/// The number of published workflows in one read.
const PAGE: u32 = 1_000;

/// The result of refreshing.
#[derive(Debug, Default)]
pub struct Refreshed {
    /// The published workflows that were indexed.
    pub refreshed: Vec<Published>,
    /// The workflows that cannot be indexed on the current plugins, and why. Their index is
    /// unchanged.
    pub failed: Vec<(String, Error)>,
    /// The names that are not published.
    pub missing: Vec<String>,
}

impl Definitions {
    /// Reads published definitions again, and rebuilds the index of their triggers: those with
    /// these names, or all if there are none. Correct rows keep their numbers.
    ///
    /// # Errors
    ///
    /// The store or the lock provider fails. The request stays for the next process that reads
    /// requests.
    pub fn refresh(&self, names: &[String]) -> Result<Upkept<Refreshed>, Error> {
        let what = if names.is_empty() {
            Upkeep::RefreshAll
        } else {
            Upkeep::Refresh(names.to_vec())
        };
        let no = self.request(what.clone())?;
        let done = self.exclusively(&self.keys(&what)?, |held| {
            let refreshed = self.refresh_now(&what, held)?;
            self.done(no)?;
            Ok::<_, Error>(refreshed)
        })?;
        let Some(refreshed) = done else {
            return Ok(Upkept::AlreadyInProgress);
        };
        let refreshed = refreshed?;
        self.catch_up_refreshing()?;
        Ok(Upkept::Done(refreshed))
    }

    /// Carries out the pending requests that no other process handles, such as those of processes
    /// that died.
    ///
    /// # Errors
    ///
    /// As [`Self::refresh`].
    pub fn catch_up(&self) -> Result<(), Error> {
        self.catch_up_refreshing()?;
        self.catch_up_reloading()
    }

    pub(super) fn catch_up_refreshing(&self) -> Result<(), Error> {
        self.catch_up_with(|what| *what != Upkeep::Reload)
    }

    pub(super) fn catch_up_reloading(&self) -> Result<(), Error> {
        self.catch_up_with(|what| *what == Upkeep::Reload)
    }

    fn catch_up_with(&self, mine: impl Fn(&Upkeep) -> bool) -> Result<(), Error> {
        let mut busy: BTreeSet<UpkeepNo> = BTreeSet::new();
        loop {
            let rows = self.store.upkeep(2 * UPKEEP_ROWS)?;
            let mut rows = rows.into_iter();
            let Some(row) = rows.find(|row| mine(&row.what) && !busy.contains(&row.no)) else {
                return Ok(());
            };
            let done = self.exclusively_within(BRIEFLY, &self.keys(&row.what)?, |held| {
                // The previous holder of the lock may have done it.
                if !self.waits(row.no)? {
                    return Ok(());
                }
                if row.what == Upkeep::Reload {
                    self.reload_now(true, false, held)?;
                } else {
                    self.refresh_now(&row.what, held)?;
                }
                self.done(row.no)
            })?;
            match done {
                Some(done) => done?,
                // The holder of the lock reads the requests again.
                None => drop(busy.insert(row.no)),
            }
        }
    }

    pub(super) fn request(&self, what: Upkeep) -> Result<UpkeepNo, Error> {
        let at_ms = self.clock.wall_ms();
        Ok(self.store.write(RequestUpkeep { what, at_ms })?)
    }

    pub(super) fn done(&self, no: UpkeepNo) -> Result<(), Error> {
        self.store.write(UpkeepDone(vec![no]))?;
        Ok(())
    }

    fn waits(&self, no: UpkeepNo) -> Result<bool, Error> {
        let rows = self.store.upkeep(2 * UPKEEP_ROWS)?;
        Ok(rows.iter().any(|row| row.no == no))
    }

    /// The locks of a request, in the order in which every process takes them.
    fn keys(&self, what: &Upkeep) -> Result<Vec<Key>, Error> {
        let of = |names: &BTreeSet<String>| {
            let keys = names.iter().map(|name| Key::refresh(name));
            keys.collect::<Vec<_>>()
        };
        Ok(match what {
            Upkeep::Reload => vec![Key::reload()],
            Upkeep::Refresh(names) => of(&names.iter().cloned().collect()),
            Upkeep::RefreshAll => {
                let mut keys = vec![Key::refresh_all()];
                keys.extend(of(&self.published()?));
                keys
            }
        })
    }

    /// The names of all published workflows.
    fn published(&self) -> Result<BTreeSet<String>, Error> {
        let mut names = BTreeSet::new();
        loop {
            let page = self.store.publications(&PublicationQuery {
                after: names.last().cloned(),
                limit: PAGE,
                ..PublicationQuery::default()
            })?;
            let more = page.len() >= PAGE as usize;
            names.extend(page.into_iter().map(|row| row.name));
            if !more {
                return Ok(names);
            }
        }
    }

    fn refresh_now(&self, what: &Upkeep, held: &dyn Fn() -> bool) -> Result<Refreshed, Error> {
        let names = match what {
            Upkeep::Refresh(names) => names.iter().cloned().collect(),
            Upkeep::RefreshAll | Upkeep::Reload => self.published()?,
        };
        let mut refreshed = Refreshed::default();
        for name in names {
            if !held() {
                return Err(lost());
            }
            match self.refresh_one(&name) {
                Ok(Some(published)) => refreshed.refreshed.push(published),
                Ok(None) => refreshed.missing.push(name),
                Err(Error::Store(error)) => return Err(error.into()),
                Err(error) => refreshed.failed.push((name, error)),
            }
        }
        self.store.notify();
        Ok(refreshed)
    }

    fn refresh_one(&self, name: &str) -> Result<Option<Published>, Error> {
        for _ in 0..TRIES {
            let Some(row) = self.store.published(name)? else {
                return Ok(None);
            };
            let definition = self.store.definition(row.definition)?.ok_or_else(|| {
                let digest = row.definition;
                Error::Unreadable(format!("the store has no definition {digest}"))
            })?;
            let from = From {
                only: Some(row.version),
                ..From::default()
            };
            let (store, now_ms) = (self.store.as_ref(), self.clock.wall_ms());
            let published = self.index(name, || {
                publish_from(store, &self.plugins, now_ms, definition, &from)
            })??;
            if published.is_some() {
                return Ok(published);
            }
        }
        Err(busy(name))
    }
}

pub(super) fn lost() -> Error {
    Error::NotNow {
        code: codes::IN_PROGRESS,
        message: "the lock was lost in the middle of it".to_owned(),
        help: Some("try again: the rest is still asked for".to_owned()),
    }
}
