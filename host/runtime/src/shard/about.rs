//! The current trigger in log lines and spans: passed explicitly, the same on all paths. Guests
//! read the same through their interface `context`.

use windlass_engine::NodeIx;
use windlass_model::{RunId, Seq};
use windlass_plugins::CallContext;

use super::owned::OwnedRun;

/// The fields of a log line about a trigger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TriggerContext<'a> {
    pub(crate) run: RunId,
    pub(crate) trigger: Seq,
    pub(crate) workflow: &'a str,
    /// Empty if the trigger has no node.
    pub(crate) node: &'a str,
    pub(crate) attempt: u32,
}

impl<'a> TriggerContext<'a> {
    /// The context of a call.
    pub(crate) fn of(cx: &'a CallContext) -> Self {
        Self {
            run: cx.run,
            trigger: cx.seq,
            workflow: &cx.workflow,
            node: cx.node.as_deref().unwrap_or_default(),
            attempt: cx.attempt,
        }
    }

    /// A span around the work for the trigger. It costs nothing without a subscriber.
    pub(crate) fn span(&self) -> tracing::Span {
        let Self {
            run,
            trigger,
            workflow,
            node,
            attempt,
        } = self;
        tracing::debug_span!("trigger", %run, %trigger, workflow, node, attempt)
    }
}

impl OwnedRun {
    /// The context of a trigger of this run.
    pub(crate) fn about(&self, trigger: Seq) -> TriggerContext<'_> {
        let open = self.state.run_of(trigger);
        // An external trigger has no open execution before it is admitted.
        let external = || self.held.get(&trigger)?.external.as_ref()?.node.map(NodeIx);
        let node = open.map(|open| open.node).or_else(external);
        let plan = node.and_then(|node| self.prepared.graph.node(node));
        TriggerContext {
            run: self.id,
            trigger,
            workflow: &self.prepared.name,
            node: plan.map_or("", |plan| plan.name.as_str()),
            attempt: open.map_or(1, |open| open.attempt),
        }
    }
}

/// Logs a line about a trigger, with the level's macro of `tracing`.
macro_rules! log_about {
    ($level:ident, $about:expr, $($rest:tt)+) => {{
        let about = $about;
        tracing::$level!(
            run = %about.run,
            trigger = %about.trigger,
            workflow = about.workflow,
            node = about.node,
            attempt = about.attempt,
            $($rest)+
        );
    }};
}

pub(crate) use log_about;
