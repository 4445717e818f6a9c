//! A root run has a bounded number of descendants, and none that begins after the run was asked to
//! end.

use std::sync::Arc;

use windlass_model::{Class, Delivery, Failure, Resumption, RunNo, Seq, Status, TriggerType};

use super::waiting::stimulus;
use super::world::{DONE, DUE, Held, Member};
use super::{Harness, publishing};
use crate::codes;
use crate::external::Touched;
use crate::letters::{LetterBody, LetterQuery, NewDeadLetter};
use crate::lives::{LifeOp, Lived};
use crate::rows::{Parent, RunRow, SenderTree, TreeBound};
use crate::stimuli::{Send, StimulusQuery};
use crate::transfer::Imported;
use crate::write::Commit;

/// The most descendants that the hosts of these cases allow.
const HOST: u32 = 4;

/// What a parent got instead of a child.
type Refused = (Class, String);

impl Member {
    /// The parent of a child that the step of a claimed trigger creates.
    pub(super) fn parent_of(&self, held: &Held) -> Parent {
        let row = self.head(held.fence.run);
        let above = row.parent.as_ref();
        Parent {
            run: row.no,
            id: row.id,
            trigger: held.trigger.no,
            seq: Seq(7),
            depth: above.map_or(0, |parent| parent.depth) + 1,
            root: row.root(),
            flow: above.map_or("of the root".into(), |parent| Arc::clone(&parent.flow)),
            undoes: false,
        }
    }

    /// A step that creates a child; its trigger stays claimed as the first of the successors, and
    /// another row waits for the child.
    pub(crate) fn bearing(&self, held: &Held, change: impl FnOnce(&mut Parent)) -> Commit {
        let mut waits = self.trigger(7);
        (waits.kind, waits.due_ms) = (TriggerType::Child, i64::MAX);
        let mut parent = self.parent_of(held);
        parent.trigger = waits.no;
        change(&mut parent);
        let mut child = self.draft(1);
        child.parent = Some(parent);
        let chained = self.chained(held, 2);
        Commit {
            triggers: chained.triggers.iter().cloned().chain([waits]).collect(),
            children: vec![child],
            tree: TreeBound {
                workflow: u32::MAX,
                host: HOST,
            },
            ..chained
        }
    }

    /// Carries out such a step. Returns the number of the child, or the answer to the parent.
    pub(crate) fn bear(&self, step: Commit) -> Result<RunNo, Refused> {
        let child = &step.children[0];
        let (no, waits) = (child.no, child.parent.as_ref().unwrap().trigger);
        let parent = step.fence.run;
        assert_eq!(self.commit(step), DUE);
        let rows = self.triggers(parent);
        let row = rows.iter().find(|row| row.no == waits).unwrap();
        let Some(told) = &row.payload else {
            assert_eq!(self.head(no).parent.unwrap().run, parent);
            return Ok(no);
        };
        assert_eq!(self.store.run_by_no(no).unwrap(), None);
        let Resumption::Child {
            status,
            failure: Some(failure),
            ..
        } = Resumption::decode(told).unwrap()
        else {
            panic!("{told:?}")
        };
        assert_eq!(status, "faulted");
        let Failure { class, code, .. } = failure;
        Err((class, code.to_string()))
    }

    /// Claims the only trigger of a child.
    pub(crate) fn take(&self, child: RunNo) -> Held {
        let all = self.claim_all(40);
        *all.iter().find(|held| held.fence.run == child).unwrap()
    }
}

fn bound() -> Result<RunNo, Refused> {
    Err((Class::Limit, codes::TOO_MANY_DESCENDANTS.to_string()))
}

fn ending() -> Result<RunNo, Refused> {
    Err((Class::Cancelled, codes::CHILD_ENDING.to_string()))
}

pub(crate) fn nothing(_: &mut Parent) {}

