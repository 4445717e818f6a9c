//! Creates and starts runs.

use std::sync::Arc;

use windlass_model::RunId;
use windlass_store::Writer as _;
use windlass_store::lives::{LifeOp, Lived};
use windlass_store::rows::DefinitionRow;

use super::workflow::{ClientInner, WorkflowClient};
use crate::catalog::Prepared;
use crate::codes;
use crate::error::Error;
use crate::request::{StartRequest, Started};

/// The result of starting a created run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is due now.
    Now,
    /// It had begun before, and continues.
    Before,
}

/// When a created run begins.
#[derive(Clone, Copy, Debug)]
enum Due {
    Now,
    /// At this instant, in epoch milliseconds.
    At(i64),
    WhenTold,
}

impl WorkflowClient {
    /// Creates a run that begins when [`Self::run`] is called. The same id with the same request
    /// returns the existing run.
    ///
    /// # Errors
    ///
    /// The definition or the input is wrong, the id belongs to another request or to a deleted run,
    /// a run that excludes this one has not ended, or the store fails.
    pub async fn create(&self, request: StartRequest) -> Result<Started, Error> {
        self.ask(move |inner| inner.create(&request, Due::WhenTold))
            .await
    }

    /// Creates a run that begins at `at_ms`, in epoch milliseconds, or when [`Self::run`] is called
    /// before. Its time-outs count from then on. The same id with the same request returns the
    /// existing run, whenever that run begins.
    ///
    /// # Errors
    ///
    /// As for [`Self::create`].
    pub async fn create_for(&self, request: StartRequest, at_ms: i64) -> Result<Started, Error> {
        self.ask(move |inner| inner.create(&request, Due::At(at_ms)))
            .await
    }

    /// Starts a created run. A run that has begun continues, and does not begin twice.
    ///
    /// # Errors
    ///
    /// There is no such run, it has ended, or the store fails.
    pub async fn run(&self, id: RunId) -> Result<Begun, Error> {
        self.ask(move |inner| inner.begin(id)).await
    }

    /// Creates a run and starts it. The run is durable before any of its nodes runs. The same id
    /// with the same request returns the existing run, and starts it if it was only created.
    ///
    /// # Errors
    ///
    /// As for [`Self::create`]; or the process is draining.
    pub async fn create_and_run(&self, request: StartRequest) -> Result<Started, Error> {
        let started = match self.inner.runtime() {
            Some(runtime) => {
                let (catalog, plugins) =
                    (&runtime.shared.base.catalog, &runtime.shared.base.plugins);
                if catalog
                    .current(request.definition.digest, plugins)
                    .is_none()
                {
                    // Compiled here, because compiling takes a turn.
                    let definition = request.definition.clone();
                    self.ask(|inner| inner.prepared(definition).map(drop))
                        .await?;
                }
                runtime.run(&request).await?
            }
            None => {
                let due = Due::Now;
                self.ask(move |inner| inner.create(&request, due)).await?
            }
        };
        let waits = |row: &windlass_store::rows::RunRow| !row.status.is_final();
        if started.existing.as_deref().is_some_and(waits) {
            let id = started.id;
            self.ask(move |inner| inner.begin_if_open(id)).await?;
        }
        Ok(started)
    }
}

impl ClientInner {
    fn prepared(&self, definition: DefinitionRow) -> Result<Arc<Prepared>, Error> {
        let plugins = self.resources().plugins()?;
        let store = self.store.as_ref();
        self.catalog().prepare_new(definition, store, &plugins)
    }

    fn create(&self, request: &StartRequest, due: Due) -> Result<Started, Error> {
        let prepared = self.prepared(request.definition.clone())?;
        let accepted = request.accepted(&prepared)?;
        self.numbered(|numbers| {
            let now_ms = self.clock.wall_ms();
            let begin_ms = match due {
                Due::Now | Due::WhenTold => now_ms,
                Due::At(at_ms) => at_ms,
            };
            let (mut new, _) = accepted.new_run(&prepared, numbers, None, begin_ms)?;
            new.created_ms = now_ms;
            if matches!(due, Due::WhenTold) {
                for trigger in &mut new.triggers {
                    trigger.due_ms = i64::MAX;
                }
            }
            let (id, no) = (new.id, new.no);
            let started = accepted.answered(self.store.write(new)?, (id, no))?;
            if let (None, Some(runtime)) = (&started.existing, self.runtime()) {
                runtime.shared.intake.claim_too(no);
            }
            Ok(started)
        })
    }

    fn begin(&self, id: RunId) -> Result<Begun, Error> {
        match self.tell(LifeOp::Begin {
            run: id,
            at_ms: self.clock.wall_ms(),
        })? {
            Lived::Done => Ok(Begun::Now),
            Lived::NotFound => Err(Error::NotFound(id.to_string())),
            Lived::Ended => Err(ended(id)),
            _ => Ok(Begun::Before),
        }
    }

    /// Starts an existing run; it may have ended meanwhile.
    fn begin_if_open(&self, id: RunId) -> Result<(), Error> {
        match self.begin(id) {
            Ok(_) | Err(Error::NotNow { .. } | Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The error for a run that has ended.
pub(super) fn ended(id: RunId) -> Error {
    Error::NotNow {
        code: codes::ENDED,
        message: format!("run {id} has ended"),
        help: None,
    }
}
