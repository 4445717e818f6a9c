//! Takes due work: what a walk through all of it comes to (`walk.rs`), or what is due of certain
//! instances.

use rustc_hash::{FxHashMap, FxHashSet};
use tokio_postgres::Row;
use windlass_model::{InstanceNo, ScopeNo, TriggerState};

use super::{Done, MEMBER, Session, get};
use crate::outside::PAUSING;
use crate::postgres::rows::{self, select_instance, select_trigger, trigger_columns};
use crate::postgres::values::some_bytes;
use crate::rows::TriggerRow;
use crate::stimuli::{Sent, Taker};
use crate::write::{Claim, ClaimScope, ClaimedInstance, Claims, Wrote};

/// The triggers of instances.
const OTHERS: &str = select_trigger!("WHERE instance = ANY($1) ORDER BY no");

/// Holds the heads of instances that are free, or the member's own, and reads their
/// [`standing`] from the second column on.
macro_rules! hold_heads {
    ($how:literal) => {
        concat!(
            "SELECT no, owner IS NULL, status = 3 FROM instance WHERE no = ANY($1) AND status < 4 ",
            "AND (owner IS NULL OR owner = $2) ORDER BY no FOR NO KEY UPDATE",
            $how
        )
    };
}
pub(super) use hold_heads;

/// What is due of instances, and so much of each, in their order.
const DUE_OF: &str = "SELECT u.instance, t.no \
    FROM unnest($1::bigint[]) WITH ORDINALITY AS u (instance, place) \
    CROSS JOIN LATERAL (SELECT no, priority, due_ms FROM trigger \
        WHERE instance = u.instance AND state = 0 AND due_ms <= $2 \
        ORDER BY priority DESC, due_ms, no LIMIT $3) AS t \
    ORDER BY u.place, t.priority DESC, t.due_ms, t.no";

/// When the next trigger of each instance comes due.
const NEXT_OF: &str = "SELECT instance, min(due_ms) FROM trigger WHERE instance = ANY($1) \
    AND state = 0 AND due_ms > $2 AND due_ms < 9223372036854775807 GROUP BY instance";

/// Which of certain instances may be taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Those that are free, and those that are the member's already.
    Mine,
    /// Only those that are free.
    Nobodys,
}

/// What has been chosen so far by one call: instances in order, and the triggers of each.
#[derive(Default)]
pub(super) struct Taking {
    instances: Vec<Chosen>,
    places: FxHashMap<i64, usize>,
    /// Held by this transaction.
    pub(super) locked: FxHashSet<i64>,
    /// Held by others.
    pub(super) refused: FxHashSet<i64>,
    pub(super) more: bool,
    pub(super) next_due_ms: Option<i64>,
}

/// How an instance stands that the member may take.
#[derive(Clone, Copy)]
pub(super) struct Standing {
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

pub(super) enum Verdict {
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
        Ok(Wrote::Claimed(self.claim_for(claim, Whose::Mine).await?))
    }

    /// Takes what was started and resumed, and is nobody's.
    pub(super) async fn take_due(
        &mut self,
        taker: Option<Taker>,
        at_ms: i64,
        due: Vec<InstanceNo>,
        sent: &mut Sent,
    ) -> Done<()> {
        if let Some(taker) = taker.filter(|_| !due.is_empty()) {
            let claim = taker.claim(at_ms, due);
            sent.taken = self.claim_for(&claim, Whose::Nobodys).await?.instances;
        }
        Ok(())
    }

    /// What the claim comes to.
    async fn claim_for(&mut self, claim: &Claim, whose: Whose) -> Done<Claims> {
        let mut taking = Taking::default();
        match &claim.scope {
            ClaimScope::All => {
                let Some(look) = self.look(claim).await? else {
                    return Ok(Claims::default());
                };
                self.walk(claim, &mut taking, look).await?;
            }
            ClaimScope::Only(instances) => {
                self.choose_of(claim, &mut taking, instances, whose).await?;
            }
        }
        self.take(claim, taking).await
    }

