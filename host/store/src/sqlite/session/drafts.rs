//! Drafts, sources and requests to look at definitions again.

use rusqlite::OptionalExtension as _;
use windlass_model::UpkeepNo;

use super::{Done, Session};
use crate::drafts::{NewDraft, UPKEEP_ROWS, Upkeep, UpkeepOp};
use crate::rows::DefinitionRow;
use crate::sql::drafts::{REFRESH, REFRESH_ALL, RELOAD};
use crate::write::Wrote;

impl Session<'_> {
    pub(super) fn save_draft(&mut self, new: &NewDraft) -> Done<Wrote> {
        new.check()?;
        if let Some(expected) = new.expected
            && expected != self.draft_revision(&new.name)?
        {
            return Ok(Wrote::Fenced);
        }
        let sql = "INSERT OR REPLACE INTO draft (name, based_on, saved_ms, content) \
            VALUES (?1, ?2, ?3, ?4)";
        let row = (&new.name, new.based_on, new.at_ms, &new.content[..]);
        self.connection.prepare_cached(sql)?.execute(row)?;
        let revision = self.connection.last_insert_rowid().cast_unsigned();
        Ok(Wrote::Drafted { revision })
    }

    pub(super) fn discard_draft(&mut self, name: &str, revision: Option<u64>) -> Done<Wrote> {
        let sql = "DELETE FROM draft WHERE name = ?1 AND (?2 IS NULL OR no = ?2)";
        let key = (name, revision.map(u64::cast_signed));
        let gone = self.connection.prepare_cached(sql)?.execute(key)?;
        Ok(if gone == 1 {
            Wrote::Done
        } else {
            Wrote::Fenced
        })
    }

    /// Removes the draft that a version was made from. False if it is another one by now.
    pub(super) fn take_draft(&mut self, name: &str, revision: Option<u64>) -> Done<bool> {
        match revision {
            None => Ok(true),
            Some(revision) => Ok(matches!(
                self.discard_draft(name, Some(revision))?,
                Wrote::Done
            )),
        }
    }

    /// The revision of a draft; 0 if there is none.
    fn draft_revision(&self, name: &str) -> Done<u64> {
        let sql = "SELECT no FROM draft WHERE name = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let no: Option<i64> = statement.query_row([name], |row| row.get(0)).optional()?;
        Ok(no.unwrap_or(0).cast_unsigned())
    }

    pub(super) fn note_source(
        &mut self,
        source: &str,
        definition: &DefinitionRow,
        version: u32,
    ) -> Done<()> {
        let sql = "INSERT OR REPLACE INTO source (name, workflow, version, definition) \
            VALUES (?1, ?2, ?3, ?4)";
        let row = (source, &definition.name, version, &definition.digest.0[..]);
        self.connection.prepare_cached(sql)?.execute(row)?;
        Ok(())
    }

    pub(super) fn drop_source(&mut self, name: &str, retract: bool, at_ms: i64) -> Done<Wrote> {
        let sql = "DELETE FROM source WHERE name = ?1 RETURNING workflow, version";
        let gone: Option<(String, u32)> = self
            .connection
            .prepare_cached(sql)?
            .query_row([name], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((workflow, version)) = gone.filter(|_| retract) else {
            return Ok(Wrote::Retracted(None));
        };
        let sql = "SELECT 1 FROM source WHERE workflow = ?1 AND version = ?2";
        let elsewhere = self
            .connection
            .prepare_cached(sql)?
            .exists((&workflow, version))?;
        if elsewhere || self.published_version(&workflow)? != Some(version) {
            return Ok(Wrote::Retracted(None));
        }
        self.retract(&workflow, None, at_ms)
    }

    pub(super) fn upkeep(&mut self, op: &UpkeepOp) -> Done<Wrote> {
        match op {
            UpkeepOp::Request { what, at_ms } => {
                what.check()?;
                let no = self.request(what, *at_ms)?;
                Ok(Wrote::Requested(UpkeepNo(no)))
            }
            UpkeepOp::Done(numbers) => {
                for no in numbers {
                    self.connection
                        .prepare_cached("DELETE FROM upkeep WHERE no = ?1")?
                        .execute([no.0])?;
                }
                Ok(Wrote::Done)
            }
        }
    }

    fn request(&self, what: &Upkeep, at_ms: i64) -> Done<i64> {
        let (kind, names) = match what {
            Upkeep::Refresh(_) if self.refreshes()? >= UPKEEP_ROWS => (REFRESH_ALL, None),
            Upkeep::Refresh(names) => (REFRESH, serde_json::to_string(names).ok()),
            Upkeep::RefreshAll => (REFRESH_ALL, None),
            Upkeep::Reload => (RELOAD, None),
        };
        // What is asked for anew includes these.
        let sql = "DELETE FROM upkeep WHERE kind = ?1 AND ?1 <> ?2 OR kind = ?2 AND ?1 = ?3";
        self.connection
            .prepare_cached(sql)?
            .execute((kind, REFRESH, REFRESH_ALL))?;
        let sql = "INSERT INTO upkeep (kind, names, at_ms) VALUES (?1, ?2, ?3)";
        self.connection
            .prepare_cached(sql)?
            .execute((kind, names, at_ms))?;
        Ok(self.connection.last_insert_rowid())
    }

    fn refreshes(&self) -> Done<u32> {
        let sql = "SELECT count(*) FROM upkeep WHERE kind = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        Ok(statement.query_row([REFRESH], |row| row.get(0))?)
    }
}
