//! Snapshots of whole runs: exported at one moment, and imported unchanged.

use rustc_hash::FxHashMap;
use uuid::Uuid;
use windlass_model::{
    Delivery, Digest, ExecutionNo, Payload, RunId, RunNo, ScopeNo, Seq, Status, TriggerId,
    TriggerNo, TriggerType,
};

use super::Harness;
use super::forgetting::full;
use super::living::RACES;
use super::waiting::stimulus;
use super::world::{DONE, DUE, Member};
use crate::external::NewExternal;
use crate::lives::{Clear, LifeOp, Lived};
use crate::rows::{JournalRow, NewRun, NewTrigger, Parent, TriggerRow};
use crate::transfer::{Bounds, Import, Imported, Snapshot, TriggerName};
use crate::write::{Commit, Fenced};

/// Bounds that no case reaches.
const BOUNDS: Bounds = Bounds {
    rows: 1000,
    executions: 1000,
    bytes: 1 << 20,
};

impl Member {
    pub(super) fn snapshot(&self, id: RunId) -> Snapshot {
        self.store.snapshot(id, BOUNDS).unwrap().unwrap()
    }

    /// An import of a snapshot, with numbers from this member.
    pub(super) fn again(&self, taken: &Snapshot, id: RunId) -> Import {
        let mut runs = FxHashMap::default();
        let no = self.numbers.run().unwrap();
        let records = taken.executions.iter().rev().map(|run| {
            let mut run = run.clone();
            let new = self.numbers.execution().unwrap();
            runs.insert(run.no, new);
            run.run = no;
            run.no = new;
            run.previous = run
                .previous
                .and_then(|previous| runs.get(&previous).copied());
            run
        });
        let records: Vec<_> = records.collect();
        let mut rows: FxHashMap<TriggerNo, TriggerNo> = FxHashMap::default();
        let mut row = |no: TriggerNo| {
            let new = rows.entry(no);
            *new.or_insert_with(|| self.numbers.trigger().unwrap())
        };
        let triggers = taken.triggers.iter();
        let triggers = triggers
            .map(|trigger| pending(trigger, row(trigger.no)))
            .collect();
        let bookmarks = taken.bookmarks.iter().map(|mark| {
            let mut mark = mark.clone();
            mark.trigger = row(mark.trigger);
            mark
        });
        let bookmarks = bookmarks.collect();
        let names = taken.names.iter().map(|name| TriggerName {
            trigger: row(name.trigger),
            ..name.clone()
        });
        let names = names.collect();
        let (root, vars) = taken
            .vars
            .iter()
            .cloned()
            .partition(|var| var.0 == ScopeNo::ROOT);
        let root: Vec<(ScopeNo, String, Payload)> = root;
        let new = NewRun {
            no,
            id,
            correlation: taken.row.correlation.clone(),
            tags: taken.row.tags.clone(),
            request: taken.row.request,
            state: taken.row.state.clone(),
            input: taken.input.clone(),
            vars: root
                .into_iter()
                .map(|(_, name, value)| (name, value))
                .collect(),
            triggers,
            keep_ms: taken.keep_ms,
            journal: Vec::new(),
            blobs: taken.blobs.clone(),
            as_of: None,
            created_ms: taken.row.created_ms,
            ..self.draft(0)
        };
        Import {
            new,
            status: taken.row.status,
            epoch: taken.row.epoch,
            version: taken.row.version,
            finished_ms: taken.row.finished_ms,
            failure: taken.row.failure.clone(),
            output: taken.output.clone(),
            vars,
            scopes: taken.scopes.clone(),
            items: taken.items.clone(),
            executions: records,
            journal: [&taken.journal[..], &taken.events].concat(),
            mark: JournalRow {
                at_ms: 60,
                kind: "imported".into(),
                detail: Digest::of(format!("{taken:?}").as_bytes())
                    .to_string()
                    .into(),
            },
            bookmarks,
            names,
            replace: false,
            at_ms: 60,
        }
    }

    pub(super) fn in_place(&self, taken: &Snapshot) -> Import {
        Import {
            replace: true,
            ..self.again(taken, taken.row.id)
        }
    }
}

