//! What the log says about failures: one line for each step that ends a run by a failure, gives a
//! node up, or makes a dead letter.
//!
//! A line is written when the step is durable, so a step that is repeated after a crash has one
//! line. A step without a failure makes nothing here. The log limits the lines of a flood, by
//! workflow, file and code.

use std::sync::Arc;

use windlass_engine::{Command, NodeIx};
use windlass_model::{ExecutionStatus, Failure, RunId, ScopeNo, Seq, Status, visible};
use windlass_store::letters::LetterBody;

use super::commit::Step;
use super::owned::OwnedRun;
use super::sends::is_from;
use super::work::Address;

/// A line of the log about a step.
pub(super) struct Trouble {
    what: What,
    run: RunId,
    workflow: Arc<str>,
    correlation: Option<Arc<str>>,
    node: Option<Arc<str>>,
    item: Vec<u32>,
    trigger: Seq,
    attempt: u32,
    failure: Option<Failure>,
}

/// What has happened.
enum What {
    /// The run has ended by a failure.
    Faulted,
    /// A node has failed, and the run continues or undoes its completed nodes.
    Failed,
    /// A node has failed in its last attempt, and its `on-error` decides about that.
    GaveUp,
    /// A trigger, a resumption or a stimulus has become a dead letter, for this reason.
    DeadLetter(String),
}

impl Trouble {
    /// Writes the line.
    pub(super) fn log(&self) {
        let Self { run, trigger, .. } = self;
        let (workflow, correlation) = (&*self.workflow, self.correlation.as_deref());
        let (node, item) = (self.node.as_deref(), self.item());
        let item = item.as_deref();
        // An attempt is one of a node.
        let attempt = node.map(|_| self.attempt);
        let failure = self.failure.as_ref();
        let code = failure.map(|failure| tracing::field::display(&failure.code));
        let error = failure.map(told);
        let error = error.as_deref();
        match &self.what {
            What::Faulted => {
                tracing::warn!(%run, workflow, correlation, node, item, attempt, code, error, "run faulted");
            }
            What::Failed => {
                tracing::warn!(%run, workflow, correlation, node, item, attempt, code, error, "node failed; its run goes on");
            }
            What::GaveUp => {
                tracing::warn!(%run, workflow, correlation, node, item, attempt, code, error, "last attempt failed; `on-error` handles it");
            }
            What::DeadLetter(reason) => {
                tracing::warn!(%run, %trigger, workflow, correlation, node, reason, code, error, "dead letter");
            }
        }
    }

    /// The item, like `3`, or `0.3` for the fourth item of the first item.
    fn item(&self) -> Option<String> {
        let positions: Vec<String> = self.item.iter().map(u32::to_string).collect();
        (!positions.is_empty()).then(|| positions.join("."))
    }
}

/// The message of a failure, with the position in the source of its node if it has one.
fn told(failure: &Failure) -> String {
    let message = &failure.message;
    let origin = failure.origin.as_deref();
    visible::sentence(match origin.and_then(|origin| origin.position.as_ref()) {
        Some(position) => format!("{message} at {position}"),
        None => message.clone(),
    })
}

impl OwnedRun {
    /// The positions of the items around a scope, the outermost first.
    pub(super) fn position(&self, scope: ScopeNo) -> Vec<u32> {
        let around = self.state.around(scope);
        let mut positions: Vec<u32> = around
            .filter_map(|scope| Some(self.state.scope(scope)?.index))
            .collect();
        positions.reverse();
        positions
    }

    /// The lines of a step; its commands are not carried out yet.
    pub(super) fn troubles(&self, to: Address, step: &Step) -> Box<[Trouble]> {
        let mut troubles = Vec::new();
        if let Some(trouble) = self.failed(to, step) {
            troubles.push(trouble);
        }
        for letter in &step.dead {
            let (node, trigger) = match &letter.body {
                LetterBody::Trigger(dead) => (dead.node, dead.seq),
                LetterBody::Stimulus(_) => (None, to.seq),
            };
            let what = What::DeadLetter(letter.reason.clone());
            let node = node.map(NodeIx);
            let letter = self.trouble(what, (trigger, node, 1), letter.failure.as_ref());
            troubles.push(letter);
        }
        troubles.into_boxed_slice()
    }

    /// The line about the failure of a step. Of several failures, the first one is the cause.
    fn failed(&self, to: Address, step: &Step) -> Option<Trouble> {
        let record = step.record.as_ref();
        let attempt = record.map_or(1, |record| record.attempt);
        let incident = step.commands.iter().find_map(|command| match command {
            Command::Incident { node, failure, .. } => Some((*node, failure)),
            _ => None,
        });
        let faulted = step
            .finish
            .as_ref()
            .filter(|ending| ending.status == Status::Faulted);
        let own = record.and_then(|record| Some((NodeIx(record.node), record.failure.as_ref()?)));
        let (what, node, failure) = match (faulted, incident, own) {
            (Some(ending), incident, own) => {
                let failure = ending.failure.as_ref();
                // The last step of a run that undoes its nodes is one of a compensation.
                let own = own
                    .filter(|(_, of_node)| failure.is_some_and(|of_run| is_from(of_node, of_run)));
                let node = incident.or(own).map(|(node, _)| node);
                (What::Faulted, node, failure)
            }
            (None, Some((node, failure)), _) => (What::Failed, Some(node), Some(failure)),
            (None, None, Some((node, failure))) => {
                let is_last = record.is_some_and(|it| it.status == ExecutionStatus::Failed);
                if attempt == 1 || !is_last {
                    return None;
                }
                (What::GaveUp, Some(node), Some(failure))
            }
            (None, None, None) => return None,
        };
        let mut trouble = self.trouble(what, (to.seq, node, attempt), failure);
        trouble.item.clone_from(&step.item);
        Some(trouble)
    }

    fn trouble(
        &self,
        what: What,
        (trigger, node, attempt): (Seq, Option<NodeIx>, u32),
        failure: Option<&Failure>,
    ) -> Trouble {
        let executor = node.and_then(|node| self.prepared.executor(node));
        Trouble {
            what,
            run: self.id,
            workflow: Arc::clone(&self.prepared.name),
            correlation: self.correlation.clone(),
            node: executor.map(|it| Arc::clone(&it.name)),
            item: Vec::new(),
            trigger,
            attempt,
            failure: failure.cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_model::{Class, Code, Origin, Position};

    #[test]
    fn the_position_follows_the_message() {
        let mut failure = Failure::new(Class::Permanent, Code::new("WL-X001"), "no\nway");
        assert_eq!(told(&failure), "no␊way");
        let position = Position {
            source: Some("src/a.js".to_owned()),
            line: 3,
            column: 14,
        };
        failure.origin = Some(Box::new(Origin {
            stack: None,
            position: Some(position),
        }));
        assert_eq!(told(&failure), "no␊way at src/a.js:3:14");
    }
}
