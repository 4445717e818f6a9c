//! The format of a run in the archive.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde::de::IgnoredAny;
use windlass_model::{
    Body, Digest, ExecutionStatus, Failure, LogLine, Payload, RunId, Status, Tags, TriggerType,
};
use windlass_store::Store;
use windlass_store::rows::{DefinitionRow, ExecutionRow, JournalRow, RunRow};

use crate::error::Error;

/// The version of the lines.
const VERSION: u32 = 1;

/// The first members of a line.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Head {
    v: u32,
    id: RunId,
    workflow: Option<String>,
    definition: Digest,
    pins: Digest,
    correlation: Option<String>,
    tags: Tags,
    status: Status,
    created_ms: i64,
    finished_ms: Option<i64>,
    failure: Option<Failure>,
    #[serde(skip)]
    input: Option<Payload>,
    #[serde(skip)]
    output: Option<Payload>,
}

impl Head {
    pub(super) fn read(store: &dyn Store, row: &RunRow) -> Result<Self, Error> {
        let definition = store.definition(row.definition)?;
        Ok(Self {
            v: VERSION,
            id: row.id,
            workflow: definition.map(|definition| definition.name),
            definition: row.definition,
            pins: row.pins,
            correlation: row.correlation.clone(),
            tags: row.tags.clone(),
            status: row.status,
            created_ms: row.created_ms,
            finished_ms: row.finished_ms,
            failure: row.failure.clone(),
            input: store.input(row.no)?,
            output: store.output(row.no)?,
        })
    }

    /// The input and the output of the run.
    pub(super) fn payloads(&self) -> impl Iterator<Item = &Payload> {
        self.input.iter().chain(&self.output)
    }
}

/// The names of the nodes, by number.
pub(super) struct Names(Vec<String>);

impl Names {
    pub(super) fn of(store: &dyn Store, row: &RunRow) -> Result<Self, Error> {
        let stored = store.definition(row.definition)?;
        let read = |stored: DefinitionRow| windlass_model::file::read_canonical(&stored.json).ok();
        let definition = stored.and_then(read);
        let names = definition
            .iter()
            .flat_map(|definition| definition.node_names());
        Ok(Self(names.map(str::to_owned).collect()))
    }

    fn get(&self, number: u32) -> Option<&str> {
        self.0.get(number as usize).map(String::as_str)
    }
}

/// The execution of a node.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Record<'a> {
    node: Option<&'a str>,
    number: u32,
    seq: u64,
    first: u64,
    #[serde(rename = "type")]
    kind: TriggerType,
    attempt: u32,
    status: ExecutionStatus,
    started_ms: i64,
    took_us: u64,
    failure: Option<&'a Failure>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    logs: &'a [LogLine],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    skipped: &'a [u32],
}

impl<'a> Record<'a> {
    fn of(execution: &'a ExecutionRow, names: &'a Names) -> Self {
        Self {
            node: names.get(execution.node),
            number: execution.node,
            seq: execution.seq.0,
            first: execution.first.0,
            kind: execution.kind,
            attempt: execution.attempt,
            status: execution.status,
            started_ms: execution.started_ms,
            took_us: execution.took_us,
            failure: execution.failure.as_ref(),
            logs: &execution.logs,
            skipped: &execution.skipped,
        }
    }
}

/// Writes a run, one row at a time: there may be many.
pub(super) struct ArchiveLine<W: Write> {
    file: W,
    /// Whether the next member is the first of its list.
    first: bool,
}

impl<W: Write> ArchiveLine<W> {
    /// Begins a line, up to the variables.
    pub(super) fn begin(mut file: W, head: &Head) -> io::Result<Self> {
        open(&mut file, head)?;
        for (name, value) in [("input", &head.input), ("output", &head.output)] {
            if let Some(value) = value {
                write!(file, ",\"{name}\":")?;
                write_value(&mut file, value)?;
            }
        }
        file.write_all(b",\"vars\":{")?;
        Ok(Self { file, first: true })
    }

    /// Adds a variable.
    pub(super) fn var(&mut self, name: &str, value: &Payload) -> io::Result<()> {
        self.separate()?;
        serde_json::to_writer(&mut self.file, name)?;
        self.file.write_all(b":")?;
        write_value(&mut self.file, value)
    }

    /// Ends the variables.
    pub(super) fn begin_journal(&mut self) -> io::Result<()> {
        self.first = true;
        self.file.write_all(b"},\"journal\":[")
    }

    /// Adds an entry of the journal.
    pub(super) fn entry(&mut self, entry: &JournalRow) -> io::Result<()> {
        self.separate()?;
        write!(self.file, "{{\"at-ms\":{},\"kind\":", entry.at_ms)?;
        serde_json::to_writer(&mut self.file, &entry.kind)?;
        self.file.write_all(b",\"detail\":")?;
        write_value(&mut self.file, &Payload::json(entry.detail.clone()))?;
        self.file.write_all(b"}")
    }

    /// Ends the journal.
    pub(super) fn begin_executions(&mut self) -> io::Result<()> {
        self.first = true;
        self.file.write_all(b"],\"executions\":[")
    }

    /// Adds an execution.
    pub(super) fn add(&mut self, execution: &ExecutionRow, names: &Names) -> io::Result<()> {
        self.separate()?;
        open(&mut self.file, &Record::of(execution, names))?;
        if let Some(output) = &execution.output {
            self.file.write_all(b",\"output\":")?;
            write_value(&mut self.file, output)?;
        }
        self.file.write_all(b"}")
    }

    /// Separates a member from the one before.
    fn separate(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.first) {
            return Ok(());
        }
        self.file.write_all(b",")
    }

    /// Ends the line.
    pub(super) fn end(mut self) -> io::Result<W> {
        self.file.write_all(b"]}\n")?;
        Ok(self.file)
    }
}

/// Writes an object without its closing brace, so that members can follow.
fn open(file: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(value)?;
    text.pop();
    file.write_all(&text)
}

/// Writes a value by its type: `json`, or `base64`, or `blob`, which is the name of a file beside.
fn write_value(file: &mut impl Write, value: &Payload) -> io::Result<()> {
    match &value.body {
        Body::Blob(blob) => {
            let (name, size) = (blob.digest.hex(), blob.size);
            write!(file, "{{\"blob\":\"{name}\",\"size\":{size}")?;
        }
        Body::Inline(bytes) if is_json(value, bytes) => {
            file.write_all(b"{\"json\":")?;
            // Copies the text unchanged, with all digits of numbers, but on one line: a line break
            // in JSON is never part of a string.
            for part in bytes.split(|byte| matches!(byte, b'\n' | b'\r')) {
                file.write_all(part)?;
            }
        }
        Body::Inline(bytes) => write!(file, "{{\"base64\":\"{}\"", STANDARD.encode(bytes))?,
    }
    if let Some(content_type) = &value.content_type {
        file.write_all(b",\"content-type\":")?;
        serde_json::to_writer(&mut *file, content_type)?;
    }
    file.write_all(b"}")
}

fn is_json(value: &Payload, bytes: &[u8]) -> bool {
    value.is_json() && serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}