fn pending(row: &TriggerRow, no: TriggerNo) -> NewTrigger {
    NewTrigger {
        no,
        seq: if row.seq.is_external() {
            Seq::external(no)
        } else {
            row.seq
        },
        kind: row.kind,
        node: row.node,
        due_ms: row.due_ms,
        claimed: false,
        attempt: row.attempt,
        detail: row.detail.clone(),
        payload: row.payload.clone(),
        priority: row.priority,
    }
}

pub(super) fn another() -> RunId {
    RunId(Uuid::from_u128(77))
}

/// The parts of a snapshot that do not depend on the store or its row numbers.
fn told(of: &Snapshot) -> String {
    let runs = of.executions.iter().map(|run| {
        let mut run = run.clone();
        run.previous = run.previous.map(|_| ExecutionNo(0));
        (run.no, run.run) = (ExecutionNo(0), RunNo(0));
        run
    });
    let triggers = of.triggers.iter().map(|row| pending(row, TriggerNo(0)));
    let mut triggers: Vec<_> = triggers.collect();
    triggers.sort_by_key(|trigger| trigger.seq);
    let bookmarks = of.bookmarks.iter().map(|mark| {
        let mut mark = mark.clone();
        mark.trigger = TriggerNo(0);
        mark
    });
    let journal = of.journal.iter().filter(|entry| entry.kind != "imported");
    let row = &of.row;
    let head = (
        &row.correlation,
        row.request,
        row.status,
        row.finished_ms,
        &row.state,
    );
    format!(
        "{head:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {triggers:?} {:?} {:?} {:?} {:?} {:?}",
        (row.definition, row.pins, row.created_ms),
        of.input,
        of.output,
        of.keep_ms,
        of.vars,
        of.scopes,
        of.items,
        runs.collect::<Vec<_>>(),
        journal.collect::<Vec<_>>(),
        of.events,
        bookmarks.collect::<Vec<_>>(),
        of.blobs,
    )
}

pub(super) fn an_imported_run_is_as_it_was(harness: &dyn Harness) {
    let member = Member::join(harness);
    let large = Payload::json(format!("\"{}\"", "x".repeat(70_000)));
    let mut new = member.draft(1);
    new.keep_ms = Some(1_000);
    new.input = large.clone();
    let fresh = new.id;
    member.create(new);
    let ended = member.head(full(&member, 4, &large)).id;
    let (_, waits) = member.waiting("approval");
    for (place, id) in (100..).zip([fresh, ended, waits]) {
        let taken = member.snapshot(id);
        let copy = RunId(Uuid::from_u128(place));
        let import = member.again(&taken, copy);
        let (epoch, version) = (import.epoch, import.version);
        assert_eq!(member.write(import), Imported::New);
        let there = member.snapshot(copy);
        assert_eq!(told(&there), told(&taken));
        assert!(there.row.epoch > epoch && there.row.version > version);
        assert_eq!((there.row.owner, there.children), (None, 0));
        let marks = there
            .journal
            .iter()
            .filter(|entry| entry.kind == "imported");
        assert_eq!(marks.count(), 1);
    }
    let taken = member.snapshot(ended);
    assert!(!taken.executions.is_empty() && !taken.blobs.is_empty() && !taken.journal.is_empty());
    assert_eq!(member.store.snapshot(another(), BOUNDS).unwrap(), None);
}

pub(super) fn an_imported_run_goes_on(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (no, id) = member.waiting("approval");
    let import = member.again(&member.snapshot(id), another());
    let new = import.new.no;
    assert_eq!(member.write(import), Imported::New);
    let sent = member.send(stimulus("approval", Delivery::Resume));
    assert_eq!(sent.resumed.len(), 2);
    let mut claimed: Vec<RunNo> = Vec::new();
    for held in member.claim_all(60) {
        claimed.push(held.fence.run);
        let mut last = member.last(&held);
        last.executions[0].previous = member.head(held.fence.run).last_execution;
        assert_eq!(member.commit(last), DONE);
    }
    claimed.sort_unstable();
    assert_eq!(claimed, [no, new]);
    // The execution records of both runs form separate chains.
    assert_eq!(member.store.executions(new, None, 10).unwrap().len(), 2);
    assert_eq!(member.store.executions(no, None, 10).unwrap().len(), 2);
    // A buffered stimulus resumes an imported run too.
    let (_, id) = member.waiting("delivery");
    let taken = member.snapshot(id);
    member.send(crate::stimuli::NewStimulus {
        run: Some(RunId(Uuid::from_u128(78))),
        ..stimulus("delivery", Delivery::Buffer)
    });
    let import = member.again(&taken, RunId(Uuid::from_u128(78)));
    let new = import.new.no;
    assert_eq!(member.write(import), Imported::New);
    assert!(member.only_trigger(new).payload.is_some());
}

