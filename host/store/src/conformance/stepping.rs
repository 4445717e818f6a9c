//! Steps that are committed.

use bytes::Bytes;
use windlass_model::{
    Class, Code, Epoch, ExecutionStatus, Failure, JsonText, LogLine, Origin, Payload, Position,
    ScopeNo, Seq, Status, Token, TriggerState, TriggerType, Version,
};

use super::Harness;
use super::world::{DONE, Member, batch_of};
use crate::rows::{BORN_EPOCH, JournalRow, Suspicion};
use crate::write::{Fenced, Finish, Removed};

pub(super) fn a_step_turns_its_trigger_into_the_successor(harness: &dyn Harness) {
    let member = Member::join(harness);
    let held = member.born();
    let no = held.fence.run;
    let mut step = member.chained(&held, 2);
    step.triggers[0].kind = TriggerType::Next;
    step.triggers[0].node = None;
    step.triggers[0].due_ms = 99;
    step.triggers[0].detail = Bytes::from_static(b"new");
    let mut sibling = member.trigger(3);
    sibling.claimed = true;
    let (sibling_no, later) = (sibling.no, member.trigger(4));
    step.triggers.extend([sibling, later]);
    assert_eq!(member.commit(step), DONE);
    let rows = member.triggers(no);
    let states: Vec<_> = rows
        .iter()
        .map(|row| (row.seq.0, row.state, row.token.0))
        .collect();
    let claimed = TriggerState::Claimed;
    assert_eq!(
        states,
        [
            (2, claimed, 2),
            (3, claimed, 1),
            (4, TriggerState::Pending, 0)
        ]
    );
    let first = &rows[0];
    assert_eq!(
        (first.no, first.kind, first.node),
        (held.trigger.no, TriggerType::Next, None)
    );
    assert_eq!((first.due_ms, &*first.detail), (99, &b"new"[..]));
    assert_eq!(member.commit(member.step(&held.next())), DONE);
    let third = member.step(&held.next().next().with(sibling_no, 1));
    assert_eq!(member.commit(third), DONE);
    assert_eq!(member.head(no).version, Version(3));
}

