//! Finds due work that a member may take, and takes it.
//!
//! What is due is compared with the time that the claim names, the caller's, as due times are
//! the callers' too. The due index is walked in its order in pages, a bounded number of rows
//! per call, and the place reached is kept for the member's next call: neither rows that belong
//! to others nor one instance with a hundred thousand due rows can keep a claim from what lies
//! behind. Several processes that claim at once do not wait for each other: an instance that
//! somebody is at is left for the next call.

use rustc_hash::{FxHashMap, FxHashSet};
use tokio_postgres::Row;
use windlass_model::{ScopeNo, TriggerState};

use super::{Done, Session, get};
use crate::outside::PAUSING;
use crate::postgres::rows::{self, select_instance, select_trigger, trigger_columns};
use crate::postgres::values::some_bytes;
use crate::rows::TriggerRow;
use crate::write::{Claim, ClaimScope, ClaimedInstance, Claims, Wrote};

/// Rows of the index read at once.
const PAGE: usize = 256;

/// Rows of the index looked at in one call.
const ROWS: usize = 4096;

/// A place in the due index, within one priority: when, instance, trigger.
type Place = (i64, i64, i64);

const BEGINNING: Place = (i64::MIN, i64::MIN, i64::MIN);

/// When what waits without a time is due.
const NEVER: i64 = i64::MAX;

/// How far a member has come in its walk through the due index. Each call begins with the
/// highest priority, and goes on in each where the call before stopped.
#[derive(Clone)]
pub(in crate::postgres) struct Scan {
    places: FxHashMap<i32, Place>,
    /// How much had become pending when the walk began: more means that it may have missed
    /// something behind it.
    made_pending: u64,
    /// Whether work was left where it is: enough of its instance was taken, or somebody was
    /// at that.
    left: bool,
}

/// What has been chosen so far by one call: instances in order, and the triggers of each.
#[derive(Default)]
struct Taking {
    instances: Vec<Chosen>,
    places: FxHashMap<i64, usize>,
    /// Held by this transaction.
    locked: FxHashSet<i64>,
    /// Held by others.
    refused: FxHashSet<i64>,
    more: bool,
    next_due_ms: Option<i64>,
}

/// How an instance stands that the member may take.
#[derive(Clone, Copy)]
struct Standing {
    /// It has no owner; or it is the member's.
    free: bool,
    /// Only control goes on.
    paused: bool,
}

struct Chosen {
    no: i64,
    /// It had no owner.
    free: bool,
    triggers: Vec<i64>,
}

enum Verdict {
    Chosen,
    /// Nothing that this member may take.
    NotMine,
    /// Enough of this instance.
    Enough,
    /// Enough instances.
    Full,
}