pub(super) fn a_place_is_taken_only_if_it_is_said(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (old, id) = member.waiting("approval");
    let taken = member.snapshot(id);
    let plain = member.again(&taken, id);
    assert_eq!(member.write(plain), Imported::Exists);
    let counts = member.store.counts().unwrap();
    let import = member.in_place(&taken);
    let new = import.new.no;
    assert_eq!(member.write(import), Imported::Replaced { old });
    let there = member.snapshot(id);
    assert_eq!(told(&there), told(&taken));
    assert_eq!(there.row.no, new);
    assert!(there.row.epoch > taken.row.epoch && there.row.version > taken.row.version);
    assert_eq!(member.store.run_by_no(old).unwrap(), None);
    assert_eq!(member.triggers(old), []);
    let after = member.store.counts().unwrap();
    assert_eq!(
        (after.bookmarks, after.triggers, after.unfinished),
        (counts.bookmarks, counts.triggers, counts.unfinished)
    );
    // The rest of the replaced run can be cleared without effect on the new one.
    let clear = Clear {
        run: old,
        rows: 1,
        at_ms: 70,
    };
    while member.write(clear).more {}
    assert_eq!(told(&member.snapshot(id)), told(&taken));
    assert_eq!(
        member.send(stimulus("approval", Delivery::Resume)).resumed,
        [id]
    );
}

pub(super) fn the_same_put_in_again_changes_nothing(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (_, id) = member.waiting("approval");
    let taken = member.snapshot(id);
    let first = member.again(&taken, another());
    let new = first.new.no;
    assert_eq!(member.write(first), Imported::New);
    let second = member.again(&taken, another());
    assert_eq!(member.write(second), Imported::Already(new));
    let first = member.in_place(&taken);
    let new = first.new.no;
    assert!(matches!(member.write(first), Imported::Replaced { .. }));
    let again = member.in_place(&taken);
    assert_eq!(member.write(again), Imported::Already(new));
    // After the imported run has continued, importing it again goes back to the snapshot.
    member.send(crate::stimuli::NewStimulus {
        run: Some(id),
        ..stimulus("approval", Delivery::Resume)
    });
    let mut held = member.claim_all(60);
    held.retain(|held| held.fence.run == new);
    let mut step = member.step(&held[0]);
    step.triggers = vec![member.trigger(9)];
    step.release = true;
    step.executions[0].previous = member.head(new).last_execution;
    assert_eq!(member.commit(step), DONE);
    let again = member.in_place(&taken);
    assert_eq!(member.write(again), Imported::Replaced { old: new });
    assert_eq!(told(&member.snapshot(id)), told(&taken));
}

pub(super) fn a_run_with_an_owner_keeps_its_place(harness: &dyn Harness) {
    let member = Member::join(harness);
    let other = Member::join(harness);
    let held = member.born();
    let (no, epoch) = (held.fence.run, held.fence.epoch);
    let id = member.head(no).id;
    let taken = other.snapshot(id);
    assert_eq!(other.write(other.in_place(&taken)), Imported::Owned);
    assert_eq!(member.commit(member.chained(&held, 2)), DONE);
    // A dead member owns no runs, and its later commits are fenced.
    member.die();
    assert!(other.reap(10) > 0);
    let imported = other.write(other.in_place(&taken));
    assert_eq!(imported, Imported::Replaced { old: no });
    assert!(other.head_of(id).epoch > epoch);
    let late = other.chained(&held.next(), 3);
    assert_eq!(other.commit(late), Err(Fenced));
    assert_eq!(told(&other.snapshot(id)), told(&taken));
}

