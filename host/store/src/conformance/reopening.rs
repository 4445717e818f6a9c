//! Failed runs that are reopened.

use std::sync::Arc;

use bytes::Bytes;
use windlass_model::{
    Class, Code, Digest, Failure, LetterNo, Payload, RunNo, ScopeNo, Seq, Status, TriggerNo,
    TriggerType, Version,
};

use super::Harness;
use super::world::{DONE, Held, Member};
use crate::letters::{DeadTrigger, LetterBody, LetterQuery, NewDeadLetter};
use crate::lives::{LifeOp, Lived, Reopen};
use crate::rows::{Created, DefinitionRow, JournalRow, Parent, PinsRow};
use crate::write::Fenced;

impl Member {
    /// A write that reopens a run at this version.
    pub(super) fn reopening(&self, run: RunNo, version: Version) -> Reopen {
        Reopen {
            run,
            version,
            documents: None,
            status: Status::Running,
            state: "again".into(),
            triggers: vec![self.trigger(9)],
            scopes: Vec::new(),
            reserves: Vec::new(),
            exclusive: None,
            input: None,
            blobs: Vec::new(),
            replays: None,
            journal: vec![
                JournalRow {
                    at_ms: 60,
                    kind: "retried".into(),
                    detail: "{}".into(),
                },
                JournalRow::event(60, &[19]),
            ],
            at_ms: 60,
        }
    }
}

pub(super) fn a_failed_run_is_reopened_once(harness: &dyn Harness) {
    let member = Member::join(harness);
    let mut new = member.draft(1);
    new.owner = Some(member.incarnation);
    new.triggers[0].claimed = true;
    new.reserves = vec!["key".into()];
    let held = Held::born(&new);
    let no = member.create(new);
    let mut last = member.last(&held);
    last.status = Status::Faulted;
    last.scopes = vec![(ScopeNo(4), Some("page".into()))];
    assert_eq!(member.commit(last), DONE);
    let row = member.head(no);
    let scopes = member.store.scopes(no).unwrap();
    assert_eq!(scopes, [(ScopeNo(4), "page".into())]);
    let reopen = |version| Reopen {
        scopes: vec![(ScopeNo(4), None)],
        reserves: vec!["key".into()],
        exclusive: Some("key".into()),
        ..member.reopening(no, version)
    };
    let ask = |version| member.write(LifeOp::Reopen(Box::new(reopen(version))));
    assert_eq!(ask(Version(row.version.0 - 1)), Lived::Moved);
    // A refused verb changes no document.
    assert_eq!(member.head(no).definition, row.definition);
    // Another run holds the reservation.
    let mut other = member.draft(1);
    other.reserves = vec!["key".into()];
    let by = other.id;
    member.create(other);
    assert_eq!(ask(row.version), Lived::Reserved { by });
    let other = &member.claim(10, 1, 1).runs[0];
    assert_eq!(
        member.commit(member.last(&member.held(&other.row, &other.claimed[0]))),
        DONE
    );
    assert_eq!(ask(row.version), Lived::Done);
    assert_eq!(ask(row.version), Lived::Moved);
    let again = member.head(no);
    assert_eq!(
        (again.status, again.finished_ms, again.failure),
        (Status::Running, None, None)
    );
    assert_eq!(
        (again.version.0, &*again.state),
        (row.version.0 + 1, &b"again"[..])
    );
    assert_eq!(member.store.output(no).unwrap(), None);
    assert_eq!(member.store.scopes(no).unwrap(), []);
    assert_eq!(member.store.journal(no).unwrap().len(), 1);
    let events = member.store.events(no, 1, 9).unwrap();
    assert_eq!(events, [JournalRow::event(60, &[19])]);
    assert_eq!(
        member.store.expired(i64::MAX, i64::MAX, 10).unwrap().len(),
        1
    );
    let mut excluded = member.draft(1);
    excluded.exclusive = Some("key".into());
    let excluded = member.write(excluded);
    assert_eq!(excluded, Ok(Created::Reserved { by: row.id }));
    // A commit from before the failure is fenced.
    assert_eq!(member.commit(member.chained(&held.next(), 3)), Err(Fenced));
    let claims = member.claim(10, 10, 10);
    let claimed = &claims.runs[0];
    assert!(claimed.taken && claimed.row.epoch > row.epoch);
    let held = member.held(&claimed.row, &claimed.claimed[0]);
    assert_eq!(member.commit(member.last(&held)), DONE);
    let row = member.head(no);
    assert_eq!(row.status, Status::Completed);
    assert_eq!(ask(row.version), Lived::Moved);
}