pub(super) fn a_root_has_so_many_descendants(harness: &dyn Harness) {
    let member = Member::join(harness);
    let root = member.born();
    let child = member.bear(member.bearing(&root, nothing)).unwrap();
    let root = root.next();
    // Descendants of a child count for the root.
    let held = member.take(child);
    member.bear(member.bearing(&held, nothing)).unwrap();
    let held = held.next();
    member.bear(member.bearing(&held, nothing)).unwrap();
    let held = held.next();
    member.bear(member.bearing(&root, nothing)).unwrap();
    let root = root.next();
    assert_eq!(member.bear(member.bearing(&held, nothing)), bound());
    assert_eq!(member.bear(member.bearing(&root, nothing)), bound());
    let (held, root) = (held.next(), root.next());
    // A descendant that has ended stays counted.
    assert_eq!(member.commit(member.last(&held)), DUE);
    assert_eq!(member.bear(member.bearing(&root, nothing)), bound());
    // Another host allows more, and another root has a count of its own.
    let root = root.next();
    let mut step = member.bearing(&root, nothing);
    step.tree.host = HOST + 1;
    member.bear(step).unwrap();
    let other = member.born();
    member.bear(member.bearing(&other, nothing)).unwrap();
    assert_eq!(
        member
            .store
            .children(other.fence.run, None, 9)
            .unwrap()
            .len(),
        1
    );
}

pub(super) fn the_workflow_of_the_root_bounds_its_tree(harness: &dyn Harness) {
    let member = Member::join(harness);
    let root = member.born();
    let mut step = member.bearing(&root, nothing);
    step.tree.workflow = 2;
    let child = member.bear(step).unwrap();
    // The workflows of its descendants do not matter.
    let held = member.take(child);
    let mut step = member.bearing(&held, nothing);
    step.tree.workflow = 4;
    member.bear(step).unwrap();
    let mut step = member.bearing(&held.next(), nothing);
    step.tree.workflow = 4;
    assert_eq!(member.bear(step), bound());
    // None at all.
    let root = member.born();
    let mut step = member.bearing(&root, nothing);
    step.tree.host = 0;
    assert_eq!(member.bear(step), bound());
}

pub(super) fn a_child_that_is_not_created_is_not_counted(harness: &dyn Harness) {
    let member = Member::join(harness);
    let mut first = member.draft(1);
    first.reserves = vec!["one".into()];
    first.triggers[0].due_ms = 1000;
    member.create(first);
    let mut root = member.born();
    for _ in 0..2 * HOST {
        let mut step = member.bearing(&root, nothing);
        step.children[0].exclusive = Some("one".into());
        let refused = Err((Class::Rejected, codes::CHILD_REFUSED.to_string()));
        assert_eq!(member.bear(step), refused);
        root = root.next();
    }
    for _ in 0..HOST {
        member.bear(member.bearing(&root, nothing)).unwrap();
        root = root.next();
    }
    assert_eq!(member.bear(member.bearing(&root, nothing)), bound());
}

pub(super) fn a_cancelled_run_has_no_more_descendants(harness: &dyn Harness) {
    let member = Member::join(harness);
    for kind in [TriggerType::Cancel, TriggerType::Delete] {
        let root = member.born();
        let child = member.bear(member.bearing(&root, nothing)).unwrap();
        let held = member.take(child);
        let id = member.head(root.fence.run).id;
        match kind {
            TriggerType::Cancel => {
                assert_eq!(member.asked(id, kind, 50), Touched::Done);
            }
            _ => {
                let delete = LifeOp::Delete {
                    run: id,
                    no: member.numbers.trigger().unwrap(),
                    at_ms: 50,
                };
                assert_eq!(member.write(delete), Lived::Done);
            }
        }
        // The child does not know of it yet.
        assert_eq!(member.bear(member.bearing(&held, nothing)), ending());
        assert_eq!(member.bear(member.bearing(&root.next(), nothing)), ending());
        // A node is undone although runs above are cancelled, by a workflow with children of its
        // own.
        let undoes = |parent: &mut Parent| parent.undoes = true;
        let undoing = member.bear(member.bearing(&held.next(), undoes)).unwrap();
        let below = member.take(undoing);
        member.bear(member.bearing(&below, nothing)).unwrap();
    }
}

pub(super) fn a_cancellation_below_the_root_stops_only_the_runs_below_it(harness: &dyn Harness) {
    let member = Member::join(harness);
    let root = member.born();
    let child = member.bear(member.bearing(&root, nothing)).unwrap();
    let held = member.take(child);
    let id = member.head(child).id;
    let step = Commit {
        cancels: vec![id],
        ..member.chained(&root.next(), 2)
    };
    assert_eq!(member.commit(step), DUE);
    assert_eq!(member.bear(member.bearing(&held, nothing)), ending());
    let root = root.next().next();
    member.bear(member.bearing(&root, nothing)).unwrap();
}

