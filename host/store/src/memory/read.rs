//! Reading what is in memory.

use std::collections::BTreeMap;

use bytes::Bytes;
use windlass_model::{
    BlobRef, BookmarkNo, Digest, InstanceId, InstanceNo, LetterNo, Payload, RunNo, ScopeNo, Seq,
    TriggerId, TriggerState,
};

use super::MemoryStore;
use super::data::Instance;
use crate::error::Result;
use crate::letters::{LetterQuery, LetterRow};
use crate::outside::{DueQuery, OutsideRow, TriggerTarget};
use crate::prefix;
use crate::published::{BindingRow, PublicationQuery, PublicationRow, ScheduleQuery, ScheduleRow};
use crate::read::{Counts, InstanceQuery, Reader};
use crate::retention::ExpiredRow;
use crate::rows::{DefinitionRow, InstanceRow, JournalRow, MemberRow, PinsRow, RunRow, TriggerRow};
use crate::stimuli::{BookmarkQuery, BookmarkRow, BufferedRow, QueuedRow, StimulusQuery};

impl MemoryStore {
    fn of<T>(&self, no: InstanceNo, read: impl FnOnce(&Instance) -> T) -> Option<T> {
        self.common.data.lock().instances.get(&no).map(read)
    }
}

impl Reader for MemoryStore {
    fn instance(&self, id: InstanceId) -> Result<Option<InstanceRow>> {
        let no = self.common.data.lock().ids.get(&id).copied();
        Ok(no.and_then(|no| self.of(no, |instance| instance.row.clone())))
    }

    fn instance_by_no(&self, no: InstanceNo) -> Result<Option<InstanceRow>> {
        Ok(self.of(no, |instance| instance.row.clone()))
    }

    fn instances_by_prefix(&self, prefix: &str, limit: u32) -> Result<Vec<InstanceRow>> {
        let Some((first, last)) = prefix::range(prefix) else {
            return Ok(Vec::new());
        };
        let id = |bytes| InstanceId(uuid::Uuid::from_bytes(bytes));
        let data = self.common.data.lock();
        let found = data.ids.range(id(first)..=id(last)).take(limit as usize);
        let found = found.filter_map(|(_, no)| data.instances.get(no));
        Ok(found.map(|instance| instance.row.clone()).collect())
    }

    fn instances(&self, query: &InstanceQuery) -> Result<Vec<InstanceRow>> {
        let data = self.common.data.lock();
        let before = query.before.unwrap_or(InstanceNo(i64::MAX));
        let found = data
            .instances
            .range(..before)
            .rev()
            .map(|(_, instance)| &instance.row);
        let found = found.filter(|row| {
            let definition = data.definitions.get(&row.definition);
            let name = definition.map(|definition| &definition.name);
            (query.statuses.is_empty() || query.statuses.contains(&row.status))
                && (query.workflow.is_none() || query.workflow.as_ref() == name)
        });
        Ok(found.take(query.limit as usize).cloned().collect())
    }

    fn input(&self, instance: InstanceNo) -> Result<Option<Payload>> {
        Ok(self.of(instance, |instance| instance.input.clone()))
    }

    fn output(&self, instance: InstanceNo) -> Result<Option<Payload>> {
        Ok(self
            .of(instance, |instance| instance.output.clone())
            .flatten())
    }

    fn vars(&self, instance: InstanceNo, scope: ScopeNo) -> Result<Vec<(String, Payload)>> {
        let vars = self.of(instance, |instance| instance.vars.clone());
        let vars = vars.into_iter().flatten();
        let vars = vars.filter(|((of, _), _)| *of == scope);
        Ok(vars.map(|((_, name), value)| (name, value)).collect())
    }

    fn items(
        &self,
        instance: InstanceNo,
        list: Seq,
        from: u32,
        limit: u32,
    ) -> Result<Vec<(u32, Payload)>> {
        let items = self.of(instance, |instance| {
            let items = instance.items.range((list, from)..=(list, u32::MAX));
            let items = items.map(|((_, index), output)| (*index, output.clone()));
            items.take(limit as usize).collect()
        });
        Ok(items.unwrap_or_default())
    }

    fn run(&self, no: RunNo) -> Result<Option<RunRow>> {
        Ok(self.common.data.lock().runs.get(&no).cloned())
    }

    fn run_output(&self, no: RunNo) -> Result<Option<Payload>> {
        let data = self.common.data.lock();
        Ok(data.runs.get(&no).and_then(|run| run.output.clone()))
    }

    fn runs(&self, instance: InstanceNo, before: Option<RunNo>, limit: u32) -> Result<Vec<RunRow>> {
        let data = self.common.data.lock();
        let mut next = match before {
            None => data
                .instances
                .get(&instance)
                .and_then(|instance| instance.row.last_run),
            Some(before) => data
                .runs
                .get(&before)
                .filter(|run| run.instance == instance)
                .and_then(|run| run.previous),
        };
        let mut found = Vec::new();
        while found.len() < limit as usize {
            let Some(run) = next.and_then(|no| data.runs.get(&no)) else {
                break;
            };
            next = run.previous;
            found.push(run.clone());
        }
        Ok(found)
    }

