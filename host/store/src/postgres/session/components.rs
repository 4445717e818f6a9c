//! Components of plugins.

use windlass_model::Digest;

use super::{Done, Session, get};
use crate::components::{LOOKS, NewComponent, check, check_room};
use crate::retention::SLICE_BYTES;
use crate::write::Wrote;

/// One process at a time adds and forgets, since their numbers are to be those in which they
/// become visible, and are counted.
const LOCK: &str = "LOCK TABLE component IN SHARE ROW EXCLUSIVE MODE";

impl Session<'_> {
    /// Keeps a component, unless it is there, and its signature.
    pub(super) async fn keep_component(&mut self, new: &NewComponent) -> Done<Wrote> {
        check(new)?;
        self.later(LOCK, &[]).await?;
        let digest: &[u8] = &new.digest.0;
        let there = "SELECT 1 FROM component WHERE digest = $1";
        if self.one(there, &[&digest]).await?.is_some() {
            if let Some(signature) = &new.signature {
                let sql = "UPDATE component SET signature = $2 \
                    WHERE digest = $1 \
                    AND (signature IS NULL OR $3::boolean AND signature IS DISTINCT FROM $2)";
                self.later(sql, &[&digest, signature, &new.vouched]).await?;
            }
            return Ok(Wrote::Done);
        }
        let others = "SELECT count(*), coalesce(sum(octet_length(bytes)), 0)::bigint \
            FROM component";
        let others = self.row(others, &[]).await?;
        let (count, bytes): (i64, i64) = (get(&others, 0)?, get(&others, 1)?);
        check_room(new, count.cast_unsigned(), bytes.cast_unsigned())?;
        let sql = "INSERT INTO component (generation, digest, name, version, bytes, signature) \
            SELECT coalesce(max(generation), 0) + 1, $1, $2, $3, $4, $5 FROM component";
        let NewComponent { name, version, .. } = new;
        self.later(sql, &[&digest, name, version, &&*new.bytes, &new.signature])
            .await?;
        Ok(Wrote::Done)
    }

    /// Notes what is used, and forgets some of what is not.
    pub(super) async fn sweep_components(
        &mut self,
        used: &[Digest],
        before_ms: i64,
        at_ms: i64,
    ) -> Done<Wrote> {
        self.later(LOCK, &[]).await?;
        let used: Vec<&[u8]> = used.iter().map(|digest| &digest.0[..]).collect();
        let note = "UPDATE component SET used_ms = $2 WHERE digest = ANY($1) OR used_ms IS NULL";
        self.later(note, &[&used, &at_ms]).await?;
        let due = "SELECT digest, octet_length(bytes)::bigint FROM component \
            WHERE used_ms < $1 AND generation < (SELECT max(generation) FROM component) \
            ORDER BY generation LIMIT $2";
        let due = self.rows(due, &[&before_ms, &i64::from(LOOKS)]).await?;
        let (mut count, mut bytes) = (0, 0);
        for row in &due {
            let digest: Vec<u8> = get(row, 0)?;
            let text = hex(&digest);
            let pinned = "SELECT 1 FROM pins WHERE position($1::bytea IN json) > 0 LIMIT 1";
            if self.one(pinned, &[&text.as_bytes()]).await?.is_some() {
                self.later(note, &[&[&*digest].as_slice(), &at_ms]).await?;
                continue;
            }
            let delete = "DELETE FROM component WHERE digest = $1";
            self.later(delete, &[&digest]).await?;
            count += 1;
            bytes += get::<i64>(row, 1)?;
            if bytes > SLICE_BYTES {
                break;
            }
        }
        let more = bytes > SLICE_BYTES || due.len() >= LOOKS as usize;
        Ok(Wrote::Swept { count, more })
    }
}

/// As the pins have it.
fn hex(digest: &[u8]) -> String {
    let digest = <[u8; 32]>::try_from(digest).unwrap_or_default();
    Digest(digest).hex()
}
