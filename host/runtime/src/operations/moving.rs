//! Moves runs from one store to another.

use std::collections::BTreeSet;

use bytes::Bytes;
use windlass_keys::export::ExportKeys;
use windlass_model::{ExecutionNo, RunId, Status, TriggerType};
use windlass_plugins::Host;
use windlass_store::Writer as _;
use windlass_store::rows::{ExecutionRow, PinsRow, TriggerRow};
use windlass_store::transfer::{Imported as Stored, Snapshot};

use super::reach::{Operations, OperationsInner};
use crate::catalog::Pins;
use crate::codes;
use crate::error::Error;
use crate::transfer::{self, Accept, ImportTarget, Incoming, Seal};

/// The effect of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The run was added.
    New,
    /// The run was added in place of the run that had its id.
    Replaced,
    /// The same document was imported before, and nothing was changed.
    Already,
}

impl How {
    /// The name that people see.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Replaced => "replaced",
            Self::Already => "already",
        }
    }
}

/// A run that was imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The id of the run.
    pub id: RunId,
    /// The status of the run.
    pub status: Status,
    /// The effect of the import.
    pub how: How,
    /// The signature of the document.
    pub seal: Seal,
}

impl Operations {
    /// Exports a run as a document: a snapshot with everything that the run needs to continue in
    /// another store. The run itself does not change.
    ///
    /// # Errors
    ///
    /// There is no such run; it has children that have not ended, or is a child that has not ended;
    /// it is too large; or the store fails.
    pub async fn export(&self, id: RunId) -> Result<Bytes, Error> {
        let keys = self.exports()?;
        self.ask(move |inner| inner.export(id, &keys)).await
    }

    /// The bytes of the data that an export of the run reads; none if there is no such run.
    ///
    /// # Errors
    ///
    /// The run is too large, or the store fails.
    pub async fn export_bytes(&self, id: RunId) -> Result<Option<u64>, Error> {
        self.ask(move |inner| {
            let extent = inner.store.extent(id, transfer::BOUNDS);
            extent.map_err(too_large)
        })
        .await
    }

    /// Imports a run. The import is refused if no known key has signed the document and `accept`
    /// does not allow that, if the document is invalid, if a component is missing, or if the id
    /// cannot be used. Importing the same document again changes nothing.
    ///
    /// # Errors
    ///
    /// The import is refused, or the store fails.
    pub async fn import(
        &self,
        document: Bytes,
        place: ImportTarget,
        accept: Accept,
    ) -> Result<Imported, Error> {
        let keys = self.exports()?;
        self.ask(move |inner| {
            let incoming = Incoming::read(&document, &keys, accept)?;
            drop(document);
            inner.import(incoming, place)
        })
        .await
    }
}

impl OperationsInner {
    fn export(&self, id: RunId, keys: &ExportKeys) -> Result<Bytes, Error> {
        let store = self.store.as_ref();
        let taken = store
            .snapshot(id, transfer::BOUNDS)
            .map_err(too_large)?
            .ok_or_else(|| Error::NotFound(id.to_string()))?;
        let for_child = |row: &TriggerRow| row.kind == TriggerType::Child && row.payload.is_none();
        let waits = taken.triggers.iter().any(for_child);
        if taken.children > 0 || waits {
            return Err(no_export(
                format!("run {id} has children that have not ended, and they would stay behind"),
                "wait until they have, or cancel them",
            ));
        }
        let going = !taken.row.status.is_final();
        if let Some(parent) = taken.row.parent.as_ref().filter(|_| going) {
            return Err(no_export(
                format!("run {id} is a child, and run {} waits for it", parent.id),
                "wait until it has ended, and export its parent",
            ));
        }
        let (definition, pins) = (taken.row.definition, taken.row.pins);
        let catalog = self.catalog();
        let prepared = catalog.load(store, &*self.resources().host()?, definition, pins)?;
        let needed = transfer::needed(&prepared.graph, &taken)?;
        let records = self.records(&taken, needed)?;
        transfer::written(&taken, &records, &taken.blobs, keys, self.clock.wall_ms())
    }

    /// The execution records in an export, oldest first: the newest records, and older ones that
    /// the run needs. Records never change, so they can be read at different times.
    fn records(
        &self,
        taken: &Snapshot,
        needed: BTreeSet<ExecutionNo>,
    ) -> Result<Vec<ExecutionRow>, Error> {
        let newest = taken.executions.iter().rev();
        let known: BTreeSet<ExecutionNo> = newest.clone().map(|run| run.no).collect();
        let mut records = Vec::new();
        for no in needed.difference(&known) {
            let run = self
                .store
                .execution(*no)?
                .filter(|run| run.run == taken.row.no);
            let missing =
                || Error::Unreadable(format!("a record of run {} is missing", taken.row.id));
            records.push(run.ok_or_else(missing)?);
        }
        records.sort_by_key(|run| (run.started_ms, run.no));
        records.extend(newest.cloned());
        Ok(records)
    }

