//! Drafts, sources and requests in memory.

use windlass_model::UpkeepNo;

use super::data::Data;
use crate::drafts::{DraftRow, NewDraft, UPKEEP_ROWS, Upkeep, UpkeepOp, UpkeepRow};
use crate::error::Result;
use crate::write::Wrote;

impl Data {
    pub(super) fn save_draft(&mut self, new: &NewDraft) -> Result<Wrote> {
        new.check()?;
        let current = self.drafts.get(&new.name).map_or(0, |row| row.revision);
        if new.expected.is_some_and(|expected| expected != current) {
            return Ok(Wrote::Fenced);
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
        Ok(Wrote::Drafted { revision })
    }

    pub(super) fn discard_draft(&mut self, name: &str, revision: Option<u64>) -> Wrote {
        let current = self.drafts.get(name);
        let meant =
            current.is_some_and(|row| revision.is_none_or(|revision| row.revision == revision));
        if !meant {
            return Wrote::Fenced;
        }
        self.drafts.remove(name);
        Wrote::Done
    }

    /// Removes the draft that a version was made from. False if it is another one by now.
    pub(super) fn take_draft(&mut self, name: &str, revision: Option<u64>) -> bool {
        revision.is_none() || matches!(self.discard_draft(name, revision), Wrote::Done)
    }

    pub(super) fn drop_source(&mut self, name: &str, retract: bool, at_ms: i64) -> Wrote {
        let Some(gone) = self.sources.remove(name).filter(|_| retract) else {
            return Wrote::Retracted(None);
        };
        let mut others = self.sources.values();
        let elsewhere =
            others.any(|row| row.workflow == gone.workflow && row.version == gone.version);
        let current = self.published(&gone.workflow);
        if elsewhere || current.is_none_or(|current| current.version != gone.version) {
            return Wrote::Retracted(None);
        }
        self.retract(&gone.workflow, None, at_ms)
    }

    pub(super) fn upkeep(&mut self, op: &UpkeepOp) -> Result<Wrote> {
        match op {
            UpkeepOp::Request { what, at_ms } => {
                what.check()?;
                Ok(Wrote::Requested(self.request(what, *at_ms)))
            }
            UpkeepOp::Done(numbers) => {
                self.upkeep.retain(|no, _| !numbers.contains(no));
                Ok(Wrote::Done)
            }
        }
    }

    fn request(&mut self, what: &Upkeep, at_ms: i64) -> UpkeepNo {
        let is_some = |row: &&UpkeepRow| matches!(row.what, Upkeep::Refresh(_));
        let waiting = self.upkeep.values().filter(is_some).count();
        let what = match what {
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
        let what = what.clone();
        self.upkeep.insert(no, UpkeepRow { no, what, at_ms });
        no
    }
}
