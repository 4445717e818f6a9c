//! Checks the final state, when no step is possible any more.

use std::collections::{BTreeMap, BTreeSet};

use windlass_engine::RunState;
use windlass_model::Digest;
use windlass_store::Reader as _;
use windlass_store::letters::{LetterBody, LetterQuery};
use windlass_store::rows::BORN_VERSION;

use super::World;
use crate::rebuilding::{Rebuilt, rebuild};
use crate::sim::checker::Checker;
use crate::sim::graphs::ALL;

impl World {
    /// Whether every run has ended as the checker saw it, and no row of it is left.
    pub(super) fn check_end(&self) -> Result<(), String> {
        let counts = self.root.counts().unwrap();
        if (counts.unfinished, counts.triggers) != (0, 0) {
            return Err(format!("something is left: {counts:?}"));
        }
        let checker = self.checker.lock();
        for (no, id, end, executions) in checker.all() {
            if checker.is_forgotten(no) {
                if let Some(row) = self.root.run_by_no(no).unwrap() {
                    return Err(format!("run {no} was forgotten, and is {row:?}"));
                }
                continue;
            }
            let row = self.root.run(id).unwrap();
            if checker.is_deleted(id) != row.is_none() {
                return Err(format!("run {id} was deleted, or not, and is {row:?}"));
            }
            let Some(row) = row else { continue };
            if Some(row.status) != end || row.owner.is_some() {
                return Err(format!("run {no} ended as {end:?} and is {row:?}"));
            }
            let runs = self.root.executions(no, None, u32::MAX).unwrap();
            if runs.len() != executions {
                let there = runs.len();
                return Err(format!("run {no} has {there} records of {executions}"));
            }
        }
        for id in self.requests.keys() {
            if checker.end_of(*id).is_none() {
                return Err(format!("run {id} was acknowledged and has not ended"));
            }
        }
        self.check_events(&checker)?;
        self.check_letters()?;
        for slot in &self.slots {
            if let Some(process) = &slot.process {
                process.look_twice();
                let in_flight = process.parts.shared.intake.flow.in_flight();
                if in_flight != 0 {
                    let life = process.life;
                    return Err(format!(
                        "process {life} counts {in_flight} in flight for ever"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that the events of each run lead to each state that was written.
    fn check_events(&self, checker: &Checker) -> Result<(), String> {
        for (no, states) in checker.states() {
            let mut made = BTreeMap::new();
            let mut prepare = |definition: Digest, _: Digest| {
                let mut all = ALL.workflows.iter().chain(&ALL.published);
                let known = all.find(|one| one.definition.digest == definition);
                Ok(known.cloned().ok_or_else(|| "it is unknown".to_owned()))
            };
            let mut watch = |version, state: &RunState| drop(made.insert(version, state.encode()));
            let root = self.root.as_ref();
            match rebuild(root, no, &mut prepare, &mut watch).unwrap() {
                // It was deleted.
                None => continue,
                Some(Rebuilt::Same { .. }) => {}
                Some(other) => return Err(format!("the events of {no}: {other:?}")),
            }
            let born = states.get(&BORN_VERSION);
            for (version, written) in states {
                let made = made.range(..=*version).next_back();
                let made = made.map(|(_, made)| &**made).or(born.map(|born| &**born));
                if made != Some(&**written) {
                    return Err(format!("the events of {no} make another {version:?}"));
                }
            }
        }
        Ok(())
    }

    /// Checks that a trigger becomes a dead letter once.
    fn check_letters(&self) -> Result<(), String> {
        let query = LetterQuery {
            limit: u32::MAX,
            ..LetterQuery::default()
        };
        let mut dead = BTreeSet::new();
        for row in self.root.dead_letters(&query).unwrap() {
            let LetterBody::Trigger(trigger) = row.letter.body else {
                continue;
            };
            let (no, seq) = (trigger.run, trigger.seq);
            if !dead.insert((no, seq)) {
                return Err(format!("trigger {seq} of {no} has two dead letters"));
            }
        }
        Ok(())
    }
}