    fn import(&self, incoming: Incoming, place: ImportTarget) -> Result<Imported, Error> {
        let seal = incoming.seal();
        let store = self.store.as_ref();
        let (definition, pins) = (incoming.definition.clone(), incoming.pins.clone());
        let host = self.resources().host()?;
        check_denied(&pins, &host)?;
        let prepared = self
            .catalog()
            .carried(definition, pins, store, &host)
            .map_err(missing_component)?;
        let now_ms = self.clock.wall_ms();
        let (id, no, stored, status) = self.numbered(|numbers| {
            let import = incoming.import(&prepared, numbers, place, now_ms)?;
            let (id, no, status) = (import.new.id, import.new.no, import.status);
            Ok((id, no, store.write(import)?, status))
        })?;
        let how = match stored {
            Stored::New => How::New,
            Stored::Replaced { old } => {
                self.clear(old)?;
                How::Replaced
            }
            Stored::Already(_) => How::Already,
            refused => return Err(why(id, refused)),
        };
        if how != How::Already
            && let Some(runtime) = self.runtime()
        {
            runtime.adopt(no);
        }
        let row = store.run(id)?;
        let status = row.map_or(status, |row| row.status);
        Ok(Imported {
            id,
            status,
            how,
            seal,
        })
    }
}

/// Refuses a run that is pinned to a component which the configuration denies. A run of this store
/// continues until it reaches such a node, but an imported run would only fail here.
fn check_denied(pins: &PinsRow, host: &Host) -> Result<(), Error> {
    let pins = Pins::from_row(pins).map_err(Error::bad_export)?;
    let mut uses = pins.uses.iter();
    let Some((asked, digest)) = uses.find(|(_, digest)| host.is_denied(digest)) else {
        return Ok(());
    };
    Err(Error::Refused {
        code: codes::DENIED_COMPONENT,
        message: format!("the run uses a component that this host denies: `{asked}` is {digest}"),
        help: Some(
            "import it on a host that allows the component, or take the digest out of `deny` \
             in the section [plugins]"
                .to_owned(),
        ),
    })
}

fn no_export(message: String, help: &str) -> Error {
    Error::NotNow {
        code: codes::NO_EXPORT,
        message,
        help: Some(help.to_owned()),
    }
}

/// The error for a run that is too large now. It may become smaller later.
fn too_large(error: windlass_store::Error) -> Error {
    if error.code != windlass_store::codes::TOO_LARGE {
        return error.into();
    }
    Error::NotNow {
        code: error.code,
        message: error.message,
        help: error.help,
    }
}

/// A missing component is known only by its digest.
fn missing_component(error: Error) -> Error {
    match error {
        Error::Plugins(missing) if missing.code == windlass_plugins::codes::NOT_STORED => {
            Error::Refused {
                code: codes::NO_COMPONENT,
                message: format!(
                    "the run needs a component that this host does not have: {}",
                    missing.message
                ),
                help: Some(
                    "put the same component into the plugin directory: `windlass plugin list` shows the digests of the plugins"
                        .to_owned(),
                ),
            }
        }
        other => other,
    }
}

/// Why a run cannot be imported under this id.
fn why(id: RunId, refused: Stored) -> Error {
    let (message, help) = match refused {
        Stored::Deleted => return Error::Deleted(id),
        Stored::Reserved { by } => return Error::Reserved { by },
        Stored::Exists => (
            format!("there is a run {id} already"),
            "take its place (`--replace`), or give the new one another id (`--new-id`)",
        ),
        Stored::Owned => (
            format!("run {id} is at work, and its place cannot be taken now"),
            "pause it, or try again when it waits",
        ),
        Stored::Children => (
            format!("run {id} has children that have not ended"),
            "wait until they have, or cancel them",
        ),
        Stored::Child => (
            format!(
                "run {id} cannot be replaced: it has not ended, and its parent run waits for it"
            ),
            "wait until it has ended",
        ),
        Stored::Name(name) => (
            format!("another run has a trigger of the name {name}, which one of run {id} has too"),
            "give the new one another id: its triggers then have no names",
        ),
        Stored::New | Stored::Replaced { .. } | Stored::Already(_) => {
            (format!("run {id} could not be imported"), "try again")
        }
    };
    Error::NotNow {
        code: codes::NO_IMPORT,
        message,
        help: Some(help.to_owned()),
    }
}
