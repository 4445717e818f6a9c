//! Triggers that people schedule, and what they do with any trigger.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use windlass_model::nearest::did_you_mean;
use windlass_model::{Definition, Digest, InstanceId, TriggerId, TriggerType, stimulus, valid};
use windlass_store::outside::{
    CancelTrigger, Fire, NewOutside, Reschedule, Scheduled, Touched, TriggerTarget,
};
use windlass_store::{Store, Writer as _};

use super::workflow::{ClientInner, WorkflowClient};
use super::{tell, used_up};
use crate::codes;
use crate::error::Error;

/// A wish for a trigger.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Its name. The same name with the same wish is the same trigger.
    pub id: Option<TriggerId>,
    /// The instance that it is for, which it does not keep open.
    pub instance: InstanceId,
    /// The node to run.
    pub node: String,
    /// When, in epoch milliseconds; none: now.
    pub due_ms: Option<i64>,
    /// Merged into the variables before the node runs.
    pub payload: Option<Map<String, Value>>,
    /// Higher first among the due.
    pub priority: i32,
}

impl WorkflowClient {
    /// Schedules a trigger. Answers its name, and what became of it.
    ///
    /// # Errors
    ///
    /// The instance's workflow has no such node, or the store is in trouble.
    pub async fn schedule(&self, wish: Schedule) -> Result<(TriggerId, Scheduled), Error> {
        self.ask(move |inner| inner.schedule(wish)).await
    }
}

impl ClientInner {
    pub(crate) fn schedule(&self, wish: Schedule) -> Result<(TriggerId, Scheduled), Error> {
        let store = self.store.as_ref();
        let id = wish
            .id
            .unwrap_or_else(|| TriggerId(crate::clock::new_instance_id().0));
        let Some(row) = store.instance(wish.instance)? else {
            return Ok((id, Scheduled::NoInstance));
        };
        let definition = definition(store, row.definition)?;
        let node = position(&definition, &wish.node)?;
        let names = wish.payload.iter().flat_map(Map::keys);
        valid::VARIABLE
            .check_all(names)
            .map_err(|wrong| Error::Refused {
                code: codes::BAD_KEY,
                message: format!("the payload cannot be assigned: {wrong}"),
                help: None,
            })?;
        let request = json!({
            "instance": wish.instance,
            "node": node,
            "due": wish.due_ms,
            "payload": wish.payload,
            "priority": wish.priority,
        });
        let payload = wish.payload.map(Value::Object);
        let scheduled = self.numbered(|numbers| {
            Ok(store.write(NewOutside {
                no: numbers.trigger().ok_or_else(used_up)?,
                id,
                instance: wish.instance,
                node: Some(node),
                kind: match wish.due_ms {
                    Some(_) => TriggerType::Timer,
                    None => TriggerType::Manual,
                },
                due_ms: wish.due_ms.unwrap_or_else(|| self.clock.wall_ms()),
                payload: payload.map(|payload| stimulus::canonical(&payload).into()),
                priority: wish.priority,
                detail: Bytes::new(),
                request: Digest::of(&stimulus::canonical(&request)),
            })?)
        })?;
        Ok((id, scheduled))
    }
}

/// Makes a trigger due now, whatever it says itself.
///
/// # Errors
///
/// The store is in trouble.
pub fn fire(store: &dyn Store, now_ms: i64, target: TriggerTarget) -> Result<Touched, Error> {
    let at_ms = now_ms;
    tell(store, Fire { target, at_ms })
}

/// Makes a trigger due at another time, in epoch milliseconds.
///
/// # Errors
///
/// The store is in trouble.
pub fn reschedule(store: &dyn Store, target: TriggerTarget, due_ms: i64) -> Result<Touched, Error> {
    tell(store, Reschedule { target, due_ms })
}

/// Cancels a trigger; what runs is asked to stop.
///
/// # Errors
///
/// The store is in trouble.
pub fn cancel_trigger(
    store: &dyn Store,
    now_ms: i64,
    target: TriggerTarget,
) -> Result<Touched, Error> {
    let at_ms = now_ms;
    tell(store, CancelTrigger { target, at_ms })
}

fn definition(store: &dyn Store, digest: Digest) -> Result<Definition, Error> {
    let row = store.definition(digest)?.ok_or_else(|| {
        Error::Unreadable(format!(
            "the store has no definition {digest}, though a run names it"
        ))
    })?;
    windlass_model::file::read_canonical(&row.json).map_err(Error::Definition)
}

/// Nodes are numbered by name, those of all bodies together.
fn position(definition: &Definition, name: &str) -> Result<u32, Error> {
    let names = definition.node_names();
    let at = names.binary_search(&name).ok();
    at.and_then(|at| u32::try_from(at).ok())
        .ok_or_else(|| Error::Refused {
            code: codes::NO_SUCH_NODE,
            message: format!("the workflow `{}` has no node `{name}`", definition.name),
            help: did_you_mean(name, names.iter().copied()),
        })
}
