//! Components of plugins.

use bytes::Bytes;
use windlass_model::Digest;

use super::data::Data;
use crate::components::{ComponentRow, NewComponent, Stored, SweepComponents, check, check_room};
use crate::error::Result;
use crate::retention::Swept;

/// A stored component.
pub(super) struct KeptComponent {
    pub(super) row: ComponentRow,
    pub(super) bytes: Bytes,
    pub(super) signature: Option<String>,
    /// When a sweep last found it used; none until the first sweep.
    used_ms: Option<i64>,
}

/// The digest by which a changed signature is detected.
fn mark(new: &NewComponent) -> Option<Digest> {
    let signature = new.signature.as_ref();
    signature.map(|text| Digest::of(text.as_bytes()))
}

impl Data {
    pub(super) fn keep_component(&mut self, new: &NewComponent) -> Result<()> {
        check(new)?;
        let mut there = self.components.iter_mut();
        if let Some(kept) = there.find(|it| it.row.digest == new.digest) {
            if new.signature.is_some() && (kept.signature.is_none() || new.vouched) {
                kept.signature.clone_from(&new.signature);
                kept.row.signature = mark(new);
            }
            return Ok(());
        }
        let sizes = self.components.iter().map(|it| it.bytes.len() as u64);
        check_room(new, self.components.len() as u64, sizes.sum())?;
        let last = self.components.last().map_or(0, |it| it.row.generation);
        self.components.push(KeptComponent {
            row: ComponentRow {
                digest: new.digest,
                name: new.name.clone(),
                version: new.version.clone(),
                signature: mark(new),
                generation: last + 1,
            },
            bytes: new.bytes.clone(),
            signature: new.signature.clone(),
            used_ms: None,
        });
        Ok(())
    }

    pub(super) fn sweep_components(&mut self, sweep: &SweepComponents) -> Swept {
        let last = self.components.last().map_or(0, |it| it.row.generation);
        let pins = &self.pins;
        let is_pinned = |digest: Digest| {
            let text = digest.hex();
            let text = text.as_bytes();
            let mut pins = pins.values();
            pins.any(|pins| pins.json.windows(text.len()).any(|part| part == text))
        };
        let before = self.components.len();
        self.components.retain_mut(|kept| {
            let since_ms = *kept.used_ms.get_or_insert(sweep.at_ms);
            if sweep.used.contains(&kept.row.digest) {
                kept.used_ms = Some(sweep.at_ms);
            } else if since_ms < sweep.before_ms && kept.row.generation < last {
                kept.used_ms = Some(sweep.at_ms);
                return is_pinned(kept.row.digest);
            }
            true
        });
        let count = u32::try_from(before - self.components.len()).unwrap_or(u32::MAX);
        Swept { count, more: false }
    }

    pub(super) fn component(&self, digest: Digest) -> Result<Option<Stored>> {
        let found = self.components.iter().find(|it| it.row.digest == digest);
        Ok(found.map(|it| Stored {
            bytes: it.bytes.clone(),
            signature: it.signature.clone(),
        }))
    }

    pub(super) fn component_row(&self, digest: Digest) -> Option<ComponentRow> {
        let mut rows = self.components.iter().map(|it| &it.row);
        rows.find(|row| row.digest == digest).cloned()
    }

    pub(super) fn components(&self, after: i64, limit: u32) -> Result<Vec<ComponentRow>> {
        let rows = self.components.iter().map(|it| it.row.clone());
        let rows = rows.filter(|row| row.generation > after);
        Ok(rows.take(limit as usize).collect())
    }
}
