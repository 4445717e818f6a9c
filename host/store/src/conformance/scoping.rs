//! Scopes of a run besides its root.

use bytes::Bytes;
use windlass_model::{Body, Payload, ScopeNo, Seq};

use super::Harness;
use super::world::{DONE, Held, Member};
use crate::write::{Commit, Fenced, NewItem};

fn var(scope: u64, name: &str, value: &str) -> (ScopeNo, String, Payload) {
    (ScopeNo(scope), name.into(), Payload::json(value.to_owned()))
}

fn open(scope: u64, state: &'static str) -> (ScopeNo, Option<Bytes>) {
    (ScopeNo(scope), Some(Bytes::from_static(state.as_bytes())))
}

/// Commits the first step of a new run, and releases the run, so that it can be claimed
/// again.
fn stepped(member: &Member, step: impl FnOnce(&mut Commit)) -> Held {
    let held = member.born();
    let mut commit = member.step(&held);
    commit.triggers = vec![member.trigger(2)];
    commit.release = true;
    step(&mut commit);
    assert_eq!(member.commit(commit), DONE);
    held
}

pub(super) fn scopes_come_with_the_claim(harness: &dyn Harness) {
    let member = Member::join(harness);
    let plain = stepped(&member, |_| {});
    let scoped = stepped(&member, |commit| {
        commit.scopes = vec![
            open(9, "far"),
            open(2, "two"),
            open(1, "one"),
            open(3, "three"),
        ];
    });
    let wanted = [(1, "one"), (2, "two"), (3, "three"), (9, "far")];
    check_scopes(&member, &scoped, &wanted);
    // The claim returns no scopes for the run without scopes, and nothing about the one that
    // the member already owns.
    let claims = member.claim(10, 10, 10);
    assert_eq!(claims.runs.len(), 1);
    assert_eq!(claims.runs[0].row.no, plain.fence.run);
    assert_eq!(claims.runs[0].scopes, []);
}

fn check_scopes(member: &Member, held: &Held, wanted: &[(u64, &str)]) -> Held {
    let scope = crate::write::ClaimScope::Only(vec![held.fence.run]);
    let claims = member.claim_of(10, 1, 1, scope);
    let claimed = &claims.runs[0];
    let found: Vec<(u64, &[u8])> = claimed
        .scopes
        .iter()
        .map(|(no, state)| (no.0, &**state))
        .collect();
    let wanted: Vec<(u64, &[u8])> = wanted
        .iter()
        .map(|(no, state)| (*no, state.as_bytes()))
        .collect();
    assert_eq!(found, wanted);
    member.held(&claimed.row, &claimed.claimed[0])
}

pub(super) fn a_step_changes_and_closes_scopes(harness: &dyn Harness) {
    let member = Member::join(harness);
    let held = stepped(&member, |commit| {
        commit.scopes = vec![open(1, "one"), open(2, "two")];
        commit.vars = vec![
            var(0, "v", "0"),
            var(1, "v", "1"),
            var(2, "v", "2"),
            var(2, "w", "3"),
        ];
    });
    let no = held.fence.run;
    let vars = |scope| member.store.vars(no, ScopeNo(scope)).unwrap();
    assert_eq!(vars(0), [("v".into(), Payload::json("0"))]);
    assert_eq!(vars(2).len(), 2);
    let held = check_scopes(&member, &held, &[(1, "one"), (2, "two")]);
    let change = |commit: &mut Commit| {
        commit.scopes = vec![open(1, "more"), (ScopeNo(2), None)];
        commit.vars = vec![var(1, "v", "9")];
    };
    let mut stale = member.chained(&held, 3);
    change(&mut stale);
    stale.fence.version.0 += 1;
    assert_eq!(member.commit(stale), Err(Fenced));
    assert_eq!(vars(2).len(), 2, "a refused step closes nothing");
    let mut commit = member.step(&held);
    commit.triggers = vec![member.trigger(3)];
    commit.release = true;
    change(&mut commit);
    assert_eq!(member.commit(commit), DONE);
    check_scopes(&member, &held, &[(1, "more")]);
    assert_eq!(vars(1), [("v".into(), Payload::json("9"))]);
    assert_eq!((vars(2), vars(0).len()), (Vec::new(), 1));
}

pub(super) fn items_are_read_in_order(harness: &dyn Harness) {
    const ITEMS: u32 = 10_000;
    let member = Member::join(harness);
    let mut held = member.born();
    let no = held.fence.run;
    let list = Seq(u64::MAX - 1);
    let text = |index: u32| Payload::json(format!("{index}"));
    // Items complete in another order, and each step writes items of two lists.
    let order: Vec<u32> = (0..ITEMS).map(|place| (place * 7919) % ITEMS).collect();
    for (place, indexes) in (0_u32..).zip(order.chunks(100)) {
        let mut step = member.chained(&held, 2);
        let item = |index: &u32| NewItem {
            list,
            index: *index,
            output: text(*index),
        };
        step.items = indexes.iter().map(item).collect();
        step.items.push(NewItem {
            list: Seq(1),
            index: place,
            output: Payload::null(),
        });
        assert_eq!(member.commit(step), DONE);
        held = held.next();
    }
    let mut read = Vec::new();
    while let page = member
        .store
        .items(no, list, read.len() as u32, 999)
        .unwrap()
        && !page.is_empty()
    {
        read.extend(page);
    }
    let wanted: Vec<_> = (0..ITEMS).map(|index| (index, text(index))).collect();
    assert!(read == wanted);
    let mut done = member.chained(&held, 2);
    done.lists_done = vec![list];
    assert_eq!(member.commit(done), DONE);
    assert_eq!(member.store.items(no, list, 0, 10).unwrap(), []);
    assert_eq!(member.store.items(no, Seq(1), 98, 10).unwrap().len(), 2);
}

pub(super) fn large_items_become_blobs(harness: &dyn Harness) {
    let member = Member::join(harness);
    let held = member.born();
    let mut step = member.chained(&held, 2);
    let output = Payload::json(format!("\"{}\"", "x".repeat(100_000)));
    step.items = vec![NewItem {
        list: Seq(1),
        index: 0,
        output: output.clone(),
    }];
    assert_eq!(member.commit(step), DONE);
    let items = member.store.items(held.fence.run, Seq(1), 0, 1).unwrap();
    let Body::Blob(blob) = &items[0].1.body else {
        panic!("{items:?}")
    };
    assert_eq!(member.store.blob(*blob).unwrap().as_ref(), output.inline());
}
