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

use super::heads::Params;
use super::{Done, MEMBER, Session, get};
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

/// The priorities of which something is pending, the highest first: one look each.
const RANKS: &str = "WITH RECURSIVE ranks (rank) AS ( \
        (SELECT rank FROM trigger WHERE wake_ms IS NOT NULL ORDER BY rank DESC LIMIT 1) \
        UNION ALL \
        SELECT (SELECT t.rank FROM trigger t WHERE t.wake_ms IS NOT NULL \
            AND t.rank < ranks.rank ORDER BY t.rank DESC LIMIT 1) \
        FROM ranks WHERE ranks.rank IS NOT NULL) \
    SELECT rank FROM ranks WHERE rank IS NOT NULL";

/// The triggers of instances.
const OTHERS: &str = select_trigger!("WHERE instance = ANY($1) ORDER BY no");

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

/// How far a walk through one priority has come.
enum Walked {
    /// To the end of what is due; what comes next is due then, as far as a page tells: the answer
    /// may be too early, which costs one claim for nothing.
    All { next_ms: Option<i64> },
    /// The call has seen or taken enough.
    Enough,
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
        // What becomes pending from here on may be missed.
        let made_pending = self.made_pending();
        let member: Params<'_> = &[&claim.incarnation.0];
        let [member, ranks] = self.all([(MEMBER, member), (RANKS, &[])]).await?;
        if member.is_empty() {
            return Ok(Wrote::Claimed(Claims::default()));
        }
        let mut taking = Taking::default();
        match &claim.scope {
            ClaimScope::All => {
                let ranks = ranks.iter().map(|row| get(row, 0));
                let ranks: Vec<i32> = ranks.collect::<Result<_, _>>()?;
                self.walk(claim, &mut taking, &ranks, made_pending).await?;
            }
            ClaimScope::Only(instances) => {
                for no in instances {
                    self.claim_of(claim, &mut taking, no.0).await?;
                }
            }
        }
        Ok(Wrote::Claimed(self.take(claim, taking).await?))
    }

    /// Goes on with the member's walk through the due index, the highest priority first.
    async fn walk(
        &mut self,
        claim: &Claim,
        taking: &mut Taking,
        ranks: &[i32],
        made_pending: u64,
    ) -> Done<()> {
        let begun = self.shared.scans.lock().get(&claim.incarnation.0).cloned();
        let mut scan = begun.unwrap_or_else(|| Scan {
            places: FxHashMap::default(),
            made_pending,
            left: false,
        });
        let mut rows = ROWS;
        let mut next_due_ms = None;
        for rank in ranks {
            match self
                .walk_rank(claim, taking, &mut scan, *rank, &mut rows)
                .await?
            {
                Walked::Enough => {
                    taking.more = true;
                    self.aftermath.scan = Some((claim.incarnation.0, Some(scan)));
                    return Ok(());
                }
                Walked::All { next_ms } => {
                    next_due_ms = [next_due_ms, next_ms].into_iter().flatten().min();
                }
            }
        }
        taking.more = scan.left || scan.made_pending != self.made_pending();
        taking.next_due_ms = next_due_ms.filter(|_| !taking.more);
        self.aftermath.scan = Some((claim.incarnation.0, None));
        Ok(())
    }

    fn made_pending(&self) -> u64 {
        self.shared
            .made_pending
            .load(std::sync::atomic::Ordering::SeqCst)
    }

    /// Walks through what is due of one priority.
    async fn walk_rank(
        &mut self,
        claim: &Claim,
        taking: &mut Taking,
        scan: &mut Scan,
        rank: i32,
        rows: &mut usize,
    ) -> Done<Walked> {
        loop {
            let after = scan.places.get(&rank).copied().unwrap_or(BEGINNING);
            let page = self.read_page(claim, rank, after).await?;
            *rows = rows.saturating_sub(page.len());
            let due = page.partition_point(|(place, _)| place.0 <= claim.now_ms);
            let (due, later) = page.split_at(due);
            let mut heads = due
                .iter()
                .filter_map(|(place, head)| Some((place.1, (*head)?)))
                .collect();
            scan.left |= self.lock(claim, taking, due, &mut heads).await?;
            let parked = self
                .put_aside(&heads, due.iter().map(|(place, _)| (place.1, place.2)))
                .await?;
            for (place, _) in due {
                if !parked.contains(&place.2) {
                    match choose(claim, taking, &heads, place.1, place.2) {
                        Verdict::Chosen | Verdict::NotMine => {}
                        Verdict::Enough => scan.left = true,
                        Verdict::Full => return Ok(Walked::Enough),
                    }
                }
                scan.places.insert(rank, *place);
            }
            if due.len() < PAGE {
                let first = later.iter().find(|(_, head)| head.is_some());
                let last = later.last().filter(|_| page.len() == PAGE);
                let next_ms = first.or(last).map(|(place, _)| place.0);
                return Ok(Walked::All { next_ms });
            }
            if *rows == 0 {
                return Ok(Walked::Enough);
            }
        }
    }

    /// What is pending, in order, and which of its instances are free or the member's own. One
    /// whose owner is dead is free once it has been buried.
    async fn read_page(
        &mut self,
        claim: &Claim,
        rank: i32,
        after: Place,
    ) -> Done<Vec<(Place, Option<Standing>)>> {
        let sql = "SELECT t.wake_ms, t.instance, t.no, i.no IS NOT NULL, i.owner IS NULL, \
                i.status = 3 \
            FROM (SELECT wake_ms, instance, no FROM trigger WHERE wake_ms IS NOT NULL \
                AND rank = $1 AND wake_ms <= $2 AND (wake_ms, instance, no) > ($3, $4, $5) \
                ORDER BY wake_ms, instance, no LIMIT $6) AS t \
            LEFT JOIN instance i ON i.no = t.instance AND i.status < 4 \
                AND (i.owner IS NULL OR i.owner = $7) \
            ORDER BY t.wake_ms, t.instance, t.no";
        let limit = i64::try_from(PAGE).unwrap_or(i64::MAX);
        let member = claim.incarnation.0;
        let until_ms = claim.now_ms.max(NEVER - 1);
        let rows = self
            .rows(
                sql,
                &[
                    &rank, &until_ms, &after.0, &after.1, &after.2, &limit, &member,
                ],
            )
            .await?;
        let entry = |row| {
            let place = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
            let standing = match get(row, 3)? {
                true => Some(standing(row, 4)?),
                false => None,
            };
            Ok((place, standing))
        };
        rows.iter().map(entry).collect()
    }

    /// Locks as many of a page, in its order, as there is room for. What others are at is left.
    async fn lock(
        &mut self,
        claim: &Claim,
        taking: &mut Taking,
        page: &[(Place, Option<Standing>)],
        heads: &mut FxHashMap<i64, Standing>,
    ) -> Done<bool> {
        heads.retain(|no, _| !taking.refused.contains(no));
        let mut wanted = Vec::with_capacity(heads.len());
        let mut seen = FxHashSet::default();
        for (place, _) in page {
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
                let no = get(row, 0)?;
                heads.insert(no, standing(row, 1)?);
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
                heads.insert(instance, standing(&row, 1)?);
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
        let all: Vec<i64> = taking.instances.iter().map(|chosen| chosen.no).collect();
        let chosen = taking.instances.iter().flat_map(|chosen| &chosen.triggers);
        let mut chosen: Vec<i64> = chosen.copied().collect();
        chosen.sort_unstable();
        let member = claim.incarnation.0;
        // What has been moved, or taken away by its instance's owner, since it was chosen stays.
        let [_, triggers, instances, mut others, scopes] = self
            .all([
                (
                    "UPDATE instance SET owner = $2, epoch = epoch + 1 WHERE no = ANY($1)",
                    &[&free, &member],
                ),
                (
                    concat!(
                        "UPDATE trigger SET state = 1, token = token + 1 ",
                        "WHERE no = ANY($1) AND state = 0 RETURNING ",
                        trigger_columns!()
                    ),
                    &[&chosen],
                ),
                (select_instance!("WHERE i.no = ANY($1)"), &[&all]),
                (OTHERS, &[&free]),
                (
                    "SELECT instance, scope, state FROM scope WHERE instance = ANY($1) \
                        ORDER BY instance, scope",
                    &[&free],
                ),
            ])
            .await?;
        let triggers = triggers.iter().map(rows::trigger);
        let triggers = triggers.map(|row| row.map(|row| (row.no.0, row)));
        let mut claimed: FxHashMap<i64, TriggerRow> = triggers.collect::<Result<_, _>>()?;
        if self.overtake(claimed.values()).await? {
            others = self.rows(OTHERS, &[&free]).await?;
        }
        let mut heads = FxHashMap::default();
        for row in &instances {
            if get::<i16>(row, rows::EXTRAS)? != 0 {
                self.aftermath.carrying.push(get(row, 0)?);
            }
            let row = rows::instance(row)?;
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
        fill(&mut claims, &others, &scopes)?;
        Ok(claims)
    }

    /// Of pausing and going on the last counts: what waits since before one that is claimed,
    /// because the walk had passed it when it became free, would undo it. True if there may have
    /// been such.
    async fn overtake(&mut self, claimed: impl Iterator<Item = &TriggerRow> + Send) -> Done<bool> {
        let sql = "DELETE FROM trigger WHERE instance = $1 AND kind IN ($2, $3) AND seq < 0 \
            AND state = 0 AND due_ms < $4";
        let (pause, unpause) = (i16::from(PAUSING.0), i16::from(PAUSING.1));
        let mut any = false;
        for last in claimed.filter(|row| row.kind.is_pausing()) {
            let (instance, due_ms) = (last.instance.0, last.due_ms);
            self.later(sql, &[&instance, &pause, &unpause, &due_ms])
                .await?;
            any = true;
        }
        Ok(any)
    }
}

/// Adds the other triggers and the open scopes of what was taken.
fn fill(claims: &mut Claims, others: &[Row], scopes: &[Row]) -> Done<()> {
    let taken = claims.instances.iter_mut().filter(|claimed| claimed.taken);
    let mut taken: FxHashMap<i64, &mut ClaimedInstance> =
        taken.map(|claimed| (claimed.row.no.0, claimed)).collect();
    for row in others {
        let row = rows::trigger(row)?;
        if row.state != TriggerState::Claimed
            && let Some(claimed) = taken.get_mut(&row.instance.0)
        {
            claimed.others.push(row);
        }
    }
    for row in scopes {
        if let Some(claimed) = taken.get_mut(&get(row, 0)?) {
            let scope = ScopeNo(get::<i64>(row, 1)?.cast_unsigned());
            claimed.scopes.push((scope, some_bytes(row, 2)?));
        }
    }
    Ok(())
}

/// The standing of an instance, in the columns from `column` on.
fn standing(row: &Row, column: usize) -> Done<Standing> {
    Ok(Standing {
        free: get(row, column)?,
        paused: get(row, column + 1)?,
    })
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
