//! One guest call: the question to the guest, and the answer.

use std::sync::Arc;

use bytes::Bytes;
use tracing::Instrument as _;
use windlass_model::{Epoch, Outcome, RunNo, Seq};
use windlass_plugins::{Accept, Call, CallMode, Disposition, Plugin};

use super::about::TriggerContext;

/// A guest call that is to be made for a trigger.
pub(crate) struct Work {
    pub(crate) to: Address,
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) ask: Ask,
}

/// The trigger and the burst of a call. A result whose address does not exist any more is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) run: RunNo,
    pub(crate) epoch: Epoch,
    pub(crate) seq: Seq,
    pub(crate) started_ms: i64,
}

/// The question to the guest.
pub(crate) enum Ask {
    /// To a consumer: how should the trigger be handled?
    Accept(Accept),
    /// To a node: run.
    Execute(Call, Patch),
}

/// Variables that a consumer assigned, to be kept if the attempt succeeds.
pub(crate) type Patch = Vec<(String, Bytes)>;

/// A guest call that has returned.
pub(crate) struct Returned {
    pub(crate) to: Address,
    pub(crate) answer: Answer,
}

/// The answer of the guest.
pub(crate) enum Answer {
    Accepted(windlass_plugins::Returned<Disposition>),
    Executed(windlass_plugins::Returned<Outcome>, Patch),
}

impl Work {
    /// Whether the call may be made on the calling thread.
    pub(crate) fn is_inline(&self) -> bool {
        matches!(self.plugin.lane(), CallMode::Inline)
    }

    /// Makes the call on this thread.
    pub(crate) fn run_inline(self) -> Returned {
        let _entered = self.span().entered();
        let answer = match self.ask {
            Ask::Accept(accept) => Answer::Accepted(self.plugin.accept_inline(accept)),
            Ask::Execute(call, patch) => Answer::Executed(self.plugin.execute_inline(call), patch),
        };
        Returned {
            to: self.to,
            answer,
        }
    }

    /// Makes the call on a fiber.
    pub(crate) async fn run_on_fiber(self) -> Returned {
        let span = self.span();
        self.on_fiber().instrument(span).await
    }

    fn span(&self) -> tracing::Span {
        let cx = match &self.ask {
            Ask::Accept(accept) => &accept.cx,
            Ask::Execute(call, ..) => &call.cx,
        };
        TriggerContext::of(cx).span()
    }

    async fn on_fiber(self) -> Returned {
        let plugin = self.plugin;
        let answer = match self.ask {
            Ask::Accept(accept) => Answer::Accepted(plugin.accept(accept).await),
            Ask::Execute(call, patch) => Answer::Executed(plugin.execute(call).await, patch),
        };
        Returned {
            to: self.to,
            answer,
        }
    }
}
