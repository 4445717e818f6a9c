//! Members, and the small verbs of an owner.

use windlass_model::{Incarnation, RunNo, TriggerNo, TriggerState};

use super::data::{Data, Member};
use crate::codes;
use crate::error::{Error, Result};
use crate::rows::{MemberRow, Suspicion, TriggerRow};
use crate::write::{
    Fenced, Leave, Mark, NewMember, OrFenced, Park, Reap, Reaped, Release, Renew, Renewed, Unpark,
};

/// Row numbers carry the incarnation in 31 bits.
const INCARNATIONS: i64 = 0x7fff_ffff;

impl Data {
    pub(super) fn join(&mut self, new: &NewMember) -> Result<Incarnation> {
        if self.incarnations >= INCARNATIONS {
            let text = "the store has had more members than it can number";
            return Err(Error::new(codes::NO_INCARNATIONS, text));
        }
        self.incarnations += 1;
        let incarnation = Incarnation(self.incarnations);
        let row = MemberRow {
            incarnation,
            name: new.name.clone(),
            pid: std::process::id(),
            joined_ms: new.joined_ms,
        };
        let until_ms = self.now_ms.saturating_add(new.lease_ms);
        let member = Member {
            row,
            lease_ms: new.lease_ms,
            until_ms,
            alive: true,
        };
        self.members.insert(incarnation, member);
        Ok(incarnation)
    }

    pub(super) fn renew(&mut self, renew: &Renew) -> OrFenced<Renewed> {
        let member = self.members.get_mut(&renew.incarnation).ok_or(Fenced)?;
        member.until_ms = self.now_ms.saturating_add(member.lease_ms);
        Ok(Renewed {
            until_monotonic_ms: member.until_ms,
        })
    }

    pub(super) fn leave(&mut self, leave: &Leave) {
        let incarnation = leave.incarnation;
        // If the member was reaped before, its remaining runs are freed as those of a dead
        // member.
        if self.members.remove(&incarnation).is_some() {
            self.scans.remove(&incarnation);
            for no in self.held_by(|owner| owner == incarnation, u32::MAX) {
                self.unclaim(no);
                self.disown(no);
            }
        }
    }

    pub(super) fn reap(&mut self, reap: &Reap) -> Reaped {
        let now_ms = self.now_ms;
        let is_dead = |incarnation: &Incarnation, member: &Member| {
            *incarnation != reap.incarnation && (!member.alive || now_ms >= member.until_ms)
        };
        let dead = self.members.iter().filter(|(no, one)| is_dead(no, one));
        let dead: Vec<Incarnation> = dead.map(|(no, _)| *no).collect();
        for incarnation in dead {
            self.members.remove(&incarnation);
            self.scans.remove(&incarnation);
            self.conclude(incarnation);
        }
        let members: Vec<Incarnation> = self.members.keys().copied().collect();
        let orphans = self.held_by(|owner| !members.contains(&owner), reap.limit);
        let mut freed = Reaped::default();
        for no in orphans {
            freed.runs += 1;
            for trigger in self.claimed_of(no) {
                self.change(trigger.no, |row| {
                    row.state = TriggerState::Pending;
                    if row.suspicion == Suspicion::None {
                        row.deliveries += 1;
                        if row.deliveries >= 2 && !row.kind.is_control() {
                            row.suspicion = Suspicion::Suspect(Suspicion::WIDEST);
                        }
                    }
                    freed.triggers += 1;
                    freed.suspects += u32::from(row.suspicion != Suspicion::None);
                });
            }
            self.disown(no);
        }
        freed
    }

    /// Draws the conclusion from the death of a member with a group of suspects.
    fn conclude(&mut self, dead: Incarnation) {
        let runs = self.held_by(|owner| owner == dead, u32::MAX);
        let held: Vec<TriggerRow> = runs.iter().flat_map(|no| self.claimed_of(*no)).collect();
        let held = held.iter().filter(|row| !row.kind.is_control());
        let group: Vec<&TriggerRow> = held
            .clone()
            .filter(|row| matches!(row.suspicion, Suspicion::Marked(_)))
            .collect();
        let beside: Vec<&TriggerRow> = held
            .filter(|row| row.suspicion == Suspicion::None)
            .collect();
        let (then, spreads) = match group[..] {
            [] => return,
            [last] => match last.suspicion {
                Suspicion::Marked(Suspicion::ALONE_TWICE) => (Suspicion::Guilty, false),
                _ if beside.is_empty() => (Suspicion::Guilty, false),
                Suspicion::Marked(1) => (Suspicion::Suspect(Suspicion::ALONE_TWICE), true),
                _ => (Suspicion::Suspect(1), true),
            },
            [..] => {
                let among = u16::try_from(group.len()).unwrap_or(u16::MAX);
                (Suspicion::Suspect(among), false)
            }
        };
        let widest = Suspicion::Suspect(Suspicion::WIDEST);
        let marked = group.iter().map(|row| (row.no, then));
        let others = beside.iter().filter(|_| spreads);
        for (no, suspicion) in marked.chain(others.map(|row| (row.no, widest))) {
            self.change(no, |row| {
                row.deliveries += 1;
                row.suspicion = suspicion;
            });
        }
    }

