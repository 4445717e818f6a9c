//! Membership, and the reaping of dead members.
//!
//! A lease is kept on the database's clock, so the clocks of machines need not agree. A member
//! counts its lease on its own monotonic clock, from before the request.

use std::sync::atomic::Ordering;

use windlass_model::Incarnation;

use super::{Done, Session, get};
use crate::codes;
use crate::error::Error;
use crate::postgres::local::{Members, Who};
use crate::sql::layout::{self, Requirement};
use crate::sql::{holding, hot};
use crate::write::{Duty, Fenced, Leave, NewMember, OrFenced, Reap, Reaped, Renew, Renewed};

/// Row numbers carry the incarnation in 31 bits.
const INCARNATIONS: i64 = 0x7fff_ffff;

/// Leases are capped at a day, so that no arithmetic overflows.
const LEASE_MS: u64 = 86_400_000;

/// One in this number of reapings searches all owners. The first one does.
const SEARCH: u64 = 720;

/// Notes owners that are not members. The statement skips from one owner to the next; where an old
/// snapshot keeps dead versions, it reads an entry for each run that has ended since.
const SEARCH_OWNERS: &str = "WITH RECURSIVE owners (owner) AS ( \
        (SELECT owner FROM run WHERE owner IS NOT NULL ORDER BY owner LIMIT 1) \
        UNION ALL \
        SELECT (SELECT i.owner FROM run i WHERE i.owner > owners.owner \
            ORDER BY i.owner LIMIT 1) \
        FROM owners WHERE owners.owner IS NOT NULL) \
    INSERT INTO grave (incarnation) SELECT owner FROM owners WHERE owner IS NOT NULL \
    AND NOT EXISTS (SELECT 1 FROM member m WHERE m.incarnation = owner) \
    AND NOT EXISTS (SELECT 1 FROM grave g WHERE g.incarnation = -owner) \
    ON CONFLICT DO NOTHING";

