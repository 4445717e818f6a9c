//! Drafts, sources and requests to look at definitions again.

use windlass_model::UpkeepNo;

use super::{Done, Session, get};
use crate::drafts::{NewDraft, UPKEEP_ROWS, Upkeep, UpkeepOp};
use crate::rows::DefinitionRow;
use crate::sql::drafts::{REFRESH, REFRESH_ALL, RELOAD};
use crate::sql::row::small;
use crate::write::Wrote;

impl Session<'_> {
    pub(super) async fn save_draft(&mut self, new: &NewDraft) -> Done<Wrote> {
        new.check()?;
        self.lock_workflow(&new.name).await?;
        if let Some(expected) = new.expected
            && expected != self.draft_revision(&new.name).await?
        {
            return Ok(Wrote::Fenced);
        }
        self.later("DELETE FROM draft WHERE name = $1", &[&new.name])
            .await?;
        let sql = "INSERT INTO draft (name, based_on, saved_ms, content) \
            VALUES ($1, $2, $3, $4) RETURNING no";
        let (based_on, content) = (new.based_on.map(i64::from), &new.content[..]);
        let row = self
            .row(sql, &[&new.name, &based_on, &new.at_ms, &content])
            .await?;
        let revision = get::<i64>(&row, 0)?.cast_unsigned();
        Ok(Wrote::Drafted { revision })
    }

    pub(super) async fn discard_draft(&mut self, name: &str, revision: Option<u64>) -> Done<Wrote> {
        let sql = "DELETE FROM draft WHERE name = $1 AND ($2::bigint IS NULL OR no = $2)";
        let revision = revision.map(u64::cast_signed);
        let gone = self.execute(sql, &[&name, &revision]).await?;
        Ok(if gone == 1 {
            Wrote::Done
        } else {
            Wrote::Fenced
        })
    }

    /// Removes the draft that a version was made from. False if it is another one by now.
    pub(super) async fn take_draft(&mut self, name: &str, revision: Option<u64>) -> Done<bool> {
        Ok(match revision {
            None => true,
            revision => matches!(self.discard_draft(name, revision).await?, Wrote::Done),
        })
    }

    /// The revision of a draft; 0 if there is none.
    async fn draft_revision(&mut self, name: &str) -> Done<u64> {
        let sql = "SELECT no FROM draft WHERE name = $1 FOR UPDATE";
        let row = self.one(sql, &[&name]).await?;
        let no: Option<i64> = row.map(|row| get(&row, 0)).transpose()?;
        Ok(no.unwrap_or(0).cast_unsigned())
    }

    pub(super) async fn note_source(
        &mut self,
        source: &str,
        definition: &DefinitionRow,
        version: u32,
    ) -> Done<()> {
        let sql = "INSERT INTO source (name, workflow, version, definition) \
            VALUES ($1, $2, $3, $4) ON CONFLICT (name) DO UPDATE \
            SET workflow = excluded.workflow, version = excluded.version, \
            definition = excluded.definition";
        let (version, digest) = (i64::from(version), &definition.digest.0[..]);
        self.later(sql, &[&source, &definition.name, &version, &digest])
            .await?;
        Ok(())
    }

    pub(super) async fn drop_source(
        &mut self,
        name: &str,
        retract: bool,
        at_ms: i64,
    ) -> Done<Wrote> {
        let sql = "DELETE FROM source WHERE name = $1 RETURNING workflow, version";
        let Some(gone) = self.one(sql, &[&name]).await?.filter(|_| retract) else {
            return Ok(Wrote::Retracted(None));
        };
        let (workflow, version): (String, u32) = (get(&gone, 0)?, small(&gone, 1)?);
        self.lock_workflow(&workflow).await?;
        let sql = "SELECT 1 FROM source WHERE workflow = $1 AND version = $2 LIMIT 1";
        let elsewhere = self.one(sql, &[&workflow, &i64::from(version)]).await?;
        let published = self.published_version(&workflow).await?;
        if elsewhere.is_some() || published != Some(version) {
            return Ok(Wrote::Retracted(None));
        }
        self.retract(&workflow, None, at_ms).await
    }

    pub(super) async fn upkeep(&mut self, op: &UpkeepOp) -> Done<Wrote> {
        match op {
            UpkeepOp::Request { what, at_ms } => {
                what.check()?;
                let no = self.request(what, *at_ms).await?;
                Ok(Wrote::Requested(UpkeepNo(no)))
            }
            UpkeepOp::Done(numbers) => {
                let numbers: Vec<i64> = numbers.iter().map(|no| no.0).collect();
                self.later("DELETE FROM upkeep WHERE no = ANY($1)", &[&numbers])
                    .await?;
                Ok(Wrote::Done)
            }
        }
    }

    async fn request(&mut self, what: &Upkeep, at_ms: i64) -> Done<i64> {
        let (kind, names) = match what {
            Upkeep::Refresh(_) if self.refreshes().await? >= i64::from(UPKEEP_ROWS) => {
                (REFRESH_ALL, None)
            }
            Upkeep::Refresh(names) => (REFRESH, serde_json::to_string(names).ok()),
            Upkeep::RefreshAll => (REFRESH_ALL, None),
            Upkeep::Reload => (RELOAD, None),
        };
        // What is asked for anew includes these.
        let sql = "DELETE FROM upkeep WHERE kind = $1 AND $1 <> $2 OR kind = $2 AND $1 = $3";
        self.later(sql, &[&kind, &REFRESH, &REFRESH_ALL]).await?;
        let sql = "INSERT INTO upkeep (kind, names, at_ms) VALUES ($1, $2, $3) RETURNING no";
        let row = self.row(sql, &[&kind, &names, &at_ms]).await?;
        Ok(get(&row, 0)?)
    }

    async fn refreshes(&mut self) -> Done<i64> {
        let sql = "SELECT count(*) FROM upkeep WHERE kind = $1";
        let row = self.row(sql, &[&REFRESH]).await?;
        Ok(get(&row, 0)?)
    }
}
