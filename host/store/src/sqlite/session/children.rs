//! Sub-workflows: their start, and the resumption of their parent.

use bytes::Bytes;
use rusqlite::OptionalExtension as _;
use windlass_model::RunId;

use super::{Done, Session};
use crate::children::{ended, refused};
use crate::rows::Parent;
use crate::sql::hot;
use crate::sql::transaction::now;
use crate::sql::{rows, trees};
use crate::write::{Commit, Finish};

impl Session<'_> {
    /// Creates the children of a step. The parent of a child that cannot be created is resumed with
    /// a failure.
    pub(super) fn begin_children(&mut self, commit: &Commit) -> Done<()> {
        for child in &commit.children {
            let unborn = now(trees::create(self, commit, child))?;
            if let (Some(why), Some(parent)) = (unborn, &child.parent) {
                self.tell(parent, &refused(child, why), commit.at_ms)?;
            }
        }
        Ok(())
    }

    /// Resumes the parent of a run that has ended. True if a parent's row was changed.
    pub(super) fn tell_parent(&mut self, commit: &Commit, finish: &Finish) -> Done<bool> {
        let no = commit.fence.run.0;
        let sql = "SELECT parent, parent_id, parent_trigger, parent_seq, depth, root, flow \
            FROM origin WHERE run = ?1";
        let parent = self
            .connection
            .prepare_cached(sql)?
            .query_row([no], |row| Ok(rows::parent(row, 0)))
            .optional()?
            .transpose()?
            .flatten();
        let (Some(parent), Some(run)) = (parent, self.run_id(no)?) else {
            return Ok(false);
        };
        if let Some(output) = &finish.output {
            self.refer(parent.run.0, output)?;
        }
        let document = ended(run, commit.status, finish);
        self.tell(&parent, &document, commit.at_ms)
    }

    /// A row that the parent's owner has claimed as expired gets the answer too: if the row is
    /// released, the answer is there; if the parent continues without the child, the row is
    /// overwritten.
    fn tell(&mut self, parent: &Parent, document: &Bytes, at_ms: i64) -> Done<bool> {
        let sql = hot::TELL.sqlite;
        let changed = self.connection.prepare_cached(sql)?.execute((
            parent.trigger.0,
            parent.run.0,
            parent.seq.0.cast_signed(),
            &document[..],
            at_ms,
        ))?;
        self.made_pending += changed as u64;
        Ok(changed == 1)
    }

    /// The id of a run, by its number.
    pub(super) fn run_id(&self, run: i64) -> Done<Option<RunId>> {
        let sql = "SELECT id FROM run WHERE no = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let found =
            statement.query_row([run], |row| Ok(RunId(uuid::Uuid::from_bytes(row.get(0)?))));
        Ok(found.optional()?)
    }
}
