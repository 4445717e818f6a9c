//! The worker that carries batches out, a page of runs at a time.

use std::sync::Weak;
use std::time::Duration;

use windlass_model::TriggerType;
use windlass_periodic::{Bell, Periodic, Rest};
use windlass_store::Writer as _;
use windlass_store::batches::{BatchQuery, BatchRow, MoveBatch};
use windlass_store::rows::RunRow;
use windlass_store::write::Duty;

use super::{Action, Batch, Progress, Standing, place};
use crate::error::Error;
use crate::operations::reach::{Operations, OperationsInner};
use crate::operations::retrying::Retry;
use crate::runtime::Runtime;

/// The most runs of a page.
pub(super) const PAGE: u32 = 50;

/// The most runs that the search for a page looks at.
const LOOKED_AT: u32 = 10_000;

/// A page ends with the run by which it has taken this long: another process may wait, or a person
/// who stops the batch.
const PAGE_TIME: Duration = Duration::from_secs(2);

/// The duty of the process that carries batches out.
const DUTY: &str = "batches";

/// For how long a process has the duty after its last page.
const DUTY_MS: u64 = 30_000;

/// How long the worker rests if there is nothing to do, or after the store has failed.
const SCAN: Duration = Duration::from_secs(5);

/// Begins to carry batches out.
///
/// # Errors
///
/// The system cannot start another thread.
pub(crate) fn start(runtime: Weak<Runtime>, bell: Bell) -> std::io::Result<Periodic> {
    Periodic::start_with("batches", bell, move |bell| {
        let Some(runtime) = runtime.upgrade() else {
            bell.stop();
            return Rest::NONE;
        };
        if runtime.shared.intake.pause.is_on() {
            return Rest::until_rung(Duration::from_millis(100), SCAN);
        }
        let operations = Operations::local(&runtime);
        match turn(&operations.inner, &|| bell.is_stopped()) {
            Ok(true) => Rest::NONE,
            Ok(false) => Rest::until_rung(Duration::from_millis(20), SCAN),
            Err(error) => {
                tracing::warn!(code = %error.code(), %error, "cannot carry a batch out");
                Rest::exactly(SCAN)
            }
        }
    })
}

/// Carries out a page of the oldest batch. Returns whether there is more to do now.
pub(super) fn turn(inner: &OperationsInner, stop: &dyn Fn() -> bool) -> Result<bool, Error> {
    let first = BatchQuery {
        working: true,
        before: None,
        limit: 1,
    };
    let Some(row) = inner.store.batches(&first)?.pop() else {
        return Ok(false);
    };
    if !has_duty(inner)? {
        return Ok(false);
    }
    let before = Batch::try_from(&row)?;
    let mut progress = before.progress.clone();
    if progress.standing == Standing::Stopping {
        progress.standing = Standing::Stopped;
    } else if let Err(error) = page(inner, &before, &mut progress, stop) {
        if matches!(&error, Error::Store(error) if !error.is_refusal()) {
            return Err(error);
        }
        progress.standing = Standing::Failed;
        progress.error = Some(error.to_string());
    }
    record(inner, &row, &before.progress, progress)?;
    Ok(!stop())
}

/// Whether this process is the one that carries batches out.
fn has_duty(inner: &OperationsInner) -> Result<bool, Error> {
    let Some(runtime) = inner.runtime() else {
        return Ok(true);
    };
    let ask = |every_ms| {
        inner.store.write(Duty {
            name: DUTY.to_owned(),
            incarnation: runtime.membership.numbers().incarnation(),
            every_ms,
            inherited: true,
            at_ms: inner.clock.wall_ms(),
        })
    };
    Ok(ask(None)? || ask(Some(DUTY_MS))?)
}

/// Carries the operation out for the next runs.
pub(super) fn page(
    inner: &OperationsInner,
    batch: &Batch,
    progress: &mut Progress,
    stop: &dyn Fn() -> bool,
) -> Result<(), Error> {
    let store = inner.store.as_ref();
    let mut query = batch.what.query(store, batch.created_ms)?;
    query.before = progress.before.map(place);
    query.down_to = store.horizon(&query, LOOKED_AT)?;
    query.limit = PAGE;
    let rows = store.runs(&query)?;
    let full = rows.len() == PAGE as usize;
    let begun = inner.clock.monotonic();
    for row in rows {
        if stop() || inner.clock.monotonic().saturating_sub(begun) >= PAGE_TIME {
            return Ok(());
        }
        let at = row.place();
        match carry_out(inner, batch, &row) {
            Ok(true) => progress.done += 1,
            Ok(false) => {}
            Err(Error::Store(error)) if !error.is_refusal() => return Err(error.into()),
            Err(error) if error.is_missing() => {}
            Err(error) => progress.refuse(row.id, &error),
        }
        progress.before = Some((at.created_ms, at.no));
    }
    if !full {
        // Every run down to the end of the search was looked at.
        match query.down_to {
            Some(at) => progress.before = Some((at.created_ms, at.no)),
            None => progress.standing = Standing::Done,
        }
    }
    Ok(())
}

/// Carries the operation out for a run. Returns false if the run is none of the batch any more.
fn carry_out(inner: &OperationsInner, batch: &Batch, row: &RunRow) -> Result<bool, Error> {
    let id = row.id;
    match &batch.what.action {
        Action::Retry { from, definition } => {
            // The batch, or a person, has retried it before, and it has failed again.
            if row.finished_ms.is_none_or(|at_ms| at_ms > batch.created_ms) {
                return Ok(false);
            }
            let retry = Retry {
                from: from.clone(),
                definition: definition.map(Into::into),
                ..Retry::default()
            };
            inner.retry(id, &retry)?;
        }
        Action::Cancel => inner.control(id, TriggerType::Cancel)?,
        Action::Delete => {
            if !row.status.is_final() {
                return Ok(false);
            }
            inner.delete(id)?;
        }
    }
    Ok(true)
}

/// Writes the progress of a page. A person may have asked the batch to stop meanwhile: then the page
/// counts, and the batch stops.
fn record(
    inner: &OperationsInner,
    row: &BatchRow,
    before: &Progress,
    mut progress: Progress,
) -> Result<(), Error> {
    let mut revision = row.revision;
    loop {
        let written = inner.store.write(MoveBatch {
            no: row.no,
            revision,
            progress: progress.encode()?,
            ends: progress.standing.is_over(),
            at_ms: inner.clock.wall_ms(),
        })?;
        if written.is_ok() {
            if progress.standing.is_over() {
                told(row, &progress);
            }
            return Ok(());
        }
        let Some(now) = inner.store.batch(row.no)? else {
            return Ok(());
        };
        let found = Batch::try_from(&now)?.progress;
        let stopping = Progress {
            standing: Standing::Stopping,
            ..before.clone()
        };
        if found != stopping || now.ended_ms.is_some() {
            // Another process has carried the page out.
            return Ok(());
        }
        revision = now.revision;
        if progress.standing == Standing::Working {
            progress.standing = Standing::Stopped;
        }
    }
}

fn told(row: &BatchRow, progress: &Progress) {
    tracing::info!(
        batch = %row.no,
        outcome = progress.standing.name(),
        done = progress.done,
        refused = progress.refused,
        "a batch has ended"
    );
}
