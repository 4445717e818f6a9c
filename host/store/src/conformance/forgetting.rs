//! Deletion of ended runs, and sweeps of unreferenced rows.

use windlass_model::{BlobRef, Digest, Payload, RunNo, ScopeNo, Seq};

use super::Harness;
use super::world::{DONE, Held, Member};
use crate::retention::{ExpiredRow, Forget, Sweep, Sweepable, Swept};
use crate::rows::{JournalRow, NewBlob};
use crate::write::NewItem;

/// The time at which `Member::last` ends a run, in epoch milliseconds.
const ENDED_MS: i64 = 40;

fn large(fill: &str) -> Payload {
    Payload::json(format!("\"{}\"", fill.repeat(70_000)))
}

fn blob_of(payload: &Payload) -> BlobRef {
    let bytes = payload.inline().unwrap();
    let (digest, size) = (Digest::of(bytes), bytes.len() as u64);
    BlobRef { digest, size }
}

/// An ended run with rows in every table, after this number of steps.
pub(crate) fn full(member: &Member, steps: u64, payload: &Payload) -> RunNo {
    let held = member.born();
    let no = held.fence.run;
    let held = walked(member, held, steps, payload);
    let mut last = member.last(&held);
    last.executions[0].previous = member.head(no).last_execution;
    assert_eq!(member.commit(last), DONE);
    no
}

fn walked(member: &Member, mut held: Held, steps: u64, payload: &Payload) -> Held {
    let mut last_execution = None;
    for step in 0..steps {
        let mut commit = member.chained(&held, step + 2);
        commit.triggers.push(member.trigger(1000 + step));
        commit.executions[0].previous = last_execution;
        last_execution = Some(commit.executions[0].no);
        commit.vars = vec![(ScopeNo(step), "v".into(), payload.clone())];
        commit.scopes = vec![(ScopeNo(step + 1), Some("open".into()))];
        let (list, index, output) = (Seq(1), u32::try_from(step).unwrap(), payload.clone());
        commit.items = vec![NewItem {
            list,
            index,
            output,
        }];
        let (at_ms, kind, detail) = (1, "incident".into(), "{}".into());
        commit.journal = vec![JournalRow {
            at_ms,
            kind,
            detail,
        }];
        assert_eq!(member.commit(commit), DONE);
        held = held.next();
    }
    held
}

fn forget(member: &Member, run: RunNo, before_ms: i64, rows: u32) -> u32 {
    for slices in 1..10_000 {
        let at_ms = 1000;
        let forget = Forget {
            run,
            before_ms,
            rows,
            at_ms,
        };
        if !member.write(forget).more {
            return slices;
        }
    }
    panic!("there is no end to {run}")
}

fn sweep(member: &Member, what: Sweepable, before_ms: i64) -> u32 {
    sweep_by(member, what, before_ms, 3)
}

fn sweep_by(member: &Member, what: Sweepable, before_ms: i64, rows: u32) -> u32 {
    let mut swept = 0;
    loop {
        let Swept { count, more } = member.write(Sweep {
            what,
            before_ms,
            rows,
            at_ms: before_ms - 1,
        });
        swept += count;
        if !more {
            return swept;
        }
    }
}

pub(super) fn only_the_expired_are_forgotten(harness: &dyn Harness) {
    let member = Member::join(harness);
    let running = member.born().fence.run;
    let over = full(&member, 2, &Payload::null());
    let expired = |before_ms| member.store.expired(before_ms, 0, 10).unwrap();
    assert_eq!(expired(ENDED_MS), []);
    let id = Some(member.head(over).id);
    assert_eq!(expired(ENDED_MS + 1), [ExpiredRow { no: over, id }]);
    for (no, before_ms) in [(running, i64::MAX), (over, ENDED_MS), (RunNo(9), i64::MAX)] {
        let before = member.store.counts().unwrap();
        assert_eq!(forget(&member, no, before_ms, 100), 1);
        assert_eq!(member.store.counts().unwrap(), before);
    }
    forget(&member, over, ENDED_MS + 1, 100);
    assert_eq!(member.store.run_by_no(over).unwrap(), None);
    assert_eq!(expired(i64::MAX), []);
    assert!(member.store.run_by_no(running).unwrap().is_some());
}

pub(super) fn the_oldest_expire_first(harness: &dyn Harness) {
    let member = Member::join(harness);
    let mut ended = Vec::new();
    for at_ms in [30, 10, 20] {
        let held = member.born();
        let mut last = member.last(&held);
        last.at_ms = at_ms;
        assert_eq!(member.commit(last), DONE);
        ended.push(held.fence.run);
    }
    let numbers = |before_ms, limit| {
        let rows = member.store.expired(before_ms, 0, limit).unwrap();
        rows.into_iter().map(|row| row.no).collect::<Vec<_>>()
    };
    assert_eq!(numbers(100, 9), [ended[1], ended[2], ended[0]]);
    assert_eq!(numbers(100, 1), [ended[1]]);
    assert_eq!(numbers(30, 9), [ended[1], ended[2]]);
}

