//! The rows that the fences of a batch are compared with, read and locked together. Used for a
//! batch in which a fence has failed.

use std::hash::Hash;

use rustc_hash::{FxHashMap, FxHashSet};
use tokio_postgres::Row;
use tokio_postgres::types::FromSqlOwned;
use windlass_model::Digest;

use super::bookmarks::BUFFERED;
use super::{Done, Session, get};
use crate::stimuli::NewBookmark;
use crate::write::Write;

/// The rows of the tables that the writes of a batch depend on.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) members: FxHashSet<i64>,
    /// Owner, epoch, version, extras, and whether the run is paused.
    pub(super) heads: FxHashMap<i64, (Option<i64>, i64, i64, i16, bool)>,
    /// Instance and token of the claimed triggers.
    pub(super) claimed: FxHashMap<i64, (i64, i64)>,
    /// Those of the remembered definitions that still exist.
    pub(super) definitions: FxHashSet<i64>,
    /// The same for pins.
    pub(super) pins: FxHashSet<i64>,
    /// Ids that are in use.
    pub(super) ids: FxHashSet<Vec<u8>>,
    /// Hashes that have a buffered stimulus.
    pub(super) buffered: FxHashSet<Vec<u8>>,
}

impl Facts {
    /// Whether one of these bookmarks may meet a buffered stimulus.
    pub(super) fn are_met(&self, bookmarks: &[NewBookmark]) -> bool {
        let mut seen = bookmarks.iter().filter(|new| !new.private);
        seen.any(|new| self.buffered.contains(&new.hash.0[..]))
    }
}

/// The keys of the rows to read.
#[derive(Default)]
struct FactsWanted<'w> {
    members: Vec<i64>,
    heads: Vec<i64>,
    triggers: Vec<i64>,
    ids: Vec<&'w [u8]>,
    hashes: Vec<Digest>,
}

impl<'w> FactsWanted<'w> {
    fn of(writes: &[&'w Write]) -> Self {
        let mut asked = Self::default();
        for write in writes {
            match write {
                Write::Commit(commit) => {
                    asked.members.push(commit.fence.incarnation.0);
                    asked.heads.push(commit.fence.run.0);
                    asked.triggers.push(commit.trigger.no.0);
                    let bookmarks = commit.bookmarks.iter();
                    asked.hashes.extend(bookmarks.map(|new| new.hash));
                }
                Write::Create(new) => {
                    asked.members.extend(new.owner.map(|owner| owner.0));
                    asked.ids.push(new.id.0.as_bytes());
                }
                _ => {}
            }
        }
        for numbers in [&mut asked.members, &mut asked.heads, &mut asked.triggers] {
            numbers.sort_unstable();
            numbers.dedup();
        }
        asked
    }
}

impl Session<'_> {
    /// Reads and locks the rows that the writes of a batch depend on.
    pub(super) async fn facts(&mut self, writes: &[&Write]) -> Done<Facts> {
        let asked = FactsWanted::of(writes);
        let known: (Vec<i64>, Vec<i64>) = {
            let known = self.shared.known.lock();
            let pins = known.pins.values().copied().collect();
            (known.definitions.values().copied().collect(), pins)
        };
        self.lock_hashes(&asked.hashes).await?;
        let hashes: Vec<&[u8]> = asked.hashes.iter().map(|hash| &hash.0[..]).collect();
        let [members, heads, claimed, definitions, pins, ids, buffered] = self
            .all([
                (
                    "SELECT incarnation FROM member WHERE incarnation = ANY($1) \
                        ORDER BY incarnation FOR KEY SHARE",
                    &[&asked.members],
                ),
                (
                    "SELECT no, owner, epoch, version, extras, status = 3 FROM run \
                        WHERE no = ANY($1) ORDER BY no FOR NO KEY UPDATE",
                    &[&asked.heads],
                ),
                (
                    "SELECT no, run, token FROM trigger WHERE no = ANY($1) AND state = 1",
                    &[&asked.triggers],
                ),
                ("SELECT no FROM definition WHERE no = ANY($1)", &[&known.0]),
                ("SELECT no FROM pins WHERE no = ANY($1)", &[&known.1]),
                ("SELECT id FROM run WHERE id = ANY($1)", &[&asked.ids]),
                (BUFFERED, &[&hashes]),
            ])
            .await?;
        let mut facts = Facts {
            members: firsts(&members)?,
            definitions: firsts(&definitions)?,
            pins: firsts(&pins)?,
            ids: firsts(&ids)?,
            buffered: firsts(&buffered)?,
            ..Facts::default()
        };
        for row in &heads {
            let extras = get(row, 4)?;
            let (owner, paused) = (get(row, 1)?, get(row, 5)?);
            let head = (owner, get(row, 2)?, get(row, 3)?, extras, paused);
            facts.heads.insert(get(row, 0)?, head);
            if extras != 0 {
                self.aftermath.carrying.push((get(row, 0)?, extras));
            }
        }
        for row in &claimed {
            let claimed = (get(row, 1)?, get(row, 2)?);
            facts.claimed.insert(get(row, 0)?, claimed);
        }
        Ok(facts)
    }
}

/// The values of the first column.
fn firsts<T: Eq + Hash + FromSqlOwned>(rows: &[Row]) -> Done<FxHashSet<T>> {
    let firsts = rows.iter().map(|row| get(row, 0));
    Ok(firsts.collect::<Result<_, _>>()?)
}