pub(super) fn a_failed_run_is_reopened_with_other_documents(harness: &dyn Harness) {
    let member = Member::join(harness);
    let mut new = member.draft(1);
    new.owner = Some(member.incarnation);
    new.triggers[0].claimed = true;
    let held = Held::born(&new);
    let no = member.create(new);
    let mut last = member.last(&held);
    last.status = Status::Faulted;
    assert_eq!(member.commit(last), DONE);
    let row = member.head(no);
    let other = member.create(member.draft(1));
    let json: Bytes = r#"{"workflow":"other"}"#.into();
    let definition = DefinitionRow {
        digest: Digest::of(&json),
        name: "other".into(),
        json,
    };
    let json: Bytes = r#"{"windlass":1,"uses":{}}"#.into();
    let pins = PinsRow {
        digest: Digest::of(&json),
        json,
    };
    let reopen = |version| {
        let mut reopen = member.reopening(no, version);
        reopen.documents = Some((Arc::new(definition.clone()), Arc::new(pins.clone())));
        member.write(LifeOp::Reopen(Box::new(reopen)))
    };
    assert_eq!(reopen(Version(row.version.0 - 1)), Lived::Moved);
    let same = member.head(no);
    assert_eq!((same.definition, same.pins), (row.definition, row.pins));
    assert_eq!(member.store.definition(definition.digest).unwrap(), None);
    assert_eq!(reopen(row.version), Lived::Done);
    let again = member.head(no);
    assert_eq!(
        (again.definition, again.pins),
        (definition.digest, pins.digest)
    );
    let other = member.head(other);
    assert_eq!((other.definition, other.pins), (row.definition, row.pins));
    let stored = member.store.definition(definition.digest).unwrap();
    assert_eq!(stored, Some(definition.clone()));
    assert_eq!(member.store.pins(pins.digest).unwrap(), Some(pins.clone()));
    // The next owner gets them, too.
    let claims = member.claim(10, 10, 10);
    let claimed = claims.runs.iter().find(|run| run.row.no == no).unwrap();
    assert_eq!(claimed.row.definition, definition.digest);
    let held = member.held(&claimed.row, &claimed.claimed[0]);
    let mut last = member.last(&held);
    last.status = Status::Faulted;
    assert_eq!(member.commit(last), DONE);
    // Documents that are known already are not written again.
    assert_eq!(reopen(member.head(no).version), Lived::Done);
    assert_eq!(member.head(no).definition, definition.digest);
}