impl Session<'_> {
    pub(super) async fn claim(&mut self, claim: &Claim) -> Done<Wrote> {
        if !self.is_member(claim.incarnation.0).await? {
            return Ok(Wrote::Claimed(Claims::default()));
        }
        let mut taking = Taking::default();
        match &claim.scope {
            ClaimScope::All => self.walk(claim, &mut taking).await?,
            ClaimScope::Only(instances) => {
                for no in instances {
                    self.claim_of(claim, &mut taking, no.0).await?;
                }
            }
        }
        Ok(Wrote::Claimed(self.take(claim, taking).await?))
    }

    /// Goes on with the member's walk through the due index.
    async fn walk(&mut self, claim: &Claim, taking: &mut Taking) -> Done<()> {
        let made_pending = self.made_pending();
        let begun = self.shared.scans.lock().get(&claim.incarnation.0).cloned();
        let mut scan = begun.unwrap_or_else(|| Scan {
            places: FxHashMap::default(),
            made_pending,
            left: false,
        });
        taking.more = true;
        let mut rows = ROWS;
        let ranks = self.ranks().await?;
        for rank in &ranks {
            if !self
                .walk_rank(claim, taking, &mut scan, *rank, &mut rows)
                .await?
            {
                self.aftermath.scan = Some((claim.incarnation.0, Some(scan)));
                return Ok(());
            }
        }
        taking.more = scan.left || scan.made_pending != self.made_pending();
        if !taking.more {
            for rank in ranks {
                let due_ms = self.next_due_of(claim, rank).await?;
                taking.next_due_ms = [taking.next_due_ms, due_ms].into_iter().flatten().min();
            }
        }
        self.aftermath.scan = Some((claim.incarnation.0, None));
        Ok(())
    }

    fn made_pending(&self) -> u64 {
        self.shared
            .made_pending
            .load(std::sync::atomic::Ordering::SeqCst)
    }

    /// The priorities of which something is pending, the highest first: one look each.
    async fn ranks(&mut self) -> Done<Vec<i32>> {
        let sql = "WITH RECURSIVE ranks (rank) AS ( \
                (SELECT rank FROM trigger WHERE wake_ms IS NOT NULL ORDER BY rank DESC LIMIT 1) \
                UNION ALL \
                SELECT (SELECT t.rank FROM trigger t WHERE t.wake_ms IS NOT NULL \
                    AND t.rank < ranks.rank ORDER BY t.rank DESC LIMIT 1) \
                FROM ranks WHERE ranks.rank IS NOT NULL) \
            SELECT rank FROM ranks WHERE rank IS NOT NULL";
        let rows = self.rows(sql, &[]).await?;
        let ranks = rows.iter().map(|row| get(row, 0));
        Ok(ranks.collect::<Result<_, _>>()?)
    }

    /// Walks through what is due of one priority. False if the call has seen or taken enough.
    async fn walk_rank(
        &mut self,
        claim: &Claim,
        taking: &mut Taking,
        scan: &mut Scan,
        rank: i32,
        rows: &mut usize,
    ) -> Done<bool> {
        loop {
            let after = scan.places.get(&rank).copied().unwrap_or(BEGINNING);
            let page = self.read_page(rank, claim.now_ms, after).await?;
            let last = page.len() < PAGE;
            *rows = rows.saturating_sub(page.len());
            let mut heads = self.free_or_mine(claim, &page).await?;
            scan.left |= self.lock(claim, taking, &page, &mut heads).await?;
            let parked = self
                .put_aside(&heads, page.iter().map(|place| (place.1, place.2)))
                .await?;
            for place in page {
                if parked.contains(&place.2) {
                    scan.places.insert(rank, place);
                    continue;
                }
                match choose(claim, taking, &heads, place.1, place.2) {
                    Verdict::Chosen | Verdict::NotMine => {}
                    Verdict::Enough => scan.left = true,
                    Verdict::Full => return Ok(false),
                }
                scan.places.insert(rank, place);
            }
            if last || *rows == 0 {
                return Ok(last);
            }
        }
    }

    async fn read_page(&mut self, rank: i32, now_ms: i64, after: Place) -> Done<Vec<Place>> {
        let sql = "SELECT wake_ms, instance, no FROM trigger WHERE wake_ms IS NOT NULL \
            AND rank = $1 AND wake_ms <= $2 AND (wake_ms, instance, no) > ($3, $4, $5) \
            ORDER BY wake_ms, instance, no LIMIT $6";
        let limit = i64::try_from(PAGE).unwrap_or(i64::MAX);
        let rows = self
            .rows(sql, &[&rank, &now_ms, &after.0, &after.1, &after.2, &limit])
            .await?;
        let place = |row| Ok((get(row, 0)?, get(row, 1)?, get(row, 2)?));
        rows.iter().map(place).collect()
    }

    /// Which instances of a page are free (true) or the member's own (false). One whose owner
    /// is dead is free once it has been buried.
    async fn free_or_mine(
        &mut self,
        claim: &Claim,
        page: &[Place],
    ) -> Done<FxHashMap<i64, Standing>> {
        let mut numbers: Vec<i64> = page.iter().map(|place| place.1).collect();
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.is_empty() {
            return Ok(FxHashMap::default());
        }
        let sql = "SELECT no, owner IS NULL, status = 3 FROM instance WHERE no = ANY($1) AND status < 4 \
            AND (owner IS NULL OR owner = $2)";
        let rows = self.rows(sql, &[&numbers, &claim.incarnation.0]).await?;
        rows.iter().map(standing).collect()
    }

    /// Locks as many of a page, in its order, as there is room for. What others are at is left.
    async fn lock(
        &mut self,
        claim: &Claim,
        taking: &mut Taking,
        page: &[Place],
        heads: &mut FxHashMap<i64, Standing>,
    ) -> Done<bool> {
        heads.retain(|no, _| !taking.refused.contains(no));
        let mut wanted = Vec::with_capacity(heads.len());
        let mut seen = FxHashSet::default();
        for place in page {
            let no = place.1;
            if heads.contains_key(&no) && !taking.locked.contains(&no) && seen.insert(no) {
                wanted.push(no);
            }
        }
        let mut left = false;
        let mut wanted = wanted.into_iter();
        loop {
            let room = (claim.instances as usize).saturating_sub(taking.locked.len());
            let mut numbers: Vec<i64> = wanted.by_ref().take(room).collect();
            if numbers.is_empty() {
                return Ok(left);
            }
            numbers.sort_unstable();
            let sql = "SELECT no, owner IS NULL, status = 3 FROM instance WHERE no = ANY($1) \
                AND status < 4 AND (owner IS NULL OR owner = $2) \
                ORDER BY no FOR NO KEY UPDATE SKIP LOCKED";
            let rows = self.rows(sql, &[&numbers, &claim.incarnation.0]).await?;
            for row in &rows {
                let (no, standing) = standing(row)?;
                heads.insert(no, standing);
                taking.locked.insert(no);
            }
            for no in numbers.iter().filter(|no| !taking.locked.contains(*no)) {
                left |= heads.remove(no).is_some();
                taking.refused.insert(*no);
            }
        }
    }

    /// Chooses what is due of one instance.
    async fn claim_of(&mut self, claim: &Claim, taking: &mut Taking, instance: i64) -> Done<()> {
        let sql = "SELECT no FROM trigger WHERE instance = $1 AND state = 0 AND due_ms <= $2 \
            ORDER BY priority DESC, due_ms, no LIMIT $3";
        let limit = i64::from(claim.triggers) + 1;
        let due = self.rows(sql, &[&instance, &claim.now_ms, &limit]).await?;
        let mut heads = FxHashMap::default();
        if !due.is_empty() {
            let sql = "SELECT no, owner IS NULL, status = 3 FROM instance WHERE no = $1 AND status < 4 \
                AND (owner IS NULL OR owner = $2) FOR NO KEY UPDATE";
            if let Some(row) = self.one(sql, &[&instance, &claim.incarnation.0]).await? {
                heads.extend([standing(&row)?]);
                taking.locked.insert(instance);
            }
        }
        let due: Vec<i64> = due
            .iter()
            .map(|row| get(row, 0))
            .collect::<Result<_, _>>()?;
        let parked = self
            .put_aside(&heads, due.iter().map(|no| (instance, *no)))
            .await?;
        for no in due.into_iter().filter(|no| !parked.contains(no)) {
            match choose(claim, taking, &heads, instance, no) {
                Verdict::Chosen => {}
                Verdict::NotMine => return Ok(()),
                Verdict::Enough | Verdict::Full => taking.more = true,
            }
        }
        let sql = "SELECT min(due_ms) FROM trigger WHERE instance = $1 AND state = 0 \
            AND due_ms > $2 AND due_ms < 9223372036854775807";
        let row = self.one(sql, &[&instance, &claim.now_ms]).await?;
        let next: Option<i64> = row.map_or(Ok(None), |row| get(&row, 0))?;
        taking.next_due_ms = [taking.next_due_ms, next].into_iter().flatten().min();
        Ok(())
    }

    /// Puts aside what is due of paused instances until those go on.
    async fn put_aside(
        &mut self,
        heads: &FxHashMap<i64, Standing>,
        due: impl Iterator<Item = (i64, i64)>,
    ) -> Done<Vec<i64>> {
        let paused = |instance| heads.get(&instance).is_some_and(|head| head.paused);
        let due = due.filter(|(instance, _)| paused(*instance));
        let due: Vec<i64> = due.map(|(_, no)| no).collect();
        if due.is_empty() {
            return Ok(due);
        }
        self.park_paused(&due).await
    }

    /// When the next trigger of a priority comes due that this member may take. Looks at one
    /// page: behind that, the answer may be too early, which costs one claim for nothing.
    async fn next_due_of(&mut self, claim: &Claim, rank: i32) -> Done<Option<i64>> {
        let now = (claim.now_ms, i64::MAX, i64::MAX);
        let page = self.read_page(rank, NEVER - 1, now).await?;
        let heads = self.free_or_mine(claim, &page).await?;
        let full = page.len() == PAGE;
        let first = page.iter().find(|place| heads.contains_key(&place.1));
        let last = page.last().filter(|_| full);
        Ok(first.or(last).map(|place| place.0))
    }

    /// Takes what was chosen, and reads it.
    async fn take(&mut self, claim: &Claim, taking: Taking) -> Done<Claims> {
        let mut claims = Claims {
            instances: Vec::with_capacity(taking.instances.len()),
            more: taking.more,
            next_due_ms: taking.next_due_ms,
        };
        if taking.instances.is_empty() {
            return Ok(claims);
        }
        let free = taking.instances.iter().filter(|chosen| chosen.free);
        let free: Vec<i64> = free.map(|chosen| chosen.no).collect();
        let sql = "UPDATE instance SET owner = $2, epoch = epoch + 1 WHERE no = ANY($1)";
        self.execute(sql, &[&free, &claim.incarnation.0]).await?;
        let mut claimed = self.claim_triggers(&taking).await?;
        let all: Vec<i64> = taking.instances.iter().map(|chosen| chosen.no).collect();
        let mut heads = FxHashMap::default();
        for row in self
            .rows(select_instance!("WHERE i.no = ANY($1)"), &[&all])
            .await?
        {
            if get::<i16>(&row, rows::EXTRAS)? != 0 {
                self.aftermath.carrying.push(get(&row, 0)?);
            }
            let row = rows::instance(&row)?;
            heads.insert(row.no.0, row);
        }
        for chosen in taking.instances {
            let Some(row) = heads.remove(&chosen.no) else {
                continue;
            };
            let triggers = chosen.triggers.iter();
            claims.instances.push(ClaimedInstance {
                row,
                taken: chosen.free,
                claimed: triggers.filter_map(|no| claimed.remove(no)).collect(),
                others: Vec::new(),
                scopes: Vec::new(),
            });
        }
        self.read_rest(&mut claims, &free).await?;
        Ok(claims)
    }

    /// What has been moved, or taken away by its instance's owner, since it was chosen stays.
    async fn claim_triggers(&mut self, taking: &Taking) -> Done<FxHashMap<i64, TriggerRow>> {
        let chosen = taking.instances.iter().flat_map(|chosen| &chosen.triggers);
        let mut chosen: Vec<i64> = chosen.copied().collect();
        chosen.sort_unstable();
        let sql = concat!(
            "UPDATE trigger SET state = 1, token = token + 1 WHERE no = ANY($1) AND state = 0 ",
            "RETURNING ",
            trigger_columns!()
        );
        let mut claimed = FxHashMap::default();
        for row in self.rows(sql, &[&chosen]).await? {
            let row = rows::trigger(&row)?;
            claimed.insert(row.no.0, row);
        }
        for row in claimed.values().filter(|row| row.kind.is_pausing()) {
            self.overtake(row).await?;
        }
        Ok(claimed)
    }

    /// Of pausing and going on the last counts: what waits since before one that is claimed,
    /// because the walk had passed it when it became free, would undo it.
    async fn overtake(&mut self, last: &TriggerRow) -> Done<()> {
        let sql = "DELETE FROM trigger WHERE instance = $1 AND kind IN ($2, $3) AND seq < 0 \
            AND state = 0 AND due_ms < $4";
        let (pause, unpause) = (i16::from(PAUSING.0), i16::from(PAUSING.1));
        let (instance, due_ms) = (last.instance.0, last.due_ms);
        self.execute(sql, &[&instance, &pause, &unpause, &due_ms])
            .await?;
        Ok(())
    }

    /// The other triggers and the open scopes of what was taken.
    async fn read_rest(&mut self, claims: &mut Claims, taken: &[i64]) -> Done<()> {
        let mut places = FxHashMap::default();
        for (place, claimed) in claims.instances.iter().enumerate() {
            if claimed.taken {
                places.insert(claimed.row.no.0, place);
            }
        }
        let sql = select_trigger!("WHERE instance = ANY($1) ORDER BY no");
        for row in self.rows(sql, &[&taken]).await? {
            let row = rows::trigger(&row)?;
            let place = places.get(&row.instance.0);
            let claimed = place.and_then(|place| claims.instances.get_mut(*place));
            if let Some(claimed) = claimed.filter(|_| row.state != TriggerState::Claimed) {
                claimed.others.push(row);
            }
        }
        let sql = "SELECT instance, scope, state FROM scope WHERE instance = ANY($1) \
            ORDER BY instance, scope";
        for row in self.rows(sql, &[&taken]).await? {
            let instance: i64 = get(&row, 0)?;
            let place = places.get(&instance);
            if let Some(claimed) = place.and_then(|place| claims.instances.get_mut(*place)) {
                let scope = ScopeNo(get::<i64>(&row, 1)?.cast_unsigned());
                claimed.scopes.push((scope, some_bytes(&row, 2)?));
            }
        }
        Ok(())
    }
}

/// Number and standing of an instance.
fn standing(row: &Row) -> Done<(i64, Standing)> {
    let free = get(row, 1)?;
    let paused = get(row, 2)?;
    Ok((get(row, 0)?, Standing { free, paused }))
}

fn choose(
    claim: &Claim,
    taking: &mut Taking,
    heads: &FxHashMap<i64, Standing>,
    instance: i64,
    no: i64,
) -> Verdict {
    let place = match taking.places.get(&instance) {
        Some(place) => *place,
        None => {
            let Some(standing) = heads.get(&instance) else {
                return Verdict::NotMine;
            };
            let full = taking.instances.len() >= claim.instances as usize;
            if full || !taking.locked.contains(&instance) {
                return Verdict::Full;
            }
            taking.instances.push(Chosen {
                no: instance,
                free: standing.free,
                triggers: Vec::new(),
            });
            taking.places.insert(instance, taking.instances.len() - 1);
            taking.instances.len() - 1
        }
    };
    let Some(chosen) = taking.instances.get_mut(place) else {
        return Verdict::NotMine;
    };
    if chosen.triggers.len() >= claim.triggers as usize {
        return Verdict::Enough;
    }
    chosen.triggers.push(no);
    Verdict::Chosen
}