pub(super) fn a_run_is_forgotten_whole(harness: &dyn Harness) {
    let member = Member::join(harness);
    let kept = full(&member, 3, &large("k"));
    let wanted = member.store.counts().unwrap();
    for rows in [1, 7, 100_000] {
        let no = full(&member, 30, &large("f"));
        let row = member.head(no);
        forget(&member, no, i64::MAX, rows);
        assert_eq!(member.store.run(row.id).unwrap(), None);
        assert_eq!(member.store.input(no).unwrap(), None);
        assert_eq!(member.store.output(no).unwrap(), None);
        assert_eq!(member.store.vars(no, ScopeNo(1)).unwrap(), []);
        assert_eq!(member.store.items(no, Seq(1), 0, 9).unwrap(), []);
        assert_eq!(member.store.journal(no).unwrap(), []);
        assert_eq!(member.store.triggers(no).unwrap(), []);
        assert_eq!(
            member.store.execution(row.last_execution.unwrap()).unwrap(),
            None
        );
        assert_eq!(sweep(&member, Sweepable::Blobs, i64::MAX), 1);
        assert_eq!(member.store.counts().unwrap(), wanted);
        // The id can be used again.
        let mut again = member.draft(1);
        again.id = row.id;
        let no = member.create(again);
        let held = member.claim_all(10);
        let held = *held.iter().find(|held| held.fence.run == no).unwrap();
        assert_eq!(member.commit(member.last(&held)), DONE);
        forget(&member, no, i64::MAX, rows);
    }
    assert_eq!(member.store.executions(kept, None, 9).unwrap().len(), 4);
    assert_eq!(member.store.counts().unwrap(), wanted);
}

pub(super) fn shared_blobs_stay_until_the_last_one_goes(harness: &dyn Harness) {
    let member = Member::join(harness);
    let shared = large("s");
    let (first, second) = (full(&member, 1, &shared), full(&member, 1, &shared));
    let there = || member.store.blob(blob_of(&shared)).unwrap().is_some();
    forget(&member, first, i64::MAX, 10);
    assert_eq!(sweep(&member, Sweepable::Blobs, i64::MAX), 0);
    assert!(there());
    forget(&member, second, i64::MAX, 10);
    assert!(there(), "only a sweep removes it");
    assert_eq!(
        sweep(&member, Sweepable::Blobs, 1000),
        0,
        "its grace period is not over"
    );
    assert!(there());
    assert_eq!(sweep(&member, Sweepable::Blobs, 1001), 1);
    assert!(!there());
    assert_eq!(
        sweep(&member, Sweepable::Blobs, i64::MAX),
        0,
        "it goes once"
    );
}

pub(super) fn a_blob_that_stays_hides_none_that_goes(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (touched, old) = (large("t"), large("o"));
    let (first, second) = (full(&member, 1, &touched), full(&member, 1, &old));
    forget(&member, first, i64::MAX, 10);
    forget(&member, second, i64::MAX, 10);
    let held = member.born();
    let mut last = member.last(&held);
    last.at_ms = 5000;
    let (digest, bytes) = (blob_of(&touched).digest, touched.inline().unwrap().clone());
    last.blobs = vec![NewBlob { digest, bytes }];
    assert_eq!(member.commit(last), DONE);
    forget(&member, held.fence.run, i64::MAX, 10);
    assert_eq!(sweep_by(&member, Sweepable::Blobs, 4000, 1), 1);
    let there = |payload| member.store.blob(blob_of(payload)).unwrap().is_some();
    assert!(there(&touched) && !there(&old));
    assert_eq!(sweep_by(&member, Sweepable::Blobs, 5001, 1), 1);
}

pub(super) fn a_blob_that_is_wanted_again_stays(harness: &dyn Harness) {
    let member = Member::join(harness);
    let (passed, written) = (large("p"), large("w"));
    let holder = full(&member, 1, &passed);
    let other = full(&member, 1, &written);
    let reference = member.store.vars(holder, ScopeNo(0)).unwrap()[0].1.clone();
    assert!(reference.inline().is_none());
    // A payload that is passed on as a reference comes without its bytes.
    let mut new = member.draft(1);
    new.input = reference;
    let heir = member.create(new);
    forget(&member, holder, i64::MAX, 10);
    forget(&member, other, i64::MAX, 10);
    // The blob is written again after it was released, by a run that ends and is deleted
    // later.
    let held = member.born();
    let mut last = member.last(&held);
    last.at_ms = 5000;
    let (digest, bytes) = (blob_of(&written).digest, written.inline().unwrap().clone());
    last.blobs = vec![NewBlob { digest, bytes }];
    assert_eq!(member.commit(last), DONE);
    assert_eq!(sweep(&member, Sweepable::Blobs, i64::MAX), 0);
    forget(&member, held.fence.run, i64::MAX, 10);
    assert_eq!(
        sweep(&member, Sweepable::Blobs, 4000),
        0,
        "it was touched a moment ago"
    );
    assert_eq!(sweep(&member, Sweepable::Blobs, 5001), 1);
    assert!(member.store.blob(blob_of(&passed)).unwrap().is_some());
    assert_eq!(
        member.store.input(heir).unwrap().unwrap().len(),
        passed.len()
    );
}
