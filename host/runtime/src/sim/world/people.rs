//! Users and other systems: they send stimuli, fire and schedule triggers, and cancel runs.

use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;
use windlass_model::stimulus::{Delivery, Stimulus};
use windlass_model::{Clock as _, Payload, RunId, StimulusId, TriggerId, TriggerNo, TriggerType};
use windlass_store::external::{Control, TriggerTarget};
use windlass_store::lives::LifeOp;
use windlass_store::{MemoryStore, Reader as _, Verb, Write, Writer as _};

use super::{Mutation, World};
use crate::catalog::Prepared;
use crate::operations::{self, Operations, Retry};
use crate::sim::graphs::{ALL, OFTEN, ONCE};

/// How long a stimulus is buffered for later bookmarks, in milliseconds: longer than the
/// simulation.
const KEPT_MS: u64 = 30 * 24 * 3_600_000;

impl World {
    /// A handle for users, whose writes the checker also sees.
    pub(super) fn client_of(&self) -> Arc<MemoryStore> {
        let client = self.root.another();
        let (checker, clock) = (Arc::clone(&self.checker), Arc::clone(&self.clock));
        let deaf = self.mutation == Some(Mutation::Unretracted);
        client.set_witness(Some(Box::new(move |seen| {
            if deaf && matches!(seen.write, Write::Retract(_)) {
                return;
            }
            checker.lock().see(0, seen, clock.now_ms());
        })));
        client
    }

    /// A client for users.
    fn desk(&self) -> Operations {
        let (store, clock) = (Arc::clone(&self.client), Arc::clone(&self.clock));
        Operations::detached(store, clock, Arc::new(Arc::clone(&ALL.host)))
    }

    /// The stimuli for which a workflow waits once, each with its time of sending, by node.
    pub(super) fn stimuli(&mut self, prepared: &Prepared) -> Vec<(u64, u64)> {
        let json: Value = serde_json::from_slice(&prepared.definition.json).unwrap();
        let nodes = json["nodes"].as_object().into_iter().flatten();
        let waiting = nodes.filter(|(_, node)| node["event"] == ONCE);
        let matches = waiting.filter_map(|(_, node)| node["match"].as_u64());
        let now_ms = self.clock.now_ms();
        matches
            .map(|node| (node, now_ms + self.dice.below(40_000)))
            .collect()
    }

    fn id(&mut self) -> Uuid {
        Uuid::from_u128(u128::from(self.dice.roll()) << 64 | u128::from(self.dice.roll()))
    }

    pub(super) fn send(
        &mut self,
        name: &str,
        matches: Value,
        to: Option<RunId>,
        delivery: Delivery,
    ) {
        let stimulus = Stimulus {
            name: name.to_owned(),
            matches,
            correlation: None,
            run: to,
            input: Payload::json("true"),
            delivery,
            ttl_ms: KEPT_MS,
            trace: None,
        };
        let id = StimulusId(self.id());
        self.report.stimuli += 1;
        if !self.send_by_one(id, &stimulus) {
            let client = self.desk();
            client.now(|inner| inner.send(id, &stimulus)).unwrap();
        }
    }

    /// Sends a stimulus through an existing process, in some cases.
    fn send_by_one(&mut self, id: StimulusId, stimulus: &Stimulus) -> bool {
        let (now_ms, at) = (self.clock.now_ms(), self.dice.place(self.slots.len()));
        let by_one = self.dice.once_in(2);
        let one = self.slots[at].awake(now_ms).filter(|_| by_one);
        one.is_some_and(|process| process.send(id, stimulus))
    }