impl Session<'_> {
    pub(super) async fn join(&mut self, member: &NewMember) -> Done<Incarnation> {
        let lease_ms = i64::try_from(member.lease_ms.min(LEASE_MS)).unwrap_or(i64::MAX);
        let known = self.shared.options.steps().known();
        let layout = i64::try_from(known).unwrap_or(i64::MAX);
        // A newer program may have migrated the tables since this one opened them.
        let sql = "INSERT INTO member (name, pid, lease_ms, until_ms, joined_ms, program, layout) \
            SELECT $1, $2, $3, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $3 + $4, \
            $5, $6, $7 WHERE NOT EXISTS (SELECT 1 FROM requirement WHERE layout > $7) \
            RETURNING incarnation";
        let pid = i64::from(std::process::id());
        let ahead_ms = self.shared.ahead_ms();
        let row = self
            .one(
                sql,
                &[
                    &member.name,
                    &pid,
                    &lease_ms,
                    &ahead_ms,
                    &member.joined_ms,
                    &layout::PROGRAM,
                    &layout,
                ],
            )
            .await?;
        let Some(row) = row else {
            let row = self.one(layout::REQUIREMENT.postgres, &[]).await?;
            let place = self.shared.target.place();
            let required = row.map(|row| {
                Ok::<_, Error>(Requirement {
                    layout: get(&row, 0)?,
                    program: get(&row, 1)?,
                })
            });
            let required = required.transpose()?;
            let refused = layout::accept(place, (0, known), required.as_ref());
            return Err(refused.err().unwrap_or_else(Error::closed).into());
        };
        let incarnation: i64 = get(&row, 0)?;
        if incarnation > INCARNATIONS {
            let text = "the store has had more members than it can number";
            return Err(Error::new(codes::NO_INCARNATIONS, text)
                .help("Export the runs, and import them into a new store.")
                .into());
        }
        // Other processes see the row only after the commit, and the lock is held by then.
        let file = self.shared.members.as_ref().and_then(|members| {
            members.join(Who {
                incarnation,
                pid,
                joined_ms: member.joined_ms,
            })
        });
        self.aftermath.joined.push((incarnation, file));
        Ok(Incarnation(incarnation))
    }

    pub(super) async fn renew(&mut self, renew: &Renew) -> Done<OrFenced<Renewed>> {
        let incarnation = renew.incarnation;
        let passed_ms = self.shared.passed_ms();
        let sql = "UPDATE member SET until_ms = \
            (extract(epoch FROM clock_timestamp()) * 1000)::bigint + lease_ms + $2 \
            WHERE incarnation = $1 RETURNING lease_ms";
        let ahead_ms = self.shared.ahead_ms();
        let Some(row) = self.one(sql, &[&incarnation.0, &ahead_ms]).await? else {
            return Ok(Err(Fenced));
        };
        let lease_ms: i64 = get(&row, 0)?;
        Ok(Ok(Renewed {
            until_monotonic_ms: passed_ms.saturating_add(lease_ms.unsigned_abs()),
        }))
    }

    pub(super) async fn leave(&mut self, leave: &Leave) -> Done<()> {
        let incarnation = leave.incarnation;
        let sql = hot::REMOVE_MEMBER.postgres;
        // If the member was reaped before, its remaining runs are freed as those of a dead
        // member.
        if self.execute(sql, &[&incarnation.0]).await? == 1 {
            self.aftermath.gone.push(incarnation.0);
            let held = self.held_by(incarnation.0, i64::MAX).await?;
            let sql = "UPDATE trigger SET state = 0, suspicion = abs(suspicion) \
                WHERE run = ANY($1) AND state = 1";
            self.aftermath.made_pending += self.execute(sql, &[&held]).await?;
            let sql = "UPDATE run SET owner = NULL WHERE no = ANY($1)";
            self.later(sql, &[&held]).await?;
            // The number of a member that has left is negative in its grave: its end is no death.
            let sql = "INSERT INTO grave (incarnation) SELECT -$1::bigint \
                WHERE EXISTS (SELECT 1 FROM run WHERE owner = $1 OFFSET 0) \
                ON CONFLICT DO NOTHING";
            self.later(sql, &[&incarnation.0]).await?;
        }
        Ok(())
    }

    pub(super) async fn reap(&mut self, reap: &Reap) -> Done<Reaped> {
        let (asking, limit) = (reap.incarnation, reap.limit);
        let sql = "WITH gone AS (DELETE FROM member WHERE incarnation <> $1 \
                AND (until_ms <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2 \
                OR incarnation || '-' || pid || '-' || joined_ms = ANY($3::text[])) \
                RETURNING incarnation), \
            noted AS (INSERT INTO grave (incarnation) SELECT incarnation FROM gone \
                ON CONFLICT DO NOTHING) \
            SELECT incarnation FROM gone";
        let ahead_ms = self.shared.ahead_ms();
        let members = self.shared.members.as_ref();
        let (dead, files) = members.map(Members::dead).unwrap_or_default();
        self.aftermath.proved.extend(files);
        let gone = self.rows(sql, &[&asking.0, &ahead_ms, &dead]).await?;
        for row in gone {
            let dead: i64 = get(&row, 0)?;
            self.aftermath.gone.push(dead);
            holding::conclude(self, dead).await?;
        }
        // A process of the previous version removes members without a row in `grave`.
        let reaps = self.shared.reaps.load(Ordering::Relaxed);
        if reaps.is_multiple_of(SEARCH) {
            self.later(SEARCH_OWNERS, &[]).await?;
        }
        self.aftermath.reaps += 1;
        let mut freed = Reaped::default();
        let sql = "SELECT incarnation FROM grave ORDER BY incarnation";
        for row in self.rows(sql, &[]).await? {
            if freed.runs >= limit {
                break;
            }
            let grave: i64 = get(&row, 0)?;
            freed.add(self.free_of_dead(grave, limit - freed.runs).await?);
            // Instances that another transaction has locked are left for later, and so is the
            // grave.
            let sql = "DELETE FROM grave WHERE incarnation = $1 \
                AND NOT EXISTS (SELECT 1 FROM run WHERE owner = abs($1) OFFSET 0)";
            self.later(sql, &[&grave]).await?;
        }
        Ok(freed)
    }

    async fn free_of_dead(&mut self, grave: i64, limit: u32) -> Done<Reaped> {
        let held = self.held_by(grave.abs(), i64::from(limit)).await?;
        let mut freed = Reaped {
            runs: u32::try_from(held.len()).unwrap_or(u32::MAX),
            ..Reaped::default()
        };
        if grave < 0 {
            let sql = "UPDATE trigger SET state = 0, suspicion = abs(suspicion) \
                WHERE run = ANY($1) AND state = 1";
            self.aftermath.made_pending += self.execute(sql, &[&held]).await?;
        } else {
            for row in self.rows(hot::TRY_AGAIN.postgres, &[&held]).await? {
                let suspicion: i16 = get(&row, 0)?;
                freed.triggers += 1;
                freed.suspects += u32::from(suspicion != 0);
            }
            self.aftermath.made_pending += u64::from(freed.triggers);
        }
        let sql = "UPDATE run SET owner = NULL WHERE no = ANY($1)";
        self.later(sql, &[&held]).await?;
        Ok(freed)
    }

    /// Locks the runs of an owner. Runs that another transaction has locked are skipped.
    async fn held_by(&mut self, owner: i64, limit: i64) -> Done<Vec<i64>> {
        let sql = "SELECT no FROM run WHERE owner = $1 ORDER BY no LIMIT $2 \
            FOR NO KEY UPDATE SKIP LOCKED";
        let rows = self.rows(sql, &[&owner, &limit]).await?;
        let numbers = rows.iter().map(|row| get(row, 0));
        Ok(numbers.collect::<Result<_, _>>()?)
    }

    /// Gives a duty out. The condition on the row decides, so only one of several concurrent
    /// requests succeeds.
    pub(super) async fn duty(&mut self, duty: &Duty) -> Done<bool> {
        let (name, incarnation, at_ms) = (&duty.name, duty.incarnation, duty.at_ms);
        let Some(every_ms) = duty.every_ms else {
            let sql = "UPDATE duty SET at_ms = $3 FROM member m \
                WHERE duty.name = $1 AND duty.incarnation = $2 AND m.incarnation = $2";
            let again = self.execute(sql, &[name, &incarnation.0, &at_ms]).await?;
            return Ok(again == 1);
        };
        let sql = "INSERT INTO duty (name, incarnation, at_ms) \
            SELECT $1, incarnation, $3 FROM member WHERE incarnation = $2 \
            ON CONFLICT (name) DO UPDATE SET incarnation = excluded.incarnation, \
            at_ms = excluded.at_ms WHERE abs(excluded.at_ms - duty.at_ms) >= $4 OR $5 AND NOT EXISTS \
            (SELECT 1 FROM member m WHERE m.incarnation = duty.incarnation)";
        let every_ms = i64::try_from(every_ms).unwrap_or(i64::MAX);
        let given = self
            .execute(
                sql,
                &[name, &incarnation.0, &at_ms, &every_ms, &duty.inherited],
            )
            .await?;
        Ok(given == 1)
    }
}
