//! Claims, as in SQLite: a walk through the due index that is bounded per call and continues where
//! it stopped.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;

use windlass_model::{RunNo, Status, TriggerNo, TriggerState};

use super::data::Data;
use crate::rows::TriggerRow;
use crate::write::{Claim, ClaimScope, ClaimedRun, Claims, of_scope, of_trigger};

/// Entries of the due index that one call examines.
const ROWS: usize = 4096;

/// The due time of a trigger that waits without a time-out.
const NEVER: i64 = i64::MAX;

/// A position in the due index within one priority.
type DuePosition = (i64, RunNo, TriggerNo);

/// The progress of a member's walk.
#[derive(Default)]
pub(super) struct Scan {
    /// By priority, the highest first.
    places: BTreeMap<Reverse<i32>, DuePosition>,
    /// The counter of triggers made pending when the walk began.
    made_pending: u64,
    /// Whether the walk left due triggers of a run because of the bound on triggers.
    left: bool,
}

#[derive(Default)]
struct Taking {
    claims: Claims,
    places: BTreeMap<RunNo, usize>,
    /// The bytes of the runs.
    bytes: u64,
}

enum Verdict {
    Claimed,
    NotMine,
    Parked,
    Enough,
    Full,
}

impl Data {
    pub(super) fn claim(&mut self, claim: &Claim) -> Claims {
        if !self.members.contains_key(&claim.incarnation) {
            return Claims::default();
        }
        let mut taking = Taking::default();
        match &claim.scope {
            ClaimScope::All | ClaimScope::Control => self.walk(claim, &mut taking),
            ClaimScope::Only(runs) => {
                for no in runs {
                    self.claim_of(claim, &mut taking, *no);
                }
            }
        }
        for claimed in taking
            .claims
            .runs
            .iter_mut()
            .filter(|claimed| claimed.taken)
        {
            let all = self.triggers_of(claimed.row.no);
            let rows = all.iter().filter_map(|no| self.triggers.get(no));
            claimed.others = rows
                .filter(|row| row.state != TriggerState::Claimed)
                .cloned()
                .collect();
            let run = self.runs.get(&claimed.row.no);
            let scopes = run.into_iter().flat_map(|run| &run.scopes);
            claimed.scopes = scopes.map(|(no, state)| (*no, state.clone())).collect();
        }
        taking.claims
    }

    fn walk(&mut self, claim: &Claim, taking: &mut Taking) {
        let made_pending = self.made_pending;
        let begun = Scan {
            made_pending,
            ..Scan::default()
        };
        let is_whole = claim.scope == ClaimScope::All;
        let mut scan = begun;
        if is_whole && let Some(before) = self.scans.remove(&claim.incarnation) {
            scan = before;
        }
        taking.claims.more = true;
        let mut rows = ROWS;
        let priorities = self.priorities();
        let lowest = claim.scope.lowest();
        for priority in priorities.into_iter().filter(|of| of.0 >= lowest) {
            let places = self.due_after(priority, scan.places.get(&priority), claim.now_ms, rows);
            for place in &places {
                match self.claim_one(claim, taking, place.1, place.2) {
                    Verdict::Claimed | Verdict::NotMine | Verdict::Parked => {}
                    Verdict::Enough => scan.left = true,
                    Verdict::Full => {
                        self.keep(claim, scan);
                        return;
                    }
                }
                scan.places.insert(priority, *place);
            }
            rows -= places.len();
            if rows == 0 {
                self.keep(claim, scan);
                return;
            }
        }
        taking.claims.more = scan.left || scan.made_pending != self.made_pending;
        if !taking.claims.more && is_whole {
            let later = self.due.iter().filter(|(_, due_ms, run, _)| {
                *due_ms > claim.now_ms && *due_ms < NEVER && self.may_take(claim, *run)
            });
            taking.claims.next_due_ms = later.map(|(_, due_ms, ..)| *due_ms).min();
        }
    }

    /// Keeps the progress of a walk through all priorities.
    fn keep(&mut self, claim: &Claim, scan: Scan) {
        if claim.scope == ClaimScope::All {
            self.scans.insert(claim.incarnation, scan);
        }
    }

    /// The priorities of pending triggers, the highest first.
    fn priorities(&self) -> Vec<Reverse<i32>> {
        let mut found: Vec<_> = self.due.iter().map(|(priority, ..)| *priority).collect();
        found.dedup();
        found
    }

    fn due_after(
        &self,
        priority: Reverse<i32>,
        after: Option<&DuePosition>,
        now_ms: i64,
        limit: usize,
    ) -> Vec<DuePosition> {
        let least = (i64::MIN, RunNo(i64::MIN), TriggerNo(i64::MIN));
        let (due_ms, run, no) = *after.unwrap_or(&least);
        let from = (priority, due_ms, run, no);
        self.due
            .range((Bound::Excluded(from), Bound::Unbounded))
            .take_while(|(other, due_ms, ..)| *other == priority && *due_ms <= now_ms)
            .map(|(_, due_ms, run, no)| (*due_ms, *run, *no))
            .take(limit)
            .collect()
    }

