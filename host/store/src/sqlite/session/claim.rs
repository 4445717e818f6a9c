//! Finds due work that a member may claim, and claims it.
//!
//! The walk reads the due index in order, in pages, with a bounded number of rows per call, and
//! keeps its position for the member's next call. So neither rows of other owners nor one run
//! with a hundred thousand due rows hide the rows behind them.

use rusqlite::OptionalExtension as _;
use rustc_hash::FxHashMap;
use windlass_model::{Status, TriggerState};

use super::{Done, Session};
use crate::external::PAUSING;
use crate::rows::TriggerRow;
use crate::sql::hot;
use crate::sql::rows;
use crate::write::{Claim, ClaimScope, ClaimedRun, Claims};

/// Rows of the index that one statement reads.
const PAGE: usize = 256;

/// Rows of the index that one call examines.
const ROWS: usize = 4096;

/// A position in the due index, within one priority: due time, run, trigger.
type DuePosition = (i64, i64, i64);

const BEGINNING: DuePosition = (i64::MIN, i64::MIN, i64::MIN);

/// The due time of a trigger that waits without a time-out.
const NEVER: i64 = i64::MAX;

/// Above all priorities.
const TOP: i32 = i32::MAX;

/// The progress of a member's walk through the due index. Each call begins with the highest
/// priority, and continues in each priority where the last call stopped.
#[derive(Clone)]
pub(super) struct Scan {
    places: FxHashMap<i32, DuePosition>,
    /// The counter of triggers made pending when the walk began. If it has grown, the walk may have
    /// missed rows.
    made_pending: u64,
    /// Whether the walk left due triggers of a run because of the bound on triggers.
    left: bool,
}

/// The claims of one call so far.
struct Taking {
    claims: Claims,
    places: FxHashMap<i64, usize>,
    /// The bytes of the runs.
    bytes: u64,
}

enum Verdict {
    Claimed,
    /// The run belongs to another member or has ended.
    NotMine,
    /// The trigger was parked until its run is unpaused.
    Parked,
    /// The bound on triggers of this run is reached.
    Enough,
    /// The bound on runs, or on their bytes, is reached.
    Full,
}

