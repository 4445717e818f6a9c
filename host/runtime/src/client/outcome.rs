//! Looking at runs, and waiting for them.

use std::time::Duration;

use windlass_model::{InstanceId, InstanceNo, Status};
use windlass_store::rows::InstanceRow;

use super::workflow::{ClientInner, WorkflowClient};
use crate::error::Error;
use crate::runtime::result_of;
use crate::wait::{RunResult, Waiter};

/// How long after the first look at a run the second one is, without any word of it.
const SOON: Duration = Duration::from_millis(5);

/// The longest time between two looks.
const LATER: Duration = Duration::from_millis(100);

/// How a run stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Which.
    pub id: InstanceId,
    /// Where it is in its life.
    pub status: Status,
    /// How it ended, if it has.
    pub result: Option<RunResult>,
    /// Whether what was asked for or waited for has happened.
    pub done: bool,
}

impl WorkflowClient {
    /// Whether there is such a run; a deleted one is not.
    ///
    /// # Errors
    ///
    /// The store is in trouble.
    pub async fn exists(&self, id: InstanceId) -> Result<bool, Error> {
        let row = self.ask(move |inner| Ok(inner.store.instance(id)?)).await?;
        Ok(row.is_some())
    }

    /// How a run stands, once it has ended or so much time has passed.
    ///
    /// # Errors
    ///
    /// There is no such run, or the store is in trouble.
    pub async fn result(&self, id: InstanceId, patience: Duration) -> Result<Standing, Error> {
        self.until(id, patience, |row| row.status.is_final()).await
    }

    /// Waits until something holds of a run, or so much time has passed.
    pub(super) async fn until(
        &self,
        id: InstanceId,
        patience: Duration,
        holds: impl Fn(&InstanceRow) -> bool + Send,
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
    fn look(&self, id: InstanceId) -> Result<(InstanceRow, Option<RunResult>), Error> {
        let store = self.store.as_ref();
        let row = store
            .instance(id)?
            .ok_or_else(|| Error::NotFound(id.to_string()))?;
        let result = result_of(store, row.clone())?;
        Ok((row, result))
    }

    /// Hears of the end of a run, if this process runs it.
    fn waiter(&self, no: InstanceNo) -> Option<Waiter> {
        self.runtime()
            .map(|runtime| runtime.shared.listeners.waiters.add(no))
    }
}
