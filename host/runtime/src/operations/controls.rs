//! Operations that change the course of a run. Each writes a trigger that the owner of the run
//! carries out.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use windlass_keys::link::Target;
use windlass_model::{
    BookmarkNo, Payload, RunId, RunNo, Status, Stimulus, StimulusId, TriggerType,
};
use windlass_store::Writer as _;
use windlass_store::external::{Control, Touched};
use windlass_store::lives::{Clear, LifeOp, Lived};
use windlass_store::stimuli::{BookmarkRow, Resume, SendOutcome, Sent};
use windlass_store::write::Fenced;

use super::outcome::Standing;
use super::question;
use super::reach::{Operations, OperationsInner};
use super::sending::{bookmark_of, prepared, send, send_here, written};
use super::starting::ended;
use crate::error::Error;
use crate::runtime::Runtime;

/// The later effects of a stimulus. None: a workflow was published in between, and nothing was written.
type Outcome = oneshot::Receiver<Result<Option<Sent>, Error>>;

/// The number of rows of a deleted run that one transaction removes.
const SLICE: u32 = 1_000;

impl Operations {
    /// Cancels a run: executions are interrupted, waits are dropped, and completed nodes are undone
    /// where possible. If the run ends by itself meanwhile, the answer is its own result.
    ///
    /// # Errors
    ///
    /// There is no such run, it had ended, or the store fails.
    pub async fn cancel(&self, id: RunId, patience: Duration) -> Result<Standing, Error> {
        self.control(id, TriggerType::Cancel).await?;
        self.until(id, None, patience, Status::is_final).await
    }

    /// Pauses a run: no further execution begins. Executions in progress end and their results are
    /// kept, as are stimuli and triggers that arrive meanwhile.
    ///
    /// # Errors
    ///
    /// There is no such run, it has ended, or the store fails.
    pub async fn pause(&self, id: RunId, patience: Duration) -> Result<Standing, Error> {
        self.control(id, TriggerType::Pause).await?;
        self.until(id, None, patience, |status| status == Status::Paused)
            .await
    }

    /// Continues a paused run, with the stimuli and triggers that arrived meanwhile.
    ///
    /// # Errors
    ///
    /// There is no such run, it has ended, or the store fails.
    pub async fn unpause(&self, id: RunId, patience: Duration) -> Result<Standing, Error> {
        self.control(id, TriggerType::Unpause).await?;
        self.until(id, None, patience, |status| status != Status::Paused)
            .await
    }

