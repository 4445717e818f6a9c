//! Claims of due triggers.

use std::collections::HashSet;

use bytes::Bytes;
use windlass_model::{Epoch, ScopeNo, Token, TriggerState};

use super::Harness;
use super::world::{DONE, Member};
use crate::external::Touched;
use crate::rows::BORN_EPOCH;
use crate::write::{Claim, ClaimScope, ClaimedRun, Claims, Leave};

pub(super) fn due_work_is_claimed_with_its_run(harness: &dyn Harness) {
    let member = Member::join(harness);
    let mut new = member.draft(3);
    new.triggers[1].due_ms = 11;
    let wanted = new.triggers.clone();
    let no = member.create(new);
    let claims = member.claim(10, 10, 10);
    assert_eq!((claims.runs.len(), claims.more), (1, false));
    assert_eq!(claims.next_due_ms, Some(11));
    let claimed = &claims.runs[0];
    assert!(claimed.taken);
    assert_eq!(claimed.row, member.head(no));
    let owner = (claimed.row.owner, claimed.row.epoch);
    assert_eq!(owner, (Some(member.incarnation), Epoch(BORN_EPOCH.0 + 1)));
    let [first, third] = &claimed.claimed[..] else {
        panic!("two are due: {claimed:?}")
    };
    assert_eq!((first.no, third.no), (wanted[0].no, wanted[2].no));
    assert_eq!(
        (first.state, first.token),
        (TriggerState::Claimed, Token(1))
    );
    assert_eq!(
        (first.seq, first.kind, first.node),
        (wanted[0].seq, wanted[0].kind, Some(3))
    );
    assert_eq!(first.detail, wanted[0].detail);
    assert_eq!(claimed.others.len(), 1);
    assert_eq!(
        (claimed.others[0].no, claimed.others[0].due_ms),
        (wanted[1].no, 11)
    );
    assert_eq!(member.triggers(no)[0], *first);
    let claims = member.claim(11, 10, 10);
    let claimed = &claims.runs[0];
    assert!(!claimed.taken && claimed.others.is_empty());
    assert_eq!((claimed.row.epoch, claimed.claimed.len()), (owner.1, 1));
}

pub(super) fn control_triggers_are_claimed_alone(harness: &dyn Harness) {
    let member = Member::join(harness);
    let first = member.create(member.draft(3));
    let asked = member.create(member.draft(2));
    assert_eq!(member.ask(member.head(asked).id), Touched::Done);
    let seen = |claims: &Claims| -> Vec<_> {
        let runs = claims.runs.iter();
        runs.map(|run| (run.row.no, run.claimed.len())).collect()
    };
    // A claim of all that stops after a run goes on there after claims of control triggers.
    let claims = member.claim_of(30, 1, 1, ClaimScope::All);
    assert_eq!((seen(&claims), claims.more), (vec![(asked, 1)], true));
    let control = || member.claim_of(30, 10, 10, ClaimScope::Control);
    let claims = control();
    assert_eq!(
        (seen(&claims), claims.more, claims.next_due_ms),
        (vec![], false, None)
    );
    assert_eq!(member.ask(member.head(first).id), Touched::Done);
    let claims = control();
    assert_eq!((seen(&claims), claims.more), (vec![(first, 1)], false));
    let claimed = &claims.runs[0];
    assert!(claimed.claimed[0].kind.is_control());
    assert_eq!((claimed.taken, claimed.others.len()), (true, 3));
    let claims = member.claim_of(30, 10, 10, ClaimScope::All);
    assert_eq!(seen(&claims), [(first, 3), (asked, 2)]);
}

pub(super) fn a_claim_ends_with_the_run_that_reaches_its_bytes(harness: &dyn Harness) {
    let member = Member::join(harness);
    // Two triggers and a scope, whose contents have 12 and 5 bytes.
    let held = member.born();
    let mut step = member.step(&held);
    step.triggers = vec![member.trigger(2), member.trigger(3)];
    step.scopes = vec![(ScopeNo(1), Some(Bytes::from_static(b"state")))];
    step.release = true;
    assert_eq!(member.commit(step), DONE);
    let weight = 3 * 768 + 12 + 5;
    for _ in 0..4 {
        member.create(member.draft(3));
    }
    let claim = |bytes| {
        let claims: Claims = member.write(Claim {
            incarnation: member.incarnation,
            now_ms: 10,
            runs: 10,
            triggers: 10,
            bytes,
            scope: ClaimScope::All,
        });
        let bytes: Vec<u64> = claims.runs.iter().map(ClaimedRun::bytes).collect();
        (bytes, claims.more)
    };
    // The first run is claimed in any case.
    assert_eq!(claim(0), (vec![weight], true));
    let other = 3 * (768 + 6);
    assert_eq!(claim(other), (vec![other], true));
    assert_eq!(claim(other + 1), (vec![other; 2], true));
    assert_eq!(claim(u64::MAX), (vec![other], false));
}

