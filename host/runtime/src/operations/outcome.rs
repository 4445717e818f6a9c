//! Reads the status of runs, and waits for their end.

use std::time::Duration;

use windlass_model::{RunId, RunNo, Status, Version};
use windlass_store::rows::RunRow;

use super::delivering::{Delivered, Expected};
use super::reach::{Operations, OperationsInner};
use crate::error::Error;
use crate::lookout::RunWatch;
use crate::runtime::result_of;
use crate::wait::{End, Ended, RunResult, Waiter};

/// How long a wait for a further version goes on after a change, so that a client that follows a
/// quick run asks for several steps together.
const GATHER: Duration = Duration::from_millis(20);

/// The state of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The id of the run.
    pub id: RunId,
    /// The status of the run.
    pub status: Status,
    /// Changes with each step of the run.
    pub version: Version,
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

    /// The state of a run, once it has another version than `after` or has ended, or `patience` has
    /// passed. Steps that follow within 20 ms are waited for.
    ///
    /// # Errors
    ///
    /// There is no such run, or the store fails.
    pub async fn news(
        &self,
        id: RunId,
        after: Version,
        patience: Duration,
    ) -> Result<Standing, Error> {
        self.until(id, Some(after), patience, Status::is_final)
            .await
    }

    /// The state of a run, once it has ended or `patience` has passed.
    ///
    /// # Errors
    ///
    /// There is no such run, or the store fails.
    pub async fn result(&self, id: RunId, patience: Duration) -> Result<Standing, Error> {
        let waiter = self.inner.runtime().and_then(|runtime| {
            let waiters = &runtime.shared.listeners.waiters;
            waiters.add_if_here(id)
        });
        self.result_by(id, waiter, |_| true, patience).await
    }

    /// As [`Self::result`], of a run that was started with [`Expects::End`](super::Expects::End).
    ///
    /// # Errors
    ///
    /// As for [`Self::result`].
    pub async fn result_of(
        &self,
        run: Delivered,
        expected: Expected,
        patience: Duration,
    ) -> Result<Standing, Error> {
        // A run that had the id before may end late.
        let is_of = |end: &End| Some(end.no) == run.no;
        self.result_by(run.id, expected.end, is_of, patience).await
    }

    async fn result_by(
        &self,
        id: RunId,
        waiter: Option<Waiter>,
        is_of: impl Fn(&End) -> bool + Send,
        patience: Duration,
    ) -> Result<Standing, Error> {
        let clock = &self.inner.clock;
        let end = clock.monotonic().saturating_add(patience);
        if let Some(waiter) = waiter
            && let Ok(Ok(Ended::Finally(end))) = tokio::time::timeout(patience, waiter).await
            && is_of(&end)
        {
            return Ok(Standing {
                id,
                status: end.result.status,
                version: end.version,
                result: Some(end.result),
                done: true,
            });
        }
        let left = end.saturating_sub(clock.monotonic());
        self.until(id, None, left, Status::is_final).await
    }

    /// Waits until `holds` is true of the status of a run, or `patience` has passed. The end of a run
    /// ends the wait, too, and so does another version than `after`.
    ///
    /// A run in this process tells its end with its result. Any other change, in any process, is
    /// reported by the lookout; then the run is read again.
    pub(super) async fn until(
        &self,
        id: RunId,
        after: Option<Version>,
        patience: Duration,
        holds: impl Fn(Status) -> bool + Send,
    ) -> Result<Standing, Error> {
        let clock = &self.inner.clock;
        let end = clock.monotonic().saturating_add(patience);
        let mut watch: Option<(RunNo, RunWatch)> = None;
        let standing = |(status, version), result| Standing {
            id,
            status,
            version,
            result,
            done: holds(status),
        };
        loop {
            // Registered before the run is read: no end is missed.
            let waiter = self.inner.runtime().map(|runtime| {
                let waiters = &runtime.shared.listeners.waiters;
                waiters.add(id)
            });
            let (row, result) = self.ask(move |inner| inner.look(id)).await?;
            let now = standing((row.status, row.version), result);
            let left = end.saturating_sub(clock.monotonic());
            let is_new = after.is_some_and(|after| after != row.version);
            if now.done || is_new || row.status.is_final() || left.is_zero() {
                return Ok(now);
            }
            let watch = match &mut watch {
                Some((no, watch)) if *no == row.no => watch,
                // The first read has given the number. The next one sees what came in between.
                other => {
                    *other = Some((row.no, self.watch(row.no).await?));
                    continue;
                }
            };
            watch.saw(&row);
            let ended = async {
                match waiter {
                    Some(waiter) => waiter.await.ok(),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                ended = ended => {
                    if let Some(Ended::Finally(end)) = ended
                        && end.is_after(row.no, row.version)
                        && holds(end.result.status)
                    {
                        let now = (end.result.status, end.version);
                        return Ok(standing(now, Some(end.result)));
                    }
                }
                () = watch.changed() => {
                    if after.is_some() {
                        rest(GATHER.min(left)).await;
                    }
                }
                () = rest(left) => {}
            }
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

async fn rest(time: Duration) {
    let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
}
