//! Export and import of whole runs in memory.

use std::collections::BTreeMap;

use windlass_model::{RunId, RunNo, ScopeNo};

use super::data::{Data, StoredRun};
use super::external::Named;
use crate::error::{Error, Result};
use crate::letters::LetterBody;
use crate::rows::{Created, ExecutionRow, NewBlob};
use crate::transfer::{Bounds, Import, Imported, Snapshot, TriggerName, above};
use crate::write::NewItem;

impl Data {
    pub(super) fn import(&mut self, import: &Import) -> Result<Imported> {
        let old = match self.place_of(import) {
            Ok(old) => old,
            Err(imported) => return Ok(imported),
        };
        if let Some(imported) = self.in_the_way(import, old) {
            return Ok(imported);
        }
        self.check_run(&import.new)?;
        self.check_new(
            false,
            [],
            import.executions.iter().map(|execution| execution.no),
        )?;
        let (mut epoch, mut version) = (0, 0);
        if let Some(row) = old.and_then(|old| self.runs.get(&old)) {
            (epoch, version) = (row.row.epoch.0, row.row.version.0);
        }
        if let Some(old) = old {
            self.displace(old, import);
        }
        let made = self.create(&import.new)?;
        debug_assert_eq!(made, Ok(Created::New), "nothing that refuses it was there");
        self.write_imported(import, (epoch, version));
        Ok(old.map_or(Imported::New, |old| Imported::Replaced { old }))
    }

    /// The run to replace, if there is one, or the reason why it cannot be replaced.
    fn place_of(&self, import: &Import) -> Result<Option<RunNo>, Imported> {
        if self.tombstones.contains_key(&import.new.id) {
            return Err(Imported::Deleted);
        }
        let Some(no) = self.ids.get(&import.new.id).copied() else {
            return Ok(None);
        };
        let Some(run) = self.runs.get(&no) else {
            return Ok(None);
        };
        let row = &run.row;
        let unchanged = !import.replace || run.imported == Some(row.version);
        let mut marks = run.journal.iter();
        if unchanged && marks.any(|entry| import.is_marked(&entry.kind, &entry.detail)) {
            return Err(Imported::Already(no));
        }
        let owned = row
            .owner
            .is_some_and(|owner| self.members.contains_key(&owner));
        if !import.replace {
            Err(Imported::Exists)
        } else if self.doomed.contains(&no) {
            Err(Imported::Deleted)
        } else if owned {
            Err(Imported::Owned)
        } else if row.parent.is_some() && !row.status.is_final() {
            Err(Imported::Child)
        } else if self.open_children(no) > 0 {
            Err(Imported::Children)
        } else {
            Ok(Some(no))
        }
    }

    fn open_children(&self, no: RunNo) -> usize {
        let rows = self.runs.values().map(|run| &run.row);
        let children = rows.filter(|row| row.parent.as_ref().is_some_and(|of| of.run == no));
        children.filter(|row| !row.status.is_final()).count()
    }

    /// A conflict of the imported run with other rows of the store.
    fn in_the_way(&self, import: &Import, old: Option<RunNo>) -> Option<Imported> {
        if let Some(key) = &import.new.exclusive {
            let mut holders = self.reservations.iter();
            let by = holders.find(|(held, no)| held == key && Some(*no) != old);
            if let Some(by) = by.and_then(|(_, no)| self.runs.get(no)) {
                return Some(Imported::Reserved { by: by.row.id });
            }
        }
        let taken = |name: &&TriggerName| {
            let named = self.external.get(&name.id);
            named.is_some_and(|named| Some(named.run) != old)
        };
        let name = import.names.iter().find(taken);
        name.map(|name| Imported::Name(name.id))
    }

    /// Removes the run that is replaced. Rows that belong to the run as a whole, such as
    /// children and dead letters, move to the new run.
    fn displace(&mut self, old: RunNo, import: &Import) {
        for no in self.triggers_of(old) {
            self.dead_letter_unheard(no, import.at_ms);
        }
        self.remove_run(old, import.at_ms);
        let new = import.new.no;
        if let Some(tree) = self.trees.remove(&old) {
            self.trees.insert(new, tree);
        }
        for run in self.runs.values_mut() {
            if run.row.tree == Some(old) {
                run.row.tree = Some(new);
            }
            let Some(parent) = &mut run.row.parent else {
                continue;
            };
            for of in [&mut parent.run, &mut parent.root] {
                if *of == old {
                    *of = new;
                }
            }
        }
        for row in self.letters.values_mut() {
            if let LetterBody::Trigger(dead) = &mut row.letter.body
                && dead.run == old
            {
                dead.run = new;
            }
        }
    }

