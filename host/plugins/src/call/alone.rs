//! Runs code of a component outside of any run: without capabilities and with a deadline.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use wasmtime::Store;
use windlass_model::{Class, Failure, RunId, Seq};

use super::shared::CallShared;
use crate::call::classify;
use crate::call::run;
use crate::codes;
use crate::grant::proof::Standing;
use crate::grant::settings::{Grants, Limits};
use crate::hold::Stop;
use crate::hold::budget::{Evict, Hold, INSTANCE_BYTES};
use crate::hold::lane::{CallMode, Track};
use crate::offer::context::CallContext;
use crate::offer::guest::{Guest, Ongoing};
use crate::offer::terms::Terms;

/// Work in the store of a component.
pub(crate) type Work<'a, T> = Pin<Box<dyn Future<Output = wasmtime::Result<T>> + Send + 'a>>;

/// Runs work in a store of its own. Waits up to `patience` for all memory that the limits allow,
/// because nothing repeats the work. Blocks.
///
/// # Errors
///
/// The failure of the component, or there was no memory.
pub(crate) fn alone<T: Send + 'static>(
    shared: &Arc<CallShared>,
    subject: &str,
    limits: Limits,
    patience: Duration,
    work: impl for<'a> FnOnce(&'a mut Store<Guest>) -> Work<'a, T> + Send + 'static,
) -> Result<T, Failure> {
    let deadline = limits.deadline;
    let terms = Terms {
        name: subject.to_owned(),
        limits,
        grants: Grants::default(),
        standing: Standing::Unnamed,
        track: Arc::new(Track::new()),
    };
    let needs = terms.limits.memory_bytes as u64 + INSTANCE_BYTES;
    let evict: &dyn Evict = &**shared;
    let hold = shared.bounds.budget.reserve(terms.track.id, needs, evict);
    let waiting = async { tokio::time::timeout(patience, hold).await };
    let hold = shared.io.block_on(waiting);
    let hold = hold.map_err(|_| classify::stopped(Stop::NoMemory))?;
    // On a task of its own, so that a panic of a host function ends there.
    let running = run_in(Arc::clone(shared), Arc::new(terms), deadline, hold, work);
    let ended = shared.io.block_on(shared.io.spawn(running));
    let result = ended.map_err(|_| {
        let message = "the call crashed the host's function";
        Failure::new(Class::Permanent, codes::HOST, message)
    })?;
    result.map_err(|(error, refused)| classify::failure(&error, refused))
}

async fn run_in<T>(
    shared: Arc<CallShared>,
    terms: Arc<Terms>,
    deadline: Duration,
    hold: Hold,
    work: impl for<'a> FnOnce(&'a mut Store<Guest>) -> Work<'a, T>,
) -> Result<T, (wasmtime::Error, bool)> {
    let mut store = run::store(&shared, &terms, hold);
    let started = shared.clock.monotonic();
    let no_run = CallContext::new(RunId(uuid::Uuid::nil()), "".into(), Seq(0));
    let call = Ongoing::new(no_run, CallMode::Fiber, started, deadline);
    store.data_mut().call = Some(Box::new(call));
    let answer = tokio::time::timeout(deadline, work(&mut store)).await;
    let refused = store.data_mut().limiter.take_refused();
    match answer {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err((error, refused)),
        Err(_) => Err((Stop::Deadline.into(), refused)),
    }
}
