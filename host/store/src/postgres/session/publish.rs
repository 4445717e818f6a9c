//! Published versions, and the index of what starts them.
//!
//! Whoever publishes or retracts holds the advisory lock of the workflow's name, so that
//! several processes that publish the same find what the first has written, and leave it alone.

use windlass_model::failpoint;

use super::{Done, Session, get};
use crate::published::{NewBinding, NewPublication, NewSchedule, has_moved};
use crate::sql::published;
use crate::sql::row::small;
use crate::write::Wrote;

/// The published version of a workflow, by number in its table.
struct Current {
    no: i64,
    version: u32,
    definition: i64,
}

impl Session<'_> {
    pub(super) async fn publish(&mut self, new: &NewPublication) -> Done<Wrote> {
        new.check()?;
        let name = &new.definition.name;
        self.lock_workflow(name).await?;
        let current = self.current(name).await?;
        let version = current.as_ref().map(|current| current.version);
        let moved = has_moved(new.only, version);
        if moved || !self.take_draft(name, new.draft).await? {
            return Ok(Wrote::Fenced);
        }
        let definition = self.definition_of(&new.definition).await?;
        let same = current
            .as_ref()
            .filter(|current| current.definition == definition);
        let (version, unchanged) = match same {
            Some(current) => (current.version, true),
            None => {
                let version = self
                    .succeed(name, current.as_ref(), definition, new.at_ms)
                    .await?;
                (version, false)
            }
        };
        self.index(name, &new.bindings).await?;
        self.schedule_all(name, &new.schedules, new.at_ms).await?;
        if let Some(source) = &new.source {
            self.note_source(source, &new.definition, version).await?;
        }
        Ok(Wrote::Published { version, unchanged })
    }

    pub(super) async fn retract(
        &mut self,
        name: &str,
        only: Option<u32>,
        at_ms: i64,
    ) -> Done<Wrote> {
        self.lock_workflow(name).await?;
        let current = self.current(name).await?;
        if has_moved(only, current.as_ref().map(|current| current.version)) {
            return Ok(Wrote::Fenced);
        }
        let Some(current) = current else {
            return Ok(Wrote::Retracted(None));
        };
        self.retire(&current, at_ms).await?;
        for sql in [
            "DELETE FROM binding WHERE workflow = $1",
            "DELETE FROM schedule WHERE workflow = $1",
        ] {
            self.later(sql, &[&name]).await?;
        }
        Ok(Wrote::Retracted(Some(current.version)))
    }

    /// Waits until nobody else publishes or retracts it.
    pub(super) async fn lock_workflow(&mut self, name: &str) -> Done<()> {
        let sql = "SELECT pg_advisory_xact_lock(hashtext('publication'), hashtext($1))";
        self.later(sql, &[&name]).await?;
        Ok(())
    }

    /// The version that is published.
    pub(super) async fn published_version(&mut self, name: &str) -> Done<Option<u32>> {
        Ok(self.current(name).await?.map(|current| current.version))
    }

    async fn current(&mut self, name: &str) -> Done<Option<Current>> {
        let sql = "SELECT no, version, definition FROM publication \
            WHERE name = $1 AND retracted_ms IS NULL";
        let Some(row) = self.one(sql, &[&name]).await? else {
            return Ok(None);
        };
        Ok(Some(Current {
            no: get(&row, 0)?,
            version: small(&row, 1)?,
            definition: get(&row, 2)?,
        }))
    }

    async fn retire(&mut self, current: &Current, at_ms: i64) -> Done<()> {
        let sql = "UPDATE publication SET retracted_ms = $2 WHERE no = $1";
        self.later(sql, &[&current.no, &at_ms]).await?;
        Ok(())
    }

    /// Puts another version in the place of the current one, and gives its number.
    async fn succeed(
        &mut self,
        name: &str,
        current: Option<&Current>,
        definition: i64,
        at_ms: i64,
    ) -> Done<u32> {
        if let Some(current) = current {
            self.retire(current, at_ms).await?;
        }
        failpoint::pass("publish");
        let sql = "INSERT INTO publication (name, version, definition, published_ms) \
            VALUES ($1, 1 + (SELECT coalesce(max(version), 0) FROM publication \
            WHERE name = $1), $2, $3) RETURNING version";
        let row = self.row(sql, &[&name, &definition, &at_ms]).await?;
        Ok(small(&row, 0)?)
    }

    /// Makes the trigger index of a workflow this one, leaving alone what is in it already.
    async fn index(&mut self, workflow: &str, wanted: &[NewBinding]) -> Done<()> {
        let rows = self
            .rows(published::BINDINGS_OF.postgres, &[&workflow])
            .await?;
        let mut known = Vec::with_capacity(rows.len());
        for row in &rows {
            let no: i64 = get(row, 0)?;
            known.push((no, published::new_binding(row, 1)?));
        }
        for (no, _) in known.iter().filter(|(_, row)| !wanted.contains(row)) {
            self.later("DELETE FROM binding WHERE no = $1", &[no])
                .await?;
        }
        for new in wanted {
            if known.iter().any(|(_, row)| row == new) {
                continue;
            }
            let sql = "INSERT INTO binding (workflow, key, name, hash, matches, node) \
                VALUES ($1, $2, $3, $4, $5, $6)";
            let (hash, matches) = (&new.hash.0[..], &new.matches[..]);
            let node = new.node.map(i64::from);
            self.later(
                sql,
                &[&workflow, &new.key, &new.name, &hash, &matches, &node],
            )
            .await?;
        }
        Ok(())
    }

    /// Makes the schedules of a workflow these. Those that were there keep what they have
    /// planned, so that a new version does not do an occurrence again.
    async fn schedule_all(
        &mut self,
        workflow: &str,
        wanted: &[NewSchedule],
        at_ms: i64,
    ) -> Done<()> {
        let sql = "SELECT no, key FROM schedule WHERE workflow = $1";
        let mut known: Vec<(i64, String)> = Vec::new();
        for row in self.rows(sql, &[&workflow]).await? {
            known.push((get(&row, 0)?, get(&row, 1)?));
        }
        for (no, key) in &known {
            if !wanted.iter().any(|new| new.key == *key) {
                self.later("DELETE FROM schedule WHERE no = $1", &[no])
                    .await?;
            }
        }
        for new in wanted {
            let spec = &new.spec[..];
            let sql = if known.iter().any(|(_, key)| *key == new.key) {
                "UPDATE schedule SET spec = $3, troubles = 0, \
                    since_ms = CASE WHEN spec <> $3 THEN $4 ELSE since_ms END, \
                    next_ms = CASE WHEN spec <> $3 THEN $5 ELSE $4 END \
                    WHERE workflow = $1 AND key = $2 AND (spec <> $3 OR troubles > 0)"
            } else {
                "INSERT INTO schedule (workflow, key, spec, since_ms, next_ms) \
                    VALUES ($1, $2, $3, $4, $5)"
            };
            self.later(sql, &[&workflow, &new.key, &spec, &at_ms, &new.next_ms])
                .await?;
        }
        Ok(())
    }
}
