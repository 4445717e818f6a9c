//! The current trigger, as log lines and spans name it: passed explicitly, the same on all
//! paths. Guests are told the same through their interface `context`.

use windlass_engine::NodeIx;
use windlass_model::{InstanceId, Seq};
use windlass_plugins::CallContext;

use super::owned::OwnedInstance;

/// What a log line about a trigger says besides its message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TriggerContext<'a> {
    pub(crate) instance: InstanceId,
    pub(crate) trigger: Seq,
    /// Empty if it is aimed at none.
    pub(crate) node: &'a str,
    pub(crate) attempt: u32,
}

impl<'a> TriggerContext<'a> {
    /// Of a call.
    pub(crate) fn of(cx: &'a CallContext) -> Self {
        Self {
            instance: cx.instance,
            trigger: cx.seq,
            node: cx.node.as_deref().unwrap_or_default(),
            attempt: cx.attempt,
        }
    }

    /// A span around what is done for it. It costs nothing unless somebody listens.
    pub(crate) fn span(&self) -> tracing::Span {
        let Self {
            instance,
            trigger,
            node,
            attempt,
        } = self;
        tracing::debug_span!("trigger", %instance, %trigger, node, attempt)
    }
}

impl OwnedInstance {
    /// Of a trigger of this instance.
    pub(crate) fn about(&self, trigger: Seq) -> TriggerContext<'_> {
        let open = self.state.run_of(trigger);
        // One from outside has no run before it is let in.
        let outside = || self.held.get(&trigger)?.outside.as_ref()?.node.map(NodeIx);
        let node = open.map(|open| open.node).or_else(outside);
        let plan = node.and_then(|node| self.prepared.graph.node(node));
        TriggerContext {
            instance: self.id,
            trigger,
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
            instance = %about.instance,
            trigger = %about.trigger,
            node = about.node,
            attempt = about.attempt,
            $($rest)+
        );
    }};
}

pub(crate) use log_about;
