//! Rebuilds the states of a run from its stored events, and compares the last one with the stored
//! state.
//!
//! The definition, the time of the beginning and the events determine each state: no value is read,
//! and no expression is evaluated. Events are stored with the records of executions, and a version
//! without a record has an entry of the journal. A version without an event has the state of the
//! version before.
//!
//! Bounds: records are read in pages of `PAGE`, backwards to find their beginning, and once more in
//! their order; in memory are one page, and a number for each page. A run that changes meanwhile is
//! read again, `TRIES` times.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use windlass_engine::{Carrier, Corrupt, Open, OpenRow, Recorded, RunState, begin, replay};
use windlass_model::{
    Digest, ExecutionNo, ExecutionStatus, Failure, RunNo, ScopeNo, Seq, ShortBytes, Version,
};
use windlass_store::rows::{ExecutionRow, JournalRow, RunRow};
use windlass_store::{Store, next_rows};

use crate::catalog::Prepared;
use crate::error::Error;

/// The number of records, or of entries, in one page.
const PAGE: u32 = 500;

/// How often a run is read that changes meanwhile.
const TRIES: u32 = 5;

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rebuilt {
    /// Its events lead to its stored state.
    Same {
        /// The versions that have an event.
        events: u64,
    },
    /// They do not.
    Different {
        /// The version at which the difference was found.
        version: Version,
        /// What differs, as part of a sentence.
        what: String,
    },
    /// This cannot be told, for this reason.
    Unknown(String),
}

/// Prepares the definition and the pins of these digests, or says why that is not possible.
pub(crate) type Prepare<'a> =
    dyn FnMut(Digest, Digest) -> Result<Result<Arc<Prepared>, String>, Error> + 'a;

/// Is shown each version that has an event, with its state.
pub(crate) type Watch<'a> = dyn FnMut(Version, &RunState) + 'a;

/// Rebuilds a run. None: there is no such run any more.
///
/// # Errors
///
/// The store fails.
pub(crate) fn rebuild(
    store: &dyn Store,
    no: RunNo,
    prepare: &mut Prepare<'_>,
    watch: &mut Watch<'_>,
) -> Result<Option<Rebuilt>, Error> {
    for _ in 0..TRIES {
        let Some(row) = store.run_by_no(no)? else {
            return Ok(None);
        };
        let rebuilt = match Rebuilding::of(store, &row).whole(prepare, watch) {
            Ok(rebuilt) => rebuilt,
            // A damaged row of one run does not keep the others from being read.
            Err(Stop::Failed(error)) if is_damage(&error) => Rebuilt::Different {
                version: row.version,
                what: error.to_string(),
            },
            Err(Stop::Different(version, what)) => Rebuilt::Different { version, what },
            Err(Stop::Unknown(why)) => Rebuilt::Unknown(why),
            Err(Stop::Failed(error)) => return Err(*error),
        };
        // The rows are of one moment if the run has the same version before and after. A run that
        // is being deleted is found no more.
        match store.run_by_no(no)? {
            None => return Ok(None),
            Some(now) if now.version == row.version => return Ok(Some(rebuilt)),
            Some(_) => {}
        }
    }
    let why = "it changes faster than it can be read".to_owned();
    Ok(Some(Rebuilt::Unknown(why)))
}

fn is_damage(error: &Error) -> bool {
    use windlass_store::codes::{ALTERED, CORRUPT};
    matches!(error, Error::Store(error) if [ALTERED, CORRUPT].contains(&error.code))
}

/// Why a run is not rebuilt further.
enum Stop {
    Different(Version, String),
    Unknown(String),
    Failed(Box<Error>),
}

impl<E: Into<Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(Box::new(error.into()))
    }
}

struct Rebuilding<'a> {
    store: &'a dyn Store,
    row: &'a RunRow,
    /// The last version that was rebuilt.
    at: Version,
    events: u64,
    scopes: BTreeMap<ScopeNo, Bytes>,
}

impl<'a> Rebuilding<'a> {
    fn of(store: &'a dyn Store, row: &'a RunRow) -> Self {
        Self {
            store,
            row,
            at: Version(0),
            events: 0,
            scopes: BTreeMap::new(),
        }
    }