    fn journal(&self, instance: InstanceNo) -> Result<Vec<JournalRow>> {
        Ok(self
            .of(instance, |instance| instance.journal.clone())
            .unwrap_or_default())
    }

    fn triggers(&self, instance: InstanceNo) -> Result<Vec<TriggerRow>> {
        let data = self.common.data.lock();
        let numbers = data.triggers_of(instance);
        let by_seq: BTreeMap<_, _> = numbers
            .iter()
            .filter_map(|no| data.triggers.get(no))
            .map(|row| ((row.seq, row.no), row.clone()))
            .collect();
        Ok(by_seq.into_values().collect())
    }

    fn definition(&self, digest: Digest) -> Result<Option<DefinitionRow>> {
        Ok(self.common.data.lock().definitions.get(&digest).cloned())
    }

    fn pins(&self, digest: Digest) -> Result<Option<PinsRow>> {
        Ok(self.common.data.lock().pins.get(&digest).cloned())
    }

    fn published(&self, name: &str) -> Result<Option<PublicationRow>> {
        Ok(self.common.data.lock().published(name))
    }

    fn publications(&self, query: &PublicationQuery) -> Result<Vec<PublicationRow>> {
        Ok(self.common.data.lock().publications(query))
    }

    fn bindings(&self, hash: Digest) -> Result<Vec<BindingRow>> {
        let data = self.common.data.lock();
        Ok(data.bindings(|row| row.binding.hash == hash))
    }

    fn bindings_of(&self, workflow: &str) -> Result<Vec<BindingRow>> {
        let data = self.common.data.lock();
        let mut rows = data.bindings(|row| row.workflow == workflow);
        rows.sort_by(|a, b| a.binding.key.cmp(&b.binding.key));
        Ok(rows)
    }

    fn schedules(&self, query: &ScheduleQuery) -> Result<Vec<ScheduleRow>> {
        Ok(self.common.data.lock().schedules(query))
    }

    fn expired(&self, before_ms: i64, limit: u32) -> Result<Vec<ExpiredRow>> {
        Ok(self.common.data.lock().expired(before_ms, limit))
    }

    fn trigger(&self, _target: TriggerTarget) -> Result<Option<TriggerRow>> {
        Ok(None)
    }

    fn outside(&self, _id: TriggerId) -> Result<Option<OutsideRow>> {
        Ok(None)
    }

    fn due(&self, _query: &DueQuery) -> Result<Vec<TriggerRow>> {
        Ok(Vec::new())
    }

    fn bookmarks(&self, _query: &BookmarkQuery) -> Result<Vec<BookmarkRow>> {
        Ok(Vec::new())
    }

    fn bookmark(&self, _no: BookmarkNo) -> Result<Option<BookmarkRow>> {
        Ok(None)
    }

    fn bookmark_by_token(&self, _token: Digest) -> Result<Option<BookmarkRow>> {
        Ok(None)
    }

    fn secret(&self) -> Result<[u8; 32]> {
        Ok([7; 32])
    }

    fn queued(&self, _query: &StimulusQuery) -> Result<Vec<QueuedRow>> {
        Ok(Vec::new())
    }

    fn buffered(&self, _query: &StimulusQuery) -> Result<Vec<BufferedRow>> {
        Ok(Vec::new())
    }

    fn dead_letters(&self, _query: &LetterQuery) -> Result<Vec<LetterRow>> {
        Ok(Vec::new())
    }

    fn dead_letter(&self, _no: LetterNo) -> Result<Option<LetterRow>> {
        Ok(None)
    }

    fn children(
        &self,
        _parent: InstanceNo,
        _after: Option<InstanceNo>,
        _limit: u32,
    ) -> Result<Vec<InstanceRow>> {
        Ok(Vec::new())
    }

    fn blob(&self, blob: BlobRef) -> Result<Option<Bytes>> {
        let data = self.common.data.lock();
        Ok(data.blobs.get(&blob.digest).map(|(_, bytes)| bytes.clone()))
    }

    fn members(&self) -> Result<Vec<MemberRow>> {
        let data = self.common.data.lock();
        Ok(data
            .members
            .values()
            .map(|member| member.row.clone())
            .collect())
    }

    fn counts(&self) -> Result<Counts> {
        let data = self.common.data.lock();
        let unfinished = data.instances.values();
        let unfinished = unfinished
            .filter(|instance| !instance.row.status.is_final())
            .count();
        let parked = data.triggers.values();
        let parked = parked
            .filter(|row| row.state == TriggerState::Parked)
            .count();
        Ok(Counts {
            instances: data.instances.len() as u64,
            unfinished: unfinished as u64,
            triggers: data.triggers.len() as u64,
            parked: parked as u64,
            runs: data.runs.len() as u64,
            blobs: data.blobs.len() as u64,
            ..Counts::default()
        })
    }
}
