//! The content of a store, for tests.

use std::path::Path;
use std::sync::Arc;

use windlass_model::{
    Body, Definition, ExecutionStatus, Failure, Payload, RunId, Status, TriggerState,
};
use windlass_runtime::SystemClock;
use windlass_store::read::RunQuery;
use windlass_store::rows::RunRow;
use windlass_store::sqlite::{SqliteOptions, SqliteStore};
use windlass_store::{PostgresOptions, PostgresStore, Store};

use super::wait::until_some;

/// A store, opened beside the processes that use it.
pub struct Look {
    store: Arc<dyn Store>,
}

/// One execution, with the name of its node.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its node.
    pub node: String,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Its status.
    pub status: ExecutionStatus,
    /// The sequence number of its trigger.
    pub seq: u64,
    /// The time at which it began, in epoch milliseconds by the clock of its host.
    pub started_ms: i64,
    /// Its output, as JSON text.
    pub output: Option<String>,
    /// Its failure.
    pub failure: Option<Failure>,
    /// Nodes that were skipped because of it.
    pub skipped: Vec<String>,
}

/// More rows than any test has.
const ALL: u32 = 1_000_000;

impl Look {
    /// Opens a store.
    ///
    /// # Panics
    ///
    /// If it cannot be opened.
    pub fn open(path: &Path) -> Self {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).expect("the directory of the store can be made");
        }
        let options = SqliteOptions::new(Arc::new(SystemClock::new()));
        Self {
            store: SqliteStore::open(path, options).expect("the store can be opened"),
        }
    }

    /// Opens a store in PostgreSQL.
    ///
    /// # Panics
    ///
    /// If it cannot be opened.
    pub fn into(url: &str) -> Self {
        let options = PostgresOptions::new(Arc::new(SystemClock::new()));
        Self {
            store: PostgresStore::open(url, options).expect("the store can be opened"),
        }
    }

    /// The store itself.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Whether a process is a member.
    ///
    /// # Panics
    ///
    /// If the store cannot be read.
    pub fn has_member(&self, pid: u32) -> bool {
        let members = self.store.members().expect("members can be read");
        members.iter().any(|member| member.pid == pid)
    }

    /// The run of this id, as text.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn run(&self, id: &str) -> RunRow {
        let id: RunId = id
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("`{id}` is no id"));
        let row = self.store.run(id).expect("a run can be read");
        row.unwrap_or_else(|| panic!("there is no run {id}"))
    }

    /// All runs, oldest first.
    ///
    /// # Panics
    ///
    /// If the store cannot be read.
    pub fn runs(&self) -> Vec<RunRow> {
        let query = RunQuery {
            limit: ALL,
            ..RunQuery::default()
        };
        let mut rows = self.store.runs(&query).expect("runs can be read");
        rows.reverse();
        rows
    }

    /// How many runs have not ended.
    ///
    /// # Panics
    ///
    /// If the store cannot be read.
    pub fn unfinished(&self) -> u64 {
        self.store.counts().expect("runs can be counted").unfinished
    }

    /// How many runs have not ended; none if the store cannot be read now.
    pub fn try_unfinished(&self) -> Option<u64> {
        Some(self.store.counts().ok()?.unfinished)
    }

    /// Waits until a run has ended, and returns its row.
    ///
    /// # Panics
    ///
    /// If it does not end.
    pub fn ended(&self, id: &str) -> RunRow {
        until_some(&format!("run {id} has ended"), || {
            let row = self.run(id);
            row.status.is_final().then_some(row)
        })
    }

    /// The executions of a run, oldest first.
    ///
    /// # Panics
    ///
    /// If the store cannot be read.
    pub fn records(&self, run: &RunRow) -> Vec<Record> {
        let definition = self.definition(run);
        let names = definition.node_names();
        let name = |node: u32| {
            let name = names.get(node as usize);
            name.map_or_else(|| format!("#{node}"), |name| (*name).to_owned())
        };
        let mut rows = self
            .store
            .executions(run.no, None, ALL)
            .expect("run records can be read");
        rows.reverse();
        rows.into_iter()
            .map(|row| Record {
                node: name(row.node),
                attempt: row.attempt,
                status: row.status,
                seq: row.seq.0,
                started_ms: row.started_ms,
                output: row.output.map(|payload| self.text(&payload)),
                failure: row.failure,
                skipped: row.skipped.iter().map(|node| name(*node)).collect(),
            })
            .collect()
    }

    /// The input of a run, as JSON.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    pub fn input(&self, run: &RunRow) -> serde_json::Value {
        let payload = self.store.input(run.no).expect("an input can be read");
        let payload = payload.expect("a run has an input");
        serde_json::from_str(&self.text(&payload)).expect("an input is JSON")
    }

    /// The output of a run, as JSON.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn output(&self, run: &RunRow) -> serde_json::Value {
        let payload = self.store.output(run.no).expect("an output can be read");
        let payload = payload.unwrap_or_else(|| panic!("{run:#?} has no output"));
        serde_json::from_str(&self.text(&payload)).expect("an output is JSON")
    }

    /// The definition of a run.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    pub fn definition(&self, run: &RunRow) -> Definition {
        let row = self
            .store
            .definition(run.definition)
            .expect("a definition can be read");
        let row = row.expect("a run has a definition");
        windlass_model::file::read_canonical(&row.json).expect("a stored definition is valid")
    }

    /// The most hosts in a row that have died while they had claimed a trigger that has not ended
    /// since. None if the store cannot be read now.
    ///
    /// A trigger can fail as `lost` at the third death. The last commit of a stopped host may be on
    /// the disk and yet not visible: so this counts deaths, which no commit of a running host
    /// changes, and not the suspects that run.
    pub fn most_deaths(&self) -> Option<u32> {
        let statuses = vec![Status::Pending, Status::Running, Status::Suspended];
        let query = RunQuery {
            statuses,
            limit: ALL,
            ..RunQuery::default()
        };
        let mut most = 0;
        for run in self.store.runs(&query).ok()? {
            let triggers = self.store.triggers(run.no).ok()?;
            most = triggers
                .iter()
                .map(|row| row.deliveries)
                .fold(most, u32::max);
        }
        Some(most)
    }

    /// How many triggers of a run are in a state.
    ///
    /// # Panics
    ///
    /// If the store cannot be read.
    pub fn triggers(&self, run: &RunRow, state: TriggerState) -> usize {
        let triggers = self.store.triggers(run.no).expect("triggers can be read");
        triggers
            .iter()
            .filter(|trigger| trigger.state == state)
            .count()
    }

    fn text(&self, payload: &Payload) -> String {
        let bytes = match &payload.body {
            Body::Inline(bytes) => bytes.clone(),
            Body::Blob(blob) => {
                let content = self.store.blob(*blob).expect("a blob can be read");
                content.expect("a blob that is named is there")
            }
        };
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
