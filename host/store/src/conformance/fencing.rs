//! Steps that are fenced, and their neighbours in the same batch.

use windlass_model::{Incarnation, Payload, RunNo, ScopeNo, TriggerNo, Version};

use super::Harness;
use super::world::{DONE, Held, Member, batch_of};
use crate::codes;
use crate::write::{Commit, Fenced, Release};

/// A step that writes to every table that a step can write to.
fn loud(member: &Member, held: &Held) -> Commit {
    let mut step = member.chained(held, 2);
    step.triggers.push(member.trigger(3));
    step.vars = vec![(
        ScopeNo::ROOT,
        "loud".into(),
        Payload::json(format!("\"{}\"", "x".repeat(70_000))),
    )];
    step
}

pub(super) fn stale_fences_write_nothing(harness: &dyn Harness) {
    let member = Member::join(harness);
    let held = member.born();
    let other = member.born();
    let no = held.fence.run;
    let before = (
        member.head(no),
        member.triggers(no),
        member.store.counts().unwrap(),
    );
    type Spoil = fn(&mut Commit, &Held);
    let stale: [(&str, Spoil); 8] = [
        ("another epoch", |step, _| step.fence.epoch.0 += 1),
        ("an old epoch", |step, _| step.fence.epoch.0 -= 1),
        ("a version ahead", |step, _| step.fence.version = Version(1)),
        ("no member", |step, _| {
            step.fence.incarnation = Incarnation(77)
        }),
        ("no run", |step, _| step.fence.run = RunNo(77)),
        ("another token", |step, _| step.trigger.token.0 += 1),
        ("no trigger", |step, _| step.trigger.no = TriggerNo(77)),
        ("a foreign trigger", |step, other| {
            step.trigger = other.trigger
        }),
    ];
    for (why, spoil) in stale {
        let mut step = loud(&member, &held);
        spoil(&mut step, &other);
        assert_eq!(member.commit(step), Err(Fenced), "{why}");
        let after = (
            member.head(no),
            member.triggers(no),
            member.store.counts().unwrap(),
        );
        assert_eq!(after, before, "{why}");
        assert_eq!(
            member.store.vars(no, ScopeNo::ROOT).unwrap().len(),
            1,
            "{why}"
        );
    }
    assert_eq!(member.commit(loud(&member, &held)), DONE);
}

pub(super) fn neighbours_of_the_refused_go_on(harness: &dyn Harness) {
    let member = Member::join(harness);
    let chains: Vec<Held> = (0..3).map(|_| member.born()).collect();
    let mut steps = Vec::new();
    for (place, held) in chains.iter().enumerate() {
        let mut first = loud(&member, held);
        if place == 1 {
            first.trigger.token.0 += 1;
        }
        steps.push(first);
        steps.push(member.chained(&held.next(), 3));
    }
    let answers: Vec<_> = batch_of(&*member.store, steps)
        .into_iter()
        .map(|answer| answer.unwrap() == DONE)
        .collect();
    assert_eq!(answers, [true, true, false, false, true, true]);
    let versions: Vec<_> = chains
        .iter()
        .map(|held| member.head(held.fence.run).version.0)
        .collect();
    assert_eq!(versions, [2, 0, 2]);
}

pub(super) fn a_contradiction_spoils_only_itself(harness: &dyn Harness) {
    let member = Member::join(harness);
    let chains: Vec<Held> = (0..3).map(|_| member.born()).collect();
    let mut steps: Vec<Commit> = chains.iter().map(|held| loud(&member, held)).collect();
    // The number of an existing execution record cannot be used again.
    steps[1].executions[0].no = steps[0].executions[0].no;
    let answers = batch_of(&*member.store, steps);
    for place in [0, 2] {
        assert_eq!(*answers[place].as_ref().unwrap(), DONE);
    }
    let error = answers[1].as_ref().unwrap_err();
    assert_eq!(
        (error.code.clone(), error.transient),
        (codes::CONTRADICTION, false)
    );
    let spoilt = chains[1].fence.run;
    assert_eq!(member.head(spoilt).version, Version(0));
    assert_eq!(member.store.vars(spoilt, ScopeNo::ROOT).unwrap().len(), 1);
    assert_eq!(member.only_trigger(spoilt).token, chains[1].trigger.token);
    assert_eq!(member.commit(loud(&member, &chains[1])), DONE);
}

pub(super) fn a_finished_run_stays_finished(harness: &dyn Harness) {
    let member = Member::join(harness);
    let held = member.born();
    assert_eq!(member.commit(member.last(&held)), DONE);
    let row = member.head(held.fence.run);
    for step in [loud(&member, &held), loud(&member, &held.next())] {
        assert_eq!(member.commit(step), Err(Fenced));
    }
    let release = Release {
        fence: held.next().fence,
    };
    assert_eq!(member.write(release), Err(Fenced));
    assert_eq!(member.head(held.fence.run), row);
}
