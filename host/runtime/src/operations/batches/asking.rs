//! The operations on batches: preview, add, list and stop.

use windlass_model::BatchNo;
use windlass_store::batches::{AddBatch, BatchQuery, MoveBatch, WORKING};
use windlass_store::read::RunQuery;
use windlass_store::rows::RunRow;

use super::{Batch, Progress, Standing, What};
use crate::codes;
use crate::error::Error;
use crate::operations::definitions::{TRIES, busy};
use crate::operations::reach::{Operations, OperationsInner};

/// The most runs that a preview counts.
const COUNTED: u32 = 10_000;

/// The examples of a preview.
const EXAMPLES: u32 = 10;

/// The runs that a batch would concern now.
#[derive(Clone, Debug)]
pub struct Preview {
    /// How many match, of the newest 10,000 that were looked at.
    pub count: u64,
    /// Whether there are no more.
    pub exact: bool,
    /// The newest ones, at most ten.
    pub examples: Vec<RunRow>,
}

impl Operations {
    /// The runs that a batch would concern.
    ///
    /// # Errors
    ///
    /// The parent does not exist, or the store fails.
    pub async fn preview_batch(&self, what: What) -> Result<Preview, Error> {
        self.ask(move |inner| inner.preview_batch(&what)).await
    }

    /// Adds a batch. A host that serves the store carries it out.
    ///
    /// # Errors
    ///
    /// The parent does not exist, too many batches go on, or the store fails.
    pub async fn add_batch(&self, what: What) -> Result<Batch, Error> {
        self.ask(move |inner| inner.add_batch(&what)).await
    }

    /// A batch.
    ///
    /// # Errors
    ///
    /// There is none with this number, or the store fails.
    pub async fn batch(&self, no: BatchNo) -> Result<Batch, Error> {
        self.ask(move |inner| inner.batch(no)).await
    }

    /// Batches with numbers below one, the newest first; at most `limit`.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub async fn batches(&self, before: Option<BatchNo>, limit: u32) -> Result<Vec<Batch>, Error> {
        self.ask(move |inner| {
            let query = BatchQuery {
                working: false,
                before,
                limit,
            };
            let rows = inner.store.batches(&query)?;
            rows.iter().map(Batch::try_from).collect()
        })
        .await
    }

    /// Asks a batch to stop: it ends with the page of runs that it works on. A batch that has ended
    /// stays as it is.
    ///
    /// # Errors
    ///
    /// There is none with this number, or the store fails.
    pub async fn stop_batch(&self, no: BatchNo) -> Result<Batch, Error> {
        self.ask(move |inner| inner.stop_batch(no)).await
    }
}

impl OperationsInner {
    fn preview_batch(&self, what: &What) -> Result<Preview, Error> {
        let store = self.store.as_ref();
        let query = what.query(store, self.clock.wall_ms())?;
        let down_to = store.horizon(&query, COUNTED)?;
        let limited = |limit| RunQuery {
            down_to,
            limit,
            ..query.clone()
        };
        Ok(Preview {
            count: store.run_count(&limited(COUNTED))?,
            exact: down_to.is_none(),
            examples: store.runs(&limited(EXAMPLES))?,
        })
    }

    fn add_batch(&self, what: &What) -> Result<Batch, Error> {
        let at_ms = self.clock.wall_ms();
        // A parent that does not exist is refused at once.
        what.query(self.store.as_ref(), at_ms)?;
        let added = self.tell(AddBatch {
            what: what.encode()?,
            progress: Progress::new().encode()?,
            at_ms,
        })?;
        let no = added.map_err(|_| Error::NotNow {
            code: codes::TOO_MANY_BATCHES,
            message: format!("{WORKING} batches go on, and no more are taken"),
            help: Some("wait until one has ended, or stop one".to_owned()),
        })?;
        if let Some(runtime) = self.runtime() {
            runtime.batches_changed();
        }
        self.batch(no)
    }

    fn batch(&self, no: BatchNo) -> Result<Batch, Error> {
        let row = self.store.batch(no)?;
        Batch::try_from(&row.ok_or_else(|| missing(no))?)
    }

    pub(super) fn stop_batch(&self, no: BatchNo) -> Result<Batch, Error> {
        for _ in 0..TRIES {
            let row = self.store.batch(no)?.ok_or_else(|| missing(no))?;
            let mut batch = Batch::try_from(&row)?;
            if batch.progress.standing != Standing::Working {
                return Ok(batch);
            }
            batch.progress.standing = Standing::Stopping;
            let asked = self.tell(MoveBatch {
                no,
                revision: row.revision,
                progress: batch.progress.encode()?,
                ends: false,
                at_ms: self.clock.wall_ms(),
            })?;
            if asked.is_ok() {
                if let Some(runtime) = self.runtime() {
                    runtime.batches_changed();
                }
                return Ok(batch);
            }
        }
        Err(busy(&format!("batch {no}")))
    }
}

fn missing(no: BatchNo) -> Error {
    Error::NotNow {
        code: codes::NO_BATCH,
        message: format!("there is no batch {no}"),
        help: Some("the last hundred are kept".to_owned()),
    }
}