pub(super) fn a_run_that_is_retried_has_descendants_again(harness: &dyn Harness) {
    let member = Member::join(harness);
    let root = member.born();
    let no = root.fence.run;
    member.bear(member.bearing(&root, nothing)).unwrap();
    let RunRow { id, .. } = member.head(no);
    assert_eq!(member.asked(id, TriggerType::Cancel, 50), Touched::Done);
    let root = root.next();
    assert_eq!(member.bear(member.bearing(&root, nothing)), ending());
    let mut last = member.last(&root.next());
    last.status = Status::Cancelled;
    assert_eq!(member.commit(last), DONE);
    let reopen = member.reopening(no, member.head(no).version);
    let lived = member.write(LifeOp::Reopen(Box::new(reopen)));
    assert_eq!(lived, Lived::Done);
    let mut root = member.take(no);
    for _ in 1..HOST {
        member.bear(member.bearing(&root, nothing)).unwrap();
        root = root.next();
    }
    assert_eq!(member.bear(member.bearing(&root, nothing)), bound());
}

pub(super) fn a_tree_is_counted_until_its_last_run_is_deleted(harness: &dyn Harness) {
    let member = Member::join(harness);
    // The root is deleted before its descendants.
    let mut root = member.born();
    let id = member.head(root.fence.run).id;
    let child = member.bear(member.bearing(&root, nothing)).unwrap();
    for _ in 2..HOST {
        root = root.next();
        member.bear(member.bearing(&root, nothing)).unwrap();
    }
    let held = member.take(child);
    assert_eq!(member.commit(member.last(&root.next())), DONE);
    assert_eq!(member.delete(id), Lived::Gone(root.fence.run));
    member.bear(member.bearing(&held, nothing)).unwrap();
    assert_eq!(member.bear(member.bearing(&held.next(), nothing)), bound());
    // A descendant is deleted before the root.
    let root = member.born();
    let child = member.bear(member.bearing(&root, nothing)).unwrap();
    let held = member.take(child);
    assert_eq!(member.commit(member.last(&held)), DUE);
    assert_eq!(member.delete(member.head(child).id), Lived::Gone(child));
    let mut root = root.next();
    for _ in 1..HOST {
        member.bear(member.bearing(&root, nothing)).unwrap();
        root = root.next();
    }
    assert_eq!(member.bear(member.bearing(&root, nothing)), bound());
}

pub(super) fn trees_leave_each_other_alone(harness: &dyn Harness) {
    let member = Member::join(harness);
    let mut full = member.born();
    for _ in 0..HOST {
        member.bear(member.bearing(&full, nothing)).unwrap();
        full = full.next();
    }
    let ended = member.born();
    let of_ended = member.head(ended.fence.run).id;
    assert_eq!(
        member.asked(of_ended, TriggerType::Cancel, 50),
        Touched::Done
    );
    // Another tree gives back a count, and forgets that its root was cancelled.
    let mut first = member.draft(1);
    first.reserves = vec!["one".into()];
    first.triggers[0].due_ms = 1000;
    member.create(first);
    let other = member.born();
    member.bear(member.bearing(&other, nothing)).unwrap();
    let other = other.next();
    let mut step = member.bearing(&other, nothing);
    step.children[0].exclusive = Some("one".into());
    assert!(member.bear(step).is_err());
    let (no, id) = (other.fence.run, member.head(other.fence.run).id);
    assert_eq!(member.asked(id, TriggerType::Cancel, 50), Touched::Done);
    let mut last = member.last(&other.next());
    last.status = Status::Cancelled;
    assert_eq!(member.commit(last), DONE);
    let reopen = member.reopening(no, member.head(no).version);
    let lived = member.write(LifeOp::Reopen(Box::new(reopen)));
    assert_eq!(lived, Lived::Done);
    assert_eq!(member.bear(member.bearing(&full, nothing)), bound());
    assert_eq!(member.bear(member.bearing(&ended, nothing)), ending());
}

