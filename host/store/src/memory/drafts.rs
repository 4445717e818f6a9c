//! Drafts, sources and requests in memory.

use windlass_model::UpkeepNo;

use super::data::Data;
use crate::drafts::{
    DiscardDraft, DraftRow, DropSource, NewDraft, RequestUpkeep, SourceRow, UPKEEP_ROWS, Upkeep,
    UpkeepDone, UpkeepRow,
};
use crate::error::Result;
use crate::write::{Fenced, OrFenced};

impl Data {
    pub(super) fn save_draft(&mut self, new: &NewDraft) -> Result<OrFenced<u64>> {
        new.check()?;
        let current = self.drafts.get(&new.name).map_or(0, |row| row.revision);
        if new.expected.is_some_and(|expected| expected != current) {
            return Ok(Err(Fenced));
        }
        self.last_revision += 1;
        let revision = self.last_revision;
        let row = DraftRow {
            name: new.name.clone(),
            revision,
            content: new.content.clone(),
            based_on: new.based_on,
            saved_ms: new.at_ms,
        };
        self.drafts.insert(new.name.clone(), row);
        Ok(Ok(revision))
    }

    pub(super) fn discard_draft(&mut self, draft: &DiscardDraft) -> OrFenced<()> {
        let gone = self.remove_draft(&draft.name, draft.revision);
        if gone { Ok(()) } else { Err(Fenced) }
    }

    /// Removes a draft, or only this revision of it. False if there is none.
    fn remove_draft(&mut self, name: &str, revision: Option<u64>) -> bool {
        let current = self.drafts.get(name).map(|row| row.revision);
        let meant = revision.is_none() || revision == current;
        meant && self.drafts.remove(name).is_some()
    }

    /// Removes the draft that a version was made from. False if the draft has another revision.
    pub(super) fn take_draft(&mut self, name: &str, revision: Option<u64>) -> bool {
        revision.is_none() || self.remove_draft(name, revision)
    }

    pub(super) fn drop_source(&mut self, drop: &DropSource) -> Option<u32> {
        let gone = self.sources.remove(&drop.name);
        let gone = gone.filter(|_| drop.retract)?;
        let mut others = self.sources.values();
        let elsewhere =
            others.any(|row| row.workflow == gone.workflow && row.version == gone.version);
        let current = self.published(&gone.workflow)?;
        if elsewhere || current.version != gone.version {
            return None;
        }
        self.take_back(&gone.workflow, drop.at_ms);
        Some(gone.version)
    }

    pub(super) fn upkeep_done(&mut self, done: &UpkeepDone) {
        self.upkeep.retain(|no, _| !done.0.contains(no));
    }

    pub(super) fn request_upkeep(&mut self, new: &RequestUpkeep) -> Result<UpkeepNo> {
        new.what.check()?;
        let is_some = |row: &&UpkeepRow| matches!(row.what, Upkeep::Refresh(_));
        let waiting = self.upkeep.values().filter(is_some).count();
        let what = match &new.what {
            Upkeep::Refresh(_) if waiting >= UPKEEP_ROWS as usize => &Upkeep::RefreshAll,
            what => what,
        };
        self.upkeep.retain(|_, row| match what {
            Upkeep::Refresh(_) => true,
            Upkeep::Reload => row.what != Upkeep::Reload,
            Upkeep::RefreshAll => row.what == Upkeep::Reload,
        });
        self.last_upkeep += 1;
        let no = UpkeepNo(self.last_upkeep);
        let (what, at_ms) = (what.clone(), new.at_ms);
        self.upkeep.insert(no, UpkeepRow { no, what, at_ms });
        Ok(no)
    }

    pub(super) fn draft(&self, name: &str) -> Result<Option<DraftRow>> {
        Ok(self.drafts.get(name).cloned())
    }

    pub(super) fn drafts(&self, after: Option<&str>, limit: u32) -> Result<Vec<DraftRow>> {
        let rows = self.drafts.values();
        let rows = rows.filter(|row| after.is_none_or(|after| row.name.as_str() > after));
        Ok(rows.take(limit as usize).cloned().collect())
    }

    pub(super) fn source(&self, name: &str) -> Result<Option<SourceRow>> {
        Ok(self.sources.get(name).cloned())
    }

    pub(super) fn sources(&self, after: Option<&str>, limit: u32) -> Result<Vec<SourceRow>> {
        let rows = self.sources.values();
        let rows = rows.filter(|row| after.is_none_or(|after| row.name.as_str() > after));
        Ok(rows.take(limit as usize).cloned().collect())
    }

    pub(super) fn upkeep(&self, limit: u32) -> Result<Vec<UpkeepRow>> {
        Ok(self.upkeep.values().take(limit as usize).cloned().collect())
    }
}
