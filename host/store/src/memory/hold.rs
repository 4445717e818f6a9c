//! Members, and the small verbs of an owner.

use windlass_model::{Incarnation, RunNo, TriggerNo, TriggerState};

use super::data::{Data, Member};
use crate::codes;
use crate::error::{Error, Result};
use crate::rows::{MemberRow, Suspicion};
use crate::write::{
    Fenced, Leave, Mark, NewMember, OrFenced, Park, Reap, Release, Renew, Renewed, Unpark,
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

    pub(super) fn reap(&mut self, reap: &Reap) -> u32 {
        let now_ms = self.now_ms;
        self.members.retain(|incarnation, member| {
            *incarnation == reap.incarnation || (member.alive && now_ms < member.until_ms)
        });
        let members: Vec<Incarnation> = self.members.keys().copied().collect();
        self.scans
            .retain(|incarnation, _| members.contains(incarnation));
        let orphans = self.held_by(|owner| !members.contains(&owner), reap.limit);
        for no in &orphans {
            for trigger in self.triggers_of(*no) {
                self.change(trigger, |row| {
                    if row.state == TriggerState::Claimed {
                        row.state = TriggerState::Pending;
                        row.deliveries = match row.suspicion {
                            Suspicion::Marked => row.deliveries + 1,
                            Suspicion::None | Suspicion::Suspect => row.deliveries.max(1),
                        };
                        row.suspicion = Suspicion::Suspect;
                    }
                });
            }
            self.disown(*no);
        }
        u32::try_from(orphans.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn mark(&mut self, mark: &Mark) -> OrFenced<()> {
        let (fence, trigger) = (&mark.fence, &mark.trigger);
        if !self.holds(fence) || !self.is_claimed(fence, trigger.no, trigger.token) {
            return Err(Fenced);
        }
        self.change(trigger.no, |row| row.suspicion = Suspicion::Marked);
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
            row.suspicion = without_mark(row.suspicion);
        });
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
                row.suspicion = without_mark(row.suspicion);
                parked = true;
            }
        });
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
                    row.suspicion = without_mark(row.suspicion);
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

fn without_mark(suspicion: Suspicion) -> Suspicion {
    match suspicion {
        Suspicion::None => Suspicion::None,
        Suspicion::Suspect | Suspicion::Marked => Suspicion::Suspect,
    }
}
