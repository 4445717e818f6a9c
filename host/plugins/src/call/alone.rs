//! Runs code of a component outside of any run: without capabilities and with a deadline.

use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use wasmtime::Store;
use windlass_model::{Class, Failure, LogLine, RunId, Seq, visible};

use super::shared::CallShared;
use crate::call::classify;
use crate::call::run;
use crate::codes;
use crate::grant::proof::Standing;
use crate::grant::settings::{Grants, Limits};
use crate::hold::Stop;
use crate::hold::budget::flow::Flow;
use crate::hold::budget::{Evict, Hold, INSTANCE_BYTES};
use crate::hold::lane::{CallMode, Track};
use crate::offer::context::CallContext;
use crate::offer::guest::{Guest, Ongoing};
use crate::offer::terms::Terms;

/// The lines of one call that go into the log of the host.
const MAX_TOLD: usize = 20;

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
        rules: None,
    };
    let needs = terms.limits.memory_bytes as u64 + INSTANCE_BYTES;
    let evict: &dyn Evict = &**shared;
    let flow = Flow::new(terms.track.id, needs);
    let hold = shared.bounds.budget.reserve(&flow, needs, evict);
    let waiting = async { tokio::time::timeout(patience, hold).await };
    let hold = shared.io.block_on(waiting);
    let hold = hold.map_err(|_| classify::stopped(Stop::NoMemory))?;
    // On a task of its own, so that a panic of a host function ends there.
    let running = run_in(Arc::clone(shared), Arc::new(terms), deadline, hold, work);
    let ended = shared.io.block_on(shared.io.spawn(running));
    ended.unwrap_or_else(|_| {
        let message = "the call crashed the host's function";
        Err(Failure::new(Class::Permanent, codes::HOST, message))
    })
}

async fn run_in<T>(
    shared: Arc<CallShared>,
    terms: Arc<Terms>,
    deadline: Duration,
    hold: Hold,
    work: impl for<'a> FnOnce(&'a mut Store<Guest>) -> Work<'a, T>,
) -> Result<T, Failure> {
    let mut store = run::store(&shared, &terms, hold);
    let started = shared.clock.monotonic();
    let no_run = CallContext::new(RunId(uuid::Uuid::nil()), "".into(), Seq(0));
    let call = Ongoing::new(no_run, CallMode::Fiber, started, deadline);
    store.data_mut().call = Some(Box::new(call));
    let answer = tokio::time::timeout(deadline, work(&mut store)).await;
    let guest = store.data_mut();
    let (logs, stderr) = guest.end_log();
    tell(&terms.name, &logs);
    let error = match answer {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(error)) => error,
        Err(_) => Stop::Deadline.into(),
    };
    let refused = guest.limiter.take_refused();
    let secrets = &shared.offer.secrets;
    Err(classify::failure(
        &error,
        refused,
        (&logs, &stderr),
        secrets,
    ))
}

/// Writes the lines of a component into the log of the host: there is no run with a log.
fn tell(component: &str, logs: &[LogLine]) {
    for line in logs.iter().take(MAX_TOLD) {
        let mut text = line.message.clone();
        for (name, value) in &line.fields {
            // Writing into a string cannot fail.
            let _ = write!(text, " {name}={value}");
        }
        let (level, line) = (line.level.as_str(), visible::sentence(text));
        match level {
            "error" | "warn" => {
                tracing::warn!(component, line, "a component logs outside of a run")
            }
            "info" => tracing::info!(component, line, "a component logs outside of a run"),
            _ => tracing::debug!(component, line, "a component logs outside of a run"),
        }
    }
    let more = logs.len().saturating_sub(MAX_TOLD);
    if more > 0 {
        tracing::warn!(component, more, "a component logs more outside of a run");
    }
}
