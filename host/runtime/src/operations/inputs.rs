//! What an execution got as its input, for people.
//!
//! Bounds: the journal of one run, and the rows that the input was made of, within the allowance of
//! the caller; one input is rendered at a time.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use windlass_engine::Inputs as MadeOf;
use windlass_engine::expr::{Bounds, Interrupt};
use windlass_model::definition::NodeKind;
use windlass_model::{Digest, ExecutionNo, Payload, RunId, file};
use windlass_store::next_rows;
use windlass_store::rows::{ExecutionRow, JournalRow, RunRow};

use super::reach::{Operations, OperationsInner};
use crate::error::Error;
use crate::shard::{Again, Given, Inputs, NOT_RENDERED, inputs_again};
use crate::transfer::IMPORTED;

/// The entries of the journal of a run that are searched.
const ENTRIES: usize = 10_000;

/// The number of entries in one read.
const PAGE: u32 = 200;

/// How long an input waits for those that are being rendered, and may take itself.
const PATIENCE: Duration = Duration::from_secs(2);

/// The scope of an execution: the item of a for-each in whose body it ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Within {
    /// The execution of the for-each whose output is the list.
    pub list: ExecutionNo,
    /// The positions of the items around the execution, from 0, the outermost first.
    pub item: Vec<u32>,
}

/// The scope of an execution, as its record tells it. None: it ran in no body, or its record is
/// damaged.
pub fn scope_of(record: &ExecutionRow) -> Option<Within> {
    let made_of = MadeOf::decode(&record.inputs, record.no, record.previous);
    let (list, item) = made_of.ok()??.item?;
    Some(Within { list, item })
}

/// What has changed in a run since an execution began.
struct Changes {
    definition: Digest,
    pins: Digest,
    other_input: Option<&'static str>,
    other_id: Option<&'static str>,
}

impl Operations {
    /// What an execution of a run got, as far as it can be told. Blocks.
    ///
    /// # Errors
    ///
    /// The store fails, or the input is made of more data than the caller may read.
    pub fn inputs(&self, run: &RunRow, record: &ExecutionRow) -> Result<Inputs, Error> {
        self.inner.inputs(run, record)
    }
}

