//! Creates and starts runs.

use std::sync::Arc;

use windlass_model::{Digest, RunId};
use windlass_store::lives::{LifeOp, Lived};
use windlass_store::published::Edition;

use super::delivering::{Expected, Expects};
use super::reach::{Operations, OperationsInner};
use crate::catalog::Prepared;
use crate::codes;
use crate::error::Error;
use crate::starting::{
    Accepted, Begin, Cause, Start, StartRequest, Started, Workflow, published_for,
};

/// The largest input, in bytes, that is checked on the thread of its request. Larger ones take their
/// time on a thread that may block.
pub(super) const HERE_BYTES: u64 = 16 * 1024;

/// The result of starting a created run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is due now.
    Now,
    /// It had begun before, and continues.
    Before,
}

impl Operations {
    /// Creates a run that begins when [`Self::begin`] is called. The same id with the same request
    /// returns the existing run.
    ///
    /// # Errors
    ///
    /// The definition or the input is wrong, the id belongs to another request or to a deleted run,
    /// a run that excludes this one has not ended, or the store fails.
    pub async fn create(&self, request: StartRequest) -> Result<Started, Error> {
        self.start(request, Begin::WhenTold).await
    }

    /// Creates a run that begins at `at_ms`, in epoch milliseconds, or when [`Self::begin`] is called
    /// before. Its time-outs count from then on. The same id with the same request returns the
    /// existing run, whenever that run begins.
    ///
    /// # Errors
    ///
    /// As for [`Self::create`].
    pub async fn create_for(&self, request: StartRequest, at_ms: i64) -> Result<Started, Error> {
        self.start(request, Begin::At(at_ms)).await
    }

    /// Begins a created run. A run that has begun continues, and does not begin twice.
    ///
    /// # Errors
    ///
    /// There is no such run, it has ended, or the store fails.
    pub async fn begin(&self, id: RunId) -> Result<Begun, Error> {
        self.ask(move |inner| inner.begin(id)).await
    }

    /// Creates a run and starts it. The run is durable before any of its nodes runs. The same id
    /// with the same request returns the existing run, and starts it if it was only created.
    ///
    /// # Errors
    ///
    /// As for [`Self::create`]; or the process is draining or paused.
    pub async fn create_and_run(&self, request: StartRequest) -> Result<Started, Error> {
        self.accepts()?;
        let started = self.start(request, Begin::Now).await?;
        let waits = |row: &windlass_store::rows::RunRow| !row.status.is_final();
        if started.existing.as_deref().is_some_and(waits) {
            let id = started.id;
            self.ask(move |inner| inner.begin_if_open(id)).await?;
        }
        Ok(started)
    }

    /// Refuses runs that begin now while the process is draining or paused.
    pub(super) fn accepts(&self) -> Result<(), Error> {
        let Some(runtime) = self.inner.runtime() else {
            return Ok(());
        };
        let intake = &runtime.shared.intake;
        if intake.is_draining() {
            return Err(Error::Draining);
        }
        if intake.pause.is_on() {
            return Err(Error::Paused);
        }
        Ok(())
    }

    async fn start(&self, request: StartRequest, begin: Begin) -> Result<Started, Error> {
        if let Some((prepared, as_of)) = self.inner.warm(&request) {
            // Another version may take an input that this one refuses.
            if let Ok(mut start) = called(prepared, &request, begin) {
                start.as_of = as_of;
                if let Some((started, _)) = self.carry_out(start, Expects::Nothing).await? {
                    return Ok(started);
                }
            }
        }
        let looked_up = self.ask(move |inner| called(inner.prepared(&request)?, &request, begin));
        let started = self.carry_out(looked_up.await?, Expects::Nothing).await?;
        started.map(|(started, _)| started).ok_or_else(moved)
    }

