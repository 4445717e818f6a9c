//! How runs begin.

use windlass_model::InstanceId;
use windlass_store::Writer as _;
use windlass_store::lives::{LifeOp, Lived};

use super::workflow::{ClientInner, WorkflowClient};
use crate::codes;
use crate::error::Error;
use crate::request::{StartRequest, Started};

/// What became of asking a run to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is due now.
    Now,
    /// It had begun before, and goes on.
    Before,
}

/// When a run that is written down begins.
#[derive(Clone, Copy, Debug)]
enum Due {
    Now,
    /// In epoch milliseconds.
    At(i64),
    WhenTold,
}

impl WorkflowClient {
    /// Writes a run down that begins when [`Self::run`] says so. The same id again with the
    /// same request is the run that is there.
    ///
    /// # Errors
    ///
    /// The definition or the input is wrong, the id is taken by another request or was
    /// deleted, a run that excludes this one has not ended, or the store is in trouble.
    pub async fn create(&self, request: StartRequest) -> Result<Started, Error> {
        self.ask(move |inner| inner.create(&request, Due::WhenTold))
            .await
    }

    /// Writes a run down that begins at a moment, in epoch milliseconds, or when [`Self::run`]
    /// says so before that. Its time-outs count from then on. The same id again with the same
    /// request is the run that is there, whenever that begins.
    ///
    /// # Errors
    ///
    /// As for [`Self::create`].
    pub async fn create_for(&self, request: StartRequest, at_ms: i64) -> Result<Started, Error> {
        self.ask(move |inner| inner.create(&request, Due::At(at_ms)))
            .await
    }

    /// Lets a run begin that was created. One that has begun goes on, and is not begun twice.
    ///
    /// # Errors
    ///
    /// There is no such run, it has ended, or the store is in trouble.
    pub async fn run(&self, id: InstanceId) -> Result<Begun, Error> {
        self.ask(move |inner| inner.begin(id)).await
    }

    /// Writes a run down with what starts it, before anything of it runs. The same id again
    /// with the same request is the run that is there, and begins if it was only created.
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
                    // Here, because compiling takes a turn.
                    let definition = request.definition.clone();
                    let compile = |inner: &ClientInner| {
                        let plugins = inner.resources().plugins()?;
                        inner.catalog().prepare(definition, &plugins).map(drop)
                    };
                    self.ask(compile).await?;
                }
                runtime.run(&request).await?
            }
            None => {
                let due = Due::Now;
                self.ask(move |inner| inner.create(&request, due)).await?
            }
        };
        let waits = |row: &windlass_store::rows::InstanceRow| !row.status.is_final();
        if started.existing.as_deref().is_some_and(waits) {
            let id = started.id;
            self.ask(move |inner| inner.begin_if_open(id)).await?;
        }
        Ok(started)
    }
}

impl ClientInner {
    fn create(&self, request: &StartRequest, due: Due) -> Result<Started, Error> {
        let prepared = self
            .catalog()
            .prepare(request.definition.clone(), &*self.resources().plugins()?)?;
        request.check(&prepared)?;
        self.numbered(|numbers| {
            let now_ms = self.clock.wall_ms();
            let begin_ms = match due {
                Due::Now | Due::WhenTold => now_ms,
                Due::At(at_ms) => at_ms,
            };
            let (mut new, _) = request.instance(&prepared, numbers, None, begin_ms)?;
            new.created_ms = now_ms;
            if matches!(due, Due::WhenTold) {
                for trigger in &mut new.triggers {
                    trigger.due_ms = i64::MAX;
                }
            }
            let (id, no) = (new.id, new.no);
            let started = request.answered(self.store.write(new)?, (id, no))?;
            if let (None, Some(runtime)) = (&started.existing, self.runtime()) {
                runtime.shared.intake.claim_too(no);
            }
            Ok(started)
        })
    }

    fn begin(&self, id: InstanceId) -> Result<Begun, Error> {
        match self.tell(LifeOp::Begin {
            instance: id,
            at_ms: self.clock.wall_ms(),
        })? {
            Lived::Done => Ok(Begun::Now),
            Lived::NotFound => Err(Error::NotFound(id.to_string())),
            Lived::Ended => Err(ended(id)),
            _ => Ok(Begun::Before),
        }
    }

    /// Begins a run that was there when somebody wanted it to run; it may be over by now.
    fn begin_if_open(&self, id: InstanceId) -> Result<(), Error> {
        match self.begin(id) {
            Ok(_) | Err(Error::NotNow { .. } | Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The run has ended.
pub(super) fn ended(id: InstanceId) -> Error {
    Error::NotNow {
        code: codes::ENDED,
        message: format!("run {id} has ended"),
        help: None,
    }
}