impl Member {
    pub(super) fn head_of(&self, id: RunId) -> crate::rows::RunRow {
        self.store.run(id).unwrap().unwrap()
    }
}

/// An external trigger of a run, with a name of its own.
pub(super) fn named(no: TriggerNo, run: RunId) -> NewExternal {
    NewExternal {
        no,
        id: TriggerId(Uuid::from_u128(no.0 as u128)),
        run,
        node: None,
        kind: TriggerType::Manual,
        due_ms: 1000,
        payload: None,
        priority: 0,
        detail: bytes::Bytes::new(),
        request: Digest::of(b"request"),
    }
}

pub(super) fn an_impossible_import_leaves_no_trace(harness: &dyn Harness) {
    let member = Member::join(harness);
    let mut alone = member.draft(1);
    alone.reserves = vec!["alone".into()];
    alone.triggers[0].due_ms = 1000;
    let by = alone.id;
    member.create(alone);
    let (_, id) = member.waiting("approval");
    let mut taken = member.snapshot(id);
    let before = format!("{:?}", member.store.counts().unwrap());
    let refused = |import: Import, expected: Imported| {
        assert_eq!(member.write(import), expected);
        assert_eq!(format!("{:?}", member.store.counts().unwrap()), before);
        assert_eq!(told(&member.snapshot(id)), told(&taken));
    };
    for replace in [false, true] {
        let to = if replace { id } else { another() };
        let mut import = member.again(&taken, to);
        import.replace = replace;
        import.new.exclusive = Some("alone".into());
        import.new.reserves = vec!["alone".into()];
        refused(import, Imported::Reserved { by });
    }
    // A name belongs to one run only.
    let no = member.numbers.trigger().unwrap();
    let external = named(no, id);
    let name = external.id;
    member.write(external);
    taken = member.snapshot(id);
    assert_eq!(taken.names.len(), 1);
    let import = member.again(&taken, another());
    assert_eq!(member.write(import), Imported::Name(name));
    assert_eq!(member.store.run(another()).unwrap(), None);
    assert!(matches!(
        member.write(member.in_place(&taken)),
        Imported::Replaced { .. }
    ));
    let named = member.store.external(name).unwrap().unwrap();
    assert_eq!(named.run, member.head_of(id).no);
    assert!(named.row.is_some());
}

/// A run that waits for its child, which has started.
pub(super) fn family(member: &Member) -> (RunId, RunId) {
    let held = member.born();
    let parent = held.fence.run;
    let id = member.head(parent).id;
    let mut row = member.trigger(2);
    (row.kind, row.due_ms) = (TriggerType::Child, i64::MAX);
    let mut child = member.draft(1);
    child.parent = Some(Parent {
        run: parent,
        id,
        trigger: held.trigger.no,
        seq: Seq(2),
        depth: 1,
        root: parent,
        flow: "w".into(),
        undoes: false,
    });
    let child_id = child.id;
    let step = Commit {
        triggers: vec![row],
        children: vec![child],
        release: true,
        ..member.step(&held)
    };
    assert_eq!(member.commit(step), DUE);
    (id, child_id)
}

pub(super) fn families_and_the_deleted_keep_their_places(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (id, child_id) = family(&member);
    let (above, below) = (member.snapshot(id), member.snapshot(child_id));
    assert_eq!((above.children, below.children), (1, 0));
    assert_eq!(member.write(member.in_place(&above)), Imported::Children);
    assert_eq!(member.write(member.in_place(&below)), Imported::Child);
    // An import never restores a deleted run, nor one that is to be deleted when it ends.
    let (no, gone) = member.waiting("approval");
    let taken = member.snapshot(gone);
    let delete = |no| LifeOp::Delete {
        run: gone,
        no,
        at_ms: 50,
    };
    let control = || member.numbers.trigger().unwrap();
    assert_eq!(member.write(delete(control())), Lived::Done);
    assert_eq!(member.write(member.in_place(&taken)), Imported::Deleted);
    for held in member.claim_all(60) {
        if held.fence.run == no {
            let mut last = member.last(&held);
            last.status = Status::Cancelled;
            last.executions.clear();
            assert_eq!(member.commit(last), DONE);
        }
    }
    assert_eq!(member.store.run(gone).unwrap(), None);
    assert_eq!(member.store.snapshot(gone, BOUNDS).unwrap(), None);
    for import in [member.in_place(&taken), member.again(&taken, gone)] {
        assert_eq!(member.write(import), Imported::Deleted);
    }
}

