//! Runs that this process owns from the transaction that creates them, so that no claim is needed.

use std::sync::Arc;

use tokio::sync::oneshot;
use windlass_model::Numbers;

use super::{Accepted, Started};
use crate::error::Error;
use crate::outputs::Awaited;
use crate::shard::{Birth, Message, Reply};
use crate::shared::RuntimeShared;

impl RuntimeShared {
    /// Whether this process owns a run that it creates: the run begins now, and this process would
    /// claim it now, since executions may begin here and there is room. Any other run is
    /// left to the next claim of any process.
    pub(crate) fn owns(&self, start: &Accepted) -> bool {
        let states = &self.intake.states;
        let has_room =
            !start.prepared.is_large() || states.admits_definition(self.base.catalog.trim());
        let begins = start.cause.is_now() && !self.intake.begins_nothing();
        begins && has_room && self.intake.flow.has_place_for_new()
    }

    /// Creates a run that this process owns, and that tells an awaited output. Returns once the run is
    /// durable. None: nothing was written, and the caller looks the definition up again.
    ///
    /// # Errors
    ///
    /// The id is taken, the process has ended, or the store fails.
    pub(crate) async fn start_here(
        &self,
        start: &Accepted,
        numbers: Arc<Numbers>,
        awaited: Option<Awaited>,
    ) -> Result<Option<Started>, Error> {
        let (reply, answer) = oneshot::channel();
        let now_ms = self.base.clock.wall_ms();
        let birth = start.birth(numbers, now_ms, awaited, reply)?;
        let no = birth.new.no;
        let Some(shard) = self.shard(no) else {
            return Err(Error::Draining);
        };
        shard.send(Message::Born(Box::new(birth)));
        let answer = answer.await.map_err(|_| Error::Draining)??;
        let started = start.answered(answer, no)?;
        if started.as_ref().is_some_and(|new| new.existing.is_none()) {
            self.intake.claim_too(no);
        }
        Ok(started)
    }
}

impl Accepted {
    /// The run for the shard that creates it.
    pub(crate) fn birth(
        &self,
        numbers: Arc<Numbers>,
        now_ms: i64,
        awaited: Option<Awaited>,
        reply: Reply,
    ) -> Result<Birth, Error> {
        let owner = Some(numbers.incarnation());
        let (new, state) = self.new_run(&numbers, owner, now_ms)?;
        Ok(Birth {
            new,
            state,
            prepared: Arc::clone(&self.prepared),
            numbers,
            awaited,
            reply,
        })
    }
}
