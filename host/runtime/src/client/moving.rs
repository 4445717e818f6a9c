//! Runs that go from one store to another.

use std::collections::BTreeSet;

use bytes::Bytes;
use windlass_keys::export::ExportKeys;
use windlass_model::{ExecutionNo, InstanceId, Status, TriggerType};
use windlass_plugins::Host;
use windlass_store::Writer as _;
use windlass_store::rows::{ExecutionRow, PinsRow, TriggerRow};
use windlass_store::transfer::{Imported as Stored, Snapshot};

use super::workflow::{ClientInner, WorkflowClient};
use crate::catalog::Pins;
use crate::codes;
use crate::error::Error;
use crate::transfer::{self, Accept, ImportTarget, Incoming, Seal};

/// What became of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It is there now.
    New,
    /// It is there now, in place of what had its id.
    Replaced,
    /// The same was imported before, and nothing was done.
    Already,
}

impl How {
    /// As it is shown to people.
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
    /// Which.
    pub id: InstanceId,
    /// Where it is in its life.
    pub status: Status,
    /// What was done.
    pub how: How,
    /// What vouches for the document.
    pub seal: Seal,
}

impl WorkflowClient {
    /// Takes a run out as a document: one moment of it, with all that it needs to go on in
    /// another store. It stays where it is, and as it is.
    ///
    /// # Errors
    ///
    /// There is no such run; it has children that have not ended, or is itself one that has
    /// not; it is too large; or the store is in trouble.
    pub async fn export(&self, id: InstanceId) -> Result<Bytes, Error> {
        let keys = self.exports()?;
        self.ask(move |inner| inner.export(id, &keys)).await
    }

    /// Takes a run in. Nothing is done if no known key has signed the document and `accept` does
    /// not allow that, if the document is not in order, if its components are not here, or if it
    /// cannot go to that place; importing the same again changes nothing.
    ///
    /// # Errors
    ///
    /// Any of these, or the store is in trouble.
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

impl ClientInner {
    fn export(&self, id: InstanceId, keys: &ExportKeys) -> Result<Bytes, Error> {
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
        if let Some(parent) = taken.row.parent.filter(|_| !taken.row.status.is_final()) {
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

    /// The records that go with a run, oldest first: the newest, and what it needs of older
    /// ones. Records never change, so the moment at which one is read does not matter.
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
                .filter(|run| run.instance == taken.row.no);
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
        let row = store.instance(id)?;
        let status = row.map_or(status, |row| row.status);
        Ok(Imported {
            id,
            status,
            how,
            seal,
        })
    }
}

/// Refuses a run that is pinned to a component which the configuration denies. A run that
/// began here goes on until it comes to such a node; one that comes from elsewhere is not
/// taken in to fail there.
fn check_denied(pins: &PinsRow, host: &Host) -> Result<(), Error> {
    let pins = Pins::from_row(pins).map_err(transfer::malformed)?;
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

/// What is too large now may not be so later.
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

/// A component that is not here is known by its digest only.
fn missing_component(error: Error) -> Error {
    match error {
        Error::Plugins(missing) if missing.code == windlass_plugins::codes::NOT_STORED => {
            Error::Refused {
                code: codes::NO_COMPONENT,
                message: format!(
                    "the run needs a component that is not here: {}",
                    missing.message
                ),
                help: Some(
                    "put the same component into the plugin directory: `windlass plugin list` \
                     shows the digests of what there is"
                        .to_owned(),
                ),
            }
        }
        other => other,
    }
}

/// Why a run cannot go where it was to go.
fn why(id: InstanceId, refused: Stored) -> Error {
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
            format!("run {id} is a child that has not ended, and its parent waits for it"),
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
