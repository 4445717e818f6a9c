//! Membership, and the reaping of dead members.

use rusqlite::OptionalExtension as _;
use windlass_model::Incarnation;

use super::{Done, Session};
use crate::codes;
use crate::error::Error;
use crate::sql::transaction::now;
use crate::sql::{holding, hot, layout};
use crate::sqlite::{locks, open};
use crate::write::{Duty, Fenced, Leave, NewMember, OrFenced, Reap, Reaped, Renew, Renewed};

/// Row numbers carry the incarnation in 31 bits.
const INCARNATIONS: i64 = 0x7fff_ffff;

/// Leases are capped at a day, so that no arithmetic overflows.
const LEASE_MS: u64 = 86_400_000;

impl Session<'_> {
    pub(super) fn join(&mut self, member: &NewMember) -> Done<Incarnation> {
        let known = self.shared.options.steps().known();
        // A newer program may have migrated the file since this one opened it.
        let layout = i64::try_from(known).unwrap_or(i64::MAX);
        if let Some(required) = open::requirement(self.connection)?
            && required.layout > layout
        {
            let place = self.shared.path.display().to_string();
            return Err(layout::too_old(&place, known, &required).into());
        }
        let lease_ms = i64::try_from(member.lease_ms.min(LEASE_MS)).unwrap_or(i64::MAX);
        let sql = "INSERT INTO member (name, pid, boot, lease_ms, until_ms, joined_ms, program, \
            layout) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let time = &self.shared.time;
        self.connection.prepare_cached(sql)?.execute((
            &member.name,
            std::process::id(),
            time.boot(),
            lease_ms,
            time.now_ms().saturating_add(lease_ms),
            member.joined_ms,
            layout::PROGRAM,
            layout,
        ))?;
        let incarnation = self.connection.last_insert_rowid();
        if incarnation > INCARNATIONS {
            let text = "the store has had more members than it can number";
            return Err(Error::new(codes::NO_INCARNATIONS, text)
                .help("Export the runs, and import them into a new store.")
                .into());
        }
        // Other processes see the row only after the commit, and the lock is held by then.
        let lock = locks::join(&self.shared.path, incarnation)?;
        self.aftermath.joined.push((incarnation, lock));
        self.turn()?;
        self.cache.members.insert(incarnation, true);
        Ok(Incarnation(incarnation))
    }

    pub(super) fn renew(&mut self, renew: &Renew) -> Done<OrFenced<Renewed>> {
        let incarnation = renew.incarnation;
        let time = &self.shared.time;
        let (now_ms, passed_ms) = (time.now_ms(), time.passed_ms());
        let sql = "UPDATE member SET until_ms = ?2 + lease_ms WHERE incarnation = ?1 \
            RETURNING lease_ms";
        let lease_ms: Option<i64> = self
            .connection
            .prepare_cached(sql)?
            .query_row((incarnation.0, now_ms), |row| row.get(0))
            .optional()?;
        Ok(match lease_ms {
            None => Err(Fenced),
            Some(lease_ms) => Ok(Renewed {
                until_monotonic_ms: passed_ms.saturating_add(lease_ms.unsigned_abs()),
            }),
        })
    }

    pub(super) fn leave(&mut self, leave: &Leave) -> Done<()> {
        let incarnation = leave.incarnation;
        // If the member was reaped before, its remaining runs are freed as those of a dead
        // member.
        if self.remove_member(incarnation.0)? {
            self.write_heads()?;
            let sql = "UPDATE trigger SET state = 0, suspicion = abs(suspicion) \
                WHERE state = 1 AND run IN (SELECT no FROM run WHERE owner = ?1)";
            self.connection
                .prepare_cached(sql)?
                .execute([incarnation.0])?;
            let sql = "UPDATE run SET owner = NULL WHERE owner = ?1";
            self.connection
                .prepare_cached(sql)?
                .execute([incarnation.0])?;
            self.cache.heads.clear();
            self.turn()?;
        }
        Ok(())
    }

    pub(super) fn reap(&mut self, reap: &Reap) -> Done<Reaped> {
        let (asking, limit) = (reap.incarnation, reap.limit);
        for dead in self.dead_members(asking.0)? {
            self.remove_member(dead)?;
            // The dead member may have written earlier in this group.
            self.write_heads()?;
            now(holding::conclude(self, dead))?;
        }
        let mut freed = Reaped::default();
        let mut owner = i64::MIN;
        while freed.runs < limit {
            // Owners are few, so skipping from one to the next is cheap.
            let sql = "SELECT owner FROM run WHERE owner > ?1 ORDER BY owner LIMIT 1";
            let next = self
                .connection
                .prepare_cached(sql)?
                .query_row([owner], |row| row.get(0))
                .optional()?;
            let Some(next) = next else { break };
            owner = next;
            if !self.is_member(owner)? {
                freed.add(self.free_of_dead(owner, limit - freed.runs)?);
            }
        }
        Ok(freed)
    }

    fn dead_members(&self, asking: i64) -> Done<Vec<i64>> {
        let time = &self.shared.time;
        let now_ms = time.now_ms();
        let sql = "SELECT incarnation, boot, until_ms FROM member WHERE incarnation <> ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([asking])?;
        let mut dead = Vec::new();
        while let Some(row) = rows.next()? {
            let (incarnation, until_ms): (i64, i64) = (row.get(0)?, row.get(2)?);
            let same_boot = row
                .get_ref(1)?
                .as_str()
                .is_ok_and(|boot| boot == time.boot());
            let expired = !same_boot || now_ms >= until_ms;
            if expired || locks::is_dead(&self.shared.path, incarnation) {
                dead.push(incarnation);
            }
        }
        Ok(dead)
    }

    fn remove_member(&mut self, incarnation: i64) -> Done<bool> {
        let sql = hot::REMOVE_MEMBER.sqlite;
        let removed = self
            .connection
            .prepare_cached(sql)?
            .execute([incarnation])?
            == 1;
        self.cache.members.insert(incarnation, false);
        if removed {
            self.aftermath.gone.push(incarnation);
        }
        Ok(removed)
    }

    fn free_of_dead(&mut self, owner: i64, limit: u32) -> Done<Reaped> {
        // The dead member may have written earlier in this group.
        self.write_heads()?;
        let sql = "SELECT no FROM run WHERE owner = ?1 LIMIT ?2";
        let held: Vec<i64> = self
            .connection
            .prepare_cached(sql)?
            .query_map((owner, limit), |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let (again, free) = (hot::TRY_AGAIN.sqlite, hot::GIVE_BACK.sqlite);
        let mut again = self.connection.prepare_cached(again)?;
        let mut free = self.connection.prepare_cached(free)?;
        let mut freed = Reaped::default();
        for no in &held {
            let mut rows = again.query([no])?;
            while let Some(row) = rows.next()? {
                freed.triggers += 1;
                freed.suspects += u32::from(row.get::<_, i64>(0)? != 0);
            }
            free.execute([no])?;
            self.cache.heads.remove(no);
        }
        self.made_pending += u64::from(freed.triggers);
        freed.runs = u32::try_from(held.len()).unwrap_or(u32::MAX);
        Ok(freed)
    }

    pub(super) fn duty(&mut self, duty: &Duty) -> Done<bool> {
        let (name, incarnation, at_ms) = (&duty.name, duty.incarnation, duty.at_ms);
        if !self.is_member(incarnation.0)? {
            return Ok(false);
        }
        let last: Option<(i64, i64)> = self
            .connection
            .prepare_cached("SELECT incarnation, at_ms FROM duty WHERE name = ?1")?
            .query_row([name], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let last = match last {
            Some((holder, at_ms)) => Some((Incarnation(holder), at_ms, self.is_member(holder)?)),
            None => None,
        };
        if !crate::retention::is_given(duty, last) {
            return Ok(false);
        }
        let sql = "INSERT INTO duty (name, incarnation, at_ms) VALUES (?1, ?2, ?3) \
            ON CONFLICT (name) DO UPDATE SET incarnation = excluded.incarnation, \
            at_ms = excluded.at_ms";
        let row = (name, incarnation.0, at_ms);
        self.connection.prepare_cached(sql)?.execute(row)?;
        Ok(true)
    }
}
