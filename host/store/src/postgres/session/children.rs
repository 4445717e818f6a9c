//! Sub-workflows: their start, and the resumption of their parent.

use super::{Done, Session};
use crate::children::{ended, refused};
use crate::rows::Parent;
use crate::sql::hot;
use crate::sql::row::uuid;
use crate::sql::{rows, trees};
use crate::write::{Commit, Finish};
use bytes::Bytes;
use windlass_model::RunId;

impl Session<'_> {
    /// Creates the children of a step. The parent of a child that cannot be created is resumed with
    /// a failure.
    pub(super) async fn begin_children(&mut self, commit: &Commit) -> Done<()> {
        for child in &commit.children {
            let unborn = trees::create(self, commit, child).await?;
            if let (Some(why), Some(parent)) = (unborn, &child.parent) {
                self.tell(parent, &refused(child, why), commit.at_ms)
                    .await?;
            }
        }
        Ok(())
    }

    /// Resumes the parent of a run that has ended. True if a parent's row was changed.
    ///
    /// The parent's head is not held: the row exists or does not.
    pub(super) async fn tell_parent(&mut self, commit: &Commit, finish: &Finish) -> Done<bool> {
        let no = commit.fence.run.0;
        let sql = "SELECT i.id, o.parent, o.parent_id, o.parent_trigger, o.parent_seq, o.depth, \
            o.root, o.flow \
            FROM origin o JOIN run i ON i.no = ANY (ARRAY[o.run]) WHERE o.run = $1";
        let Some(row) = self.one(sql, &[&no]).await? else {
            return Ok(false);
        };
        let Some(parent) = rows::parent(&row, 1)? else {
            return Ok(false);
        };
        if let Some(output) = &finish.output {
            self.refer(parent.run.0, output).await?;
        }
        let document = ended(RunId(uuid(&row, 0)?), commit.status, finish);
        self.tell(&parent, &document, commit.at_ms).await
    }

    /// A row that the parent's owner has claimed as expired gets the answer too: if the row is
    /// released, the answer is there; if the parent continues without the child, the row is
    /// overwritten.
    async fn tell(&mut self, parent: &Parent, document: &Bytes, at_ms: i64) -> Done<bool> {
        let sql = hot::TELL.postgres;
        let changed = self
            .execute(
                sql,
                &[
                    &parent.trigger.0,
                    &parent.run.0,
                    &parent.seq.0.cast_signed(),
                    &&document[..],
                    &at_ms,
                ],
            )
            .await?;
        self.aftermath.made_pending += changed;
        Ok(changed == 1)
    }
}
