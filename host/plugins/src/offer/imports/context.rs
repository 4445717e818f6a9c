//! `windlass:context`. Texts are formatted only when the guest asks for them.

use crate::bindings::host::windlass::context::context::{Host, Reason, Resumed, ResumedCall};
use crate::bindings::host::windlass::types::types;
use crate::clean;
use crate::offer::context;
use crate::offer::guest::{Guest, Ongoing};

impl Guest {
    fn ask<T: Default>(&self, answer: impl FnOnce(&Ongoing) -> T) -> T {
        self.call.as_deref().map(answer).unwrap_or_default()
    }
}

impl Host for Guest {
    fn run_id(&mut self) -> String {
        self.ask(|call| call.cx.run.to_string())
    }

    fn workflow(&mut self) -> String {
        self.ask(|call| call.cx.workflow.to_string())
    }

    fn node_id(&mut self) -> Option<String> {
        self.ask(|call| call.cx.node.as_deref().map(str::to_owned))
    }

    fn trigger_id(&mut self) -> String {
        self.ask(|call| format!("{}/{}", call.cx.run, call.cx.seq))
    }

    fn attempt(&mut self) -> u32 {
        self.ask(|call| call.cx.attempt)
    }

    /// A node that is called again does something new; a retried node does not.
    fn idempotency_key(&mut self) -> String {
        self.ask(|call| format!("{}/{}/{}", call.cx.run, call.cx.first, call.cx.phase))
    }

    fn deadline(&mut self) -> u64 {
        let clock = &self.offer.clock;
        self.ask(|call| {
            let left = call.deadline.saturating_sub(clock.monotonic());
            let now = u64::try_from(clock.wall_ms()).unwrap_or_default();
            now.saturating_add(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
        })
    }

    fn correlation_id(&mut self) -> Option<String> {
        self.ask(|call| call.cx.correlation.as_deref().map(str::to_owned))
    }

    fn trace_parent(&mut self) -> Option<String> {
        self.ask(|call| call.cx.trace.as_ref().map(ToString::to_string))
    }

    fn resumption(&mut self) -> Option<ResumedCall> {
        let call = self.call.as_deref_mut()?;
        let resumption = call.cx.resumption.clone()?;
        let reason = match &resumption.reason {
            context::Reason::Again => Reason::Again,
            context::Reason::Expired(bookmark) => Reason::Expired(bookmark.clone()),
            context::Reason::Cancelled => Reason::Cancelled,
            context::Reason::Resumed {
                bookmark,
                input,
                metadata,
            } => Reason::Resumed(Resumed {
                bookmark: bookmark.clone(),
                input: hand_over(call, input),
                metadata: metadata.as_ref().map(|payload| hand_over(call, payload)),
            }),
        };
        let state = resumption
            .state
            .as_ref()
            .map(|payload| hand_over(call, payload));
        Some(ResumedCall {
            reason,
            phase: call.cx.phase,
            state,
        })
    }

    fn resume_token(&mut self, bookmark: String) -> Option<String> {
        self.ask(|call| {
            let tokens = call.cx.tokens.as_ref()?;
            tokens.token(call.cx.wait(), &bookmark)
        })
    }

    fn cancelled(&mut self) -> bool {
        self.ask(|call| call.cx.cancel.is_cancelled())
    }

    fn progress(&mut self, fraction: f64, note: String) {
        if let Some(call) = &mut self.call {
            let fraction = if fraction.is_nan() {
                0.0
            } else {
                fraction.clamp(0.0, 1.0)
            };
            let note = self.offer.secrets.redact(&note);
            call.progress = Some((fraction, clean::message(&note)));
        }
    }
}

/// A payload for the guest, which the guest may pass on from now on. JSON goes as a text.
pub(super) fn hand_over(call: &mut Ongoing, payload: &windlass_model::Payload) -> types::Payload {
    let body = match &payload.body {
        windlass_model::Body::Blob(blob) => {
            call.blobs.given.push(*blob);
            types::Body::Blob(blob.digest.to_string())
        }
        windlass_model::Body::Inline(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if payload.is_json() => types::Body::Text(text.to_owned()),
            _ => types::Body::Inline(bytes.to_vec()),
        },
    };
    types::Payload {
        content_type: payload.content_type.clone(),
        body,
    }
}
