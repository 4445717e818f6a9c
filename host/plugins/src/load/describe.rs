//! Asks a component for its description.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::Store;
use wasmtime::component::InstancePre;

use super::LoadShared;
use crate::bindings::node;
use crate::call::alone::alone;
use crate::call::plugin::{Entries, Exports};
use crate::call::question::WrongType;
use crate::codes;
use crate::description::MAX_BYTES;
use crate::error::Error;
use crate::grant::settings::Limits;
use crate::offer::guest::Guest;

/// The time limit of a component, its initialisation included: that of an interpreter is slow.
const DEADLINE: Duration = Duration::from_secs(3);

/// Calls `describe` without capabilities and with a deadline. Blocks.
pub(super) fn ask(
    shared: &Arc<LoadShared>,
    subject: &str,
    pre: &InstancePre<Guest>,
    entries: &Entries,
) -> Result<Vec<u8>, Error> {
    let fault = |message: String| Error::new(codes::DESCRIBE, subject, message);
    let (pre, entries) = (pre.clone(), entries.clone());
    // The package, and so its own limits, are not known yet.
    let limits = Limits {
        memory_bytes: shared.rules.most(|limits| limits.memory_bytes),
        deadline: DEADLINE,
        ..shared.rules.now().limits.clone()
    };
    let payload = alone(
        &shared.calls,
        subject,
        limits,
        Duration::MAX,
        move |store| Box::pin(call_describe(store, pre, entries)),
    );
    let payload = payload.map_err(|failure| match failure.code == codes::WRONG_KIND {
        true => Error::new(codes::NO_EXPORT, subject, failure.message),
        false => fault(format!("it did not describe itself: {}", failure.message)),
    })?;
    match payload.body.into_bytes() {
        Some(bytes) if bytes.len() <= MAX_BYTES => Ok(bytes.to_vec()),
        Some(_) => Err(fault(format!(
            "its description is over {MAX_BYTES} bytes long"
        ))),
        None => Err(fault(
            "its description is a blob, and has to be inline".to_owned(),
        )),
    }
}

async fn call_describe(
    store: &mut Store<Guest>,
    pre: InstancePre<Guest>,
    entries: Entries,
) -> wasmtime::Result<node::Payload> {
    let instance = pre.instantiate_async(&mut *store).await?;
    // The types of the other exports are checked here, once.
    Exports::of(&entries, &instance, store)?;
    let describe = entries.describe.as_ref();
    let describe =
        describe.ok_or_else(|| wasmtime::Error::msg("there is no function `describe`"))?;
    let function = instance.get_typed_func::<(), (node::Payload,)>(&mut *store, describe);
    let wrong = |error| WrongType::of((node::INTERFACE, "describe"), &error);
    let function = function.map_err(wrong)?;
    Ok(function.call_async(&mut *store, ()).await?.0)
}
