//! Putting an instance in. It gets a number of its own, also where it takes the place of
//! another one: whoever still works on that has a fence that does not hold any more.

use windlass_model::{Digest, InstanceId, InstanceNo, Status};

use super::heads::Params;
use super::{Done, Failed, Session, extras, get};
use crate::columns::{json, payload};
use crate::rows::NewTrigger;
use crate::sql::row::{digest, uuid};
use crate::transfer::{Import, Imported, above};
use crate::write::Wrote;

/// The instance whose place another one takes.
struct Old {
    no: i64,
    epoch: i64,
    version: i64,
}

impl Session<'_> {
    pub(super) async fn import(&mut self, import: &Import) -> Done<Wrote> {
        self.lock_import(import).await?;
        let old = match self.place_of(import).await? {
            Ok(old) => old,
            Err(imported) => return Ok(Wrote::Imported(imported)),
        };
        let old_no = old.as_ref().map(|old| old.no);
        if let Some(imported) = self.in_the_way(import, old_no).await? {
            return Ok(Wrote::Imported(imported));
        }
        let mut imported = Imported::New;
        if let Some(old) = &old {
            self.displace(old, import).await?;
            let old = InstanceNo(old.no);
            imported = Imported::Replaced { old };
        }
        match self.create(&import.new).await? {
            Wrote::Created => {}
            // Somebody was first by a moment: it is looked at again.
            _ => return Err(Failed::Again),
        }
        self.write_imported(import, old.as_ref()).await?;
        Ok(Wrote::Imported(imported))
    }

    /// Waits for whoever is at stimuli that the old or the new bookmarks wait for, and at what
    /// is reserved.
    async fn lock_import(&mut self, import: &Import) -> Done<()> {
        let id: &[u8] = import.new.id.0.as_bytes();
        let sql = "SELECT DISTINCT b.hash FROM instance i \
            JOIN bookmark b ON b.instance = ANY (ARRAY[i.no]) WHERE i.id = $1";
        let rows = self.rows(sql, &[&id]).await?;
        let before = rows.iter().map(|row| digest(row, 0));
        let mut hashes: Vec<Digest> = before.collect::<Result<_, _>>()?;
        hashes.extend(import.bookmarks.iter().map(|new| new.hash));
        self.lock_hashes(&hashes).await?;
        self.lock_reservations(&import.new.exclusive, &import.new.reserves)
            .await
    }

    /// The instance whose place is taken, with its head held, if there is one, or why it cannot
    /// be taken.
    async fn place_of(&mut self, import: &Import) -> Done<Result<Option<Old>, Imported>> {
        let Some(no) = self.instance_no(import.new.id).await? else {
            return Ok(Ok(None));
        };
        let Some(head) = self.head(no).await? else {
            return Err(Failed::Again);
        };
        let sql = "SELECT parent FROM origin WHERE instance = $1";
        let Some(origin) = self.one(sql, &[&no]).await? else {
            return Ok(Err(Imported::Deleted));
        };
        let parent: Option<i64> = get(&origin, 0)?;
        let old = Old {
            no,
            epoch: head.epoch,
            version: head.version,
        };
        if self.is_marked(import, &old).await? {
            return Ok(Err(Imported::Already(InstanceNo(no))));
        }
        if !import.replace {
            return Ok(Err(Imported::Exists));
        }
        if head.extras & extras::DOOMED != 0 {
            return Ok(Err(Imported::Deleted));
        }
        // One who is gone does not come back, and whether he is about to go does not matter.
        let sql = "SELECT 1 FROM member WHERE incarnation = $1";
        if let Some(owner) = head.owner
            && self.one(sql, &[&owner]).await?.is_some()
        {
            return Ok(Err(Imported::Owned));
        }
        if parent.is_some() && !head.status.is_final() {
            return Ok(Err(Imported::Child));
        }
        let sql = "SELECT 1 FROM origin o JOIN instance i ON i.no = ANY (ARRAY[o.instance]) \
            WHERE o.parent = $1 AND i.status < 4 LIMIT 1";
        if self.one(sql, &[&no]).await?.is_some() {
            return Ok(Err(Imported::Children));
        }
        Ok(Ok(Some(old)))
    }

    /// Whether the same was put in before; if it is to take a place, nothing may have happened
    /// since then.
    async fn is_marked(&mut self, import: &Import, old: &Old) -> Done<bool> {
        let sql = "SELECT kind, detail FROM journal WHERE instance = $1 \
            AND ($2::bigint IS NULL OR version = $2) AND kind = $3";
        let version = import.replace.then_some(old.version);
        let rows = self
            .rows(sql, &[&old.no, &version, &import.mark.kind])
            .await?;
        for row in &rows {
            let (kind, detail): (&str, &[u8]) = (get(row, 0)?, get(row, 1)?);
            if import.is_marked(kind, detail) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whatever else of the store does not go together with what is put in.
    async fn in_the_way(&mut self, import: &Import, old: Option<i64>) -> Done<Option<Imported>> {
        if let Some(key) = &import.new.exclusive {
            let sql = "SELECT i.id FROM reservation r JOIN instance i ON i.no = ANY (ARRAY[r.instance]) \
                WHERE r.key = $1 AND r.instance IS DISTINCT FROM $2 ORDER BY r.instance LIMIT 1";
            if let Some(row) = self.one(sql, &[key, &old]).await? {
                let by = InstanceId(uuid(&row, 0)?);
                return Ok(Some(Imported::Reserved { by }));
            }
        }
        for name in &import.names {
            let id: &[u8] = name.id.0.as_bytes();
            let sql = "SELECT 1 FROM outside WHERE id = $1 AND instance IS DISTINCT FROM $2";
            if self.one(sql, &[&id, &old]).await?.is_some() {
                return Ok(Some(Imported::Name(name.id)));
            }
        }
        Ok(None)
    }

    /// From here on nobody finds the old instance, and nobody who ran it can write to it. What
    /// wakes it, or excludes others, goes at once; the rest is for whoever forgets.
    async fn displace(&mut self, old: &Old, import: &Import) -> Done<()> {
        let no = old.no;
        self.bury_unheard(no, import.at_ms).await?;
        self.hide(no).await?;
        for sql in [
            "DELETE FROM trigger WHERE instance = $1",
            "DELETE FROM bookmark WHERE instance = $1",
            "DELETE FROM outside WHERE instance = $1",
            "DELETE FROM reservation WHERE instance = $1",
            "DELETE FROM kept WHERE instance = $1",
        ] {
            self.later(sql, &[&no]).await?;
        }
        let sql = "UPDATE instance SET status = $2, owner = NULL, epoch = epoch + 1, \
            finished_ms = $3, failure = NULL, extras = 0 WHERE no = $1";
        let status = i16::from(Status::Cancelled as u8);
        self.later(sql, &[&no, &status, &import.at_ms]).await?;
        // What belongs to the run, and not to what it was, goes with it.
        for sql in [
            "UPDATE origin SET parent = $2 WHERE parent = $1",
            "UPDATE dead_letter SET instance = $2 WHERE instance = $1",
        ] {
            self.later(sql, &[&no, &import.new.no.0]).await?;
        }
        Ok(())
    }

    /// What an instance has that does not begin here.
    async fn write_imported(&mut self, import: &Import, old: Option<&Old>) -> Done<()> {
        let no = import.new.no.0;
        let (epoch, version) = old.map_or((0, 0), |old| (old.epoch, old.version));
        let version = above(import.version.0, version);
        let (output, meta) = payload(import.output.as_ref());
        let sql = "UPDATE instance SET status = $2, epoch = $3, version = $4, last_run = $5, \
            finished_ms = $6, failure = $7, output = $8, output_meta = $9 WHERE no = $1";
        self.later(
            sql,
            &[
                &no,
                &i16::from(import.status as u8),
                &above(import.epoch.0, epoch),
                &version,
                &import.runs.last().map(|last| last.no.0),
                &import.finished_ms,
                &import.failure.as_ref().and_then(json),
                &output,
                &meta,
            ],
        )
        .await?;
        for payload in import.payloads() {
            self.refer(no, payload).await?;
        }
        for (scope, name, value) in &import.vars {
            self.put_var(no, *scope, name, value).await?;
        }
        for (scope, state) in &import.scopes {
            self.put_scope(no, *scope, Some(state)).await?;
        }
        for item in &import.items {
            self.put_item(no, item).await?;
        }
        for run in &import.runs {
            self.insert_run(run).await?;
        }
        self.write_import_journal(import, version).await?;
        if let Some(until_ms) = import.kept_until_ms() {
            let sql = "INSERT INTO kept (instance, until_ms) VALUES ($1, $2)";
            self.later(sql, &[&no, &until_ms]).await?;
        }
        self.write_names(import).await?;
        self.add_bookmarks(no, &import.bookmarks, import.at_ms)
            .await?;
        if import.new.triggers.iter().any(NewTrigger::resumes) {
            self.note_extra(no, extras::BOOKMARKS).await?;
        }
        Ok(())
    }

    async fn write_import_journal(&mut self, import: &Import, version: i64) -> Done<()> {
        let no = import.new.no.0;
        let before = (0_i64..).zip(&import.journal);
        let before = before.map(|(place, entry)| (0, place, entry));
        for (version, place, entry) in before.chain([(version, 0, &import.mark)]) {
            let sql = "INSERT INTO journal (instance, version, place, at_ms, kind, detail) \
                VALUES ($1, $2, $3, $4, $5, $6)";
            let (kind, detail) = (&entry.kind, &*entry.detail);
            self.later(sql, &[&no, &version, &place, &entry.at_ms, kind, &detail])
                .await?;
        }
        Ok(())
    }

    async fn write_names(&mut self, import: &Import) -> Done<()> {
        let no = import.new.no.0;
        for name in &import.names {
            let (id, request): (&[u8], &[u8]) = (name.id.0.as_bytes(), &name.request.0);
            let sql = "INSERT INTO outside (id, trigger, instance, request, closed) \
                VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
            let row: Params<'_> = &[&id, &name.trigger.0, &no, &request, &name.closed];
            if self.execute(sql, row).await? == 0 {
                return Err(Failed::Again);
            }
        }
        if !import.names.is_empty() {
            self.note_extra(no, extras::OUTSIDE).await?;
        }
        Ok(())
    }
}