pub(super) fn an_export_is_bounded(harness: &dyn Harness) {
    let member = Member::join(harness);
    let payload = Payload::json(format!("\"{}\"", "x".repeat(1000)));
    let id = member.head(full(&member, 5, &payload)).id;
    let snapshot = |bounds| member.store.snapshot(id, bounds);
    assert_eq!(snapshot(BOUNDS).unwrap().unwrap().executions.len(), 6);
    let runs = snapshot(Bounds {
        executions: 2,
        ..BOUNDS
    })
    .unwrap()
    .unwrap()
    .executions;
    assert_eq!(runs, snapshot(BOUNDS).unwrap().unwrap().executions[..2]);
    let taken = snapshot(BOUNDS).unwrap().unwrap();
    let extent = |bounds| member.store.extent(id, bounds).unwrap();
    let bytes = taken.bytes() + taken.record_bytes();
    assert_eq!(extent(BOUNDS), Some(bytes));
    assert!(taken.record_bytes() > 0);
    assert_eq!(
        member.store.extent(RunId(Uuid::max()), BOUNDS).unwrap(),
        None
    );
    for bounds in [
        Bounds { rows: 4, ..BOUNDS },
        Bounds {
            bytes: 100,
            ..BOUNDS
        },
    ] {
        let refused = snapshot(bounds).unwrap_err();
        assert_eq!(refused.code, crate::codes::TOO_LARGE);
    }
}

/// Takes up to half a minute on PostgreSQL: each round imports a run while its owner commits.
pub(super) fn putting_in_races_a_burst(harness: &dyn Harness) {
    let member = Member::join(harness);
    let other = Member::join(harness);
    let (mut replaced, mut owned) = (0, 0);
    let rounds = RACES.range();
    let count = rounds.end - rounds.start;
    for _ in rounds {
        let mut new = member.draft(1);
        let id = new.id;
        new.triggers[0].due_ms = 10;
        let old = member.create(new);
        let taken = other.snapshot(id);
        let import = other.in_place(&taken);
        let place = import.new.no;
        let (steps, imported) = std::thread::scope(|scope| {
            let burst = scope.spawn(|| burst(&member, old));
            let import = scope.spawn(|| other.write(import));
            (burst.join().unwrap(), import.join().unwrap())
        });
        let now = member.head_of(id);
        match imported {
            Imported::Replaced { old: gone } => {
                replaced += 1;
                assert_eq!((gone, now.no), (old, place));
                // The steps of the burst are gone with the replaced run.
                assert_eq!(told(&member.snapshot(id)), told(&taken));
            }
            Imported::Owned => {
                owned += 1;
                assert_eq!((now.no, now.version.0), (old, 3));
                assert_eq!(steps, [true; 3]);
            }
            other => panic!("{other:?}"),
        }
        // End the run, so that it does not disturb the next round.
        for held in member.claim_all(20) {
            member.commit(member.last(&held)).unwrap();
        }
    }
    assert_eq!(replaced + owned, count);
}

/// Claims one run, commits three steps and releases it. Returns which steps were committed.
fn burst(member: &Member, no: RunNo) -> Vec<bool> {
    let scope = crate::write::ClaimScope::Only(vec![no]);
    let claims = member.claim_of(20, 1, 1, scope);
    let Some(claimed) = claims.runs.first() else {
        return Vec::new();
    };
    let mut held = member.held(&claimed.row, &claimed.claimed[0]);
    let mut steps = Vec::new();
    for seq in 2..5 {
        let mut step = member.chained(&held, seq);
        step.executions.clear();
        if seq == 4 {
            step.triggers[0].claimed = false;
            step.release = true;
        }
        steps.push(member.commit(step) == DONE);
        held = held.next();
    }
    steps
}
