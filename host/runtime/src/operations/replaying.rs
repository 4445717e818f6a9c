//! Replays the events of all runs of a store, and compares the result with their stored states.

use windlass_model::{RunId, RunNo};
use windlass_store::next_rows;
use windlass_store::read::RunQuery;

use super::reach::{Operations, OperationsInner};
use crate::error::Error;
use crate::rebuilding::{Rebuilt, rebuild};

/// The number of runs in one page.
const PAGE: u32 = 500;

/// The runs of one kind that are named.
const NAMED: usize = 100;

/// The runs of a store whose events were replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// All runs.
    pub runs: u64,
    /// The events of the runs that are as their events make them.
    pub events: u64,
    /// The runs that are not as their events make them, with what differs.
    pub different: Named,
    /// The runs whose events cannot be replayed, with the reason.
    pub unknown: Named,
}

/// Runs that are counted, with the first of them by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// All of them.
    pub count: u64,
    /// The first ones, each with a remark, which is part of a sentence.
    pub first: Vec<(RunId, String)>,
}

impl Named {
    fn add(&mut self, run: RunId, remark: String) {
        self.count += 1;
        if self.first.len() < NAMED {
            self.first.push((run, remark));
        }
    }
}

impl Operations {
    /// Replays the events of all runs. Runs that change meanwhile are replayed up to a version of
    /// their own.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub async fn replay_runs(&self) -> Result<Replayed, Error> {
        self.ask(OperationsInner::replay_runs).await
    }

    /// Replays the events of one run. None: there is no such run.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub async fn replay_run(&self, run: RunNo) -> Result<Option<Rebuilt>, Error> {
        self.ask(move |inner| inner.replay_run(run)).await
    }
}

impl OperationsInner {
    fn replay_runs(&self) -> Result<Replayed, Error> {
        let (mut replayed, mut before) = (Replayed::default(), None);
        loop {
            let query = |limit| RunQuery {
                before,
                limit,
                ..RunQuery::default()
            };
            let page = next_rows(PAGE, |limit| self.store.runs(&query(limit)))?;
            let Some(last) = page.last() else {
                return Ok(replayed);
            };
            before = Some(last.place());
            for row in page {
                let Some(rebuilt) = self.replay_run(row.no)? else {
                    continue;
                };
                replayed.runs += 1;
                match rebuilt {
                    Rebuilt::Same { events } => replayed.events += events,
                    Rebuilt::Different { version, what } => {
                        let remark = format!("version {}: {what}", version.0);
                        replayed.different.add(row.id, remark);
                    }
                    Rebuilt::Unknown(why) => replayed.unknown.add(row.id, why),
                }
            }
        }
    }

    fn replay_run(&self, run: RunNo) -> Result<Option<Rebuilt>, Error> {
        let store = self.store.as_ref();
        let mut prepare = |definition, pins| {
            let host = self.resources().host()?;
            match self.catalog().load(store, &host, definition, pins) {
                Err(Error::Store(error)) => Err(Error::Store(error)),
                loaded => Ok(loaded.map_err(|error| error.to_string())),
            }
        };
        rebuild(store, run, &mut prepare, &mut |_, _| {})
    }
}
