//! Batches in memory.

use windlass_model::BatchNo;

use super::data::Data;
use crate::batches::{AddBatch, BatchQuery, BatchRow, KEPT, MoveBatch, WORKING};
use crate::error::Result;
use crate::write::{Fenced, OrFenced};

impl Data {
    pub(super) fn batch(&self, no: BatchNo) -> Result<Option<BatchRow>> {
        Ok(self.batches.get(&no).cloned())
    }

    pub(super) fn batches(&self, query: &BatchQuery) -> Result<Vec<BatchRow>> {
        let below = |row: &&BatchRow| query.before.is_none_or(|before| row.no < before);
        let rows = self.batches.values().filter(below);
        let limit = query.limit as usize;
        Ok(match query.working {
            true => {
                let working = rows.filter(|row| row.ended_ms.is_none());
                working.take(limit).cloned().collect()
            }
            false => rows.rev().take(limit).cloned().collect(),
        })
    }

    pub(super) fn add_batch(&mut self, new: &AddBatch) -> Result<OrFenced<BatchNo>> {
        new.check()?;
        let working = self.batches.values().filter(|row| row.ended_ms.is_none());
        if working.count() >= WORKING as usize {
            return Ok(Err(Fenced));
        }
        self.last_batch += 1;
        let no = BatchNo(self.last_batch);
        self.batches
            .retain(|of, row| of.0 > no.0 - KEPT || row.ended_ms.is_none());
        let row = BatchRow {
            no,
            what: new.what.clone(),
            progress: new.progress.clone(),
            revision: 0,
            created_ms: new.at_ms,
            ended_ms: None,
        };
        self.batches.insert(no, row);
        Ok(Ok(no))
    }

    pub(super) fn move_batch(&mut self, change: &MoveBatch) -> Result<OrFenced<()>> {
        change.check()?;
        let row = self.batches.get_mut(&change.no);
        let row = row.filter(|row| row.revision == change.revision && row.ended_ms.is_none());
        let Some(row) = row else {
            return Ok(Err(Fenced));
        };
        row.progress = change.progress.clone();
        row.revision += 1;
        row.ended_ms = change.ends.then_some(change.at_ms);
        Ok(Ok(()))
    }
}