    fn claim_of(&mut self, claim: &Claim, taking: &mut Taking, run: RunNo) {
        let mut pending: Vec<(Reverse<i32>, i64, TriggerNo)> = self
            .triggers_of(run)
            .iter()
            .filter_map(|no| self.triggers.get(no))
            .filter(|row| row.state == TriggerState::Pending)
            .map(|row| (Reverse(row.priority), row.due_ms, row.no))
            .collect();
        pending.sort_unstable();
        let due = pending
            .iter()
            .filter(|(_, due_ms, _)| *due_ms <= claim.now_ms);
        for (_, _, no) in due {
            match self.claim_one(claim, taking, run, *no) {
                Verdict::Claimed | Verdict::Parked => {}
                Verdict::NotMine => return,
                Verdict::Enough | Verdict::Full => taking.claims.more = true,
            }
        }
        let later = pending
            .iter()
            .map(|(_, due_ms, _)| *due_ms)
            .filter(|due_ms| *due_ms > claim.now_ms && *due_ms < NEVER);
        let soonest = &mut taking.claims.next_due_ms;
        *soonest = later.chain(*soonest).min();
    }

    fn claim_one(
        &mut self,
        claim: &Claim,
        taking: &mut Taking,
        run: RunNo,
        no: TriggerNo,
    ) -> Verdict {
        if self.is_paused(run) && self.may_take(claim, run) && self.park_paused(no) {
            return Verdict::Parked;
        }
        let place = match taking.places.get(&run) {
            Some(place) => *place,
            None => {
                if !self.may_take(claim, run) {
                    return Verdict::NotMine;
                }
                if claim.is_full(taking.claims.runs.len(), taking.bytes) {
                    return Verdict::Full;
                }
                taking.bytes += self.weight_of(run);
                let Some(claimed) = self.take(claim, run) else {
                    return Verdict::NotMine;
                };
                taking.claims.runs.push(claimed);
                let place = taking.claims.runs.len() - 1;
                taking.places.insert(run, place);
                place
            }
        };
        let Some(claimed) = taking.claims.runs.get_mut(place) else {
            return Verdict::NotMine;
        };
        if claimed.claimed.len() >= claim.triggers as usize {
            return Verdict::Enough;
        }
        claimed.claimed.extend(self.claim_trigger(no));
        Verdict::Claimed
    }

    /// The bytes of a run's triggers and scopes.
    fn weight_of(&self, run: RunNo) -> u64 {
        let triggers = self.triggers_of(run);
        let triggers = triggers.iter().filter_map(|no| self.triggers.get(no));
        let head = self.runs.get(&run);
        let scopes = head.into_iter().flat_map(|run| run.scopes.values());
        triggers.map(of_trigger).sum::<u64>() + scopes.map(of_scope).sum::<u64>()
    }

    fn is_paused(&self, run: RunNo) -> bool {
        let run = self.runs.get(&run);
        run.is_some_and(|run| run.row.status == Status::Paused)
    }

    fn may_take(&self, claim: &Claim, run: RunNo) -> bool {
        self.runs.get(&run).is_some_and(|run| {
            let row = &run.row;
            let mine = row.owner.is_none_or(|owner| owner == claim.incarnation);
            mine && !row.status.is_final()
        })
    }

    fn take(&mut self, claim: &Claim, run: RunNo) -> Option<ClaimedRun> {
        let row = &mut self.runs.get_mut(&run)?.row;
        let taken = row.owner.is_none();
        if taken {
            row.owner = Some(claim.incarnation);
            row.epoch.0 += 1;
        }
        let (claimed, others) = (Vec::new(), Vec::new());
        Some(ClaimedRun {
            row: row.clone(),
            taken,
            claimed,
            others,
            scopes: Vec::new(),
        })
    }

    fn claim_trigger(&mut self, no: TriggerNo) -> Option<TriggerRow> {
        self.change(no, |row| {
            row.state = TriggerState::Claimed;
            row.token.0 += 1;
        });
        let claimed = self.triggers.get(&no).cloned();
        if let Some(row) = claimed.as_ref().filter(|row| row.kind.is_pausing()) {
            self.overtake(row);
        }
        claimed
    }

    /// Removes requests to pause or unpause that are older than the claimed one, because the last
    /// request counts. An older request is still pending if the walk had passed it before the
    /// run became free; claimed later, it would undo the newer one.
    fn overtake(&mut self, last: &TriggerRow) {
        for no in self.triggers_of(last.run) {
            let row = self.triggers.get(&no);
            let overtaken = row.is_some_and(|row| {
                let asked = row.kind.is_pausing() && row.seq.is_external();
                asked && row.state == TriggerState::Pending && row.due_ms < last.due_ms
            });
            if overtaken {
                self.remove_trigger(no);
            }
        }
    }
}