    fn claimed_of(&self, no: RunNo) -> Vec<TriggerRow> {
        let rows = self.triggers_of(no).into_iter();
        let rows = rows.filter_map(|no| self.triggers.get(&no));
        rows.filter(|row| row.state == TriggerState::Claimed)
            .cloned()
            .collect()
    }

    pub(super) fn mark(&mut self, mark: &Mark) -> OrFenced<()> {
        if !self.members.contains_key(&mark.incarnation) {
            return Err(Fenced);
        }
        for trigger in &mark.triggers {
            self.change(trigger.no, |row| {
                if let Suspicion::Suspect(among) = row.suspicion
                    && (row.state, row.token) == (TriggerState::Claimed, trigger.token)
                {
                    row.suspicion = Suspicion::Marked(among);
                }
            });
        }
        Ok(())
    }

    pub(super) fn release(&mut self, release: &Release) -> OrFenced<()> {
        let fence = &release.fence;
        if !self.holds(fence) {
            return Err(Fenced);
        }
        self.unclaim(fence.run);
        self.disown(fence.run);
        Ok(())
    }

    pub(super) fn park(&mut self, park: &Park) -> OrFenced<()> {
        let (fence, trigger) = (&park.fence, &park.trigger);
        if !self.holds(fence) || !self.is_claimed(fence, trigger.no, trigger.token) {
            return Err(Fenced);
        }
        self.change(trigger.no, |row| {
            row.state = TriggerState::Parked;
            row.suspicion = row.suspicion.unmarked();
        });
        self.park_reasons.insert(trigger.no, park.reason.clone());
        Ok(())
    }

    /// Unparks the triggers of a run. True if there were any.
    pub(super) fn unpark_of(&mut self, run: RunNo) -> bool {
        let mut back = false;
        for trigger in self.triggers_of(run) {
            self.change(trigger, |row| {
                if row.state == TriggerState::Parked {
                    row.state = TriggerState::Pending;
                    back = true;
                }
            });
        }
        back
    }

    /// Parks a due trigger of a paused run. False if it is a control trigger, which stays
    /// pending.
    pub(super) fn park_paused(&mut self, no: TriggerNo) -> bool {
        let mut parked = false;
        self.change(no, |row| {
            if row.state == TriggerState::Pending && !row.kind.is_control() {
                row.state = TriggerState::Parked;
                row.suspicion = row.suspicion.unmarked();
                parked = true;
            }
        });
        if parked {
            self.park_reasons.remove(&no);
        }
        parked
    }

    pub(super) fn unpark(&mut self, _: &Unpark) -> u32 {
        self.retry_schedules();
        let parked: Vec<_> = self
            .triggers
            .values()
            .filter(|row| row.state == TriggerState::Parked)
            .map(|row| row.no)
            .collect();
        for no in &parked {
            self.change(*no, |row| row.state = TriggerState::Pending);
        }
        u32::try_from(parked.len()).unwrap_or(u32::MAX)
    }

    /// Makes the claimed triggers of a run pending. Suspects stay suspects.
    pub(super) fn unclaim(&mut self, run: RunNo) {
        for trigger in self.triggers_of(run) {
            self.change(trigger, |row| {
                if row.state == TriggerState::Claimed {
                    row.state = TriggerState::Pending;
                    row.suspicion = row.suspicion.unmarked();
                }
            });
        }
    }

    fn disown(&mut self, no: RunNo) {
        if let Some(run) = self.runs.get_mut(&no) {
            run.row.owner = None;
        }
    }

    fn held_by(&self, is: impl Fn(Incarnation) -> bool, limit: u32) -> Vec<RunNo> {
        let rows = self.runs.values().map(|run| &run.row);
        let held = rows.filter_map(|row| Some((row.owner.filter(|owner| is(*owner))?, row.no)));
        let mut held: Vec<_> = held.collect();
        held.sort_unstable();
        let first = held.into_iter().take(limit as usize);
        first.map(|(_, no)| no).collect()
    }
}