pub(super) fn a_run_in_the_place_of_a_root_has_its_descendants(harness: &dyn Harness) {
    let member = Member::join(harness);
    let root = member.born();
    let id = member.head(root.fence.run).id;
    let child = member.bear(member.bearing(&root, nothing)).unwrap();
    let held = member.take(child);
    assert_eq!(member.commit(member.last(&held)), DUE);
    let mut last = member.last(&root.next());
    last.status = Status::Cancelled;
    assert_eq!(member.commit(last), DONE);
    let mut other = member.born();
    let of_other = member.bear(member.bearing(&other, nothing)).unwrap();
    let imported = member.write(member.in_place(&member.snapshot(id)));
    assert!(
        matches!(imported, Imported::Replaced { .. }),
        "{imported:?}"
    );
    let no = member.head_of(id).no;
    let parent = |child| member.head(child).parent.unwrap();
    assert_eq!((parent(child).run, parent(child).root), (no, no));
    assert_eq!(parent(of_other).root, other.fence.run);
    let reopen = member.reopening(no, member.head(no).version);
    let lived = member.write(LifeOp::Reopen(Box::new(reopen)));
    assert_eq!(lived, Lived::Done);
    let mut again = member.take(no);
    for _ in 1..HOST {
        member.bear(member.bearing(&again, nothing)).unwrap();
        other = other.next();
        member.bear(member.bearing(&other, nothing)).unwrap();
        again = again.next();
    }
    assert_eq!(member.bear(member.bearing(&again, nothing)), bound());
    assert_eq!(member.bear(member.bearing(&other.next(), nothing)), bound());
}

/// Several hosts create children of one root at the same time.
pub(super) fn creating_descendants_races_within_the_bound(harness: &dyn Harness) {
    const EACH: u32 = 20;
    let first = Member::join(harness);
    let root = first.born();
    let parents = [
        first.bear(first.bearing(&root, nothing)).unwrap(),
        first.bear(first.bearing(&root.next(), nothing)).unwrap(),
        first
            .bear(first.bearing(&root.next().next(), nothing))
            .unwrap(),
    ];
    let hosts: Vec<(Member, Held)> = parents
        .iter()
        .map(|_| {
            let member = Member::join(harness);
            let claims = member.claim(40, 1, 1);
            let claimed = &claims.runs[0];
            let held = member.held(&claimed.row, &claimed.claimed[0]);
            (member, held)
        })
        .collect();
    let most = 3 + 2 * EACH;
    let born: usize = std::thread::scope(|scope| {
        let one = |(member, held): &(Member, Held)| {
            let mut held = *held;
            let mut born = 0;
            for _ in 0..EACH {
                let mut step = member.bearing(&held, nothing);
                step.tree.host = most;
                match member.bear(step) {
                    Ok(_) => born += 1,
                    refused => assert_eq!(refused, bound()),
                }
                held = held.next();
            }
            born
        };
        let all: Vec<_> = hosts
            .iter()
            .map(|host| scope.spawn(move || one(host)))
            .collect();
        all.into_iter().map(|host| host.join().unwrap()).sum()
    });
    assert_eq!(born, 2 * EACH as usize);
    let children = |no| first.store.children(no, None, 99).unwrap().len();
    assert_eq!(parents.map(children).iter().sum::<usize>(), born);
}

/// Publishes a workflow that starts by a stimulus. Returns a stimulus of a run of the tree, and its
/// delivery.
fn starting(member: &Member, name: &str, tree: Option<SenderTree>) -> Send {
    let mut sent = stimulus(name, Delivery::StartAndResume);
    sent.tree = tree;
    let mut new = publishing::draft(name);
    new.bindings[0].hash = sent.hash;
    if member.store.published("orders").unwrap().is_none() {
        publishing::publish(member, new);
    }
    let starts = member.store.bindings(sent.hash).unwrap();
    let starts = starts.iter().map(|row| {
        let mut new = member.draft(1);
        let stored = member.store.definition(row.definition).unwrap();
        new.definition = Arc::new(stored.unwrap());
        new.tree = tree.map(|tree| tree.root);
        (row.no, new)
    });
    Send {
        starts: starts.collect(),
        stimulus: sent,
        queued: None,
        limit: Send::LIMIT,
        claim_for: None,
        descendants: HOST,
        at_ms: 50,
    }
}

fn of(root: RunNo) -> SenderTree {
    SenderTree {
        root,
        workflow: u32::MAX,
    }
}

