//! Components of plugins.

use windlass_model::Digest;

use super::{Done, Session};
use crate::components::{LOOKS, NewComponent, check, check_room};
use crate::retention::SLICE_BYTES;
use crate::write::Wrote;

impl Session<'_> {
    /// Keeps a component, unless it is there, and its signature.
    pub(super) fn keep_component(&mut self, new: &NewComponent) -> Done<Wrote> {
        check(new)?;
        let there = "SELECT EXISTS (SELECT 1 FROM component WHERE digest = ?1)";
        let mut there = self.connection.prepare_cached(there)?;
        if there.query_row([new.digest.0], |row| row.get(0))? {
            if let Some(signature) = &new.signature {
                let sql = "UPDATE component SET signature = ?2 \
                    WHERE digest = ?1 AND (signature IS NULL OR ?3 AND signature IS NOT ?2)";
                let mut sign = self.connection.prepare_cached(sql)?;
                sign.execute((new.digest.0, signature, new.vouched))?;
            }
            return Ok(Wrote::Done);
        }
        let others = "SELECT count(*), coalesce(sum(length(bytes)), 0) FROM component";
        let others = self.connection.query_row(others, (), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        })?;
        check_room(new, others.0.cast_unsigned(), others.1.cast_unsigned())?;
        let sql = "INSERT INTO component (digest, name, version, bytes, signature) \
            VALUES (?1, ?2, ?3, ?4, ?5)";
        self.connection.prepare_cached(sql)?.execute((
            new.digest.0,
            &new.name,
            &new.version,
            &*new.bytes,
            &new.signature,
        ))?;
        Ok(Wrote::Done)
    }

    /// Notes what is used, and forgets some of what is not.
    pub(super) fn sweep_components(
        &mut self,
        used: &[Digest],
        before_ms: i64,
        at_ms: i64,
    ) -> Done<Wrote> {
        let note = "UPDATE component SET used_ms = ?2 WHERE digest = ?1";
        let mut note = self.connection.prepare_cached(note)?;
        for digest in used {
            note.execute((digest.0, at_ms))?;
        }
        let new = "UPDATE component SET used_ms = ?1 WHERE used_ms IS NULL";
        self.connection.prepare_cached(new)?.execute([at_ms])?;
        let due = "SELECT digest, length(bytes) FROM component WHERE used_ms < ?1 \
            AND generation < (SELECT max(generation) FROM component) \
            ORDER BY generation LIMIT ?2";
        let mut due = self.connection.prepare_cached(due)?;
        let due = due.query_map((before_ms, LOOKS), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let due: Vec<([u8; 32], i64)> = due.collect::<Result<_, _>>()?;
        let pinned = "SELECT EXISTS (SELECT 1 FROM pins WHERE instr(json, ?1) > 0)";
        let mut pinned = self.connection.prepare_cached(pinned)?;
        let delete = "DELETE FROM component WHERE digest = ?1";
        let mut delete = self.connection.prepare_cached(delete)?;
        let (mut count, mut bytes) = (0, 0);
        for (digest, length) in &due {
            let text = Digest(*digest).hex();
            if pinned.query_row([text.as_bytes()], |row| row.get(0))? {
                note.execute((digest, at_ms))?;
                continue;
            }
            delete.execute([digest])?;
            count += 1;
            bytes += length;
            if bytes > SLICE_BYTES {
                break;
            }
        }
        let more = bytes > SLICE_BYTES || due.len() >= LOOKS as usize;
        Ok(Wrote::Swept { count, more })
    }
}
