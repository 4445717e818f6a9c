//! Critical sections that executions of a run wait for, and why each is held.
//!
//! Reads the store and changes nothing. The reads are not one transaction: while the run continues,
//! a section may show no holder.
//!
//! Bounds: the rows of one run. At most [`WAITING`] waiting executions of a section are named.

use std::collections::BTreeMap;

use windlass_engine::{Open, OpenRow};
use windlass_model::{Definition, RunId, TriggerState, TriggerType};
use windlass_store::Store;
use windlass_store::rows::{RunRow, TriggerRow};
use windlass_store::stimuli::BookmarkQuery;

use crate::error::Error;

/// The limit of named executions that wait for one section.
const WAITING: usize = 100;

/// The limit of bookmarks and children of a run that are searched.
const LOOKED_AT: u32 = 1_000;

/// A critical section that executions wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The text of the `mutex`.
    pub mutex: String,
    /// The execution that holds it; none if the run changed while it was read.
    pub holder: Option<Holder>,
    /// Executions that wait for it, the next one first.
    pub waiting: Vec<Execution>,
    /// The number of further waiting executions.
    pub more: usize,
}

/// An execution, by its place in the workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The node.
    pub node: String,
    /// The indexes of the items that contain it, the outermost first.
    pub items: Vec<u32>,
}

/// An execution that holds a critical section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The execution.
    pub execution: Execution,
    /// The reason why it still holds the section.
    pub waits: Waits,
}

/// The event that an execution waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waits {
    /// No event: it is being executed, or is about to be.
    Nothing,
    /// An instant, in epoch milliseconds.
    Time(i64),
    /// The next attempt, at this instant in epoch milliseconds.
    Retry(i64),
    /// One of these stimuli (name and match, as JSON), until this instant in epoch milliseconds at
    /// the latest.
    Events(Vec<(String, String)>, Option<i64>),
    /// The run of another workflow; none if the run is not known.
    Child(Option<RunId>),
    /// The items of its list.
    Items,
    /// Its plugin or its consumer, which is missing.
    Parked,
}

/// The critical sections of a run that executions wait for.
///
/// # Errors
///
/// The store fails, or has data that cannot be read.
pub fn sections(
    store: &dyn Store,
    row: &RunRow,
    definition: &Definition,
) -> Result<Vec<Section>, Error> {
    let mutexes: BTreeMap<&str, &str> = definition
        .all_nodes()
        .into_iter()
        .filter_map(|(_, name, node)| Some((name, node.mutex.as_deref()?)))
        .collect();
    if row.status.is_final() || mutexes.is_empty() {
        return Ok(Vec::new());
    }
    let names = definition.node_names();
    let nodes = names.iter().map(|name| (*name, mutexes.get(name).copied()));
    let nodes: Vec<(&str, Option<&str>)> = nodes.collect();
    let triggers = store.triggers(row.no)?;
    let open = triggers
        .iter()
        .filter_map(open)
        .collect::<Result<Vec<_>, _>>();
    let open = open.map_err(unreadable)?;
    let scopes = store.scopes(row.no)?;
    let scopes = scopes.iter().map(|(no, bytes)| (*no, &**bytes));
    let found = windlass_engine::sections(&row.state, scopes, &open).map_err(unreadable)?;
    let named = |at: &windlass_engine::Section| nodes.get(at.node.at()).copied();
    let execution = |at: &windlass_engine::Section| Execution {
        node: named(at).map_or_else(String::new, |(name, _)| name.to_owned()),
        items: at.items.clone(),
    };
    let mut sections: BTreeMap<&str, Section> = BTreeMap::new();
    for queued in &found.queued {
        let Some(mutex) = named(queued).and_then(|(_, mutex)| mutex) else {
            continue;
        };
        let section = sections.entry(mutex).or_insert_with(|| Section {
            mutex: mutex.to_owned(),
            holder: None,
            waiting: Vec::new(),
            more: 0,
        });
        if section.waiting.len() < WAITING {
            section.waiting.push(execution(queued));
        } else {
            section.more += 1;
        }
    }
    for (at, waits) in found
        .lists
        .iter()
        .map(|list| (list, Some(Waits::Items)))
        .chain(found.open.iter().map(|open| (open, None)))
    {
        let mutex = named(at).and_then(|(_, mutex)| mutex);
        let Some(section) = mutex.and_then(|mutex| sections.get_mut(mutex)) else {
            continue;
        };
        let waits = match waits {
            Some(waits) => waits,
            None => match triggers.iter().find(|row| row.seq == at.seq) {
                Some(trigger) => waits_for(store, row, trigger, &open)?,
                None => Waits::Nothing,
            },
        };
        section.holder = Some(Holder {
            execution: execution(at),
            waits,
        });
    }
    Ok(sections.into_values().collect())
}

fn unreadable(error: windlass_engine::Corrupt) -> Error {
    Error::Unreadable(error.to_string())
}

/// The execution of a trigger; none if the engine did not make the trigger.
fn open(row: &TriggerRow) -> Option<Result<Open, windlass_engine::Corrupt>> {
    let node = row.node.filter(|_| !row.seq.is_external())?;
    let open = OpenRow {
        seq: row.seq,
        node,
        kind: row.kind,
        attempt: row.attempt,
        due_ms: row.due_ms,
    };
    Some(Open::read_detail(open, &row.detail))
}

fn waits_for(
    store: &dyn Store,
    row: &RunRow,
    trigger: &TriggerRow,
    open: &[Open],
) -> Result<Waits, Error> {
    let until_ms = (trigger.due_ms < i64::MAX).then_some(trigger.due_ms);
    Ok(match (trigger.state, trigger.kind) {
        (TriggerState::Parked, _) => Waits::Parked,
        (TriggerState::Claimed | TriggerState::Dead, _) => Waits::Nothing,
        // The resumption was delivered, and the execution is about to run.
        (TriggerState::Pending, _) if trigger.payload.is_some() => Waits::Nothing,
        (TriggerState::Pending, TriggerType::Resume) => {
            let first = open.iter().find(|open| open.seq == trigger.seq);
            let first = first.map(|open| open.first);
            let bookmarks = store.bookmarks(&BookmarkQuery {
                run: Some(row.no),
                limit: LOOKED_AT,
                ..BookmarkQuery::default()
            })?;
            let own = bookmarks
                .into_iter()
                .filter(|bookmark| Some(bookmark.bookmark.first) == first);
            let stimuli = own.map(|own| {
                let matches = String::from_utf8_lossy(&own.bookmark.matches).into_owned();
                (own.bookmark.name, matches)
            });
            Waits::Events(stimuli.collect(), until_ms)
        }
        (TriggerState::Pending, TriggerType::Child) => {
            let children = store.children(row.no, None, LOOKED_AT)?;
            let child = children.iter().find(|child| {
                let parent = child.parent.as_ref();
                parent.is_some_and(|parent| parent.seq == trigger.seq)
            });
            Waits::Child(child.map(|child| child.id))
        }
        (TriggerState::Pending, TriggerType::Retry) => {
            until_ms.map_or(Waits::Nothing, Waits::Retry)
        }
        (TriggerState::Pending, TriggerType::Timer | TriggerType::Loop) => {
            until_ms.map_or(Waits::Nothing, Waits::Time)
        }
        (TriggerState::Pending, _) => Waits::Nothing,
    })
}
