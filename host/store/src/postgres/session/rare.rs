//! The rarer parts of a step, each to be moved into a file of its own with the verbs that it
//! belongs to: bookmarks, stimuli, letters, children, outside.

use windlass_model::InstanceNo;

use super::{Done, Session, not_yet};
use crate::letters::NewDeadLetter;
use crate::stimuli::NewStimulus;
use crate::write::{Commit, Finish, TriggerFence};

impl Session<'_> {
    pub(super) async fn put_bookmarks(&mut self, _commit: &Commit) -> Done<bool> {
        Err(not_yet().into())
    }

    pub(super) async fn bury_unheard(
        &mut self,
        _instance: i64,
        _removed: Option<&TriggerFence>,
        _at_ms: i64,
    ) -> Done<()> {
        Ok(())
    }

    pub(super) async fn burn_all(&mut self, _instance: i64) -> Done<()> {
        Err(not_yet().into())
    }

    pub(super) async fn enqueue(
        &mut self,
        _new: &NewStimulus,
        _source: Option<InstanceNo>,
        _at_ms: i64,
    ) -> Done<()> {
        Err(not_yet().into())
    }

    pub(super) async fn bury_letter(&mut self, _dead: &NewDeadLetter) -> Done<()> {
        Err(not_yet().into())
    }

    pub(super) async fn begin_children(&mut self, _commit: &Commit) -> Done<()> {
        Err(not_yet().into())
    }

    pub(super) async fn cancel_all(&mut self, _commit: &Commit) -> Done<bool> {
        Err(not_yet().into())
    }

    /// From here on nobody finds the instance, though its id stays taken.
    pub(super) async fn entomb(&mut self, no: i64) -> Done<()> {
        for sql in [
            "DELETE FROM origin WHERE instance = $1",
            // What is left of it is kept as long as that of others.
            "DELETE FROM kept WHERE instance = $1",
            "UPDATE instance SET extras = extras & ~16 WHERE no = $1 AND extras & 16 <> 0",
        ] {
            self.execute(sql, &[&no]).await?;
        }
        Ok(())
    }

    pub(super) async fn close_outside(&mut self, _instance: i64) -> Done<()> {
        Err(not_yet().into())
    }

    pub(super) async fn tell_parent(&mut self, _commit: &Commit, _finish: &Finish) -> Done<bool> {
        Err(not_yet().into())
    }
}
