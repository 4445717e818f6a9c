//! Putting an instance in. It gets a number of its own, also where it takes the place of
//! another one: whoever still works on that has a fence that does not hold any more.

use rusqlite::OptionalExtension as _;
use windlass_model::{InstanceId, InstanceNo, Status, TriggerId};

use super::cache::extras;
use super::{Done, Session};
use crate::rows::NewTrigger;
use crate::sqlite::values::{json, payload};
use crate::sums::{self, Of};
use crate::transfer::{Import, Imported, above};
use crate::write::Wrote;

/// The instance whose place another one takes.
struct Old {
    no: i64,
    epoch: i64,
    version: i64,
}

impl Session<'_> {
    pub(super) fn import(&mut self, import: &Import) -> Done<Wrote> {
        let old = match self.place_of(import)? {
            Ok(old) => old,
            Err(imported) => return Ok(Wrote::Imported(imported)),
        };
        if let Some(imported) = self.in_the_way(import, old.as_ref().map(|old| old.no))? {
            return Ok(Wrote::Imported(imported));
        }
        let mut imported = Imported::New;
        if let Some(old) = &old {
            self.displace(old, import)?;
            let old = InstanceNo(old.no);
            imported = Imported::Replaced { old };
        }
        match self.create(&import.new)? {
            Wrote::Created => {}
            // Nothing of what refuses it is there, as was seen before.
            other => return Ok(other),
        }
        self.write_imported(import, old.as_ref())?;
        Ok(Wrote::Imported(imported))
    }

    /// The instance whose place is taken, if there is one, or why it cannot be taken.
    fn place_of(&mut self, import: &Import) -> Done<Result<Option<Old>, Imported>> {
        let Some(no) = self.instance_no(import.new.id)? else {
            return Ok(Ok(None));
        };
        self.write_head(no)?;
        let sql = "SELECT parent FROM origin WHERE instance = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let parent = statement.query_row([no], |row| row.get::<_, Option<i64>>(0));
        let parent = parent.optional()?;
        drop(statement);
        let (Some(parent), Some(head)) = (parent, self.head(no)?) else {
            return Ok(Err(Imported::Deleted));
        };
        let (owner, ended, doomed) = (
            head.owner,
            head.status.is_final(),
            head.extras & extras::DOOMED != 0,
        );
        let old = Old {
            no,
            epoch: head.epoch,
            version: head.version,
        };
        if self.is_marked(import, &old)? {
            return Ok(Err(Imported::Already(InstanceNo(no))));
        }
        let refused = if !import.replace {
            Some(Imported::Exists)
        } else if doomed {
            Some(Imported::Deleted)
        } else if match owner {
            Some(owner) => self.is_member(owner)?,
            None => false,
        } {
            Some(Imported::Owned)
        } else if parent.is_some() && !ended {
            Some(Imported::Child)
        } else if self.has_children(no)? {
            Some(Imported::Children)
        } else {
            None
        };
        Ok(refused.map_or(Ok(Some(old)), Err))
    }

    /// Whether the same was put in before; if it is to take a place, nothing may have happened
    /// since then.
    fn is_marked(&self, import: &Import, old: &Old) -> Done<bool> {
        let sql = "SELECT kind, detail FROM journal WHERE instance = ?1 \
            AND (?2 IS NULL OR version = ?2) AND kind = ?3";
        let version = import.replace.then_some(old.version);
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query((old.no, version, &import.mark.kind))?;
        while let Some(row) = rows.next()? {
            let (kind, detail): (String, Vec<u8>) = (row.get(0)?, row.get(1)?);
            if import.is_marked(&kind, &detail) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn has_children(&self, no: i64) -> Done<bool> {
        let sql = "SELECT 1 FROM origin o CROSS JOIN instance i ON i.no = o.instance \
            WHERE o.parent = ?1 AND i.status < 4";
        Ok(self.connection.prepare_cached(sql)?.exists([no])?)
    }

    /// Whatever else of the store does not go together with what is put in.
    fn in_the_way(&mut self, import: &Import, old: Option<i64>) -> Done<Option<Imported>> {
        if let Some(key) = &import.new.exclusive {
            let sql = "SELECT i.id FROM reservation r CROSS JOIN instance i ON i.no = r.instance \
                WHERE r.key = ?1 AND r.instance IS NOT ?2 ORDER BY r.instance LIMIT 1";
            let mut statement = self.connection.prepare_cached(sql)?;
            let by: Option<[u8; 16]> = statement
                .query_row((key, old), |row| row.get(0))
                .optional()?;
            if let Some(by) = by {
                let by = InstanceId(uuid::Uuid::from_bytes(by));
                return Ok(Some(Imported::Reserved { by }));
            }
        }
        let sql = "SELECT 1 FROM outside WHERE id = ?1 AND instance IS NOT ?2";
        let mut statement = self.connection.prepare_cached(sql)?;
        for name in &import.names {
            if statement.exists((&name.id.0.as_bytes()[..], old))? {
                return Ok(Some(Imported::Name(TriggerId(name.id.0))));
            }
        }
        Ok(None)
    }

    /// From here on nobody finds the old instance, and nobody who ran it can write to it. What
    /// wakes it, or excludes others, goes at once; the rest is for whoever forgets.
    fn displace(&mut self, old: &Old, import: &Import) -> Done<()> {
        let no = old.no;
        self.bury_unheard(no, None, import.at_ms)?;
        self.cache.heads.remove(&no);
        self.hide(no)?;
        for sql in [
            "DELETE FROM trigger WHERE instance = ?1",
            "DELETE FROM bookmark WHERE instance = ?1",
            "DELETE FROM outside WHERE instance = ?1",
            "DELETE FROM reservation WHERE instance = ?1",
            "DELETE FROM kept WHERE instance = ?1",
        ] {
            self.connection.prepare_cached(sql)?.execute([no])?;
        }
        let sql = "UPDATE instance SET status = ?2, owner = NULL, epoch = epoch + 1, \
            finished_ms = ?3, failure = NULL, extras = 0 WHERE no = ?1";
        let key = (no, Status::Cancelled as u8, import.at_ms);
        self.connection.prepare_cached(sql)?.execute(key)?;
        // What belongs to the run, and not to what it was, goes with it.
        for sql in [
            "UPDATE origin SET parent = ?2 WHERE parent = ?1",
            "UPDATE dead_letter SET instance = ?2 WHERE instance = ?1",
        ] {
            let key = (no, import.new.no.0);
            self.connection.prepare_cached(sql)?.execute(key)?;
        }
        Ok(())
    }

    /// What an instance has that does not begin here.
    fn write_imported(&mut self, import: &Import, old: Option<&Old>) -> Done<()> {
        self.turn()?;
        let no = import.new.no.0;
        let (epoch, version) = old.map_or((0, 0), |old| (old.epoch, old.version));
        let (epoch, version) = (
            above(import.epoch.0, epoch),
            above(import.version.0, version),
        );
        let (output, meta) = payload(import.output.as_ref());
        let content = (output, meta.as_deref());
        let output_sum = sums::of_payload(Of::Output, [no, 0, 0], "", content);
        let sql = "UPDATE instance SET status = ?2, epoch = ?3, version = ?4, last_run = ?5, \
            finished_ms = ?6, failure = ?7, output = ?8, output_meta = ?9, output_sum = ?10, \
            state_sum = ?11 WHERE no = ?1";
        self.connection.prepare_cached(sql)?.execute((
            no,
            import.status as u8,
            epoch,
            version,
            import.runs.last().map(|last| last.no.0),
            import.finished_ms,
            import.failure.as_ref().and_then(json),
            output,
            &meta,
            output_sum,
            sums::of_state(no, version, &import.new.state),
        ))?;
        for payload in import.payloads() {
            self.refer(no, payload)?;
        }
        for (scope, name, value) in &import.vars {
            self.put_var(no, *scope, name, value)?;
        }
        for (scope, state) in &import.scopes {
            self.put_scope(no, *scope, state)?;
        }
        for item in &import.items {
            self.put_item(no, item)?;
        }
        for run in &import.runs {
            self.insert_run(run)?;
        }
        for (place, entry) in (0_i64..).zip(&import.journal) {
            self.insert_journal(no, 0, place, entry)?;
        }
        self.insert_journal(no, version, 0, &import.mark)?;
        if let Some(until_ms) = import.kept_until_ms() {
            let sql = "INSERT INTO kept (instance, until_ms) VALUES (?1, ?2)";
            self.connection
                .prepare_cached(sql)?
                .execute((no, until_ms))?;
        }
        self.write_names(import)?;
        self.add_bookmarks(no, &import.bookmarks, import.at_ms)?;
        if import.new.triggers.iter().any(NewTrigger::resumes) {
            self.note_extra(no, extras::BOOKMARKS)?;
        }
        Ok(())
    }

    fn write_names(&mut self, import: &Import) -> Done<()> {
        let no = import.new.no.0;
        let sql = "INSERT INTO outside (id, trigger, instance, request, closed) \
            VALUES (?1, ?2, ?3, ?4, ?5)";
        for name in &import.names {
            self.connection.prepare_cached(sql)?.execute((
                &name.id.0.as_bytes()[..],
                name.trigger.0,
                no,
                &name.request.0[..],
                name.closed,
            ))?;
        }
        if !import.names.is_empty() {
            self.note_extra(no, extras::OUTSIDE)?;
        }
        Ok(())
    }
}
