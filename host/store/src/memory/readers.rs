//! Readers of the memory store.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use parking_lot::MutexGuard;
use windlass_model::{
    BatchNo, BlobRef, BookmarkNo, Digest, ExecutionNo, Incarnation, LetterNo, Payload, RunId,
    RunNo, ScopeNo, Seq, Status, TriggerId, TriggerNo, TriggerState, Version,
};

use super::MemoryStore;
use super::data::{Answer as _, Data, StoredRun};
use super::delivery::KeptStimulus;
use crate::batches::{BatchQuery, BatchRow};
use crate::codes;
use crate::components::{ComponentRow, Stored};
use crate::drafts::{DraftRow, SourceRow, UpkeepRow};
use crate::error::{Error, Result};
use crate::external::{DuePlace, DueQuery, ExternalRow, TriggerTarget};
use crate::letters::{LetterBody, LetterQuery, LetterRow};
use crate::prefix;
use crate::published::{BindingRow, PublicationQuery, PublicationRow, ScheduleQuery, ScheduleRow};
use crate::read::{Backlog, Counts, Reader, RunPlace, RunQuery, with_readers};
use crate::retention::ExpiredRow;
use crate::rows::{
    DefinitionRow, ExecutionRow, JournalRow, MemberRow, PinsRow, RunRow, TriggerRow,
};
use crate::stimuli::{BookmarkQuery, BookmarkRow, BufferedRow, QueuedRow, StimulusQuery};
use crate::transfer::{Bounds, Snapshot};

fn is_child(row: &RunRow, parent: RunNo) -> bool {
    row.parent.as_ref().is_some_and(|of| of.run == parent)
}

impl Data {
    /// A bookmark with the end of its wait, which the trigger that waits has.
    fn bookmark_row(&self, row: &BookmarkRow) -> BookmarkRow {
        let waits = self.triggers.get(&row.bookmark.trigger);
        let due_ms = waits.map(|trigger| trigger.due_ms);
        BookmarkRow {
            ends_ms: due_ms.filter(|due_ms| *due_ms < i64::MAX),
            ..row.clone()
        }
    }

    fn of<T>(&self, no: RunNo, read: impl FnOnce(&StoredRun) -> T) -> Option<T> {
        self.runs.get(&no).map(read)
    }
}

impl MemoryStore {
    /// Locks the data, unless a test makes this reader fail.
    fn reading(&self, reader: &'static str) -> Result<MutexGuard<'_, Data>> {
        let mut own = self.own.lock();
        if let Some(witness) = &mut own.read_witness {
            witness(reader);
        }
        if reader == "definition" && own.unread > 0 {
            own.unread -= 1;
            return Err(Error::new(codes::BUSY, "the definitions are out of reach").transient());
        }
        drop(own);
        Ok(self.common.data.lock())
    }
}

/// Implements each reader by the method of [`Data`] with the same name.
macro_rules! readers {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $kind:ty),*) -> $found:ty, by $room:ident;)+) => {
        impl Reader for MemoryStore {
            $(fn $name(&self, $($arg: $kind),*) -> Result<$found> {
                self.reading(stringify!($name))?.$name($($arg),*).answer()
            })+
        }
    };
}
with_readers! { readers }

impl Data {
    fn run(&self, id: RunId) -> Result<Option<RunRow>> {
        let no = self.ids.get(&id).copied();
        Ok(no.and_then(|no| self.of(no, |run| run.row.clone())))
    }

    fn run_by_no(&self, no: RunNo) -> Result<Option<RunRow>> {
        Ok(self.of(no, |run| run.row.clone()))
    }

    fn versions(&self, runs: &[RunNo]) -> Result<Vec<(RunNo, Version, Status)>> {
        let found = runs.iter().filter_map(|no| {
            let version = |run: &StoredRun| (*no, run.row.version, run.row.status);
            self.of(*no, version)
        });
        Ok(found.collect())
    }

    fn runs_by_prefix(&self, prefix: &str, limit: u32) -> Result<Vec<RunRow>> {
        let Some((first, last)) = prefix::range(prefix) else {
            return Ok(Vec::new());
        };
        let id = |bytes| RunId(uuid::Uuid::from_bytes(bytes));
        let found = self.ids.range(id(first)..=id(last)).take(limit as usize);
        let found = found.filter_map(|(_, no)| self.runs.get(no));
        Ok(found.map(|run| run.row.clone()).collect())
    }

    fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>> {
        let found = self.newest_first(query).into_iter();
        let found = found.filter(|row| self.matches(query, row));
        Ok(found.take(query.limit as usize).cloned().collect())
    }

    fn run_count(&self, query: &RunQuery) -> Result<u64> {
        Ok(self.runs(query)?.len() as u64)
    }

    fn horizon(&self, query: &RunQuery, looks: u32) -> Result<Option<RunPlace>> {
        let mut looked_at = self.newest_first(query).into_iter().filter(|row| {
            match (&query.correlation, query.parent, query.tags.iter().next()) {
                (Some(wanted), ..) => row.correlation.as_ref() == Some(wanted),
                (None, Some(wanted), _) => is_child(row, wanted),
                (None, None, Some((name, value))) => row.tags.get(name) == Some(value),
                (None, None, None) => true,
            }
        });
        let last = looked_at.nth(looks.saturating_sub(1) as usize);
        Ok(last.map(RunRow::place))
    }

    fn owned(&self, after: Option<(Incarnation, RunNo)>, limit: u32) -> Result<Vec<RunRow>> {
        let rows = self.runs.values().map(|run| &run.row);
        let owned = rows.filter_map(|row| Some(((row.owner?, row.no), row)));
        let owned: BTreeMap<_, _> = owned.filter(|(at, _)| Some(*at) > after).collect();
        Ok(owned.into_values().take(limit as usize).cloned().collect())
    }