    /// Creates the run of a start, with the wait for what its client expects. None: its definition has
    /// to be looked up again, which happens only if the start names an edition.
    pub(super) async fn carry_out(
        &self,
        start: Accepted,
        expects: Expects<'_>,
    ) -> Result<Option<(Started, Expected)>, Error> {
        match self.inner.runtime() {
            Some(runtime) if runtime.shared.owns(&start) => {
                let numbers = runtime.membership.numbers();
                let shared = &runtime.shared;
                let (expected, awaited) = shared.expected(&start, expects);
                let started = shared.start_here(&start, numbers, awaited).await?;
                Ok(started.map(|started| (started, expected)))
            }
            // Another process may carry it out: only the store knows more about it.
            _ => {
                let started = self.ask(move |inner| inner.leave(&start)).await?;
                Ok(started.map(|started| (started, Expected::default())))
            }
        }
    }
}

/// The start of a call.
fn called(
    prepared: Arc<Prepared>,
    request: &StartRequest,
    begin: Begin,
) -> Result<Accepted, Error> {
    let start = Start {
        prepared,
        input: request.input.clone(),
        cause: Cause::Call {
            id: request.id,
            correlation: request.correlation.clone(),
            trace: request.trace.clone(),
            begin,
        },
    };
    start.accepted()
}

impl OperationsInner {
    /// The definition of a request, if it is prepared and nothing has to be read to know that. With
    /// the edition in which it is the published one, which the transaction of the run checks.
    fn warm(&self, request: &StartRequest) -> Option<(Arc<Prepared>, Option<Edition>)> {
        if request.input.len() > HERE_BYTES {
            return None;
        }
        let (digest, edition) = match &request.workflow {
            Workflow::Given(row) => (row.digest, None),
            Workflow::Published(name) => {
                let (digest, edition) = self.published.get(self.store.as_ref(), name.as_str())?;
                (digest, Some(edition))
            }
        };
        Some((self.current(digest)?, edition))
    }

    /// The definition with this digest, if it is prepared for runs that start now.
    pub(super) fn current(&self, digest: Digest) -> Option<Arc<Prepared>> {
        let base = &self.runtime()?.shared.base;
        base.catalog.current(digest, &base.plugins)
    }

    fn prepared(&self, request: &StartRequest) -> Result<Arc<Prepared>, Error> {
        match &request.workflow {
            Workflow::Published(name) => {
                let store = self.store.as_ref();
                let edition = store.edition();
                let digest = published_for(store, name, request.id)?;
                // With an id it may be the definition of an earlier run.
                if request.id.is_none() {
                    self.published.keep(edition, name.clone(), digest);
                }
                self.stored(digest)
            }
            Workflow::Given(row) => {
                let plugins = self.resources().plugins()?;
                let store = self.store.as_ref();
                self.catalog().given(row.clone(), store, &plugins)
            }
        }
    }

    /// The definition with this digest, which the store has, for runs that start now.
    pub(super) fn stored(&self, digest: Digest) -> Result<Arc<Prepared>, Error> {
        let plugins = self.resources().plugins()?;
        self.catalog().stored(digest, self.store.as_ref(), &plugins)
    }

    /// Creates a run that no process owns. None: as for [`Operations::carry_out`].
    fn leave(&self, start: &Accepted) -> Result<Option<Started>, Error> {
        self.numbered(|numbers| {
            let started = start.leave(self.store.as_ref(), numbers, self.clock.wall_ms())?;
            if let (Some(started), Some(runtime)) = (&started, self.runtime())
                && started.existing.is_none()
            {
                runtime.shared.intake.claim_too(started.no);
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

/// The error of a start that names no edition and is answered as if it did: a fault of the store.
pub(super) fn moved() -> Error {
    Error::Unreadable(
        "the store refuses a start for its edition, and the start has none".to_owned(),
    )
}

/// The error for a run that has ended.
pub(super) fn ended(id: RunId) -> Error {
    Error::NotNow {
        code: codes::ENDED,
        message: format!("run {id} has ended"),
        help: None,
    }
}