pub(super) fn starts_by_stimuli_of_a_run_are_of_its_tree(harness: &dyn Harness) {
    let member = Member::join(harness);
    let root = member.born();
    let no = root.fence.run;
    // The queue keeps the tree of the sender.
    let mut step = member.chained(&root, 2);
    step.sends = vec![starting(&member, "chain", Some(of(no))).stimulus];
    assert_eq!(member.commit(step), DUE);
    let queued = member.store.queued(&StimulusQuery {
        limit: 9,
        ..StimulusQuery::default()
    });
    let queued = queued.unwrap();
    assert_eq!(queued[0].stimulus.tree, Some(of(no)));
    let send = Send {
        queued: Some(queued[0].no),
        ..starting(&member, "chain", queued[0].stimulus.tree)
    };
    let first = send.starts[0].1.no;
    assert_eq!(member.sent(send).started.len(), 1);
    let row = member.head(first);
    assert_eq!(
        (row.parent.clone(), row.tree, row.root()),
        (None, Some(no), no)
    );
    // Children, and the runs of other stimuli, count in the same tree.
    let held = member.take(first);
    member.bear(member.bearing(&held, nothing)).unwrap();
    for _ in 2..HOST {
        let sent = member.sent(starting(&member, "chain", Some(of(no))));
        assert_eq!((sent.started.len(), sent.refused), (1, false));
    }
    assert_eq!(member.bear(member.bearing(&held.next(), nothing)), bound());
    // A waiting run is resumed although the tree is full, and the dead letter only starts.
    let (waits, id) = member.waiting("chain");
    let sent = member.sent(starting(&member, "chain", Some(of(no))));
    assert_eq!((sent.started.len(), sent.refused), (0, true));
    assert_eq!(
        (sent.resumed, sent.buffered, sent.dropped),
        (vec![id], false, false)
    );
    assert_ne!(waits, no);
    let letters = member.store.dead_letters(&LetterQuery {
        limit: 9,
        ..LetterQuery::default()
    });
    let letters = letters.unwrap();
    assert_eq!(letters.len(), 1);
    let NewDeadLetter {
        reason,
        body,
        failure,
        ..
    } = &letters[0].letter;
    let failure = failure.as_ref().unwrap();
    assert_eq!(
        (reason.as_str(), failure.class, failure.code.to_string()),
        (
            "limit",
            Class::Limit,
            codes::TOO_MANY_DESCENDANTS.to_string()
        )
    );
    let LetterBody::Stimulus(dead) = body else {
        panic!("{body:?}")
    };
    assert_eq!((dead.delivery, dead.tree), (Delivery::Start, None));
    // A stimulus from outside starts a tree of its own.
    let sent = member.sent(starting(&member, "chain", None));
    assert_eq!((sent.started.len(), sent.refused), (1, false));
    let row = member.store.run(sent.started[0]).unwrap().unwrap();
    assert_eq!(row.root(), row.no);
}

pub(super) fn a_start_that_a_stimulus_does_not_create_is_not_counted(harness: &dyn Harness) {
    let member = Member::join(harness);
    let root = member.born().fence.run;
    let mut first = member.draft(1);
    first.reserves = vec!["one".into()];
    member.create(first);
    for _ in 0..2 * HOST {
        let mut send = starting(&member, "chain", Some(of(root)));
        send.starts[0].1.exclusive = Some("one".into());
        let sent = member.sent(send);
        assert_eq!((sent.reserved.len(), sent.refused), (1, false));
    }
    // The workflow of the root allows fewer than the host, and its first descendant decides.
    let lower = SenderTree { root, workflow: 2 };
    let other = member.born().fence.run;
    for (root, allowed) in [
        (of(root), HOST),
        (
            SenderTree {
                root: other,
                ..lower
            },
            2,
        ),
    ] {
        for place in 0..=allowed {
            let sent = member.sent(starting(&member, "chain", Some(root)));
            assert_eq!(sent.refused, place == allowed, "{place} of {root:?}");
        }
        let sent = member.sent(starting(&member, "chain", Some(of(root.root))));
        assert!(sent.refused);
    }
}

pub(super) fn a_tree_outlives_its_root_while_a_stimulus_has_started_a_run(harness: &dyn Harness) {
    let member = Member::join(harness);
    let root = member.born();
    let no = root.fence.run;
    let id = member.head(no).id;
    for _ in 0..HOST {
        assert!(
            !member
                .sent(starting(&member, "chain", Some(of(no))))
                .refused
        );
    }
    assert_eq!(member.commit(member.last(&root)), DONE);
    assert_eq!(member.delete(id), Lived::Gone(no));
    let sent = member.sent(starting(&member, "chain", Some(of(no))));
    assert!(sent.refused, "its descendants are there");
}