pub(super) fn a_step_is_read_back_whole(harness: &dyn Harness) {
    let member = Member::join(harness);
    let held = member.born();
    let no = held.fence.run;
    let mut step = member.last(&held);
    let failure = Failure {
        class: Class::Permanent,
        code: Code::new("WL-R001"),
        message: "it failed".into(),
        retry_after_ms: Some(4),
        details: JsonText::stored(br#"{"status":503}"#).ok(),
        origin: Some(Box::new(Origin {
            stack: Some("at fetch".into()),
            position: Some(Position {
                source: Some("node.js".into()),
                line: 3,
                column: 7,
            }),
        })),
    };
    step.status = Status::Faulted;
    step.finish = Some(Finish {
        output: None,
        failure: Some(failure.clone()),
    });
    let fields = vec![("k".to_owned(), "v".to_owned())];
    let mut second = member.run(&held, Some(step.executions[0].no));
    second.status = ExecutionStatus::Failed;
    second.failure = Some(failure.clone());
    second.logs = vec![LogLine {
        level: "info".into(),
        message: "said".into(),
        fields,
    }];
    second.skipped = vec![4, 5];
    second.seq = Seq(u64::MAX);
    second.output = Some(Payload {
        content_type: Some("text/plain".into()),
        ..Payload::json("x")
    });
    step.executions.push(second.clone());
    step.vars = vec![
        (ScopeNo::ROOT, "w".into(), Payload::json("true")),
        (ScopeNo::ROOT, "v".into(), Payload::json("")),
    ];
    let entry = |kind: &str| JournalRow {
        at_ms: 41,
        kind: kind.into(),
        detail: Bytes::from_static(b"{}"),
    };
    step.journal = vec![entry("incident"), entry("faulted")];
    let (vars, journal) = (step.vars.clone(), step.journal.clone());
    assert_eq!(member.commit(step), DONE);
    let row = member.head(no);
    assert_eq!(
        (row.status, row.version, row.epoch),
        (Status::Faulted, Version(1), BORN_EPOCH)
    );
    assert_eq!(
        (row.owner, row.finished_ms, row.failure),
        (None, Some(40), Some(failure))
    );
    assert_eq!(
        (row.last_execution, &*row.state),
        (Some(second.no), &b"stepped"[..])
    );
    assert_eq!(member.store.output(no).unwrap(), None);
    assert_eq!(
        member.store.execution(second.no).unwrap(),
        Some(second.clone())
    );
    assert_eq!(
        member.store.execution_output(second.no).unwrap(),
        second.output
    );
    assert_eq!(
        member.store.vars(no, ScopeNo::ROOT).unwrap(),
        [&vars[1], &vars[0]].map(|(_, name, value)| (name.clone(), value.clone()))
    );
    assert_eq!(member.store.journal(no).unwrap(), journal);
}

pub(super) fn steps_in_a_row_go_in_one_batch(harness: &dyn Harness) {
    let member = Member::join(harness);
    let held = member.born();
    let no = held.fence.run;
    let mut steps = Vec::new();
    let mut now = held;
    for seq in 2..10 {
        steps.push(member.chained(&now, seq));
        now = now.next();
    }
    steps.push(member.last(&now));
    for answer in batch_of(&*member.store, steps) {
        assert_eq!(answer.unwrap(), DONE);
    }
    let row = member.head(no);
    assert_eq!(
        (row.version, row.status, row.owner),
        (Version(9), Status::Completed, None)
    );
    assert_eq!(member.store.counts().unwrap().executions, 9);
}

pub(super) fn a_pending_successor_can_be_claimed(harness: &dyn Harness) {
    let member = Member::join(harness);
    let held = member.born();
    let mut step = member.chained(&held, 2);
    step.triggers[0].claimed = false;
    assert_eq!(member.commit(step), DONE);
    let row = member.only_trigger(held.fence.run);
    assert_eq!(
        (row.no, row.state),
        (held.trigger.no, TriggerState::Pending)
    );
    let claims = member.claim(10, 10, 10);
    let again = &claims.runs[0];
    assert!(!again.taken);
    assert!(again.claimed[0].token > held.trigger.token);
    // The fence of the claim is stale after the step.
    let stale = crate::write::Fence {
        version: Version(1),
        ..held.fence
    };
    let stale = member.step(&super::world::Held {
        fence: stale,
        ..held
    });
    assert_eq!(member.commit(stale), Err(Fenced));
    let held = member.held(&again.row, &again.claimed[0]);
    assert_eq!(member.commit(member.step(&held)), DONE);
}

pub(super) fn finishing_leaves_no_triggers(harness: &dyn Harness) {
    let member = Member::join(harness);
    member.create(member.draft(4));
    let claims = member.claim(10, 1, 2);
    let held = member.held(&claims.runs[0].row, &claims.runs[0].claimed[0]);
    assert_eq!(member.commit(member.last(&held)), DONE);
    assert_eq!(member.triggers(held.fence.run), []);
    let counts = member.store.counts().unwrap();
    assert_eq!((counts.triggers, counts.runs, counts.unfinished), (0, 1, 0));
    assert_eq!(
        member.store.output(held.fence.run).unwrap(),
        Some(Payload::json("2"))
    );
    assert!(member.claim_all(100).is_empty());
}

pub(super) fn releasing_with_a_step_frees_the_run(harness: &dyn Harness) {
    let (member, other) = (Member::join(harness), Member::join(harness));
    let no = member.create(member.draft(3));
    let claims = member.claim(10, 1, 2);
    let held = member.held(&claims.runs[0].row, &claims.runs[0].claimed[0]);
    let mut step = member.step(&held);
    step.status = Status::Suspended;
    step.release = true;
    assert_eq!(member.commit(step), DONE);
    let row = member.head(no);
    assert_eq!((row.owner, row.status), (None, Status::Suspended));
    let rows = member.triggers(no);
    assert!(
        rows.iter().all(|row| row.state == TriggerState::Pending),
        "{rows:?}"
    );
    assert!(
        rows.iter().all(|row| row.suspicion == Suspicion::None),
        "{rows:?}"
    );
    let claims = other.claim(10, 1, 10);
    assert_eq!(claims.runs[0].row.epoch, Epoch(BORN_EPOCH.0 + 2));
    let tokens: Vec<_> = claims.runs[0].claimed.iter().map(|row| row.token).collect();
    assert_eq!(tokens, [Token(2), Token(1)]);
}

pub(super) fn unwanted_triggers_are_removed(harness: &dyn Harness) {
    let member = Member::join(harness);
    member.create(member.draft(3));
    let stranger = member.create(member.draft(1));
    let scope = crate::write::ClaimScope::Only(vec![windlass_model::RunNo(stranger.0 - 1)]);
    let claims = member.claim_of(10, 1, 10, scope);
    let held = member.held(&claims.runs[0].row, &claims.runs[0].claimed[0]);
    let mut step = member.step(&held);
    let foreign = member.only_trigger(stranger).fence();
    step.removed = vec![
        Removed::unused(claims.runs[0].claimed[1].no),
        Removed::unused(foreign.no),
    ];
    assert_eq!(member.commit(step), DONE);
    let rows = member.triggers(held.fence.run);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].no, claims.runs[0].claimed[2].no);
    assert_eq!(member.only_trigger(stranger).no, foreign.no);
}
