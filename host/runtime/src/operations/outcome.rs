//! Reads the status of runs, and waits for their end.

use std::time::Duration;

use windlass_model::{RunId, Status};
use windlass_store::rows::RunRow;

use super::reach::{Operations, OperationsInner};
use crate::error::Error;
use crate::runtime::result_of;
use crate::wait::{Ended, RunResult};

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

impl Operations {
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
        let clock = &self.inner.clock;
        let end = clock.monotonic().saturating_add(patience);
        if let Some(result) = self.ends_here(id, patience).await {
            return Ok(Standing {
                id,
                status: result.status,
                result: Some(result),
                done: true,
            });
        }
        let left = end.saturating_sub(clock.monotonic());
        self.until(id, left, Status::is_final).await
    }

    /// Waits until `holds` is true of the status of a run, or `patience` has passed. The end of a run
    /// ends the wait, too.
    ///
    /// A run that is in this process tells its end, so it is read again rarely. Any other run may
    /// change in another process, whose hints may be missing, so it is read again soon.
    pub(super) async fn until(
        &self,
        id: RunId,
        patience: Duration,
        holds: impl Fn(Status) -> bool + Send,
    ) -> Result<Standing, Error> {
        let clock = &self.inner.clock;
        let end = clock.monotonic().saturating_add(patience);
        let mut pause = SOON;
        let standing = |status, result| Standing {
            id,
            status,
            result,
            done: holds(status),
        };
        loop {
            let heard = self.inner.heard();
            let heard = heard.notified();
            // Registered before the run is read: no end is missed.
            let waiter = self.inner.runtime().map(|runtime| {
                let waiters = &runtime.shared.listeners.waiters;
                waiters.add(id)
            });
            let (row, result) = self.ask(move |inner| inner.look(id)).await?;
            let now = standing(row.status, result);
            let left = end.saturating_sub(clock.monotonic());
            if now.done || row.status.is_final() || left.is_zero() {
                return Ok(now);
            }
            let ended = async {
                match waiter {
                    Some(waiter) => waiter.await.ok(),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = heard => {}
                ended = ended => {
                    if let Some(Ended::Finally(end)) = ended
                        && end.is_after(row.no, row.version)
                        && holds(end.result.status)
                    {
                        return Ok(standing(end.result.status, Some(end.result)));
                    }
                }
                _ = tokio::time::timeout(pause.min(left), std::future::pending::<()>()) => {}
            }
            pause = pause.saturating_mul(2).min(LATER);
        }
    }

    /// The end of a run, if the run is in this process now and ends here before the time is up.
    /// Reads nothing.
    async fn ends_here(&self, id: RunId, patience: Duration) -> Option<RunResult> {
        let waiters = &self.inner.runtime()?.shared.listeners.waiters;
        let waiter = waiters.add_if_here(id)?;
        match tokio::time::timeout(patience, waiter).await {
            Ok(Ok(Ended::Finally(end))) => Some(end.result),
            _ => None,
        }
    }
}

impl OperationsInner {
    fn look(&self, id: RunId) -> Result<(RunRow, Option<RunResult>), Error> {
        let store = self.store.as_ref();
        let row = store
            .run(id)?
            .ok_or_else(|| Error::NotFound(id.to_string()))?;
        let result = result_of(store, row.clone())?;
        Ok((row, result))
    }
}
