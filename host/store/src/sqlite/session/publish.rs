//! Published versions, and the index of what starts them.

use rusqlite::OptionalExtension as _;
use windlass_model::failpoint;

use super::{Done, Session};
use crate::published::{NewBinding, NewPublication, NewSchedule, has_moved};
use crate::sql::published;
use crate::sql::row::int;
use crate::write::Wrote;

/// The published version of a workflow, by number in its table.
struct Current {
    no: i64,
    version: u32,
    definition: i64,
}

impl Session<'_> {
    pub(super) fn publish(&mut self, new: &NewPublication) -> Done<Wrote> {
        new.check()?;
        let name = &new.definition.name;
        let current = self.current(name)?;
        let version = current.as_ref().map(|current| current.version);
        let moved = has_moved(new.only, version);
        if moved || !self.take_draft(name, new.draft)? {
            return Ok(Wrote::Fenced);
        }
        let definition = self.definition_of(&new.definition)?;
        let same = current
            .as_ref()
            .filter(|current| current.definition == definition);
        let (version, unchanged) = match same {
            Some(current) => (current.version, true),
            None => (
                self.succeed(name, current.as_ref(), definition, new.at_ms)?,
                false,
            ),
        };
        self.index(name, &new.bindings)?;
        self.schedule_all(name, &new.schedules, new.at_ms)?;
        if let Some(source) = &new.source {
            self.note_source(source, &new.definition, version)?;
        }
        Ok(Wrote::Published { version, unchanged })
    }

    pub(super) fn retract(&mut self, name: &str, only: Option<u32>, at_ms: i64) -> Done<Wrote> {
        let current = self.current(name)?;
        if has_moved(only, current.as_ref().map(|current| current.version)) {
            return Ok(Wrote::Fenced);
        }
        let Some(current) = current else {
            return Ok(Wrote::Retracted(None));
        };
        self.retire(&current, at_ms)?;
        for sql in [
            "DELETE FROM binding WHERE workflow = ?1",
            "DELETE FROM schedule WHERE workflow = ?1",
        ] {
            self.connection.prepare_cached(sql)?.execute([name])?;
        }
        Ok(Wrote::Retracted(Some(current.version)))
    }

    fn current(&self, name: &str) -> Done<Option<Current>> {
        let sql = "SELECT no, version, definition FROM publication \
            WHERE name = ?1 AND retracted_ms IS NULL";
        let mut statement = self.connection.prepare_cached(sql)?;
        let current = statement.query_row([name], |row| {
            let (no, version, definition) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(Current {
                no,
                version,
                definition,
            })
        });
        Ok(current.optional()?)
    }

    /// The version that is published.
    pub(super) fn published_version(&self, name: &str) -> Done<Option<u32>> {
        Ok(self.current(name)?.map(|current| current.version))
    }

    fn retire(&self, current: &Current, at_ms: i64) -> Done<()> {
        let sql = "UPDATE publication SET retracted_ms = ?2 WHERE no = ?1";
        self.connection
            .prepare_cached(sql)?
            .execute((current.no, at_ms))?;
        Ok(())
    }

    /// Puts another version in the place of the current one, and gives its number.
    fn succeed(
        &self,
        name: &str,
        current: Option<&Current>,
        definition: i64,
        at_ms: i64,
    ) -> Done<u32> {
        if let Some(current) = current {
            self.retire(current, at_ms)?;
        }
        failpoint::pass("publish");
        let sql = "INSERT INTO publication (name, version, definition, published_ms) \
            VALUES (?1, 1 + (SELECT coalesce(max(version), 0) FROM publication \
            WHERE name = ?1), ?2, ?3) RETURNING version";
        let mut statement = self.connection.prepare_cached(sql)?;
        Ok(statement.query_row((name, definition, at_ms), |row| row.get(0))?)
    }

    /// Makes the trigger index of a workflow this one, leaving alone what is in it already.
    fn index(&self, workflow: &str, wanted: &[NewBinding]) -> Done<()> {
        let sql = published::BINDINGS_OF.sqlite;
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([workflow])?;
        let mut known = Vec::new();
        while let Some(row) = rows.next()? {
            known.push((int(row, 0)?, published::new_binding(row, 1)?));
        }
        for (no, _) in known.iter().filter(|(_, row)| !wanted.contains(row)) {
            self.connection
                .prepare_cached("DELETE FROM binding WHERE no = ?1")?
                .execute([no])?;
        }
        for new in wanted {
            if known.iter().any(|(_, row)| row == new) {
                continue;
            }
            let sql = "INSERT INTO binding (workflow, key, name, hash, matches, node) \
                VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            self.connection.prepare_cached(sql)?.execute((
                workflow,
                &new.key,
                &new.name,
                &new.hash.0[..],
                &new.matches[..],
                new.node,
            ))?;
        }
        Ok(())
    }

    /// Makes the schedules of a workflow these. Those that were there keep what they have
    /// planned, so that a new version does not do an occurrence again.
    fn schedule_all(&self, workflow: &str, wanted: &[NewSchedule], at_ms: i64) -> Done<()> {
        let sql = "SELECT no, key FROM schedule WHERE workflow = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map([workflow], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let known: Vec<(i64, String)> = rows.collect::<Result<_, _>>()?;
        for (no, key) in &known {
            if !wanted.iter().any(|new| new.key == *key) {
                self.connection
                    .prepare_cached("DELETE FROM schedule WHERE no = ?1")?
                    .execute([no])?;
            }
        }
        for new in wanted {
            let spec: &[u8] = &new.spec;
            let row = (workflow, &new.key, spec, at_ms, new.next_ms);
            let sql = if known.iter().any(|(_, key)| *key == new.key) {
                "UPDATE schedule SET spec = ?3, troubles = 0, \
                    since_ms = CASE WHEN spec <> ?3 THEN ?4 ELSE since_ms END, \
                    next_ms = CASE WHEN spec <> ?3 THEN ?5 ELSE ?4 END \
                    WHERE workflow = ?1 AND key = ?2 AND (spec <> ?3 OR troubles > 0)"
            } else {
                "INSERT INTO schedule (workflow, key, spec, since_ms, next_ms) \
                    VALUES (?1, ?2, ?3, ?4, ?5)"
            };
            self.connection.prepare_cached(sql)?.execute(row)?;
        }
        Ok(())
    }
}
