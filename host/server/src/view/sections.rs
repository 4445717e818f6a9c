//! The JSON of critical sections for which executions of a run wait.

use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;
use windlass_runtime::operations::{self, Waits};

use super::moment;
use crate::count::Count;
use crate::named::WaitKind;
use crate::raw::Raw;

/// A critical section for which executions of a run wait.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Section {
    /// The text of the `mutex`.
    mutex: String,
    /// The execution in the section; absent if the run changed while it was read.
    #[schema(required = true)]
    holder: Option<Holder>,
    /// The waiting executions, the next one first; at most 100 of them.
    waiting: Vec<Position>,
    /// How many more executions wait.
    more: Count,
}

/// An execution, by its position in the workflow.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Position {
    /// The node.
    node: String,
    /// The indices of the items that contain it, the outermost first.
    items: Vec<u32>,
}

/// The execution in a critical section.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Holder {
    /// The node.
    node: String,
    /// The indices of the items that contain it, the outermost first.
    items: Vec<u32>,
    /// The subject of its own wait.
    waits_for: WaitsFor,
}

/// The subject of an execution's wait.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct WaitsFor {
    /// The kind of its wait.
    #[schema(value_type = WaitKind)]
    kind: &'static str,
    /// The time at which the wait ends at the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    until: Option<String>,
    /// The stimuli that end the wait.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stimuli: Vec<Awaited>,
    /// The run of the called workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    run: Option<Uuid>,
}

/// A stimulus that an execution waits for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Awaited {
    /// Its name.
    name: String,
    /// The value that its `match` has to equal.
    #[serde(rename = "match")]
    #[schema(value_type = Value)]
    matches: Raw,
}

impl From<&operations::Section> for Section {
    fn from(section: &operations::Section) -> Self {
        let position = |execution: &operations::Execution| Position {
            node: execution.node.clone(),
            items: execution.items.clone(),
        };
        Self {
            mutex: section.mutex.clone(),
            holder: section.holder.as_ref().map(|holder| Holder {
                node: holder.execution.node.clone(),
                items: holder.execution.items.clone(),
                waits_for: WaitsFor::from(&holder.waits),
            }),
            waiting: section.waiting.iter().map(position).collect(),
            more: section.more.into(),
        }
    }
}

impl From<&Waits> for WaitsFor {
    fn from(waits: &Waits) -> Self {
        let of = |kind| Self {
            kind,
            ..Self::default()
        };
        let until = |kind, ms: i64| Self {
            until: Some(moment(ms)),
            ..of(kind)
        };
        match waits {
            Waits::Nothing => of("nothing"),
            Waits::Time(ms) => until("time", *ms),
            Waits::Retry(ms) => until("retry", *ms),
            Waits::Events(stimuli, ms) => Self {
                until: ms.map(moment),
                stimuli: stimuli
                    .iter()
                    .map(|(name, matches)| Awaited {
                        name: name.clone(),
                        matches: Raw::read(matches.as_bytes()),
                    })
                    .collect(),
                ..of("event")
            },
            Waits::Child(run) => Self {
                run: run.map(|id| id.0),
                ..of("workflow")
            },
            Waits::Items => of("items"),
            Waits::Parked => of("plugin"),
        }
    }
}