pub(super) fn a_failed_run_is_reopened_with_another_input(harness: &dyn Harness) {
    let member = Member::join(harness);
    let failed = || {
        let mut new = member.draft(1);
        new.owner = Some(member.incarnation);
        new.triggers[0].claimed = true;
        let held = Held::born(&new);
        let no = member.create(new);
        let mut last = member.last(&held);
        last.status = Status::Faulted;
        assert_eq!(member.commit(last), DONE);
        no
    };
    let (no, beside) = (failed(), failed());
    let before = member.store.input(beside).unwrap();
    let reopen = |version, input: &Payload| {
        let reopen = Reopen {
            input: Some(input.clone()),
            ..member.reopening(no, version)
        };
        member.write(LifeOp::Reopen(Box::new(reopen)))
    };
    let version = member.head(no).version;
    let (small, large) = (
        Payload::json(r#"{"n":4.50}"#),
        Payload::json(format!("\"{}\"", "x".repeat(20_000))),
    );
    assert_eq!(reopen(Version(version.0 - 1), &small), Lived::Moved);
    assert_eq!(member.store.input(no).unwrap(), before);
    assert_eq!(reopen(version, &small), Lived::Done);
    assert_eq!(member.store.input(no).unwrap(), Some(small));
    assert_eq!(member.store.input(beside).unwrap(), before);

    let claims = member.claim(70, 1, 1);
    let held = member.held(&claims.runs[0].row, &claims.runs[0].claimed[0]);
    let mut last = member.last(&held);
    last.status = Status::Faulted;
    assert_eq!(member.commit(last), DONE);
    assert_eq!(reopen(member.head(no).version, &large), Lived::Done);
    assert_eq!(member.store.input(no).unwrap(), Some(large));
}

pub(super) fn a_child_that_has_reported_is_not_taken_up_again(harness: &dyn Harness) {
    let member = Member::join(harness);
    let parent = member.create(member.draft(1));
    let mut new = member.draft(1);
    new.owner = Some(member.incarnation);
    new.triggers[0].claimed = true;
    new.parent = Some(Parent {
        run: parent,
        id: member.head(parent).id,
        trigger: TriggerNo(1),
        seq: windlass_model::Seq(1),
        depth: 1,
        root: parent,
        flow: "w".into(),
        undoes: false,
    });
    let held = Held::born(&new);
    let no = member.create(new);
    let mut last = member.last(&held);
    last.status = Status::Cancelled;
    assert_eq!(member.commit(last), DONE);
    let reopen = member.reopening(no, member.head(no).version);
    let lived = member.write(LifeOp::Reopen(Box::new(reopen)));
    assert_eq!(lived, Lived::Reported);
    assert_eq!(member.head(no).status, Status::Cancelled);
}

/// Fails a run permanently, and returns the number of its dead letter.
fn failed_for_good(member: &Member, held: &Held) -> LetterNo {
    let run = held.fence.run;
    let mut last = member.last(held);
    last.status = Status::Faulted;
    last.dead = vec![NewDeadLetter {
        reason: "failed".into(),
        body: LetterBody::Trigger(DeadTrigger {
            run,
            seq: Seq(1),
            kind: TriggerType::Next,
            node: Some(0),
            priority: 0,
            payload: None,
            detail: "".into(),
        }),
        failure: Some(Failure::new(
            Class::Permanent,
            Code::new("WL-R001"),
            "it failed",
        )),
        at_ms: 40,
    }];
    assert_eq!(member.commit(last), DONE);
    let query = LetterQuery {
        run: Some(run),
        limit: 10,
        ..LetterQuery::default()
    };
    let letters = member.store.dead_letters(&query).unwrap();
    assert_eq!(letters.len(), 1);
    letters[0].no
}

pub(super) fn a_dead_letter_takes_its_run_up_again_once(harness: &dyn Harness) {
    let member = Member::join(harness);
    let held = member.born();
    let no = held.fence.run;
    let letter = failed_for_good(&member, &held);
    let beside = failed_for_good(&member, &member.born());
    let replay = |letter| {
        let reopen = Reopen {
            replays: Some(letter),
            ..member.reopening(no, member.head(no).version)
        };
        member.write(LifeOp::Reopen(Box::new(reopen)))
    };
    let replayed_ms = |letter| {
        let letter = member.store.dead_letter(letter).unwrap();
        letter.unwrap().replayed_ms
    };
    let stale = Reopen {
        replays: Some(letter),
        ..member.reopening(no, Version(0))
    };
    assert_eq!(member.write(LifeOp::Reopen(Box::new(stale))), Lived::Moved);
    assert_eq!(replayed_ms(letter), None, "what is refused leaves no trace");
    assert_eq!(replay(letter), Lived::Done);
    assert_eq!(replayed_ms(letter), Some(60));
    assert_eq!(replayed_ms(beside), None);
    assert_eq!(member.head(no).status, Status::Running);

    let claims = member.claim(70, 1, 1);
    let held = member.held(&claims.runs[0].row, &claims.runs[0].claimed[0]);
    let mut last = member.last(&held);
    last.status = Status::Faulted;
    assert_eq!(member.commit(last), DONE);
    let before = member.head(no);
    assert_eq!(replay(letter), Lived::Already);
    assert_eq!(replay(LetterNo(letter.0 + 1_000)), Lived::Already);
    assert_eq!(member.head(no), before);
    assert_eq!(member.triggers(no), []);
}