    /// The runs between the places of a query.
    fn newest_first(&self, query: &RunQuery) -> Vec<&RunRow> {
        let rows = self.runs.values().map(|run| &run.row).filter(|row| {
            let at = row.place();
            query.before.is_none_or(|before| at < before)
                && query.down_to.is_none_or(|down_to| at >= down_to)
                && query.since_ms.is_none_or(|since| row.created_ms >= since)
                && query.until_ms.is_none_or(|until| row.created_ms < until)
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|row| Reverse(row.place()));
        rows
    }

    fn matches(&self, query: &RunQuery, row: &RunRow) -> bool {
        let definition = self.definitions.get(&row.definition);
        let name = definition.map(|definition| &definition.name);
        let code = row.failure.as_ref().map(|failure| failure.code.as_str());
        (query.statuses.is_empty() || query.statuses.contains(&row.status))
            && (query.workflow.is_none() || query.workflow.as_ref() == name)
            && (query.correlation.is_none() || query.correlation == row.correlation)
            && (query.failure.is_none() || query.failure.as_deref() == code)
            && query.parent.is_none_or(|parent| is_child(row, parent))
            && (query.tags.iter()).all(|(name, value)| row.tags.get(name) == Some(value))
    }

    fn input(&self, run: RunNo) -> Result<Option<Payload>> {
        Ok(self.of(run, |run| run.input.clone()))
    }

    fn output(&self, run: RunNo) -> Result<Option<Payload>> {
        Ok(self.of(run, |run| run.output.clone()).flatten())
    }

    fn vars(&self, run: RunNo, scope: ScopeNo) -> Result<Vec<(String, Payload)>> {
        let vars = self.of(run, |run| run.vars.clone());
        let vars = vars.into_iter().flatten();
        let vars = vars.filter(|((of, _), _)| *of == scope);
        Ok(vars.map(|((_, name), value)| (name, value)).collect())
    }

    fn vars_after(
        &self,
        run: RunNo,
        scope: ScopeNo,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<(String, Payload)>> {
        let mut vars = self.vars(run, scope)?;
        vars.retain(|(name, _)| after.is_none_or(|after| name.as_str() > after));
        vars.truncate(limit as usize);
        Ok(vars)
    }

    fn var(&self, run: RunNo, scope: ScopeNo, name: &str) -> Result<Option<Payload>> {
        let mut vars = self.vars(run, scope)?.into_iter();
        Ok(vars.find_map(|(of, value)| (of == name).then_some(value)))
    }

    fn scopes(&self, run: RunNo) -> Result<Vec<(ScopeNo, Bytes)>> {
        let scopes = self.of(run, |run| run.scopes.clone());
        Ok(scopes.unwrap_or_default().into_iter().collect())
    }

    fn items(&self, run: RunNo, list: Seq, from: u32, limit: u32) -> Result<Vec<(u32, Payload)>> {
        let items = self.of(run, |run| {
            let items = run.items.range((list, from)..=(list, u32::MAX));
            let items = items.map(|((_, index), output)| (*index, output.clone()));
            items.take(limit as usize).collect()
        });
        Ok(items.unwrap_or_default())
    }

    fn execution(&self, no: ExecutionNo) -> Result<Option<ExecutionRow>> {
        Ok(self.executions.get(&no).cloned())
    }

    fn execution_output(&self, no: ExecutionNo) -> Result<Option<Payload>> {
        Ok(self
            .executions
            .get(&no)
            .and_then(|execution| execution.output.clone()))
    }

    fn executions(
        &self,
        run: RunNo,
        before: Option<ExecutionNo>,
        limit: u32,
    ) -> Result<Vec<ExecutionRow>> {
        let mut next = match before {
            None => self.runs.get(&run).and_then(|run| run.row.last_execution),
            Some(before) => self
                .executions
                .get(&before)
                .filter(|execution| execution.run == run)
                .and_then(|execution| execution.previous),
        };
        let mut found = Vec::new();
        while found.len() < limit as usize {
            let Some(execution) = next.and_then(|no| self.executions.get(&no)) else {
                break;
            };
            next = execution.previous;
            found.push(execution.clone());
        }
        Ok(found)
    }

    fn journal(&self, run: RunNo) -> Result<Vec<JournalRow>> {
        let journal = self.of(run, |run| run.journal.clone()).unwrap_or_default();
        Ok(journal
            .into_iter()
            .filter(|entry| !entry.is_event())
            .collect())
    }

    fn events(&self, run: RunNo, skip: u32, limit: u32) -> Result<Vec<JournalRow>> {
        let journal = self.of(run, |run| run.journal.clone()).unwrap_or_default();
        let events = journal.into_iter().filter(JournalRow::is_event);
        Ok(events.skip(skip as usize).take(limit as usize).collect())
    }

    fn journal_after(&self, run: RunNo, skip: u32, limit: u32) -> Result<Vec<JournalRow>> {
        let journal = self.journal(run)?.into_iter();
        Ok(journal.skip(skip as usize).take(limit as usize).collect())
    }

    fn triggers_after(
        &self,
        run: RunNo,
        after: Option<DuePlace>,
        limit: u32,
    ) -> Result<Vec<TriggerRow>> {
        let mut rows = self.triggers(run)?;
        rows.sort_by_key(|row| (row.due_ms, row.no));
        rows.retain(|row| {
            after.is_none_or(|after| (row.due_ms, row.no) > (after.due_ms, after.no))
        });
        rows.truncate(limit as usize);
        Ok(rows)
    }

    fn parked(&self, after: Option<(RunNo, TriggerNo)>, limit: u32) -> Result<Vec<TriggerRow>> {
        let rows = self.triggers.values();
        let parked = rows.filter(|row| row.state == TriggerState::Parked);
        let by_run: BTreeMap<_, _> = parked.map(|row| ((row.run, row.no), row)).collect();
        let rows = by_run.into_iter();
        let rows = rows.filter(|(at, _)| after.is_none_or(|after| *at > after));
        Ok(rows
            .take(limit as usize)
            .map(|(_, row)| row.clone())
            .collect())
    }

    fn park_reason(&self, trigger: TriggerNo) -> Result<Option<String>> {
        let row = self.triggers.get(&trigger);
        let is_parked = row.is_some_and(|row| row.state == TriggerState::Parked);
        let reason = self.park_reasons.get(&trigger).filter(|_| is_parked);
        Ok(reason.cloned())
    }

    fn triggers(&self, run: RunNo) -> Result<Vec<TriggerRow>> {
        let numbers = self.triggers_of(run);
        let by_seq: BTreeMap<_, _> = numbers
            .iter()
            .filter_map(|no| self.triggers.get(no))
            .map(|row| ((row.seq, row.no), row.clone()))
            .collect();
        Ok(by_seq.into_values().collect())
    }

    fn definition(&self, digest: Digest) -> Result<Option<DefinitionRow>> {
        Ok(self.definitions.get(&digest).cloned())
    }

    fn pins(&self, digest: Digest) -> Result<Option<PinsRow>> {
        Ok(self.pins.get(&digest).cloned())
    }

    fn published_text(&self, name: &str, version: u32) -> Result<Option<Bytes>> {
        Ok(self.texts.get(&(name.to_owned(), version)).cloned())
    }

    fn bindings(&self, hash: Digest) -> Result<Vec<BindingRow>> {
        Ok(self.bindings_where(|row| row.binding.hash == hash))
    }

    fn bindings_of(&self, workflow: &str) -> Result<Vec<BindingRow>> {
        let mut rows = self.bindings_where(|row| row.workflow == workflow);
        rows.sort_by(|a, b| a.binding.key.cmp(&b.binding.key));
        Ok(rows)
    }

    fn trigger(&self, target: TriggerTarget) -> Result<Option<TriggerRow>> {
        Ok(match target {
            TriggerTarget::External(name) => {
                let named = self.external.get(&name);
                named.and_then(|named| self.row_of(named)).cloned()
            }
            TriggerTarget::Row(run, seq) => self.row_by_seq(run, seq).cloned(),
        })
    }

    fn external(&self, id: TriggerId) -> Result<Option<ExternalRow>> {
        let named = self.external.get(&id);
        Ok(named.and_then(|named| {
            Some(ExternalRow {
                id,
                run: named.run,
                run_id: self.runs.get(&named.run)?.row.id,
                seq: Seq::external(named.trigger),
                row: self.row_of(named).cloned(),
                closed: named.closed,
            })
        }))
    }

    fn due(&self, query: &DueQuery) -> Result<Vec<TriggerRow>> {
        let rows = self.due.iter().filter_map(|due| self.triggers.get(&due.3));
        let mut rows: Vec<_> = rows
            .filter(|row| row.due_ms <= query.until_ms)
            .filter(|row| query.after.is_none_or(|after| DuePlace::from(*row) > after))
            .collect();
        rows.sort_by_key(|row| DuePlace::from(*row));
        let rows = rows.into_iter().take(query.limit as usize);
        Ok(rows.cloned().collect())
    }

    fn bookmarks(&self, query: &BookmarkQuery) -> Result<Vec<BookmarkRow>> {
        let rows = self.stimuli.bookmarks.values().filter(|row| {
            let bookmark = &row.bookmark;
            query.run.is_none_or(|no| no == row.run)
                && query
                    .name
                    .as_ref()
                    .is_none_or(|name| *name == bookmark.name)
                && (query.correlation.is_none() || query.correlation == bookmark.correlation)
                && query.hash.is_none_or(|hash| hash == bookmark.hash)
                && query.after.is_none_or(|after| row.no > after)
        });
        let rows = rows.take(query.limit as usize);
        Ok(rows.map(|row| self.bookmark_row(row)).collect())
    }

    fn bookmark(&self, no: BookmarkNo) -> Result<Option<BookmarkRow>> {
        let row = self.stimuli.bookmarks.get(&no);
        Ok(row.map(|row| self.bookmark_row(row)))
    }

    fn bookmark_by_token(&self, token: Digest) -> Result<Option<BookmarkRow>> {
        let mut rows = self.stimuli.bookmarks.values();
        let row = rows.find(|row| row.bookmark.token == token);
        Ok(row.map(|row| self.bookmark_row(row)))
    }

    fn queued(&self, query: &StimulusQuery) -> Result<Vec<QueuedRow>> {
        let rows = self.stimuli.kept.iter().filter_map(|(no, kept)| {
            Some(QueuedRow {
                no: *no,
                stimulus: kept.stimulus.clone(),
                source: kept.source,
                cursor: kept.cursor,
                attempts: kept.attempts,
                ready_ms: kept.ready_ms?,
                last_error: kept.last_error.clone(),
            })
        });
        // In order of arrival, so that a waiting stimulus comes before those that it holds up.
        let mut holding = BTreeSet::new();
        let rows = rows.filter(move |row| {
            let Some(ready_ms) = query.ready_ms else {
                return true;
            };
            let waits = row.ready_ms > ready_ms;
            if waits {
                holding.extend(row.source);
            }
            let held = row.source.is_some_and(|source| holding.contains(&source));
            !waits && !held
        });
        let rows = rows.filter(|row| query.after.is_none_or(|after| row.no > after));
        Ok(rows.take(query.limit as usize).collect())
    }

    fn buffered(&self, query: &StimulusQuery) -> Result<Vec<BufferedRow>> {
        let rows = self.stimuli.kept.iter().filter_map(|(no, kept)| {
            Some(BufferedRow {
                no: *no,
                stimulus: kept.stimulus.clone(),
                expires_ms: kept.expires_ms?,
            })
        });
        let rows = rows.filter(|row| query.after.is_none_or(|after| row.no > after));
        Ok(rows.take(query.limit as usize).collect())
    }

    fn dead_letters(&self, query: &LetterQuery) -> Result<Vec<LetterRow>> {
        let is_listed = |row: &&LetterRow| {
            let of = match &row.letter.body {
                LetterBody::Trigger(dead) => Some(dead.run),
                LetterBody::Stimulus(_) => None,
            };
            query.kind.is_none_or(|kind| kind == row.letter.body.kind())
                && (query.run.is_none() || query.run == of)
                && query.after.is_none_or(|after| match query.newest {
                    true => row.no < after,
                    false => row.no > after,
                })
        };
        let (rows, limit) = (self.letters.values(), query.limit as usize);
        let row = |row| named(self, row);
        Ok(match query.newest {
            true => rows.rev().filter(is_listed).take(limit).map(row).collect(),
            false => rows.filter(is_listed).take(limit).map(row).collect(),
        })
    }

    fn dead_letter(&self, no: LetterNo) -> Result<Option<LetterRow>> {
        Ok(self.letters.get(&no).map(|row| named(self, row)))
    }

    fn children(&self, parent: RunNo, after: Option<RunPlace>, limit: u32) -> Result<Vec<RunRow>> {
        let rows = self.runs.values().map(|run| &run.row);
        let rows = rows
            .filter(|row| is_child(row, parent) && after.is_none_or(|after| row.place() > after));
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|row| row.place());
        Ok(rows.into_iter().take(limit as usize).cloned().collect())
    }

    fn blob(&self, blob: BlobRef) -> Result<Option<Bytes>> {
        Ok(self.blobs.get(&blob.digest).map(|(_, bytes)| bytes.clone()))
    }

    fn blob_part(&self, blob: BlobRef, from: u32, limit: u32) -> Result<Option<Bytes>> {
        Ok(self.blobs.get(&blob.digest).map(|(_, bytes)| {
            let from = bytes.len().min(from as usize);
            let to = bytes.len().min(from.saturating_add(limit as usize));
            bytes.slice(from..to)
        }))
    }

    fn members(&self) -> Result<Vec<MemberRow>> {
        Ok(self
            .members
            .values()
            .map(|member| member.row.clone())
            .collect())
    }

    fn setting(&self, name: &str) -> Result<Option<Bytes>> {
        Ok(self.settings.get(name).cloned())
    }

    fn backlog(&self, now_ms: i64, limit: u32) -> Result<Backlog> {
        let rows = self.due.iter().filter_map(|due| self.triggers.get(&due.3));
        let due = rows.filter(|row| row.due_ms <= now_ms);
        let due = due.take(limit as usize).count() as u64;
        let waiting = self.due.iter().take(limit as usize).count() as u64;
        let parked = self.triggers.values();
        let parked = parked.filter(|row| row.state == TriggerState::Parked);
        let dead = self.letters.values();
        let dead = dead.filter(|letter| letter.replayed_ms.is_none());
        Ok(Backlog {
            due,
            pending: waiting.saturating_sub(due),
            parked: parked.take(limit as usize).count() as u64,
            dead: dead.take(limit as usize).count() as u64,
        })
    }

    fn counts(&self) -> Result<Counts> {
        let unfinished = self.runs.values();
        let unfinished = unfinished.filter(|run| !run.row.status.is_final()).count();
        let parked = self.triggers.values();
        let parked = parked
            .filter(|row| row.state == TriggerState::Parked)
            .count();
        let kept = |is: fn(&KeptStimulus) -> bool| {
            let kept = self.stimuli.kept.values();
            kept.filter(|kept| is(kept)).count() as u64
        };
        Ok(Counts {
            runs: self.runs.len() as u64,
            unfinished: unfinished as u64,
            triggers: self.triggers.len() as u64,
            parked: parked as u64,
            executions: self.executions.len() as u64,
            blobs: self.blobs.len() as u64,
            bookmarks: self.stimuli.bookmarks.len() as u64,
            queued: kept(|kept| kept.ready_ms.is_some()),
            buffered: kept(|kept| kept.expires_ms.is_some()),
            dead_letters: self.letters.len() as u64,
        })
    }
}

/// Adds the id of its run to a dead letter.
fn named(data: &Data, row: &LetterRow) -> LetterRow {
    let run_id = match &row.letter.body {
        LetterBody::Stimulus(dead) => dead.run,
        LetterBody::Trigger(dead) => data.runs.get(&dead.run).map(|of| of.row.id),
    };
    LetterRow {
        run_id,
        ..row.clone()
    }
}
