//! Sub-workflows: their beginning, and what their end tells who waits.

use super::{Done, Session};
use crate::children::{ended, refused};
use crate::rows::{Created, Parent};
use crate::sql::hot;
use crate::sql::row::uuid;
use crate::sql::rows;
use crate::write::{Commit, Finish};
use bytes::Bytes;
use windlass_model::InstanceId;

impl Session<'_> {
    /// Begins the children of a step. One that cannot be made has failed.
    pub(super) async fn begin_children(&mut self, commit: &Commit) -> Done<()> {
        for child in &commit.children {
            let made = matches!(self.create(child).await?, Ok(Created::New));
            if let (false, Some(parent)) = (made, &child.parent) {
                self.tell(parent, &refused(child), commit.at_ms).await?;
            }
        }
        Ok(())
    }

    /// Tells the parent of an instance that it has ended. True if somebody was told.
    ///
    /// The parent's head is not held for that: its row is there or not.
    pub(super) async fn tell_parent(&mut self, commit: &Commit, finish: &Finish) -> Done<bool> {
        let no = commit.fence.instance.0;
        let sql = "SELECT i.id, o.parent, o.parent_id, o.parent_trigger, o.parent_seq, o.depth \
            FROM origin o JOIN instance i ON i.no = ANY (ARRAY[o.instance]) WHERE o.instance = $1";
        let Some(row) = self.one(sql, &[&no]).await? else {
            return Ok(false);
        };
        let Some(parent) = rows::parent(&row, 1)? else {
            return Ok(false);
        };
        if let Some(output) = &finish.output {
            self.refer(parent.instance.0, output).await?;
        }
        let document = ended(InstanceId(uuid(&row, 0)?), commit.status, finish);
        self.tell(&parent, &document, commit.at_ms).await
    }

    /// What has been claimed meanwhile (its time is over) gets the answer all the same: if it
    /// is given back it finds it there, and if it goes on without, it is overwritten.
    async fn tell(&mut self, parent: &Parent, document: &Bytes, at_ms: i64) -> Done<bool> {
        let sql = hot::TELL.postgres;
        let changed = self
            .execute(
                sql,
                &[
                    &parent.trigger.0,
                    &parent.instance.0,
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
