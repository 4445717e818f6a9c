//! Deletion of runs in memory: at once, because no disk write slows it down.

use std::collections::{BTreeMap, BTreeSet};

use windlass_model::{Body, Digest, Payload, RunId, RunNo};

use super::data::Data;
use crate::retention::{ExpiredRow, Forget, Forgotten, Sweep, Sweepable, Swept};
use crate::rows::NewBlob;

impl Data {
    pub(super) fn forget(&mut self, forget: &Forget) -> Forgotten {
        let (no, before_ms) = (forget.run, forget.before_ms);
        self.tombstones
            .retain(|_, (of, at_ms)| *of != no || *at_ms >= before_ms);
        if self.is_over(no, before_ms, forget.at_ms) {
            self.remove_run(no, forget.at_ms);
        }
        Forgotten { more: false }
    }

    /// Deletes a run with all its rows.
    pub(super) fn remove_run(&mut self, no: RunNo, at_ms: i64) -> Option<RunId> {
        let run = self.runs.remove(&no)?;
        self.ending.remove(&no);
        let root = run.row.root();
        let mut rows = self.runs.values().map(|run| &run.row);
        if !rows.any(|row| row.root() == root) {
            self.trees.remove(&root);
        }
        self.ids.remove(&run.row.id);
        for trigger in self.triggers_of(no) {
            self.remove_trigger(trigger);
        }
        let mut last_execution = run.row.last_execution;
        while let Some(execution) =
            last_execution.and_then(|execution| self.executions.remove(&execution))
        {
            last_execution = execution.previous;
        }
        self.reservations.retain(|(_, of)| *of != no);
        self.external.retain(|_, named| named.run != no);
        self.burn_all(no);
        self.loosen_blobs(no, at_ms);
        Some(run.row.id)
    }

    /// Releases the references to blobs. A later sweep checks whether each blob is still needed.
    pub(super) fn loosen_blobs(&mut self, no: RunNo, at_ms: i64) {
        let held = self.blob_refs.iter().filter(|(of, _)| *of == no);
        for digest in held.map(|(_, digest)| *digest).collect::<Vec<_>>() {
            self.blob_refs.remove(&(no, digest));
            let since = self.loose.entry(digest).or_insert(at_ms);
            *since = at_ms.max(*since);
        }
    }

    fn is_over(&self, no: RunNo, before_ms: i64, now_ms: i64) -> bool {
        self.runs.get(&no).is_some_and(|run| {
            let row = &run.row;
            let over = row.finished_ms.is_some_and(|at_ms| match run.keep_ms {
                Some(keep_ms) => at_ms.saturating_add_unsigned(keep_ms) < now_ms,
                None => at_ms < before_ms,
            });
            over && row.status.is_final()
        })
    }

    pub(super) fn expired(&self, before_ms: i64, now_ms: i64, limit: u32) -> Vec<ExpiredRow> {
        let rows = self.runs.values().map(|run| &run.row);
        let mut over: Vec<_> = rows
            .filter(|row| self.is_over(row.no, before_ms, now_ms))
            .map(|row| (row.finished_ms, row.no, row.id))
            .collect();
        let tombstones = self.tombstones.iter();
        let tombstones = tombstones.filter(|(_, (_, at_ms))| *at_ms < before_ms);
        over.extend(tombstones.map(|(id, (no, at_ms))| (Some(*at_ms), *no, *id)));
        over.sort_unstable();
        over.truncate(limit as usize);
        let row = |(_, no, id)| ExpiredRow { no, id: Some(id) };
        over.into_iter().map(row).collect()
    }

    /// Writes blobs, and notes that the run refers to them.
    pub(super) fn put_blobs(&mut self, run: RunNo, blobs: &[NewBlob], at_ms: i64) {
        for blob in blobs {
            let kept = self.blobs.entry(blob.digest);
            let kept = kept.or_insert_with(|| (at_ms, blob.bytes.clone()));
            kept.0 = at_ms.max(kept.0);
            self.hold_blob(run, blob.digest);
        }
    }

    /// Notes that a run refers to the blob of a payload, if the payload has one.
    pub(super) fn refer(&mut self, run: RunNo, payload: &Payload) {
        if let Body::Blob(blob) = &payload.body {
            self.hold_blob(run, blob.digest);
        }
    }

    pub(super) fn hold_blob(&mut self, run: RunNo, digest: Digest) {
        if self.blobs.contains_key(&digest) {
            self.blob_refs.insert((run, digest));
        }
    }

    pub(super) fn sweep(&mut self, sweep: &Sweep) -> Swept {
        let count = match sweep.what {
            Sweepable::Documents => self.sweep_documents(sweep.before_ms, sweep.at_ms),
            Sweepable::Blobs => self.sweep_blobs(sweep.before_ms),
            Sweepable::Pages => 0,
        };
        Swept { count, more: false }
    }

    fn sweep_blobs(&mut self, before_ms: i64) -> u32 {
        let due = self.loose.iter().filter(|(_, since)| **since < before_ms);
        let mut count = 0;
        for digest in due.map(|(digest, _)| *digest).collect::<Vec<_>>() {
            let touched_ms = self.blobs.get(&digest).map_or(0, |(touched, _)| *touched);
            let needed = self.blob_refs.iter().any(|(_, held)| *held == digest);
            if !needed && touched_ms >= before_ms {
                self.loose.insert(digest, touched_ms);
                continue;
            }
            self.loose.remove(&digest);
            if !needed && self.blobs.remove(&digest).is_some() {
                count += 1;
            }
        }
        count
    }

    fn sweep_documents(&mut self, before_ms: i64, at_ms: i64) -> u32 {
        let rows = || self.runs.values().map(|run| &run.row);
        let versions = self.publications.values().map(|row| row.definition);
        let mut used: BTreeSet<Digest> = versions.collect();
        used.extend(rows().map(|row| row.definition));
        used.extend(rows().map(|row| row.pins));
        let documents = self.definitions.keys().chain(self.pins.keys());
        let mut gone = Vec::new();
        let mut unused = BTreeMap::new();
        for digest in documents.filter(|digest| !used.contains(digest)) {
            let since_ms = *self.unused.get(digest).unwrap_or(&at_ms);
            if self.unused.contains_key(digest) && since_ms < before_ms {
                gone.push(*digest);
            } else {
                unused.insert(*digest, since_ms);
            }
        }
        self.unused = unused;
        for digest in &gone {
            self.definitions.remove(digest);
            self.pins.remove(digest);
        }
        u32::try_from(gone.len()).unwrap_or(u32::MAX)
    }
}