impl OperationsInner {
    fn inputs(&self, run: &RunRow, record: &ExecutionRow) -> Result<Inputs, Error> {
        let made_of = match MadeOf::decode(&record.inputs, record.no, record.previous) {
            Ok(Some(made_of)) if !made_of.none => made_of,
            Ok(_) => return self.without(run, record),
            Err(damaged) => return Ok(unknown(damaged.to_string())),
        };
        if let (Some(with), Some(input)) = (&made_of.with, &made_of.input) {
            return Ok(Inputs {
                with: Some(Given::Recorded(Payload::json(with.clone()))),
                input: Some(Given::Recorded(input.clone())),
            });
        }
        let changes = match self.changes_since(run, record)? {
            Ok(changes) => changes,
            Err(why) => return Ok(unknown(why)),
        };
        let store = self.store.as_ref();
        let prepared = self.resources().host().and_then(|host| {
            let (definition, pins) = (changes.definition, changes.pins);
            self.catalog().load(store, &host, definition, pins)
        });
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(Error::Store(error)) => return Err(error.into()),
            // Messages of the plugin host name files of this machine.
            Err(error) => {
                let why = format!("its definition cannot be prepared here: {}", error.code());
                return Ok(unknown(why));
            }
        };
        // One at a time: each may take as much memory as a step.
        let Some(_turn) = self.rendering.try_lock_for(PATIENCE) else {
            return Ok(unknown("other inputs are being rendered: ask again"));
        };
        let clock = Arc::clone(&self.clock);
        let end = clock.monotonic() + PATIENCE;
        let found = inputs_again(&Again {
            store,
            run,
            record,
            made_of,
            prepared: &prepared,
            bounds: self.runtime().map_or_else(Bounds::default, |runtime| {
                runtime.shared.base.evaluation.step
            }),
            interrupt: Interrupt::when(move || clock.monotonic() >= end),
            other_input: changes.other_input,
            other_id: changes.other_id,
            vars: OnceCell::new(),
        })?;
        Ok(found)
    }

    /// The answer about an execution whose record names no input.
    fn without(&self, run: &RunRow, record: &ExecutionRow) -> Result<Inputs, Error> {
        let row = self.store.definition(run.definition)?;
        let read = row.and_then(|row| file::read_canonical(&row.json).ok());
        let takes = read.is_none_or(|read| {
            let names = read.node_names();
            let name = names.get(record.node as usize);
            let nodes = read.all_nodes();
            let node = nodes.iter().find(|(_, node, _)| Some(node) == name);
            node.is_none_or(|(_, _, node)| {
                matches!(node.kind, NodeKind::Use { .. } | NodeKind::Workflow { .. })
            })
        });
        Ok(match takes {
            true => unknown(NOT_RENDERED),
            false => Inputs::default(),
        })
    }

    /// The definition by which an execution began, and what else has changed since; or why that
    /// cannot be told.
    fn changes_since(
        &self,
        run: &RunRow,
        record: &ExecutionRow,
    ) -> Result<Result<Changes, &'static str>, Error> {
        let mut changes = Changes {
            definition: run.definition,
            pins: run.pins,
            other_input: None,
            other_id: None,
        };
        let (mut skip, mut is_found) = (0, false);
        loop {
            let from = u32::try_from(skip).unwrap_or(u32::MAX);
            let entries = next_rows(PAGE, |most| self.store.journal_after(run.no, from, most))?;
            for entry in &entries {
                if !changes.note(run.id, record, entry, &mut is_found) {
                    return Ok(Err(CHANGED));
                }
            }
            skip += entries.len();
            if entries.is_empty() {
                return Ok(Ok(changes));
            }
            if skip >= ENTRIES {
                return Ok(Err("the journal of the run is too long to be searched"));
            }
        }
    }
}

/// Why a change of a run hides what an earlier execution saw.
const CHANGED: &str = "the run was retried with another definition or another input";

impl Changes {
    /// Notes an entry of the journal; the oldest comes first. False if it cannot be told whether it
    /// is older than the execution.
    fn note(
        &mut self,
        id: RunId,
        record: &ExecutionRow,
        entry: &JournalRow,
        is_found: &mut bool,
    ) -> bool {
        let detail: Value = serde_json::from_slice(&entry.detail).unwrap_or_default();
        if entry.kind == IMPORTED {
            if detail.get("from").and_then(Value::as_str) != Some(&*id.to_string()) {
                self.other_id = Some("the run had another id");
            }
            return true;
        }
        if entry.kind != "retried" {
            return true;
        }
        let altered = detail.get("definition").filter(|it| !it.is_null());
        let input = detail.get("run_input").and_then(Value::as_bool) == Some(true);
        if altered.is_none() && !input {
            return true;
        }
        // The numbers of external triggers are in no order with those of the run.
        let seq = detail.get("seq").and_then(Value::as_u64);
        let Some(seq) = seq.filter(|_| !record.seq.is_external()) else {
            return false;
        };
        if seq <= record.seq.0 {
            return true;
        }
        if input {
            self.other_input = Some("a retry replaced the input of the run");
        }
        if let Some(altered) = altered.filter(|_| !*is_found) {
            let digest = |name: &str| altered.get(name)?.as_str()?.parse::<Digest>().ok();
            let Some((definition, pins)) = digest("before").zip(digest("pins")) else {
                return false;
            };
            (self.definition, self.pins, *is_found) = (definition, pins, true);
        }
        true
    }
}

/// An answer without an input, and the reason.
fn unknown(why: impl Into<String>) -> Inputs {
    Inputs {
        input: Some(Given::Missing(why.into())),
        ..Inputs::default()
    }
}
