//! Triggers that people schedule, and operations on any trigger.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use windlass_model::nearest::did_you_mean;
use windlass_model::{Definition, Digest, RunId, TriggerId, TriggerType, stimulus, valid};
use windlass_store::external::{
    CancelTrigger, Fire, NewExternal, Reschedule, Scheduled, Touched, TriggerTarget,
};
use windlass_store::{Store, Writer as _};

use super::reach::{Operations, OperationsInner};
use super::tell;
use crate::codes;
use crate::error::Error;

/// A request for a trigger.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Its id. The same id with the same request is the same trigger.
    pub id: Option<TriggerId>,
    /// Its run. The trigger does not keep the run open.
    pub run: RunId,
    /// The node to run.
    pub node: String,
    /// The due time, in epoch milliseconds; none: now.
    pub due_ms: Option<i64>,
    /// Variables that are assigned before the node runs.
    pub payload: Option<Map<String, Value>>,
    /// Of the due triggers, those with a higher priority are claimed first.
    pub priority: i32,
}

impl Operations {
    /// Schedules a trigger. Returns its id and the effect.
    ///
    /// # Errors
    ///
    /// The workflow of the run has no such node, or the store fails.
    pub async fn schedule(&self, new: Schedule) -> Result<(TriggerId, Scheduled), Error> {
        self.ask(move |inner| inner.schedule(new)).await
    }
}

impl OperationsInner {
    pub(crate) fn schedule(&self, new: Schedule) -> Result<(TriggerId, Scheduled), Error> {
        let store = self.store.as_ref();
        let id = new
            .id
            .unwrap_or_else(|| TriggerId(crate::clock::new_run_id().0));
        let Some(row) = store.run(new.run)? else {
            return Ok((id, Scheduled::NoRun));
        };
        let definition = definition(store, row.definition)?;
        let node = position(&definition, &new.node)?;
        let nothing = Map::new();
        let assigned = new.payload.as_ref().unwrap_or(&nothing).keys();
        valid::check_variables(assigned).map_err(|wrong| Error::Refused {
            code: codes::BAD_KEY,
            message: format!("the payload cannot be assigned: {wrong}"),
            help: None,
        })?;
        let request = json!({
            "run": new.run,
            "node": node,
            "due": new.due_ms,
            "payload": new.payload,
            "priority": new.priority,
        });
        let payload = new.payload.map(Value::Object);
        let scheduled = self.numbered(|numbers| {
            Ok(store.write(NewExternal {
                no: numbers.trigger().ok_or_else(Error::no_numbers)?,
                id,
                run: new.run,
                node: Some(node),
                kind: match new.due_ms {
                    Some(_) => TriggerType::Timer,
                    None => TriggerType::Manual,
                },
                due_ms: new.due_ms.unwrap_or_else(|| self.clock.wall_ms()),
                payload: payload.map(|payload| stimulus::canonical(&payload).into()),
                priority: new.priority,
                detail: Bytes::new(),
                request: Digest::of(&stimulus::canonical(&request)),
            })?)
        })?;
        Ok((id, scheduled))
    }
}

/// Makes a trigger due now, in place of its own due time.
///
/// # Errors
///
/// The store fails.
pub fn fire(store: &dyn Store, now_ms: i64, target: TriggerTarget) -> Result<Touched, Error> {
    let at_ms = now_ms;
    tell(
        store,
        Fire {
            target,
            at_ms,
            only_due_ms: None,
        },
    )
}

/// Changes the due time of a trigger, in epoch milliseconds.
///
/// # Errors
///
/// The store fails.
pub fn reschedule(store: &dyn Store, target: TriggerTarget, due_ms: i64) -> Result<Touched, Error> {
    tell(store, Reschedule { target, due_ms })
}

/// Cancels a trigger; an execution in progress is asked to stop.
///
/// # Errors
///
/// The store fails.
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

fn position(definition: &Definition, name: &str) -> Result<u32, Error> {
    definition.number_of(name).ok_or_else(|| {
        let all = definition.all_nodes();
        let names = all.iter().map(|(_, name, _)| *name);
        Error::Refused {
            code: codes::NO_SUCH_NODE,
            message: format!("the workflow `{}` has no node `{name}`", definition.name),
            help: did_you_mean(name, names),
        }
    })
}
