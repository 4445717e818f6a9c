//! Asks a component for its description.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::Store;
use wasmtime::component::InstancePre;
use windlass_model::{InstanceId, Seq};

use crate::bindings::node::Body;
use crate::budget::{Evict, Hold, INSTANCE_BYTES};
use crate::call::CallContext;
use crate::classify;
use crate::codes;
use crate::description::MAX_BYTES;
use crate::error::Error;
use crate::guest::{Guest, Ongoing, Stop};
use crate::host::HostShared;
use crate::lane::{CallMode, Track};
use crate::options::{Grants, Limits};
use crate::plugin::{Describe, Entries, Exports, Terms};
use crate::proof::Standing;
use crate::run;

/// The time limit of a component, its initialisation included: that of an interpreter is slow.
const DEADLINE: Duration = Duration::from_secs(3);

/// Calls `describe` without capabilities and with a deadline. Blocks.
pub(super) fn ask(
    shared: &Arc<HostShared>,
    subject: &str,
    pre: &InstancePre<Guest>,
    entries: &Entries,
) -> Result<Vec<u8>, Error> {
    let limits = Limits {
        memory_bytes: shared.options.most(|limits| limits.memory_bytes),
        deadline: DEADLINE,
        ..shared.options.limits.clone()
    };
    let terms = Terms {
        name: subject.to_owned(),
        limits,
        grants: Grants::default(),
        standing: Standing::Unnamed,
        track: Arc::new(Track::new()),
    };
    // A description that fails for lack of memory would not be requested again: so wait for all
    // memory that the component may use.
    let needs = terms.limits.memory_bytes as u64 + INSTANCE_BYTES;
    let evict: &dyn Evict = &**shared;
    let hold = shared.budget.reserve(terms.track.id, needs, evict);
    let hold = shared.io.block_on(hold);
    let asking = ask_in(
        Arc::clone(shared),
        Arc::new(terms),
        (pre.clone(), entries.clone()),
        hold,
    );
    // On a task of its own, so that a panic of a host function ends there.
    let task = shared.io.spawn(asking);
    let fault = |message: String| Error::new(codes::DESCRIBE, subject, message);
    let answer = shared
        .io
        .block_on(task)
        .map_err(|_| fault("asking it crashed the host's function".to_owned()))?;
    let payload = answer.map_err(|(error, refused)| {
        let failure = classify::failure(&error, refused);
        fault(format!("it did not describe itself: {}", failure.message))
    })?;
    match payload {
        Body::Inline(bytes) if bytes.len() <= MAX_BYTES => Ok(bytes.to_vec()),
        Body::Inline(_) => Err(fault(format!(
            "its description is over {MAX_BYTES} bytes long"
        ))),
        Body::Blob(_) => Err(fault(
            "its description is a blob, and has to be inline".to_owned(),
        )),
    }
}

async fn ask_in(
    shared: Arc<HostShared>,
    terms: Arc<Terms>,
    (pre, entries): (InstancePre<Guest>, Entries),
    hold: Hold,
) -> Result<Body, (wasmtime::Error, bool)> {
    let mut store = run::store(&shared, &terms, hold);
    let started = shared.clock.monotonic();
    let call = Ongoing::new(no_run(), CallMode::Fiber, started, DEADLINE);
    store.data_mut().call = Some(Box::new(call));
    let answer = tokio::time::timeout(DEADLINE, call_describe(&mut store, &pre, &entries)).await;
    let refused = store.data_mut().limiter.take_refused();
    match answer {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) => Err((error, refused)),
        Err(_) => Err((Stop::Deadline.into(), refused)),
    }
}

async fn call_describe(
    store: &mut Store<Guest>,
    pre: &InstancePre<Guest>,
    entries: &Entries,
) -> wasmtime::Result<Body> {
    let instance = pre.instantiate_async(&mut *store).await?;
    // The types of the other exports are checked here, once.
    Exports::of(entries, &instance, store)?;
    let index = entries
        .node_describe
        .as_ref()
        .or(entries.consumer_describe.as_ref());
    let index = index.ok_or_else(|| wasmtime::Error::msg("there is no function `describe`"))?;
    let describe: Describe = instance.get_typed_func(&mut *store, index)?;
    let (payload,) = describe.call_async(&mut *store, ()).await?;
    Ok(payload.body)
}

/// The context of a call that belongs to no run.
fn no_run() -> CallContext {
    CallContext {
        instance: InstanceId(uuid::Uuid::nil()),
        workflow: "".into(),
        node: None,
        seq: Seq(0),
        first: Seq(0),
        phase: 0,
        attempt: 1,
        correlation: None,
        trace_parent: None,
        resumption: None,
        memory: None,
        blobs: None,
        tokens: None,
        visit: None,
        secrets: Arc::default(),
        cancel: crate::call::Cancel::default(),
    }
}
