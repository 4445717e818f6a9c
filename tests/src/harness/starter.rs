//! Creates runs by a client of the library, hundreds of times faster than by starting a process for
//! each.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tokio::runtime::Runtime;
use windlass_model::stimulus::{Delivery, Stimulus};
use windlass_model::{Clock, Digest, Payload, RunId, TriggerId};
use windlass_plugins::{Host, LoadEvent, Options};
use windlass_runtime::operations::{self, Schedule};
use windlass_runtime::{Error, Operations, StartRequest, SystemClock};
use windlass_store::Store;
use windlass_store::external::Scheduled;
use windlass_store::rows::DefinitionRow;

use super::place::Place;
use super::programs::cache;

/// Creates runs for the hosts that serve the store.
pub struct Starter {
    store: Arc<dyn Store>,
    host: Arc<Host>,
    clock: Arc<dyn Clock>,
    client: Operations,
    tokio: Runtime,
}

impl Starter {
    /// Loads the plugins that a place has now.
    ///
    /// # Panics
    ///
    /// If one of them cannot be loaded.
    pub fn of(place: &Place) -> Self {
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("threads can be started");
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let options = Options::in_dir(cache());
        let host = Host::start(options, Arc::clone(&clock), tokio.handle().clone());
        let host = host.expect("the plugin host starts");
        for event in host.scan(&[place.library(), place.plugins()]) {
            if let LoadEvent::Failed { file, error, .. } = event {
                panic!("{} cannot be loaded: {error}", file.display());
            }
        }
        let store = Arc::clone(place.look().store());
        let plugins = Arc::new(Arc::clone(&host));
        Self {
            client: Operations::detached(Arc::clone(&store), Arc::clone(&clock), plugins),
            store,
            host,
            clock,
            tokio,
        }
    }

    /// Creates a run; the returned id is acknowledged.
    ///
    /// # Errors
    ///
    /// As [`Operations::create_and_run`].
    pub fn start(&self, workflow: &Value, input: &Value) -> Result<RunId, Error> {
        let request = StartRequest {
            workflow: definition(workflow).into(),
            input: Payload::of(input),
            id: None,
            correlation: None,
            trace: None,
        };
        once_unlocked(|| self.create(request.clone()))
    }

    fn create(&self, request: StartRequest) -> Result<RunId, Error> {
        let created = self.client.create_and_run(request);
        Ok(self.tokio.block_on(created)?.id)
    }

    /// Schedules a trigger. Returns its id and the result.
    ///
    /// # Errors
    ///
    /// As [`Operations::schedule`].
    pub fn schedule(&self, request: Schedule) -> Result<(TriggerId, Scheduled), Error> {
        self.tokio.block_on(self.client.schedule(request))
    }

    /// Publishes a workflow.
    ///
    /// # Panics
    ///
    /// If it cannot be published.
    pub fn publish(&self, workflow: &Value) {
        let now_ms = self.clock.wall_ms();
        let published = operations::publish(&*self.store, &self.host, now_ms, definition(workflow));
        published.expect("a workflow is published");
    }

    /// Sends a run its stimulus, for a present or a later wait.
    ///
    /// # Panics
    ///
    /// If it cannot be stored.
    pub fn tell(&self, run: RunId, name: &str, matches: &str) {
        let sent = once_unlocked(|| self.try_tell(run, name, matches));
        sent.expect("a stimulus is written down");
    }

    /// As [`Self::tell`], for a store that may fail.
    ///
    /// # Errors
    ///
    /// As [`Operations::send`].
    pub fn try_tell(&self, run: RunId, name: &str, matches: &str) -> Result<(), Error> {
        let stimulus = Stimulus {
            name: name.to_owned(),
            matches: Value::from(matches),
            correlation: None,
            run: Some(run),
            input: Payload::of(&Value::from(matches)),
            delivery: Delivery::Buffer,
            ttl_ms: 24 * 3_600_000,
            trace: None,
        };
        let sent = self.client.send(operations::new_stimulus_id(), stimulus);
        self.tokio.block_on(sent).map(drop)
    }

    /// Creates a run with this id, if it does not exist yet.
    ///
    /// # Errors
    ///
    /// As [`Operations::create_and_run`].
    pub fn start_as(&self, id: RunId, workflow: &Value, input: &Value) -> Result<(), Error> {
        let request = StartRequest {
            workflow: definition(workflow).into(),
            input: Payload::of(input),
            id: Some(id),
            correlation: None,
            trace: None,
        };
        self.create(request).map(drop)
    }
}

/// Repeats a write while the store is locked: a process that is stopped within a transaction keeps
/// it locked for long.
fn once_unlocked<T>(mut write: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    loop {
        match write() {
            Err(error) if error.code().as_str() == "WL-S007" => {}
            done => return done,
        }
    }
}

fn definition(workflow: &Value) -> DefinitionRow {
    let read = windlass_model::file::read(&workflow.to_string(), "workflow.json");
    let wrong = &read.diagnostics;
    let definition = read.definition.as_ref();
    let definition = definition.unwrap_or_else(|| panic!("the workflow is not valid: {wrong:#?}"));
    let json = Bytes::from(
        read.canonical()
            .expect("what was read has a canonical form"),
    );
    let name = definition.name.clone();
    DefinitionRow {
        digest: Digest::of(&json),
        name,
        json,
    }
}