    /// Chooses what is due of certain instances, if who claims is a member.
    async fn choose_of(
        &mut self,
        claim: &Claim,
        taking: &mut Taking,
        instances: &[InstanceNo],
        whose: Whose,
    ) -> Done<()> {
        let mut seen = FxHashSet::default();
        let instances = instances.iter().map(|no| no.0);
        let instances: Vec<i64> = instances.filter(|no| seen.insert(*no)).collect();
        let (member, limit) = (claim.incarnation.0, i64::from(claim.triggers) + 1);
        let [members, held, due, next] = self
            .all([
                (MEMBER, &[&member]),
                (hold_heads!(""), &[&instances, &member]),
                (DUE_OF, &[&instances, &claim.now_ms, &limit]),
                (NEXT_OF, &[&instances, &claim.now_ms]),
            ])
            .await?;
        if members.is_empty() {
            return Ok(());
        }
        let mut heads = FxHashMap::default();
        for row in &held {
            let (no, standing) = (get(row, 0)?, standing(row, 1)?);
            if standing.free || whose == Whose::Mine {
                heads.insert(no, standing);
                taking.locked.insert(no);
            }
        }
        let due = due.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?)));
        let due: Vec<(i64, i64)> = due.collect::<Done<_>>()?;
        let parked = self.put_aside(claim, &heads, due.iter().copied()).await?;
        let mut others = FxHashSet::default();
        for (instance, no) in due.into_iter().filter(|(_, no)| !parked.contains(no)) {
            match choose(claim, taking, &heads, instance, no) {
                Verdict::Chosen => {}
                Verdict::NotMine => drop(others.insert(instance)),
                Verdict::Enough | Verdict::Full => taking.more = true,
            }
        }
        for row in &next {
            if !others.contains(&get(row, 0)?) {
                let next: i64 = get(row, 1)?;
                taking.next_due_ms = taking.next_due_ms.into_iter().chain([next]).min();
            }
        }
        Ok(())
    }

    /// Puts aside what is due of paused instances until those go on.
    pub(super) async fn put_aside(
        &mut self,
        claim: &Claim,
        heads: &FxHashMap<i64, Standing>,
        due: impl Iterator<Item = (i64, i64)>,
    ) -> Done<Vec<i64>> {
        let paused = |instance| heads.get(&instance).is_some_and(|head| head.paused);
        let due = due.filter(|(instance, _)| paused(*instance));
        let due: Vec<i64> = due.map(|(_, no)| no).collect();
        if due.is_empty() {
            return Ok(due);
        }
        self.park_paused(&due, claim.now_ms).await
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
        // A walk chooses before it holds the heads: somebody may have had the instance since, and
        // what was due may be something by now that waits.
        let [_, triggers, instances, mut others, scopes] = self
            .all([
                (
                    "UPDATE instance SET owner = $2, epoch = epoch + 1 WHERE no = ANY($1)",
                    &[&free, &member],
                ),
                (
                    concat!(
                        "UPDATE trigger SET state = 1, token = token + 1 ",
                        "WHERE no = ANY($1) AND state = 0 AND due_ms <= $2 RETURNING ",
                        trigger_columns!()
                    ),
                    &[&chosen, &claim.now_ms],
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
        let idle = |chosen: &&Chosen| !chosen.triggers.iter().any(|no| claimed.contains_key(no));
        let idle = taking.instances.iter().filter(idle);
        let idle: FxHashSet<i64> = idle.map(|chosen| chosen.no).collect();
        if !idle.is_empty() {
            let given_back = free.iter().copied().filter(|no| idle.contains(no));
            let given_back: Vec<i64> = given_back.collect();
            let sql = "UPDATE instance SET owner = NULL WHERE no = ANY($1)";
            self.later(sql, &[&given_back]).await?;
            claims.more = true;
        }
        let mut heads = FxHashMap::default();
        for row in &instances {
            let extras = get(row, rows::EXTRAS)?;
            if extras != 0 {
                self.aftermath.carrying.push((get(row, 0)?, extras));
            }
            let row = rows::instance(row)?;
            heads.insert(row.no.0, row);
        }
        let taken = taking.instances.into_iter();
        for chosen in taken.filter(|chosen| !idle.contains(&chosen.no)) {
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
pub(super) fn standing(row: &Row, column: usize) -> Done<Standing> {
    Ok(Standing {
        free: get(row, column)?,
        paused: get(row, column + 1)?,
    })
}

pub(super) fn choose(
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