    /// Does the due actions of users.
    pub(super) fn interfere(&mut self) {
        let now_ms = self.clock.now_ms();
        let mut due = Vec::new();
        for (id, asked) in &mut self.requests {
            if asked.acknowledged {
                let ready = asked.stimuli.extract_if(.., |(_, at_ms)| *at_ms <= now_ms);
                due.extend(ready.map(|(node, _)| (*id, node)));
            }
        }
        let over = self.paused.extract_if(.., |(_, at_ms)| *at_ms <= now_ms);
        for (id, _) in over.collect::<Vec<_>>() {
            self.control(id, TriggerType::Unpause);
        }
        for (id, node) in due {
            self.send(ONCE, json!(node), Some(id), Delivery::Buffer);
        }
        if now_ms >= self.often_ms {
            self.often_ms = now_ms + self.dice.between(500, 20_000);
            if self.root.counts().unwrap().bookmarks > 0 {
                self.send(OFTEN, Value::Null, None, Delivery::Resume);
            }
        }
        if self.something_happened
            && self.habits.meddle > 0
            && self.dice.once_in(self.habits.meddle)
        {
            self.meddle();
        }
    }

    fn control(&mut self, run: RunId, kind: TriggerType) {
        let at_ms = self.clock.wall_ms();
        self.numbered(|no| Control {
            run,
            no,
            kind,
            at_ms,
        });
    }

    /// Writes a verb that takes a number.
    fn numbered<V: Verb>(&mut self, verb: impl FnOnce(TriggerNo) -> V) {
        let store = Arc::clone(&self.client);
        let now_ms = self.clock.wall_ms();
        let written = operations::as_member(&*store, now_ms, |numbers| {
            Ok(store.write(verb(numbers.trigger().unwrap()))?)
        });
        written.unwrap();
    }

    /// Changes a requested run.
    fn meddle(&mut self) {
        let ids: Vec<RunId> = self.requests.keys().copied().collect();
        let id = *self.dice.pick(&ids);
        let store = Arc::clone(&self.client);
        let Some(row) = store.run(id).unwrap() else {
            return;
        };
        let once = self.requests[&id].once;
        let now_ms = self.clock.wall_ms();
        let mut rows = store.triggers(row.no).unwrap();
        // Cancelling an unpause trigger would pause the run for ever.
        rows.retain(|row| !row.kind.is_control());
        let target =
            (!rows.is_empty()).then(|| TriggerTarget::Row(row.no, self.dice.pick(&rows).seq));
        self.report.meddling += 1;
        match (self.dice.below(10), target) {
            (6, _) => {
                self.control(id, TriggerType::Pause);
                // A run that is paused twice is also continued twice, and the last time counts.
                let until_ms = self.clock.now_ms() + self.dice.below(30_000);
                self.paused.push((id, until_ms));
            }
            (7, _) if row.status.is_final() || self.dice.once_in(4) => {
                let id = row.id;
                self.numbered(|no| LifeOp::Delete {
                    run: id,
                    no,
                    at_ms: now_ms,
                });
            }
            // A retried node would wait for a stimulus that is sent only once.
            (8 | 9, _) if !once => {
                let client = self.desk();
                if client
                    .now(|inner| inner.retry(id, &Retry::default()))
                    .is_ok()
                {
                    self.report.retries += 1;
                }
            }
            (0, _) => self.control(id, TriggerType::Cancel),
            (1, Some(target)) => drop(operations::cancel_trigger(&*store, now_ms, target).unwrap()),
            (2, Some(target)) => {
                let due_ms = now_ms.saturating_add_unsigned(self.dice.below(5_000));
                operations::reschedule(&*store, target, due_ms).unwrap();
            }
            // A node that runs once more would wait for a stimulus that is sent only once.
            (3, _) if !once => {
                let new = operations::Schedule {
                    id: Some(TriggerId(self.id())),
                    run: id,
                    node: "n0".to_owned(),
                    due_ms: None,
                    payload: None,
                    priority: 1,
                };
                self.desk().now(|inner| inner.schedule(new)).unwrap();
            }
            (_, Some(target)) => drop(operations::fire(&*store, now_ms, target).unwrap()),
            (_, None) => {}
        }
    }
}
