//! What changes the course of a run: each is a trigger that whoever runs it comes to.

use std::time::Duration;

use windlass_keys::link::Target;
use windlass_model::{
    BookmarkNo, InstanceId, InstanceNo, Payload, Status, Stimulus, StimulusId, TriggerType,
};
use windlass_store::Writer as _;
use windlass_store::lives::{Clear, LifeOp, Lived};
use windlass_store::outside::{Control, Touched};
use windlass_store::stimuli::{BookmarkRow, Resume, Sent};
use windlass_store::write::Fenced;

use super::outcome::Standing;
use super::starting::ended;
use super::stimuli::{bookmark_of, send, send_here, written};
use super::workflow::{ClientInner, WorkflowClient};
use super::{question, used_up};
use crate::error::Error;

/// How many rows of a deleted run are cleared away at once.
const SLICE: u32 = 1_000;

impl WorkflowClient {
    /// Ends a run: what runs is interrupted, what waits is dropped, and what can be undone is.
    /// One that has ended by itself meanwhile is answered as it has.
    ///
    /// # Errors
    ///
    /// There is no such run, it had ended, or the store is in trouble.
    pub async fn cancel(&self, id: InstanceId, patience: Duration) -> Result<Standing, Error> {
        self.control(id, TriggerType::Cancel).await?;
        self.until(id, patience, |row| row.status.is_final()).await
    }

    /// Stops a run for a while: nothing of it begins. What is at it goes on to its end and is
    /// kept, and so is what comes meanwhile.
    ///
    /// # Errors
    ///
    /// There is no such run, it has ended, or the store is in trouble.
    pub async fn pause(&self, id: InstanceId, patience: Duration) -> Result<Standing, Error> {
        self.control(id, TriggerType::Pause).await?;
        self.until(id, patience, |row| row.status == Status::Paused)
            .await
    }

    /// Lets a paused run go on, with what has come meanwhile.
    ///
    /// # Errors
    ///
    /// There is no such run, it has ended, or the store is in trouble.
    pub async fn unpause(&self, id: InstanceId, patience: Duration) -> Result<Standing, Error> {
        self.control(id, TriggerType::Unpause).await?;
        self.until(id, patience, |row| row.status != Status::Paused)
            .await
    }

    /// Deletes a run for good. One that has not ended is cancelled first. Answers whether it is
    /// gone; if not, it is as soon as it has come to its end.
    ///
    /// # Errors
    ///
    /// There is no such run, or the store is in trouble.
    pub async fn delete(&self, id: InstanceId, patience: Duration) -> Result<bool, Error> {
        let Some(no) = self.ask(move |inner| inner.delete(id)).await? else {
            return Ok(true);
        };
        match self.until(id, patience, |_| false).await {
            Ok(_) => Ok(false),
            Err(Error::NotFound(_)) => {
                self.ask(move |inner| inner.clear(no)).await?;
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// The bookmark that a token is for, if it is there.
    ///
    /// # Errors
    ///
    /// The store is in trouble.
    pub async fn bookmark_of(&self, target: Target) -> Result<Option<BookmarkRow>, Error> {
        self.ask(move |inner| bookmark_of(inner.store.as_ref(), &target))
            .await
    }

    /// Resumes what a token is for.
    ///
    /// # Errors
    ///
    /// The answer does not fit, and the run goes on waiting; or the store is in trouble.
    pub async fn resume(&self, target: Target, input: Payload) -> Result<Sent, Error> {
        self.ask(move |inner| {
            let row = bookmark_of(inner.store.as_ref(), &target)?;
            inner.resume(row, input)
        })
        .await
    }

    /// Lets a run go on that waits at a bookmark, as whoever operates the store may.
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
    /// workflow cannot be prepared on the plugins that there are, or the store is in trouble. Then
    /// nothing has happened.
    pub async fn send(&self, id: StimulusId, stimulus: Stimulus) -> Result<Sent, Error> {
        self.ask(move |inner| inner.send(id, &stimulus)).await
    }

    async fn control(&self, id: InstanceId, kind: TriggerType) -> Result<(), Error> {
        self.ask(move |inner| inner.control(id, kind)).await
    }
}

impl ClientInner {
    /// Resumes a bookmark, if it is there, with an answer that fits.
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

    pub(crate) fn send(&self, id: StimulusId, stimulus: &Stimulus) -> Result<Sent, Error> {
        let store = self.store.as_ref();
        if let Some(runtime) = self.runtime() {
            let numbers = runtime.membership.numbers();
            return send_here(&runtime.shared, store, &numbers, id, stimulus);
        }
        let now_ms = self.clock.wall_ms();
        let stimulus = written(id, stimulus, now_ms)?;
        self.numbered(|numbers| {
            let prepare = |definition| {
                self.catalog()
                    .prepare(definition, &*self.resources().plugins()?)
            };
            let sent = send(store, &prepare, numbers, (&stimulus, None), None, now_ms)?;
            Ok(sent.ok_or(Fenced)?)
        })
    }

    fn control(&self, instance: InstanceId, kind: TriggerType) -> Result<(), Error> {
        let touched = self.numbered(|numbers| {
            let no = numbers.trigger().ok_or_else(used_up)?;
            let at_ms = self.clock.wall_ms();
            Ok(self.store.write(Control {
                instance,
                no,
                kind,
                at_ms,
            })?)
        })?;
        match touched {
            Touched::NotFound => Err(Error::NotFound(instance.to_string())),
            Touched::Closed => match self.store.instance(instance)? {
                Some(_) => Err(ended(instance)),
                None => Err(Error::NotFound(instance.to_string())),
            },
            _ => Ok(()),
        }
    }

    /// Deletes a run, or asks for it: then its number, since it is still there.
    fn delete(&self, instance: InstanceId) -> Result<Option<InstanceNo>, Error> {
        let row = self.store.instance(instance)?;
        let lived = self.numbered(|numbers| {
            let no = numbers.trigger().ok_or_else(used_up)?;
            let at_ms = self.clock.wall_ms();
            let op = LifeOp::Delete {
                instance,
                no,
                at_ms,
            };
            self.tell(op)
        })?;
        match lived {
            Lived::Gone(no) => {
                self.clear(no)?;
                Ok(None)
            }
            Lived::Done => Ok(row.map(|row| row.no)),
            _ => Err(Error::NotFound(instance.to_string())),
        }
    }

    /// Clears away what is left behind a tombstone. If that stops half-way, retention goes on.
    pub(super) fn clear(&self, instance: InstanceNo) -> Result<(), Error> {
        let clear = Clear {
            instance,
            rows: SLICE,
            at_ms: self.clock.wall_ms(),
        };
        while self.tell(clear)?.more {}
        Ok(())
    }
}
