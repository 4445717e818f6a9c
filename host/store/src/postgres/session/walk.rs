//! Finds due work that a member may claim.
//!
//! A trigger is due by the time that the claim names. That is the caller's clock, which also set
//! the due times. The walk reads the due index in order, in pages, with a bounded number of rows
//! per call, and keeps its position for the member's next call. So neither rows of other owners nor
//! one run with a hundred thousand due rows hide the rows behind them. Concurrent claims do
//! not wait for each other: a run that another transaction has locked is left for the next
//! call.

use std::sync::atomic::Ordering;

use rustc_hash::{FxHashMap, FxHashSet};
use tokio_postgres::Row;

use super::claim::{Taking, Verdict, choose, hold_claimable};
use super::heads::{Params, Standing, standing};
use super::{Done, MEMBER, Session, get};
use crate::write::{Claim, ClaimScope};

/// Rows of the index that one statement reads.
const PAGE: usize = 256;

/// Rows of the index that one call examines.
const ROWS: usize = 4096;

/// A position in the due index, within one priority: due time, run, trigger.
type DuePosition = (i64, i64, i64);

const BEGINNING: DuePosition = (i64::MIN, i64::MIN, i64::MIN);

/// The due time of a trigger that waits without a time-out.
const NEVER: i64 = i64::MAX;

/// The priorities of pending triggers, the highest first: one index lookup each.
const RANKS: &str = "WITH RECURSIVE ranks (rank) AS ( \
        (SELECT rank FROM trigger WHERE wake_ms IS NOT NULL ORDER BY rank DESC LIMIT 1) \
        UNION ALL \
        SELECT (SELECT t.rank FROM trigger t WHERE t.wake_ms IS NOT NULL \
            AND t.rank < ranks.rank ORDER BY t.rank DESC LIMIT 1) \
        FROM ranks WHERE ranks.rank IS NOT NULL) \
    SELECT rank FROM ranks WHERE rank IS NOT NULL";

/// A page of pending triggers of one priority, in order.
macro_rules! select_page {
    ($rank:literal) => {
        concat!(
            "SELECT t.rank, t.wake_ms, t.run, t.no, i.no IS NOT NULL, i.owner IS NULL, ",
            "i.status = 3 FROM (SELECT rank, wake_ms, run, no FROM trigger ",
            "WHERE wake_ms IS NOT NULL AND wake_ms <= $1 AND (wake_ms, run, no) > ($2, $3, $4) ",
            "AND rank = ",
            $rank,
            " ORDER BY wake_ms, run, no LIMIT $5) AS t ",
            "LEFT JOIN run i ON i.no = ANY (ARRAY[t.run]) AND i.status < 4 ",
            "AND (i.owner IS NULL OR i.owner = $6) ORDER BY t.wake_ms, t.run, t.no"
        )
    };
}

/// A pending trigger, and the standing of its run if the run is free or belongs to the
/// member. A run of a dead owner is free once the owner has been reaped.
struct Entry {
    place: DuePosition,
    standing: Option<Standing>,
}

/// The first look at pending triggers, before the walk continues.
pub(super) struct Look {
    /// The counter of triggers made pending at that time: the walk may miss later ones.
    made_pending: u64,
    /// The priorities of pending triggers, the highest first.
    ranks: Vec<i32>,
    /// The first page of one priority, usually the highest; none if it was not read.
    page: Option<(i32, Vec<Entry>)>,
}

/// The progress of a member's walk through the due index. Each call begins with the highest
/// priority, and continues in each priority where the last call stopped.
#[derive(Clone)]
pub(in crate::postgres) struct Scan {
    places: FxHashMap<i32, DuePosition>,
    /// The counter of triggers made pending when the walk began. If it has grown, the walk may have
    /// missed rows.
    made_pending: u64,
    /// Whether the walk left due triggers: the bound on triggers of the run was reached, or
    /// another transaction had locked it.
    left: bool,
}

/// The progress in one priority.
enum Walked {
    /// All due rows were examined. `next_ms` is the next due time, as far as one page shows; it may
    /// be too early, which costs one needless claim.
    All { next_ms: Option<i64> },
    /// A bound of the call was reached.
    Enough,
}

