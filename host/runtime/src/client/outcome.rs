//! Reads the status of runs, and waits for their end.

use std::time::Duration;

use windlass_model::{RunId, RunNo, Status};
use windlass_store::rows::RunRow;

use super::workflow::{ClientInner, WorkflowClient};
use crate::error::Error;
use crate::runtime::result_of;
use crate::wait::{RunResult, Waiter};

/// The time between the first and the second read of a run without a notification.
const SOON: Duration = Duration::from_millis(5);

/// The longest time between two reads.
const LATER: Duration = Duration::from_millis(100);

/// The state of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The id of the run.
    pub id: RunId,
    /// The status of the run.
    pub status: Status,
    /// The result of a run that has ended.
    pub result: Option<RunResult>,
    /// Whether the requested or awaited change has happened.
    pub done: bool,
}

impl WorkflowClient {
    /// Whether the run exists; a deleted run does not.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub async fn exists(&self, id: RunId) -> Result<bool, Error> {
        let row = self.ask(move |inner| Ok(inner.store.run(id)?)).await?;
        Ok(row.is_some())
    }

    /// The state of a run, once it has ended or `patience` has passed.
    ///
    /// # Errors
    ///
    /// There is no such run, or the store fails.
    pub async fn result(&self, id: RunId, patience: Duration) -> Result<Standing, Error> {
        self.until(id, patience, |row| row.status.is_final()).await
    }

    /// Waits until `holds` is true of a run, or `patience` has passed.
    pub(super) async fn until(
        &self,
        id: RunId,
        patience: Duration,
        holds: impl Fn(&RunRow) -> bool + Send,
    ) -> Result<Standing, Error> {
        let clock = &self.inner.clock;
        let end = clock.monotonic().saturating_add(patience);
        let mut pause = SOON;
        let mut no = None;
        loop {
            let heard = self.inner.heard();
            let heard = heard.notified();
            let waiter = no.and_then(|no| self.inner.waiter(no));
            let (row, result) = self.ask(move |inner| inner.look(id)).await?;
            no = Some(row.no);
            let done = holds(&row);
            let left = end.saturating_sub(clock.monotonic());
            if done || row.status.is_final() || left.is_zero() {
                return Ok(Standing {
                    id,
                    status: row.status,
                    result,
                    done,
                });
            }
            let ended = async {
                match waiter {
                    Some(waiter) => drop(waiter.await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = heard => {}
                () = ended => {}
                _ = tokio::time::timeout(pause.min(left), std::future::pending::<()>()) => {}
            }
            pause = pause.saturating_mul(2).min(LATER);
        }
    }
}

impl ClientInner {
    fn look(&self, id: RunId) -> Result<(RunRow, Option<RunResult>), Error> {
        let store = self.store.as_ref();
        let row = store
            .run(id)?
            .ok_or_else(|| Error::NotFound(id.to_string()))?;
        let result = result_of(store, row.clone())?;
        Ok((row, result))
    }

    /// Waits for the end of a run, if this process runs workflows.
    fn waiter(&self, no: RunNo) -> Option<Waiter> {
        self.runtime()
            .map(|runtime| runtime.shared.listeners.waiters.add(no))
    }
}