    fn whole(mut self, prepare: &mut Prepare<'_>, watch: &mut Watch<'_>) -> Result<Rebuilt, Stop> {
        let (begin_ms, documents) = self.beginning()?;
        let mut load = |(definition, pins)| match prepare(definition, pins) {
            Ok(Ok(prepared)) => Ok(prepared),
            Ok(Err(why)) => Err(Stop::Unknown(why)),
            Err(error) => Err(Stop::Failed(Box::new(error))),
        };
        let mut prepared = load(documents)?;
        let (mut state, _) = begin(&prepared.graph, begin_ms);
        let mut records = Records::of(self.store, self.row.no)?;
        let mut entries = Entries::of(self.store, self.row.no);
        let (mut record, mut entry) = (self.of_record(&mut records)?, self.entry(&mut entries)?);
        loop {
            let is_record = match (&record, &entry) {
                (Some(record), Some(entry)) => record.version < entry.version,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            let next = if is_record {
                std::mem::replace(&mut record, self.of_record(&mut records)?)
            } else {
                std::mem::replace(&mut entry, self.entry(&mut entries)?)
            };
            let Some(event) = next else { break };
            if event.begins() {
                continue;
            }
            self.follows(event.version)?;
            let at = event.version;
            let damaged = |error: Corrupt| Stop::Different(at, error.to_string());
            if let Some(altered) = event.altered() {
                let now = load(altered.now)?;
                event
                    .refit(&prepared.graph, &now.graph, &mut state)
                    .map_err(damaged)?;
                prepared = now;
            }
            replay(&prepared.graph, &mut state, event).map_err(damaged)?;
            self.events += 1;
            for (no, bytes) in state.drain_scopes() {
                match bytes {
                    Some(bytes) => drop(self.scopes.insert(no, bytes.into())),
                    None => drop(self.scopes.remove(&no)),
                }
            }
            watch(at, &state);
        }
        self.compare(&prepared, &state)?;
        let events = self.events;
        Ok(Rebuilt::Same { events })
    }

    /// When the run began, in epoch milliseconds, and its first definition and pins.
    fn beginning(&self) -> Result<(i64, (Digest, Digest)), Stop> {
        let mut begin_ms = self.row.created_ms;
        let mut entries = Entries::of(self.store, self.row.no);
        while let Some(event) = self.entry(&mut entries)? {
            if event.is_lost() {
                let why = "it was imported without its events".to_owned();
                return Err(Stop::Unknown(why));
            }
            if event.begins() {
                begin_ms = event.now_ms;
            }
            if let Some(altered) = event.altered() {
                return Ok((begin_ms, altered.before));
            }
        }
        Ok((begin_ms, (self.row.definition, self.row.pins)))
    }

    /// The event of the next record that has one.
    fn of_record(&self, records: &mut Records<'_>) -> Result<Option<Recorded>, Stop> {
        while let Some(record) = records.next()? {
            if !record.event.is_empty() {
                let of = Carrier {
                    seq: record.seq,
                    run: record.no,
                    started_ms: record.started_ms,
                    failure: record.failure.as_ref(),
                };
                let read = Recorded::decode(&record.event, Some(of));
                let what = |error| format!("record {}: {error}", record.no);
                return read.map(Some).map_err(|error| self.differs(what(error)));
            }
            // A cancelled execution leads to nothing itself.
            if record.status != ExecutionStatus::Cancelled {
                let what = format!("record {} has no event", record.no);
                return Err(self.differs(what));
            }
        }
        Ok(None)
    }

    /// The next event that no record has.
    fn entry(&self, entries: &mut Entries<'_>) -> Result<Option<Recorded>, Stop> {
        let Some(entry) = entries.next()? else {
            return Ok(None);
        };
        let read = Recorded::decode(&entry.detail, None);
        let what = |error| format!("an entry of the journal: {error}");
        read.map(Some).map_err(|error| self.differs(what(error)))
    }

    fn differs(&self, what: String) -> Stop {
        Stop::Different(self.at, what)
    }

    /// Checks the order of events.
    fn follows(&mut self, version: Version) -> Result<(), Stop> {
        if version.0 <= self.at.0 || version.0 > self.row.version.0 {
            let what = format!("an event leads to version {}", version.0);
            return Err(self.differs(what));
        }
        self.at = version;
        Ok(())
    }

    /// Compares the rebuilt state with the stored one.
    fn compare(&self, prepared: &Prepared, state: &RunState) -> Result<(), Stop> {
        let row = self.row;
        let differs = |what: String| Err(Stop::Different(row.version, what));
        if state.status != row.status {
            let (is, was) = (row.status.name(), state.status.name());
            return differs(format!("it is {is}, and its events make it {was}"));
        }
        if state.encode() != row.state {
            return differs("its stored state is another one than its events make".to_owned());
        }
        let stored: BTreeMap<_, _> = self.store.scopes(row.no)?.into_iter().collect();
        let all = stored.keys().chain(self.scopes.keys());
        let mut other = all.filter(|no| stored.get(no) != self.scopes.get(no));
        if let Some(no) = other.next() {
            return differs(format!("scope {no} is another one than its events make"));
        }
        self.compare_open(prepared, state)
    }

    /// Compares the open executions with the triggers.
    fn compare_open(&self, prepared: &Prepared, state: &RunState) -> Result<(), Stop> {
        let differs = |what: String| Err(Stop::Different(self.row.version, what));
        let rows = self.store.triggers(self.row.no)?;
        let mut left = state.open.len() + usize::from(state.timeout.is_some());
        for row in rows.iter().filter(|row| !row.seq.is_external()) {
            let seq = row.seq;
            left = left.saturating_sub(1);
            let Some(node) = row.node else {
                if state.timeout != Some(seq) {
                    return differs(format!("its events make no trigger {seq}"));
                }
                continue;
            };
            let Some(made) = state.open.get(&seq) else {
                return differs(format!("its events make no trigger {seq}"));
            };
            let columns = OpenRow {
                seq,
                node,
                kind: row.kind,
                attempt: row.attempt,
                due_ms: row.due_ms,
            };
            let read = Open::decode_detail(&prepared.graph, columns, &row.detail);
            if !read.is_ok_and(|read| read.is_made_as(made)) {
                return differs(format!("trigger {seq} is another one than its events make"));
            }
        }
        match left {
            0 => Ok(()),
            _ => differs(format!("it lacks {left} triggers that its events make")),
        }
    }
}

/// The records of a run without their values, the oldest first.
struct Records<'a> {
    store: &'a dyn Store,
    run: RunNo,
    /// The pages that follow, the next one last: the record behind the page, and the oldest one of
    /// the page.
    pages: Vec<(Option<ExecutionNo>, ExecutionNo)>,
    page: VecDeque<Record>,
}

