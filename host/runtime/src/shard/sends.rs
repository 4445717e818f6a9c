//! The stimuli that a step sends: those of its guest, and the announcement if the run has faulted.

use bytes::Bytes;
use serde_json::json;
use windlass_engine::NodeIx;
use windlass_model::stimulus::{INCIDENT, canonical, hash};
use windlass_model::{Delivery, Failure, Payload, Status};
use windlass_plugins::SentStimulus;
use windlass_store::letters::LetterBody;
use windlass_store::rows::ExecutionRow;
use windlass_store::stimuli::NewStimulus;

use super::commit::Step;
use super::outcome::described;
use super::owned::OwnedRun;
use super::work::Address;
use crate::derived;
use crate::shared::Base;

/// How long a stimulus of a node is buffered for a later bookmark, in milliseconds.
const TTL_MS: u64 = 24 * 60 * 60 * 1_000;

impl OwnedRun {
    /// The stimuli of a step.
    pub(super) fn sends(&self, to: Address, step: &Step, base: &Base) -> Vec<NewStimulus> {
        let mut sends: Vec<NewStimulus> = (0..)
            .zip(&step.effects.sent)
            .map(|(place, sent)| self.sent(to, place, sent, step.now_ms))
            .collect();
        // The parent of a child receives the failure: if it faults, too, it announces that once.
        let faulted = step
            .finish
            .as_ref()
            .filter(|ending| ending.status == Status::Faulted && self.depth == 0);
        let dead = step
            .dead
            .iter()
            .filter(|letter| letter.failure.is_some())
            .map(|letter| {
                let node = match &letter.body {
                    LetterBody::Trigger(dead) => dead.node,
                    LetterBody::Stimulus(_) => None,
                };
                (letter.reason.as_str(), node, letter.failure.as_ref())
            });
        let faulted = faulted.map(|ending| {
            // The record of this step may belong to a compensation; the announcement names the node
            // whose failure ends the run.
            let failed = |record: &&ExecutionRow| {
                let failures = record.failure.as_ref().zip(ending.failure.as_ref());
                failures.is_some_and(|(of_node, of_run)| is_from(of_node, of_run))
            };
            let record = step.record.as_ref().filter(failed);
            let node = record.map(|record| record.node);
            ("faulted", node, ending.failure.as_ref())
        });
        if !self.prepared.hears_incidents {
            for (what, node, failure) in dead.chain(faulted) {
                sends.push(self.incident(to, (what, node), failure, step.now_ms));
            }
        }
        if !sends.is_empty() {
            let attempt = step.record.as_ref().map_or(1, |record| record.attempt);
            let trace = self.trace_at((to.seq, attempt), base);
            sends
                .iter_mut()
                .for_each(|new| new.trace.clone_from(&trace));
        }
        sends
    }

    fn sent(&self, to: Address, place: usize, sent: &SentStimulus, at_ms: i64) -> NewStimulus {
        let matches = canonical(&sent.matches);
        NewStimulus {
            id: derived::sent(self.id, to.seq, place),
            name: sent.name.clone(),
            hash: hash(&sent.name, &matches, None),
            matches: Bytes::from(matches),
            correlation: sent.correlation.clone(),
            run: sent.run,
            input: sent.input.clone(),
            // The commit writes the blobs of its guest.
            blobs: Vec::new(),
            delivery: Delivery::unsaid(sent.correlation.is_some() || sent.run.is_some()),
            ttl_ms: TTL_MS,
            at_ms,
            tree: Some(self.sender_tree()),
            trace: None,
        }
    }

    fn incident(
        &self,
        to: Address,
        (what, node): (&str, Option<u32>),
        failure: Option<&Failure>,
        at_ms: i64,
    ) -> NewStimulus {
        let node = node.and_then(|node| self.prepared.graph.node(NodeIx(node)));
        let input = json!({
            "what": what,
            "node": node.map(|plan| plan.name.as_str()),
            "run": self.id.to_string(),
            "workflow": &*self.prepared.name,
            "correlation": self.correlation.as_deref(),
            "failure": failure.map(described),
        });
        NewStimulus {
            id: derived::incident(self.id, to.seq),
            name: INCIDENT.to_owned(),
            hash: hash(INCIDENT, b"null", None),
            matches: Bytes::from_static(b"null"),
            correlation: None,
            run: None,
            input: Payload::of(&input),
            blobs: Vec::new(),
            delivery: Delivery::StartAndResume,
            ttl_ms: TTL_MS,
            at_ms,
            tree: Some(self.sender_tree()),
            trace: None,
        }
    }
}

/// Whether the failure of a run is that of a node. It may have a note about a condition that could
/// not be evaluated.
pub(super) fn is_from(of_node: &Failure, of_run: &Failure) -> bool {
    of_node.code == of_run.code && of_run.message.starts_with(&of_node.message)
}