    /// Deletes a run for good. A run that has not ended is cancelled first. Returns whether the run
    /// is deleted; otherwise it is deleted once it has ended.
    ///
    /// # Errors
    ///
    /// There is no such run, or the store fails.
    pub async fn delete(&self, id: RunId, patience: Duration) -> Result<bool, Error> {
        let Some(no) = self.ask(move |inner| inner.delete(id)).await? else {
            return Ok(true);
        };
        match self.until(id, None, patience, |_| false).await {
            Ok(_) => Ok(false),
            Err(Error::NotFound(_)) => {
                self.ask(move |inner| inner.clear(no)).await?;
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// The bookmark of a token, if it exists.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub async fn bookmark_of(&self, target: Target) -> Result<Option<BookmarkRow>, Error> {
        self.ask(move |inner| bookmark_of(inner.store.as_ref(), &target))
            .await
    }

    /// Resumes the bookmark of a token.
    ///
    /// # Errors
    ///
    /// The answer does not fit, and the run keeps waiting; or the store fails.
    pub async fn resume(&self, target: Target, input: Payload) -> Result<Sent, Error> {
        self.ask(move |inner| {
            let row = bookmark_of(inner.store.as_ref(), &target)?;
            inner.resume(row, input)
        })
        .await
    }

    /// Resumes a run that waits at a bookmark, on the authority of an operator of the store.
    ///
    /// # Errors
    ///
    /// As [`Self::resume`].
    pub async fn resume_bookmark(&self, no: BookmarkNo, input: Payload) -> Result<Sent, Error> {
        self.ask(move |inner| inner.resume(inner.store.bookmark(no)?, input))
            .await
    }

    /// Sends a stimulus: starts the workflows that are bound to it and resumes the runs that wait
    /// for it, in one transaction.
    ///
    /// # Errors
    ///
    /// The stimulus is out of bounds, its input does not fit a workflow that it starts, such a
    /// workflow cannot be prepared on the current plugins, or the store fails. Nothing has changed
    /// then.
    pub async fn send(&self, id: StimulusId, stimulus: Stimulus) -> Result<Sent, Error> {
        let Some(runtime) = self.inner.runtime() else {
            return self.ask(move |inner| inner.send(id, &stimulus)).await;
        };
        // The thread is free while the store writes.
        let (asked, of) = (stimulus.clone(), Arc::clone(runtime));
        let submitted = self.ask(move |inner| inner.submit(&of, id, &asked));
        match submitted.await?.await.map_err(|_| Error::Draining)?? {
            Some(sent) => Ok(sent),
            // A workflow was published in between.
            None => self.ask(move |inner| inner.send(id, &stimulus)).await,
        }
    }

    async fn control(&self, id: RunId, kind: TriggerType) -> Result<(), Error> {
        self.ask(move |inner| inner.control(id, kind)).await
    }
}

impl OperationsInner {
    /// Resumes a bookmark, if it exists and the answer fits.
    fn resume(&self, row: Option<BookmarkRow>, input: Payload) -> Result<Sent, Error> {
        let Some(row) = row else {
            return Ok(Sent {
                dropped: true,
                ..Sent::default()
            });
        };
        question::check(&row, &input)?;
        let resume = |claim_for| Resume {
            token: row.bookmark.token,
            input,
            blobs: Vec::new(),
            claim_for,
            at_ms: self.clock.wall_ms(),
        };
        let Some(runtime) = self.runtime() else {
            return self.tell(resume(None));
        };
        let numbers = runtime.membership.numbers();
        let resume = |claim_for| Ok(self.store.write(resume(claim_for))?);
        runtime.shared.delivered(&numbers, resume)
    }

    /// Prepares a stimulus and hands it to the store, which answers later.
    fn submit(
        &self,
        runtime: &Runtime,
        id: StimulusId,
        stimulus: &Stimulus,
    ) -> Result<Outcome, Error> {
        let store = self.store.as_ref();
        question::check_stimulus(store, stimulus)?;
        let now_ms = self.clock.wall_ms();
        let stimulus = written(id, stimulus, now_ms)?;
        let shared = Arc::clone(&runtime.shared);
        let numbers = runtime.membership.numbers();
        let claim_for = shared.claim_for(&numbers);
        let prepare = |definition| shared.base.stored(definition);
        let send = prepared(
            store,
            &prepare,
            &numbers,
            (&stimulus, None),
            claim_for,
            now_ms,
        )?;
        let (told, outcome) = oneshot::channel();
        // The claimed runs are passed on even if the caller is gone.
        store.write_then(send, move |answer| {
            let sent = match answer {
                Ok(SendOutcome::Sent(sent)) => Ok(sent),
                Ok(SendOutcome::Moved | SendOutcome::Gone) => return drop(told.send(Ok(None))),
                Err(error) => Err(error.into()),
            };
            let sent = shared.after_delivery(claim_for, sent);
            drop(told.send(sent.map(Some)));
        });
        Ok(outcome)
    }

    pub(crate) fn send(&self, id: StimulusId, stimulus: &Stimulus) -> Result<Sent, Error> {
        let store = self.store.as_ref();
        question::check_stimulus(store, stimulus)?;
        if let Some(runtime) = self.runtime() {
            let numbers = runtime.membership.numbers();
            return send_here(&runtime.shared, store, &numbers, id, stimulus);
        }
        let now_ms = self.clock.wall_ms();
        let stimulus = written(id, stimulus, now_ms)?;
        self.numbered(|numbers| {
            let prepare = |definition| self.stored(definition);
            let sent = send(store, &prepare, numbers, (&stimulus, None), None, now_ms)?;
            Ok(sent.ok_or(Fenced)?)
        })
    }

    pub(super) fn control(&self, run: RunId, kind: TriggerType) -> Result<(), Error> {
        let touched = self.numbered(|numbers| {
            let no = numbers.trigger().ok_or_else(Error::no_numbers)?;
            let at_ms = self.clock.wall_ms();
            Ok(self.store.write(Control {
                run,
                no,
                kind,
                at_ms,
            })?)
        })?;
        match touched {
            Touched::NotFound => Err(Error::NotFound(run.to_string())),
            Touched::Closed => match self.store.run(run)? {
                Some(_) => Err(ended(run)),
                None => Err(Error::NotFound(run.to_string())),
            },
            _ => Ok(()),
        }
    }

    /// Deletes a run, or requests its deletion. In that case the run still exists, and its number
    /// is returned.
    pub(super) fn delete(&self, run: RunId) -> Result<Option<RunNo>, Error> {
        let row = self.store.run(run)?;
        let lived = self.numbered(|numbers| {
            let no = numbers.trigger().ok_or_else(Error::no_numbers)?;
            let at_ms = self.clock.wall_ms();
            let op = LifeOp::Delete { run, no, at_ms };
            self.tell(op)
        })?;
        match lived {
            Lived::Gone(no) => {
                self.clear(no)?;
                Ok(None)
            }
            Lived::Done => Ok(row.map(|row| row.no)),
            _ => Err(Error::NotFound(run.to_string())),
        }
    }

    /// Removes the rows behind a tombstone. If that stops half-way, retention removes the rest.
    pub(super) fn clear(&self, run: RunNo) -> Result<(), Error> {
        let clear = Clear {
            run,
            rows: SLICE,
            at_ms: self.clock.wall_ms(),
        };
        while self.tell(clear)?.more {}
        Ok(())
    }
}