impl Session<'_> {
    /// Looks at the pending triggers; none if the caller is not a member.
    pub(super) async fn look(&mut self, claim: &Claim) -> Done<Option<Look>> {
        let made_pending = self.made_pending();
        let highest = select_page!(
            "(SELECT rank FROM trigger WHERE wake_ms IS NOT NULL ORDER BY rank DESC LIMIT 1)"
        );
        let (until_ms, limit) = bounds(claim);
        let (after, member) = (BEGINNING, claim.incarnation.0);
        let page: Params<'_> = &[&until_ms, &after.0, &after.1, &after.2, &limit, &member];
        let member: Params<'_> = &[&member];
        // If no trigger has become pending since the last look, the page is most likely empty.
        let seen = self
            .shared
            .seen_pending
            .swap(made_pending, Ordering::Relaxed);
        let (member, ranks, page) = if seen == made_pending {
            let [member, ranks] = self.all([(MEMBER, member), (RANKS, &[])]).await?;
            (member, ranks, Vec::new())
        } else {
            let asked = [(MEMBER, member), (RANKS, &[]), (highest, page)];
            self.all(asked).await?.into()
        };
        if member.is_empty() {
            return Ok(None);
        }
        let ranks = ranks.iter().map(|row| get(row, 0));
        let page = match page.first() {
            Some(row) => Some((get(row, 0)?, entries(&page)?)),
            None => None,
        };
        Ok(Some(Look {
            made_pending,
            ranks: ranks.collect::<Result<_, _>>()?,
            page,
        }))
    }

    /// Continues the member's walk through the due index, the highest priority first.
    pub(super) async fn walk(
        &mut self,
        claim: &Claim,
        taking: &mut Taking,
        look: Look,
    ) -> Done<()> {
        let is_whole = claim.scope == ClaimScope::All;
        let kept = || self.shared.scans.lock().get(&claim.incarnation.0).cloned();
        let begun = if is_whole { kept() } else { None };
        let mut scan = begun.unwrap_or_else(|| Scan {
            places: FxHashMap::default(),
            made_pending: look.made_pending,
            left: false,
        });
        let mut page = look.page;
        let mut rows = ROWS;
        let mut next_due_ms = None;
        let lowest = claim.scope.lowest();
        for rank in look.ranks.into_iter().filter(|rank| *rank >= lowest) {
            match self
                .walk_rank(claim, taking, &mut scan, rank, &mut page, &mut rows)
                .await?
            {
                Walked::Enough => {
                    taking.more = true;
                    if is_whole {
                        self.aftermath.scan = Some((claim.incarnation.0, Some(scan)));
                    }
                    return Ok(());
                }
                Walked::All { next_ms } => {
                    next_due_ms = [next_due_ms, next_ms].into_iter().flatten().min();
                }
            }
        }
        taking.more = scan.left || scan.made_pending != self.made_pending();
        taking.next_due_ms = next_due_ms.filter(|_| !taking.more && is_whole);
        if is_whole {
            self.aftermath.scan = Some((claim.incarnation.0, None));
        }
        Ok(())
    }

    fn made_pending(&self) -> u64 {
        self.shared.made_pending.load(Ordering::SeqCst)
    }

    /// Walks through the due triggers of one priority.
    async fn walk_rank(
        &mut self,
        claim: &Claim,
        taking: &mut Taking,
        scan: &mut Scan,
        rank: i32,
        first: &mut Option<(i32, Vec<Entry>)>,
        rows: &mut usize,
    ) -> Done<Walked> {
        loop {
            let after = scan.places.get(&rank).copied();
            let page = match first.take_if(|(of, _)| *of == rank && after.is_none()) {
                Some((_, page)) => page,
                None => self.read_page(claim, rank, after).await?,
            };
            *rows = rows.saturating_sub(page.len());
            let due = page.partition_point(|entry| entry.place.0 <= claim.now_ms);
            let (due, later) = page.split_at(due);
            let mut heads = due
                .iter()
                .filter_map(|entry| Some((entry.place.1, entry.standing?)))
                .collect();
            self.looked();
            let mut rest = due;
            while !rest.is_empty() {
                scan.left |= self.lock(claim, taking, rest, &mut heads).await?;
                let found = rest.iter().map(|entry| (entry.place.1, entry.place.2));
                let parked = self.put_aside(claim, &heads, found).await?;
                taking.parked.extend(parked);
                let mut seen = 0;
                for Entry { place, .. } in rest {
                    if !taking.parked.contains(&place.2) {
                        match choose(claim, taking, &heads, place.1, place.2) {
                            Verdict::Chosen | Verdict::NotMine => {}
                            Verdict::Enough => scan.left = true,
                            Verdict::Unlocked => break,
                            Verdict::Full => return Ok(Walked::Enough),
                        }
                    }
                    scan.places.insert(rank, *place);
                    seen += 1;
                }
                rest = rest.get(seen..).unwrap_or_default();
            }
            if due.len() < PAGE {
                let first = later.iter().find(|entry| entry.standing.is_some());
                let last = later.last().filter(|_| page.len() == PAGE);
                let next_ms = first.or(last).map(|entry| entry.place.0);
                return Ok(Walked::All { next_ms });
            }
            if *rows == 0 {
                return Ok(Walked::Enough);
            }
        }
    }

    /// A row may change between the read and the lock.
    #[cfg_attr(
        not(test),
        expect(clippy::unused_self, reason = "a test comes in between here")
    )]
    fn looked(&self) {
        #[cfg(test)]
        if let Some(between) = self.shared.between.lock().take() {
            between();
        }
    }

    async fn read_page(
        &mut self,
        claim: &Claim,
        rank: i32,
        after: Option<DuePosition>,
    ) -> Done<Vec<Entry>> {
        let (until_ms, limit) = bounds(claim);
        let (after, member) = (after.unwrap_or(BEGINNING), claim.incarnation.0);
        let params: Params<'_> = &[
            &until_ms, &after.0, &after.1, &after.2, &limit, &member, &rank,
        ];
        entries(&self.rows(select_page!("$7"), params).await?)
    }

    /// Locks runs of a page, in order: as many as may still be chosen. Runs that another
    /// transaction has locked are skipped. True if any were.
    async fn lock(
        &mut self,
        claim: &Claim,
        taking: &mut Taking,
        page: &[Entry],
        heads: &mut FxHashMap<i64, Standing>,
    ) -> Done<bool> {
        heads.retain(|no, _| !taking.refused.contains(no));
        let mut wanted = Vec::with_capacity(heads.len());
        let mut seen = FxHashSet::default();
        for entry in page {
            let no = entry.place.1;
            let parked = taking.parked.contains(&entry.place.2);
            let there = heads.contains_key(&no) && !taking.locked.contains_key(&no);
            if there && !parked && seen.insert(no) {
                wanted.push(no);
            }
        }
        let mut left = false;
        let mut wanted = wanted.into_iter();
        let mut room = taking.room(claim);
        loop {
            let mut numbers: Vec<i64> = wanted.by_ref().take(room).collect();
            if numbers.is_empty() {
                return Ok(left);
            }
            numbers.sort_unstable();
            let sql = concat!(hold_claimable!(), " SKIP LOCKED");
            let rows = self.rows(sql, &[&numbers, &claim.incarnation.0]).await?;
            for row in &rows {
                let no = get(row, 0)?;
                heads.insert(no, standing(row, 1)?);
                taking.lock(no, row)?;
                room = room.saturating_sub(1);
            }
            for no in numbers.iter().filter(|no| !taking.locked.contains_key(*no)) {
                left |= heads.remove(no).is_some();
                taking.refused.insert(*no);
            }
        }
    }
}

/// The latest due time and the number of rows that a page reads.
fn bounds(claim: &Claim) -> (i64, i64) {
    let until_ms = claim.now_ms.max(NEVER - 1);
    (until_ms, i64::try_from(PAGE).unwrap_or(i64::MAX))
}

fn entries(rows: &[Row]) -> Done<Vec<Entry>> {
    let entry = |row| {
        let place = (get(row, 1)?, get(row, 2)?, get(row, 3)?);
        let standing = match get(row, 4)? {
            true => Some(standing(row, 5)?),
            false => None,
        };
        Ok(Entry { place, standing })
    };
    rows.iter().map(entry).collect()
}
