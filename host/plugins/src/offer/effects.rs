//! The effects that a guest requests.

use windlass_model::{Payload, RunId};

use crate::grant::secrets::Secrets;

/// Effects that a guest requests: they are part of the commit of its call, or dropped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// Stimuli to send.
    pub sent: Vec<SentStimulus>,
    /// Triggers for its own run.
    pub scheduled: Vec<ScheduledTrigger>,
}

impl Effects {
    /// Removes secrets.
    pub(crate) fn clean(&mut self, secrets: &Secrets) {
        if secrets.is_empty() {
            return;
        }
        for sent in &mut self.sent {
            secrets.clean_payload(&mut sent.input);
            secrets.clean_value(&mut sent.matches);
        }
        for scheduled in &mut self.scheduled {
            if let Some(vars) = &mut scheduled.vars {
                secrets.clean_payload(vars);
            }
        }
    }

    /// Whether there are no effects.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.scheduled.is_empty()
    }
}

/// A stimulus that a guest sends. Its payload is JSON, or a blob that the guest was given.
#[derive(Clone, Debug, PartialEq)]
pub struct SentStimulus {
    /// The name of the event; of the kind [`windlass_model::valid::EVENT`].
    pub name: String,
    /// The match, which is compared as canonical JSON.
    pub matches: serde_json::Value,
    /// Only for runs that wait with this correlation.
    pub correlation: Option<String>,
    /// Only for this run.
    pub run: Option<RunId>,
    /// The input.
    pub input: Payload,
}

/// A trigger that a guest schedules for its own run.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledTrigger {
    /// The node to run, by name. The caller checks whether the workflow has it.
    pub node: String,
    /// The due time, in epoch milliseconds.
    pub at_ms: i64,
    /// A JSON object whose members are assigned to `vars` first.
    pub vars: Option<Payload>,
}