impl Session<'_> {
    pub(super) fn claim(&mut self, claim: &Claim) -> Done<Claims> {
        if !self.is_member(claim.incarnation.0)? {
            return Ok(Claims::default());
        }
        let mut taking = Taking {
            claims: Claims::default(),
            places: FxHashMap::default(),
            bytes: 0,
        };
        match &claim.scope {
            ClaimScope::All | ClaimScope::Control => self.walk(claim, &mut taking)?,
            ClaimScope::Only(runs) => {
                for no in runs {
                    self.claim_of(claim, &mut taking, no.0)?;
                }
            }
        }
        for claimed in taking
            .claims
            .runs
            .iter_mut()
            .filter(|claimed| claimed.taken)
        {
            let mut rows = self.statements.triggers.query([claimed.row.no.0])?;
            while let Some(row) = rows.next()? {
                let trigger = rows::trigger(row)?;
                if trigger.state != TriggerState::Claimed {
                    claimed.others.push(trigger);
                }
            }
            drop(rows);
            self.load_scopes(claimed)?;
        }
        taking.claims.contended = std::mem::take(&mut self.contended);
        Ok(taking.claims)
    }

    /// Continues the member's walk through the due index.
    fn walk(&mut self, claim: &Claim, taking: &mut Taking) -> Done<()> {
        let made_pending = self.made_pending;
        let begun = Scan {
            places: FxHashMap::default(),
            made_pending,
            left: false,
        };
        let is_whole = claim.scope == ClaimScope::All;
        let mut scan = begun;
        if is_whole {
            let before = self.scans.remove(&claim.incarnation.0);
            self.before
                .scans
                .push((claim.incarnation.0, before.clone()));
            scan = before.unwrap_or(scan);
        }
        taking.claims.more = true;
        let mut rows = ROWS;
        let mut priority = TOP;
        while let Some(next) = self.priority_below(priority)? {
            priority = next;
            if priority < claim.scope.lowest() {
                break;
            }
            if !self.walk_priority(claim, taking, &mut scan, priority, &mut rows)? {
                if is_whole {
                    self.scans.insert(claim.incarnation.0, scan);
                }
                return Ok(());
            }
        }
        taking.claims.more = scan.left || scan.made_pending != self.made_pending;
        if !taking.claims.more && is_whole {
            taking.claims.next_due_ms = self.next_due(claim)?;
        }
        Ok(())
    }

    /// Walks through the due triggers of one priority. False if a bound of the call was reached.
    fn walk_priority(
        &mut self,
        claim: &Claim,
        taking: &mut Taking,
        scan: &mut Scan,
        priority: i32,
        rows: &mut usize,
    ) -> Done<bool> {
        let mut page = Vec::with_capacity(PAGE);
        loop {
            let after = scan.places.get(&priority).copied().unwrap_or(BEGINNING);
            self.read_page(priority, claim.now_ms, after, &mut page)?;
            let last = page.len() < PAGE;
            *rows = rows.saturating_sub(page.len());
            for place in page.drain(..) {
                match self.claim_one(claim, taking, place.1, place.2)? {
                    Verdict::Claimed | Verdict::NotMine | Verdict::Parked => {}
                    Verdict::Enough => scan.left = true,
                    Verdict::Full => return Ok(false),
                }
                scan.places.insert(priority, place);
            }
            if last || *rows == 0 {
                return Ok(last);
            }
        }
    }

    /// The highest priority below this one that has pending triggers.
    fn priority_below(&mut self, priority: i32) -> Done<Option<i32>> {
        let found = self
            .statements
            .priority
            .query_row([priority], |row| row.get(0));
        Ok(found.optional()?)
    }

    fn read_page(
        &mut self,
        priority: i32,
        now_ms: i64,
        after: DuePosition,
        page: &mut Vec<DuePosition>,
    ) -> Done<()> {
        let (due_ms, run, no) = after;
        let key = (now_ms, due_ms, run, no, PAGE as i64, priority);
        let mut rows = self.statements.due.query(key)?;
        while let Some(row) = rows.next()? {
            page.push((row.get(0)?, row.get(1)?, row.get(2)?));
        }
        Ok(())
    }

    /// Claims the due triggers of one run.
    fn claim_of(&mut self, claim: &Claim, taking: &mut Taking, run: i64) -> Done<()> {
        let sql = "SELECT no FROM trigger WHERE run = ?1 AND state = 0 AND due_ms <= ?2 \
            ORDER BY priority DESC, due_ms, no LIMIT ?3";
        let limit = i64::from(claim.triggers) + 1;
        let due: Vec<i64> = self
            .connection
            .prepare_cached(sql)?
            .query_map((run, claim.now_ms, limit), |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for no in due {
            match self.claim_one(claim, taking, run, no)? {
                Verdict::Claimed | Verdict::Parked => {}
                Verdict::NotMine => return Ok(()),
                Verdict::Enough | Verdict::Full => taking.claims.more = true,
            }
        }
        let sql = "SELECT min(due_ms) FROM trigger WHERE run = ?1 AND state = 0 \
            AND due_ms > ?2 AND due_ms < 9223372036854775807";
        let next: Option<i64> = self
            .connection
            .prepare_cached(sql)?
            .query_row((run, claim.now_ms), |row| row.get(0))?;
        let soonest = &mut taking.claims.next_due_ms;
        *soonest = [*soonest, next].into_iter().flatten().min();
        Ok(())
    }

    fn claim_one(
        &mut self,
        claim: &Claim,
        taking: &mut Taking,
        run: i64,
        no: i64,
    ) -> Done<Verdict> {
        if self.is_paused(run)? && self.may_take(claim, run)? && self.park_paused(no)? {
            return Ok(Verdict::Parked);
        }
        let place = match taking.places.get(&run) {
            Some(place) => *place,
            None => {
                if !self.may_take(claim, run)? {
                    return Ok(Verdict::NotMine);
                }
                if claim.is_full(taking.claims.runs.len(), taking.bytes) {
                    return Ok(Verdict::Full);
                }
                let claimed = self.take(claim, run)?;
                let weight: i64 = self.statements.weight.query_row([run], |row| row.get(0))?;
                taking.bytes += weight.cast_unsigned();
                taking.claims.runs.push(claimed);
                let place = taking.claims.runs.len() - 1;
                taking.places.insert(run, place);
                place
            }
        };
        let Some(claimed) = taking.claims.runs.get_mut(place) else {
            return Ok(Verdict::NotMine);
        };
        if claimed.claimed.len() >= claim.triggers as usize {
            return Ok(Verdict::Enough);
        }
        claimed.claimed.push(self.claim_trigger(no)?);
        Ok(Verdict::Claimed)
    }

    /// Whether a run is free or belongs to the member. A run of a dead owner is free
    /// once the owner has been reaped.
    fn may_take(&mut self, claim: &Claim, run: i64) -> Done<bool> {
        let Some(head) = self.head(run)? else {
            return Ok(false);
        };
        let mine = head.owner.is_none_or(|owner| owner == claim.incarnation.0);
        Ok(mine && !head.status.is_final())
    }

    fn is_paused(&mut self, run: i64) -> Done<bool> {
        let head = self.head(run)?;
        Ok(head.is_some_and(|head| head.status == Status::Paused))
    }

    fn take(&mut self, claim: &Claim, run: i64) -> Done<ClaimedRun> {
        self.write_head(run)?;
        let mut taken = false;
        if let Some(head) = self.head(run)?
            && head.owner.is_none()
        {
            taken = true;
            head.owner = Some(claim.incarnation.0);
            head.epoch += 1;
            self.statements.take.execute((run, claim.incarnation.0))?;
        }
        let row = self
            .statements
            .run_by_no
            .query_row([run], |row| Ok(rows::run(row)))??;
        Ok(ClaimedRun {
            row,
            taken,
            claimed: Vec::new(),
            others: Vec::new(),
            scopes: Vec::new(),
        })
    }

    fn claim_trigger(&mut self, no: i64) -> Done<TriggerRow> {
        self.statements.claim.execute([no])?;
        let trigger = &mut self.statements.trigger;
        let row = trigger.query_row([no], |row| Ok(rows::trigger(row)))??;
        if row.kind.is_pausing() {
            self.overtake(&row)?;
        }
        Ok(row)
    }

    /// Removes requests to pause or unpause that are older than the claimed one, because the last
    /// request counts. An older request is still pending if the walk had passed it before the
    /// run became free; claimed later, it would undo the newer one.
    fn overtake(&mut self, last: &TriggerRow) -> Done<()> {
        let sql = hot::OVERTAKE.sqlite;
        let key = (last.run.0, PAUSING.0, PAUSING.1, last.due_ms);
        self.connection.prepare_cached(sql)?.execute(key)?;
        Ok(())
    }

    /// The due time of the next trigger that this member may claim. Examines one page of each
    /// priority; beyond it the answer may be too early, which costs one needless claim.
    fn next_due(&mut self, claim: &Claim) -> Done<Option<i64>> {
        let mut soonest = None;
        let mut priority = TOP;
        while let Some(next) = self.priority_below(priority)? {
            priority = next;
            let due_ms = self.next_due_of(claim, priority)?;
            soonest = [soonest, due_ms].into_iter().flatten().min();
        }
        Ok(soonest)
    }

    fn next_due_of(&mut self, claim: &Claim, priority: i32) -> Done<Option<i64>> {
        let mut page = Vec::with_capacity(PAGE);
        let now = (claim.now_ms, i64::MAX, i64::MAX);
        self.read_page(priority, NEVER - 1, now, &mut page)?;
        let full = page.len() == PAGE;
        let last = page.last().map(|place| place.0);
        for (due_ms, run, _) in page {
            if self.may_take(claim, run)? {
                return Ok(Some(due_ms));
            }
        }
        Ok(last.filter(|_| full))
    }
}