    /// Writes the parts that an imported run has and a new one does not.
    fn write_imported(&mut self, import: &Import, (epoch, version): (i64, i64)) {
        let no = import.new.no;
        for payload in import.payloads() {
            self.refer(no, payload);
        }
        let executions = import
            .executions
            .iter()
            .map(|execution| (execution.no, execution.clone()));
        self.executions.extend(executions);
        for name in &import.names {
            let named = Named {
                trigger: name.trigger,
                run: no,
                request: name.request,
                closed: name.closed,
            };
            self.external.insert(name.id, named);
        }
        if let Some(run) = self.runs.get_mut(&no) {
            run.fill(import, (epoch, version));
        }
        self.add_bookmarks(no, &import.bookmarks, import.at_ms);
    }

    pub(super) fn extent(&self, id: RunId, bounds: Bounds) -> Result<Option<u64>> {
        let taken = self.snapshot(id, bounds)?;
        Ok(taken.map(|taken| taken.bytes() + taken.record_bytes()))
    }

    pub(super) fn snapshot(&self, id: RunId, bounds: Bounds) -> Result<Option<Snapshot>> {
        let no = self.ids.get(&id);
        let Some(run) = no.and_then(|no| self.runs.get(no)) else {
            return Ok(None);
        };
        let row = &run.row;
        let missing = || Error::corrupt("a run without its documents");
        let definition = self.definitions.get(&row.definition).ok_or_else(missing)?;
        let pins = self.pins.get(&row.pins).ok_or_else(missing)?;
        let held = self.blob_refs.iter().filter(|(of, _)| *of == row.no);
        let blobs: Vec<NewBlob> = held
            .filter_map(|(_, digest)| {
                let (_, bytes) = self.blobs.get(digest)?;
                let (digest, bytes) = (*digest, bytes.clone());
                Some(NewBlob { digest, bytes })
            })
            .collect();
        let triggers = self.triggers_of(row.no);
        let names = self.external.iter().filter(|(_, of)| of.run == row.no);
        let mut names: Vec<TriggerName> = names.map(|(id, named)| name(*id, named)).collect();
        names.sort_by_key(|name| name.trigger);
        let bookmarks = self.stimuli.bookmarks.values();
        let bookmarks = bookmarks.filter(|mark| mark.run == row.no);
        let items = run.items.iter().map(|((list, index), output)| NewItem {
            list: *list,
            index: *index,
            output: output.clone(),
        });
        let vars = run.vars.iter();
        let scopes = run.scopes.iter();
        let journal = run.journal.iter();
        let snapshot = Snapshot {
            row: row.clone(),
            definition: definition.clone(),
            pins: pins.clone(),
            input: run.input.clone(),
            output: run.output.clone(),
            keep_ms: run.keep_ms,
            vars: vars
                .map(|((scope, name), value)| (*scope, name.clone(), value.clone()))
                .collect(),
            scopes: scopes.map(|(no, state)| (*no, state.clone())).collect(),
            items: items.collect(),
            triggers: triggers
                .iter()
                .filter_map(|no| self.triggers.get(no).cloned())
                .collect(),
            executions: self.newest(run, bounds.executions),
            journal: (journal.clone().filter(|entry| !entry.is_event()))
                .cloned()
                .collect(),
            events: (journal.filter(|entry| entry.is_event()))
                .take(bounds.limit() as usize)
                .cloned()
                .collect(),
            bookmarks: bookmarks.map(|mark| mark.bookmark.clone()).collect(),
            names,
            children: u32::try_from(self.open_children(row.no)).unwrap_or(u32::MAX),
            blobs,
        };
        bounds.admit_bytes(snapshot.bytes())?;
        snapshot.admitted(bounds).map(Some)
    }

    fn newest(&self, run: &StoredRun, bound: u32) -> Vec<ExecutionRow> {
        let last = run
            .row
            .last_execution
            .and_then(|no| self.executions.get(&no));
        let walk = std::iter::successors(last, |execution| {
            execution
                .previous
                .and_then(|previous| self.executions.get(&previous))
        });
        walk.take(bound as usize).cloned().collect()
    }
}

fn name(id: windlass_model::TriggerId, named: &Named) -> TriggerName {
    TriggerName {
        id,
        trigger: named.trigger,
        request: named.request,
        closed: named.closed,
    }
}

impl StoredRun {
    fn fill(&mut self, import: &Import, (epoch, version): (i64, i64)) {
        let row = &mut self.row;
        row.status = import.status;
        row.epoch.0 = above(import.epoch.0, epoch);
        row.version.0 = above(import.version.0, version);
        row.last_execution = import.executions.last().map(|last| last.no);
        row.finished_ms = import.finished_ms;
        row.failure.clone_from(&import.failure);
        self.imported = Some(row.version);
        self.output.clone_from(&import.output);
        let vars = import.vars.iter();
        let vars: BTreeMap<(ScopeNo, String), _> = vars
            .map(|(scope, name, value)| ((*scope, name.clone()), value.clone()))
            .collect();
        self.vars.extend(vars);
        self.scopes = import.scopes.iter().cloned().collect();
        let items = import.items.iter();
        self.items = items
            .map(|item| ((item.list, item.index), item.output.clone()))
            .collect();
        self.journal.clone_from(&import.journal);
        self.journal.push(import.mark.clone());
    }
}
