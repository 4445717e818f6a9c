//! Checks publishing, the runs that published workflows start, and schedules.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_model::{Digest, RunId, ScheduleNo};
use windlass_store::published::{NewPublication, Plan, Planned, Published as Made};
use windlass_store::stimuli::{Send, Sent};

use super::starters::START;

/// The checker's model of published workflows.
#[derive(Default)]
pub(super) struct Published {
    workflows: BTreeMap<String, Workflow>,
    schedules: BTreeMap<ScheduleNo, Decided>,
    /// The number of runs that schedules have started, and that stimuli have started.
    pub(super) occurrences: u64,
    pub(super) started: u64,
}

#[derive(Default)]
struct Workflow {
    versions: u32,
    current: Option<Current>,
}

/// The published version.
struct Current {
    version: u32,
    definition: Digest,
    /// The hashes of the stimuli that start it.
    bound: Vec<Digest>,
}

/// The decisions about a schedule.
#[derive(Default)]
struct Decided {
    last_ms: Option<i64>,
    /// The interval between two occurrences at the last decision; zero if another schedule was
    /// published since, because intervals count anew then.
    step_ms: i64,
    workflow: String,
    tick: Value,
    happened: BTreeMap<i64, RunId>,
}

impl Published {
    /// Checks a publication; the version may have been published before.
    pub(super) fn published(&mut self, new: &NewPublication, made: Made) -> Vec<String> {
        let name = &new.definition.name;
        let digest = new.definition.digest;
        let workflow = self.workflows.entry(name.clone()).or_default();
        let was = workflow.current.as_ref().map(|current| current.definition);
        let expected = if was == Some(digest) {
            (workflow.versions, true)
        } else {
            (workflow.versions + 1, false)
        };
        let tick = tick(&new.definition.json);
        for decided in self.schedules.values_mut() {
            if decided.workflow == *name && decided.tick != tick {
                decided.step_ms = 0;
            }
        }
        workflow.versions = expected.0;
        workflow.current = Some(Current {
            version: expected.0,
            definition: digest,
            bound: new.bindings.iter().map(|binding| binding.hash).collect(),
        });
        let wrong = (made.version, made.unchanged) != expected;
        let said = || format!("{name} was published as {made:?} and not as {expected:?}");
        wrong.then(said).into_iter().collect()
    }

    /// Checks a retraction.
    pub(super) fn retracted(&mut self, name: &str, told: Option<u32>) -> Vec<String> {
        let workflow = self.workflows.entry(name.to_owned()).or_default();
        let was = workflow.current.take().map(|current| current.version);
        let said = || format!("{name} was taken back as {told:?} and not as {was:?}");
        (was != told).then(said).into_iter().collect()
    }

    /// Checks that a stimulus starts all workflows that are published at that moment and match, and
    /// no others.
    pub(super) fn sent(&mut self, send: &Send, sent: &Sent) -> Vec<String> {
        if send.stimulus.name != START || sent.refused {
            return Vec::new();
        }
        let hash = send.stimulus.hash;
        let published = self
            .workflows
            .values()
            .filter_map(|one| one.current.as_ref());
        let bound = published.filter(|current| current.bound.contains(&hash));
        let mut expected: Vec<Digest> = bound.map(|current| current.definition).collect();
        let starts = send.starts.iter().map(|(_, new)| new);
        let started = starts.filter(|new| sent.started.contains(&new.id));
        let mut started: Vec<Digest> = started.map(|new| new.definition.digest).collect();
        expected.sort_unstable();
        started.sort_unstable();
        self.started += started.len() as u64;
        let said = || format!("a stimulus started {started:?}, and {expected:?} is published");
        (expected != started).then(said).into_iter().collect()
    }

    /// Checks a decision about an occurrence.
    pub(super) fn planned(&mut self, plan: &Plan, planned: Planned) -> Vec<String> {
        let mut wrong = Vec::new();
        let (no, at_ms) = (plan.schedule, plan.planned_ms);
        if matches!(planned, Planned::Queued | Planned::Stale) {
            return wrong;
        }
        let decided = self.schedules.entry(no).or_default();
        let definition = plan.create.as_ref().map(|new| &new.definition);
        if let Some(definition) = definition {
            decided.workflow.clone_from(&definition.name);
            decided.tick = tick(&definition.json);
        }
        let timing = definition.map(|_| timing(&decided.tick));
        if let (Some(last_ms), Some((step_ms, most))) = (decided.last_ms, timing) {
            // The number of due occurrences, and how many of them may be skipped.
            let between = (at_ms - last_ms) / step_ms - 1;
            let due = (plan.at_ms - last_ms) / step_ms;
            if decided.step_ms == step_ms && between > (due - most).max(0) {
                wrong.push(format!(
                    "schedule {no:?} leaves {between} out before {at_ms}, of {due} that are due"
                ));
            }
        }
        if decided.last_ms.is_some_and(|last_ms| last_ms > at_ms) {
            wrong.push(format!("schedule {no:?} goes back to {at_ms}"));
        }
        if let Planned::Created(id) = planned {
            self.occurrences += 1;
            if at_ms > plan.at_ms {
                wrong.push(format!("schedule {no:?} plans {at_ms} too early"));
            }
            if decided.happened.insert(at_ms, id).is_some() {
                wrong.push(format!("schedule {no:?} happens twice at {at_ms}"));
            }
        }
        decided.last_ms = Some(at_ms);
        decided.step_ms = timing.map_or(decided.step_ms, |(step_ms, _)| step_ms);
        wrong
    }
}

/// The schedule of a definition.
fn tick(json: &[u8]) -> Value {
    let definition: Value = serde_json::from_slice(json).unwrap();
    definition["triggers"]["tick"].clone()
}

/// The interval between occurrences of a schedule, in milliseconds, and the limit of occurrences
/// that are caught up.
fn timing(tick: &Value) -> (i64, i64) {
    let step_ms = match (&tick["cron"], tick["every"].as_str()) {
        (Value::String(cron), _) => match cron.as_str() {
            "*/10 * * * * *" => 10_000,
            "*/15 * * * * *" => 15_000,
            _ => 60_000,
        },
        (_, Some(every)) => 1_000 * every.trim_end_matches('s').parse::<i64>().unwrap(),
        _ => panic!("no schedule: {tick}"),
    };
    (step_ms, tick["misfire"]["catch-up"].as_i64().unwrap_or(1))
}
