//! The enumerations of the document: each lists the names that answers and requests may have.
//!
//! The names come from the types of the model, so the document cannot lag behind them.

use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use windlass_model::definition::NodeKind;
use windlass_model::{Class, Delivery, ExecutionStatus, Status, TriggerState, TriggerType};
use windlass_runtime::operations::batches::Standing;
use windlass_store::letters::LetterKind;

macro_rules! named {
    ($($(#[doc = $doc:literal])+ $name:ident: $names:expr;)+) => {$(
        $(#[doc = $doc])+
        pub(crate) enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let described = concat!($($doc, "\n"),+).trim().replace("\n ", "\n");
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .description(Some(described))
                    .enum_values(Some($names))
                    .into()
            }
        }

        impl ToSchema for $name {}
    )+};
}

fn states() -> impl Iterator<Item = &'static str> {
    (0..)
        .map_while(TriggerState::from_stored)
        .map(TriggerState::name)
}

named! {
    /// The status of a run; `completed`, `faulted` and `cancelled` are final.
    RunStatus: Status::ALL.map(Status::name);
    /// The status of an execution.
    NodeStatus: ExecutionStatus::ALL.map(ExecutionStatus::name);
    /// Where a value comes from that a node got: it was stored with the execution, or it is rendered
    /// again from what the execution read.
    Source: ["recorded", "recomputed"];
    /// What a node does, by the key of workflow files.
    NodeWork: NodeKind::NAMES;
    /// The state of a trigger.
    State: states();
    /// The last known state of a trigger; `finished` and `closed` mean that the trigger is gone.
    LastState: states().chain(["finished", "closed"]);
    /// The type of a trigger.
    TriggerKind: TriggerType::ALL.map(TriggerType::name);
    /// The state of a schedule; `retrying` means that its next occurrence could not be planned, and is
    /// tried again.
    ScheduleState: ["planned", "paused", "retrying"];
    /// The operation of a batch.
    BatchAction: ["retry", "cancel", "delete"];
    /// How a batch stands; `stopping` ends with the runs that it works on, and `failed` has an error.
    BatchStanding: Standing::ALL.map(Standing::name);
    /// The result of a command on a trigger; `running` means that the command came while the
    /// trigger is executed, and the process that executes it gets the request.
    TriggerResult: ["scheduled", "finished", "fired", "cancelled", "rescheduled", "running"];
    /// The class of a failure.
    FailureClass: Class::ALL.map(Class::name);
    /// The kind of a dead letter.
    DeadLetterKind: LetterKind::ALL.map(LetterKind::name);
    /// How a stimulus is delivered: to workflows that it starts, to runs that wait for it, or to
    /// both; `buffer` also keeps it until a run waits for it.
    DeliveryKind: Delivery::ALL.map(Delivery::name);
    /// `queued` until the stimulus is delivered, or `buffered` until a run waits for it.
    StimulusState: ["queued", "buffered"];
    /// `nothing` (the execution is in progress, or is about to be), `time`, `retry`, `event`,
    /// `workflow`, `items` (it is a for-each) or `plugin` (which is not there).
    WaitKind: ["nothing", "time", "retry", "event", "workflow", "items", "plugin"];
    /// `already` means that the same export was imported before.
    ImportResult: ["new", "replaced", "already"];
}
