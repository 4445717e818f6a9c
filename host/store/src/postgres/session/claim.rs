//! Claims due work: the triggers that a walk through the due index finds (`walk.rs`), or those of
//! given runs.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};
use tokio_postgres::Row;
use windlass_model::{RunNo, ScopeNo, TriggerState};

use super::heads::{Params, Standing, standing};
use super::{Done, MEMBER, Session, get};
use crate::external::PAUSING;
use crate::rows::TriggerRow;
use crate::sql::hot;
use crate::sql::row::bytes;
use crate::sql::rows::{self, select_run, select_trigger, trigger_columns};
use crate::stimuli::{ClaimFor, Sent};
use crate::write::{Claim, ClaimScope, ClaimedRun, Claims};

/// All triggers of the given runs.
const OTHERS: &str = select_trigger!("WHERE run = ANY(?1) ORDER BY no + 0").postgres;

/// Locks the heads of runs that are free or belong to the member. After their [`standing`] follow the
/// bytes of their triggers and scopes.
macro_rules! hold_claimable {
    () => {
        concat!(
            "SELECT no, owner IS NULL, status = 3, ",
            $crate::sql::rows::weight_of!("run.no"),
            " FROM run WHERE no = ANY($1) AND status < 4 AND (owner IS NULL OR owner = $2) \
                ORDER BY no FOR NO KEY UPDATE"
        )
    };
}
pub(super) use hold_claimable;

/// The due triggers of the runs `u`, up to a limit for each, as `t`.
macro_rules! join_due {
    () => {
        " CROSS JOIN LATERAL (SELECT no, priority, due_ms FROM trigger \
            WHERE run = u.run AND state = 0 AND due_ms <= $2 \
            ORDER BY priority DESC, due_ms, no LIMIT $3) AS t"
    };
}

/// The due triggers of the given runs, up to a limit for each, in the order of the runs.
const DUE_OF: &str = concat!(
    "SELECT u.run, t.no FROM unnest($1::bigint[]) WITH ORDINALITY AS u (run, place)",
    join_due!(),
    " ORDER BY u.place, t.priority DESC, t.due_ms, t.no"
);

/// When the next trigger of each run comes due.
const NEXT_OF: &str = "SELECT run, min(due_ms) FROM trigger WHERE run = ANY($1) \
    AND state = 0 AND due_ms > $2 AND due_ms < 9223372036854775807 GROUP BY run";

macro_rules! own {
    ($also:literal) => {
        concat!(
            "UPDATE run SET owner = $2, epoch = epoch + 1 WHERE no = ANY($1)",
            $also
        )
    };
}

/// Makes the member the owner of the runs.
const OWN: &str = own!("");

/// The same, if it is a member.
const OWN_IF_MEMBER: &str = own!(" AND EXISTS (SELECT 1 FROM member WHERE incarnation = $2)");

/// Claims triggers of runs that the member owns. A walk chooses triggers before it locks the
/// heads. Another member may have owned the run in between, and a trigger that was due may be
/// one that waits now.
macro_rules! take_triggers {
    ($which:expr) => {
        concat!(
            "UPDATE trigger SET state = 1, token = token + 1 WHERE no = ANY(",
            $which,
            ") AND state = 0 AND due_ms <= $2 RETURNING ",
            trigger_columns!()
        )
    };
}

/// Claims triggers by number.
const TAKE: &str = take_triggers!("$1");

/// Claims the due triggers of runs, up to a limit for each.
const TAKE_DUE: &str = take_triggers!(concat!(
    "ARRAY(SELECT t.no FROM unnest($1::bigint[]) AS u (run) ",
    "JOIN run i ON i.no = ANY (ARRAY[u.run]) AND i.owner IS NOT DISTINCT FROM $4",
    join_due!(),
    ")"
));

/// The choice of one call so far: runs in order, with the triggers of each.
#[derive(Default)]
pub(super) struct Taking {
    runs: Vec<Chosen>,
    places: FxHashMap<i64, usize>,
    /// The bytes of the runs.
    bytes: u64,
    /// Heads that this transaction has locked, with the bytes of their runs.
    pub(super) locked: FxHashMap<i64, u64>,
    /// Heads that other transactions have locked.
    pub(super) refused: FxHashSet<i64>,
    /// Triggers of paused runs that this call has parked.
    pub(super) parked: FxHashSet<i64>,
    pub(super) more: bool,
    pub(super) next_due_ms: Option<i64>,
}

struct Chosen {
    no: i64,
    /// The run had no owner.
    free: bool,
    /// Empty if all due triggers are claimed.
    triggers: Vec<i64>,
}

pub(super) enum Verdict {
    Chosen,
    /// The run belongs to another member or has ended.
    NotMine,
    /// The bound on triggers of this run is reached.
    Enough,
    /// The head of the run is not locked yet.
    Unlocked,
    /// The bound on runs, or on their bytes, is reached.
    Full,
}

impl Taking {
    /// How many more runs may be chosen.
    pub(super) fn room(&self, claim: &Claim) -> usize {
        (claim.runs as usize).saturating_sub(self.runs.len())
    }