pub(super) fn the_next_due_time_is_named(harness: &dyn Harness) {
    let member = Member::join(harness);
    assert_eq!(member.claim(0, 10, 10).next_due_ms, None);
    member.create(member.draft(1));
    let claims = member.claim(9, 10, 10);
    assert!(claims.runs.is_empty() && !claims.more);
    assert_eq!(claims.next_due_ms, Some(10));
}

pub(super) fn an_owned_run_is_claimed_by_its_owner_alone(harness: &dyn Harness) {
    let (member, other) = (Member::join(harness), Member::join(harness));
    let mut new = member.draft(2);
    new.triggers[1].due_ms = 20;
    let no = member.create(new);
    assert_eq!(member.claim(10, 10, 10).runs.len(), 1);
    let claims = other.claim(20, 10, 10);
    assert!(claims.runs.is_empty() && !claims.more, "{claims:?}");
    assert_eq!(claims.next_due_ms, None);
    assert_eq!(member.claim(20, 10, 10).runs[0].row.no, no);
}

pub(super) fn a_claim_is_bounded(harness: &dyn Harness) {
    let member = Member::join(harness);
    for _ in 0..5 {
        member.create(member.draft(5));
    }
    let claims = member.claim(10, 2, 3);
    assert!(claims.more);
    assert_eq!(claims.runs.len(), 2);
    assert!(claims.runs.iter().all(|claimed| claimed.claimed.len() == 3));
    assert_eq!(claims.runs[0].others.len(), 2);
    let held: HashSet<_> = member
        .claim_all(10)
        .iter()
        .map(|held| held.trigger.no)
        .collect();
    assert_eq!(held.len(), 25 - 6);
}

pub(super) fn one_crowded_run_hides_no_other(harness: &dyn Harness) {
    let member = Member::join(harness);
    let mut crowded = member.draft(10_000);
    for (due_ms, trigger) in (-20_000..).zip(&mut crowded.triggers) {
        trigger.due_ms = due_ms;
    }
    let crowded = member.create(crowded);
    let quiet = member.create(member.draft(1));
    let found = (0..10).any(|_| {
        let claims = member.claim(10, 2, 64);
        assert!(
            claims
                .runs
                .iter()
                .all(|claimed| claimed.claimed.len() <= 64)
        );
        assert!(claims.runs.iter().any(|claimed| claimed.row.no == crowded) || claims.more);
        claims.runs.iter().any(|claimed| claimed.row.no == quiet)
    });
    assert!(found, "what is behind the crowd is found in a few claims");
}

pub(super) fn work_of_others_hides_nothing(harness: &dyn Harness) {
    let (member, other) = (Member::join(harness), Member::join(harness));
    for _ in 0..10 {
        let mut new = member.draft(1000);
        new.owner = Some(member.incarnation);
        new.triggers
            .iter_mut()
            .for_each(|trigger| trigger.due_ms = 1);
        member.create(new);
    }
    let free = member.create(member.draft(1));
    let held = other.claim_all(10);
    assert_eq!(held.len(), 1);
    assert_eq!(held[0].fence.run, free);
}

pub(super) fn a_scope_claims_only_its_runs(harness: &dyn Harness) {
    let member = Member::join(harness);
    let mut wanted = member.draft(3);
    wanted.triggers[2].due_ms = 30;
    let wanted = member.create(wanted);
    member.create(member.draft(1));
    let mine = member.born().fence.run;
    let scope = || ClaimScope::Only(vec![mine, wanted]);
    let claims = member.claim_of(10, 5, 1, scope());
    assert_eq!(claims.runs.len(), 1);
    assert_eq!((claims.runs[0].row.no, claims.more), (wanted, true));
    assert_eq!(claims.runs[0].claimed.len(), 1);
    let claims = member.claim_of(10, 5, 1, scope());
    assert_eq!(
        (claims.runs.len(), claims.more, claims.next_due_ms),
        (1, false, Some(30))
    );
}

pub(super) fn threads_never_claim_the_same(harness: &dyn Harness) {
    const RUNS: usize = 60;
    let member = Member::join(harness);
    for _ in 0..RUNS {
        member.create(member.draft(2));
    }
    let others: Vec<Member> = (0..4).map(|_| Member::join(harness)).collect();
    let held: Vec<_> = std::thread::scope(|scope| {
        let work = |member: &Member| {
            let mut held = Vec::new();
            for _ in 0..RUNS {
                let claims = member.claim(10, 3, 1);
                let rows = claims.runs.iter().flat_map(|claimed| &claimed.claimed);
                held.extend(rows.map(|row| row.no));
            }
            held
        };
        let threads: Vec<_> = others
            .iter()
            .map(|member| scope.spawn(move || work(member)))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    let different: HashSet<_> = held.iter().copied().collect();
    assert_eq!((held.len(), different.len()), (2 * RUNS, 2 * RUNS));
}

pub(super) fn strangers_claim_nothing(harness: &dyn Harness) {
    let (member, other) = (Member::join(harness), Member::join(harness));
    let no = member.create(member.draft(1));
    other.write(Leave {
        incarnation: other.incarnation,
    });
    let claims = other.claim(10, 10, 10);
    assert!(claims.runs.is_empty() && !claims.more && claims.next_due_ms.is_none());
    assert_eq!(member.head(no).owner, None);
}