struct Record {
    no: ExecutionNo,
    seq: Seq,
    started_ms: i64,
    status: ExecutionStatus,
    failure: Option<Failure>,
    event: ShortBytes,
}

impl<'a> Records<'a> {
    fn of(store: &'a dyn Store, run: RunNo) -> Result<Self, Error> {
        let (mut pages, mut before) = (Vec::new(), None);
        while let Some(oldest) = page(store, run, before)?.last().map(|row| row.no) {
            pages.push((before, oldest));
            before = Some(oldest);
        }
        Ok(Self {
            store,
            run,
            pages,
            page: VecDeque::new(),
        })
    }

    fn next(&mut self) -> Result<Option<Record>, Error> {
        while self.page.is_empty() {
            let Some((mut before, oldest)) = self.pages.pop() else {
                return Ok(None);
            };
            // New records may be in front of the newest page, and a page may come in parts.
            while before != Some(oldest) {
                let rows = page(self.store, self.run, before)?;
                let Some(last) = rows.last() else { break };
                before = Some(last.no);
                for row in rows {
                    let is_last = row.no == oldest;
                    self.page.push_front(Record {
                        no: row.no,
                        seq: row.seq,
                        started_ms: row.started_ms,
                        status: row.status,
                        failure: row.failure,
                        event: row.event,
                    });
                    if is_last {
                        before = Some(oldest);
                        break;
                    }
                }
            }
        }
        Ok(self.page.pop_front())
    }
}

fn page(
    store: &dyn Store,
    run: RunNo,
    before: Option<ExecutionNo>,
) -> Result<Vec<ExecutionRow>, Error> {
    Ok(next_rows(PAGE, |most| store.executions(run, before, most))?)
}

/// The entries of a run with events, in the order of versions.
struct Entries<'a> {
    store: &'a dyn Store,
    run: RunNo,
    skip: u32,
    page: VecDeque<JournalRow>,
}

impl<'a> Entries<'a> {
    fn of(store: &'a dyn Store, run: RunNo) -> Self {
        Self {
            store,
            run,
            skip: 0,
            page: VecDeque::new(),
        }
    }

    fn next(&mut self) -> Result<Option<JournalRow>, Error> {
        if self.page.is_empty() {
            let read = |most| self.store.events(self.run, self.skip, most);
            self.page = next_rows(PAGE, read)?.into();
            let read = u32::try_from(self.page.len()).unwrap_or(u32::MAX);
            self.skip = self.skip.saturating_add(read);
        }
        Ok(self.page.pop_front())
    }
}