    /// Notes a head that is locked.
    pub(super) fn lock(&mut self, no: i64, row: &Row) -> Done<()> {
        let bytes: i64 = get(row, 3)?;
        self.locked.insert(no, bytes.cast_unsigned());
        Ok(())
    }
}

impl Session<'_> {
    pub(super) async fn claim(&mut self, claim: &Claim) -> Done<Claims> {
        let (member, mut taking) = (claim.incarnation.0, Taking::default());
        match &claim.scope {
            ClaimScope::All | ClaimScope::Control => {
                let Some(look) = self.look(claim).await? else {
                    return Ok(Claims::default());
                };
                self.walk(claim, &mut taking, look).await?;
            }
            ClaimScope::Only(runs) => {
                self.choose_of(claim, &mut taking, runs).await?;
            }
        }
        let chosen = taking.runs.iter().flat_map(|chosen| &chosen.triggers);
        let mut chosen: Vec<i64> = chosen.copied().collect();
        chosen.sort_unstable();
        let free = taking.runs.iter().filter(|chosen| chosen.free);
        let free: Vec<i64> = free.map(|chosen| chosen.no).collect();
        let own: Params<'_> = &[&free, &member];
        let take: Params<'_> = &[&chosen, &claim.now_ms];
        let how = [(OWN, own), (TAKE, take)];
        self.take(taking, &free, how).await
    }

    /// Claims the due triggers of these runs. Their heads are locked, they have no owner, and
    /// each has a due trigger.
    pub(super) async fn take_due(
        &mut self,
        claim_for: Option<ClaimFor>,
        at_ms: i64,
        free: Vec<i64>,
        sent: &mut Sent,
    ) -> Done<()> {
        let Some(claim_for) = claim_for.filter(|_| !free.is_empty()) else {
            return Ok(());
        };
        let mut seen = FxHashSet::default();
        let runs = free.into_iter().filter(|no| seen.insert(*no));
        let runs: Vec<i64> = runs.take(claim_for.runs as usize).collect();
        let chosen = runs.iter().map(|no| Chosen {
            no: *no,
            free: true,
            triggers: Vec::new(),
        });
        let taking = Taking {
            runs: chosen.collect(),
            ..Taking::default()
        };
        let (member, limit) = (claim_for.incarnation.0, i64::from(claim_for.triggers));
        let own: Params<'_> = &[&runs, &member];
        let take: Params<'_> = &[&runs, &at_ms, &limit, &member];
        let how = [(OWN_IF_MEMBER, own), (TAKE_DUE, take)];
        sent.taken = self.take(taking, &runs, how).await?.runs;
        Ok(())
    }

    /// Chooses due triggers of given runs, if the caller is a member.
    async fn choose_of(&mut self, claim: &Claim, taking: &mut Taking, runs: &[RunNo]) -> Done<()> {
        let runs: Vec<i64> = runs.iter().map(|no| no.0).collect();
        let (member, limit) = (claim.incarnation.0, i64::from(claim.triggers) + 1);
        let [members, held, due, next] = self
            .all([
                (MEMBER, &[&member]),
                (hold_claimable!(), &[&runs, &member]),
                (DUE_OF, &[&runs, &claim.now_ms, &limit]),
                (NEXT_OF, &[&runs, &claim.now_ms]),
            ])
            .await?;
        if members.is_empty() {
            return Ok(());
        }
        let mut heads = FxHashMap::default();
        for row in &held {
            let no = get(row, 0)?;
            heads.insert(no, standing(row, 1)?);
            taking.lock(no, row)?;
        }
        let due = due.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?)));
        let due: Vec<(i64, i64)> = due.collect::<Done<_>>()?;
        let parked = self.put_aside(claim, &heads, due.iter().copied()).await?;
        let mut others = FxHashSet::default();
        for (run, no) in due.into_iter().filter(|(_, no)| !parked.contains(no)) {
            match choose(claim, taking, &heads, run, no) {
                Verdict::Chosen => {}
                Verdict::NotMine => drop(others.insert(run)),
                Verdict::Enough | Verdict::Unlocked | Verdict::Full => taking.more = true,
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

    /// Parks the due triggers of paused runs.
    pub(super) async fn put_aside(
        &mut self,
        claim: &Claim,
        heads: &FxHashMap<i64, Standing>,
        due: impl Iterator<Item = (i64, i64)>,
    ) -> Done<Vec<i64>> {
        let paused = |run| heads.get(&run).is_some_and(|head| head.paused);
        let due = due.filter(|(run, _)| paused(*run));
        let due: Vec<i64> = due.map(|(_, no)| no).collect();
        if due.is_empty() {
            return Ok(due);
        }
        self.park_paused(&due, claim.now_ms).await
    }

    /// Claims the chosen triggers, by one statement that takes ownership of the free runs and
    /// one that returns the claimed triggers. Reads the rest of the runs.
    async fn take(
        &mut self,
        taking: Taking,
        free: &[i64],
        [own, take]: [(&'static str, Params<'_>); 2],
    ) -> Done<Claims> {
        let mut claims = Claims {
            runs: Vec::with_capacity(taking.runs.len()),
            more: taking.more,
            next_due_ms: taking.next_due_ms,
            contended: false,
        };
        if taking.runs.is_empty() {
            return Ok(claims);
        }
        let all: Vec<i64> = taking.runs.iter().map(|chosen| chosen.no).collect();
        let [_, triggers, runs, mut others, scopes] = self
            .all([
                own,
                take,
                (select_run!("WHERE i.no = ANY(?1)").postgres, &[&all]),
                (OTHERS, &[&free]),
                (
                    "SELECT run, scope, state FROM scope WHERE run = ANY($1) \
                        ORDER BY run, scope",
                    &[&free],
                ),
            ])
            .await?;
        let mut claimed: FxHashMap<i64, Vec<TriggerRow>> = FxHashMap::default();
        for row in &triggers {
            let row = rows::trigger(row)?;
            claimed.entry(row.run.0).or_default().push(row);
        }
        if self.overtake(claimed.values().flatten()).await? {
            others = self.rows(OTHERS, &[&free]).await?;
        }
        let idle = free.iter().copied().filter(|no| !claimed.contains_key(no));
        let idle: Vec<i64> = idle.collect();
        if !idle.is_empty() {
            let sql = "UPDATE run SET owner = NULL WHERE no = ANY($1)";
            self.later(sql, &[&idle]).await?;
        }
        let mut heads = FxHashMap::default();
        for row in &runs {
            let extras = get(row, rows::EXTRAS)?;
            if extras != 0 {
                self.aftermath.carrying.push((get(row, 0)?, extras));
            }
            let row = rows::run(row)?;
            heads.insert(row.no.0, row);
        }
        for chosen in taking.runs {
            let triggers = claimed.remove(&chosen.no);
            let Some((row, mut triggers)) = heads.remove(&chosen.no).zip(triggers) else {
                claims.more = true;
                continue;
            };
            triggers.sort_unstable_by_key(|row| (Reverse(row.priority), row.due_ms, row.no));
            claims.runs.push(ClaimedRun {
                row,
                taken: chosen.free,
                claimed: triggers,
                others: Vec::new(),
                scopes: Vec::new(),
            });
        }
        fill(&mut claims, &others, &scopes)?;
        Ok(claims)
    }

    /// Removes requests to pause or unpause that are older than a claimed one, because the last
    /// request counts. An older request is still pending if the walk had passed it before the
    /// run became free; claimed later, it would undo the newer one. True if there may have
    /// been one.
    async fn overtake(&mut self, claimed: impl Iterator<Item = &TriggerRow> + Send) -> Done<bool> {
        let sql = hot::OVERTAKE.postgres;
        let (pause, unpause) = (i16::from(PAUSING.0), i16::from(PAUSING.1));
        let mut any = false;
        for last in claimed.filter(|row| row.kind.is_pausing()) {
            let (run, due_ms) = (last.run.0, last.due_ms);
            self.later(sql, &[&run, &pause, &unpause, &due_ms]).await?;
            any = true;
        }
        Ok(any)
    }
}

/// Adds the other triggers and the open scopes of newly owned runs.
fn fill(claims: &mut Claims, others: &[Row], scopes: &[Row]) -> Done<()> {
    let taken = claims.runs.iter_mut().filter(|claimed| claimed.taken);
    let mut taken: FxHashMap<i64, &mut ClaimedRun> =
        taken.map(|claimed| (claimed.row.no.0, claimed)).collect();
    for row in others {
        let row = rows::trigger(row)?;
        if row.state != TriggerState::Claimed
            && let Some(claimed) = taken.get_mut(&row.run.0)
        {
            claimed.others.push(row);
        }
    }
    for row in scopes {
        if let Some(claimed) = taken.get_mut(&get(row, 0)?) {
            let scope = ScopeNo(get::<i64>(row, 1)?.cast_unsigned());
            claimed.scopes.push((scope, bytes(row, 2)?));
        }
    }
    Ok(())
}

pub(super) fn choose(
    claim: &Claim,
    taking: &mut Taking,
    heads: &FxHashMap<i64, Standing>,
    run: i64,
    no: i64,
) -> Verdict {
    let place = match taking.places.get(&run) {
        Some(place) => *place,
        None => {
            let Some(standing) = heads.get(&run) else {
                return Verdict::NotMine;
            };
            if claim.is_full(taking.runs.len(), taking.bytes) {
                return Verdict::Full;
            }
            let Some(bytes) = taking.locked.get(&run) else {
                return Verdict::Unlocked;
            };
            taking.bytes += bytes;
            taking.runs.push(Chosen {
                no: run,
                free: standing.free,
                triggers: Vec::new(),
            });
            taking.places.insert(run, taking.runs.len() - 1);
            taking.runs.len() - 1
        }
    };
    let Some(chosen) = taking.runs.get_mut(place) else {
        return Verdict::NotMine;
    };
    if chosen.triggers.len() >= claim.triggers as usize {
        return Verdict::Enough;
    }
    chosen.triggers.push(no);
    Verdict::Chosen
}
